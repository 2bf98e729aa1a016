package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for an event that must come.
const patience = 60 * time.Second

// fakeNode is a node process that does what its RID says.
func fakeNode(stdin io.Reader, stdout, stderr io.Writer) int {
	in := bufio.NewReader(stdin)
	line, _ := in.ReadBytes('\n')
	var set nodeSettings
	if err := json.Unmarshal(line, &set); err != nil {
		return 99
	}
	ready := nodeReady{RID: set.RID, Role: set.Role, PID: os.Getpid(), Sessions: "127.0.0.1:1"}
	announce := func() { _ = json.NewEncoder(stdout).Encode(ready) }
	fmt.Fprintln(stderr, "the log of", set.RID)
	switch set.RID {
	case "mute":
		return 3
	case "refusing":
		ready.Error = "zlnode: no such store"
		announce()
		return 1
	case "crashing":
		announce()
		return 2
	case "quitting":
		announce()
		return 0
	case "terminated":
		announce()
		return statusTerminated
	case "disorderly":
		announce()
		_, _ = io.Copy(io.Discard, in)
		return statusDisorder
	case "stubborn":
		stay := make(chan os.Signal, 1)
		signal.Notify(stay, os.Interrupt)
		announce()
		<-stay
	case "obedient":
		announce()
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return 0
			}
			var o nodeOrder
			a := nodeAnswer{Error: "not today"}
			if json.Unmarshal(line, &o) == nil && o.Relocate != nil {
				a = nodeAnswer{Relocated: &relocatedAnswer{Text: o.Relocate.Version}}
			}
			_ = json.NewEncoder(stdout).Encode(a)
		}
	case "slow":
		_, _ = io.Copy(io.Discard, in)
	case "cut":
		_, _ = io.Copy(io.Discard, in)
		return 1
	default:
		announce()
		_, _ = io.Copy(io.Discard, in)
	}
	return 0
}

func startFake(t *testing.T, rid string) *nodeProc {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := startNode(exe, nodeSettings{RID: rid, Role: roleObjects}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p.stop(ctx)
	})
	return p
}

// within returns a context that ends a wait for something that must happen.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func awaitEnd(t *testing.T, p *nodeProc) {
	t.Helper()
	select {
	case <-p.done:
	case <-within(t).Done():
		t.Fatal("the process does not end")
	}
}

func TestANodeProcessServesFromItsReadyLineToTheEndOfItsInput(t *testing.T) {
	p := startFake(t, "good")
	if err := p.awaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	if fate, text := p.fate(); fate != fateUp || text != "up" || !p.serves() {
		t.Errorf("fate %d, %q, serves %v", fate, text, p.serves())
	}
	if p.hello.PID != p.pid() || p.hello.Sessions != "127.0.0.1:1" {
		t.Errorf("it announced %+v", p.hello)
	}
	p.stop(within(t))
	if fate, text := p.fate(); fate != fateStopped {
		t.Errorf("after stop: fate %d, %q", fate, text)
	}
	p.stop(within(t)) // once more: nothing happens
}

func TestANodeThatDoesNotStartTellsWhy(t *testing.T) {
	for rid, want := range map[string]string{
		"refusing": "node refusing does not start: no such store",
		"mute":     "node mute ended before it was ready: exit status 3; its log ends:\n  the log of mute",
	} {
		p := startFake(t, rid)
		if err := p.awaitReady(within(t)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", rid, err, want)
		}
		if p.serves() {
			t.Errorf("%s serves", rid)
		}
	}
}

func TestANodeThatIsSlowToStartIsGivenUp(t *testing.T) {
	p := startFake(t, "slow")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.awaitReady(ctx); err == nil || !strings.Contains(err.Error(), "node slow is not ready in time") {
		t.Errorf("%v", err)
	}
}

func TestTheErrorOfTheNodeThatFailedIsTheOneThatIsTold(t *testing.T) {
	late, failed := fmt.Errorf("a %w", errNotInTime), io.ErrUnexpectedEOF
	for _, c := range []struct {
		errs []error
		want error
	}{
		{[]error{nil, nil}, nil},
		{[]error{nil, late}, late},
		{[]error{late, nil, failed}, failed},
	} {
		if got := rootCause(c.errs); !errors.Is(got, c.want) {
			t.Errorf("of %v: %v, want %v", c.errs, got, c.want)
		}
	}
}

func TestTheFateOfANodeTellsHandsFromFailures(t *testing.T) {
	for rid, want := range map[string]struct {
		fate fate
		text string
	}{
		"crashing":   {fateFailed, "failed: exit status 2; its log ends:\n  the log of crashing"},
		"quitting":   {fateFailed, "ended though nobody asked it to"},
		"terminated": {fateKilled, "down (stopped in order by SIGTERM)"},
	} {
		p := startFake(t, rid)
		awaitEnd(t, p)
		if fate, text := p.fate(); fate != want.fate || !strings.HasPrefix(text, want.text) {
			t.Errorf("%s: fate %d, %q, want %d, %q", rid, fate, text, want.fate, want.text)
		}
	}

	p := startFake(t, "good")
	if err := p.awaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, p)
	p.stop(within(t))
	if fate, text := p.fate(); fate != fateKilled || text != "down (killed)" {
		t.Errorf("killed: fate %d, %q", fate, text)
	}
}

// A node waits at its start, such as for the lease of the process before it. That it is
// not wanted any more meanwhile is no failure of it, whatever it says of that.
func TestANodeThatIsStoppedWhileItStartsHasNotFailed(t *testing.T) {
	p := startFake(t, "cut")
	p.stop(within(t))
	if fate, text := p.fate(); fate != fateStopped {
		t.Errorf("%v, %s", fate, text)
	}
}

func TestTheFateOfANodeTellsThatItDidNotStopInOrder(t *testing.T) {
	p := startFake(t, "disorderly")
	if err := p.awaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	p.stop(within(t))
	if fate, text := p.fate(); fate != fateDisorder || text != "stopped, but not in order; its log ends:\n  the log of disorderly" {
		t.Errorf("fate %d, %q", fate, text)
	}
}

func TestANodeThatDoesNotStopIsKilledAndTold(t *testing.T) {
	p := startFake(t, "stubborn")
	if err := p.awaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.stop(ctx)
	if fate, text := p.fate(); fate != fateFailed || !strings.HasPrefix(text, "did not stop in time") {
		t.Errorf("fate %d, %q", fate, text)
	}
}

func TestTheTailOfALogIsItsLastLines(t *testing.T) {
	var all strings.Builder
	l := &logTail{to: &all}
	for _, part := range []string{"1\n2\n", "3", "3\n4\n5\n", "6\n7"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := l.quote(), "; its log ends:\n  2\n  33\n  4\n  5\n  6"; got != want {
		t.Errorf("quoted %q, want %q", got, want)
	}
	if got, want := all.String(), "1\n2\n33\n4\n5\n6\n"; got != want {
		t.Errorf("passed on %q, want %q", got, want)
	}

	long := &logTail{}
	if _, err := io.WriteString(long, strings.Repeat("x", 3*lineMax+1)); err != nil {
		t.Fatal(err)
	}
	if len(long.lines) != 3 || len(long.lines[0]) != lineMax || len(long.part) != 1 {
		t.Errorf("%d lines kept, %d bytes open", len(long.lines), len(long.part))
	}
	if got := (&logTail{}).quote(); got != "" {
		t.Errorf("an empty log is quoted as %q", got)
	}
}
