package zlnode

import (
	"encoding/hex"
	"reflect"
	"time"

	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/store"
)

// JoinCall is a Join that a handler may register, by Defer. One call registers one Join:
// a copy of it is the same call.
type JoinCall struct {
	registration *node.Registration
	to           node.Join
	request      any // to be encoded
}

// JoinSpot has the Actor become a member of the User Spot with that id when its handler has
// ended: see JoinCall.Defer. If the Spot is at another node the Actor moves there: see
// RelocationPolicy. If the Actor is a member already, the Join is accepted at once, without
// a reply, and nobody is asked. The request, as JSON, is what the Spot's OnActorJoin decides
// by; nil is an empty one.
func (c *ActorCall) JoinSpot(spotID string, request any) *JoinCall {
	return c.JoinSpotAs(JSON, spotID, request)
}

// JoinSpotAs is JoinSpot with a request in another codec.
func (c *ActorCall) JoinSpotAs(codec Codec, spotID string, request any) *JoinCall {
	return joinCall(c.inner, node.Join{Spot: spotID, Codec: uint8(codec)}, request)
}

// JoinSpotRaw is JoinSpot with bytes, which Defer copies.
func (c *ActorCall) JoinSpotRaw(spotID string, request []byte) *JoinCall {
	return joinCall(c.inner, node.Join{Spot: spotID, Request: request}, nil)
}

// JoinEntrySpot has the Actor return to an Entry Spot, which asks nobody.
func (c *ActorCall) JoinEntrySpot() *JoinCall { return joinCall(c.inner, node.Join{Entry: true}, nil) }

// JoinSpot is ActorCall.JoinSpot for a member of the Spot. Defer fails with NotFound if
// there is no such Actor at the node, and with InvalidOperation if it is elsewhere.
func (c *SpotCall) JoinSpot(actorID, spotID string, request any) *JoinCall {
	return c.JoinSpotAs(JSON, actorID, spotID, request)
}

// JoinSpotAs is JoinSpot with a request in another codec.
func (c *SpotCall) JoinSpotAs(codec Codec, actorID, spotID string, request any) *JoinCall {
	return joinCall(c.inner, node.Join{Actor: actorID, Spot: spotID, Codec: uint8(codec)}, request)
}

// JoinSpotRaw is JoinSpot with bytes, which Defer copies.
func (c *SpotCall) JoinSpotRaw(actorID, spotID string, request []byte) *JoinCall {
	return joinCall(c.inner, node.Join{Actor: actorID, Spot: spotID, Request: request}, nil)
}

// JoinEntrySpot is ActorCall.JoinEntrySpot for a member of the Spot.
func (c *SpotCall) JoinEntrySpot(actorID string) *JoinCall {
	return joinCall(c.inner, node.Join{Actor: actorID, Entry: true}, nil)
}

func joinCall(c *node.Call, to node.Join, request any) *JoinCall {
	return &JoinCall{c.Registration(), to, request}
}

// Timeout sets how long the Join may take, with the Actor's move if it comes to that: 1 ms
// to 2^31-1 ms from Defer on. Without it: 5 s.
func (j *JoinCall) Timeout(d time.Duration) *JoinCall {
	if j.to.Timeout = d; d == 0 {
		j.to.Timeout = -1 // which is refused, where 0 would be none
	}
	return j
}

// Defer registers the Join, with a copy of its request, and asks nobody. The Join begins
// when the handler has ended without error and its reply, if it has one, was encoded;
// otherwise it is dropped. From then on no message of the Actor runs, whenever it was sent,
// before the Join has ended and its OnJoinCompleted has: see JoinCompleter.
//
// An Actor's handlers of packets register it for the Actor itself, those of a User Spot or
// an Entry Spot and of their timers for a member at this node. An Actor's own timers and
// callbacks cannot: they send the Actor a message whose handler does. A handler that has
// registered a Join cannot wait for a request to that Actor.
//
// Kinds: InvalidOperation, if it is too late, or not one of these handlers, or the call was
// used, or the request is over 1 MiB; NotFound; Unavailable, while another Join of the
// Actor is pending; CapacityExceeded, over 64 Joins or 8 MiB of requests for one handler.
// On error nothing is registered.
func (j *JoinCall) Defer() error {
	to := j.to
	if j.request != nil {
		b, err := encode(Codec(to.Codec), j.request)
		if err != nil {
			return err
		}
		to.Request = b
	}
	return j.registration.Defer(to)
}

