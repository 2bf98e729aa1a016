package timer

import (
	"slices"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/invariant"
)

// Generation numbers the registrations of a Set from 1 on.
type Generation uint64

// Tick is what is queued to the object: one callback to come.
type Tick struct {
	Name       string
	Generation Generation
	// Scheduled is the instant for which it was due; it may be long past.
	Scheduled clock.Mono
	// Count is how many scheduled instants have passed since the tick before, this
	// one included: 1 if none was coalesced or dropped.
	Count uint64
}

// Set is the named timers of one object. See the package comment. It is no monitor:
// one goroutine at a time may use it. All methods but Register work on a nil Set, which
// has no timers, so that an object without any has none.
//
// Invariants: names are unique; live counts the records that are live, outstanding
// those whose tick is queued or running; outstanding is at most limit.
type Set struct {
	limit int // immutable

	last        Generation
	live        int
	outstanding int
	fenced      bool
	records     []record
}

// NewSet returns a Set of at most limit timers; 0 means LimitDefault.
func NewSet(limit int) *Set {
	if limit == 0 {
		limit = LimitDefault
	}
	invariant.Check(limit >= 1 && limit <= LimitMax, "a limit of %d timers; 1 to %d are possible", limit, LimitMax)
	return &Set{limit: limit}
}

// Len returns the number of registrations that may still start a callback.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return s.live
}

// Register makes a timer of that name, in place of one that is there, and returns its
// generation. Errors: ErrName, ErrDelay, ErrPeriod, ErrMode, ErrTooMany, ErrFenced; then
// nothing has changed.
func (s *Set) Register(now clock.Mono, name string, o Options) (Generation, error) {
	if !validName(name) {
		return 0, ErrName
	}
	if err := o.validate(); err != nil {
		return 0, err
	}
	if s.fenced {
		return 0, ErrFenced
	}
	r := s.find(name)
	if r == nil || !r.live {
		if s.live >= s.limit {
			return 0, ErrTooMany
		}
		s.live++
	}
	if r == nil {
		s.records = append(s.records, record{name: name})
		r = &s.records[len(s.records)-1]
	}
	if r.phase == held {
		r.phase = idle
	}
	s.last++
	r.generation, r.live = s.last, true
	r.period, r.mode, r.catchUpMax = o.Period, o.Mode, o.CatchUpMax
	r.next, r.missed = now.Add(o.Delay), 0
	return s.last, nil
}

// Cancel ends the timer of that name and reports whether there was one that might
// have started a callback. No callback of it starts any more.
func (s *Set) Cancel(name string) bool {
	r := s.find(name)
	if r == nil || !r.live {
		return false
	}
	s.retire(r)
	if r.phase == held {
		r.phase = idle
	}
	s.tidy(r)
	return true
}

// Next returns when Due has something to give out, which may be over already; false
// if not before another method is called.
func (s *Set) Next() (clock.Mono, bool) {
	if r := s.first(); r != nil {
		return r.due(), true
	}
	return clock.Never, false
}

// Due appends to dst the ticks that are due at now, in the order in which they fell
// due. Each must be queued to the object, and then Started be asked for it; until then
// its name has no other.
func (s *Set) Due(now clock.Mono, dst []Tick) []Tick {
	for r := s.first(); r != nil && now.Reached(r.due()); r = s.first() {
		if r.phase == idle {
			r.fall(now)
		}
		r.phase = queued
		s.outstanding++
		dst = append(dst, r.tick)
	}
	return dst
}

// Started reports whether a tick whose turn has come is still valid: the caller then
// runs the callback and calls Ended. It is not if its name was registered again or
// cancelled since, or the Set was fenced.
func (s *Set) Started(name string, g Generation) bool {
	r := s.find(name)
	if r == nil || r.phase != queued || r.tick.Generation != g {
		return false
	}
	if !r.current() {
		s.free(r)
		return false
	}
	r.phase = running
	if r.period == 0 {
		s.retire(r)
	}
	return true
}

// Ended says that the callback of a tick has returned, or failed.
func (s *Set) Ended(now clock.Mono, name string, g Generation) {
	r := s.find(name)
	if r == nil || r.phase != running || r.tick.Generation != g {
		return
	}
	if r.current() {
		r.ended(now)
	}
	s.free(r)
}

// Fence ends the Set for good: nothing is due any more, no tick is valid, and no timer
// can be registered.
func (s *Set) Fence() {
	if s != nil {
		*s = Set{limit: s.limit, last: s.last, fenced: true}
	}
}

// find returns the record of a name. It moves with the next change of the Set.
func (s *Set) find(name string) *record {
	if s == nil {
		return nil
	}
	for i := range s.records {
		if s.records[i].name == name {
			return &s.records[i]
		}
	}
	return nil
}

// first returns the record that falls due first, of those that may: of two, that of
// the earlier registration. If as many ticks as may be are queued already, most of
// them of timers that were cancelled, none may.
func (s *Set) first() *record {
	if s == nil || s.outstanding >= s.limit {
		return nil
	}
	var first *record
	due := clock.Never
	for i := range s.records {
		r := &s.records[i]
		switch at := r.due(); {
		case at > due || at == clock.Never:
		case at < due || r.generation < first.generation:
			first, due = r, at
		}
	}
	return first
}

// retire ends the registration of a record.
func (s *Set) retire(r *record) {
	r.live = false
	s.live--
}

// free ends a tick that was queued or running.
func (s *Set) free(r *record) {
	r.phase = idle
	s.outstanding--
	s.tidy(r)
}

// tidy removes a record that is needed no more; r is void then.
func (s *Set) tidy(r *record) {
	if r.live || r.phase != idle {
		return
	}
	name := r.name
	s.records = slices.DeleteFunc(s.records, func(r record) bool { return r.name == name })
}
