package zlnode

import (
	"context"
	"crypto/tls"

	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/session"
)

// ActorRef names one incarnation of an Actor at one place: ID, ObjectGen, Mesh and
// RID, and with Lifecycle and OwnerGen the generations of the place, which Bind
// checks. It is comparable, and as JSON shows generations as decimal strings.
type ActorRef = node.ActorRef

// ActorContext is what an Actor knows of itself, for as long as it lives. Safe
// for concurrent use.
type ActorContext struct{ ObjectContext }

func actorContext(c *node.ObjectContext) *ActorContext {
	o, ok := c.Outer.(*ActorContext)
	if !ok {
		o = &ActorContext{ObjectContext{c}}
		c.Outer = o
	}
	return o
}

// Ref returns the Actor's identity and place.
func (a *ActorContext) Ref() ActorRef { return a.inner.Ref() }

// SpotID returns the id of the Spot that the Actor is in at present: a User Spot, or the
// Entry Spot of its node.
func (a *ActorContext) SpotID() string { return a.inner.SpotID() }

// ActorCall is a turn of an Actor.
type ActorCall struct{ Turn }

func actorCall(c *node.Call) *ActorCall {
	o, ok := c.Outer.(*ActorCall)
	if !ok {
		o = &ActorCall{Turn{c, c}}
		c.Outer = o
	}
	return o
}

// Actor returns the Actor's context.
func (c *ActorCall) Actor() *ActorContext { return actorContext(c.inner.Object()) }

// FromSession reports whether the message came from the bound Session's client.
func (c *ActorCall) FromSession() bool { return c.inner.FromSession() }

// Bound reports whether a Session is bound to the Actor.
func (c *ActorCall) Bound() bool { return c.inner.Bound() }

// Push sends a one-way packet with a JSON payload to the bound Session's client.
// Without a binding it fails with InvalidOperation.
func (c *ActorCall) Push(packet string, v any) error { return c.PushAs(JSON, packet, v) }

// PushAs is Push in another codec.
func (c *ActorCall) PushAs(codec Codec, packet string, v any) error {
	b, err := encode(codec, v)
	if err != nil {
		return err
	}
	return c.inner.Push(packet, uint8(codec), nil, b)
}

// PushRaw is Push with bytes, which are copied.
func (c *ActorCall) PushRaw(packet string, payload []byte) error {
	return c.inner.Push(packet, uint8(Raw), nil, payload)
}

// SessionContext is what handlers know of their Session. Safe for concurrent use.
type SessionContext struct{ inner *node.SessionContext }

func sessionContext(c *node.SessionContext) *SessionContext {
	o, ok := c.Outer.(*SessionContext)
	if !ok {
		o = &SessionContext{c}
		c.Outer = o
	}
	return o
}

// ID returns the Session's number, unique on its node while the node lives.
func (s *SessionContext) ID() uint64 { return s.inner.ID() }

// RemoteAddr returns the client's address.
func (s *SessionContext) RemoteAddr() string { return s.inner.RemoteAddr() }

// TLS returns what is known of the client's encryption, such as the certificate that it has
// shown, which was verified (TLSFiles); nil by a Transport without. It is the caller's; what
// it points to must not be changed.
func (s *SessionContext) TLS() *tls.ConnectionState { return s.inner.TLS() }

// Node returns the node that the client is connected to.
func (s *SessionContext) Node() *Node { return s.inner.Node().Outer().(*Node) }

// Bind binds the Actor that ref names to the Session: from when it returns,
// packets are relayed to the Actor and it can push to the client. The Actor's
// owner checks the ref; InvalidOperation: the id is another incarnation now;
// Unavailable: the Actor is not there, or its node is not linked. An Actor has
// one binding: an earlier one, of another Session, ends at once, and so does that Session,
// which nobody waits for: see OnReplaced. Binding the same incarnation again does nothing,
// and is InvalidOperation if another Session has it. A Session may have up to 1,024 bindings.
//
// A binding goes along when its Actor moves to another node: the client's packets wait
// meanwhile, for SessionRelocationSealTimeout at most, and come in their order. To bind an
// Actor that is just moving is Unavailable. A binding ends with the Session,
// with the Actor, by NotifyDisconnected, and if the link to the Actor's node is lost. Packets
// are refused then and pushes fail with InvalidOperation, until the Actor is bound again. An
// Actor that is created again under its id needs a new binding.
func (s *SessionContext) Bind(ctx context.Context, ref ActorRef) error { return s.inner.Bind(ctx, ref) }

// Push sends a one-way packet with a JSON payload to the client.
func (s *SessionContext) Push(packet string, v any) error { return s.PushAs(JSON, packet, v) }

// PushAs is Push in another codec.
func (s *SessionContext) PushAs(codec Codec, packet string, v any) error {
	b, err := encode(codec, v)
	if err != nil {
		return err
	}
	return s.inner.Push(packet, uint8(codec), nil, b)
}

// PushRaw is Push with bytes, which are copied.
func (s *SessionContext) PushRaw(packet string, payload []byte) error {
	return s.inner.Push(packet, uint8(Raw), nil, payload)
}

// Close ends the Session; what is queued for the client is sent before. The client is told
// "kicked" and text, of which 504 bytes are kept: a client of package client does not come
// back by itself then.
func (s *SessionContext) Close(text string) { s.inner.Close(text) }

// SessionCall is one packet, or one callback of the type, in its Session's turn, with the
// rules of ActorCall. It is the turn's context, which ends with it, and for a request and a
// callback after RequestTimeout (Authenticate: when the client's time to authenticate is over).
type SessionCall struct {
	context.Context
	inner *node.SessionCall
}

func sessionCall(c *node.SessionCall) *SessionCall {
	o, ok := c.Outer.(*SessionCall)
	if !ok {
		o = &SessionCall{c, c}
		c.Outer = o
	}
	return o
}

// Session returns the Session's context.
func (c *SessionCall) Session() *SessionContext { return sessionContext(c.inner.Session()) }

// Node returns the node that the client is connected to.
func (c *SessionCall) Node() *Node { return c.Session().Node() }

// Packet returns the packet's name; in OnConnect and OnDisconnect it is empty.
func (c *SessionCall) Packet() string { return string(c.inner.Name()) }

// Codec returns how the payload is encoded.
func (c *SessionCall) Codec() Codec { return Codec(c.inner.Codec()) }

// Metadata returns the packet's metadata, valid during the turn.
func (c *SessionCall) Metadata() session.Metadata { return c.inner.Metadata() }

// Bind is Session().Bind within the turn.
func (c *SessionCall) Bind(ref ActorRef) error { return c.Session().Bind(c, ref) }
