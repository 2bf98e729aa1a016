package timer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
)

func TestRegisterRefusesWhatIsOutOfBounds(t *testing.T) {
	long := strings.Repeat("n", NameBytesMax)
	for _, c := range []struct {
		name string
		o    Options
		want error
	}{
		{"", Options{}, ErrName},
		{long, Options{}, nil},
		{long + "n", Options{}, ErrName},
		{"\xff", Options{}, ErrName},
		{"ü", Options{}, nil},
		{"a", Options{Delay: -1}, ErrDelay},
		{"a", Options{Delay: SpanMin - 1}, ErrDelay},
		{"a", Options{Delay: SpanMin}, nil},
		{"a", Options{Delay: SpanMax}, nil},
		{"a", Options{Delay: SpanMax + 1}, ErrDelay},
		{"a", Options{Period: -SpanMin}, ErrPeriod},
		{"a", Options{Period: SpanMin - 1}, ErrPeriod},
		{"a", Options{Period: SpanMin}, nil},
		{"a", Options{Period: SpanMax}, nil},
		{"a", Options{Period: SpanMax + 1}, ErrPeriod},
		{"a", Options{Mode: FixedDelay + 1}, ErrMode},
		{"a", Options{Mode: CatchUp}, ErrMode},
		{"a", Options{Mode: CatchUp, CatchUpMax: -1}, ErrMode},
		{"a", Options{Mode: CatchUp, CatchUpMax: CatchUpLimit}, nil},
		{"a", Options{Mode: CatchUp, CatchUpMax: CatchUpLimit + 1}, ErrMode},
		{"a", Options{Mode: Skip, CatchUpMax: 1}, ErrMode},
	} {
		s := NewSet(0)
		g, err := s.Register(1, c.name, c.o)
		if !errors.Is(err, c.want) || (err == nil) != (s.Len() == 1 && g == 1) {
			t.Errorf("%.8q %+v: generation %d, error %v, want %v", c.name, c.o, g, err, c.want)
		}
	}
}

func TestEachRefusalHasItsKind(t *testing.T) {
	for err, kind := range map[error]errkind.Kind{
		ErrName: errkind.InvalidOperation, ErrDelay: errkind.InvalidOperation, ErrPeriod: errkind.InvalidOperation,
		ErrMode: errkind.InvalidOperation, ErrTooMany: errkind.CapacityExceeded, ErrFenced: errkind.Unavailable,
		ErrFormat: errkind.ProtocolError,
	} {
		if !errors.Is(err, kind) {
			t.Errorf("%v is no %v", err, kind)
		}
	}
}

