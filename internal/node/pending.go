package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
)

// result is the one terminal of a request (FO-03). On success payload is a view
// that owner keeps valid; whoever takes the result frees owner.
type result struct {
	codec   uint8
	payload []byte
	owner   *buf.Buf
	err     *Error
	from    *linkConn // by which it came; nil: this node's own
}

// completer takes the result of a request, exactly once. It may run on an event
// loop and must not block.
type completer interface{ complete(r result) }

// pendingTable holds the requests that wait for a reply of one peer, or of this
// node. Safe for concurrent use.
//
// Invariant: a completer leaves the table exactly once, by whoever calls
// complete on it: reply, timeout, cancellation or the loss of the peer,
// whichever took it first. A goroutine's request to an object of this node is counted
// here and is in no table: it has a round of its waiter, which is ended just so.
type pendingTable struct {
	next   atomic.Uint64
	count  atomic.Int64
	failed chan struct{} // closed by fail
	once   sync.Once
	shards [16]struct {
		mu      sync.Mutex
		waiting map[uint64]completer // a goroutine minds the deadline
		timed   map[uint64]timed     // the sweeper does
		closed  *Error
		_       [40]byte // a cache line for each
	}
}

// tables counts the tables of this process. A table gives out 2^40 correlations, a process
// has 2^24 tables: both are more than it lives for.
var tables atomic.Uint64

const correlationBits = 40

type timed struct {
	to       completer
	deadline clock.Mono
}

// newPendingTable returns a table whose correlations no other table of the process gives
// out: a reply that comes by another link than its request went completes no other one.
func newPendingTable() *pendingTable {
	t := &pendingTable{failed: make(chan struct{})}
	t.next.Store(tables.Add(1) << correlationBits)
	for i := range t.shards {
		t.shards[i].waiting, t.shards[i].timed = map[uint64]completer{}, map[uint64]timed{}
	}
	return t
}

// add registers c and returns its correlation. It comes before the request is
// sent. On error c was not registered. A deadline of 0 says that a goroutine
// waits and minds its own; else the sweeper ends the request.
func (t *pendingTable) add(c completer, deadline clock.Mono) (uint64, *Error) {
	if t.count.Add(1) > pendingMax {
		t.count.Add(-1)
		return 0, errTooManyPending
	}
	corr := t.next.Add(1)
	s := &t.shards[corr%uint64(len(t.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed != nil {
		t.count.Add(-1)
		return 0, s.closed
	}
	if deadline == 0 {
		s.waiting[corr] = c
	} else {
		s.timed[corr] = timed{c, deadline}
	}
	return corr, nil
}

// addWaiter is add for a goroutine that is going to await.
func (t *pendingTable) addWaiter() (*waiter, uint64, *Error) {
	w := waiters.Get().(*waiter)
	corr, err := t.add(w, 0)
	if err != nil {
		waiters.Put(w)
		return nil, 0, err
	}
	return w, corr, nil
}

// alone reports whether one request waits and no more.
func (t *pendingTable) alone() bool { return t.count.Load() == 1 }

// take removes the request and returns its completer, or nil if it has ended.
func (t *pendingTable) take(corr uint64) completer {
	s := &t.shards[corr%uint64(len(t.shards))]
	s.mu.Lock()
	c, ok := s.waiting[corr]
	if ok {
		delete(s.waiting, corr)
	} else if e, isTimed := s.timed[corr]; isTimed {
		delete(s.timed, corr)
		c, ok = e.to, true
	}
	s.mu.Unlock()
	if !ok {
		return nil
	}
	t.count.Add(-1)
	return c
}

// complete ends the request; a late result is dropped and reported as false.
func (t *pendingTable) complete(corr uint64, r result) bool {
	c := t.take(corr)
	if c == nil {
		r.owner.Free()
		return false
	}
	c.complete(r)
	return true
}

// fail ends every request, now and later, with err.
func (t *pendingTable) fail(err *Error) {
	defer t.once.Do(func() { close(t.failed) })
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.closed = err
		waiting, late := s.waiting, s.timed
		s.waiting, s.timed = map[uint64]completer{}, map[uint64]timed{}
		s.mu.Unlock()
		t.count.Add(-int64(len(waiting) + len(late)))
		for _, c := range waiting {
			c.complete(result{err: err})
		}
		for _, e := range late {
			e.to.complete(result{err: err})
		}
	}
}

// sweep ends the requests whose deadline passed.
func (t *pendingTable) sweep(now clock.Mono) {
	if t.count.Load() == 0 {
		return
	}
	var late []completer
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for corr, e := range s.timed {
			if now.Reached(e.deadline) {
				delete(s.timed, corr)
				late = append(late, e.to)
			}
		}
		s.mu.Unlock()
	}
	t.count.Add(-int64(len(late)))
	for _, c := range late {
		c.complete(result{err: errNoReply})
	}
}

// waiter is a request that a goroutine waits for.
type waiter struct {
	done  chan result
	timer *time.Timer
	armed clock.Mono    // when timer fires; it stays armed from one request to the next
	round atomic.Uint64 // odd while a request within the node is under way

	// away is set in place of all else for a request that was carried here: who waits for
	// it is reached by it.
	away *wayBack
}

var waiters = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &waiter{done: make(chan result, 1), timer: t, armed: clock.Never}
}}

