package engine

import (
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/buf"
)

// outClosed in outQueue.pending says that the queue takes no more. It is far
// above every budget, so that put finds both cases with one comparison.
const outClosed = int64(1) << 62

// outMaxLimit keeps sums of budgets far below outClosed.
const outMaxLimit = int64(1) << 40

// outQueue holds a connection's messages, from any number of producers to its
// loop. Producers push onto a stack, newest first, with one compare-and-swap; the
// loop takes the whole stack and turns it round.
//
// Each message's cost is in pending from before its push until it is written or
// dropped. So while a producer that was let in is still on its way, pending tells
// the loop; and after its push that producer looks for the loop (Conn.wantFlush).
type outQueue struct {
	pending atomic.Int64
	pushed  atomic.Pointer[message] // newest first

	_ [64]byte // producers and loop do not share a cache line

	// Loop only: taken and not yet written whole, oldest first.
	first, last *message
	off         int // bytes of first that are written
}

// put queues b, within limit, and takes over the reference in every case.
// ErrFull, ErrClosed. Safe for concurrent use.
func (q *outQueue) put(b *buf.Buf, limit int64) error {
	cost := int64(len(b.Bytes())) + MessageCost
	for {
		have := q.pending.Load()
		if have+cost > limit {
			b.Free()
			if have >= outClosed {
				return ErrClosed
			}
			return ErrFull
		}
		if q.pending.CompareAndSwap(have, have+cost) {
			break
		}
	}
	m := newMessage(b)
	for {
		m.next = q.pushed.Load()
		if q.pushed.CompareAndSwap(m.next, m) {
			return nil
		}
	}
}

// close makes every later put fail. Safe for concurrent use.
func (q *outQueue) close() { q.pending.Or(outClosed) }

// cost is the sum of what is queued or about to be. Safe for concurrent use.
func (q *outQueue) cost() int64 { return q.pending.Load() &^ outClosed }

// ended reports that the queue is closed and nothing will come out of it any
// more. Safe for concurrent use.
func (q *outQueue) ended() bool { return q.pending.Load() == outClosed }

// take moves what was pushed behind what was taken before, and reports whether
// there was anything. Loop only.
func (q *outQueue) take() bool {
	if q.pushed.Load() == nil {
		return false
	}
	newest := q.pushed.Swap(nil)
	var oldest *message
	for m := newest; m != nil; {
		m.next, oldest, m = oldest, m, m.next
	}
	if q.first == nil {
		q.first = oldest
	} else {
		q.last.next = oldest
	}
	q.last = newest
	return true
}

// waits reports whether there is a message to write. Loop only.
func (q *outQueue) waits() bool { return q.first != nil || q.take() }

// gather adds the next bytes to g, budget at most. Loop only.
func (q *outQueue) gather(g *gather, budget int) {
	off := q.off
	for m := q.first; m != nil; m = m.next {
		p := m.bytes()[off:]
		off = 0
		if room := budget - g.total; len(p) > room {
			p = p[:room]
		}
		if !g.add(p) || g.total == budget {
			return
		}
		if m.next == nil {
			q.take()
		}
	}
}

// wrote takes n written bytes off and frees what is written whole. Loop only.
func (q *outQueue) wrote(n int, f *freed) {
	var cost int64
	for m := q.first; m != nil; m = q.first {
		left := m.n - q.off
		if n < left {
			q.off += n
			break
		}
		n -= left
		cost += m.cost()
		q.off = 0
		q.first = m.next
		f.put(m)
	}
	if cost > 0 {
		q.pending.Add(-cost)
	}
}

// drop frees everything that is queued. Loop only.
func (q *outQueue) drop(f *freed) {
	var cost int64
	for q.waits() {
		m := q.first
		q.first = m.next
		cost += m.cost()
		f.put(m)
	}
	q.off = 0
	q.pending.Add(-cost)
}
