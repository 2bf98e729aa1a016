// Package clock is the one source of monotonic time.
//
// Protocol cores never read it: they get a Mono with every event, so that the
// same core runs under the real shell and under a simulated clock.
package clock

import "time"

// Mono is a point of this process's monotonic time in nanoseconds. Points of
// two processes must never be compared.
type Mono int64

// Never is later than every point that Now returns.
const Never = Mono(1<<63 - 1)

var start = time.Now()

// Now returns the current point. It never goes backwards and is not moved by
// changes of the wall clock. Safe for concurrent use.
func Now() Mono { return Mono(time.Since(start)) }

// Near is a number of Ticks that are at most 33 microseconds.
const Near = 1 << 15

// At converts a time that carries a monotonic reading, such as a context's
// deadline, to a point.
func At(t time.Time) Mono { return Mono(t.Sub(start)) }

// Add returns the point d after m; it stops at Never.
func (m Mono) Add(d time.Duration) Mono {
	if s := m + Mono(d); d < 0 || s >= m {
		return s
	}
	return Never
}

// Sub returns the time from o to m.
func (m Mono) Sub(o Mono) time.Duration { return time.Duration(m - o) }

// Reached reports whether the point deadline is not later than m.
func (m Mono) Reached(deadline Mono) bool { return m >= deadline }

// Time converts m to a time of the wall clock, for contexts and logs.
func (m Mono) Time() time.Time { return start.Add(time.Duration(m)) }
