package zlnode

import (
	"context"

	"github.com/zlnode/zlnode/internal/node"
)

// App is what an application registers before it starts a node: types and their
// handlers. It is used by one goroutine and must not change after Start, which
// reports all mistakes of the registration at once. Nodes of one process may share one.
type App struct{ app *node.App }

// NewApp returns an empty App.
func NewApp() *App { return &App{node.NewApp()} }

// ActorType is an Actor type whose value is *A.
type ActorType[A any] struct {
	app *node.App
	t   *node.ObjectType
}

// Name returns the stable type.
func (t *ActorType[A]) Name() string { return t.t.Name }

// made is what a factory returned, which must be something.
func made[T any](value *T, err error) (any, error) {
	if err == nil && value == nil {
		return nil, Errorf(InternalFailure, "the factory returned neither a value nor an error")
	}
	return value, err
}

// DefineActor registers an Actor type. The stable type, 1–64 of A-Z a-z 0-9 . _ -,
// is the name under which all nodes know it. factory makes the value of a new
// Actor, never nil without an error. It runs at most once for an incarnation at its node, but a creation
// may need several tries, each with a value of its own; so it must not have effects
// outside the value. It runs again at each node that the Actor moves to, before the policy's
// Restore, and for each try of a move; OnCreateActor does not. The value and the context of
// a node that the Actor has left are over. The id of the Actor is its ActorContext.ID. Of callbacks *A may have
// OnJoinCompleted: see JoinCompleter.
func DefineActor[A any](app *App, stableType string, factory func(*ActorContext) (*A, error), policy RelocationPolicy) *ActorType[A] {
	var inner func(*node.ObjectContext) (any, error)
	if factory != nil {
		inner = func(c *node.ObjectContext) (any, error) { return made(factory(actorContext(c))) }
	}
	t := app.app.AddActor(stableType, inner)
	policy.apply(app, t, "actor type", (*A)(nil))
	actorCallbacks(app, t, (*A)(nil))
	return &ActorType[A]{app.app, t}
}

// OnSend registers the handler of a one-way packet, decoded as its codec says. An error
// is logged and counted; the sender does not learn of it.
func OnSend[A, M any](t *ActorType[A], packet string, h func(c *ActorCall, a *A, m M) error) {
	OnSendRaw(t, packet, func(c *ActorCall, a *A, payload []byte) error {
		var m M
		if err := decode(c.Codec(), payload, &m); err != nil {
			return err
		}
		return h(c, a, m)
	})
}

// OnRequest registers the handler of a request. Its reply has the request's codec. An
// error that it returns is the caller's result.
func OnRequest[A, Q, R any](t *ActorType[A], packet string, h func(c *ActorCall, a *A, q Q) (R, error)) {
	t.app.OnRequest(t.t, packet, func(c *node.Call, a any, payload []byte) (node.Reply, error) {
		var q Q
		if err := decode(Codec(c.Codec()), payload, &q); err != nil {
			return node.Reply{}, err
		}
		r, err := h(actorCall(c), a.(*A), q)
		return reply(Codec(c.Codec()), r, err)
	})
}

// OnSendRaw registers the handler of a one-way packet with any payload. The
// payload is valid during the call and must not be modified.
func OnSendRaw[A any](t *ActorType[A], packet string, h func(c *ActorCall, a *A, payload []byte) error) {
	t.app.OnSend(t.t, packet, func(c *node.Call, a any, payload []byte) error { return h(actorCall(c), a.(*A), payload) })
}

// OnRequestRaw registers the handler of a request with any payload. The payload
// is valid during the call and must not be modified. The reply has codec Raw; it
// is copied before the Actor's next turn, so it may be the payload or a block
// that the Actor uses again.
func OnRequestRaw[A any](t *ActorType[A], packet string, h func(c *ActorCall, a *A, payload []byte) ([]byte, error)) {
	t.app.OnRequest(t.t, packet, func(c *node.Call, a any, payload []byte) (node.Reply, error) {
		r, err := h(actorCall(c), a.(*A), payload)
		return node.Reply{Payload: r}, err
	})
}

// Admission is the decision of OnCreateActor, or of a Spot's OnCreate or OnActorJoin. The
// zero value accepts, without a reply.
type Admission struct{ inner node.Admission }

// Accept lets the object come into being, or the Actor into the Spot. reply reaches the
// creator, or the Actor, as it is; at most 1 MiB and copied when the decision is recorded.
// For the DecodeReply of Creation, SpotCreation and JoinDone it must be JSON.
func Accept(reply []byte) Admission { return Admission{node.Admission{Reply: reply}} }

