package zlnode

import (
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/node"
)

// Error is how every failed operation ends. Its fields are Kind, Op (such as
// "request"), Object (the Actor, node or address that it was about), Text and Err
// (the cause, or nil). errors.Is(err, kind) is true for its Kind.
type Error = node.Error

// Kind says what sort of failure it was. It carries no advice to retry:
// what to do next follows from the kind and the operation.
type Kind = errkind.Kind

// The kinds. Their numbers travel between nodes, their snake-case codes to
// clients; neither ever changes.
const (
	NotFound         = errkind.NotFound         // the object, name or place does not exist
	AlreadyExists    = errkind.AlreadyExists    // it exists and must not
	TypeMismatch     = errkind.TypeMismatch     // it exists as another type
	NotConfigured    = errkind.NotConfigured    // the node was not given what this needs
	Rejected         = errkind.Rejected         // application code said no
	Unavailable      = errkind.Unavailable      // it cannot be reached or may not act now
	CapacityExceeded = errkind.CapacityExceeded // a queue of this node, or a placement limit, is full
	DeadlineExceeded = errkind.DeadlineExceeded // the time is over; the effect may still happen
	ShuttingDown     = errkind.ShuttingDown     // the node takes no new work
	ProtocolError    = errkind.ProtocolError    // malformed input
	InvalidOperation = errkind.InvalidOperation // not allowed, or not here
	DataLost         = errkind.DataLost         // state that should exist is gone
	InternalFailure  = errkind.InternalFailure  // application code or the engine failed
)

// Errorf makes an error for a handler to return. Its kind and text reach the
// caller as they are; a client reads them too, so they must tell nothing about
// the inside of the server. Any other error that a handler returns reaches a
// client as its kind alone; the node of a request's handler logs it if a program is at
// fault: InternalFailure, and what the engine found wrong, such as a payload that is not of
// the handler's form or a reply that is too long. Who creates an Actor or a User Spot by a call learns the kind
// alone of an error of its factory or its callbacks; for a text see Reject.
func Errorf(kind Kind, format string, args ...any) error {
	return node.Errorf(kind, format, args...)
}

// KindOf returns the kind of any error: InternalFailure for one that has none.
func KindOf(err error) Kind { return node.KindOf(err) }
