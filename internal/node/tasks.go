package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
)

// tasks are the goroutines that a node starts and waits for.
type tasks struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// Go runs f on a goroutine of its own. Once the node is closing nothing new
// starts and it reports false.
func (t *tasks) Go(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.running.Go(f)
	return true
}

// close lets nothing new start and waits for what runs, up to ctx's end.
func (t *tasks) close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	done := make(chan struct{})
	go func() {
		t.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// limiter bounds work that runs at once and work that waits for its turn.
type limiter struct {
	slots  chan struct{}
	inside atomic.Int64 // running and waiting
	most   int64
}

func newLimiter(running, waiting int) *limiter {
	return &limiter{slots: make(chan struct{}, running), most: int64(running + waiting)}
}

// enter takes a slot, waiting up to the deadline. leave must follow unless it
// returns an error.
func (l *limiter) enter(ctx context.Context, deadline clock.Mono) *Error {
	return l.wait(ctx, l.slots, nil, deadline)
}

// follow waits until done, up to the deadline, as one of those that wait: for work that
// is inside already.
func (l *limiter) follow(ctx context.Context, done <-chan struct{}, deadline clock.Mono) *Error {
	err := l.wait(ctx, nil, done, deadline)
	if err == nil {
		l.inside.Add(-1)
	}
	return err
}

// wait is inside from its begin on, and stays so unless it returns an error. It ends with
// a slot or when done, whichever is not nil.
func (l *limiter) wait(ctx context.Context, slots chan<- struct{}, done <-chan struct{}, deadline clock.Mono) *Error {
	err := &Error{Kind: errkind.CapacityExceeded, Text: "too much of this kind runs and waits at the node"}
	if l.inside.Add(1) <= l.most {
		ctx, cancel := context.WithDeadline(ctx, deadline.Time())
		defer cancel()
		select {
		case slots <- struct{}{}:
			return nil
		case <-done:
			return nil
		case <-ctx.Done():
			err = fromContext(ctx, "", "")
		}
	}
	l.inside.Add(-1)
	return err
}

func (l *limiter) leave() {
	<-l.slots
	l.inside.Add(-1)
}

// pause waits, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
