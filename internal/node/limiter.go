package node

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
)

// limiter bounds work that runs at once, and work that waits for its turn, which it gets in
// the order in which it came. How much may run can change at any time: less takes nothing
// from what runs, and what comes waits until enough has ended.
type limiter struct {
	inside  atomic.Int64 // running and waiting
	waiting int64        // that may wait

	mu      sync.Mutex
	most    int // that may run
	running int
	queue   list.List // of chan struct{}, closed when its turn has come
}

func newLimiter(running, waiting int) *limiter {
	return &limiter{most: running, waiting: int64(waiting)}
}

var errTooMuch = &Error{Kind: errkind.CapacityExceeded, Text: "too much of this kind runs and waits at the node"}

// enter takes a place, waiting up to the deadline. leave must follow unless it
// returns an error.
func (l *limiter) enter(ctx context.Context, deadline clock.Mono) *Error {
	ctx, cancel := context.WithDeadline(ctx, deadline.Time())
	defer cancel()
	err := errTooMuch
	if l.comes() {
		if err = l.take(ctx); err == nil {
			return nil
		}
	}
	l.inside.Add(-1)
	return err
}

// take returns with a place, or when ctx ends.
func (l *limiter) take(ctx context.Context) *Error {
	if ctx.Err() != nil {
		return fromContext(ctx, "", "")
	}
	l.mu.Lock()
	if l.running < l.most && l.queue.Len() == 0 {
		l.running++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	place := l.queue.PushBack(turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-turn: // it has come meanwhile
		l.running--
		l.callNext()
	default:
		l.queue.Remove(place)
	}
	return fromContext(ctx, "", "")
}

// follow waits until done, up to the deadline, as one of those that wait: for work that
// is inside already.
func (l *limiter) follow(ctx context.Context, done <-chan struct{}, deadline clock.Mono) *Error {
	defer l.inside.Add(-1)
	if !l.comes() {
		return errTooMuch
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Time())
	defer cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fromContext(ctx, "", "")
	}
}

// comes counts one more inside, and reports whether there is room for it.
func (l *limiter) comes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inside.Add(1) <= int64(max(l.most, l.running))+l.waiting
}

func (l *limiter) leave() {
	l.mu.Lock()
	l.running--
	l.callNext()
	l.mu.Unlock()
	l.inside.Add(-1)
}

// setMost changes how much may run at once.
func (l *limiter) setMost(running int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = running
	l.callNext()
}

// callNext gives free places to those that wait. The caller holds mu.
func (l *limiter) callNext() {
	for l.running < l.most && l.queue.Len() > 0 {
		close(l.queue.Remove(l.queue.Front()).(chan struct{}))
		l.running++
	}
}
