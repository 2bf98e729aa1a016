package timer

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// countMax keeps sums of two counts within 64 bits, whatever another process sent.
const countMax = 1 << 62

// phase says where the one tick is that a name may have.
type phase uint8

const (
	idle    phase = iota // there is none
	held                 // imported; Due has not given it out yet
	queued               // given out by Due; Started has not been asked
	running              // its callback runs
)

// record is what a Set knows of one name: its registration, if live, and its tick,
// which may be of an earlier registration.
//
// Invariant: a record that is not live has a tick that is queued or running: it is
// only kept so that the next tick of the name waits for that one.
type record struct {
	name       string
	generation Generation // of the registration
	period     time.Duration
	catchUpMax int
	mode       Mode
	live       bool
	next       clock.Mono // the first instant that is no tick yet; Never: none for now
	missed     uint64     // instants before it that were dropped since the last tick

	phase phase
	tick  Tick // unless idle
}

// due returns since when a tick waits to be given out, or will; Never if none does
// while the phase lasts.
func (r *record) due() clock.Mono {
	switch {
	case r.phase == held:
		return r.tick.Scheduled
	case r.phase == idle && r.live:
		return r.next
	}
	return clock.Never
}

// anchored reports whether the instants are whole periods after the first.
func (r *record) anchored() bool { return r.period > 0 && r.mode != FixedDelay }

// current reports whether the tick is of the present registration.
func (r *record) current() bool { return r.live && r.tick.Generation == r.generation }

// fall makes a tick of the instants that have passed at now; at least one has.
func (r *record) fall(now clock.Mono) {
	r.tick = Tick{Name: r.name, Generation: r.generation, Scheduled: r.next, Count: 1}
	if !r.anchored() {
		r.next = clock.Never
		return
	}
	keep := 1
	if r.mode == CatchUp {
		keep = r.catchUpMax
	}
	before := r.pass(r.passed(now) - int64(keep))
	r.tick.Scheduled = r.next
	r.tick.Count = min(r.missed+before+1, countMax)
	r.missed = 0
	r.pass(1)
}

// passed returns how many instants have passed at now.
func (r *record) passed(now clock.Mono) int64 {
	if !now.Reached(r.next) {
		return 0
	}
	return int64(now.Sub(r.next)/r.period) + 1
}

// pass goes on by n instants, if n is positive, and returns how many it went.
func (r *record) pass(n int64) uint64 {
	n = max(n, 0)
	r.next = r.next.Add(time.Duration(n) * r.period)
	return uint64(n)
}

// ended arms what comes after a callback of the present registration.
func (r *record) ended(now clock.Mono) {
	switch {
	case r.period == 0:
	case r.mode == FixedDelay:
		r.next = now.Add(r.period)
	case r.mode == Skip:
		r.missed = min(r.missed+r.pass(r.passed(now)), countMax)
	}
}
