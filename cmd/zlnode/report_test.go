package main

import (
	"strings"
	"testing"
	"time"
)

func exampleSnapshot() snapshot {
	return snapshot{
		Store: "redis://127.0.0.1:6379, namespace demo-12ab34cd", Phase: phasePlay,
		Played: 4200 * time.Millisecond, For: 10 * time.Second,
		Bots: 50, Online: 27, PerSecond: 3012.7, Errors: 1, Unavailable: 23,
		Requests: path{4201, 310 * time.Microsecond, 1900 * time.Microsecond, 12345 * time.Microsecond},
		Pushes:   path{8402, 340 * time.Microsecond, 2100 * time.Microsecond, 1500 * time.Millisecond},
		Nodes: []nodeRow{
			{"gateway", roleGateway, "", 4711, true, "up"},
			{"objects-1", roleObjects, "1.0.0", 4712, true, "up"},
			{"objects-2", roleObjects, "", 4713, false, "down (killed)\nwith more"},
		},
	}
}

func golden(t *testing.T, got, want string) {
	t.Helper()
	if got != strings.TrimPrefix(want, "\n") {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
}

func TestTheTableShowsTheRunAtAGlance(t *testing.T) {
	s := exampleSnapshot()
	golden(t, strings.Join(s.table(), "\n"), `
zlnode demo   store redis://127.0.0.1:6379, namespace demo-12ab34cd
[################------------------------] 4.2s of 10s   playing

  bots online   27 of 50     errors        1
  messages/s    3,012        unavailable   23

  path              count        p50        p99        max
  request           4,201      310µs      1.9ms     12.3ms
  push              8,402      340µs      2.1ms       1.5s

  node         role               pid  state
  gateway      gateway           4711  up
  objects-1    objects 1.0.0     4712  up
  objects-2    objects           4713  down (killed)

  Try what happens:  kill -9 4712   (Ctrl-C ends the demo)`)
}

func TestOnlyALivingObjectNodeIsOfferedToBeKilled(t *testing.T) {
	s := exampleSnapshot()
	s.Nodes[1].Up = false
	if text := strings.Join(s.table(), "\n"); strings.Contains(text, "kill -9") {
		t.Errorf("offered:\n%s", text)
	}
	s = exampleSnapshot()
	s.Phase = phaseSettle
	if text := strings.Join(s.table(), "\n"); strings.Contains(text, "kill -9") {
		t.Errorf("offered after the play:\n%s", text)
	}
}

func TestLinesForOutputThatIsNoTerminal(t *testing.T) {
	s := exampleSnapshot()
	golden(t, s.line(), `
  4.2s of 10s  bots 27 of 50  messages/s 3,012  request p50 310µs p99 1.9ms  push p50 340µs p99 2.1ms  errors 1  unavailable 23`)
	golden(t, s.Nodes[2].line(), `
node objects-2  role objects  pid 4713  down (killed)`)
}

func TestARunWithHopsShowsHowManyThereAre(t *testing.T) {
	s := exampleSnapshot()
	s.Hopping, s.Hops, s.HopsASecond = true, 1234, 187.4
	golden(t, s.line(), `
  4.2s of 10s  bots 27 of 50  messages/s 3,012  hops/s 187  to another node 1,234  request p50 310µs p99 1.9ms  push p50 340µs p99 2.1ms  errors 1  unavailable 23`)
	golden(t, strings.Join(s.table()[3:7], "\n"), `
  bots online   27 of 50     errors        1
  messages/s    3,012        unavailable   23
  hops/s        187          to another node   1,234
`)
}

func TestALineDoesNotAnnounceALogThatIsNotInIt(t *testing.T) {
	tail := &logTail{}
	if _, err := tail.Write([]byte("panic\n")); err != nil {
		t.Fatal(err)
	}
	n := nodeRow{"objects-1", roleObjects, "1.0.0", 4712, false, "stopped, but not in order" + tail.quote()}
	golden(t, n.line(), `
node objects-1  role objects 1.0.0  pid 4712  stopped, but not in order`)
}

func exampleVerdict() verdict {
	return judge(evidenceOf(func(e *evidence) {
		e.requests = path{4201, 310 * time.Microsecond, 1900 * time.Microsecond, 12345 * time.Microsecond}
		e.pushes = path{8402, 340 * time.Microsecond, 2100 * time.Microsecond, 45 * time.Millisecond}
	}))
}

func textOf(t *testing.T, v verdict) string {
	t.Helper()
	var b strings.Builder
	if err := v.writeText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheTextOfAGoodRun(t *testing.T) {
	golden(t, textOf(t, exampleVerdict()), `

ok: every message was executed once, in its order, and answered once.

  path              count        p50        p99        max
  request           4,201      310µs      1.9ms     12.3ms   1,400/s
  push              8,402      340µs      2.1ms       45ms

  lost 0   duplicated 0   reordered 0   errors 0   unavailable 0
`)
}

func TestTheTextOfABadRunTellsTheErrors(t *testing.T) {
	v := exampleVerdict()
	v.OK, v.Lost, v.Errors, v.failures = false, 3, 1, []string{"node objects-1 failed: exit status 2"}
	golden(t, textOf(t, v), `

FAILED

  path              count        p50        p99        max
  request           4,201      310µs      1.9ms     12.3ms   1,400/s
  push              8,402      340µs      2.1ms       45ms

  lost 3   duplicated 0   reordered 0   errors 1   unavailable 0

  First different errors:
    node objects-1 failed: exit status 2
`)
}

func TestTheTextSaysWhatAKilledNodeMeant(t *testing.T) {
	v := exampleVerdict()
	v.Unavailable = 15
	if text := textOf(t, v); !strings.Contains(text, "15 bots met a node that was ended by hand") {
		t.Errorf("an object node: %s", text)
	}
	v.gatewayDead = true
	if text := textOf(t, v); !strings.Contains(text, "The gateway was ended by hand, and every bot lost its connection") {
		t.Errorf("the gateway: %s", text)
	}
}

func TestTheJSONIsOneObject(t *testing.T) {
	var b strings.Builder
	v := exampleVerdict()
	if err := v.writeJSON(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, b.String(), `
{"ok":true,"errors":0,"unavailable":0,"lost":0,"duplicated":0,"reordered":0,"requests":4201,"pushes":8402,"rps":1400.3,"p50_us":310,"p99_us":1900}
`)
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is written %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "-", time.Microsecond: "1µs", time.Millisecond: "1ms", 123456 * time.Microsecond: "123ms", 60 * time.Second: "60s"} {
		if got := short(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
	if got := cut("µµµµ", 2); got != "µµ" {
		t.Errorf("cut to %q", got)
	}
}
