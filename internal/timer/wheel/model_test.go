package wheel

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/clock"
)

// model is the wheel as a slice in the order in which its entries fire, and what
// the last Advance left to do.
type model struct {
	wheel   Wheel[int]
	entries []Entry[int]
	order   []planned
	now     clock.Mono
	floor   int64 // the earliest tick of what is scheduled now
}

type planned struct {
	entry int
	tick  int64
}

func (m *model) schedule(i int, at clock.Mono) {
	m.wheel.Schedule(&m.entries[i], at)
	m.forget(i)
	tick := int64(max(at, 0)) / int64(Tick)
	if clock.Mono(tick)*ms < at {
		tick++
	}
	tick = max(tick, m.floor)
	behind := slices.IndexFunc(m.order, func(p planned) bool { return p.tick > tick })
	if behind < 0 {
		behind = len(m.order)
	}
	m.order = slices.Insert(m.order, behind, planned{i, tick})
}

func (m *model) forget(i int) bool {
	before := len(m.order)
	m.order = slices.DeleteFunc(m.order, func(p planned) bool { return p.entry == i })
	return len(m.order) < before
}

func (m *model) cancel(t *rapid.T, i int) {
	if got, want := m.wheel.Cancel(&m.entries[i]), m.forget(i); got != want {
		t.Fatalf("cancel of %d says %v, want %v", i, got, want)
	}
}

// advance runs the wheel to now. What fires does what acts says.
func (m *model) advance(t *rapid.T, limit int, acts []act) {
	m.floor = max(m.floor, int64(m.now)/int64(Tick)+1)
	m.wheel.AdvanceSome(m.now, limit, func(e *Entry[int]) {
		if len(m.order) == 0 || m.order[0].entry != e.Value || m.order[0].tick > int64(m.now)/int64(Tick) {
			t.Fatalf("at %d: %d fired; order %v", m.now, e.Value, m.order)
		}
		if e.Scheduled() {
			t.Fatalf("%d fires and is still scheduled", e.Value)
		}
		m.order = m.order[1:]
		if len(acts) > 0 {
			m.do(t, acts[0], e.Value)
			acts = acts[1:]
		}
	})
	if due := len(m.order) > 0 && m.order[0].tick <= int64(m.now)/int64(Tick); due && limit > 1<<20 {
		t.Fatalf("at %d: %v is still due", m.now, m.order[0])
	}
}

// act is what a callback does to the wheel.
type act struct {
	kind, entry int
	after       time.Duration
}

func (m *model) do(t *rapid.T, a act, own int) {
	switch a.kind {
	case 0:
		m.schedule(own, m.now.Add(a.after))
	case 1:
		m.schedule(a.entry, m.now.Add(a.after))
	case 2:
		m.cancel(t, a.entry)
	}
}

// check looks at what Next says and at the wheel's invariants.
func (m *model) check(t *rapid.T) {
	w := &m.wheel
	if w.Len() != len(m.order) {
		t.Fatalf("%d entries, want %d", w.Len(), len(m.order))
	}
	next, ok := w.Next()
	switch {
	case len(m.order) == 0 && ok:
		t.Fatalf("an empty wheel says %d", next)
	case len(m.order) > 0 && (!ok || next > instant(m.order[0].tick)):
		t.Fatalf("Next says %d %v, the first is due at tick %d", next, ok, m.order[0].tick)
	}
	for level := range w.slots {
		for digit := range w.slots[level] {
			l := &w.slots[level][digit]
			if (l.first != nil) != (w.used[level]>>digit&1 != 0) {
				t.Fatalf("slot %d.%d: the bit is wrong", level, digit)
			}
			for e := l.first; e != nil; e = e.next {
				if want := max(w.levelOf(e.tick), w.spread); e.tick < w.cur || digitOf(e.tick, level) != uint(digit) ||
					level != want && (w.spread == 0 || level > w.spread) {
					t.Fatalf("tick %d in slot %d.%d; cur %d, spread %d", e.tick, level, digit, w.cur, w.spread)
				}
			}
		}
	}
}

// span draws a time: as likely of each order of magnitude.
func span() *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		bits := rapid.IntRange(0, 59).Draw(t, "bits")
		return time.Duration(rapid.Int64Range(0, 1<<bits).Draw(t, "ns"))
	})
}

// near draws a time of a few ticks, so that ties are frequent.
func near() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(-2, 200), func(n int64) time.Duration { return time.Duration(n) * Tick })
}

func agrees(t *rapid.T) {
	m := &model{entries: make([]Entry[int], 12), now: clock.Mono(span().Draw(t, "start"))}
	for i := range m.entries {
		m.entries[i].Value = i
	}
	entry := rapid.IntRange(0, len(m.entries)-1)
	after := rapid.OneOf(near(), span())
	acts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) act {
		return act{rapid.IntRange(0, 3).Draw(t, "kind"), entry.Draw(t, "entry"), after.Draw(t, "after")}
	}), 0, 6)
	m.advance(t, 1<<30, nil)
	t.Repeat(map[string]func(*rapid.T){
		"schedule": func(t *rapid.T) { m.schedule(entry.Draw(t, "entry"), m.now.Add(after.Draw(t, "after"))) },
		"cancel":   func(t *rapid.T) { m.cancel(t, entry.Draw(t, "entry")) },
		"advance": func(t *rapid.T) {
			m.now = m.now.Add(max(0, after.Draw(t, "by")))
			m.advance(t, 1<<30, acts.Draw(t, "acts"))
		},
		"advance in portions": func(t *rapid.T) {
			m.now = m.now.Add(max(0, after.Draw(t, "by")))
			m.advance(t, rapid.IntRange(1, 5).Draw(t, "limit"), acts.Draw(t, "acts"))
		},
		"advance to Next": func(t *rapid.T) {
			if next, ok := m.wheel.Next(); ok && next != clock.Never {
				m.now = max(m.now, next)
				m.advance(t, 1<<30, acts.Draw(t, "acts"))
			}
		},
		"": m.check,
	})
}

// The oracle is a sorted slice.
func TestAgreesWithASortedSlice(t *testing.T) { rapid.Check(t, agrees) }

func FuzzAgreesWithASortedSlice(f *testing.F) { f.Fuzz(rapid.MakeFuzz(agrees)) }
