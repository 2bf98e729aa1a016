package sim

import (
	"slices"

	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// incoming is an Actor's temporary queue: what travelled in the payload, what was relayed
// before the cutover, and the rest.
type incoming struct {
	i *arriving
	a *actor

	saved   []item
	relayed []item
	rest    []item
	in      relay.In
	cut     bool
	known   bool // the commit is: what had come by then is acknowledged
	upTo    relay.Seq
}

func (q *incoming) consume(_ *actor, it item) {
	if it.kind == isStep || it.kind == isRelay {
		it.step(nil)
		return
	}
	q.a.h.w.Cover.Mark("came straight to a temporary queue")
	q.rest = append(q.rest, it)
}

// relayed takes a letter that the peer relays after its Actor.
func (h *host) relayed(l *link, id store.RelocationID, seq relay.Seq, c carried) {
	i := h.arrivingFrom(l, id)
	if i == nil {
		h.tell(l, func(to *host) { to.moveProgress(l, id, relay.ProgressGone, 0, 0) })
		return
	}
	i.tell(relay.TargetEvent{Is: relay.TargetRelayed})
	q, m := i.q, h.arrived(c, i.from)
	looped := c.owner > i.a.ref.owner
	i.a.enqueue(item{kind: isRelay, step: func(refused *failure) {
		if refused != nil {
			h.refuse(m, refused)
			return
		}
		switch q.in.Accept(seq, c.bytes()) {
		case relay.Fresh:
			if looped {
				h.w.Cover.Mark("a letter went in circles")
				h.refuse(m, errTooFar)
				return
			}
			q.relayOne(l, m)
		case relay.Duplicate:
			h.w.Cover.Mark("a relayed letter came twice")
		case relay.Gap:
			h.w.fail("I10", "relayed letter %d came to %s behind %d", seq, h.name(), q.in.Last())
		}
	}})
}

// relayOne is the turn of a relayed letter.
func (q *incoming) relayOne(l *link, m *letter) {
	a := q.a
	temporary := q.waits()
	switch {
	case temporary && !q.cut:
		q.relayed = append(q.relayed, item{l: m})
	case temporary:
		m.copied = true
		q.rest = append(q.rest, item{l: m})
	default:
		a.cur.consume(a, item{l: m})
	}
	if q.known && !temporary {
		q.acknowledge(l)
	}
}

// waits reports whether what comes waits here.
func (q *incoming) waits() bool { return q.a.cur == consumer(q) }

// acknowledge tells the source what is here for good.
func (q *incoming) acknowledge(l *link) {
	state, upTo := relay.ProgressReady, q.in.Last()
	if q.known {
		if state = relay.ProgressCommitted; q.waits() {
			upTo = q.upTo
		}
	}
	q.i.say(l, state, 0, upTo)
}

func (h *host) cutover(l *link, id store.RelocationID, last relay.Seq, crc uint32) {
	i := h.arrivingFrom(l, id)
	if i == nil {
		return
	}
	if i.r != nil {
		i.cut = true
		i.cutOver()
		return
	}
	i.a.enqueue(item{kind: isRelay, step: func(refused *failure) {
		if refused != nil {
			return
		}
		switch i.q.in.Cutover(last, crc) {
		case relay.Fresh:
			i.q.cut = true
			i.cutOver()
		case relay.Gap:
			h.w.fail("I10", "the cutover at %d came to %s behind %d", last, h.name(), i.q.in.Last())
		case relay.Duplicate:
			h.w.Cover.Mark("the cutover came twice")
		}
	}})
}

// drop is for a move that was given up: copies are dropped, originals go to the owner, or
// are refused.
func (q *incoming) drop(f *failure) {
	a, h := q.a, q.a.h
	l := h.linkOf(q.i.from)
	for _, it := range q.rest {
		switch {
		case it.kind != isLetter:
			it.step(f)
		case it.l.copied:
		case !it.l.asks && it.l.session == nil && l != nil && it.l.hops < relay.HopsMax:
			h.w.Cover.Mark("an original went on to the owner that stayed")
			a.done(it.l)
			it.l.op.accepted = false // it is on its way again
			on := *it.l
			h.tell(l, func(to *host) {
				m := &letter{op: on.op, link: l, hops: on.hops + 1, deadline: on.deadline, path: on.path}
				to.admit(a.ref.id, 0, m)
			})
		default:
			a.refuse(it, f)
		}
	}
	q.saved, q.relayed, q.rest = nil, nil, nil
	a.cur = refusal{f}
	a.vacate()
}

// unread gives everything in order: what was saved, what was relayed before the cutover,
// the rest.
func (q *incoming) unread() []item {
	items := slices.Concat(q.saved, q.relayed, q.rest)
	q.saved, q.relayed, q.rest = nil, nil, nil
	return items
}
