package mailbox

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// slice is a worker's measure of time. Reading the clock takes as long as a
// short turn, so it is read once in every turns: in each one while turns are
// long, in every 8th when they have proved to be short. A claim starts at the
// last reading, which short turns cannot have left far behind. When turns
// suddenly become long, the claim may last up to 7 of them too long; the monitor
// ends it after stallAfter if others wait.
type slice struct {
	now   clock.Mono // the last reading
	end   clock.Mono // of the claim
	every int        // turns from one reading to the next
	left  int        // turns until the next reading
}

const (
	maxTurnsPerReading = 8
	// Turns that take less than this on average are short: 8 of them are a
	// negligible part of any sensible time budget.
	shortTurn = time.Microsecond
)

// start begins to measure, after a time in which the worker did nothing.
func (s *slice) start() {
	s.now = clock.Now()
	s.every, s.left = 1, 1
}

// renew gives a claim its time.
func (s *slice) renew(budget time.Duration) { s.end = s.now.Add(budget) }

// over counts a turn and reports whether it was seen to be the last one in the
// claim's time.
func (s *slice) over() bool {
	if s.left--; s.left > 0 {
		return false
	}
	s.read(clock.Now())
	return s.now.Reached(s.end)
}

func (s *slice) read(now clock.Mono) {
	if now.Sub(s.now) < time.Duration(s.every)*shortTurn {
		s.every = min(2*s.every, maxTurnsPerReading)
	} else {
		s.every = 1
	}
	s.now, s.left = now, s.every
}
