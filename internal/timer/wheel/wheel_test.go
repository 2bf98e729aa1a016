package wheel

import (
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

const (
	ms   = clock.Mono(time.Millisecond)
	year = 365 * 24 * time.Hour
)

// fired advances w to now and returns the values of what fired, in order.
func fired(w *Wheel[int], now clock.Mono) (out []int) {
	w.Advance(now, func(e *Entry[int]) { out = append(out, e.Value) })
	return out
}

func TestFiresNeverEarlyAndLessThanATickLate(t *testing.T) {
	for _, start := range []clock.Mono{0, 1, 63 * ms, 4095*ms + 7, clock.Mono(7*time.Hour) + 5, clock.Mono(30 * year)} {
		for _, after := range []time.Duration{
			0, 1, Tick - 1, Tick, Tick + 1, 63 * Tick, 64 * Tick, 65 * Tick, time.Second, 4096 * Tick,
			time.Minute, time.Hour, 24 * time.Hour, year, 10 * year,
		} {
			var w Wheel[int]
			fired(&w, start)
			at := start.Add(after)
			var e Entry[int]
			w.Schedule(&e, at)
			now, wakes := start, 0
			for len(fired(&w, now)) == 0 {
				due, ok := w.Next()
				if !ok || due <= now {
					t.Fatalf("start %v, after %v: at +%v Next says +%v %v", start, after, now.Sub(start), due.Sub(start), ok)
				}
				now = due
				wakes++
			}
			// An instant that is over already means the next tick.
			if now < at || now >= at.Add(Tick) && now.Sub(start) > Tick {
				t.Errorf("start %v, after %v: fired %v late", start, after, now.Sub(at))
			}
			if wakes > levels {
				t.Errorf("start %v, after %v: woken %d times", start, after, wakes)
			}
			if _, ok := w.Next(); ok || e.Scheduled() || w.Len() != 0 {
				t.Errorf("start %v, after %v: still in the wheel after it fired", start, after)
			}
		}
	}
}

func TestTiesFireInOrderOfInsertionWhateverTheWayThere(t *testing.T) {
	var w Wheel[int]
	const at = clock.Mono(time.Hour)
	entries := make([]Entry[int], 8)
	// Each is scheduled when the tick is nearer: at another level.
	for i, before := range []clock.Mono{at, at / 2, 70_000 * ms, 5000 * ms, 100 * ms, 40 * ms, 2 * ms, ms} {
		fired(&w, at-before)
		entries[i].Value = i
		w.Schedule(&entries[i], at)
	}
	w.Schedule(&entries[3], at) // rescheduled: now the last
	if got, want := fired(&w, at), []int{0, 1, 2, 4, 5, 6, 7, 3}; !slices.Equal(got, want) {
		t.Errorf("fired %v, want %v", got, want)
	}
}

func TestAJumpFiresAllInOrder(t *testing.T) {
	var w Wheel[int]
	var want []int
	entries := make([]Entry[int], 2000)
	for i := range entries {
		entries[i].Value = i
		w.Schedule(&entries[i], clock.Mono(i*i)*97*ms) // to 4.5 days
		want = append(want, i)
	}
	if got := fired(&w, clock.Mono(20*year)); !slices.Equal(got, want) {
		t.Errorf("%d fired, in order of their instants: %v", len(got), slices.IsSorted(got))
	}
}

func TestNeverIsNeverReached(t *testing.T) {
	var w Wheel[int]
	var e Entry[int]
	w.Schedule(&e, clock.Never)
	if got := fired(&w, clock.Never); len(got) != 0 || !e.Scheduled() {
		t.Error("fired")
	}
	if at, ok := w.Next(); !ok || at != clock.Never {
		t.Errorf("Next says %d %v", at, ok)
	}
}

func TestTimeThatGoesBackwardsDoesNothing(t *testing.T) {
	var w Wheel[int]
	var e Entry[int]
	fired(&w, 100*ms)
	w.Schedule(&e, 0)
	if got := fired(&w, 50*ms); len(got) != 0 {
		t.Error("fired in a tick that is over")
	}
	if got := fired(&w, 101*ms); len(got) != 1 {
		t.Error("did not fire in the first tick after")
	}
}

func TestFireMayScheduleAndCancel(t *testing.T) {
	var w Wheel[int]
	entries := make([]Entry[int], 4)
	for i := range entries {
		entries[i].Value = i
		w.Schedule(&entries[i], clock.Mono(1+i/2)*ms) // two in a tick
	}
	var order []int
	w.Advance(2*ms, func(e *Entry[int]) {
		order = append(order, e.Value)
		if e.Value == 0 {
			w.Schedule(e, 0)      // not again in this Advance
			w.Cancel(&entries[1]) // of the same tick
			w.Cancel(&entries[2]) // of the one after
			w.Schedule(e, ms)     // still not
			w.Cancel(&entries[1]) // once more does no harm
			w.Schedule(e, 2*ms)   // nor this
			w.Schedule(&entries[2], 3*ms)
		}
	})
	if !slices.Equal(order, []int{0, 3}) {
		t.Fatalf("fired %v", order)
	}
	if got := fired(&w, 3*ms); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("then %v", got)
	}
}

func TestAdvanceInPortionsIsBounded(t *testing.T) {
	var w Wheel[int]
	const n, limit = 1000, 16
	at := clock.Mono(time.Hour)
	entries := make([]Entry[int], n)
	for i := range entries {
		entries[i].Value = i
		w.Schedule(&entries[i], at)
	}
	var got []int
	calls := 0
	for next, ok := w.Next(); ok && next <= at; next, ok = w.Next() {
		before := len(got)
		w.AdvanceSome(at, limit, func(e *Entry[int]) { got = append(got, e.Value) })
		if len(got)-before > limit {
			t.Fatalf("%d fired in one call", len(got)-before)
		}
		calls++
	}
	if len(got) != n || !slices.IsSorted(got) {
		t.Errorf("%d fired, in order: %v", len(got), slices.IsSorted(got))
	}
	if most := (levels + 1) * (n/limit + 1); calls > most {
		t.Errorf("%d calls, more than %d: entries are moved more than once per level", calls, most)
	}
}

func TestASlotSpreadInPartHidesNothing(t *testing.T) {
	for _, now := range []clock.Mono{63 * ms, 64 * ms} { // it begins at 64
		var w Wheel[int]
		entries := make([]Entry[int], 3)
		for i, at := range []clock.Mono{100, 70, 90} {
			entries[i].Value = int(at)
			w.Schedule(&entries[i], at*ms)
		}
		w.AdvanceSome(now, 1, nil)
		if next, ok := w.Next(); !ok || next > 70*ms {
			t.Errorf("at %v Next says %v %v", now, next, ok)
		}
		if got := fired(&w, 100*ms); !slices.Equal(got, []int{70, 90, 100}) {
			t.Errorf("fired %v", got)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	var w Wheel[int]
	entries := make([]Entry[int], 64)
	var now clock.Mono
	count := 0
	fire := func(*Entry[int]) { count++ }
	if n := testing.AllocsPerRun(100, func() {
		for i := range entries {
			w.Schedule(&entries[i], now.Add(time.Duration(i*i)*Tick))
		}
		w.Cancel(&entries[7])
		now = now.Add(time.Minute)
		w.Advance(now, fire)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if want := 101 * (len(entries) - 1); count != want {
		t.Errorf("%d fired, want %d", count, want)
	}
}
