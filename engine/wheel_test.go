package engine

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/clock"
)

// fired advances w and returns what fired, in order.
func fired(w *wheel, now clock.Mono) (out []*timer) {
	w.advance(now, func(t *timer) { out = append(out, t) })
	return out
}

func TestWheelFiresNeverEarlyAndAtMostOneTickLate(t *testing.T) {
	start := clock.Mono(7 * time.Hour)
	for _, after := range []time.Duration{
		0, 1, tick - 1, tick, tick + 1, time.Second,
		(wheelSlots - 1) * tick, wheelSlots * tick, (wheelSlots + 1) * tick, time.Minute, 3 * time.Hour,
	} {
		var w wheel
		w.init(start)
		var tm timer
		at := start.Add(after)
		w.arm(&tm, at)
		now := start
		for len(fired(&w, now)) == 0 {
			if due := w.next(); due > at.Add(tick) || due <= now {
				t.Fatalf("armed for +%v: next says +%v at +%v", after, due.Sub(start), now.Sub(start))
			}
			now = w.next()
		}
		if now < at || now >= at.Add(tick+1) {
			t.Errorf("armed for +%v, fired at +%v", after, now.Sub(start))
		}
		if tm.armed() || w.next() != clock.Never {
			t.Errorf("armed for +%v: still armed after firing", after)
		}
	}
}

func TestWheelPointsInThePastFireAtTheNextTick(t *testing.T) {
	var w wheel
	w.init(clock.Mono(time.Hour))
	var tm timer
	w.arm(&tm, 5)
	if got := fired(&w, clock.Mono(time.Hour)); len(got) != 0 {
		t.Fatal("fired within the tick that was over already")
	}
	if got := fired(&w, clock.Mono(time.Hour).Add(tick)); len(got) != 1 {
		t.Fatal("did not fire at the next tick")
	}
}

func TestWheelNeverIsNeverReached(t *testing.T) {
	var w wheel
	w.init(0)
	var tm timer
	w.arm(&tm, clock.Never)
	if got := fired(&w, clock.Mono(1000*time.Hour)); len(got) != 0 || !tm.armed() {
		t.Error("a timer armed for Never fired")
	}
}

func TestWheelCallbacksMayArmAndCancel(t *testing.T) {
	var w wheel
	w.init(0)
	var first, second, third timer
	w.arm(&first, 1)
	w.arm(&second, 1)
	w.arm(&third, clock.Mono(tick)+1)
	var order []*timer
	w.advance(clock.Mono(2*tick), func(tm *timer) {
		order = append(order, tm)
		if tm == &first {
			w.cancel(&second)                 // due in this same advance
			w.arm(&first, clock.Mono(2*tick)) // not again in this advance
		}
	})
	if len(order) != 2 || order[0] != &first || order[1] != &third {
		t.Fatalf("fired %d timers", len(order))
	}
	if got := fired(&w, clock.Mono(3*tick)); len(got) != 1 || got[0] != &first {
		t.Fatalf("re-armed timer: %d fired", len(got))
	}
}

// The oracle is a list of (timer, deadline) that is searched from end to end.
func TestWheelAgreesWithASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := clock.Mono(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "start"))
		var w wheel
		w.init(now)
		timers := make([]timer, 8)
		due := map[*timer]clock.Mono{} // the tick boundary at which it must fire
		boundary := func(at clock.Mono) clock.Mono {
			b := (int64(at) + int64(tick) - 1) / int64(tick)
			return clock.Mono(max(b, int64(now)/int64(tick)+1) * int64(tick))
		}
		t.Repeat(map[string]func(*rapid.T){
			"arm": func(t *rapid.T) {
				tm := &timers[rapid.IntRange(0, 7).Draw(t, "timer")]
				at := now.Add(time.Duration(rapid.Int64Range(-int64(time.Second), int64(40*time.Second)).Draw(t, "after")))
				w.arm(tm, at)
				due[tm] = boundary(at)
			},
			"cancel": func(t *rapid.T) {
				tm := &timers[rapid.IntRange(0, 7).Draw(t, "timer")]
				w.cancel(tm)
				delete(due, tm)
			},
			"advance": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "by")))
				got := map[*timer]bool{}
				for _, tm := range fired(&w, now) {
					got[tm] = true
				}
				for tm, at := range due {
					if want := at <= now; want != got[tm] {
						t.Fatalf("due %d now %d: fired %v", at, now, got[tm])
					}
					if got[tm] {
						delete(due, tm)
						delete(got, tm)
					}
				}
				if len(got) > 0 {
					t.Fatal("a disarmed timer fired")
				}
			},
			"": func(t *rapid.T) {
				earliest := clock.Never
				for _, at := range due {
					earliest = min(earliest, at)
				}
				if next := w.next(); next > earliest || (len(due) == 0) != (next == clock.Never) {
					t.Fatalf("next %d, earliest %d", next, earliest)
				}
			},
		})
	})
}

func TestWheelArmingAllocatesNothing(t *testing.T) {
	var w wheel
	w.init(0)
	var tm timer
	at := clock.Mono(0)
	if n := testing.AllocsPerRun(1000, func() {
		at = at.Add(tick)
		w.arm(&tm, at)
		w.advance(at, func(*timer) {})
	}); n != 0 {
		t.Errorf("%v allocations per arm and fire", n)
	}
}

func BenchmarkWheelRearm(b *testing.B) {
	var w wheel
	w.init(0)
	timers := make([]timer, 1024)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.arm(&timers[i%len(timers)], clock.Mono(i)*clock.Mono(time.Millisecond))
	}
}
