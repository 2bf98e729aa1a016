package node

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/store"
)

// This file is about Instance Spots that end, or do not come into being: what was for them
// and has not run is for their next incarnation, wherever that is.

// end is how an activation ended badly. It returns the dawn of the next incarnation, for
// the messages that compete again.
func (a *activation) end(e *creation.ActivationEffect) (next *objectCell) {
	n, err, present := a.node, failed(e.Failure, a.dawn.ref.ID), a.dawn
	n.ending.Add(1) // the place among the activations may be given back before the queue is
	defer n.ending.Add(-1)
	if a.cell != nil {
		a.cell.gone.Store(true)
		if a.taken {
			present = a.cell
			defer a.cell.leaveRow()
		}
	}
	n.routes.drop(a.dawn.ref.ID)
	rest, again := err, false // of those behind the first
	switch e.Return {
	case creation.ReturnAll:
		err.stale, again = true, true
		if e.Elsewhere {
			err.Kind = errkind.AlreadyExists // which tells the sender that it is no matter of this node
		}
	case creation.ReturnRest:
		rest, again = errStoppingHere, true // if it does not have the next incarnation
	default:
	}
	if a.stead != nil { // behind its callbacks, which keep their place as long as they hang
		leave := a.leave
		a.leave = func() {}
		a.inStead(func(*turn) {
			a.cell.over()
			leave()
		})
	}
	n.shutOut(present, func(t *turn) {
		if e.Return != creation.ReturnAll {
			a.held.held[a.first.at].bury(n, err)
		}
		if e.Return != creation.ReturnRest || n.stopping.Load() {
			n.abandon(t, present, a.held, rest, again)
			return
		}
		present.entrance.open()
		next = n.newDawn(present.typ, present.ref.ID, present.box, a.held, present.entrance)
		if !n.replace(present, next) {
			next = nil
		}
	})
	return next
}

// over ends what the object has beside its queue. Under its claim.
func (c *objectCell) over() {
	c.fenceTimers()
	c.instance = nil
}

// shutOut runs f in the turn of the queue, whose entrance is shut then.
func (n *Node) shutOut(c *objectCell, f func(*turn)) {
	for done := false; !done; {
		ok := c.inClaim(func(t *turn) {
			if done = c.entrance.shut(); done {
				f(t)
			}
		})
		if !ok {
			return
		}
	}
}

// abandon ends a queue that is shut, in its own turn: nobody finds it from here on, and
// what is in it is turned away. A node that stops waits for that, with its links.
func (n *Node) abandon(t *turn, c *objectCell, held *hold, err *Error, again bool) {
	n.ending.Add(1)
	c.step(func(*turn) { n.ending.Add(-1) }) // behind all of it
	c.gone.Store(true)
	n.leaveTable(c)
	c.become(t.claim, &turnedAway{cell: c, err: err, again: again})
	held.unread(t.claim)
}

// abandonEmpty is abandon for a queue in which nothing waits, unless something has come.
func (n *Node) abandonEmpty(t *turn, c *objectCell, held *hold) bool {
	if !c.entrance.shut() {
		return false
	}
	if c.box.Len() > held.counted {
		c.entrance.open()
		return false
	}
	n.abandon(t, c, held, errNotHere, true)
	return true
}

// turnedAway is the consumer of a queue whose Spot is not at this node. Who waits for an
// answer gets the error. If the messages may go on their way again, the error says that
// they were not taken; the one-way ones, for which nobody waits, this node sends itself.
type turnedAway struct {
	cell  *objectCell
	err   *Error
	again bool

	mu      sync.Mutex
	waiting []Outgoing // one-way messages to be sent, in order
	sends   bool
}

// Begin implements mailbox.Consumer.
func (a *turnedAway) Begin(*mailbox.Claim[message]) {}

// Consume implements mailbox.Consumer.
func (a *turnedAway) Consume(claim *mailbox.Claim[message], m *message) {
	n := a.cell.node
	if m.packet == relayPacket && a.cell.tenure.Load() == owned { // what it brings is turned away, too
		m.control(&turn{node: n, cell: a.cell, claim: claim})
		m.done()
		return
	}
	if m.isControl() {
		m.refuse(n, errGone)
		return
	}
	if a.again && m.kind == msgIntentSend && !n.stopping.Load() && a.resend(m) {
		m.done()
		return
	}
	m.refuse(n, a.err)
}

// turnsAway is the consumer of a queue whose object has gone to another node, or did not come: what
// can find it there does.
func (c *objectCell) turnsAway(err *Error) mailbox.Consumer[message] {
	if c.typ.Kind == store.InstanceSpot && err.stale {
		return &turnedAway{cell: c, err: err, again: true}
	}
	return &refusal{node: c.node, err: err}
}

