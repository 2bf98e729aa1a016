package wheel

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

const million = 1_000_000

// populated returns a wheel with a million entries that are due within an hour.
func populated() (*Wheel[int], []Entry[int], *rand.Rand) {
	rnd := rand.New(rand.NewPCG(1, 2))
	w, entries := new(Wheel[int]), make([]Entry[int], million)
	for i := range entries {
		entries[i].Value = i
		w.Schedule(&entries[i], clock.Mono(rnd.Int64N(int64(time.Hour))))
	}
	return w, entries, rnd
}

func BenchmarkRescheduleOfAMillion(b *testing.B) {
	w, entries, rnd := populated()
	b.ReportAllocs()
	for b.Loop() {
		w.Schedule(&entries[rnd.IntN(million)], clock.Mono(rnd.Int64N(int64(time.Hour))))
	}
}

func BenchmarkScheduleAndCancelBesideAMillion(b *testing.B) {
	w, _, rnd := populated()
	var e Entry[int]
	b.ReportAllocs()
	for b.Loop() {
		w.Schedule(&e, clock.Mono(rnd.Int64N(int64(time.Hour))))
		w.Cancel(&e)
	}
}

// Time goes on by a tick per round, in which 278 of the million fire and are
// scheduled again: what it takes is per entry, with all moves between the levels.
func BenchmarkFireAndScheduleOfAMillion(b *testing.B) {
	w, _, rnd := populated()
	var now clock.Mono
	fires := 0
	fire := func(e *Entry[int]) {
		fires++
		w.Schedule(e, now.Add(time.Duration(rnd.Int64N(int64(time.Hour)))))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for fires < b.N {
		now = now.Add(Tick)
		w.Advance(now, fire)
	}
}

func BenchmarkAdvanceOverEmptyTime(b *testing.B) {
	for _, step := range []time.Duration{Tick, time.Second} {
		b.Run(step.String(), func(b *testing.B) {
			var w Wheel[int]
			var e Entry[int]
			w.Schedule(&e, clock.Never)
			var now clock.Mono
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(step)
				w.Advance(now, nil)
			}
		})
	}
}
