package node

import (
	"context"
	"fmt"

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

// Node returns the node that the client is connected to.
func (s *SessionContext) Node() *Node { return s.conn.node }

// Bind binds an Actor to the Session; see the public package.
func (s *SessionContext) Bind(ctx context.Context, ref ActorRef) error {
	if err := s.conn.bind(ctx, ref); err != nil {
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
		err = s.conn.send("", &how, name, codec, meta, payload)
	}
	if err != nil {
		return err.of(opPush, fmt.Sprint("session ", s.conn.id))
	}
	return nil
}

// Close ends the Session: what is queued for the client is sent before.
func (s *SessionContext) Close(reason session.CloseReason, diag string) {
	closeSession(s.conn, reason, diag)
}

// SessionCall is one packet in its Session's turn, with the rules of Call.
type SessionCall struct {
	turnContext
	conn   *sessionConn
	packet *packet
	// Outer is the public package's view of this value.
	Outer any
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

// Consume implements mailbox.Consumer: one packet is one turn.
func (s *sessionConn) Consume(claim *mailbox.Claim[packet], queued *packet) {
	p := *queued
	*queued = packet{}
	if p.closed != "" {
		s.ended(p.closed)
		return
	}
	defer p.owner.Free()
	c := &SessionCall{conn: s, packet: &p}
	c.node, c.gate, c.deadline = s.node, claim, clock.Never
	if p.Kind == session.KindRequest {
		c.deadline = clock.Now().Add(s.node.cfg.RequestTimeout)
	}
	defer c.end()
	if typ, ok := s.port.typ.Relays[string(p.Name)]; ok {
		s.relayWaiting(c, &p.Packet, typ, p.owner)
		return
	}
	r, err := s.handle(c, &p)
	switch {
	case p.Kind != session.KindRequest:
		if err != nil {
			s.node.counters.failedSends.Add(1)
			s.node.log.Warn().Uint64("session", s.id).Bytes("packet", p.Name).Str("error", clip(err.Error())).
				Msg("a session's send handler failed")
		}
	case err != nil:
		if err.tellsOfDefect() {
			s.node.counters.failedRequests.Add(1)
			s.node.log.Warn().Uint64("session", s.id).Bytes("packet", p.Name).Str("error", clip(err.Error())).
				Msg("a session's request failed by its handler, or by who asked")
		}
		s.refuse(&p.Packet, err)
	default:
		resp := session.ResponseTo(&p.Packet)
		resp.Codec, resp.Payload = session.Codec(r.Codec), r.Payload
		s.answer(&resp)
	}
}

// handle runs the packet's handler. The Session's own value is made before the
// first.
func (s *sessionConn) handle(c *SessionCall, p *packet) (r Reply, err *Error) {
	t := s.port.typ
	send, request := t.Sends[string(p.Name)], t.Requests[string(p.Name)]
	if p.Kind == session.KindRequest && request == nil || p.Kind == session.KindSend && send == nil {
		return r, fail(errkind.NotFound, "", t.Name, "no handler for packet %q", p.Name).ofDefect()
	}
	if !s.started {
		err = guard(s.node, "session type", t.Name, func() (e error) {
			s.instance, e = t.Factory(&s.context)
			return e
		})
		if err != nil {
			return r, err
		}
		s.started = true
	}
	err = guard(s.node, "session type", t.Name, func() (e error) {
		if p.Kind == session.KindRequest {
			r, e = request(c, s.instance, p.Payload)
			return e
		}
		return send(c, s.instance, p.Payload)
	})
	return r, err
}

// ended runs the application's part of the Session's end.
func (s *sessionConn) ended(reason string) {
	defer s.node.ending.Add(-1)
	if s.started && s.port.typ.OnClose != nil {
		_ = guard(s.node, "session type", s.port.typ.Name, func() error {
			s.port.typ.OnClose(&s.context, s.instance, reason)
			return nil
		}) // a panic was counted and logged; nobody waits for the result
	}
	s.instance = nil
}
