package node

import (
	"context"
	"sync"
	"time"
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
