package timer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/zlnode/zlnode/internal/clock"
)

// The scripts tell what a Set does, call by call. Instants are times from the clock's
// start.
//
//	set [limit=n]
//	register name at=t [delay=d] [period=d] [mode=skip|catch-up-n|fixed-delay]
//	cancel name
//	next
//	due at=t
//	started name generation
//	ended name generation at=t
//	move at=t to=t      Export, encode, decode and Import on another clock
//	fence
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/set", func(t *testing.T, path string) {
		var s *Set
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Cmd + " " + argsOf(d) + "\n" + d.Input) {
				if words := strings.Fields(line); len(words) > 0 {
					fmt.Fprintln(&out, scripted(t, &s, words))
				}
			}
			return out.String()
		})
	})
}

func argsOf(d *datadriven.TestData) string {
	var args []string
	for _, a := range d.CmdArgs {
		args = append(args, a.String())
	}
	return strings.Join(args, " ")
}

// scripted runs one call and returns what it said.
func scripted(t *testing.T, set **Set, words []string) string {
	s, cmd := *set, words[0]
	var rest []string
	var at, to clock.Mono
	var o Options
	limit := 0
	for _, w := range words[1:] {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			rest = append(rest, w)
			continue
		}
		switch key {
		case "at":
			at = clock.Mono(span(t, value))
		case "to":
			to = clock.Mono(span(t, value))
		case "delay":
			o.Delay = span(t, value)
		case "period":
			o.Period = span(t, value)
		case "limit":
			scan(t, value, "%d", &limit)
		case "mode":
			switch {
			case value == "skip":
				o.Mode = Skip
			case value == "fixed-delay":
				o.Mode = FixedDelay
			default:
				o.Mode = CatchUp
				scan(t, value, "catch-up-%d", &o.CatchUpMax)
			}
		default:
			t.Fatalf("%v: unknown argument", words)
		}
	}
	name, generation := "", Generation(0)
	if len(rest) > 0 {
		name = rest[0]
	}
	if len(rest) > 1 {
		scan(t, rest[1], "%d", &generation)
	}
	switch cmd {
	case "set":
		*set = NewSet(limit)
		return "ok"
	case "register":
		g, err := s.Register(at, name, o)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("generation %d", g)
	case "cancel":
		return fmt.Sprint(s.Cancel(name))
	case "next":
		return nextOf(s)
	case "due":
		return ticksOf(s.Due(at, nil))
	case "started":
		return fmt.Sprint(s.Started(name, generation))
	case "ended":
		s.Ended(at, name, generation)
		return nextOf(s)
	case "move":
		st := s.Export(at)
		bytes := st.AppendTo(nil)
		back, err := Decode(bytes)
		if err != nil {
			t.Fatal(err)
		}
		if *set, err = Import(to, LimitDefault, back); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d timers, %s", (*set).Len(), nextOf(*set))
	case "fence":
		s.Fence()
		return nextOf(s)
	}
	t.Fatalf("unknown command %q", cmd)
	return ""
}

func nextOf(s *Set) string {
	if at, ok := s.Next(); ok {
		return "next " + time.Duration(at).String()
	}
	return "nothing to come"
}

func ticksOf(ticks []Tick) string {
	if len(ticks) == 0 {
		return "none"
	}
	var out []string
	for _, tick := range ticks {
		out = append(out, fmt.Sprintf("%s.%d for %v, count %d", tick.Name, tick.Generation, time.Duration(tick.Scheduled), tick.Count))
	}
	return strings.Join(out, "; ")
}

func span(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func scan(t *testing.T, s, format string, to any) {
	if _, err := fmt.Sscanf(s, format, to); err != nil {
		t.Fatalf("%q is no %q: %v", s, format, err)
	}
}
