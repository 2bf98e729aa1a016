package clock

import (
	"testing"
	"time"
)

func TestNowNeverGoesBackwards(t *testing.T) {
	last := Now()
	for range 1000 {
		n := Now()
		if n < last {
			t.Fatalf("%d after %d", n, last)
		}
		last = n
	}
}

func TestAddStopsAtNever(t *testing.T) {
	if got := Never.Add(time.Hour); got != Never {
		t.Errorf("Never+1h = %d", got)
	}
	if got := Mono(5).Add(7); got != 12 {
		t.Errorf("5+7 = %d", got)
	}
	if got := Mono(5).Add(-7); got != -2 {
		t.Errorf("5-7 = %d", got)
	}
}

func TestAtAndTimeAreInverse(t *testing.T) {
	m := Now()
	if got := At(m.Time()); got != m {
		t.Errorf("At(Time(%d)) = %d", m, got)
	}
	if !m.Reached(m) || m.Reached(m+1) || m.Sub(m-3) != 3 {
		t.Error("Reached or Sub is off by one")
	}
}

// Time that goes by shows, so that a reading is not taken for new that is old.
func TestTicksShowWhatGoesBy(t *testing.T) {
	if !Steady {
		return // who asks for the present looks at the clock then
	}
	for range 100 {
		from, end := Ticks(), Now().Add(100*time.Microsecond)
		for !Now().Reached(end) {
		}
		if n := Ticks() - from; n < Near {
			t.Fatalf("%d ticks in 100 microseconds", n)
		}
	}
}

func BenchmarkTicks(b *testing.B) {
	for b.Loop() {
		Ticks()
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
