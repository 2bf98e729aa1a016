package node

import (
	"context"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/errkind"
)

// This file is about Spots that say themselves when they may move, as between two rounds of a
// match. Such a Spot is moved at no other time. What it has said holds from the end of that turn to
// its own next one. A relocation that waits for it raises a *barrier* at the end of the turn: the
// Spot's next messages are held from there on, until it has moved or goes on here.

const opReady = "relocation ready"

var errUnready = &Error{Kind: errkind.DeadlineExceeded, Text: "it did not say by RelocationReady that it may move before the relocation's deadline"}

// readiness is what a SpotWide Spot has said of it. It is owned by the gate.
type readiness struct {
	uses   bool                        // it says so by itself; what has the callback of its move does
	stands bool                        // it has, and has had no turn since
	waits  atomic.Pointer[readyWaiter] // the relocation that waits for it
}

// readyWaiter is a relocation that waits for a Spot.
type readyWaiter struct {
	settled atomic.Bool // by the Spot, or by who has waited
	came    chan struct{}
	held    *hold // the barrier
}

// RelocationReady says that the SpotWide Spot whose turn it is may move behind it, if the turn ends
// normally.
func (c *Call) RelocationReady() error {
	mustBeInTurn(c.cell != nil)
	if err := c.fenced(); err != nil {
		return err.of(opReady, c.cell.ref.ID)
	}
	if !c.cell.typ.Wide {
		return fail(errkind.InvalidOperation, opReady, c.cell.ref.ID, "only a SpotWide spot says when it may move")
	}
	c.ready = true
	return nil
}

// saysReady is the end of a turn in which the Spot has said that it may move.
func (c *objectCell) saysReady() {
	r := &c.ready
	r.uses, r.stands = true, true
	if w := r.waits.Load(); w != nil && c.fate.claim() { // else it ends, as somebody was told
		r.waits.Store(nil)
		if w.settled.Swap(true) {
			c.fate.release()
			return
		}
		c.box.Seal(&release{cell: c, from: &hold{}, next: w.held})
		close(w.came)
	}
}

// signals reports whether the Spot says itself when it may move.
func (c *objectCell) signals() bool { return c.typ.OnRelocationReadyCompleted != nil || c.ready.uses }

// awaitReady waits until a Spot that says itself when it may move does so. Then its barrier stands
// and it is claimed; a nil one: it moves at the end of any turn. Nobody else waits for the unit's
// permit meanwhile.
func (r *relocating) awaitReady(ctx context.Context) (barrier *hold, err *Error) {
	ctx, cancel := untilTime(ctx, r.deadline)
	defer cancel()
	c := r.unit.cell
	w := &readyWaiter{came: make(chan struct{}), held: &hold{cell: c}}
	waits := false
	late := r.inTurn(ctx, func(t *turn) {
		switch {
		case t.refused != nil:
			err = t.refused
		case c.closing:
			err = errGone
		case !c.signals():
		case c.ready.stands && c.fate.claim():
			barrier = w.held
			c.become(t.claim, barrier)
		default:
			waits = true
			c.ready.waits.Store(w)
		}
	})
	switch {
	case late != nil:
		return nil, late
	case !waits:
		return barrier, err
	}
	r.leavePermit()
	select {
	case <-w.came:
	case <-ctx.Done():
		if !w.settled.Swap(true) {
			c.ready.waits.CompareAndSwap(w, nil)
			if err = r.late(ctx); err == errUnitLate {
				err = errUnready
			}
			return nil, err
		}
		<-w.came
	}
	if err = r.node.movesOut.enter(ctx, deadlineOf(ctx)); err != nil {
		r.goesOn(w.held)
		if ctx.Err() != nil {
			err = r.late(ctx)
		}
		return nil, err
	}
	r.permitted = true
	return w.held, nil
}

// AwaitsReady reports whether a relocation waits for the Spot's word: for tests.
func (n *Node) AwaitsReady(id string) bool {
	c, here := n.actors.Load(id)
	return here && c.ready.waits.Load() != nil
}

// goesOn lets a claimed Spot go on that has not moved, from its barrier if it has one.
func (r *relocating) goesOn(barrier *hold) {
	c := r.unit.cell
	c.fate.release()
	if barrier != nil {
		c.box.Seal(&release{cell: c, from: barrier, next: c})
	}
}

// readyCompleted tells the Spot, if it had said that it may move, that it has.
func (i *moveIn) readyCompleted() *Error {
	c := i.cell
	if c.typ.OnRelocationReadyCompleted == nil {
		return nil
	}
	return c.whole(c.step, "OnRelocationReadyCompleted", nil, &i.completeTries, bound(c.typ.OnRelocationReadyCompleted, c))
}
