package node

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// spreadSteps is how many steps a doubling of the duration has, so a quantile is at most
	// 1/16 too long.
	spreadSteps = 16
	// spreadMax is the longest duration that is told apart, some 12 days.
	spreadMax   = 1 << 40 * time.Microsecond
	spreadCells = 37*spreadSteps + spreadSteps
)

// spread counts how long something took. The zero value is empty. Safe for concurrent use.
type spread struct {
	counts  [spreadCells]atomic.Uint64 // by spreadCell, of microseconds
	longest atomic.Int64               // nanoseconds
}

// Spread is how long something took, at a glance: P50 and P99 are up to 1/16 too long.
type Spread struct {
	Count         uint64
	P50, P99, Max time.Duration
}

// spreadCell returns the place of a duration in microseconds: one for each up to 15, then 16
// for each doubling.
func spreadCell(us uint64) int {
	if us < spreadSteps {
		return int(us)
	}
	shift := bits.Len64(us) - bits.Len64(spreadSteps)
	return shift*spreadSteps + int(us>>shift)
}

// spreadLimit returns the longest duration of a place.
func spreadLimit(cell int) time.Duration {
	shift := max(cell/spreadSteps-1, 0)
	us := uint64(cell-shift*spreadSteps+1)<<shift - 1
	return time.Duration(us)*time.Microsecond + time.Microsecond - 1
}

func (s *spread) add(d time.Duration) {
	d = min(max(d, 0), spreadMax-1)
	s.counts[spreadCell(uint64(d/time.Microsecond))].Add(1)
	for {
		longest := s.longest.Load()
		if int64(d) <= longest || s.longest.CompareAndSwap(longest, int64(d)) {
			return
		}
	}
}

// look returns the present state. What is added meanwhile may be in a part of it.
func (s *spread) look() Spread { return lookAll([]*spread{s}) }

// lookAll is look of some as if they were one.
func lookAll(all []*spread) (l Spread) {
	var counts [spreadCells]uint64
	for _, s := range all {
		l.Max = max(l.Max, time.Duration(s.longest.Load()))
		for i := range counts {
			n := s.counts[i].Load()
			counts[i] += n
			l.Count += n
		}
	}
	l.P50 = min(quantile(&counts, l.Count, 50), l.Max)
	l.P99 = min(quantile(&counts, l.Count, 99), l.Max)
	return l
}

// quantile returns a duration that percent of them do not exceed.
func quantile(counts *[spreadCells]uint64, sum, percent uint64) time.Duration {
	rank := (sum*percent + 99) / 100
	for i, n := range counts {
		if rank <= n {
			return spreadLimit(i)
		}
		rank -= n
	}
	return 0
}
