package zlnodetest

import (
	"sync"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// fakeClock is the timers' clock: it stands still but for Advance.
type fakeClock struct {
	mu      sync.Mutex
	now     clock.Mono
	until   clock.Mono    // for which the scheduler waits
	asleep  bool          // it waits
	changed chan struct{} // closed with each advance
}

func newFakeClock() *fakeClock {
	now := clock.Now()
	now -= now % clock.Mono(time.Millisecond) // timers are due at whole milliseconds
	return &fakeClock{now: now, changed: make(chan struct{})}
}

// Now implements timer.Clock.
func (c *fakeClock) Now() clock.Mono {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Wait implements timer.Clock.
func (c *fakeClock) Wait(until clock.Mono, wake <-chan struct{}) {
	for c.sleep(until) {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-wake:
			c.mu.Lock()
			c.asleep = false
			c.mu.Unlock()
			return
		case <-changed:
		}
	}
}

// sleep notes that the scheduler waits, or that its instant has come.
func (c *fakeClock) sleep(until clock.Mono) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.asleep = until, !c.now.Reached(until)
	return c.asleep
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	close(c.changed)
	c.changed = make(chan struct{})
}

// idle reports whether the scheduler has nothing to do at the present instant.
func (c *fakeClock) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asleep && !c.now.Reached(c.until)
}