// Reject refuses the object: it is never visible, takes no message and uses no
// capacity. An Actor that may not join stays where it is.
func Reject(reply []byte) Admission { return Admission{node.Admission{Reject: true, Reply: reply}} }

// CreateActorCall is a creation before the Entry Spot. It is the context of the
// decision and ends at the creation's deadline.
type CreateActorCall struct {
	context.Context
	// Actor is the staged Actor's context, Instance its value as the factory made it.
	Actor    *ActorContext
	Instance any
	// Request is what the creator gave. It must not be modified.
	Request []byte
}

// DecodeRequest decodes a JSON request into v.
func (c *CreateActorCall) DecodeRequest(v any) error { return decode(JSON, c.Request, v) }

// OnCreateActor registers the Entry Spot's decision about new Actors; without one
// all are accepted. An error, a panic or a missed deadline fails the creation.
// It may run for several Actors at once, and more than once for one creation.
func OnCreateActor(app *App, h func(*CreateActorCall) (Admission, error)) {
	if app.app.Entry.OnCreateActor != nil {
		app.app.Fail("OnCreateActor is registered twice")
	}
	app.app.Entry.OnCreateActor = func(c *node.CreateCall) (node.Admission, error) {
		a, err := h(&CreateActorCall{Context: c.Context, Actor: actorContext(c.Actor), Instance: c.Instance, Request: c.Request})
		return a.inner, err
	}
}

// SessionType is a session type whose value is *S.
type SessionType[S any] struct {
	app *node.App
	t   *node.SessionType
}

// once notes a mistake if a callback of the type is registered already.
func (t *SessionType[S]) once(callback string, registered bool) {
	if registered {
		t.app.Fail("%s of session type %q is registered twice", callback, t.t.Name)
	}
}

// DefineSession registers a session type. factory makes the value of a Session
// when it is needed first: for OnConnect, or else when its first packet for a handler comes.
func DefineSession[S any](app *App, name string, factory func(*SessionContext) (*S, error)) *SessionType[S] {
	var inner func(*node.SessionContext) (any, error)
	if factory != nil {
		inner = func(c *node.SessionContext) (any, error) { return factory(sessionContext(c)) }
	}
	return &SessionType[S]{app.app, app.app.AddSession(name, inner)}
}

// OnPacket registers the handler of a one-way packet of clients, decoded as its codec
// says.
func OnPacket[S, M any](t *SessionType[S], packet string, h func(c *SessionCall, s *S, m M) error) {
	t.app.CheckName("packet", t.t.Name, packet, t.t.Sends[packet] != nil)
	t.t.Sends[packet] = func(c *node.SessionCall, s any, payload []byte) error {
		var m M
		if err := decode(Codec(c.Codec()), payload, &m); err != nil {
			return err
		}
		return h(sessionCall(c), s.(*S), m)
	}
}

// OnPacketRequest registers the handler of a request of clients. Its reply has the
// request's codec. An error becomes the client's Error frame.
func OnPacketRequest[S, Q, R any](t *SessionType[S], packet string, h func(c *SessionCall, s *S, q Q) (R, error)) {
	t.app.CheckName("packet request", t.t.Name, packet, t.t.Requests[packet] != nil)
	t.t.Requests[packet] = packetRequest(h)
}

// packetRequest decodes a client's request for its handler, and encodes the reply.
func packetRequest[S, Q, R any](h func(c *SessionCall, s *S, q Q) (R, error)) node.SessionRequestHandler {
	return func(c *node.SessionCall, s any, payload []byte) (node.Reply, error) {
		var q Q
		if err := decode(Codec(c.Codec()), payload, &q); err != nil {
			return node.Reply{}, err
		}
		r, err := h(sessionCall(c), s.(*S), q)
		return reply(Codec(c.Codec()), r, err)
	}
}

// OnPacketRaw registers the handler of a one-way packet of clients. The payload
// is valid during the call and must not be modified.
func OnPacketRaw[S any](t *SessionType[S], packet string, h func(c *SessionCall, s *S, payload []byte) error) {
	t.app.CheckName("packet", t.t.Name, packet, t.t.Sends[packet] != nil)
	t.t.Sends[packet] = func(c *node.SessionCall, s any, payload []byte) error { return h(sessionCall(c), s.(*S), payload) }
}

// OnPacketRequestRaw registers the handler of a request of clients with any
// payload. Payload and reply have the rules of OnRequestRaw.
func OnPacketRequestRaw[S any](t *SessionType[S], packet string, h func(c *SessionCall, s *S, payload []byte) ([]byte, error)) {
	t.app.CheckName("packet request", t.t.Name, packet, t.t.Requests[packet] != nil)
	t.t.Requests[packet] = func(c *node.SessionCall, s any, payload []byte) (node.Reply, error) {
		r, err := h(sessionCall(c), s.(*S), payload)
		return node.Reply{Payload: r}, err
	}
}

