package timer

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// The golden vectors fix the bytes of an encoded State.
//
//	encode    last=n, then per line a timer: name generation=n and what is not zero of
//	          mode, catch-up, period, rest, missed, late, count; the bytes are decoded
//	          again, and the very fields demanded back
//	refuse    hex; comments begin with #
func TestGoldenVectors(t *testing.T) {
	datadriven.RunTest(t, "testdata/golden/state", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "refuse" {
			_, err := Decode(unhex(t, d.Input))
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%s: %v", d.Pos, err)
			}
			return fmt.Sprintln(err)
		}
		var st State
		var last uint64
		d.ScanArgs(t, "last", &last)
		st.Last = Generation(last)
		for line := range strings.Lines(d.Input) {
			st.Timers = append(st.Timers, parseTimer(t, strings.Fields(line)))
		}
		bytes := st.AppendTo(nil)
		if back, err := Decode(bytes); err != nil || !reflect.DeepEqual(back, st) {
			t.Errorf("%s: decoded %+v, error %v", d.Pos, back, err)
		}
		var out strings.Builder
		for ; len(bytes) > 16; bytes = bytes[16:] {
			fmt.Fprintf(&out, "% x\n", bytes[:16])
		}
		fmt.Fprintf(&out, "% x\n", bytes)
		return out.String()
	})
}

func parseTimer(t *testing.T, words []string) Timer {
	timer := Timer{Name: words[0]}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "generation":
			scan(t, value, "%d", &timer.Generation)
		case "mode":
			scan(t, value, "%d", &timer.Mode)
		case "catch-up":
			scan(t, value, "%d", &timer.CatchUpMax)
		case "period":
			timer.Period = span(t, value)
		case "rest":
			timer.Armed, timer.Rest = true, span(t, value)
		case "missed":
			scan(t, value, "%d", &timer.Missed)
		case "late":
			timer.Pending, timer.Late = true, span(t, value)
		case "count":
			scan(t, value, "%d", &timer.Count)
		default:
			t.Fatalf("%v: unknown field %q", words, key)
		}
	}
	return timer
}

func unhex(t *testing.T, s string) []byte {
	var digits strings.Builder
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestImportRefusesAStateThatIsImpossible(t *testing.T) {
	second := Timer{Name: "a", Generation: 2, Period: time.Second, Armed: true, Rest: time.Second}
	change := func(f func(*Timer)) State {
		timer := second
		f(&timer)
		return State{Last: 2, Timers: []Timer{timer}}
	}
	if _, err := Import(0, 0, change(func(*Timer) {})); err != nil {
		t.Fatal(err)
	}
	for what, st := range map[string]State{
		"no name":                  change(func(x *Timer) { x.Name = "" }),
		"no generation":            change(func(x *Timer) { x.Generation = 0 }),
		"generation after last":    change(func(x *Timer) { x.Generation = 3 }),
		"unknown mode":             change(func(x *Timer) { x.Mode = 4 }),
		"catch up by none":         change(func(x *Timer) { x.Mode = CatchUp }),
		"short period":             change(func(x *Timer) { x.Period = 1 }),
		"rest too long":            change(func(x *Timer) { x.Rest = SpanMax + 1 }),
		"rest too far back":        change(func(x *Timer) { x.Rest = -SpanMax - 1 }),
		"rest and not armed":       change(func(x *Timer) { x.Armed = false }),
		"periodic and not armed":   change(func(x *Timer) { x.Armed, x.Rest = false, 0 }),
		"late and not pending":     change(func(x *Timer) { x.Late = 1 }),
		"count and not pending":    change(func(x *Timer) { x.Count = 1 }),
		"pending and no count":     change(func(x *Timer) { x.Pending = true }),
		"late by less than 0":      change(func(x *Timer) { x.Pending, x.Count, x.Late = true, 1, -1 }),
		"late by too much":         change(func(x *Timer) { x.Pending, x.Count, x.Late = true, 1, SpanMax+1 }),
		"count too large":          change(func(x *Timer) { x.Pending, x.Count = true, countMax+1 }),
		"missed too many":          change(func(x *Timer) { x.Mode, x.Missed = Skip, countMax+1 }),
		"missed without skip":      change(func(x *Timer) { x.Missed = 1 }),
		"once, armed and pending":  change(func(x *Timer) { x.Period, x.Pending, x.Count = 0, true, 1 }),
		"once, of two instants":    change(func(x *Timer) { x.Period, x.Armed, x.Rest, x.Pending, x.Count = 0, false, 0, true, 2 }),
		"delay after nothing":      change(func(x *Timer) { x.Mode, x.Armed, x.Rest = FixedDelay, false, 0 }),
		"one name twice":           {Last: 3, Timers: []Timer{second, {Name: "a", Generation: 3, Armed: true}}},
		"generations out of order": {Last: 3, Timers: []Timer{second, {Name: "b", Generation: 1, Armed: true}}},
		"too many":                 {Last: 3, Timers: make([]Timer, LimitMax+1)},
	} {
		if _, err := Import(0, 0, st); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestMoreTimersThanTheTargetAllowsAreKept(t *testing.T) {
	s := NewSet(3)
	for _, name := range []string{"a", "b", "c"} {
		if _, err := s.Register(0, name, Options{Period: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Import(0, 2, s.Export(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(0, "d", Options{}); s.Len() != 3 || !errors.Is(err, ErrTooMany) {
		t.Errorf("%d timers; one more: %v", s.Len(), err)
	}
	if _, err := s.Register(0, "b", Options{}); err != nil {
		t.Errorf("one that is there: %v", err)
	}
}

// Whatever is decoded is encoded to the same bytes, and can be imported, used and
// exported again without a loss.
func FuzzDecode(f *testing.F) {
	s := NewSet(0)
	for i, o := range []Options{
		{},
		{Delay: time.Second},
		{Period: time.Second},
		{Period: time.Second, Mode: Skip},
		{Period: time.Hour, Mode: CatchUp, CatchUpMax: 3},
		{Period: time.Minute, Mode: FixedDelay},
	} {
		if _, err := s.Register(0, fmt.Sprint("timer ", i), o); err != nil {
			f.Fatal(err)
		}
	}
	for _, tick := range s.Due(0, nil) {
		if tick.Generation == 4 && s.Started(tick.Name, tick.Generation) {
			s.Ended(5e9, tick.Name, tick.Generation)
		}
	}
	st := s.Export(6e9)
	f.Add(st.AppendTo(nil))
	f.Add([]byte{version, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if again := st.AppendTo(nil); string(again) != string(b) {
			t.Fatalf("decoded %x, encoded %x", b, again)
		}
		const now = 1 << 40
		s, err := Import(now, LimitMax, st)
		if err != nil {
			t.Fatal(err)
		}
		if again := s.Export(now); !reflect.DeepEqual(again, st) {
			t.Fatalf("exported %+v, imported %+v", again, st)
		}
		ticks := s.Due(now, nil)
		for i, tick := range ticks {
			if !s.Started(tick.Name, tick.Generation) {
				t.Fatalf("%v is not valid", tick)
			}
			if i%2 == 0 {
				s.Ended(now+1, tick.Name, tick.Generation)
			}
		}
		if later := s.Export(now + 2); later.validate() != nil {
			t.Fatalf("exported %+v: %v", later, later.validate())
		}
	})
}