func (w *waiter) complete(r result) { w.done <- r }

// begin registers w's next request within the node. On error it was not registered.
func (t *pendingTable) begin(w *waiter) (round uint64, _ *Error) {
	if t.count.Add(1) > pendingMax {
		t.count.Add(-1)
		return 0, errTooManyPending
	}
	return w.round.Add(1), nil
}

// end ends a request within the node. It returns false if that has ended before.
func (t *pendingTable) end(w *waiter, round uint64) bool {
	if !w.round.CompareAndSwap(round, round+1) {
		return false
	}
	t.count.Add(-1)
	return true
}

// completeRound is complete for a request within the node.
func (t *pendingTable) completeRound(w *waiter, round uint64, r result) {
	if !t.end(w, round) {
		r.owner.Free()
		return
	}
	w.complete(r)
}

// await waits for the request's result until deadline or the end of ctx, and
// gives the waiter back. Exactly one terminal is returned.
func (t *pendingTable) await(ctx context.Context, w *waiter, corr uint64, deadline clock.Mono) result {
	return w.await(ctx, deadline, nil, func() bool { return t.take(corr) != nil })
}

// awaitRound is await for a request within the node.
func (t *pendingTable) awaitRound(ctx context.Context, w *waiter, round uint64, deadline clock.Mono) result {
	return w.await(ctx, deadline, t.failed, func() bool { return t.end(w, round) })
}

// await waits for the result. end takes the request out of the hands of who would
// complete it, and returns false if it is late.
func (w *waiter) await(ctx context.Context, deadline clock.Mono, failed <-chan struct{}, end func() bool) (r result) {
	defer waiters.Put(w)
	w.arm(deadline)
	for {
		var err *Error
		select {
		case r = <-w.done:
			return r
		case <-ctx.Done():
			err = fromContext(ctx, "", "")
		case <-failed:
			err = errStopping
		case <-w.timer.C:
			w.armed = clock.Never
			if !clock.Now().Reached(deadline) { // it was set for an earlier request
				w.arm(deadline)
				continue
			}
			err = errNoReply
		}
		if !end() {
			return <-w.done // which has come, or is just being delivered
		}
		return result{err: err}
	}
}

// arm sees to it that the timer fires no later than deadline.
func (w *waiter) arm(deadline clock.Mono) {
	if deadline < w.armed {
		w.armed = deadline
		w.timer.Reset(deadline.Sub(clock.Now()))
	}
}

// abandon ends a request that was registered and could not be sent.
func (t *pendingTable) abandon(w *waiter, corr uint64, err *Error) (r result) {
	defer waiters.Put(w)
	if t.take(corr) == nil {
		return <-w.done
	}
	return result{err: err}
}

// completeFunc makes a function a completer.
type completeFunc func(r result)

func (f completeFunc) complete(r result) { f(r) }