func TestTheDefaultLimitIsOfRegistrationsThatAreLive(t *testing.T) {
	s := NewSet(0)
	for i := range LimitDefault {
		if _, err := s.Register(0, fmt.Sprint(i), Options{Delay: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Register(0, "more", Options{}); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	s.Cancel("7")
	if _, err := s.Register(0, "more", Options{}); err != nil || s.Len() != LimitDefault {
		t.Errorf("in place of one that was cancelled: %v; %d timers", err, s.Len())
	}
}

func TestAnObjectWithoutTimersNeedsNoSet(t *testing.T) {
	var s *Set
	s.Fence()
	s.Ended(1, "a", 1)
	if _, ok := s.Next(); ok || len(s.Due(1, nil)) > 0 || s.Started("a", 1) || s.Cancel("a") || s.Len() != 0 {
		t.Error("a Set that is not there has timers")
	}
	if st := s.Export(1); st.Last != 0 || len(st.Timers) > 0 {
		t.Errorf("exports %v", st)
	}
}

func TestATickingTimerAllocatesNothing(t *testing.T) {
	s := NewSet(0)
	for i := range 8 {
		if _, err := s.Register(0, fmt.Sprint(i), Options{Period: time.Duration(i+1) * time.Second, Mode: Mode(i % 2)}); err != nil {
			t.Fatal(err)
		}
	}
	ticks := make([]Tick, 0, 8)
	if n := testing.AllocsPerRun(1000, func() {
		now, _ := s.Next()
		ticks = s.Due(now, ticks[:0])
		for _, tick := range ticks {
			s.Started(tick.Name, tick.Generation)
			s.Ended(now, tick.Name, tick.Generation)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// scene is a Set, the mailbox that its ticks go to, and what the laws say of each name.
type scene struct {
	set     *Set
	limit   int
	now     clock.Mono
	mailbox []Tick
	running []Tick
	names   map[string]*law
	fenced  bool
}

// law is what is known of a registration beside the Set: its anchor, and how many of
// its instants have been told of.
type law struct {
	generation Generation
	options    Options
	anchor     clock.Mono
	told       uint64
	ended      clock.Mono // the last callback; with FixedDelay it is the anchor
	pending    *Tick      // it moved before it could start, and must come again
}

// scheduled returns the instant that is number n, from 1 on.
func (l *law) scheduled(n uint64) clock.Mono {
	return l.anchor.Add(time.Duration(n-1) * l.options.Period)
}

func (c *scene) register(t *rapid.T, name string, o Options) {
	old := c.names[name]
	g, err := c.set.Register(c.now, name, o)
	switch {
	case c.fenced:
		if !errors.Is(err, ErrFenced) {
			t.Fatalf("fenced: %v", err)
		}
		return
	case errors.Is(err, ErrTooMany) && old == nil && len(c.names) >= c.limit:
		return
	case err != nil:
		t.Fatal(err)
	}
	for _, l := range c.names {
		if g <= l.generation {
			t.Fatalf("generation %d after %d", g, l.generation)
		}
	}
	c.names[name] = &law{generation: g, options: o, anchor: c.now.Add(o.Delay)}
}

func (c *scene) cancel(t *rapid.T, name string) {
	if got, want := c.set.Cancel(name), c.names[name] != nil; got != want {
		t.Fatalf("cancel of %q says %v, want %v", name, got, want)
	}
	delete(c.names, name)
}

// due checks each tick against the laws.
func (c *scene) due(t *rapid.T) {
	for _, tick := range c.set.Due(c.now, nil) {
		l := c.names[tick.Name]
		if c.fenced || l == nil || l.generation != tick.Generation {
			t.Fatalf("a tick of no timer: %v", tick)
		}
		for _, other := range append(c.mailbox, c.running...) {
			if other.Name == tick.Name {
				t.Fatalf("%v while %v is out", tick, other)
			}
		}
		c.mailbox = append(c.mailbox, tick)
		c.judge(t, l, tick)
	}
	if next, ok := c.set.Next(); ok && c.now.Reached(next) {
		t.Fatalf("all that is due was given out, and Next says %d at %d", next, c.now)
	}
	if n := len(c.mailbox) + len(c.running); n > c.limit {
		t.Fatalf("%d ticks are out, limit %d", n, c.limit)
	}
}

func (c *scene) judge(t *rapid.T, l *law, tick Tick) {
	o := l.options
	if tick.Scheduled > c.now || tick.Count < 1 {
		t.Fatalf("at %d: %v", c.now, tick)
	}
	if o.Period == 0 || o.Mode == FixedDelay {
		want := l.anchor
		if l.told > 0 {
			want = l.ended.Add(o.Period)
		}
		if tick.Scheduled != want || tick.Count != 1 || o.Period == 0 && l.told > 0 {
			t.Fatalf("%v, want it for %d; told of %d before", tick, want, l.told)
		}
		l.told++
		return
	}
	// Every instant up to the tick's own has been told of, and none twice.
	l.told += tick.Count
	if tick.Scheduled != l.scheduled(l.told) {
		t.Fatalf("%v, but instant number %d is at %d", tick, l.told, l.scheduled(l.told))
	}
	if l.pending != nil {
		if *l.pending != tick {
			t.Fatalf("%v, want %v again", tick, *l.pending)
		}
		l.pending = nil
		return
	}
	behind := uint64(1)
	if o.Mode == CatchUp {
		behind = uint64(o.CatchUpMax)
	}
	if l.scheduled(l.told+behind).Sub(c.now) <= 0 {
		t.Fatalf("at %d: %v is more than %d instants behind", c.now, tick, behind)
	}
	if tick.Count > 1 && o.Mode == CatchUp && l.scheduled(l.told+behind-1) > c.now {
		t.Fatalf("at %d: %v leaves out what could be caught up", c.now, tick)
	}
}

func (c *scene) turn(t *rapid.T) {
	tick := c.mailbox[0]
	c.mailbox = c.mailbox[1:]
	l := c.names[tick.Name]
	valid := !c.fenced && l != nil && l.generation == tick.Generation
	if got := c.set.Started(tick.Name, tick.Generation); got != valid {
		t.Fatalf("%v started: %v, want %v", tick, got, valid)
	}
	if !valid {
		return
	}
	c.running = append(c.running, tick)
	if l.options.Period == 0 {
		delete(c.names, tick.Name)
	}
}

func (c *scene) end(t *rapid.T) {
	i := rapid.IntRange(0, len(c.running)-1).Draw(t, "which")
	tick := c.running[i]
	c.running = append(c.running[:i:i], c.running[i+1:]...)
	c.set.Ended(c.now, tick.Name, tick.Generation)
	l := c.names[tick.Name]
	if l == nil || l.generation != tick.Generation {
		return
	}
	l.ended = c.now
	if next, ok := c.set.Next(); l.options.Mode == Skip && len(c.names) == 1 && ok && len(c.mailbox) == 0 && next <= c.now {
		t.Fatalf("at %d: skip goes on at %d", c.now, next)
	}
}

// move takes the object to a process with another clock.
func (c *scene) move(t *rapid.T) {
	to := clock.Mono(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "clock"))
	for len(c.running) > 0 {
		c.end(t)
	}
	st := c.set.Export(c.now)
	back, err := Decode(st.AppendTo(nil))
	if err != nil {
		t.Fatal(err)
	}
	if c.set, err = Import(to, c.limit, back); err != nil {
		t.Fatal(err)
	}
	for _, tick := range c.mailbox {
		if l := c.names[tick.Name]; l != nil && l.generation == tick.Generation {
			l.told -= tick.Count
			l.pending = &tick
		}
	}
	c.mailbox = nil
	for _, l := range c.names {
		l.anchor += to - c.now
		l.ended += to - c.now
		if l.pending != nil {
			l.pending.Scheduled += to - c.now
		}
	}
	c.now = to
}

// The laws are those of the package comment.
func keepsTheLaws(t *rapid.T) {
	limit := rapid.IntRange(1, 5).Draw(t, "limit")
	c := &scene{set: NewSet(limit), limit: limit, names: map[string]*law{}}
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	period := rapid.Map(rapid.IntRange(0, 12), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
	options := rapid.Custom(func(t *rapid.T) Options {
		o := Options{Delay: period.Draw(t, "delay"), Period: period.Draw(t, "period"), Mode: Mode(rapid.IntRange(0, 3).Draw(t, "mode"))}
		if o.Mode == CatchUp {
			o.CatchUpMax = rapid.IntRange(1, 4).Draw(t, "catch up")
		}
		return o
	})
	t.Repeat(map[string]func(*rapid.T){
		"register": func(t *rapid.T) { c.register(t, name.Draw(t, "name"), options.Draw(t, "options")) },
		"cancel":   func(t *rapid.T) { c.cancel(t, name.Draw(t, "name")) },
		"time": func(t *rapid.T) {
			c.now = c.now.Add(time.Duration(rapid.Int64Range(0, 40_000_000).Draw(t, "by")))
		},
		"to Next": func(t *rapid.T) {
			if next, ok := c.set.Next(); ok {
				c.now = max(c.now, next)
			}
		},
		"due": c.due,
		"turn": func(t *rapid.T) {
			if len(c.mailbox) > 0 {
				c.turn(t)
			}
		},
		"end": func(t *rapid.T) {
			if len(c.running) > 0 {
				c.end(t)
			}
		},
		"move": func(t *rapid.T) {
			if !c.fenced {
				c.move(t)
			}
		},
		"fence": func(t *rapid.T) {
			if rapid.IntRange(0, 20).Draw(t, "seldom") == 0 {
				c.set.Fence()
				c.fenced, c.names = true, map[string]*law{}
			}
		},
		"": func(t *rapid.T) {
			if c.set.Len() != len(c.names) {
				t.Fatalf("%d timers, want %d", c.set.Len(), len(c.names))
			}
		},
	})
}

func TestKeepsTheLawsWhateverHappens(t *testing.T) { rapid.Check(t, keepsTheLaws) }

func FuzzKeepsTheLaws(f *testing.F) { f.Fuzz(rapid.MakeFuzz(keepsTheLaws)) }
