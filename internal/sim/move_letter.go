package sim

import (
	"fmt"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// letter is a message for an Actor at one process. Another process gets another one.
type letter struct {
	op       *op
	gen      store.ObjectGen // of the incarnation that is meant; 0: any
	asks     bool
	link     *link // that it came by; nil: none
	corr     uint64
	away     *wayBack // to who waits for the answer, if it was carried or is this process's own
	deadline clock.Mono
	hops     int
	session  *bindingKey // of a client's packet
	counted  bool        // in the queue's budget
	copied   bool        // the original is at another process
	path     path
}

// wayBack leads to who waits for the answer to a request that was carried.
type wayBack struct {
	to, via, hop place
	corr         uint64
}

// route is where a process believes an Actor to be.
type route struct {
	ref   ref
	until clock.Mono
}

const routeAge = 4 * time.Second

// writer sends one thing after the other, as a goroutine does.
type writer struct {
	h     *host
	name  string
	seq   int
	queue []*op
	busy  bool
}

func (wr *writer) write(o *op) {
	wr.seq++
	o.origin, o.writer, o.seq = wr.h, wr.name, wr.seq
	wr.queue = append(wr.queue, o)
	wr.nextOne()
}

func (wr *writer) nextOne() {
	if wr.busy || len(wr.queue) == 0 {
		return
	}
	o := wr.queue[0]
	wr.queue = wr.queue[1:]
	wr.busy = true
	o.deadline = clock.Never
	if o.asks {
		o.deadline = wr.h.clock().Add(o.timeout)
	}
	wr.h.w.moves.book.sent(o)
	wr.h.dispatch(o, false, func() {
		wr.busy = false
		wr.h.soon(wr.nextOne)
	})
}

// dispatch sends the operation by the way that is known, or that the Store tells. handed is
// called once, when it is on its way or is not.
func (h *host) dispatch(o *op, second bool, handed func()) {
	if a := h.actors[o.id]; a != nil {
		h.dispatchHere(o, a, second)
		handed()
		return
	}
	if h.stopping {
		h.over(o, reply{fail: errStopping}, nil, true)
		handed()
		return
	}
	if r := h.routes[o.id]; r != nil && h.clock() < r.until {
		if l := h.linkOf(r.ref.at); l != nil {
			h.dispatchBy(o, l, r, second)
			handed()
			return
		}
	}
	asked, limit := h.clock(), storeCallMax
	if o.asks {
		limit = max(min(limit, o.deadline.Sub(asked)), 1)
	}
	h.read(nil, o.id, limit, func(row store.Authority, found bool, err error) {
		defer handed()
		f := errNoWay
		switch {
		case err != nil:
		case !found || row.State != store.Ready:
			f = errGone
		case row.LeaseLeft <= 0:
			delete(h.routes, o.id)
		case h.owns(&row):
			if a := h.actors[o.id]; a != nil {
				h.dispatchHere(o, a, second)
				return
			}
			f = errNotHere
		default:
			r := &route{refOf(&row), asked.Add(min(routeAge, row.LeaseLeft-leasing.Margin))}
			if known := h.routes[o.id]; known == nil || known.ref.gen < r.ref.gen || known.ref.gen == r.ref.gen && known.ref.owner <= r.ref.owner {
				h.routes[o.id] = r
			}
			if l := h.linkOf(r.ref.at); l != nil {
				h.dispatchBy(o, l, r, second)
				return
			}
		}
		h.over(o, reply{fail: f}, nil, true)
	})
}

func refOf(row *store.Authority) ref {
	return ref{row.ID, row.ObjectGen, place{RID: row.RID, Lifecycle: row.LeaseGen}, row.OwnerGen}
}

func (h *host) dispatchHere(o *op, a *actor, second bool) {
	l := &letter{op: o, asks: o.asks, deadline: o.deadline, path: path{writer: o.writer}}
	f := errNotOwner
	var corr uint64
	switch {
	case h.stopping:
		f = errStopping
	case h.mayAct():
		if o.asks {
			corr = h.await(nil, o.deadline, func(r reply) {
				h.over(o, r, nil, second || r.fail != errMoved && r.fail != errNotHere)
			})
			l.away = &wayBack{to: h.self(), corr: corr}
		}
		f = a.push(l)
	}
	if f != nil {
		delete(h.pending, correlation{n: corr})
		h.over(o, reply{fail: f}, nil, true)
	}
}

func (h *host) dispatchBy(o *op, l *link, r *route, second bool) {
	var corr uint64
	if o.asks {
		corr = h.await(l, o.deadline, func(got reply) { h.over(o, got, r, second) })
	}
	left := o.deadline.Sub(h.clock())
	owner := r.ref.owner
	h.tell(l, func(to *host) {
		m := &letter{op: o, asks: o.asks, link: l, corr: corr, deadline: to.deadlineAfter(o.asks, left), path: path{writer: o.writer, link: l}}
		to.admit(o.id, owner, m)
	})
}

func (h *host) deadlineAfter(there bool, left time.Duration) clock.Mono {
	if !there {
		return clock.Never
	}
	return h.clock().Add(left)
}

// over ends an operation for its origin, or has it sent once more by a fresh way if it was
// certainly not taken.
func (h *host) over(o *op, r reply, by *route, last bool) {
	if r.fail != nil && r.fail.stale && !last {
		h.w.Cover.Mark("sent again by a fresh way")
		if by != nil && h.routes[o.id] == by {
			delete(h.routes, o.id)
		}
		h.dispatch(o, true, func() {})
		return
	}
	h.w.moves.book.ended(o, r)
}

// admit takes a letter that came by a link.
func (h *host) admit(id string, owner store.OwnerGen, m *letter) {
	a := h.actors[id]
	var f *failure
	switch {
	case h.stopping:
		f = errStopping
	case !h.mayAct():
		f = errNotOwner
	case a == nil:
		f = errNotHere
		if !m.asks {
			h.tell(m.link, func(to *host) {
				if r := to.routes[id]; r != nil && r.ref.owner == owner && r.ref.at == to.peer(m.link) {
					delete(to.routes, id)
				}
			})
		}
	default:
		f = a.push(m)
	}
	if f != nil {
		h.refuse(m, f)
	}
}

// refuse ends a letter that is not executed.
func (h *host) refuse(m *letter, f *failure) {
	h.w.moves.book.refused(h, m, f)
	if m.asks {
		h.respond(m, reply{fail: f})
	}
}

func (h *host) reply(m *letter, position int) {
	if m.asks {
		h.respond(m, reply{v: position})
	}
}

func (h *host) respond(m *letter, r reply) {
	switch {
	case m.away != nil:
		h.sendBack(m.away, r)
	default:
		h.answer(m.link, m.corr, r)
	}
}

func (h *host) sendBack(w *wayBack, r reply) {
	if w.to == h.self() {
		h.completeAway(w, r)
		return
	}
	l := h.linkOf(w.to)
	if l == nil && w.hop != (place{}) {
		if l = h.linkOf(w.hop); l != nil {
			h.w.Cover.Mark("a reply went back by the hop")
		}
	}
	if l == nil {
		h.w.Cover.Mark("late reply")
		return
	}
	h.tell(l, func(to *host) { to.relayedReply(l, w, r, 0) })
}

func (h *host) relayedReply(l *link, w *wayBack, r reply, hops int) {
	if w.to == h.self() {
		r.from = l
		h.completeAway(w, r)
		return
	}
	next := h.linkOf(w.to)
	if next == nil || hops >= relay.HopsMax {
		h.w.Cover.Mark("late reply")
		return
	}
	h.tell(next, func(to *host) { to.relayedReply(next, w, r, hops+1) })
}

func (h *host) completeAway(w *wayBack, r reply) {
	var l *link
	if w.via != (place{}) {
		if l = h.linkOf(w.via); l == nil {
			h.w.Cover.Mark("late reply")
			return
		}
	}
	h.w.Cover.Mark("a carried reply came")
	h.complete(l, w.corr, r)
}

// carried is a letter as it goes on to its Actor's next process.
type carried struct {
	op          *op
	asks        bool
	origin, via place
	corr        uint64
	left        time.Duration // of its deadline
	hops        int
	session     uint64 // of a client's packet, with gen
	gen         uint64
	owner       store.OwnerGen // of the route
	path        path
}

func (h *host) carry(m *letter) carried {
	c := carried{op: m.op, asks: m.asks, origin: h.self(), hops: m.hops + 1, path: m.path}
	if m.link != nil {
		c.origin = h.peer(m.link)
	}
	if m.deadline != clock.Never {
		c.left = m.deadline.Sub(h.clock())
	}
	switch {
	case m.away != nil:
		c.origin, c.via, c.corr = m.away.to, m.away.via, m.away.corr
	case m.asks:
		c.corr = m.corr
		if m.link != nil {
			c.via = h.self()
		}
	}
	if k := m.session; k != nil {
		c.session, c.gen = k.session, k.gen
		if !m.asks {
			c.origin = k.owner(h)
		}
	}
	return c
}

// bytes is what the checksum of relayed messages is made of.
func (c *carried) bytes() []byte { return fmt.Appendf(nil, "%d.%d", c.op.n, c.hops) }

func (h *host) arrived(c carried, from place) *letter {
	m := &letter{op: c.op, asks: c.asks, hops: c.hops, deadline: h.deadlineAfter(c.op.asks, c.left), path: c.path}
	if c.asks {
		m.away = &wayBack{to: c.origin, via: c.via, corr: c.corr, hop: from}
	}
	if c.session != 0 {
		m.session = &bindingKey{session: c.session, gen: c.gen}
		if c.origin != h.self() {
			m.session.link = h.linkOf(c.origin)
		}
	}
	return m
}

// unclear is the failure of a message that may have been executed elsewhere.
func unclear(text string) *failure { return &failure{errkind.Unavailable, text, false} }
