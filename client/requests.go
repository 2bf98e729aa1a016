package client

import (
	"sync"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/invariant"
)

// request is one request under way. Whoever removes it from its table, and
// nobody else, ends it; so it ends exactly once.
type request struct {
	seq      uint64
	name     string
	deadline clock.Mono
	place    int // in the heap
	// done runs on the reader goroutine when set; else outcome gets the result
	// and, having room for one, never blocks.
	done    func(*Message, error)
	outcome chan outcome
}

type outcome struct {
	message *Message
	err     error
}

// requestTable holds the requests of one connection, by sequence and in a heap
// by deadline. Safe for concurrent use.
//
// Invariants: byDeadline is a binary heap whose entries know their place, and
// holds the same requests as bySeq, at most bound. After close both are empty
// for good.
type requestTable struct {
	bound int

	mu         sync.Mutex
	bySeq      map[uint64]*request
	byDeadline []*request
	lastSeq    uint64
	err        error // why nothing is accepted; nil: open
}

func (t *requestTable) init(bound int, lastSeq uint64) {
	t.bound, t.lastSeq = bound, lastSeq
	t.bySeq = make(map[uint64]*request)
}

// add registers r under a new sequence. It fails with ErrTooManyPending or with
// what the table was closed with.
func (t *requestTable) add(r *request) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	if len(t.byDeadline) >= t.bound {
		return ErrTooManyPending
	}
	t.lastSeq++
	r.seq = t.lastSeq
	t.bySeq[r.seq] = r
	r.place = len(t.byDeadline)
	t.byDeadline = append(t.byDeadline, r)
	t.up(r.place)
	return nil
}

// take removes the request with that sequence and returns it, or nil if it has
// ended already.
func (t *requestTable) take(seq uint64) *request {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.bySeq[seq]
	if r != nil {
		t.remove(r)
	}
	return r
}

// takeExpired removes a request whose deadline was reached, or returns nil.
func (t *requestTable) takeExpired(now clock.Mono) *request {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byDeadline) == 0 || !now.Reached(t.byDeadline[0].deadline) {
		return nil
	}
	r := t.byDeadline[0]
	t.remove(r)
	return r
}

// nextDeadline returns the earliest deadline, or clock.Never.
func (t *requestTable) nextDeadline() clock.Mono {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byDeadline) == 0 {
		return clock.Never
	}
	return t.byDeadline[0].deadline
}

// close refuses all later requests with err and returns those under way, in the
// order of their deadlines' heap, for the caller to end.
func (t *requestTable) close(err error) []*request {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
	open := t.byDeadline
	t.byDeadline, t.bySeq = nil, nil
	return open
}

// last returns the last sequence given out.
func (t *requestTable) last() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lastSeq
}

func (t *requestTable) remove(r *request) {
	delete(t.bySeq, r.seq)
	i, end := r.place, len(t.byDeadline)-1
	moved := t.byDeadline[end]
	t.byDeadline[end] = nil
	t.byDeadline = t.byDeadline[:end]
	if i < end {
		t.put(moved, i)
		t.up(t.down(i))
	}
	if invariant.Enabled {
		invariant.Check(len(t.bySeq) == len(t.byDeadline), "client: %d requests by sequence, %d by deadline", len(t.bySeq), len(t.byDeadline))
	}
}

// up moves the request at i towards the root until its parent is not later.
func (t *requestTable) up(i int) {
	r := t.byDeadline[i]
	for i > 0 {
		parent := (i - 1) / 2
		if t.byDeadline[parent].deadline <= r.deadline {
			break
		}
		t.put(t.byDeadline[parent], i)
		i = parent
	}
	t.put(r, i)
}

// down moves the request at i away from the root until no child is earlier, and
// returns its place.
func (t *requestTable) down(i int) int {
	r := t.byDeadline[i]
	for {
		child := 2*i + 1
		if child >= len(t.byDeadline) {
			break
		}
		if right := child + 1; right < len(t.byDeadline) && t.byDeadline[right].deadline < t.byDeadline[child].deadline {
			child = right
		}
		if r.deadline <= t.byDeadline[child].deadline {
			break
		}
		t.put(t.byDeadline[child], i)
		i = child
	}
	t.put(r, i)
	return i
}

func (t *requestTable) put(r *request, i int) {
	t.byDeadline[i] = r
	r.place = i
}