// JoinCompleter is a callback that an Actor's value may have. It is told how a Join ended
// as the Actor's last turn before its messages go on: behind the Spot's OnJoinedActor if the
// Actor is a member now.
//
// If it fails it is tried again, with the same Operation, until the Join's deadline, but for
// a second at least; the 1st, 2nd, 4th, 8th failure and so on are logged. After that the Actor stays sealed: what it holds does not run,
// what comes is Unavailable, and Node.StuckObjects has it until it is destroyed by its
// exact ref.
type JoinCompleter interface {
	OnJoinCompleted(c *ActorCall, done JoinDone) error
}

// JoinAdmitter is the callback of a User Spot that decides about an Actor which asks to be
// let in; without it all are. A rejection or an error leaves the Actor where it is. See
// Configurer.
//
// Others may be let in before this one's OnJoinedActor, and a Join that was let in may still
// fail, of which the Spot is not told: SpotCall.Members counts those on their way, too.
type JoinAdmitter interface {
	OnActorJoin(c *JoinSpotCall) (Admission, error)
}

// JoinObserver is told of each Actor that has joined the User or Entry Spot, before the
// Actor is and before it has any turn there: not of new Actors, which begin in the Entry
// Spot. It is tried again as JoinCompleter is. A request to the Actor waits until after
// it, so it must not be waited for here.
type JoinObserver interface {
	OnJoinedActor(c *SpotCall, actor ActorRef) error
}

// LeaveObserver is told of each Actor that has left the User or Entry Spot by joining
// another, not of one that was destroyed. Nobody waits for it.
type LeaveObserver interface {
	OnLeaveActor(c *SpotCall, actor ActorRef) error
}

// JoinSpotCall is the turn in which a User Spot decides about an Actor.
type JoinSpotCall struct {
	*SpotCall
	Actor     ActorRef // where it is now
	ActorType string
	// Request is what the Join was registered with. It must not be modified.
	Request []byte
	codec   Codec
}

// Codec returns how the request is encoded.
func (c *JoinSpotCall) Codec() Codec { return c.codec }

// DecodeRequest decodes the request into v. An empty one leaves v as it is.
func (c *JoinSpotCall) DecodeRequest(v any) error { return decode(c.codec, c.Request, v) }

// JoinOutcome says how a Join ended.
type JoinOutcome uint8

// The outcomes.
const (
	JoinAccepted = JoinOutcome(node.JoinAccepted) // the Actor is a member of the Spot
	JoinRejected = JoinOutcome(node.JoinRejected) // by OnActorJoin; it is where it was
	JoinFailed   = JoinOutcome(node.JoinFailed)   // it is where it was; Err says why
)

// String returns the outcome's name.
func (o JoinOutcome) String() string {
	switch o {
	case JoinAccepted:
		return "Accepted"
	case JoinRejected:
		return "Rejected"
	case JoinFailed:
		return "Failed"
	default:
		return "JoinOutcome(?)"
	}
}

// OperationID tells Joins apart, and tries of one OnJoinCompleted do not.
type OperationID [16]byte

// String returns it as 32 hexadecimal digits.
func (o OperationID) String() string { return hex.EncodeToString(o[:]) }

