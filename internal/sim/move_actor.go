package sim

import (
	"slices"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// ref names an incarnation of an Actor or a room at its owner.
type ref struct {
	id    string
	gen   store.ObjectGen
	at    place
	owner store.OwnerGen
}

// cell is what is at a process of anything that has a row.
type cell struct {
	h       *host
	ref     ref
	version store.Version
	epoch   store.Epoch
	tenure  tenure
	gone    bool
	stuck   string // why it does not go on

	taken   bool // a change of the row is under way
	waiting []func()
}

// actor is an Actor at a process, with its mailbox: one thing of the queue at a time is
// given to the consumer, which is the Actor itself or what holds its messages.
type actor struct {
	cell
	room    *room // where it is; nil: the Entry Spot
	rowRoom *room // where its row says that it is
	came    bool  // by a move
	told    bool  // its completion callback has run since
	state   []int
	binding binding
	join    *join
	sealing bool // its binding is being sealed, or is: it gets no other one

	queue     []item
	next      func() // what is to be the consumer before anything else
	cur       consumer
	busy, due bool
	load      int // letters that count in the queue's budget
}

type tenure uint8

const (
	owned    tenure = iota
	departed        // on its way, or another's
	expected        // not this process's yet
)

// item is what a queue has: a letter, or a step.
type item struct {
	l    *letter
	step func(refused *failure)
	kind itemKind
}

type itemKind uint8

const (
	isLetter  itemKind = iota
	isControl          // in order with the letters
	isStep             // goes on while the letters are held
	isRelay            // brings a relayed letter
)

type consumer interface {
	consume(a *actor, it item)
}

// keeper is a consumer that holds letters.
type keeper interface {
	consumer
	unread() []item
}

func (a *actor) enqueue(it item) {
	a.queue = append(a.queue, it)
	a.wake()
}

func (a *actor) control(f func(*failure)) { a.enqueue(item{step: f, kind: isControl}) }
func (a *actor) step(f func(*failure))    { a.enqueue(item{step: f, kind: isStep}) }

// seal makes something the consumer before anything else is taken.
func (a *actor) seal(begin func()) {
	a.next = begin
	a.wake()
}

func (a *actor) wake() {
	if !a.busy && !a.due && (a.next != nil || len(a.queue) > 0) {
		a.due = true
		a.h.soon(a.pump)
	}
}

func (a *actor) pump() {
	a.due = false
	switch {
	case a.busy:
		return
	case a.next != nil:
		begin := a.next
		a.next = nil
		begin()
		a.settled()
	case a.room != nil && a.room.calm != nil:
		return
	case len(a.queue) > 0:
		it := a.queue[0]
		a.queue = a.queue[1:]
		a.cur.consume(a, it)
	}
	a.wake()
}

// unread puts things in front of the queue.
func (a *actor) unread(items []item) { a.queue = slices.Concat(items, a.queue) }

// queueMax bounds the letters of one Actor.
const queueMax = 24

// push admits a letter.
func (a *actor) push(l *letter) *failure {
	if l.gen != 0 && l.gen != a.ref.gen {
		return errIncarnation
	}
	if a.load >= queueMax {
		a.h.w.Cover.Mark("a queue was full")
		return errQueueFull
	}
	a.load++
	l.counted = true
	a.h.w.moves.book.accepted(a, l)
	a.enqueue(item{l: l})
	return nil
}

// done gives back what the letter took of the budget.
func (a *actor) done(l *letter) {
	if l.counted {
		l.counted = false
		a.load--
	}
}

func (a *actor) refuse(it item, f *failure) {
	if it.kind != isLetter {
		it.step(f)
		return
	}
	a.done(it.l)
	a.h.refuse(it.l, f)
}

// open is the Actor itself as a consumer.
type open struct{}

func (open) consume(a *actor, it item) {
	if j := a.join; j != nil && j.phase == joinActive {
		j.stand()
		a.cur.consume(a, it)
		return
	}
	if it.kind != isLetter {
		it.step(nil)
		return
	}
	h, l := a.h, it.l
	var f *failure
	switch {
	case !h.mayAct():
		f = errNotOwner
	case h.clock().Reached(l.deadline):
		f = errNoReply
	case l.session != nil && *l.session != a.binding.key:
		f = errUnbound
	}
	if f != nil {
		a.refuse(it, f)
		return
	}
	a.run(l)
}

// run is one turn.
func (a *actor) run(l *letter) {
	h, w := a.h, a.h.w
	a.busy = true
	w.moves.book.begins(a, l)
	a.state = append(a.state, l.op.n)
	h.after(w.moves.drawTurn(), func() {
		w.moves.book.ends(a)
		a.done(l)
		a.push2client(len(a.state))
		j := l.op.join
		if j != nil && !a.gone {
			a.register(j)
		}
		h.reply(l, len(a.state))
		a.busy = false
		if a.join != nil && a.join.phase == joinRegistered {
			a.join.activate()
		}
		a.settled()
		a.wake()
	})
}

// settled is called when the Actor may have come to a moment without a turn.
func (a *actor) settled() {
	if r := a.room; r != nil {
		r.settle()
	}
}

// hold keeps what comes in order.
type hold struct {
	held  []item
	steps bool // they go on
}

func (c *hold) consume(_ *actor, it item) {
	if c.steps && it.kind == isStep {
		it.step(nil)
		return
	}
	c.held = append(c.held, it)
}

func (c *hold) unread() []item {
	held := c.held
	c.held = nil
	return held
}

// release lets the Actor go on with what was held.
func (a *actor) release(from *hold) {
	a.seal(func() {
		if a.gone {
			a.end(errGone)
			return
		}
		a.cur = open{}
		a.unread(from.unread())
	})
}

// refusal answers everything.
type refusal struct{ f *failure }

func (c refusal) consume(a *actor, it item) { a.refuse(it, c.f) }

// end refuses what waits and what comes.
func (a *actor) end(f *failure) {
	before := a.cur
	a.cur = refusal{f}
	if k, ok := before.(keeper); ok {
		a.unread(k.unread())
	}
	a.vacate()
}

// vacate ends what is of the Actor at this process.
func (a *actor) vacate() {
	a.gone = true
	before := a.binding
	a.binding = binding{}
	if a.tenure == owned && before.stands(a.h) {
		a.h.tellEnded(before, a.ref)
	}
	if r := a.room; r != nil {
		a.room = nil
		r.leave()
	}
}

func (h *host) drop(a *actor, f *failure) {
	h.w.moves.book.dropped(a)
	h.leaveTable(a)
	a.gone = true
	h.w.note(h.process, "drops", a.ref.id, f.text, uint64(a.ref.gen))
	a.seal(func() { a.end(f) })
}

func (h *host) leaveTable(a *actor) {
	if h.actors[a.ref.id] == a {
		delete(h.actors, a.ref.id)
	}
}

// takeRow begins a change of the row, behind those that are under way, by the deadline.
func (c *cell) takeRow(until clock.Mono, done func(ok bool)) {
	if !c.taken {
		c.taken = true
		done(true)
		return
	}
	over := false
	c.waiting = append(c.waiting, func() {
		if over {
			c.leaveRow()
			return
		}
		over = true
		done(true)
	})
	if until != clock.Never {
		c.h.at(until, func() {
			if !over {
				over = true
				done(false)
			}
		})
	}
}

func (c *cell) leaveRow() {
	c.taken = false
	if len(c.waiting) > 0 {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.taken = true
		c.h.soon(next)
	}
}

// fence is for the holder of takeRow.
func (a *actor) fence() store.Fence {
	f := store.Fence{
		ID: a.ref.id, ObjectGen: a.ref.gen, Version: a.version, OwnerID: a.h.lease.OwnerID, LeaseGen: a.h.lease.Gen, SpotID: a.h.entryID(),
	}
	if r := a.rowRoom; r != nil {
		f.SpotID = r.ref.id
		if r.wide {
			f.SpotVersion = r.version
		}
	}
	return f
}

func (c *cell) written(row *store.Authority) { c.version, c.epoch = row.Version, row.Epoch }

// caughtUp notes a later version of the row, if it is still this incarnation's at this process.
func (c *cell) caughtUp(row *store.Authority) bool {
	if !c.h.owns(row) || row.ObjectGen != c.ref.gen || row.Version <= c.version {
		return false
	}
	c.h.w.Cover.Mark("a later version of an own row was found")
	c.version = row.Version
	return true
}

func (c *cell) behind(epoch store.Epoch) bool { return c.epoch < epoch && !c.gone }

// inTurn runs f in a step of the Actor.
func (a *actor) inTurn(f func(refused *failure)) { a.step(f) }

// callback runs one of a Spot's callbacks, if the process may act.
func (h *host) callback(done func(ok bool)) {
	h.after(h.w.moves.drawTurn(), func() { done(h.mayAct()) })
}
