package timer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
)

// ErrFormat: a State that came from another process is malformed.
var ErrFormat = fmt.Errorf("timer: malformed state (%w)", errkind.ProtocolError)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// State is the registrations of a Set and its ticks that have not started, for another
// process. It has no instants, only times from the capture on.
type State struct {
	Last   Generation // the newest that the Set has given out
	Timers []Timer    // in order of their generations
}

// Timer is one registration.
type Timer struct {
	Name       string
	Generation Generation
	Mode       Mode
	CatchUpMax int
	Period     time.Duration

	// Armed: there is a next instant, Rest after the capture, at least -SpanMax; it is
	// not positive if it has passed. There always is one but for a tick that is the
	// only one, or after whose callback the next one is.
	Armed bool
	Rest  time.Duration
	// Missed is how many instants before it were dropped since the last tick.
	Missed uint64

	// Pending: a tick was given out that has not started. Due gives it out again. Late
	// is how long before the capture it was scheduled, Count its Tick.Count.
	Pending bool
	Late    time.Duration
	Count   uint64
}

// anchored is as for a record.
func (t *Timer) anchored() bool { return t.Period > 0 && t.Mode != FixedDelay }

// Export returns what moves with the object. It changes nothing. A callback that runs
// counts as ended now. What is further in the past than SpanMax is said to be that far.
func (s *Set) Export(now clock.Mono) State {
	if s == nil {
		return State{}
	}
	st := State{Last: s.last}
	for _, r := range s.records {
		if r.live {
			st.Timers = append(st.Timers, export(now, r))
		}
	}
	slices.SortFunc(st.Timers, func(a, b Timer) int { return cmp.Compare(a.Generation, b.Generation) })
	return st
}

func export(now clock.Mono, r record) Timer {
	if r.phase == running && r.current() {
		r.ended(now)
	}
	t := Timer{
		Name: r.name, Generation: r.generation,
		Mode: r.mode, CatchUpMax: r.catchUpMax, Period: r.period,
		Armed: r.next != clock.Never, Missed: r.missed,
		Pending: (r.phase == queued || r.phase == held) && r.current(),
	}
	if t.Armed {
		t.Rest = max(r.next.Sub(now), -SpanMax)
	}
	if t.Pending {
		t.Late = min(max(now.Sub(r.tick.Scheduled), 0), SpanMax)
		t.Count = r.tick.Count
	}
	return t
}

// Import makes a Set of a State that was captured at now, as far as that can be told:
// what passed between the capture and now is added to every rest. limit is as for
// NewSet; timers beyond it are kept, but no more can be registered. The error wraps
// ErrFormat.
func Import(now clock.Mono, limit int, st State) (*Set, error) {
	if err := st.validate(); err != nil {
		return nil, err
	}
	s := NewSet(limit)
	s.last, s.live = st.Last, len(st.Timers)
	s.records = make([]record, 0, len(st.Timers))
	for _, t := range st.Timers {
		r := record{
			name: t.Name, generation: t.Generation, live: true,
			period: t.Period, mode: t.Mode, catchUpMax: t.CatchUpMax,
			next: clock.Never, missed: t.Missed,
		}
		if t.Armed {
			r.next = now.Add(t.Rest)
		}
		if t.Pending {
			r.phase = held
			r.tick = Tick{Name: t.Name, Generation: t.Generation, Scheduled: now.Add(-t.Late), Count: t.Count}
		}
		s.records = append(s.records, r)
	}
	return s, nil
}

func (st *State) validate() error {
	if len(st.Timers) > LimitMax {
		return malformed("%d timers, limit %d", len(st.Timers), LimitMax)
	}
	names := make(map[string]bool, len(st.Timers))
	var last Generation
	for i := range st.Timers {
		t := &st.Timers[i]
		if err := t.validate(); err != nil {
			return err
		}
		if names[t.Name] {
			return malformed("name %q twice", t.Name)
		}
		names[t.Name] = true
		if t.Generation <= last || t.Generation > st.Last {
			return malformed("generation %d after %d, the last is %d", t.Generation, last, st.Last)
		}
		last = t.Generation
	}
	return nil
}

func (t *Timer) validate() error {
	switch {
	case !validName(t.Name):
		return malformed("name of %d bytes", len(t.Name))
	case !validMode(t.Mode, t.CatchUpMax):
		return malformed("mode %d with %d", t.Mode, t.CatchUpMax)
	case !validPeriod(t.Period):
		return malformed("period %d", t.Period)
	case t.Rest < -SpanMax || t.Rest > SpanMax || !t.Armed && t.Rest != 0:
		return malformed("rest %d", t.Rest)
	case t.Late < 0 || t.Late > SpanMax || !t.Pending && t.Late != 0:
		return malformed("late by %d", t.Late)
	case t.Missed > countMax || t.Count > countMax || t.Pending != (t.Count > 0):
		return malformed("missed %d, count %d", t.Missed, t.Count)
	case t.anchored() && !t.Armed:
		return malformed("periodic and not armed")
	case !t.anchored() && (t.Armed == t.Pending || t.Missed > 0 || t.Count > 1):
		return malformed("neither one instant nor one tick")
	case t.Missed > 0 && t.Mode != Skip:
		return malformed("missed %d, but %v drops none", t.Missed, t.Mode)
	}
	return nil
}
