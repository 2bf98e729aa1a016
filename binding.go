package zlnode

import (
	"context"

	"github.com/zlnode/zlnode/internal/node"
)

// SessionRef names the Session that an Actor is bound to, and the binding: RID and Lifecycle
// are those of the Session's node, ID is the Session's number there, and Binding the generation
// of the binding, which grows with each of that node. It is comparable; the zero value names
// none. A client that comes back has another one.
type SessionRef = node.SessionRef

// Session returns the bound Session's name; false: none is bound.
func (c *ActorCall) Session() (SessionRef, bool) { return c.inner.Session() }

// Reconnecting reports whether the client of the bound Session has lost its connection and may
// come back (SessionListener.ReconnectGrace): from when the Session's node has said so, until
// the Actor is bound to another Session, as when the client resumes, or its binding ends. It
// moves with the Actor. Pushes are kept for the client meanwhile. Without a binding it is
// false.
func (c *ActorCall) Reconnecting() bool { return c.inner.Reconnecting() }

// CloseSession asks for the end of the bound Session, behind what the Actor has pushed. It
// does not wait: the Session's node closes it if this binding is in force when the request
// comes there. The client is told "kicked" and text, of which 504 bytes are kept. The Actor
// stays, and its Spot hears of the lost client. Asking again does nothing.
//
// Kinds: InvalidOperation without a binding; Unavailable once the Actor has ended here.
func (c *ActorCall) CloseSession(text string) error { return c.inner.CloseSession(text) }

// BindOrGet binds the Actor of that type and id to the Session, which it creates with
// request, encoded as JSON, if it does not exist. If the Session has it bound already,
// nothing is asked of anybody. A node that has just lost the Actor by a move is not asked
// twice: its new place is looked up once. It names no mesh, so on a
// node that uses Actors of several it is InvalidOperation: there, GetOrCreateActor and Bind.
//
// Kinds: TypeMismatch: the id is of another type; Rejected: OnCreateActor refused it; and
// those of Node.GetOrCreateActor and Bind.
func (s *SessionContext) BindOrGet(ctx context.Context, actorType, id string, request any) (ActorRef, error) {
	if ref, typ, bound := s.inner.BoundTo(id); bound {
		if typ != actorType {
			return ActorRef{}, &Error{Kind: TypeMismatch, Op: "bind", Object: id, Text: "the session has an actor of type " + typ + " bound by that id"}
		}
		return ref, nil
	}
	var before ActorRef
	var stale error
	for {
		made, err := s.Node().GetOrCreateActor(ctx, CreateActor{ID: id, Type: actorType, Request: request})
		switch {
		case err != nil:
			return ActorRef{}, err
		case made.Outcome == OutcomeRejected:
			return ActorRef{}, &Error{Kind: Rejected, Op: "bind", Object: id, Text: "its creation was rejected"}
		case made.Ref == before: // it is where it was not to be bound
			return ActorRef{}, stale
		}
		err = s.Bind(ctx, made.Ref)
		if err == nil {
			return made.Ref, nil
		}
		if kind := KindOf(err); before.ID != "" || kind != Unavailable && kind != InvalidOperation {
			return ActorRef{}, err
		}
		before, stale = made.Ref, err
	}
}

// Bindings returns the Actors that are bound to the Session now, in no order. The slice is
// the caller's.
func (s *SessionContext) Bindings() []ActorRef { return s.inner.Bindings() }

// Binding returns the Actor of that type that was bound last, of those that are bound now:
// the one to which Relay sends.
func (s *SessionContext) Binding(actorType string) (ref ActorRef, bound bool) {
	return s.inner.Binding(actorType)
}

// NotifyDisconnected ends the binding of one Actor as if its client had left, and returns when
// the Actor's Spot has had its OnDisconnectActor, which runs once for a binding: the end of
// the connection does not call it again. The connection, the other bindings, the Actor and its
// membership stay. If ctx ends earlier, or the link is lost, the binding is over all the same.
//
// Kinds: NotFound: that Actor is not bound; Unavailable: it is just moving, and nothing was
// changed; DeadlineExceeded.
func (s *SessionContext) NotifyDisconnected(ctx context.Context, actorID string) error {
	return s.inner.NotifyDisconnected(ctx, actorID)
}

// BindOrGet is Session().BindOrGet within the turn.
func (c *SessionCall) BindOrGet(actorType, id string, request any) (ActorRef, error) {
	return c.Session().BindOrGet(c, actorType, id, request)
}

// Forward relays the packet of this turn to a bound Actor that the handler chooses, with its
// name, codec, metadata and payload, in order with the client's other packets. A request's
// answer is the Actor's, and goes to the client directly: what the handler returns then does
// not count. A request can be forwarded once, a one-way packet to several Actors.
//
// Kinds: InvalidOperation: that Actor is not bound, the request was forwarded already, or
// the turn is of no packet; CapacityExceeded, DeadlineExceeded and Unavailable: it was not
// sent.
func (c *SessionCall) Forward(actorID string) error { return c.inner.Forward(actorID) }

// OnReplaced registers what runs when an Actor of the Session was bound to another Session:
// once, in the Session's turn, behind the packets that wait there. Whoever bound the Actor does
// not wait for it. From then on the Session takes no input, but may push to its client; it
// is closed 100 ms after h has ended, or 30 s after the notice came, when c ends too. Without
// h it is closed 100 ms after the notice.
func OnReplaced[S any](t *SessionType[S], h func(c *SessionCall, s *S, actor ActorRef)) {
	t.once("OnReplaced", t.t.OnReplaced != nil)
	t.t.OnReplaced = func(c *node.SessionCall, s any, actor ActorRef) { h(sessionCall(c), s.(*S), actor) }
}

// NoticeKind says what a Session is told of.
type NoticeKind = node.NoticeKind

// The kinds. Handlers get the first two.
const (
	NoticeMoved    = node.NoticeMoved    // the Actor is at another node now; the binding stands
	NoticeEnded    = node.NoticeEnded    // the binding is over: the Actor was destroyed, or its node or the link to it is lost
	NoticeKicked   = node.NoticeKicked   // the application, or another Session, ends this one
	NoticeStopping = node.NoticeStopping // its node stops
)

// Notice is what a Session is told of one of its bindings. Kind says what; Actor, an ActorRef,
// names the Actor as it is now or last was, Type is its stable type, and Text is for logs.
type Notice = node.Notice

// OnNotice registers what runs when a bound Actor has moved, or its binding has ended other
// than by the Session's own doing; each in a turn of the Session, in the order in which it
// happened. At most 1,024 wait; more are counted as dropped.
func OnNotice[S any](t *SessionType[S], h func(c *SessionCall, s *S, n Notice)) {
	t.once("OnNotice", t.t.OnNotice != nil)
	t.t.OnNotice = func(c *node.SessionCall, s any, n Notice) { h(sessionCall(c), s.(*S), n) }
}

// NoticePacket has clients of the type told, too, by a one-way packet of that name with the
// JSON object
//
//	{"notice": "moved", "actor_type": "player", "actor": "player-ada", "text": ""}
//
// where notice is moved, ended, kicked (right before the Session is closed by the application
// or for another Session) or stopping (right before its node closes it); empty fields are
// left out. Without it clients get no such packets.
func NoticePacket[S any](t *SessionType[S], packet string) {
	t.app.CheckName("notice packet", t.t.Name, packet, t.t.NoticePacket != "")
	t.t.NoticePacket = packet
}
