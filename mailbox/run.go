package mailbox

import "runtime/debug"

// run is what a worker does with a mailbox that it took from the ready set: turns
// until nothing is left, the time is over, or the place is lent to another.
func (m *Mailbox[T]) run(w *worker) {
	m.claim.w = w
	m.claim.number++
	w.begin()
	for !m.turns(w) { // a panic ended a turn; the claim goes on
	}
}

// turns runs turns until the claim has ended; then the mailbox is not touched any
// more, for the next worker may have it already. It returns false after a panic.
func (m *Mailbox[T]) turns(w *worker) (ended bool) {
	defer func() {
		if !ended {
			m.broken(w, recover())
		}
	}()
	c := &m.claim
	idle := &m.nodes.idle
	var used spent[T]
	for {
		if m.sealed.Load() != nil {
			m.change()
		}
		if c.fresh {
			c.fresh = false
			m.consumer.Begin(c)
			continue // Begin may name another consumer, and a seal may have come
		}
		n := m.list
		if n == nil {
			used.flush(m.nodes)
			c.w = nil
			if n = m.inbox.take(idle); n == nil {
				return true
			}
			c.w = w
		}
		m.list = n.next
		v, cost := n.v, n.cost
		var none T
		n.v = none
		used.add(n, m.nodes)
		if cost == costMarker {
			continue
		}
		c.cost = cost
		m.consumer.Consume(c, v)
		m.finish()
		if w.turned() {
			used.flush(m.nodes)
			m.back()
			return true
		}
	}
}

// change lets the consumer that Seal named take over, under a new claim.
func (m *Mailbox[T]) change() {
	m.consumer = m.sealed.Swap(nil).consumer
	m.claim.fresh = true
	m.claim.number++
}

// finish gives back what the turn's message took from the budget, once.
func (m *Mailbox[T]) finish() {
	m.finished.Store(m.finished.Load() + m.claim.cost)
	m.claim.cost = 0
}

// back ends the claim. If anything is left, the mailbox goes to the end of the
// ready set.
func (m *Mailbox[T]) back() {
	m.claim.w = nil
	if m.list != nil || !m.inbox.tryRest(&m.nodes.idle) {
		m.pool.put(&m.gate)
	}
}

// broken ends a turn that did not return. The reason is the value of its panic,
// or nil if the consumer called runtime.Goexit, which ends this worker: then the
// mailbox goes to the ready set for another one.
func (m *Mailbox[T]) broken(w *worker, reason any) {
	if reason != nil && m.pool.cfg.OnPanic == nil {
		panic(reason)
	}
	m.finish()
	if reason == nil {
		m.back()
		return
	}
	m.pool.cfg.OnPanic(reason, debug.Stack())
}
