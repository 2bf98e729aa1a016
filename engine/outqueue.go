package engine

import (
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/buf"
)

// outClosed in outQueue.pending says that the queue takes no more. It is far
// above every budget.
const outClosed = int64(1) << 62

// outMaxLimit keeps sums of budgets far below outClosed.
const outMaxLimit = int64(1) << 40

// outQueue holds a connection's messages, from any number of producers to its
// loop, in chunks. The chunks form a stack, newest on top; the loop takes the
// whole stack and turns it round. A message goes into the chunk on top, or into a
// new one that is pushed with a compare-and-swap. No producer ever waits for
// another, nor the loop for a producer.
//
// The order is that of a queue: a message that is put after another one's put
// returned comes after it, whoever put them. For it is appended to a chunk that
// was found on top after that, or pushed above it.
//
// Each message's cost is in pending from before it is put until it is written or
// dropped. So while a producer that was let in is still on its way, pending tells
// the loop; and when the message is there, that producer looks for the loop
// (Conn.wantFlush).
type outQueue struct {
	pending atomic.Int64
	top     atomic.Pointer[chunk]

	_ [64]byte // producers and loop do not share a cache line

	// The loop's, or the writer's (see direct.go): taken and not yet written whole, oldest
	// first. So are the methods that say loop only.
	first, last *chunk
	off         int // bytes of first's content that are written
}

// put queues b, within limit, and takes over the reference in every case. Of an
// empty message nothing is queued. ErrFull, ErrClosed. Safe for concurrent use.
func (q *outQueue) put(b *buf.Buf, limit int64) error {
	p := b.Bytes()
	if err := q.enter(int64(len(p))+MessageCost, limit); err != nil {
		b.Free()
		return err
	}
	if len(p) == 0 {
		q.pending.Add(-MessageCost)
		b.Free()
		return nil
	}
	if len(p) > appendMax {
		q.push(newLedChunk(nil, b, nil))
		return nil
	}
	top := q.top.Load()
	if top == nil || !top.append(nil, p, &q.top) {
		q.push(newChunk(nil, p, top))
	}
	b.Free()
	return nil
}

// enter adds cost to pending, within limit.
func (q *outQueue) enter(cost, limit int64) error {
	for {
		have := q.pending.Load()
		switch {
		case have >= outClosed:
			return ErrClosed
		case have+cost > limit:
			return ErrFull
		case q.pending.CompareAndSwap(have, have+cost):
			return nil
		}
	}
}

// push puts c on top.
func (q *outQueue) push(c *chunk) {
	for {
		c.next = q.top.Load()
		if q.top.CompareAndSwap(c.next, c) {
			return
		}
	}
}

// close makes every later put fail. Safe for concurrent use.
func (q *outQueue) close() { q.pending.Or(outClosed) }

// cost is the sum of what is queued or about to be. Safe for concurrent use.
func (q *outQueue) cost() int64 { return q.pending.Load() &^ outClosed }

// shut reports whether close was called. Safe for concurrent use.
func (q *outQueue) shut() bool { return q.pending.Load() >= outClosed }

// ended reports that the queue is closed and nothing will come out of it any
// more. Safe for concurrent use.
func (q *outQueue) ended() bool { return q.pending.Load() == outClosed }

// take moves what was pushed behind what was taken before, and reports whether
// there was anything. Loop only.
func (q *outQueue) take() bool {
	if q.top.Load() == nil {
		return false
	}
	newest := q.top.Swap(nil)
	var oldest *chunk
	for c := newest; c != nil; {
		c.seal()
		c.next, oldest, c = oldest, c, c.next
	}
	if q.first == nil {
		q.first = oldest
	} else {
		q.last.next = oldest
	}
	q.last = newest
	return true
}

// waits reports whether there is something that can be written. Loop only.
func (q *outQueue) waits() bool { return (q.first != nil || q.take()) && q.first.whole() }

// single returns what is left of the first chunk, if that is all that was taken and has neither
// lead nor parts. After waits said yes. Loop or writer only.
func (q *outQueue) single() (content []byte, ok bool) {
	c := q.first
	if c.next != nil || c.leads() || c.parts != nil {
		return nil, false
	}
	return c.content()[q.off:], true
}

// gather adds the next bytes to g, budget at most. Loop only.
func (q *outQueue) gather(g *gather, budget int) {
	off := q.off
	for c := q.first; c != nil && c.whole(); c = c.next {
		if !g.addUpTo(budget, c.content()[off:]) {
			return
		}
		off = 0
		if c.leads() && !g.addUpTo(budget, c.b.Bytes()) {
			return
		}
		for _, p := range c.parts.rest() {
			if !g.addUpTo(budget, p) {
				return
			}
		}
		if c.next == nil {
			q.take()
		}
	}
}

// wrote takes n written bytes off and frees what is written whole; of what is
// not whole nothing was written. It returns the parts among what it freed, to be
// told by the caller. Loop only.
func (q *outQueue) wrote(n int) *parts {
	var ended partsList
	var cost int64
	for c := q.first; c != nil && c.whole(); c = q.first {
		left := len(c.content()) - q.off
		if n < left {
			q.off += n
			break
		}
		n -= left
		q.off = 0
		if c.advance() {
			continue
		}
		ended.add(c.parts)
		cost += c.cost()
		q.first = c.next
		c.free()
	}
	if cost > 0 {
		q.pending.Add(-cost)
	}
	return ended.first
}

// drop frees everything that is queued and whole, and returns the parts among it
// as wrote does. Loop only.
func (q *outQueue) drop() *parts {
	var ended partsList
	var cost int64
	for q.waits() {
		c := q.first
		q.first = c.next
		ended.add(c.parts)
		cost += c.cost()
		c.free()
	}
	q.off = 0
	q.pending.Add(-cost)
	return ended.first
}
