package host

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

const (
	flightsFirst = 3
	flightsMax   = 1 << 16
	// roundUnits is how many units land before a number is judged, or roundSlow of those that
	// take so long that they came in no less than roundTime.
	roundUnits, roundSlow = 32, 8
	roundTime             = 250 * time.Millisecond
	// roundsKept is how many rounds a number is kept before another one is tried.
	roundsKept = 8
	// worthMore is how much faster units must leave with twice as many, worthFewer how fast
	// still with half as many.
	worthMore, worthFewer = 1.2, 0.9
)

// flights is how many units fly at once: as few as leave about as fast as more would. A unit
// stands still for most of its flight. Once all wait for the same thing, the Store or a processor,
// more at once leave no faster and stand still for longer, by as much as there are more. Where
// that begins nobody knows beforehand, so numbers are tried: twice as many as long as units then
// leave clearly faster, and later half or twice as many again, as the machine or the Store may
// have less or more to do. Units of which none lands for a while wait for something of their own,
// as an adapter that asks a database: then there are twice as many at once. Permits bound it besides.
type flights struct {
	size   int
	before float64 // units a nanosecond, with the number before this trial; 0: this is no trial
	fewer  bool    // of the trial that there is, or else of the next one
	kept   int     // rounds until then

	landed int        // in this round
	began  clock.Mono // the round
	last   clock.Mono // when one landed, or waited for the first time; 0: neither
}

// begin is for the units of a batch, of whose kind nothing is known yet.
func (f *flights) begin() { *f = flights{size: flightsFirst} }

// room reports whether another one may fly beside those; if not, when it may although none lands.
func (f *flights) room(now clock.Mono, flying int) (opens clock.Mono, ok bool) {
	if flying < f.size {
		return 0, true
	}
	if f.last == 0 {
		f.last = now
	}
	if opens = f.last.Add(roundTime); !now.Reached(opens) {
		return opens, false
	}
	f.size, f.fewer = min(f.size*2, flightsMax), false
	f.before, f.kept, f.began, f.last = 0, 0, 0, now
	return 0, flying < f.size
}

// land takes a landing. full says that more than half of what may fly does: else it is not their
// number that others wait for, and the round is worth nothing.
func (f *flights) land(now clock.Mono, full bool) {
	f.last = now
	if !full || f.began == 0 {
		f.landed, f.began = 0, now
		return
	}
	f.landed++
	took := max(now.Sub(f.began), 1)
	if f.landed < max(roundUnits, f.size) && (took < roundTime || f.landed < max(roundSlow, f.size)) {
		return
	}
	rate := float64(f.landed) / float64(took)
	f.landed, f.began = 0, now
	f.judge(rate)
}

// judge takes the rate of a round.
func (f *flights) judge(rate float64) {
	switch {
	case f.kept > 0:
		f.kept--
	case f.before == 0:
		f.try(rate)
	case rate > f.before*f.worth():
		f.try(rate)
	default:
		f.fewer = !f.fewer
		f.step()
		f.keep()
	}
}

func (f *flights) worth() float64 {
	if f.fewer {
		return worthFewer
	}
	return worthMore
}

// try goes on in its direction, as far as that goes.
func (f *flights) try(rate float64) {
	was := f.size
	if f.step(); f.size == was {
		f.fewer = !f.fewer
		f.keep()
		return
	}
	f.before = rate
}

// keep ends a trial. The next one goes the other way than the last that failed.
func (f *flights) keep() { f.before, f.kept = 0, roundsKept }

func (f *flights) step() {
	if f.fewer {
		f.size = max(f.size/2, 1)
	} else {
		f.size = min(f.size*2, flightsMax)
	}
}
