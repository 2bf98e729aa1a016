package node

import (
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// Failures that say the same to everybody. They are shared and never changed;
// of makes a copy that names an operation.
var (
	errTooManyPending   = &Error{Kind: errkind.CapacityExceeded, Text: "too many requests wait for a reply"}
	errNoReply          = &Error{Kind: errkind.DeadlineExceeded, Text: "no reply came by the deadline; the handler may still run"}
	errQueueFull        = &Error{Kind: errkind.CapacityExceeded, Text: "the actor's queue is full, or those of the node together"}
	errQueueFullThere   = &Error{Kind: errkind.Unavailable, Text: "the actor's queue is full at its node, or the node's queues together"}
	errServiceFull      = &Error{Kind: errkind.CapacityExceeded, Text: "the queue of the channel, or of the node's messages, is full, or the node's queues together"}
	errServiceFullThere = &Error{Kind: errkind.Unavailable, Text: "the queue of the channel, or of the node's messages, is full at the other node, or its queues together"}
	// Nobody has a list of all channels, so one that nobody serves now may be served a moment
	// later: that is Unavailable, as for a type that no node hosts, and not NotFound.
	errNoServer      = &Error{Kind: errkind.Unavailable, Text: "no other node that is linked serves the channel and takes messages; nothing was sent"}
	errNoServerYet   = &Error{Kind: errkind.Unavailable, Text: "no server of the channel came to be ready in the time that there was; nothing was sent"}
	errWaitersFull   = &Error{Kind: errkind.CapacityExceeded, Text: "too many senders wait for a server of the channel; nothing was sent"}
	errNoneTakes     = &Error{Kind: errkind.Unavailable, Text: "the links to the servers of the channel take nothing now; nothing was sent"}
	errNotSubmitted  = &Error{Kind: errkind.DeadlineExceeded, Text: "no server of the channel took the message in time; nothing was sent"}
	errNotOwner      = &Error{Kind: errkind.Unavailable, Text: "this node's owner lease is not confirmed; it acts again when the Store answers"}
	errGone          = &Error{Kind: errkind.NotFound, Text: "it was destroyed or closed"}
	errNotHere       = &Error{Kind: errkind.Unavailable, Text: "the object is not at this node", stale: true}
	errNoTypeHere    = &Error{Kind: errkind.Unavailable, Text: "the node does not host instance spots of that type", stale: true}
	errStoppingHere  = &Error{Kind: errkind.Unavailable, Text: "the spot's node is shutting down", stale: true}
	errNotOwnerHere  = &Error{Kind: errkind.Unavailable, Text: "the node's owner lease is not confirmed, so it creates nothing now", stale: true}
	errCordonedHere  = &Error{Kind: errkind.Unavailable, Text: "the node is cordoned, so nothing new comes into being there", stale: true}
	errNotFoundHere  = &Error{Kind: errkind.Unavailable, Text: "the Store names this node as its owner, and it is not here"}
	errTurnEnded     = &Error{Kind: errkind.InternalFailure, Text: "the handler ended its goroutine"}
	errBindingStale  = &Error{Kind: errkind.InvalidOperation, Text: "the session's binding to this actor is over"}
	errBindingOver   = &Error{Kind: errkind.NotFound, Text: "the session's binding to this actor is over"}
	errBindingLost   = &Error{Kind: errkind.Unavailable, Text: "the link to its node was lost; bind the actor again"}
	errBindingMoves  = &Error{Kind: errkind.Unavailable, Text: "the actor is moving to another node"}
	errReplaced      = &Error{Kind: errkind.InvalidOperation, Text: "the actor was bound to another session"}
	errBindingsFull  = &Error{Kind: errkind.CapacityExceeded, Text: "the session is bound to as many actors as it may be"}
	errCreationRuns  = &Error{Kind: errkind.Unavailable, Text: "the same creation is already running"}
	errNotBound      = &Error{Kind: errkind.InvalidOperation, Text: "no session is bound to this actor"}
	errSessionClosed = &Error{Kind: errkind.Unavailable, Text: "the session is closed"}
	errSessionTaken  = &Error{Kind: errkind.InvalidOperation, Text: "another session has taken this one's place, which is about to be closed"}
	errSessionSlow   = &Error{Kind: errkind.Unavailable, Text: "the client takes its messages too slowly; its session is closed"}
	errNoGrace       = &Error{Kind: errkind.InvalidOperation, Text: "the session's listener has no ReconnectGrace"}
	errResumes       = &Error{Kind: errkind.InvalidOperation, Text: "the session is over, or is just resuming another one"}
	errNoReserve     = &Error{Kind: errkind.NotFound, Text: "there is no session of that token at this node, or it is over or was resumed already"}
	errPushesLost    = &Error{Kind: errkind.DataLost, Text: "pushes that the client has not got are not kept any more"}
	errSessionBusy   = &Error{Kind: errkind.CapacityExceeded, Text: "the session has too many packets waiting"}
	errNotAuthentic  = &Error{Kind: errkind.Rejected, Text: "the client has not authenticated"}
	errAuthLate      = &Error{Kind: errkind.DeadlineExceeded, Text: "the authentication took too long"}
	errDoorCrowded   = &Error{Kind: errkind.CapacityExceeded, Text: "too many clients connect or authenticate at once"}
	errAuthTwice     = &Error{Kind: errkind.InvalidOperation, Text: "the client has authenticated before"}
	errStoppingThere = &Error{Kind: errkind.Unavailable, Text: "the other node is shutting down and takes nothing new"}
	errStoppedThere  = &Error{Kind: errkind.Unavailable, Text: "the other node has shut down before it came to the message, which was not executed"}
	errStopping      = &Error{Kind: errkind.ShuttingDown, Text: "the node is shutting down"}
	errLinkLost      = &Error{Kind: errkind.Unavailable, Text: "the link to the other node was lost; the request may have run"}
	errNoYield       = &Error{Kind: errkind.InvalidOperation, Text: "only handlers of a SpotWide User Spot, of its members and of an Instance Spot can yield; wait with the call itself"}
	errYieldLate     = &Error{Kind: errkind.InvalidOperation, Text: "the yielding context is of a turn that is over"}
	errSameGate      = &Error{Kind: errkind.InvalidOperation, Text: "it runs under the gate that this handler holds, so its reply could not come; wait with Yielding"}
	errYieldsFull    = &Error{Kind: errkind.CapacityExceeded, Text: "too many handlers of this node have yielded and wait"}
	errSelfRequest   = &Error{Kind: errkind.InvalidOperation, Text: "an object's handler cannot wait for the object itself"}
	errRepliesFull   = &Error{Kind: errkind.Unavailable, Text: "the handler ran, and its reply found no room on the link"}
	errNoCredit      = &Error{Kind: errkind.DeadlineExceeded, Text: "the other node took no more messages within the send timeout; nothing was sent"}
)

// of returns a copy that names the operation and the object.
func (e *Error) of(op, object string) *Error {
	c := *e
	c.Op, c.Object = op, object
	return &c
}

func errNoStore(op, id string) *Error {
	return fail(errkind.NotConfigured, op, id, "this node has no Location Store, so it knows no objects")
}

func errOwnerDead(op, id, rid string) *Error {
	return fail(errkind.Unavailable, op, id, "its owner, node %s, holds no valid lease, and nobody takes the object over; DestroyActor or CloseSpot with its exact ref frees the id", rid)
}

func errNoLink(op, id, rid string) *Error {
	return fail(errkind.Unavailable, op, id, "node %s is not linked; if it is dead, its ids can be freed once its lease is over", rid)
}

// errNoMesh is NotConfigured, as nothing but another configuration makes the object reachable.
func errNoMesh(op, id, mesh string) *Error {
	return fail(errkind.NotConfigured, op, id, "it is in mesh %q, of which this node uses no objects; name the mesh in the node's configuration", mesh)
}

func errIncarnation(op, id string, asked, is uint64) *Error {
	return fail(errkind.InvalidOperation, op, id, "the ref names incarnation %d, the object is %d", asked, is)
}

// errKind says that the id is another kind's than the one that was meant.
func errKind(op, id string, is store.Kind) *Error {
	return fail(errkind.TypeMismatch, op, id, "the id is of an object of kind %v", is)
}

// asError gives an application's error a kind.
func asError(err error) *Error {
	e, ok := err.(*Error) //nolint:errorlint // a wrapped one is wrapped again below, to keep the whole text
	if !ok {
		_ = err.Error() // if it panics, then here, where that is the handler's panic
		return &Error{Kind: KindOf(err), Err: err}
	}
	c := *e
	c.stale = false     // of another object, whose route the handler used
	c.defect = false    // likewise
	if !c.application { // its caller names the operation that it asked for
		c.Text, c.Op, c.Object = c.about()+c.Text, "", ""
	}
	if !c.Kind.Valid() {
		c.Kind = errkind.InternalFailure
	}
	return &c
}
