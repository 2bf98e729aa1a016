package sim

import (
	"slices"

	lifecycle "github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// This file is how a move from a process ends.

func (o *leaving) confirm() {
	o.takeRow(func() {
		if o.r != nil {
			o.h.confirmRoom(o.r, o.confirmed)
			return
		}
		o.h.confirm(o.a, o.machine, o.confirmed)
	})
}

// confirmed reads the row, until it has an answer.
func (o *leaving) confirmed(f *failure) {
	o.h.read(o.machine, o.cell.ref.id, storeCallMax, func(row store.Authority, found bool, err error) {
		if err != nil {
			o.h.w.Cover.Mark("a confirmed row could not be read")
			o.h.after(again, func() { o.confirmed(f) })
			return
		}
		e := relay.SourceEvent{Is: relay.SourceConfirmed, Row: row, Found: found}
		if f != nil {
			e.Failure = f.relay()
		}
		o.done(e)
	})
}

// end brings the Actor to life again, if it stays.
func (o *leaving) end(e *relay.SourceEnded) {
	h, a := o.h, o.a
	o.over, o.sending = true, nil
	o.leavePermit()
	h.ends(o.machine)
	h.w.note(h.process, "move ends", o.cell.ref.id, sourceEnds[e.Outcome], uint64(o.cell.ref.gen))
	h.w.Cover.Mark("source ended " + sourceEnds[e.Outcome])
	h.w.moves.book.sourceEnds(o, e)
	if o.r != nil {
		o.endRoom(e)
		return
	}
	switch e.Outcome {
	case relay.SourceMoved:
		if o.mover == nil {
			o.abandon()
		} else {
			o.moved(e)
		}
		o.leaveRow()
		if o.unit != nil {
			o.unit.end(lifecycle.Left, nil)
		}
		return
	case relay.SourceLost:
		if o.mover == nil || !e.Found || e.Row.ObjectGen != a.ref.gen {
			o.abandon()
			o.leaveRow()
		} else {
			o.strand(e)
		}
		if o.unit != nil {
			o.unit.end(lifecycle.Lost, failureOf(e.Failure))
		}
		return
	case relay.SourceRejected, relay.SourceFailed:
	}
	if l := h.linkOf(o.to); e.Prepared && l != nil {
		h.tell(l, func(to *host) { to.moveAbort(l, o.id) })
	}
	back := func() {
		if e.Captured {
			a.seal(o.mover.handBack)
		}
		if e.Sealed {
			h.endSeal(o.bound, o.id, a.ref, false)
		}
		o.leaveRow()
		h.out = slices.DeleteFunc(h.out, func(other *leaving) bool { return other == o })
		if o.unit != nil {
			o.unit.end(lifecycle.Stayed, failureOf(e.Failure))
			return
		}
		o.join.decide(outcome{rejected: e.Outcome == relay.SourceRejected, fail: failureOf(e.Failure)})
	}
	if e.Found && h.owns(&e.Row) {
		a.written(&e.Row)
	} else if e.Doubt {
		o.readAgain(back)
		return
	}
	back()
}

func failureOf(f *relay.Failure) *failure {
	if f == nil {
		return nil
	}
	return &failure{f.Kind, f.Text, false}
}

// readAgain learns what version the row has, if that is in doubt.
func (o *leaving) readAgain(done func()) {
	h := o.h
	h.read(nil, o.cell.ref.id, storeCallMax, func(row store.Authority, found bool, err error) {
		switch {
		case err != nil:
			h.after(again, func() { o.readAgain(done) })
			return
		case found && h.owns(&row):
			o.cell.written(&row)
		}
		done()
	})
}

// moved begins to follow.
func (o *leaving) moved(e *relay.SourceEnded) {
	h, a := o.h, o.a
	now := refOf(&e.Row)
	if now.at != o.to { // the target's word alone: as its commit makes it
		now = a.ref
		now.at, now.owner = o.to, max(e.OwnerGen, a.ref.owner+1)
	}
	a.tenure = departed
	a.inTurn(func(refused *failure) {
		if refused == nil {
			o.mover.left(now)
		}
	})
	delete(h.routes, a.ref.id)
	o.until = h.clock().Add(h.w.moves.follow)
	o.join.leave()
}

// abandon ends an Actor whose row is gone.
func (o *leaving) abandon() {
	h := o.h
	h.w.Cover.Mark("an actor on its way was freed")
	h.out = slices.DeleteFunc(h.out, func(other *leaving) bool { return other == o })
	h.drop(o.a, errGone)
	o.join.leave()
}

// strand leaves the Actor sealed, with its messages refused, until somebody frees it, which a
// node that stops does itself.
func (o *leaving) strand(e *relay.SourceEnded) {
	a := o.a
	a.stuck = e.Failure.Text
	a.tenure = departed
	a.inTurn(func(refused *failure) {
		if refused == nil {
			o.mover.end(errStranded)
		}
	})
	o.stranded = true // and its target may yet say that it has it
	o.join.leave()
	o.leaveRow()
	if o.h.stopping && !e.Elsewhere {
		o.h.w.Cover.Mark("a move in doubt was ended by a stop")
		o.h.freeStuck(a, func(bool, *failure) {})
	}
}

// found ends an Actor that was stranded here, and of which its target says that it has it.
func (o *leaving) found() {
	if o.whole != nil {
		o = o.whole
	}
	if o.r != nil {
		o.foundRoom()
		return
	}
	if o.stranded {
		o.stranded = false
		o.h.w.Cover.Mark("a stranded actor was found")
		o.h.out = slices.DeleteFunc(o.h.out, func(other *leaving) bool { return other == o })
		o.h.drop(o.a, errNotHere)
	}
}

// forget ends the follow.
func (o *leaving) forget() {
	h, a := o.h, o.a
	h.out = slices.DeleteFunc(h.out, func(other *leaving) bool { return other == o })
	if o.r != nil { // nothing follows it
		return
	}
	h.leaveTable(a)
	h.w.Cover.Mark("a follow ended")
	a.step(func(refused *failure) {
		if refused == nil {
			o.mover.end(errMoved)
		}
	})
}
