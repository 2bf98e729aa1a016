package sim

import (
	"slices"

	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// mover is the consumer of an Actor's mailbox from the seal of its move on. What is queued
// then is saved, what comes later held, and behind the boundary relayed.
type mover struct {
	o    *leaving
	a    *actor
	back consumer // what it is to be again if it stays

	phase  moverPhase
	saved  []item
	held   []item
	out    relay.Out[handed]
	last   relay.Seq
	link   *link
	unsure bool

	follow relay.Follow
	home   *actor // the Actor's cell here, once it has come back
}

type moverPhase uint8

const (
	moverSaving moverPhase = iota
	moverHolding
	moverRelaying
	moverFollowing
)

// handed is a letter that was relayed and not acknowledged.
type handed struct {
	l *letter
	c carried
}

func (v *mover) consume(a *actor, it item) {
	switch {
	case it.kind == isStep || it.kind == isRelay:
		it.step(nil)
	case v.phase == moverSaving:
		v.saved = append(v.saved, it)
	case v.phase == moverHolding:
		v.held = append(v.held, it)
	case it.kind == isControl:
		a.refuse(it, errMoving)
	case v.home != nil:
		a.done(it.l)
		v.home.enqueue(it)
	default:
		v.pass(it.l)
	}
}

// capture takes what goes along, in the Actor's turn.
func (v *mover) capture() *payload {
	a, h := v.a, v.a.h
	v.phase = moverHolding
	p := &payload{state: slices.Clone(a.state), chunks: 1 + h.w.choose(4)}
	if b := v.o.bound; b.stands(h) && b.key == a.binding.key { // else it has ended since, and that was told
		h.drained(b, v.o.id, a.ref)
		p.bound = &movedBinding{b.key.owner(h), b.key.session, b.key.gen}
	} else { // the end of a binding that is over waits behind the seal, where it will be refused
		p.lost = a.binding.key
	}
	for _, it := range v.saved {
		if it.kind == isLetter {
			p.queue = append(p.queue, h.carry(it.l))
		}
	}
	h.w.moves.book.captured(v.o, p.state)
	return p
}

// handBack gives everything back to the Join's barrier: the move was given up.
func (v *mover) handBack() {
	a := v.a
	if a.gone {
		a.end(errGone)
		return
	}
	a.cur = v.back
	a.unread(slices.Concat(v.saved, v.held))
	v.saved, v.held = nil, nil
}

// unread is for the Actor's end at this process.
func (v *mover) unread() []item {
	items := slices.Concat(v.saved, v.held)
	v.saved, v.held = nil, nil
	v.out.Acked(v.last, func(m handed) { v.a.refuse(item{l: m.l}, errHanded) })
	return items
}

func (v *mover) relay(l *link) {
	v.phase, v.link = moverRelaying, l
	held := v.held
	v.held = nil
	for _, it := range held {
		if it.kind != isLetter {
			it.step(errMoving)
			continue
		}
		v.a.h.w.Cover.Mark("relayed what was held")
		v.pass(it.l)
	}
	v.sendCutover()
}

// pass relays a letter, or refuses it.
func (v *mover) pass(m *letter) {
	a, h := v.a, v.a.h
	v.notify(m)
	owner, f := v.passable(m)
	if f != nil {
		a.refuse(item{l: m}, f)
		return
	}
	c := h.carry(m)
	c.owner = owner
	v.last++
	if seq := v.out.Add(handed{m, c}, c.bytes()); seq != v.last {
		h.w.fail("I10", "relayed letter %d has the number %d", v.last, seq)
	}
	v.send(v.last, c)
}

func (v *mover) passable(m *letter) (store.OwnerGen, *failure) {
	h := v.a.h
	if v.phase == moverFollowing {
		on, f := v.follow.Decide(h.clock(), relay.Stray{OwnerGen: v.a.ref.owner, Hops: uint8(m.hops), Deadline: m.deadline})
		if f != nil {
			return 0, failureOf(f)
		}
		h.w.Cover.Mark("followed")
		return on.OwnerGen, nil
	}
	switch {
	case h.clock().Reached(m.deadline):
		return 0, errNoReply
	case m.hops >= relay.HopsMax:
		return 0, errTooFar
	}
	return v.a.ref.owner + 1, nil
}

func (v *mover) send(seq relay.Seq, c carried) {
	h, l := v.a.h, v.link
	switch {
	case v.unsure:
	case l == nil || h.lost(l):
		v.unsure = true // the next link asks
	default:
		h.tell(l, func(to *host) { to.relayed(l, v.o.id, seq, c) })
	}
}

func (v *mover) sendCutover() {
	h, l, id := v.a.h, v.link, v.o.id
	last, crc := v.out.Cutover()
	if l == nil || h.lost(l) {
		v.unsure = true
	}
	if !v.unsure {
		h.tell(l, func(to *host) { to.cutover(l, id, last, crc) })
	}
}

// reconnected is told of a new link to the target.
func (v *mover) reconnected(l *link) {
	if h, id := v.a.h, v.o.id; v.phase >= moverRelaying {
		v.link, v.unsure = l, true
		if !h.lost(l) {
			h.tell(l, func(to *host) { to.moveAsk(l, id) })
		}
	}
}

// progress is what the target says that it has.
type progress struct {
	state relay.Progress
	seq   relay.Seq
}

func (v *mover) progress(l *link, p progress) {
	h := v.a.h
	if v.phase < moverRelaying || h.lost(l) {
		return
	}
	if p.state == relay.ProgressCommitted && !v.out.Acked(p.seq, func(m handed) { v.a.done(m.l) }) {
		h.w.fail("I10", "%s acknowledges %d, and %d were relayed", l.other(h.process).name(), p.seq, v.last)
		return
	}
	if !v.unsure || p.state == relay.ProgressGone {
		return
	}
	v.link, v.unsure = l, false
	for again := range v.out.Again(p.seq) {
		h.w.Cover.Mark("relayed again over a new link")
		switch {
		case !again.Cutover:
			v.send(again.Seq, again.Item.c)
		case p.state != relay.ProgressCommitted:
			v.sendCutover()
		}
	}
}

// left is told that the target owns the Actor.
func (v *mover) left(now ref) {
	h := v.a.h
	if v.phase < moverRelaying { // it was committed although its relay-ready was not accepted in time
		v.relay(h.linkOf(v.o.to))
	}
	if v.phase != moverRelaying {
		return
	}
	v.phase = moverFollowing
	v.follow = relay.NewFollow(now.gen, now.owner, h.clock(), h.w.moves.follow)
	for _, it := range v.saved {
		if it.kind != isLetter {
			it.step(errMoving)
			continue
		}
		v.a.done(it.l)
	}
	v.saved = nil
	v.a.vacate()
}

// end refuses all that is left here, and all that comes.
func (v *mover) end(f *failure) {
	for _, it := range slices.Concat(v.saved, v.held) {
		v.a.refuse(it, f)
	}
	v.saved, v.held = nil, nil
	v.out.Acked(v.last, func(m handed) { v.a.refuse(item{l: m.l}, errHanded) })
	v.a.cur = refusal{f}
	v.a.vacate()
}

// notify tells the sender of a letter that took an old way.
func (v *mover) notify(m *letter) {
	a := v.a
	if v.phase != moverFollowing || m.link == nil || m.hops != 0 || m.session != nil || a.h.lost(m.link) {
		return
	}
	id, owner := a.ref.id, a.ref.owner
	a.h.tell(m.link, func(to *host) {
		if r := to.routes[id]; r != nil && r.ref.owner <= owner {
			delete(to.routes, id)
		}
	})
}

// What a source hears of its target.

func (h *host) leavingTo(l *link, id store.RelocationID) *leaving {
	for _, o := range h.out {
		if o.id == id && o.to == h.peer(l) {
			return o
		}
	}
	return nil
}

func (o *leaving) linked(l *link) {
	if o.stranded && o.whole == nil {
		o.h.tell(l, func(to *host) { to.moveAsk(l, o.id) })
		return
	}
	if o.relays {
		o.cutOverRoom(l)
		o.h.tell(l, func(to *host) { to.moveAsk(l, o.id) })
	}
	if o.mover != nil {
		o.a.step(func(refused *failure) {
			if refused == nil {
				o.mover.reconnected(l)
			}
		})
	}
}

func (h *host) moveProgress(l *link, id store.RelocationID, state relay.Progress, chunks int, seq relay.Seq) {
	o := h.leavingTo(l, id)
	if o == nil {
		return
	}
	switch state {
	case relay.ProgressAssembling:
		o.received(l, chunks)
		return
	case relay.ProgressCommitted:
		o.tell(relay.SourceEvent{Is: relay.SourceCommitted})
		o.found()
	case relay.ProgressGone:
		o.tell(relay.SourceEvent{Is: relay.SourceGivenUp})
	case relay.ProgressReady:
	}
	if o.mover != nil {
		o.a.step(func(refused *failure) {
			if refused == nil {
				o.mover.progress(l, progress{state, seq})
			}
		})
	}
}

func (h *host) actorLeft(l *link, id store.RelocationID) {
	o := h.leavingTo(l, id)
	if o == nil {
		return
	}
	o.tell(relay.SourceEvent{Is: relay.SourceCommitted})
	h.leftSpot(o.a.ref, id)
}

// leftSpot runs OnLeaveActor, for which nobody waits.
func (h *host) leftSpot(actor ref, id store.RelocationID) {
	h.after(h.w.moves.drawTurn(), func() {
		if !h.mayAct() {
			h.late = append(h.late, func() { h.leftSpot(actor, id) })
			return
		}
		h.w.moves.book.leftSpot(h, actor, id)
	})
}

var sourceSteps = [...]string{
	relay.SourceAdmit: "S R01", relay.SourceReserve: "S R01 reserve", relay.SourcePermit: "S R03 permit", relay.SourceSealSession: "S R03",
	relay.SourcePrepare: "S R03 inventory", relay.SourceCapture: "S R04", relay.SourceRestore: "S R05-R08", relay.SourceRelay: "S R09-R11", relay.SourceRead: "S read",
	relay.SourceAbort: "S abort", relay.SourceSettle: "S settle", relay.SourceConfirm: "S confirm", relay.SourceEnd: "S end",
}

var sourceWhats = [...]string{
	relay.SourceAdmit: "admit", relay.SourceReserve: "reserve", relay.SourcePermit: "permit", relay.SourceSealSession: "seal session",
	relay.SourcePrepare: "prepare", relay.SourceCapture: "capture", relay.SourceRestore: "restore", relay.SourceRelay: "relay", relay.SourceRead: "read",
	relay.SourceAbort: "abort", relay.SourceSettle: "settle", relay.SourceConfirm: "confirm", relay.SourceEnd: "end",
}

var sourceEnds = [...]string{
	relay.SourceRejected: "rejected", relay.SourceFailed: "failed", relay.SourceMoved: "moved", relay.SourceLost: "lost",
}
