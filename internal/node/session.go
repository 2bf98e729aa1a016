package node

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/session"
)

// sessionConn is one client's connection. Its event loop reads it; handlers run
// in the turns of its own mailbox, which is made when the first packet for a
// handler comes, so that an idle session costs little.
type sessionConn struct {
	node *Node
	port *sessionPort
	conn *engine.Conn
	id   uint64

	// Owned by the loop.
	live    session.Liveness
	timer   clock.Mono // what the connection's timer is set to
	box     *mailbox.Mailbox[packet]
	door    *door // nil: the client's packets are taken as usual
	closing bool

	slow   atomic.Bool // closed because the client does not take its messages
	final  atomic.Bool // closed by somebody's will: it is not kept for a client that comes back
	keep   atomic.Pointer[keep]
	out    atomic.Pointer[sessionOut]
	routes atomic.Pointer[sessionRoutes]
	moving atomic.Int32 // bound Actors that move, or whose move is not over for this Session
	mu     sync.Mutex   // guards closed, changes of routes, what waits in them, and the sending of packets
	closed bool
	away   bool // its connection is lost and it is reserved, which the owners of its Actors know; mu guards it
	asked  int  // binds under way, which have a place each; mu guards it

	replacement atomic.Pointer[replacement] // nil: no other Session has taken an Actor of this one
	notices     atomic.Int32                // that wait for the Session's turn

	// Owned by the mailbox's claim.
	instance any
	started  bool
	refused  bool // OnConnect or the authentication failed: nothing is handled any more
	context  SessionContext
}

// sessionPort is what the connections of one listener share.
type sessionPort struct {
	node     *Node
	typ      *SessionType
	frameMax int
	// startFlows has packets without a flow begin one.
	startFlows bool
	// compressMin is the payload from which on packets to clients are compressed; 0: none.
	compressMin int
	authTime    time.Duration // of types with Authenticate
	turns       doorTurns     // likewise
	times       session.LivenessTimes
	moves       session.RouteLimits
	out         session.OutboxLimits
	grace       time.Duration // for which a Session is kept whose client has lost its connection; 0: none is
	keepBytes   int
}

// packet is one entry of a Session's mailbox. All slices are views that owner
// keeps valid.
type packet struct {
	session.Packet
	owner *buf.Buf
	span  trace.Span         // that it has already; nil: none. Its turn ends it
	run   func(*SessionCall) // what the turn does; nil: it is for the packet's handler or relay
}

// queueBytes is the budget of a Session's mailbox: that of small packets, and one
// of the largest.
func (p *sessionPort) queueBytes() int64 {
	if p.frameMax == 0 {
		return sessionQueueBytes + payloadBytesMax
	}
	return sessionQueueBytes + int64(p.frameMax)
}

// OnOpen implements engine.Handler.
func (p *sessionPort) OnOpen(c *engine.Conn) {
	now := clock.Now()
	s := &sessionConn{node: p.node, port: p, conn: c, id: p.node.sessionIDs.Add(1), live: session.NewLiveness(now, &p.times)}
	s.routes.Store(noRoutes)
	s.context.conn = s
	c.SetData(s)
	key := sessionKey(s.id)
	p.node.sessions.Store(string(key[:]), s)
	if p.node.stopping.Load() { // looked at after it is in the table, which a shutdown looks through
		s.end(session.ServerDrain, "")
		return
	}
	if p.typ.OnConnect != nil || p.typ.Auth != nil {
		s.shut(now)
	}
	if !s.closing {
		s.arm()
	}
}

// sessionKey is the id in the form of a map key.
func sessionKey(id uint64) (k [8]byte) {
	binary.BigEndian.PutUint64(k[:], id)
	return k
}

// session returns an open session of this node, or nil.
func (n *Node) session(id uint64) *sessionConn {
	key := sessionKey(id)
	s, _ := n.sessions.LoadBytes(key[:])
	return s
}

// OnFrame implements engine.Handler.
func (p *sessionPort) OnFrame(c *engine.Conn, frame []byte, owner *buf.Buf) error {
	s := c.Data().(*sessionConn)
	pk, err := session.Decode(frame)
	if err != nil {
		s.end(session.ProtocolError, err.Error())
		return nil
	}
	verdict := session.CheckInbound(&pk)
	s.step(verdict.Event())
	switch {
	case verdict != session.InboundDeliver || s.closing:
	case p.node.stopping.Load():
		s.refuse(&pk, errStopping)
	case s.replacement.Load() != nil:
		s.refuse(&pk, errSessionTaken)
	default:
		s.deliver(&pk, owner)
	}
	return nil
}

// OnTimer implements engine.Handler.
func (p *sessionPort) OnTimer(c *engine.Conn, now clock.Mono) {
	s := c.Data().(*sessionConn)
	s.timer = 0
	if s.door != nil && now.Reached(s.door.until) {
		s.late()
		return
	}
	s.step(session.Event{Kind: session.EventTimer})
}

