// Package sparse keeps a log readable where strangers decide how often something happens.
package sparse

import (
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// every is how often a kind of line is written at most.
const every = time.Second

// Line is one kind of log line, of which one a second is written and the others are
// counted. Its zero value is ready. Safe for concurrent use.
type Line struct {
	next atomic.Int64 // when the next may be written; 0: now
	left atomic.Int64 // left out since the last one
}

// Take reports whether a line may be written now, and if so how many were left out since
// the last one.
func (l *Line) Take(now clock.Mono) (left int64, ok bool) {
	next := l.next.Load()
	if next != 0 && !now.Reached(clock.Mono(next)) || !l.next.CompareAndSwap(next, int64(now.Add(every))) {
		l.left.Add(1)
		return 0, false
	}
	return l.left.Swap(0), true
}
