package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
)

// A lower bound takes nothing from what runs: what comes waits, in the order in which it came.
func TestTheBoundOfALimiterChangesAtOnce(t *testing.T) {
	l := newLimiter(3, 2)
	for range 3 {
		if err := l.enter(t.Context(), clock.Never); err != nil {
			t.Fatal(err)
		}
	}
	l.setMost(1)
	begun := make(chan int, 3)
	waits := func(ctx context.Context, nth int) <-chan *Error {
		before := l.inside.Load()
		ended := make(chan *Error, 1)
		go func() {
			err := l.enter(ctx, clock.Never)
			if err == nil {
				begun <- nth
			}
			ended <- err
		}()
		until(t, "it waits", func() bool { return l.inside.Load() == before+1 && l.queued() == int(before)-2 })
		return ended
	}
	impatient, giveUp := context.WithCancel(t.Context())
	first := waits(impatient, 1)
	second := waits(t.Context(), 2)
	if err := l.enter(t.Context(), clock.Never); err == nil || err.Kind != errkind.CapacityExceeded {
		t.Errorf("with all places to wait taken: %v", err)
	}
	giveUp()
	if err := await(t, "the end of the wait", first); err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v", err)
	}
	third := waits(t.Context(), 3)
	l.leave()
	l.leave()
	select {
	case nth := <-begun:
		t.Errorf("the %d. begins beside one that runs, with a bound of 1", nth)
	default:
	}
	l.leave()
	if err := await(t, "its turn", second); err != nil || <-begun != 2 {
		t.Errorf("the second: %v", err)
	}
	l.setMost(2) // makes a place
	if err := await(t, "its turn", third); err != nil || <-begun != 3 {
		t.Errorf("the third: %v", err)
	}
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	l.setMost(9)
	if err := l.enter(past, clock.Never); err == nil || err.Kind != errkind.DeadlineExceeded {
		t.Errorf("who is late finds a place free, and gets %v", err)
	}
	l.leave()
	l.leave()
	if l.inside.Load() != 0 || l.running != 0 || l.queued() != 0 {
		t.Errorf("%d inside, %d run, %d wait, and all have left", l.inside.Load(), l.running, l.queued())
	}
}

func (l *limiter) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Len()
}

// Whoever comes has a place or an error, and no place is lost or made, however often the bound
// changes meanwhile.
func TestNoPlaceIsLostWhileTheBoundChanges(t *testing.T) {
	const most = 4
	l := newLimiter(most, 1000)
	var runs, top atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for k := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+k)%5 == 0 {
					cancel() // races with its turn
				}
				if err := l.enter(ctx, clock.Never); err == nil {
					for now, seen := runs.Add(1), top.Load(); now > seen && !top.CompareAndSwap(seen, now); seen = top.Load() {
					}
					runs.Add(-1)
					l.leave()
				}
				cancel()
			}
		})
	}
	for k := range 500 {
		l.setMost(1 + k%most)
	}
	all.Wait()
	if l.inside.Load() != 0 || l.running != 0 || l.queued() != 0 || top.Load() > most {
		t.Errorf("%d inside, %d run, %d wait, and all have left; %d ran at once", l.inside.Load(), l.running, l.queued(), top.Load())
	}
}
