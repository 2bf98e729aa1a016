package node

import (
	"strings"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// This file is about messages that go on to another node with their object: how one is
// carried, and how the answer finds who waits for it.

// process is one lifecycle of a node.
type process struct {
	rid       string
	lifecycle uint64
}

func (n *Node) self() process { return process{n.cfg.RID, n.id.Lifecycle} }

func (l *linkConn) process() process { return process{l.peer.RID, l.peer.Lifecycle} }

// linkOf returns the link to a process by which objects of this node are reached and leave, or
// nil. Objects do not leave their mesh, and what is theirs does not, either.
func (n *Node) linkOf(p process) *linkConn { return n.home.linkOf(p) }

func (m *mesh) linkOf(p process) *linkConn { return m.links.to(p.rid, p.lifecycle) }

// wayBack leads to who waits for the answer to a request that was carried here. It never
// changes.
type wayBack struct {
	to   process // where the waiting one is
	via  process // the end of its link by which the request went; zero: the request was its node's own
	corr uint64  // of that link's requests, or of its node's own
	hop  process // which carried the request here and can pass the answer on
}

// completeAway ends a request of this node that was carried, in the mesh of its object.
func (n *Node) completeAway(m *mesh, via process, corr uint64, r result) {
	var table *pendingTable
	switch l := m.linkOf(via); {
	case via == process{} && m == n.home:
		table = n.local
	case l != nil: // else its requests have ended with it
		table = l.pending
	}
	if table == nil {
		n.counters.lateReplies.Add(1)
		r.owner.Free()
		return
	}
	if !table.complete(corr, r) {
		n.counters.lateReplies.Add(1)
	}
}

// link returns the link by which an answer goes, or nil.
func (w *wayBack) link(n *Node) *linkConn {
	if l := n.linkOf(w.to); l != nil {
		return l
	}
	return n.linkOf(w.hop)
}

func (w *wayBack) record() wire.RelayedReply {
	return wire.RelayedReply{To: w.to.wire(), Via: w.via.wire(), Correlation: w.corr}
}

func (p process) wire() wire.Process {
	return wire.Process{RID: []byte(p.rid), Lifecycle: p.lifecycle}
}

func processOf(p *wire.Process) process { return process{string(p.RID), p.Lifecycle} }

// reply sends the reply, whose bytes it copies.
func (w *wayBack) reply(n *Node, codec uint8, payload []byte) {
	if w.to == n.self() {
		b := buf.Copy(payload)
		n.completeAway(n.home, w.via, w.corr, result{codec: codec, payload: b.Bytes(), owner: b})
		return
	}
	r := w.record()
	r.Success, r.Codec, r.Payload = true, codec, payload
	if l := w.link(n); l == nil {
		n.counters.lateReplies.Add(1)
	} else if !l.sendAnswer(encoded(&r)) {
		w.fail(n, errRepliesFull)
	}
}

func (w *wayBack) fail(n *Node, err *Error) {
	if w.to == n.self() {
		n.completeAway(n.home, w.via, w.corr, result{err: err})
		return
	}
	l := w.link(n)
	if l == nil {
		n.counters.lateReplies.Add(1)
		return
	}
	r := w.record()
	r.Kind, r.Text, r.Stale, r.Application = uint8(err.Kind), []byte(err.onWire()), err.stale, err.application
	l.sendControl(&r)
}

// relayedReply takes the answer to a carried request, or passes it on.
func (l *linkConn) relayedReply(r *wire.RelayedReply, owner *buf.Buf) {
	n, to := l.node, processOf(&r.To)
	if to == n.self() {
		got := result{codec: r.Codec, payload: r.Payload}
		if r.Success {
			got.owner = owner.Ref()
		} else {
			got = result{err: &Error{Kind: errkind.Kind(r.Kind), Text: string(r.Text), stale: r.Stale, application: r.Application}}
		}
		got.from = l
		n.completeAway(l.mesh, processOf(&r.Via), r.Correlation, got)
		return
	}
	next := l.mesh.linkOf(to)
	if next == nil || r.Hops >= wire.MaxHops {
		n.counters.lateReplies.Add(1)
		return
	}
	on := *r
	on.Hops++
	if !next.sendAnswer(encoded(&on)) { // who waits has a deadline
		n.counters.lateReplies.Add(1)
	}
}

// carriable gives a request of a goroutine of this node a place in the table, so that an
// answer from another node finds it. Others have one.
func (n *Node) carriable(m *message) *Error {
	if !m.asks() || m.fromSession() || m.to == nil || m.to.away != nil {
		return nil
	}
	to, round := m.to, m.corr
	corr, err := n.local.add(completeFunc(func(r result) { n.local.completeRound(to, round, r) }), m.deadline)
	if err != nil {
		return err
	}
	m.to, m.corr = &waiter{away: &wayBack{to: n.self(), corr: corr}}, 0
	return nil
}

// carried is m as it goes on to its object's next node. Its bytes are m's.
func (n *Node) carried(c *objectCell, m *message, now clock.Mono) wire.Carried {
	w := wire.Carried{
		Spot: c.typ.Kind != store.Actor, OwnerGen: c.ref.OwnerGen, Hops: m.hops() + 1,
		Name: []byte(m.packet.name), Codec: m.codec, Metadata: m.metadata(), Payload: m.body(),
	}
	origin := n.self()
	if m.link != nil {
		origin = m.link.process()
	}
	if m.deadline != clock.Never {
		w.DeadlineMS = wire.DeadlineMS(m.deadline.Sub(now))
	}
	switch {
	case m.to != nil && m.to.away != nil:
		origin = m.to.away.to
		w.Via, w.Correlation = m.to.away.via.wire(), m.to.away.corr
	case m.asks():
		w.Correlation = m.corr
		if m.link != nil {
			w.Via = n.self().wire()
		}
	}
	switch m.kind {
	case msgRequest:
		w.Kind = wire.CarriedRequest
	case msgSessionSend:
		w.Kind, w.Session, w.BindingGen = wire.CarriedSessionSend, m.session.session, m.session.gen
		origin = m.session.owner(n)
	case msgSessionRequest:
		w.Kind, w.Session, w.BindingGen = wire.CarriedSessionRequest, m.session.session, m.session.gen
	case msgOffer:
		w.Kind = wire.CarriedOffer
	case msgIntentSend:
		w.Kind = wire.CarriedIntentSend
	case msgIntentRequest:
		w.Kind = wire.CarriedIntentRequest
	case msgTopic:
		w.Kind, w.Topic, w.Number = wire.CarriedTopic, []byte(m.packet.topic), m.corr
	default:
		w.Kind = wire.CarriedSend
	}
	w.Origin = origin.wire()
	return w
}

// owner returns the node that has the Session.
func (k *bindingKey) owner(n *Node) process {
	if k.link == nil {
		return n.self()
	}
	return k.link.process()
}

// arrived makes a message of what was carried here by the node from, whose deadline counts
// from then on. What w says is copied, or referenced where owner keeps it valid.
func (c *objectCell) arrived(w *wire.Carried, then clock.Mono, from process, link *linkConn, paid uint32, owner *buf.Buf) (m message) {
	n := c.node
	s := sender{kind: msgSend, paid: paid}
	s.carried(w.Hops)
	if paid != 0 {
		s.link = link
	}
	origin := processOf(&w.Origin)
	switch w.Kind {
	case wire.CarriedRequest:
		s.kind = msgRequest
	case wire.CarriedSessionSend:
		s.kind = msgSessionSend
	case wire.CarriedSessionRequest:
		s.kind = msgSessionRequest
	case wire.CarriedOffer:
		s.kind = msgOffer
	case wire.CarriedIntentSend:
		s.kind = msgIntentSend
	case wire.CarriedIntentRequest:
		s.kind = msgIntentRequest
	case wire.CarriedTopic:
		s.kind, s.corr = msgTopic, w.Number
	case wire.CarriedNews:
		return newsCarried(w, origin, s)
	case wire.CarriedSend: // as it is
	}
	if s.asks() {
		s.to = &waiter{away: &wayBack{to: origin, via: processOf(&w.Via), corr: w.Correlation, hop: from}}
	}
	p := c.typ.packets[buf.View(w.Name)]
	switch {
	case s.kind == msgTopic:
		name := strings.Clone(buf.View(w.Name))
		p = &packetType{name: name, topic: strings.Clone(buf.View(w.Topic)), send: c.typ.topics[name]}
	case p == nil:
		p = &packetType{name: strings.Clone(buf.View(w.Name))}
	}
	o := Outgoing{Codec: w.Codec, Metadata: w.Metadata, Payload: w.Payload}
	var a *arrival
	if owner != nil {
		a = &arrival{owner: owner}
	}
	deadline := clock.Never
	if w.DeadlineMS != 0 {
		deadline = then.Add(milliseconds(w.DeadlineMS))
	}
	m.fill(p, s, &o, deadline, a)
	if m.fromSession() {
		m.session = bindingKey{session: w.Session, gen: w.BindingGen}
		if origin != n.self() {
			m.session.link = n.linkOf(origin) // without one the binding is over, which its turn finds
		}
	}
	return m
}
