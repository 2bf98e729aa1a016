package node

import (
	"testing"
	"time"
)

// An estimate is the captures, one behind the other, and the payload at the link's rate; of what is
// not known it says nothing.
func TestAnEstimateCountsWhatIsKnown(t *testing.T) {
	for _, c := range []struct {
		e    estimate
		want time.Duration
	}{
		{estimate{}, 0},
		{estimate{bytes: 1 << 30}, 0},
		{estimate{captures: 200 * time.Millisecond, bytes: 1 << 30}, 200 * time.Millisecond},
		{estimate{captures: 200 * time.Millisecond, bytes: 10 << 20, rate: 5 << 20}, 2200 * time.Millisecond},
	} {
		if got := c.e.time(); got != c.want {
			t.Errorf("%+v is %v, want %v", c.e, got, c.want)
		}
	}
}

// An average follows what is new, slowly; its first value is all that it knows.
func TestAnAverageFollowsWhatIsNew(t *testing.T) {
	var a average
	if a.add(800); a.v.Load() != 800 {
		t.Errorf("after one value it is %d", a.v.Load())
	}
	if a.add(1600); a.v.Load() != 900 {
		t.Errorf("an eighth of what is more makes %d", a.v.Load())
	}
	for range 200 {
		a.add(0)
	}
	if a.v.Load() > 8 { // an eighth of less than 8 is nothing
		t.Errorf("in the end it is %d", a.v.Load())
	}
}
