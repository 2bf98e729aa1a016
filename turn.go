package zlnode

import (
	"context"

	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/session"
)

// ObjectContext is what an Actor or a Spot knows of itself, for as long as it lives. Safe
// for concurrent use.
type ObjectContext struct{ inner *node.ObjectContext }

// ID returns the object's id.
func (o *ObjectContext) ID() string { return o.inner.Ref().ID }

// Type returns the stable type; that of an Entry Spot is "entry".
func (o *ObjectContext) Type() string { return o.inner.Type() }

// Node returns the node that the object lives on.
func (o *ObjectContext) Node() *Node { return o.inner.Node().Outer().(*Node) }

// Generation returns what fences the object's writes to a database of the game's own.
func (o *ObjectContext) Generation() Generation {
	ref := o.inner.Ref()
	return Generation{ref.ObjectGen, ref.OwnerGen}
}

// Generation fences the writes of an object to a database of the game's own: of two
// writers of one id the one with the larger Generation is the present owner. Object tells
// incarnations of the id apart, Owner grows when an incarnation changes its node.
type Generation struct {
	Object uint64
	Owner  uint64
}

// Less reports whether g is before h.
func (g Generation) Less(h Generation) bool {
	return g.Object < h.Object || g.Object == h.Object && g.Owner < h.Owner
}

// Turn is one turn of an Actor or a Spot, for a message, a timer or a callback, and the
// context of that turn: it carries the message's deadline. It must not be kept after the
// turn nor used by another goroutine; nor may a context that is derived from it, as
// waiting with one lends the place of the handler's worker. For a goroutine take what it
// needs before:
//
//	self := c.Actor()
//	go func() { zlnode.Send(ctx, self.Node().Actor(self.ID()), "loaded", load()) }()
//
// If the object ends here while the turn waits, as its row turned out to be another's,
// what the turn still sends, requests, creates, destroys, does (Do), pushes or starts is
// refused with Unavailable.
type Turn struct {
	context.Context
	inner *node.Call
}

// Node returns the node that the object lives on.
func (t *Turn) Node() *Node { return t.inner.Object().Node().Outer().(*Node) }

// Packet returns the packet's name; "" in timers and callbacks.
func (t *Turn) Packet() string { return t.inner.Name() }

// Codec returns how the payload is encoded.
func (t *Turn) Codec() Codec { return Codec(t.inner.Codec()) }

// Metadata returns the message's metadata, valid during the turn.
func (t *Turn) Metadata() session.Metadata { return t.inner.Metadata() }

// StartTimer starts a timer of the object, for which its type has a handler. One of that
// name that runs already is replaced: no tick of it comes any more. An object has up to
// 64. Ticks that fall due while the node's lease is in doubt wait; none comes once the
// object is over here. It takes a turn: a factory has none, so an Actor's timers begin with
// one of its messages, and go along when it moves.
//
// Kinds: InvalidOperation, no handler or bad options, or the turn is in a yielded wait;
// CapacityExceeded; Unavailable.
func (t *Turn) StartTimer(name string, o TimerOptions) error {
	return t.inner.StartTimer(name, o.inner())
}

// StopTimer stops a timer and reports whether there was one. No callback of it starts
// any more. In a yielded wait it does nothing and returns false.
func (t *Turn) StopTimer(name string) bool { return t.inner.StopTimer(name) }

// Yielding returns t as a context that gives up the gate while a Request or Do waits: for
// members of a SpotWide User Spot, such Spots and Instance Spots. Meanwhile the other
// members, the Spot and its timers have turns; a member itself has none before this one is
// over, a Spot has. What the handler knew of the others' state may have changed after the
// wait. Elsewhere such a call fails with InvalidOperation before anything is sent, and with
// CapacityExceeded while too many handlers of the node wait so.
func (t *Turn) Yielding() context.Context { return t.inner.Yielding() }
