package mailbox

import (
	"runtime/debug"

	"github.com/zlnode/zlnode/internal/invariant"
)

// run is what a worker does with a mailbox that it took from the ready set: turns
// until nothing is left, the time is over, or the place is lent to another.
func (m *Mailbox[T]) run(w *worker) {
	invariant.Check(m.claim.w == nil, "mailbox: two workers hold the claim")
	m.claim.w = w
	m.claim.number++
	if m.gate.group == nil {
		w.begin() // else the turns are part of the group's claim
	}
	for !m.turns(w) { // a panic ended a turn, not the claim
		if w.turned() {
			m.back(w)
			return
		}
	}
}

// turns runs turns until the claim has ended. After that it does not touch the
// mailbox, which the next worker may have already. It returns false after a panic.
func (m *Mailbox[T]) turns(w *worker) (ended bool) {
	var (
		used spent[T] // lost to the collector after a panic
		look = pace{turns: w.turns}
		c    = &m.claim
		from = w.turns
		// Copies, since producers write the cache line that these are on.
		nodes, pool = m.nodes, m.pool
	)
	defer func() {
		if !ended {
			m.finish(w.turn)
			w.turn = 0
			m.broken(w, recover())
		}
	}()
	for {
		if m.sealed.Load() != nil {
			m.change()
		}
		if m.fresh {
			m.fresh = false
			m.consumer.Begin(c)
			if w.over { // it has joined another group
				used.flush(nodes)
				m.back(w)
				return true
			}
			continue // Begin may have named another consumer, and a seal may have come
		}
		if l := m.lane.Load(); l != nil {
			if l.waits() {
				m.order(l, &used)
			} else {
				l.run = 0
			}
		}
		n := m.list
		if n == nil {
			used.flush(nodes)
			if look.due(w.turns) && m.gate.group == nil && !pool.ready.any() {
				look.pause()
			}
			if m.inbox.head.Load() == nil {
				m.shrink()
			}
			c.w = nil
			if n = m.inbox.take(&nodes.idle); n == nil {
				return true
			}
			c.w = w
		}
		m.list, n.next = n.next, nil // else a used node keeps those behind it alive, and they others
		if n.cost == costMarker {
			used.add(n, nodes)
			continue
		}
		w.turn = n.cost
		m.consumer.Consume(c, &n.V)
		m.finish(w.turn)
		w.turn = 0
		used.add(n, nodes)
		if w.turned() || w.turns-from >= share && m.gate.group.othersWait() {
			used.flush(nodes)
			m.back(w)
			return true
		}
	}
}

// change lets the consumer that Seal named take over, under a new claim.
func (m *Mailbox[T]) change() {
	m.consumer = m.sealed.Swap(nil).consumer
	m.fresh = true
	m.claim.number++
}

// shrink gives back the grants that the mailbox does not need any more. It comes before
// each end of a claim: the mailbox may be idle then for good.
func (m *Mailbox[T]) shrink() {
	if m.budget.open.Load() > floor {
		m.budget.shrink(&m.finished, &m.pool.quota)
	}
}

// finish gives back to the budget what the turn's message took from it.
func (m *Mailbox[T]) finish(cost uint64) {
	m.finished.Store(m.finished.Load() + cost) // has one writer
}

// back ends the claim. If anything is left, the mailbox becomes ready again, behind
// others.
func (m *Mailbox[T]) back(w *worker) {
	switch &m.gate {
	case w.left: // the claim was given up in the turn
		m.claim.w = w.holder
		w.left, w.holder = nil, nil
		m.shrink() // it may be idle, and what this turn held is free now
		return
	case w.lost[0], w.lost[1]: // and never came back, as the pool was closed
		return
	}
	m.claim.w = nil
	m.shrink()
	if heir := w.heir; heir != nil {
		w.heir = nil
		heir.open <- struct{}{} // has room; the mailbox is the heir's from here on
		return
	}
	if m.list != nil || m.lane.Load().waits() || !m.inbox.tryRest(&m.nodes.idle) {
		m.ready()
	}
}

// broken ends a turn that did not return. The reason is the value of its panic,
// or nil if the consumer called runtime.Goexit: that ends this worker, so the
// mailbox goes to the ready set for another one.
func (m *Mailbox[T]) broken(w *worker, reason any) {
	switch {
	case reason == nil:
		m.back(w)
	case m.pool.cfg.OnPanic == nil:
		panic(reason)
	default:
		m.pool.cfg.OnPanic(reason, debug.Stack())
	}
}
