package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/session"
)

// SessionContext is what a Session's handlers know of their Session. Its
// methods are safe for concurrent use.
type SessionContext struct {
	conn *sessionConn
	// Outer is the public package's view of this value.
	Outer any
}

// ID returns the Session's number, unique on its node while the node lives.
func (s *SessionContext) ID() uint64 { return s.conn.id }

// RemoteAddr returns the client's address.
func (s *SessionContext) RemoteAddr() string { return s.conn.conn.RemoteAddr() }

// TLS returns what is known of the client's encryption; nil without.
func (s *SessionContext) TLS() *tls.ConnectionState { return s.conn.conn.TLS() }

// Node returns the node that the client is connected to.
func (s *SessionContext) Node() *Node { return s.conn.node }

// Bind binds an Actor to the Session; see the public package.
func (s *SessionContext) Bind(ctx context.Context, ref ActorRef) error {
	if err := s.conn.bind(ctx, ref); err != nil {
		return err
	}
	return nil
}

// Bindings returns the Actors that are bound to the Session now.
func (s *SessionContext) Bindings() (refs []ActorRef) {
	s.conn.eachBinding(func(b *sessionBinding) { refs = append(refs, b.ref) })
	return refs
}

// Binding returns the latest Actor of that type that is bound to the Session now.
func (s *SessionContext) Binding(actorType string) (ref ActorRef, bound bool) {
	var gen uint64
	s.conn.eachBinding(func(b *sessionBinding) {
		if b.typ == actorType && b.gen > gen {
			ref, gen = b.ref, b.gen
		}
	})
	return ref, gen != 0
}

// BoundTo returns the Actor of that id, and its type, if it is bound to the Session now.
func (s *SessionContext) BoundTo(id string) (ref ActorRef, actorType string, bound bool) {
	s.conn.eachBinding(func(b *sessionBinding) {
		if b.ref.ID == id {
			ref, actorType, bound = b.ref, b.typ, true
		}
	})
	return ref, actorType, bound
}

// NotifyDisconnected ends one binding; see the public package.
func (s *SessionContext) NotifyDisconnected(ctx context.Context, id string) error {
	if err := s.conn.disconnect(ctx, id); err != nil {
		return err
	}
	return nil
}

// Push sends a packet to the client. The bytes are copied.
func (s *SessionContext) Push(name string, codec uint8, meta, payload []byte) error {
	return s.PushWith(PushOptions{}, name, codec, meta, payload)
}

// PushWith is Push that says what may become of it.
func (s *SessionContext) PushWith(how PushOptions, name string, codec uint8, meta, payload []byte) error {
	typ := s.conn.port.typ.Name
	err := checkContent(opPush, typ, name, meta, payload)
	if err == nil {
		err = checkClientPayload(typ, payload)
	}
	if err == nil {
		err = how.check(typ)
	}
	if err == nil {
		meta, b := how.inFlow(nil, meta)
		defer b.Free()
		err = s.conn.send("", &how, name, codec, meta, payload)
	}
	if err != nil {
		return err.of(opPush, fmt.Sprint("session ", s.conn.id))
	}
	return nil
}

// Close ends the Session: what is queued for the client is sent before.
func (s *SessionContext) Close(text string) {
	s.conn.kick(engine.Requested, "kicked", text)
}

// SessionCall is one packet, or one callback, in its Session's turn, with the rules of Call.
type SessionCall struct {
	turnContext
	conn      *sessionConn
	packet    packet
	forwarded bool // the packet is a request, and its answer is an Actor's
	// Outer is the public package's view of this value.
	Outer any
}

// sessionCalls are those that no turn has. A call keeps its Outer, which is a view of it.
var sessionCalls = sync.Pool{New: func() any { return new(SessionCall) }}

// begin makes c the call of a turn for what was queued.
func (c *SessionCall) begin(s *sessionConn, g gate, queued *packet) {
	c.conn, c.packet, c.forwarded = s, *queued, false
	*queued = packet{}
	c.turnContext = turnContext{node: s.node, gate: g, session: true, deadline: clock.Never}
	if c.packet.Kind == session.KindRequest || c.packet.run != nil {
		c.deadline = clock.Now().Add(s.node.cfg.RequestTimeout)
	}
	c.flow = packetFlow(&c.packet.Packet)
	if c.packet.span != nil {
		c.inSpan(c.packet.span)
	}
}

// over ends the turn.
func (c *SessionCall) over() {
	c.packet.owner.Free()
	if c.end() {
		c.turnContext, c.conn, c.packet = turnContext{}, nil, packet{}
		sessionCalls.Put(c)
	}
}

// Session returns the Session whose turn it is.
func (c *SessionCall) Session() *SessionContext { return &c.conn.context }

// Name returns the packet's name, a view that is valid during the turn.
func (c *SessionCall) Name() []byte { return c.packet.Name }

// Metadata returns the encoded metadata, a view that is valid during the turn.
func (c *SessionCall) Metadata() []byte { return c.packet.Meta }

// Codec returns the number of the payload's codec.
func (c *SessionCall) Codec() uint8 { return uint8(c.packet.Codec) }