// JoinDone is what became of a Join.
//
// Kinds of a failed one: NotFound, there is no such User Spot; Unavailable, the Spot is
// being closed, cannot be reached, or the actor may not be moved now; DeadlineExceeded;
// ShuttingDown; CapacityExceeded, at the Spot's node; Rejected, the Actor's type does not
// relocate; InvalidOperation, it is another incarnation; InternalFailure, also of an
// OnActorJoin that failed; DataLost.
type JoinDone struct {
	Operation OperationID
	Outcome   JoinOutcome
	Ref       ActorRef // of JoinAccepted: where the Actor is now
	Reply     []byte   // of OnActorJoin, if it gave one; of JoinAccepted and JoinRejected
	Err       error    // of JoinFailed; an *Error about the Actor, or about the Spot
}

// DecodeReply decodes a JSON reply into v.
func (d *JoinDone) DecodeReply(v any) error { return decode(JSON, d.Reply, v) }

func joinDone(d node.JoinDone) JoinDone {
	done := JoinDone{Operation: OperationID(d.Operation), Outcome: JoinOutcome(d.Result), Ref: d.Ref, Reply: d.Reply}
	if d.Err != nil {
		done.Err = d.Err
	}
	return done
}

// StuckObject is an Actor or a Spot that does not go on: Ref is the exact one for DestroyActor
// or CloseSpot, Type its stable type, SpotID the Spot that it is a member of, and Reason says for people which
// callback failed last and with what, or that one hangs, or that its move did not end. See
// JoinCompleter.
type StuckObject = node.StuckObject

// StuckObjects returns the Actors and Spots of the node that do not go on, by their ids: a
// callback that must succeed keeps failing, or nobody knows where they are after a move.
func (n *Node) StuckObjects() []StuckObject { return n.inner.StuckObjects() }

// actorCallbacks registers the callbacks that an Actor's value implements.
func actorCallbacks(app *App, t *node.ObjectType, value any) {
	checkCallbacks(app, "actor type", t.Name, value, reflect.TypeFor[JoinCompleter]())
	if implements[JoinCompleter](value) {
		t.OnJoinCompleted = func(c *node.Call, a any, done node.JoinDone) error {
			return a.(JoinCompleter).OnJoinCompleted(actorCall(c), joinDone(done))
		}
	}
	if implements[JoinAdmitter](value) || implements[JoinObserver](value) || implements[LeaveObserver](value) {
		app.app.Fail("actor type %q: OnActorJoin, OnJoinedActor and OnLeaveActor are called of Spots only", t.Name)
	}
}

// joinCallbacks registers those about members that a Spot's value implements.
func joinCallbacks(app *App, t *node.ObjectType, value any) {
	if implements[JoinAdmitter](value) {
		if t.Kind != store.UserSpot {
			app.app.Fail("spot type %q: nobody asks the OnActorJoin of a Spot that is no User Spot", t.Name)
		}
		t.OnActorJoin = func(c *node.Call, s any, ask node.JoinAsk) (node.Admission, error) {
			a, err := s.(JoinAdmitter).OnActorJoin(&JoinSpotCall{spotCall(c), ask.Actor, ask.Type, ask.Request, Codec(ask.Codec)})
			return a.inner, err
		}
	}
	joined, left := implements[JoinObserver](value), implements[LeaveObserver](value)
	if joined {
		t.OnJoinedActor = func(c *node.Call, s any, actor ActorRef) error {
			return s.(JoinObserver).OnJoinedActor(spotCall(c), actor)
		}
	}
	if left {
		t.OnLeaveActor = func(c *node.Call, s any, actor ActorRef) error {
			return s.(LeaveObserver).OnLeaveActor(spotCall(c), actor)
		}
	}
	if t.Kind == store.InstanceSpot && (joined || left) {
		app.app.Fail("spot type %q: an Instance Spot has no members, so nobody calls its OnJoinedActor or OnLeaveActor", t.Name)
	}
	if implements[JoinCompleter](value) {
		app.app.Fail("spot type %q: OnJoinCompleted is called of Actors only", t.Name)
	}
}