// OnClose implements engine.Handler: the Session ends, unless its client may come back.
func (p *sessionPort) OnClose(c *engine.Conn, reason engine.CloseReason) {
	s := c.Data().(*sessionConn)
	why := disconnectOf(reason)
	if k := s.keep.Load(); k != nil && s.goesOn(k, reason, &why) {
		s.endOut()
	} else {
		s.over(why)
	}
	if s.door != nil {
		s.door.answered.Store(true) // by the end of the stream
		s.door.owner.Free()
	}
	p.node.log.Debug().Uint64("session", s.id).Str("address", c.RemoteAddr()).Str("reason", clip(reason.String())).Msg("session closed")
}

// over ends every binding, then the Session, whose connection is closed. Once, on the loop or
// after it has told of that.
func (s *sessionConn) over(why Disconnect) {
	n := s.node
	if s.box != nil {
		n.ending.Add(1) // before the Session is gone from the table
	}
	key := sessionKey(s.id)
	n.sessions.Delete(string(key[:]))
	s.endOut()
	s.mu.Lock()
	s.closed = true
	for _, b := range s.routes.Load().byActor {
		if b.way != nil {
			b.way.end()
		}
	}
	routes := s.routes.Swap(noRoutes)
	s.mu.Unlock()
	if k := s.keep.Load(); k != nil {
		k.end()
	}
	if r := s.replacement.Load(); r != nil {
		r.closing.Stop()
	}
	for _, b := range routes.byActor {
		if !b.ended {
			b.unbind(s.id)
		}
	}
	why.count(&n.counters) // before the application is told
	if s.box != nil {
		s.box.PushControl(packet{run: func(call *SessionCall) { s.ended(call, why) }})
	}
}

// step gives an event to the liveness core and does what it says. Loop only.
func (s *sessionConn) step(ev session.Event) {
	var effects [3]session.Effect
	s.live.Step(clock.Now(), ev)
	for _, e := range s.live.Effects(effects[:0]) {
		switch e.Kind {
		case session.EffectPing:
			_ = s.conn.SendControl(buf.Copy(session.PingFrame())) // a closed connection tells itself by OnClose
		case session.EffectPong:
			_ = s.conn.SendControl(buf.Copy(session.PongFrame()))
		case session.EffectClose:
			s.end(e.Reason, "")
			return
		}
	}
	s.arm()
}

// arm sets the connection's timer unless it fires early enough as it is.
func (s *sessionConn) arm() {
	at, ok := s.live.NextDeadline()
	if s.door != nil && (!ok || s.door.until < at) {
		at, ok = s.door.until, true
	}
	if ok && (s.timer == 0 || at < s.timer) {
		s.timer = at
		s.conn.ArmTimer(at)
	}
}

// deliver sends a packet on its way: relayed to a bound Actor straight from the
// loop, or into the Session's mailbox. Loop only.
func (s *sessionConn) deliver(p *session.Packet, owner *buf.Buf) {
	if p.Compressed {
		plain, err := inflate(p, s.frameMax())
		if err != nil {
			s.end(session.ProtocolError, err.Error())
			return
		}
		defer plain.Free()
		owner = plain
	}
	if starts := s.port.startFlows && p.Flow == nil; starts || len(p.Meta) > 0 && p.Meta.Reserved() {
		own := ownPacket(p, starts)
		defer own.Free()
		owner = own
	}
	if s.door.locked() {
		s.knock(p, owner)
		return
	}
	// A packet behind one that waits for the handler waits too: one client's
	// packets stay in order.
	var span trace.Span
	if typ, ok := s.port.typ.Relays[string(p.Name)]; ok && s.door == nil && (s.box == nil || s.box.Len() == 0) {
		var done bool
		if span, done = s.relay(p, typ, owner); done {
			return
		}
	}
	s.enqueue(p, owner, span, nil)
}

// mailbox returns the Session's mailbox, which is made when it is needed first. Loop only.
func (s *sessionConn) mailbox() *mailbox.Mailbox[packet] {
	if s.box == nil {
		s.box = mailbox.New[packet](s.node.pool, s, mailbox.Limits{Messages: sessionQueueMessages, Bytes: s.port.queueBytes()})
	}
	return s.box
}

// enqueue has the packet wait for its turn, or refuses it, and takes its span. Loop only.
func (s *sessionConn) enqueue(p *session.Packet, owner *buf.Buf, span trace.Span, run func(*SessionCall)) (queued bool) {
	size := len(p.Name) + len(p.Meta) + len(p.Correlation) + len(p.Payload)
	if s.mailbox().Push(packet{Packet: *p, owner: owner.Ref(), span: span, run: run}, size) != nil {
		owner.Free()
		endSpan(span, errSessionBusy)
		s.refuse(p, errSessionBusy)
		return false
	}
	return true
}

// inflate replaces a packet whose payload is compressed by a plain copy.
func inflate(p *session.Packet, plainMax int) (*buf.Buf, error) {
	n, err := session.PayloadSize(p, plainMax)
	if err != nil {
		return nil, err
	}
	b := buf.Get(len(p.Name) + len(p.Meta) + len(p.Correlation) + len(p.Flow) + n)
	rest := ownParts(p, b.Bytes())
	if err := session.InflatePayload(rest, p); err != nil {
		b.Free()
		return nil, err
	}
	p.Payload, p.Compressed = rest, false
	return b, nil
}

