package mailbox

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

func TestAPanicEndsItsTurnOnly(t *testing.T) {
	var value any
	var stack string
	p := startPool(t, Config{OnPanic: func(v any, s []byte) { value, stack = v, string(s) }})
	done := make(chan struct{})
	var numbers []uint64
	m := New(p, &funcs[int]{consume: func(c *Claim[int], v int) {
		numbers = append(numbers, c.Number())
		switch v {
		case 0:
			mustPush(t, c.m, 1)
			mustPush(t, c.m, 2)
		case 1:
			consumerThatPanics()
		case 2:
			close(done)
		}
	}}, Limits{Messages: 3})
	mustPush(t, m, 0)
	wait(t, done, "the message after the panic")
	eventually(t, "all is given back", func() bool { return m.Len() == 0 })
	if value != "a bug" || !strings.Contains(stack, "consumerThatPanics") {
		t.Errorf("OnPanic got %v and\n%s", value, stack)
	}
	if len(numbers) != 3 || numbers[1] != numbers[2] {
		t.Errorf("claims %v: the claim should survive the panic", numbers)
	}
}

func consumerThatPanics() { panic("a bug") }

func TestAPanicInBeginLeavesTheConsumerInPlace(t *testing.T) {
	panics := make(chan any, 1)
	p := startPool(t, Config{OnPanic: func(v any, _ []byte) { panics <- v }})
	done := make(chan struct{})
	m := New(p, &funcs[int]{
		begin:   func(*Claim[int]) { panic("no start") },
		consume: func(*Claim[int], int) { close(done) },
	}, Limits{})
	mustPush(t, m, 0)
	if v := wait(t, panics, "OnPanic"); v != "no start" {
		t.Errorf("OnPanic got %v", v)
	}
	wait(t, done, "the message")
}

func TestAPanicWhileBlockingGivesThePlaceBack(t *testing.T) {
	p := startPool(t, Config{Workers: 1, MaxWorkers: 1, OnPanic: func(any, []byte) {}})
	done := make(chan Stats, 1)
	m := New(p, &funcs[int]{consume: func(c *Claim[int], v int) {
		if v == 0 {
			c.Blocking(func() { panic("inside") })
		}
		var during Stats
		c.Blocking(func() { during = p.Stats() })
		done <- during
	}}, Limits{})
	mustPush(t, m, 0)
	mustPush(t, m, 1)
	if st := wait(t, done, "the next message"); st.Blocked != 1 || st.Lent != 2 {
		t.Errorf("%+v in the second wait, want 1 blocked and 2 lent", st)
	}
	eventually(t, "the pool is at rest", func() bool { s := p.Stats(); return s.Running == 0 && s.Blocked == 0 })
}

func TestAMailboxThatKeepsPanickingLetsOthersRun(t *testing.T) {
	p := startPool(t, Config{Workers: 1, MaxWorkers: 1, TimeBudget: 1, OnPanic: func(any, []byte) {}})
	done := make(chan struct{})
	m := New(p, &funcs[int]{consume: func(c *Claim[int], _ int) {
		select {
		case <-done:
		default:
			c.m.PushControl(0)
			panic("again")
		}
	}}, Limits{})
	mustPush(t, m, 0)
	mustPush(t, New(p, &funcs[int]{consume: func(*Claim[int], int) { close(done) }}, Limits{}), 0)
	wait(t, done, "the other mailbox")
}

func TestAConsumerThatEndsItsGoroutineDoesNotEndTheMailbox(t *testing.T) {
	p := startPool(t, Config{Workers: 1})
	done := make(chan struct{})
	m := New(p, &funcs[int]{consume: func(c *Claim[int], v int) {
		switch v {
		case 0:
			runtime.Goexit()
		case 1:
			c.Blocking(runtime.Goexit)
		case 2:
			close(done)
		}
	}}, Limits{Messages: 3})
	for v := range 3 {
		mustPush(t, m, v)
	}
	wait(t, done, "the message after the ends")
	eventually(t, "all is given back", func() bool {
		s := p.Stats()
		return m.Len() == 0 && s.Running == 0 && s.Workers == 1
	})
}

// This one needs a process of its own, to die in.
func TestWithoutOnPanicAPanicEndsTheProcess(t *testing.T) {
	const env = "MAILBOX_TEST_PANIC"
	if os.Getenv(env) != "" {
		p := NewPool(Config{})
		m := New(p, &funcs[int]{consume: func(*Claim[int], int) { consumerThatPanics() }}, Limits{})
		mustPush(t, m, 0)
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !bytes.Contains(out, []byte("panic: a bug")) || !bytes.Contains(out, []byte("consumerThatPanics")) {
		t.Errorf("%v\n%s", err, out)
	}
}
