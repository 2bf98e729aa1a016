package node

import (
	"sync/atomic"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/session"
)

// door stands before a Session whose client's packets are not taken as usual yet: while
// OnConnect runs, and until the client has authenticated. The connection's loop owns it.
type door struct {
	// until is when the client must have authenticated; Never: it need not, and its packets
	// wait for OnConnect in the Session's mailbox.
	until clock.Mono
	// asks is the answer that the request to authenticate will get, whose handler runs; nil:
	// none came yet. owner keeps it valid.
	asks  *session.Packet
	owner *buf.Buf
	// answered: the request has its end. Who sets it writes that.
	answered atomic.Bool
}

// doorTurns counts the turns of OnConnect and Authenticate for clients that have not
// authenticated. One goes on when its client has left, which gives its place among the
// connections back: so they have a bound of their own.
type doorTurns struct {
	most                       int64 // of each; ≤ 0: no bound
	connecting, authenticating atomic.Int64
}

// enter takes a place for a turn, which gives it back, or reports false.
func (t *doorTurns) enter(turns *atomic.Int64) bool {
	if n := turns.Add(1); t.most > 0 && n > t.most {
		turns.Add(-1)
		return false
	}
	return true
}

// locked reports whether the client must authenticate before anything else.
func (d *door) locked() bool { return d != nil && d.until != clock.Never }

// frameMaxOf bounds a client's frames, header and payload. 0: only by the protocol.
func (p *sessionPort) frameMaxOf(admitted bool) int {
	if admitted || p.frameMax != 0 && p.frameMax < authFrameMax {
		return p.frameMax
	}
	return authFrameMax
}

// frameMax bounds the Session's packets, plain.
func (s *sessionConn) frameMax() int { return s.port.frameMaxOf(!s.door.locked()) }

// shut begins a Session that has a door. Loop only.
func (s *sessionConn) shut(now clock.Mono) {
	s.door = &door{until: clock.Never}
	turns := &s.port.turns
	switch {
	case s.port.typ.Auth == nil:
		s.mailbox().PushControl(packet{run: s.connect})
		return
	case s.port.typ.OnConnect == nil:
	case !turns.enter(&turns.connecting):
		s.endAs(refusalReason(errDoorCrowded.Kind), engine.Rejected, errDoorCrowded.Text)
		return
	default:
		s.mailbox().PushControl(packet{run: func(c *SessionCall) {
			defer turns.connecting.Add(-1)
			s.connect(c)
		}})
	}
	s.door.until = now.Add(s.port.authTime)
}

// open takes the door away; what waits in the mailbox comes before what is relayed from now
// on. Loop only.
func (s *sessionConn) open() {
	s.door.owner.Free()
	s.door = nil
}

// connect is the turn of OnConnect.
func (s *sessionConn) connect(c *SessionCall) {
	err := errTurnEnded // what it is if the application's code ends its goroutine
	defer func() {
		switch {
		case err != nil:
			s.turnAway(err)
		case s.port.typ.Auth == nil:
			_ = s.conn.Post(func(*engine.Conn) { s.open() }) // it fails if the Session is over
		}
	}()
	if e := s.start(); e != nil {
		err = e
		return
	}
	err = guard(s.node, "session type", s.port.typ.Name, func() error { return s.port.typ.OnConnect(c, s.instance) })
}

// turnAway closes a Session that was refused. In its turn.
func (s *sessionConn) turnAway(err *Error) {
	s.refused = true
	s.node.log.Debug().Uint64("session", s.id).Str("error", clip(err.Error())).Msg("a session is refused")
	closeSessionAs(s, refusalReason(err.Kind), engine.Rejected, err.clientText())
}

// knock takes a packet of a client that has not authenticated: the request to do so, or the
// end of the Session. Loop only.
func (s *sessionConn) knock(p *session.Packet, owner *buf.Buf) {
	d := s.door
	if d.asks != nil || p.Kind != session.KindRequest || string(p.Name) != s.port.typ.AuthPacket {
		s.refuse(p, errNotAuthentic)
		s.answerLate(errNotAuthentic)
		s.end(session.ProtocolError, "nothing may be sent before the answer to the request to authenticate")
		return
	}
	until, turns := d.until, &s.port.turns
	if !turns.enter(&turns.authenticating) {
		s.refuse(p, errDoorCrowded)
		s.endAs(refusalReason(errDoorCrowded.Kind), engine.Rejected, errDoorCrowded.Text)
		return
	}
	if !s.enqueue(p, owner, nil, func(c *SessionCall) {
		defer turns.authenticating.Add(-1)
		c.deadline = until
		s.authenticate(c, d)
	}) {
		turns.authenticating.Add(-1)
		return
	}
	asks := session.ResponseTo(p)
	d.asks, d.owner = &asks, owner.Ref()
}

// late ends a Session whose client has not authenticated in time. Loop only.
func (s *sessionConn) late() {
	reason := session.ProtocolError
	if s.door.asks != nil {
		reason = refusalReason(errAuthLate.Kind)
	}
	s.answerLate(errAuthLate)
	s.endAs(reason, engine.Rejected, "the client has not authenticated in time")
}

// answerLate ends the request to authenticate, if it runs, before its handler does. Loop only.
func (s *sessionConn) answerLate(err *Error) {
	if d := s.door; d.asks != nil && !d.answered.Swap(true) {
		s.writeError(d.asks, err)
	}
}

// authenticate is the turn of Authenticate.
func (s *sessionConn) authenticate(c *SessionCall, d *door) {
	if s.refused || d.answered.Load() {
		return // by OnConnect, of which the client was told; or it is too late
	}
	if s.node.cfg.Tracer != nil {
		c.tracePacket()
	}
	var r Reply
	err := errTurnEnded // what it is if the application's code ends its goroutine
	defer func() { s.authenticated(c, d, r, err) }()
	if e := s.start(); e != nil {
		err = e
		return
	}
	err = guardTry(s.node, "session type", s.port.typ.Name, 1, &c.flow, func() (e error) {
		r, e = s.port.typ.Auth(c, s.instance, c.packet.Payload)
		return e
	})
}

// authenticated ends the request to authenticate. The client is admitted before it can read
// so, in one step of its loop; its next packet meets no door.
func (s *sessionConn) authenticated(c *SessionCall, d *door, r Reply, err *Error) {
	resp := session.ResponseTo(&c.packet.Packet)
	var frame *buf.Buf
	if err == nil {
		resp.Codec, resp.Payload = session.Codec(r.Codec), r.Payload
		frame, err = s.frame(&resp)
	}
	failSpan(c.span, err)
	if err != nil {
		if !d.answered.Swap(true) {
			s.writeError(&resp, err)
		}
		s.turnAway(err)
		s.failed(c, err)
		return
	}
	if s.conn.Post(func(conn *engine.Conn) {
		if d.answered.Swap(true) {
			frame.Free()
			return
		}
		conn.Admit()
		s.open()
		s.queue(frame)
	}) != nil {
		frame.Free()
	}
}
