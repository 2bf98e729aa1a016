package node

import (
	"context"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/store"
)

// This file is how a Spot leaves as its node is relocated. Its *claim* comes first: from then
// on nothing ends the Spot, and nobody enters or leaves it, until the move has ended.

var errSpotMoves = &Error{Kind: errkind.Unavailable, Text: "the spot moves to another node, as its own is being relocated"}

// spotFate is what becomes of a Spot: a move claims it, or calls of Close were told that it ends. The
// two exclude each other. Safe for concurrent use.
type spotFate struct {
	closes atomic.Int32           // < 0: a move has claimed it
	shell  atomic.Pointer[shell]  // it has left; nil: it is here
	behind atomic.Pointer[behind] // it has come before its members; nil: it has not
}

func (f *spotFate) claim() bool   { return f.closes.CompareAndSwap(0, -1) }
func (f *spotFate) release()      { f.closes.CompareAndSwap(-1, 0) }
func (f *spotFate) claimed() bool { return f.closes.Load() < 0 }

// promise notes that somebody is told that the Spot ends; kept, that this was tried.
func (f *spotFate) promise() bool {
	for {
		n := f.closes.Load()
		if n < 0 {
			return false
		}
		if f.closes.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (f *spotFate) kept() { f.closes.Add(-1) }

// admits returns the place of an Actor that asks to be let in.
func (a *objectCell) admits() (*visitor, *Error) {
	v := a.members.ask()
	switch {
	case v == nil:
		return nil, errClosing
	case a.fate.claimed(): // looked at after it is counted: a move waits for it, or finds none
		v.leave()
		return nil, errSpotMoves
	}
	return v, nil
}

// moveSpot moves a Spot that takes nobody along.
func (r *relocating) moveSpot(ctx context.Context) unitEnd {
	if err := r.claimSpot(ctx); err != nil {
		return r.unclaimed(err)
	}
	return r.runClaimed(ctx, r.newMove(moveTarget{to: r.to}, nil))
}

// runClaimed runs the move of a Spot that is claimed. One that stays is free again; one that is
// lost is nobody's to close or move.
func (r *relocating) runClaimed(ctx context.Context, o *moveOut) unitEnd {
	end := r.run(ctx, o)
	if end.result == unitStayed {
		o.cell.fate.release()
	}
	return end
}

// claimSpot claims the Spot in a turn of its own. What was promised, and what is under way, comes
// first: a close of which somebody was told, an Actor that enters, the Join of a member.
func (r *relocating) claimSpot(ctx context.Context) *Error {
	ctx, cancel := untilTime(ctx, r.deadline)
	defer cancel()
	c := r.unit.cell
	for wait := createWaitMin; ; wait = min(2*wait, createWaitMax) {
		claimed, err := r.tryClaimSpot(ctx)
		switch {
		case err != nil:
			return err
		case !claimed && !pause(ctx, wait):
			return r.late(ctx)
		case !claimed:
			continue
		}
		break
	}
	if err := r.settleMembers(ctx); err != nil {
		c.fate.release()
		return err
	}
	return nil
}

// settleMembers waits until nobody is about to enter or leave a Spot that is claimed.
func (r *relocating) settleMembers(ctx context.Context) *Error {
	ctx, cancel := untilTime(ctx, r.deadline)
	defer cancel()
	for wait := createWaitMin; ; wait = min(2*wait, createWaitMax) {
		_, settled, err := r.node.membersHere(ctx, r.unit.cell)
		switch {
		case err == nil && settled:
			return nil
		case !pause(ctx, wait):
			return r.late(ctx)
		}
	}
}

// tryClaimSpot is false if there is something to be waited for.
func (r *relocating) tryClaimSpot(ctx context.Context) (claimed bool, err *Error) {
	c := r.unit.cell
	if c.fate.claimed() { // whose turns wait
		return false, errSpotMoves
	}
	late := r.inTurn(ctx, func(t *turn) {
		switch {
		case t.refused != nil:
			err = t.refused
		case t.cell != c || c.closing: // the queue is the next incarnation's
			err = errGone
		case c.fate.claim():
			claimed = true
		case c.fate.claimed():
			err = errSpotMoves
		}
	})
	if late != nil {
		return false, late
	}
	return claimed, err
}

// inTurn runs f in a turn of the unit ahead of its messages. On error it has not run, and will not.
func (r *relocating) inTurn(ctx context.Context, f func(*turn)) *Error {
	ran := make(chan struct{})
	var settled atomic.Bool // by the turn, or by who has waited for it
	r.unit.cell.lifecycle(func(t *turn) {
		if !settled.Swap(true) {
			defer close(ran)
			f(t)
		}
	})
	select {
	case <-ran:
	case <-ctx.Done():
		if !settled.Swap(true) {
			return r.late(ctx)
		}
		<-ran
	}
	return nil
}

// membersHere returns the members of a Spot of this node, as the Store knows them. settled is false
// while somebody is about to enter or leave it.
func (n *Node) membersHere(ctx context.Context, spot *objectCell) (members []*objectCell, settled bool, _ *Error) {
	if spot.members.none() {
		return nil, true, nil
	}
	ids, err := n.memberIDs(ctx, spot.ref.ID)
	if err != nil {
		return nil, false, err
	}
	settled = true
	for _, id := range ids {
		c := n.cellOf(id, store.Actor)
		if c == nil || c.spot.Load() != spot {
			settled = false
			continue
		}
		if j := c.joining.Load(); j != nil && !j.relocates {
			settled = false
		}
		members = append(members, c)
	}
	return members, settled && int(spot.members.count.Load()) == len(members), nil
}

// captureCalm is capture for a Spot, of which no turn may be in a Yield: those have their time
// first, to the deadline.
func (o *moveOut) captureCalm(ctx context.Context, capture func(*turn) *Error) *Error {
	c := o.cell
	ran := make(chan *Error, 1)
	var settled atomic.Bool // by the turn, or by who has waited for it
	c.step(func(t *turn) {
		c.calmly(t, func(t *turn) {
			switch {
			case settled.Swap(true):
			case t.refused != nil:
				ran <- t.refused
			default:
				ran <- capture(t)
			}
		})
	})
	select {
	case err := <-ran:
		return err
	case <-ctx.Done():
		switch {
		case settled.Swap(true):
			return <-ran
		case o.stopped.Err() != nil:
			return errStopping
		}
		return errUnitLate
	}
}

// closeBehind runs OnClosing of a Spot that goes on elsewhere, on the value that was its own here.
// It has a queue of its own: what is relayed does not wait for it. Its context is of an object that
// is over here, and can do nothing to the one that goes on (RL-17). It is waited for to the
// callback's deadline.
func (o *moveOut) closeBehind(value any) {
	c, n := o.cell, o.node
	if c.typ.OnClosing == nil {
		return
	}
	deadline := max(o.deadline, clock.Now().Add(n.cfg.CreateTimeout))
	ctx, cancel := untilTime(n.life, deadline)
	defer cancel()
	queue := mailbox.New[message](n.pool, &beginning{c}, mailbox.Limits{})
	_ = c.await(ctx, func(f func(*turn)) { queue.PushControl(controlMessage(f)) }, "OnClosing", func(t *turn) *Error {
		return c.callback(t.claim, "OnClosing", deadline, func(call *Call) error { return c.typ.OnClosing(call, value, RelocationOut) })
	}) // if it fails, that is logged and counted
}