// Relay sends packets of that name, one-way ones and requests, to the Session's
// binding of the Actor type (the latest, if there are several), without a
// handler in between. Packets of one client stay in order, relayed ones and
// those for handlers together.
func Relay[S any](t *SessionType[S], packet, actorType string) {
	t.app.CheckName("relay", t.t.Name, packet, t.t.Relays[packet] != "")
	t.t.Relays[packet] = actorType
}

// OnConnect registers what runs first in each Session of the type, before any packet of its
// client, and before it has authenticated. An error refuses the Session: it is closed, its
// client is told the kind's text, or that of an Errorf, and no packet is handled. The client's
// packets wait meanwhile, as in the queue of its Session.
//
// A Session of a type with OnConnect has its value and its queue from the beginning; without,
// an idle connection has neither.
func OnConnect[S any](t *SessionType[S], h func(c *SessionCall, s *S) error) {
	t.once("OnConnect", t.t.OnConnect != nil)
	t.t.OnConnect = func(c *node.SessionCall, s any) error { return h(sessionCall(c), s.(*S)) }
}

// Authenticate registers the request with which each client of the type must begin. Until it
// has succeeded nothing of the client is honoured but heartbeats and its own end: any other
// packet, also one that comes while the handler runs, is answered with Rejected if it is a
// request, and closes the Session. So a client waits for the answer before it goes on. Its
// frames are bounded to 4 KiB till then, and its time by SessionListener.AuthTimeout, which is
// also the handler's deadline.
//
// If the handler fails, panics or is late, the client gets its Error, and the Session is
// closed. A second such request, after a success, is InvalidOperation.
func Authenticate[S, Q, R any](t *SessionType[S], packet string, h func(c *SessionCall, s *S, q Q) (R, error)) {
	t.app.Authenticate(t.t, packet, packetRequest(h))
}

// OnError registers what is told of each packet that was not handled as it should: that its
// handler returned an error or panicked, that its payload is not what the handler takes, or
// that there is no handler of that name. err has its Kind and is not to be kept. It runs in
// the same turn, after the client was answered; c is the packet's. Without it such failures
// are logged: those of handlers as warnings, those of clients at level Debug. They are counted
// in Stats either way. Packets for a binding are not among them.
func OnError[S any](t *SessionType[S], h func(c *SessionCall, s *S, err *Error)) {
	t.once("OnError", t.t.OnError != nil)
	t.t.OnError = func(c *node.SessionCall, s any, err *node.Error) { h(sessionCall(c), s.(*S), err) }
}

// Disconnect tells why a Session ended: Code, a DisconnectCode, is for the program, and Text,
// which may be empty, for its log. Its String has both.
type Disconnect = node.Disconnect

// DisconnectCode says in one word why a Session ended. More may be added.
type DisconnectCode = node.DisconnectCode

// The codes.
const (
	ConnectionLost  = node.ConnectionLost  // the socket failed, or the move of a bound Actor took too long; the zero value
	ClientClosed    = node.ClientClosed    // the client said so, or ended its side in order
	ClientIdle      = node.ClientIdle      // no application input for SessionListener.IdleTimeout
	ClientSilent    = node.ClientSilent    // nothing at all was heard for 5 s
	ClientSlow      = node.ClientSlow      // it did not take its messages: SessionListener.OutBytes and StallTimeout
	ClientFault     = node.ClientFault     // it sent what no client may send
	OverLimit       = node.OverLimit       // a frame too large or too slow, or too much at once
	SessionRefused  = node.SessionRefused  // OnConnect or Authenticate failed, or the client did not authenticate in time
	SessionKicked   = node.SessionKicked   // SessionContext.Close or ActorCall.CloseSession
	SessionReplaced = node.SessionReplaced // an Actor of its was bound to another Session: OnReplaced
	NodeStopping    = node.NodeStopping    // Node.Shutdown
	SessionResumed  = node.SessionResumed  // its client has come back and goes on with another Session; see SessionContext.Resume
)

// OnDisconnect registers what runs in the Session's last turn, once, whatever ended it, if the
// Session has a value: if OnConnect, Authenticate or a handler ran, also if that refused the
// client. Its bindings are over by then, so s must know which Actors it had, and nothing can
// be sent to the client any more. A node that shuts down waits for it.
func OnDisconnect[S any](t *SessionType[S], h func(c *SessionCall, s *S, why Disconnect)) {
	t.once("OnDisconnect", t.t.OnDisconnect != nil)
	t.t.OnDisconnect = func(c *node.SessionCall, s any, why node.Disconnect) { h(sessionCall(c), s.(*S), why) }
}
