package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spaces attempts to connect. A pause is the current step less a random
// part of up to one half, so that the clients of a server that went down do not
// come back at once. It belongs to the reader.
type backoff struct {
	min, max time.Duration
	step     time.Duration // of the next pause; 0: min
	attempts int           // in a row that failed, and the one under way
}

// lasted says how long the connection held. One that did not outlive max counts
// as a failed attempt: a server that accepts and closes is no better than none.
func (b *backoff) lasted(d time.Duration) {
	if d > b.max {
		b.step, b.attempts = 0, 0
	}
}

// next counts an attempt, returns the pause before it and doubles the step.
func (b *backoff) next() time.Duration {
	b.attempts++
	step := max(b.step, b.min)
	b.step = min(2*step, b.max)
	return step - time.Duration(rand.Int64N(int64(step)/2+1))
}

// wait pauses, or reports false if ctx ended.
func (b *backoff) wait(ctx context.Context) bool {
	timer := time.NewTimer(b.next())
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
