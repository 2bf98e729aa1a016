package host

import (
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// leaving lands that many units at the rate that rateOf gives for the number that flies.
func leaving(f *flights, now clock.Mono, units int, rateOf func(size int) float64) clock.Mono {
	for range units {
		now = now.Add(time.Duration(float64(time.Second) / rateOf(f.size)))
		f.land(now, true)
	}
	return now
}

// bottleneck is a rate that grows with the number up to most.
func bottleneck(each, most float64) func(int) float64 {
	return func(size int) float64 { return min(each*float64(size), most) }
}

func TestAsManyUnitsFlyAsLeaveFaster(t *testing.T) {
	for _, c := range []struct {
		name     string
		rate     func(int) float64
		min, max int
	}{
		{"a store that is busy with one", bottleneck(400, 400), 1, 4},
		{"a store that takes 16 at once", bottleneck(100, 1600), 16, 32},
		{"a store that is far away", bottleneck(10, 5000), 512, 1024},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f flights
			f.begin()
			now := leaving(&f, 1, 20_000, c.rate)
			for range 2000 {
				if now = leaving(&f, now, 1, c.rate); f.size < c.min/2 || f.size > 2*c.max {
					t.Fatalf("%d fly, want %d to %d but for a trial", f.size, c.min, c.max)
				}
			}
		})
	}
}

func TestFewerUnitsFlyWhereOthersNeedTheStore(t *testing.T) {
	var f flights
	f.begin()
	now := leaving(&f, 1, 20_000, bottleneck(10, 2000))
	if f.size < 128 {
		t.Fatalf("%d fly", f.size)
	}
	now = leaving(&f, now, 40_000, bottleneck(10, 80))
	if f.size > 32 {
		t.Errorf("%d fly still", f.size)
	}
	leaving(&f, now, 20_000, bottleneck(10, 2000))
	if f.size < 128 {
		t.Errorf("%d fly, and there is room again", f.size)
	}
}

// What waits for something else than the number says nothing about it.
func TestFlightsThatAreNotFullAreNotJudged(t *testing.T) {
	var f flights
	f.begin()
	for now := clock.Mono(1); now < 10_000; now++ {
		f.land(now, now%20 != 0)
	}
	if f.size != flightsFirst {
		t.Errorf("%d fly", f.size)
	}
}

// Units that wait for something of their own are soon under way together: here each takes 10 s.
func TestMoreUnitsFlyWhileNoneLands(t *testing.T) {
	var f flights
	f.begin()
	began, flying := clock.Mono(1), 0
	for now := began; now.Sub(began) < 2*time.Second; {
		opens, ok := f.room(now, flying)
		if ok {
			flying++
		} else {
			now = opens
		}
	}
	if flying < 256 {
		t.Errorf("%d fly after two seconds", flying)
	}
}