// send queues a push to the client; see queueAs.
func (s *sessionConn) send(actor string, how *PushOptions, name string, codec uint8, meta, payload []byte) *Error {
	p := pushPacket(name, codec, meta, payload)
	if flow.In(meta) {
		p = takeFlow(p)
	}
	return s.writeAs(&p, actor, how)
}

// pushPacket is what the client gets of a push, but for takeFlow. It must be inlined, or else
// the name is a copy on the heap.
func pushPacket(name string, codec uint8, meta, payload []byte) session.Packet {
	p := session.Packet{Kind: session.KindSend, Codec: session.Codec(codec), Name: []byte(name), Payload: payload}
	if len(meta) > 0 {
		p.Meta = meta
	}
	return p
}

// takeFlow puts the flow that a push belongs to into its place in the frame. A client is told
// no more of that. It takes a value, as what goes into a pointer's is on the heap.
func takeFlow(p session.Packet) session.Packet {
	f, application := flow.Split(p.Meta)
	p.Meta = application
	if f.Origin != 0 {
		p.Flow, p.Origin = f.ID.AppendText(nil), uint8(f.Origin)
	}
	return p
}

// clientPayloadMax bounds the payload of a message to a client, whose frame, with a header
// of less than 2 KiB, has 1 MiB at most.
const clientPayloadMax = clientFrameMax - 2<<10

// checkClientPayload refuses a push that no client could be sent.
func checkClientPayload(who string, payload []byte) *Error {
	if len(payload) > clientPayloadMax {
		return fail(errkind.InvalidOperation, opPush, who, "a payload of %d bytes is over the limit of %d for clients", len(payload), clientPayloadMax)
	}
	return nil
}

func (s *sessionConn) write(p *session.Packet) *Error { return s.writeAs(p, "", nil) }

func (s *sessionConn) writeAs(p *session.Packet, actor string, how *PushOptions) *Error {
	if k := s.keep.Load(); k != nil && p.Kind == session.KindSend {
		return k.push(p, actor, how)
	}
	b, err := s.frame(p)
	if err != nil {
		return err
	}
	return s.queueAs(b, actor, how)
}

// frame encodes a packet to the client, compressed if the port says so and it pays. An
// Error is sent plain: not every client inflates those.
func (s *sessionConn) frame(p *session.Packet) (*buf.Buf, *Error) {
	if len(p.Payload) > clientPayloadMax {
		return nil, fail(errkind.CapacityExceeded, "", "", "a payload of %d bytes is over the limit of %d for clients", len(p.Payload), clientPayloadMax)
	}
	if least := s.port.compressMin; least > 0 && len(p.Payload) >= least && p.Kind != session.KindError && !p.Compressed {
		room := buf.Get(len(p.Payload))
		defer room.Free()
		if small, pays := session.CompressPayload(room.Bytes(), p.Payload); pays {
			q := *p
			q.Payload, q.Compressed = small, true
			p = &q
		}
	}
	b := buf.Get(session.Size(p))
	if _, err := session.Append(b.Bytes()[:0], p); err != nil {
		b.Free()
		return nil, &Error{Kind: errkind.InvalidOperation, Err: err}
	}
	return b, nil
}

// queue sends a frame that must be delivered, which it takes.
func (s *sessionConn) queue(b *buf.Buf) {
	_ = s.queueAs(b, "", nil) // fails if the Session is over, or is closed for it
}

// refuse ends a packet that is not executed: a request with an Error frame,
// anything else as a counted drop.
func (s *sessionConn) refuse(p *session.Packet, err *Error) {
	if p.Kind != session.KindRequest {
		s.node.counters.dropped.Add(1)
		return
	}
	r := session.ResponseTo(p)
	s.writeError(&r, err)
}

// answer sends the Response to a request. If it cannot be sent, being too large,
// the request ends with an Error in its place; it has one end whatever happens.
func (s *sessionConn) answer(r *session.Packet) {
	if err := s.write(r); err != nil {
		s.writeError(r, err)
	}
}

func (s *sessionConn) writeError(r *session.Packet, err *Error) {
	sayError(r, err)
	_ = s.write(r) // if it cannot be written the session is over
}

// sayError makes a Response the Error that says err.
func sayError(r *session.Packet, err *Error) {
	r.Kind, r.Codec = session.KindError, session.CodecJSON
	r.Payload = session.AppendErrorBody(nil, err.Kind, err.clientText())
}

func sessionFrameSize(b []byte, frameMax int) (int, error) {
	n, err := session.FrameSize(b, frameMax)
	if err != nil {
		if d, ok := errors.AsType[*session.DecodeError](err); ok && d.Reason == session.ReasonTooLarge {
			return n, errors.Join(engine.ErrFrameTooLarge, err)
		}
	}
	return n, err
}
