package node

import (
	"context"
	"sync"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// clientRequest is a client's request that was relayed to an Actor. What its
// answer must carry back is copied, since the frame is gone by then.
type clientRequest struct {
	session *sessionConn
	seq     uint64
	origin  uint8
	echo    []byte // correlation id, then flow id
	corrLen int    // < 0: no correlation id
}

var clientRequests = sync.Pool{New: func() any { return new(clientRequest) }}

func newClientRequest(s *sessionConn, p *session.Packet) *clientRequest {
	r := clientRequests.Get().(*clientRequest)
	*r = clientRequest{session: s, seq: p.Seq, origin: p.Origin, corrLen: -1, echo: r.echo[:0]}
	if len(p.Correlation) > 0 {
		r.corrLen = len(p.Correlation)
		r.echo = append(r.echo, p.Correlation...)
	}
	r.echo = append(r.echo, p.Flow...)
	return r
}

// complete implements completer: the request ends with one frame.
func (r *clientRequest) complete(res result) {
	p := session.Packet{Kind: session.KindResponse, Codec: session.Codec(res.codec), Seq: r.seq, Payload: res.payload}
	flow := r.echo
	if r.corrLen >= 0 {
		p.Correlation, flow = r.echo[:r.corrLen], r.echo[r.corrLen:]
	}
	if len(flow) > 0 {
		p.Flow, p.Origin = flow, r.origin
	}
	if res.err != nil {
		r.session.writeError(&p, res.err)
	} else {
		r.session.answer(&p)
		res.owner.Free()
	}
	r.session = nil
	clientRequests.Put(r)
}

// relay sends a packet to the Actor of that type without waiting, and reports
// whether the packet is dealt with; if not, the other node's credit is used up
// and the packet must wait in the Session's turn. Loop only.
func (s *sessionConn) relay(p *session.Packet, typ string, owner *buf.Buf) (done bool) {
	b := s.routes.Load().byType[typ]
	if err := relayable(b, typ, p); err != nil {
		s.refuse(p, err)
		return true
	}
	if b.link == nil {
		s.relayHere(b, p, owner)
		return true
	}
	record, corr, err := s.relayRecord(b, p)
	if err != nil {
		s.refuse(p, err)
		return true
	}
	taken, err := b.link.sendNow(record)
	if !taken {
		record.Free()
		if corr != 0 && b.link.pending.take(corr) == nil {
			return true // the link was lost meanwhile and has answered
		}
		return false
	}
	s.relayed(b, p, corr, err)
	return true
}

// relayWaiting is relay in the Session's turn: it waits for credit up to the
// send timeout.
func (s *sessionConn) relayWaiting(ctx context.Context, p *session.Packet, typ string, owner *buf.Buf) {
	b := s.routes.Load().byType[typ]
	if err := relayable(b, typ, p); err != nil {
		s.refuse(p, err)
		return
	}
	if b.link == nil {
		s.relayHere(b, p, owner)
		return
	}
	record, corr, err := s.relayRecord(b, p)
	if err != nil {
		s.refuse(p, err)
		return
	}
	s.relayed(b, p, corr, b.link.send(ctx, record))
}

// relayable refuses what no Actor of that type may get through b, wherever it is.
func relayable(b *sessionBinding, typ string, p *session.Packet) *Error {
	switch {
	case b == nil:
		return fail(errkind.InvalidOperation, "relay", "", "no actor of type %q is bound to the session", typ)
	case b.lost():
		return fail(errkind.Unavailable, "relay", b.ref.ID, "the link to its node was lost; bind the actor again")
	}
	return checkSizes("relay", b.ref.ID, p.Meta, p.Payload)
}

// relayed ends a packet whose record could not be queued.
func (s *sessionConn) relayed(b *sessionBinding, p *session.Packet, corr uint64, err *Error) {
	if err == nil {
		return
	}
	if corr == 0 {
		s.node.counters.dropped.Add(1)
	} else if b.link.pending.take(corr) != nil {
		s.refuse(p, err)
	}
}

// relayRecord makes the record for a remote Actor. A request is registered
// before it is sent.
func (s *sessionConn) relayRecord(b *sessionBinding, p *session.Packet) (*buf.Buf, uint64, *Error) {
	rec := wire.SessionPacket{
		ID: []byte(b.ref.ID), ObjGen: b.ref.ObjectGen, Session: s.id, BindingGen: b.gen,
		Name: p.Name, Codec: uint8(p.Codec), Metadata: p.Meta, Payload: p.Payload,
	}
	if p.Kind == session.KindRequest {
		wait := s.node.cfg.RequestTimeout
		corr, err := b.link.pending.add(newClientRequest(s, p), clock.Now().Add(wait))
		if err != nil {
			return nil, 0, err
		}
		rec.Correlation, rec.DeadlineMS = corr, wire.DeadlineMS(wait)
	}
	record := buf.Get(rec.Size())
	rec.AppendTo(record.Bytes()[:0])
	return record, rec.Correlation, nil
}

// relayHere puts the packet into the mailbox of an Actor of this node.
func (s *sessionConn) relayHere(b *sessionBinding, p *session.Packet, owner *buf.Buf) {
	from, deadline := sender{kind: msgSessionSend}, clock.Never
	if p.Kind == session.KindRequest {
		deadline = clock.Now().Add(s.node.cfg.RequestTimeout)
		corr, err := s.node.local.add(newClientRequest(s, p), deadline)
		if err != nil {
			s.refuse(p, err)
			return
		}
		from = sender{kind: msgSessionRequest, corr: corr}
	}
	o := Outgoing{Name: buf.View(p.Name), Codec: uint8(p.Codec), Metadata: p.Meta, Payload: p.Payload}
	err := b.cell.arrive(from, &o, deadline, &arrival{
		owner: owner, objGen: b.ref.ObjectGen, session: bindingKey{session: s.id, gen: b.gen},
	})
	if err != nil {
		from.refuse(s.node, err)
	}
}
