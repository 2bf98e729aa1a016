package node

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestASpreadAgreesWithASortedSample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sample := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Uint64Range(0, 1<<rapid.IntRange(1, 49).Draw(t, "bits")).Draw(t, "d"))
		}), 1, 200).Draw(t, "sample")
		var s spread
		for _, d := range sample {
			s.add(d)
		}
		slices.Sort(sample)
		got, n := s.look(), len(sample)
		if got.Count != uint64(n) || got.Max != sample[n-1] {
			t.Fatalf("%+v of %v", got, sample)
		}
		for _, q := range []struct {
			got     time.Duration
			percent int
		}{{got.P50, 50}, {got.P99, 99}} {
			want := sample[(n*q.percent+99)/100-1]
			if q.got < want || q.got > want+want/spreadSteps+time.Microsecond {
				t.Fatalf("p%d is %v, want %v: %v", q.percent, q.got, want, sample)
			}
		}
	})
}

func TestASpreadTakesAnyDuration(t *testing.T) {
	var s spread
	if got := s.look(); got != (Spread{}) {
		t.Errorf("empty: %+v", got)
	}
	for _, d := range []time.Duration{-1, 0, 1<<63 - 1} {
		s.add(d)
	}
	if got := s.look(); got.Count != 3 || got.P50 > time.Microsecond || got.P99 != spreadMax-1 || got.Max != spreadMax-1 {
		t.Errorf("%+v", got)
	}
}
