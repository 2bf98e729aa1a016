package node

import (
	"context"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/wire"
)

func (n *Node) sealBinding(context.Context, *objectCell, binding, [16]byte) (clock.Mono, bool, *Error) {
	return 0, false, nil
}
func (n *Node) drained(binding, [16]byte, ActorRef)        {}
func (n *Node) abortBinding(binding, [16]byte, ActorRef)   {}
func (n *Node) adopt(*wire.MovedBinding) (binding, *Error) { return binding{}, nil }
func (n *Node) commitBinding(binding, [16]byte, ActorRef)  {}