// Begin implements mailbox.Consumer.
func (s *sessionConn) Begin(*mailbox.Claim[packet]) {}

// Consume implements mailbox.Consumer: one packet, or one callback, is one turn.
func (s *sessionConn) Consume(claim *mailbox.Claim[packet], queued *packet) {
	c := sessionCalls.Get().(*SessionCall)
	defer c.over()
	c.begin(s, claim, queued)
	p := &c.packet
	switch {
	case p.run != nil:
		p.run(c)
		return
	case s.refused:
		s.refuse(&p.Packet, errSessionClosed)
		return
	}
	if s.node.cfg.Tracer != nil && c.span == nil {
		c.tracePacket()
	}
	if typ, ok := s.port.typ.Relays[string(p.Name)]; ok {
		if err := s.relayWaiting(c, &p.Packet, receiver{typ: typ}); err != nil {
			failSpan(c.span, err)
			s.refuse(&p.Packet, err)
		}
		return
	}
	ended := false
	defer func() {
		if !ended { // the handler ended its goroutine
			s.ran(c, p, Reply{}, errTurnEnded)
		}
	}()
	r, err := s.handle(c, p)
	ended = true
	s.ran(c, p, r, err)
}

// ran ends a packet whose handler has run, or that has none.
func (s *sessionConn) ran(c *SessionCall, p *packet, r Reply, err *Error) {
	asks := p.Kind == session.KindRequest && !c.forwarded
	failSpan(c.span, err)
	switch {
	case err == nil && asks:
		resp := session.ResponseTo(&p.Packet)
		resp.Codec, resp.Payload = session.Codec(r.Codec), r.Payload
		s.answer(&resp)
	case err != nil:
		if asks {
			s.refuse(&p.Packet, err)
		}
		s.failed(c, err)
	}
}

// failed counts a packet that was not handled as it should, and tells the application's
// OnError, or else the log: of what clients do wrong at level Debug, as there is no end of it.
func (s *sessionConn) failed(c *SessionCall, err *Error) {
	n, t := s.node, s.port.typ
	asks := c.packet.Kind == session.KindRequest && !c.forwarded // else an Actor answers, or nobody
	switch {
	case !asks:
		n.counters.failedSends.Add(1)
	case err.tellsOfDefect():
		n.counters.failedRequests.Add(1)
	}
	if t.OnError != nil && s.started {
		_ = guard(n, "session type", t.Name, func() error {
			t.OnError(c, s.instance, err)
			return nil
		}) // a panic was counted and logged; nobody waits for the result
		return
	}
	if asks && !err.tellsOfDefect() {
		return
	}
	said, what := &n.said.sendFailed, "a session's send handler failed"
	switch {
	case c.forwarded:
		what = "a session's handler failed after it had forwarded its packet"
	case asks:
		said, what = &n.said.requestFailed, "a session's request failed by its handler, or by who asked"
	}
	if err.isSenders() {
		logFlow(n.log.Debug().Uint64("session", s.id).Bytes("packet", c.packet.Name), &c.flow).Str("error", clip(err.Error())).Msg(what)
		return
	}
	if left, ok := said.Take(clock.Now()); ok {
		logFlow(n.log.Warn().Uint64("session", s.id).Bytes("packet", c.packet.Name), &c.flow).Str("error", clip(err.Error())).
			Int64("left_out", left).Msg(what)
	}
}

// start makes the Session's own value, before anything of its type runs.
func (s *sessionConn) start() *Error {
	if s.started {
		return nil
	}
	err := guard(s.node, "session type", s.port.typ.Name, func() (e error) {
		s.instance, e = s.port.typ.Factory(&s.context)
		return e
	})
	s.started = err == nil
	return err
}

// handle runs the packet's handler.
func (s *sessionConn) handle(c *SessionCall, p *packet) (r Reply, err *Error) {
	t := s.port.typ
	send, request := t.Sends[string(p.Name)], t.Requests[string(p.Name)]
	if p.Kind == session.KindRequest && request == nil || p.Kind == session.KindSend && send == nil {
		if t.OnError != nil { // which has the value
			if err = s.start(); err != nil {
				return r, err
			}
		}
		return r, fail(errkind.NotFound, "", t.Name, "no handler for packet %q", p.Name).ofDefect()
	}
	if err = s.start(); err != nil {
		return r, err
	}
	err = guardTry(s.node, "session type", t.Name, 1, &c.flow, func() (e error) {
		if p.Kind == session.KindRequest {
			r, e = request(c, s.instance, p.Payload)
			return e
		}
		return send(c, s.instance, p.Payload)
	})
	return r, err
}

// ended runs the application's part of the Session's end.
func (s *sessionConn) ended(c *SessionCall, why Disconnect) {
	defer s.node.ending.Add(-1)
	if t := s.port.typ; s.started && t.OnDisconnect != nil {
		_ = guard(s.node, "session type", t.Name, func() error {
			t.OnDisconnect(c, s.instance, why)
			return nil
		}) // a panic was counted and logged; nobody waits for the result
	}
	s.instance = nil
}
