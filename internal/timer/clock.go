package timer

import (
	"math"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// Clock is what a Scheduler knows of time. Only its driver calls it.
type Clock interface {
	// Now returns the present. It never goes backwards.
	Now() clock.Mono
	// Wait returns once Now has reached until, or something was received from wake. It
	// may return earlier.
	Wait(until clock.Mono, wake <-chan struct{})
}

// processClock is the process's clock; all its waits share one timer.
type processClock struct{ timer *time.Timer }

func newProcessClock() *processClock {
	t := time.NewTimer(math.MaxInt64)
	t.Stop()
	return &processClock{timer: t}
}

func (*processClock) Now() clock.Mono { return clock.Now() }

func (c *processClock) Wait(until clock.Mono, wake <-chan struct{}) {
	c.timer.Reset(until.Sub(clock.Now())) // drops what an earlier wait has left
	select {
	case <-c.timer.C:
	case <-wake:
		c.timer.Stop()
	}
}
