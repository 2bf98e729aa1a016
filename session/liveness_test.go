package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/session"
)

// livenessScript drives one Liveness and prints every reaction. Commands, times
// counted from the start of the session:
//
//	open [ping=1s] [silence=5s] [idle=30s]
//	input|ping|pong|other|timer|close at=2s [reason=4]
//	run until=40s        fires the timer at every deadline
type livenessScript struct {
	l     session.Liveness
	times *session.LivenessTimes
}

const sessionStart = clock.Mono(1_000_000)

func (s *livenessScript) run(t *testing.T, d *datadriven.TestData) string {
	duration := func(key string, otherwise time.Duration) time.Duration {
		if !d.HasArg(key) {
			return otherwise
		}
		var text string
		d.ScanArgs(t, key, &text)
		v, err := time.ParseDuration(text)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return v
	}
	var out strings.Builder
	switch d.Cmd {
	case "open":
		s.times = &session.LivenessTimes{Ping: duration("ping", 0), Silence: duration("silence", 0), Idle: duration("idle", 0)}
		s.l = session.NewLiveness(sessionStart, s.times)
		s.print(&out, "open")
	case "run":
		s.runUntil(&out, sessionStart.Add(duration("until", 0)))
	default:
		kinds := map[string]session.EventKind{
			"input": session.EventInput, "ping": session.EventPing, "pong": session.EventPong,
			"other": session.EventOther, "timer": session.EventTimer, "close": session.EventClose,
		}
		ev := session.Event{Kind: kinds[d.Cmd]}
		if ev.Kind == 0 {
			d.Fatalf(t, "unknown command")
		}
		if d.HasArg("reason") {
			var n int
			d.ScanArgs(t, "reason", &n)
			ev.Reason = session.CloseReason(n)
		}
		s.l.Step(sessionStart.Add(duration("at", 0)), ev)
		s.print(&out, d.Cmd)
	}
	return out.String()
}

func (s *livenessScript) runUntil(out *strings.Builder, end clock.Mono) {
	for {
		at, ok := s.l.NextDeadline()
		if !ok || at > end {
			return
		}
		s.l.Step(at, session.Event{Kind: session.EventTimer})
		s.print(out, "at "+at.Sub(sessionStart).String())
	}
}

func (s *livenessScript) print(out *strings.Builder, what string) {
	fmt.Fprintf(out, "%s:", what)
	effects := s.l.Effects(nil)
	for _, e := range effects {
		switch e.Kind {
		case session.EffectPing:
			out.WriteString(" send-ping")
		case session.EffectPong:
			out.WriteString(" send-pong")
		case session.EffectClose:
			fmt.Fprintf(out, " close(%v)", e.Reason)
		}
	}
	if len(effects) == 0 {
		out.WriteString(" nothing")
	}
	if at, ok := s.l.NextDeadline(); ok {
		fmt.Fprintf(out, "; next %v\n", at.Sub(sessionStart))
	} else {
		out.WriteString("; no deadline\n")
	}
}

func TestLivenessReactsAsTheScriptsSay(t *testing.T) {
	datadriven.Walk(t, "testdata/liveness", func(t *testing.T, path string) {
		var s livenessScript
		datadriven.RunTest(t, path, s.run)
	})
}

// Random histories, with the timer fired at its deadline or late, are compared
// with the two rules themselves.
func TestASessionEndsExactlyWhenARuleSaysSo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := &session.LivenessTimes{Idle: time.Duration(rapid.IntRange(0, 20).Draw(t, "idle")) * time.Second}
		now := sessionStart
		l := session.NewLiveness(now, times)
		heard, input := now, now
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			at, ok := l.NextDeadline()
			if !ok {
				t.Fatal("an open session has no deadline")
			}
			ev := session.Event{Kind: session.EventKind(rapid.IntRange(1, 5).Draw(t, "event"))}
			step := now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
			if ev.Kind == session.EventTimer || step > at {
				step, ev.Kind = at, session.EventTimer
			}
			now = step
			l.Step(now, ev)
			if ev.Kind != session.EventTimer {
				heard = now
			}
			if ev.Kind == session.EventInput {
				input = now
			}
			var want session.CloseReason
			switch {
			case ev.Kind != session.EventTimer:
			case now.Sub(heard) >= session.DefaultSilence:
				want = session.HeartbeatTimeout
			case times.Idle > 0 && now.Sub(input) >= times.Idle:
				want = session.IdleTimeout
			}
			var got session.CloseReason
			for _, e := range l.Effects(nil) {
				if e.Kind == session.EffectClose {
					got = e.Reason
				}
			}
			if got != want {
				t.Fatalf("closed with %v, want %v: heard %v ago, input %v ago", got, want, now.Sub(heard), now.Sub(input))
			}
			if got != 0 {
				return
			}
		}
	})
}

func TestEffectsThatWaitDoNotPileUp(t *testing.T) {
	l := session.NewLiveness(sessionStart, &session.LivenessTimes{})
	now := sessionStart
	for range 100 {
		now = now.Add(time.Second)
		l.Step(now, session.Event{Kind: session.EventPing})
		l.Step(now, session.Event{Kind: session.EventTimer})
	}
	l.Step(now, session.Event{Kind: session.EventClose, Reason: session.ServerDrain})
	want := []session.Effect{{Kind: session.EffectPong}, {Kind: session.EffectClose, Reason: session.ServerDrain}}
	if got := l.Effects(nil); !slices.Equal(got, want) {
		t.Errorf("after 100 pings and timers and a close %+v wait, want %+v", got, want)
	}
}

func TestLivenessIsSmallAndAllocatesNothing(t *testing.T) {
	if size := unsafe.Sizeof(session.Liveness{}); size > 64 {
		t.Errorf("a Liveness has %d bytes", size)
	}
	l := session.NewLiveness(sessionStart, &session.LivenessTimes{Idle: session.DefaultIdle})
	var room [3]session.Effect
	now := sessionStart
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Second)
		l.Step(now, session.Event{Kind: session.EventInput})
		l.Step(now, session.Event{Kind: session.EventTimer})
		_ = l.Effects(room[:0])
	}); n != 0 {
		t.Errorf("%v allocations per step", n)
	}
}

func TestTimesThatContradictEachOtherAreRefused(t *testing.T) {
	for _, good := range []session.LivenessTimes{{}, {Ping: time.Second, Silence: 2 * time.Second, Idle: time.Minute}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []session.LivenessTimes{{Ping: -1}, {Silence: -1}, {Idle: -1}, {Ping: 5 * time.Second}, {Silence: time.Second}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
