package node

import (
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

const opForward = "forward"

// clientRequest is a client's request that was relayed to an Actor. What its
// answer must carry back is copied, since the frame is gone by then.
type clientRequest struct {
	session *sessionConn
	binding *sessionBinding // that it was meant for
	seq     uint64
	origin  uint8
	echo    []byte     // correlation id, then flow id
	corrLen int        // < 0: no correlation id
	span    trace.Span // of the packet; nil: none
}

var clientRequests = sync.Pool{New: func() any { return new(clientRequest) }}

func newClientRequest(s *sessionConn, p *session.Packet, b *sessionBinding, span trace.Span) *clientRequest {
	r := clientRequests.Get().(*clientRequest)
	*r = clientRequest{session: s, binding: b, seq: p.Seq, origin: p.Origin, corrLen: -1, span: span, echo: r.echo[:0]}
	if len(p.Correlation) > 0 {
		r.corrLen = len(p.Correlation)
		r.echo = append(r.echo, p.Correlation...)
	}
	r.echo = append(r.echo, p.Flow...)
	return r
}

// complete implements completer: the request ends with one frame.
func (r *clientRequest) complete(res result) {
	failSpan(r.span, res.err)
	if r.keepReply(&res) {
		r.recycle()
		return
	}
	r.finish(res)
}

// finish is complete without a look at whether the Actor moves.
func (r *clientRequest) finish(res result) {
	failSpan(r.span, res.err)
	if frame, err := r.frame(res); err == nil {
		r.session.queue(frame)
	}
	r.recycle()
}

func (r *clientRequest) recycle() {
	endSpan(r.span, nil)
	r.session, r.binding, r.span = nil, nil, nil
	clientRequests.Put(r)
}

// frame is what the client gets. A reply that is too large becomes an Error.
func (r *clientRequest) frame(res result) (*buf.Buf, *Error) {
	p := session.Packet{Kind: session.KindResponse, Codec: session.Codec(res.codec), Seq: r.seq, Payload: res.payload}
	flow := r.echo
	if r.corrLen >= 0 {
		p.Correlation, flow = r.echo[:r.corrLen], r.echo[r.corrLen:]
	}
	if len(flow) > 0 {
		p.Flow, p.Origin = flow, r.origin
	}
	err := res.err
	if err == nil {
		var frame *buf.Buf
		frame, err = r.session.frame(&p)
		res.owner.Free()
		if err == nil {
			return frame, nil
		}
	}
	sayError(&p, err)
	return r.session.frame(&p)
}

// relay sends a packet to the Actor of that type without waiting, and reports
// whether the packet is dealt with; if not, the other node's credit is used up
// and the packet must wait in the Session's turn, with the span that it has got. Loop only.
func (s *sessionConn) relay(p *session.Packet, typ string, owner *buf.Buf) (span trace.Span, done bool) {
	var none credit
	f, span := s.relayed(p)
	lacks, err := s.forwardIn(&f, p, receiver{typ: typ}, owner, &none, span)
	switch {
	case lacks.link != nil:
		return span, false
	case err != nil:
		endSpan(span, err)
		s.refuse(p, err)
	case p.Kind != session.KindRequest:
		endSpan(span, nil)
	}
	return nil, true
}

// receiver is the bound Actor that a packet is for: that id, or the latest of that type.
type receiver struct{ typ, id string }

// relayWaiting is relay in the Session's turn: it waits for credit up to the
// send timeout. The route may have changed meanwhile. On error the packet is not sent.
func (s *sessionConn) relayWaiting(c *SessionCall, p *session.Packet, to receiver) *Error {
	var paid credit
	for {
		lacks, err := s.forwardIn(&c.flow, p, to, c.packet.owner, &paid, nil)
		paid.putBack()
		if err != nil || lacks.link == nil {
			return err
		}
		err = lacks.link.waitInTurn(c, lacks.n)
		switch {
		case err == nil:
			paid = lacks
		case !lacks.link.gone.Load():
			return err
		}
	}
}

// Forward relays the packet of this turn to the Actor of that id.
func (c *SessionCall) Forward(id string) error {
	mustBeInTurn(c.node != nil)
	asks := c.packet.Kind == session.KindRequest
	switch {
	case c.packet.run != nil:
		return fail(errkind.InvalidOperation, opForward, id, "this turn is of no packet")
	case asks && c.forwarded:
		return fail(errkind.InvalidOperation, opForward, id, "the request was forwarded already")
	}
	if err := c.conn.relayWaiting(c, &c.packet.Packet, receiver{id: id}); err != nil {
		return err.of(opForward, id)
	}
	c.forwarded = asks
	return nil
}

// forwardIn is forward for a packet that belongs to f.
func (s *sessionConn) forwardIn(f *flow.Context, p *session.Packet, to receiver, owner *buf.Buf, paid *credit, span trace.Span) (lacks credit, err *Error) {
	meta, b := withFlow(f, p.Meta)
	if b == nil {
		return s.forward(p, to, owner, paid, span)
	}
	defer b.Free()
	q := *p
	q.Meta = meta
	return s.forward(&q, to, nil, paid, span)
}

// forward sends the packet to its Actor if it is bound now, or says which credit it lacks for
// that. paid is what the caller has of it. Without an owner the packet's
// parts are copied. A request that has gone, or is kept, ends its span; nil: it has none. A packet for an Actor that moves is kept. On error
// the packet is not sent and must be refused.
func (s *sessionConn) forward(p *session.Packet, to receiver, owner *buf.Buf, paid *credit, span trace.Span) (lacks credit, err *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b *sessionBinding
	if to.id == "" {
		b = s.routes.Load().byType[to.typ]
	} else {
		b = s.routes.Load().byActor[to.id]
	}
	if b == nil {
		return credit{}, errNoReceiver(to)
	}
	if err := checkSizes("relay", b.ref.ID, p.Meta, p.Payload); err != nil {
		return credit{}, err
	}
	if b.moves() {
		if waits, err := b.way.admits(p, span); waits || err != nil {
			return credit{}, err
		}
	}
	asks, deadline := p.Kind == session.KindRequest, clock.Never
	if asks {
		deadline = clock.Now().Add(s.node.cfg.RequestTimeout)
	}
	switch {
	case b.ended:
		return credit{}, errGone.of("relay", b.ref.ID)
	case b.lost():
		return credit{}, errBindingLost.of("relay", b.ref.ID)
	case b.link == nil:
		var corr uint64
		if asks {
			if corr, err = s.node.local.add(newClientRequest(s, p, b, span), deadline); err != nil {
				return credit{}, err
			}
		}
		err = s.relayHere(b, p, owner, corr, deadline)
		if err != nil && asks && s.node.local.take(corr) == nil {
			err = nil // it has ended already
		}
		return credit{}, err
	}
	rec := s.packetRecord(b, p)
	if lacks = paid.pay(b.link, rec.Size()); lacks.link != nil {
		return lacks, nil
	}
	var r *clientRequest
	if asks {
		r = newClientRequest(s, p, b, span)
	}
	return credit{}, s.sendPaid(b, &rec, r, deadline)
}

func errNoReceiver(to receiver) *Error {
	if to.id != "" {
		return fail(errkind.InvalidOperation, "relay", to.id, "that actor is not bound to the session")
	}
	return fail(errkind.InvalidOperation, "relay", "", "no actor of type %q is bound to the session", to.typ)
}

// packetRecord is the packet for a remote Actor. What differs from request to request is
// filled in by sendPaid; the size is right.
func (s *sessionConn) packetRecord(b *sessionBinding, p *session.Packet) wire.SessionPacket {
	rec := wire.SessionPacket{
		ID: []byte(b.ref.ID), ObjGen: b.ref.ObjectGen, Session: s.id, BindingGen: b.gen,
		Name: p.Name, Codec: uint8(p.Codec), Metadata: p.Meta, Payload: p.Payload,
	}
	if p.Kind == session.KindRequest {
		rec.Correlation = 1
	}
	return rec
}

// sendPaid sends a packet whose credit was taken, which it gives back on an error. A
// request, r, is registered before; on an error it is the caller's to end.
func (s *sessionConn) sendPaid(b *sessionBinding, rec *wire.SessionPacket, r *clientRequest, deadline clock.Mono) (err *Error) {
	size := rec.Size()
	if r != nil {
		if rec.Correlation, err = b.link.pending.add(r, deadline); err != nil {
			b.link.gate.PutBack(size)
			return err
		}
		rec.DeadlineMS = wire.DeadlineMS(deadline.Sub(clock.Now()))
	}
	record := buf.Get(size)
	rec.AppendTo(record.Bytes()[:0])
	err = b.link.sendPaid(record)
	if err != nil && r != nil && b.link.pending.take(rec.Correlation) == nil {
		return nil // the link was lost meanwhile and has answered
	}
	return err
}

// relayHere puts the packet into the mailbox of an Actor of this node. A request is
// registered as corr.
func (s *sessionConn) relayHere(b *sessionBinding, p *session.Packet, owner *buf.Buf, corr uint64, deadline clock.Mono) *Error {
	from := sender{kind: msgSessionSend}
	if corr != 0 {
		from = sender{kind: msgSessionRequest, corr: corr}
	}
	o := Outgoing{Name: buf.View(p.Name), Codec: uint8(p.Codec), Metadata: p.Meta, Payload: p.Payload}
	return b.cell.arrive(from, &o, deadline, &arrival{
		owner: owner, objGen: b.ref.ObjectGen, session: bindingKey{session: s.id, gen: b.gen},
	})
}