func (a *turnedAway) resend(m *message) bool {
	o := Outgoing{
		Name: strings.Clone(m.packet.name), Codec: m.codec,
		Metadata: append([]byte(nil), m.metadata()...), Payload: append([]byte(nil), m.body()...),
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.sends && !a.cell.node.tasks.Go(a.send) {
		return false
	}
	a.sends = true
	a.waiting = append(a.waiting, o)
	return true
}

func (a *turnedAway) send() {
	n := a.cell.node
	to := Target{ID: a.cell.ref.ID, spot: true, instance: true, typ: a.cell.typ.Name}
	for {
		a.mu.Lock()
		if len(a.waiting) == 0 {
			a.sends = false
			a.mu.Unlock()
			return
		}
		o := a.waiting[0]
		a.waiting = a.waiting[1:]
		a.mu.Unlock()
		r := n.intend(n.life, &to, &o, clock.Now().Add(n.cfg.CreateTimeout), false)
		r.owner.Free()
		if r.err != nil {
			n.counters.dropped.Add(1)
		}
	}
}

// shut begins the end of an Instance Spot, in its turn: of what is behind that nothing runs
// but turns in a Yield and OnClosing.
func (c *objectCell) shut(t *turn, reason ClosingReason) {
	n := c.node
	over := t.refused != nil || c.gone.Load() || c.closing || n.stopping.Load()
	if reason == ExplicitClose { // who asked was told that it ends
		if !over && !n.mayAct(t.claim.Now()) {
			n.late.add(func() { c.ended(func(t *turn) { c.shut(t, reason) }) })
			return
		}
		defer c.fate.kept()
	}
	if over || !n.mayAct(t.claim.Now()) || c.fate.claimed() {
		return
	}
	held := &hold{cell: c}
	if n.tasks.Go(func() { n.closeInstance(c, held, reason) }) {
		c.become(t.claim, held)
	}
}

// closeInstance runs OnClosing, removes the row, and lets what has come meanwhile have the
// next incarnation.
func (n *Node) closeInstance(c *objectCell, held *hold, reason ClosingReason) {
	if !c.runClosing(reason) {
		n.drop(c, errStopping)
		return
	}
	if !c.takeRow(n.life) {
		n.drop(c, errStopping)
		return
	}
	released := n.releaseRow(c)
	n.routes.drop(c.ref.ID)
	if !c.stored || !released || n.stopping.Load() {
		n.ending.Add(1)
		defer n.ending.Add(-1)
		c.leaveRow()
		n.shutOut(c, func(t *turn) {
			c.over()
			n.abandon(t, c, held, errStoppingHere, c.stored)
		})
		return
	}
	dawn := n.newDawn(c.typ, c.ref.ID, c.box, held, c.entrance)
	kept := n.replace(c, dawn)
	c.leaveRow()
	if kept && dawn.inClaim(func(t *turn) {
		c.over()
		t.claim.Join(nil)
	}) {
		n.activate(dawn, held)
	}
}

// runClosing runs OnClosing when no turn of the Spot is in a Yield. It returns false if the
// node's end comes first.
func (c *objectCell) runClosing(reason ClosingReason) bool {
	deadline := clock.Now().Add(c.node.cfg.CreateTimeout)
	err := c.await(c.node.life, func(f func(*turn)) { c.step(func(t *turn) { c.calmly(t, f) }) }, "OnClosing", func(t *turn) *Error {
		_ = c.lastCall(t, reason, deadline) // if it fails, that is logged and counted, and the Spot ends
		return nil
	})
	return err == nil || err == errTurnEnded
}

// releaseRow removes the row of a Spot that is over, for the holder of takeRow. It asks
// until the Store has said that the row is gone or another's, for as long as this process
// may have it.
func (n *Node) releaseRow(c *objectCell) bool {
	if !c.stored {
		return true // of a test of handlers
	}
	for wait := createWaitMin; ; wait = min(2*wait, settleWaitMax) {
		kept, _, err := n.deleteRow(c, newOpID())
		switch {
		case err == nil:
			return true
		case !kept:
			n.log.Warn().Str("spot", clip(c.ref.ID)).Str("error", err.Error()).Msg("the row of a spot that was closed is not this node's any more")
			return false
		}
		if !pause(n.life, wait) {
			return false
		}
	}
}

// evictIdle closes the Instance Spots that nobody has used for as long as is configured.
func (n *Node) evictIdle(after time.Duration) {
	tick := time.NewTicker(min(max(after/4, evictEveryMin), evictEveryMax))
	defer tick.Stop()
	for {
		select {
		case <-n.life.Done():
			return
		case <-tick.C:
		}
		n.actors.Range(func(_ string, c *objectCell) bool {
			if c.typ.Kind == store.InstanceSpot && c.stored && c.tenure.Load() == owned && c.idle(after) {
				c.ended(func(t *turn) {
					if t.refused == nil && c.idle(after) && c.timers.none() {
						c.shut(t, IdleEvicted)
					}
				})
			}
			return true
		})
	}
}

// idle reports whether nothing is queued, runs or is in a Yield, and nothing has run for
// that long.
func (c *objectCell) idle(after time.Duration) bool {
	return c.box.Len() == 0 && c.yields.Load() == 0 && !c.gone.Load() &&
		clock.Now().Sub(clock.Mono(c.used.Load())) >= after
}

// none reports whether the object has no timers. Under its claim.
func (t *objectTimers) none() bool { return t == nil || t.set.Len() == 0 && len(t.held) == 0 }

// cancelReserved ends a reservation of this process for an Instance Spot that nobody runs:
// its sender was told that it was not taken, so it is never continued.
func (n *Node) cancelReserved(row *store.Authority) {
	f := store.Finish{Fence: store.FenceOf(row), Op: row.Create.Op, Result: store.Failed, FailKind: uint8(errkind.Unavailable)}
	_, _ = n.attempt(func(ctx context.Context) (store.Change, error) { return n.store.Finish(ctx, f) }) // the next look tells
}
