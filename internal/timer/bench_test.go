package timer

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

const million = 1_000_000

// churn runs n operations, split among goroutines that own a part of a million each.
func churn(b *testing.B, goroutines int, op func(i int, d time.Duration)) {
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			for range b.N / goroutines {
				part := million / goroutines
				op(g*part+rnd.IntN(part), time.Minute+time.Duration(rnd.Int64N(int64(time.Hour))))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}

// BenchmarkChurnOfAMillion compares, with a million timers live: one of them is taken
// out and put in anew for another instant.
func BenchmarkChurnOfAMillion(b *testing.B) {
	for _, goroutines := range []int{1, 4} {
		b.Run(fmt.Sprintf("scheduler/%d", goroutines), func(b *testing.B) {
			s := New(Config[int]{Fire: func(clock.Mono, []int) {}})
			defer closeScheduler(b, s)
			entries := make([]Entry[int], million)
			for i := range entries {
				s.Arm(&entries[i], clock.Now().Add(time.Hour))
			}
			churn(b, goroutines, func(i int, d time.Duration) {
				s.Disarm(&entries[i])
				s.Arm(&entries[i], clock.Now().Add(d))
			})
		})
		b.Run(fmt.Sprintf("AfterFunc+Stop/%d", goroutines), func(b *testing.B) {
			timers := runtimeTimers(b)
			churn(b, goroutines, func(i int, d time.Duration) {
				timers[i].Stop()
				timers[i] = time.AfterFunc(d, func() {})
			})
		})
		b.Run(fmt.Sprintf("Stop+Reset/%d", goroutines), func(b *testing.B) {
			timers := runtimeTimers(b)
			churn(b, goroutines, func(i int, d time.Duration) {
				timers[i].Stop()
				timers[i].Reset(d)
			})
		})
	}
}

func runtimeTimers(b *testing.B) []*time.Timer {
	timers := make([]*time.Timer, million)
	for i := range timers {
		timers[i] = time.AfterFunc(time.Hour, func() {})
	}
	b.Cleanup(func() {
		for _, t := range timers {
			t.Stop()
		}
	})
	return timers
}

// Per entry: a million are armed for a moment that is over or about to be, while the
// driver fires them. The bytes are the entries.
func BenchmarkFireOfAMillion(b *testing.B) {
	for round := 0; round < b.N; round += million {
		left := million
		done := make(chan struct{})
		s := New(Config[int]{Fire: func(_ clock.Mono, due []int) {
			if left -= len(due); left == 0 {
				close(done)
			}
		}})
		entries := make([]Entry[int], million)
		b.ReportAllocs()
		now := clock.Now()
		for i := range entries {
			s.Arm(&entries[i], now.Add(time.Duration(i%1000)*time.Microsecond))
		}
		<-done
		closeScheduler(b, s)
	}
}

func BenchmarkTick(b *testing.B) {
	s := NewSet(0)
	for i := range 8 {
		if _, err := s.Register(0, fmt.Sprint("timer ", i), Options{Period: time.Duration(i+1) * time.Second}); err != nil {
			b.Fatal(err)
		}
	}
	var ticks []Tick
	fired := 0
	b.ReportAllocs()
	b.ResetTimer()
	for fired < b.N {
		now, _ := s.Next()
		ticks = s.Due(now, ticks[:0])
		for _, tick := range ticks {
			s.Started(tick.Name, tick.Generation)
			s.Ended(now, tick.Name, tick.Generation)
		}
		fired += len(ticks)
	}
}
