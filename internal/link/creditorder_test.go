//go:build invariants

package link

import (
	"errors"
	"fmt"
	"testing"
)

// These tests run a few goroutines step by step, one at a time, in every order
// that switches away from a goroutine that could go on at most preemptionsMax
// times. That is what finds races of this kind, and it repeats.
const preemptionsMax = 2

// order is one way through the choices: at each place where a goroutine may be
// switched, which one goes on. next advances to the next way, like an odometer.
type order struct {
	choices []int // taken
	widths  []int // how many there were
	at      int
}

// choose returns a number below n, the next on this way.
func (o *order) choose(n int) int {
	if o.at == len(o.choices) {
		o.choices = append(o.choices, 0)
		o.widths = append(o.widths, n)
	}
	c := o.choices[o.at]
	o.at++
	return c
}

// next reports false after the last way.
func (o *order) next() bool {
	o.at = 0
	for i := len(o.choices) - 1; i >= 0; i-- {
		if o.choices[i]+1 < o.widths[i] {
			o.choices[i]++
			o.choices, o.widths = o.choices[:i+1], o.widths[:i+1]
			return true
		}
	}
	return false
}

// task is a goroutine that runs only between resume and paused.
type task struct {
	resume chan struct{}
	paused chan bool // true: it ended
}

// runTasks runs the functions in the order o.
func runTasks(o *order, fns ...func()) {
	var running *task
	hook := func() {
		t := running
		t.paused <- false
		<-t.resume
	}
	stepHook.Store(&hook)
	defer stepHook.Store(nil)
	var tasks []*task
	for _, fn := range fns {
		t := &task{resume: make(chan struct{}), paused: make(chan bool)}
		tasks = append(tasks, t)
		go func() {
			<-t.resume
			fn()
			t.paused <- true
		}()
	}
	preemptions := 0
	current := -1 // index in tasks; -1: the last one ended
	for len(tasks) > 0 {
		switch {
		case current < 0:
			current = o.choose(len(tasks))
		case preemptions < preemptionsMax && len(tasks) > 1:
			if c := o.choose(len(tasks)); c > 0 { // 0: go on with the same
				preemptions++
				current = (current + c) % len(tasks)
			}
		}
		running = tasks[current]
		running.resume <- struct{}{}
		if <-running.paused {
			tasks = append(tasks[:current:current], tasks[current+1:]...)
			current = -1
		}
	}
}

// gateRun is one run of a scenario on a gate.
type gateRun struct {
	*CreditGate
	start int // credit at the beginning
	taken int // by TryTake or for a waiter
	given int
	line  []*gateWaiter // in the order of Await's return
}

type gateWaiter struct {
	w         *Waiter
	n         int
	told      []error
	cancelled bool
}

func (r *gateRun) await(n int) *gateWaiter {
	gw := &gateWaiter{n: n}
	w, err := r.Await(n, func(err error) {
		gw.told = append(gw.told, err)
		if err == nil {
			r.taken += n
		}
	})
	if err != nil {
		gw.told = append(gw.told, err)
		return gw
	}
	gw.w = w
	r.line = append(r.line, gw)
	return gw
}

func (r *gateRun) cancel(gw *gateWaiter) {
	if gw.w != nil {
		gw.cancelled = r.Cancel(gw.w)
	}
}

func (r *gateRun) take(n int) {
	if r.TryTake(n) {
		r.taken += n
	}
}

func (r *gateRun) give(n int) {
	if err := r.Give(uint64(n)); err != nil {
		panic(err)
	}
	r.given += n
}

// check returns what is wrong when everybody is done.
func (r *gateRun) check() error {
	if left := r.start + r.given - r.taken; r.Left() != left {
		return fmt.Errorf("%d left, want %d", r.Left(), left)
	}
	waiting := 0
	for i, w := range r.line {
		switch {
		case len(w.told) > 1, w.cancelled && len(w.told) > 0:
			return fmt.Errorf("waiter %d: cancelled %v, told %v", i, w.cancelled, w.told)
		case w.cancelled || len(w.told) == 1:
		case r.closed.Load():
			return fmt.Errorf("waiter %d was never told that the gate closed", i)
		default:
			waiting++
		}
	}
	switch first := r.first; {
	case waiting > 0 && (first == nil || first.done.Load()):
		return errors.New("somebody waits and nobody is the first in line")
	case waiting > 0 && r.Left() >= int(first.n):
		return fmt.Errorf("the first in line wants %d and sleeps with %d left", first.n, r.Left())
	case waiting == 0 && !r.closed.Load() && r.waiting.Load() != 0:
		return fmt.Errorf("nobody waits and %d places are taken", r.waiting.Load())
	}
	return nil
}

func TestGateKeepsItsLawInEveryOrder(t *testing.T) {
	scenarios := map[string]func(*gateRun) []func(){
		"await, give, take": func(r *gateRun) []func() {
			return []func(){func() { r.await(6) }, func() { r.give(7) }, func() { r.take(3) }}
		},
		"await and cancel, give, await": func(r *gateRun) []func() {
			return []func(){func() { r.cancel(r.await(8)) }, func() { r.give(9) }, func() { r.await(4) }}
		},
		"two waiters, two gives": func(r *gateRun) []func() {
			return []func(){func() { r.await(5) }, func() { r.await(6) }, func() { r.give(5); r.give(5) }}
		},
		"await, close, give": func(r *gateRun) []func() {
			return []func(){func() { r.await(5) }, func() { r.Close() }, func() { r.give(5) }}
		},
		"cancel, close, await": func(r *gateRun) []func() {
			return []func(){func() { r.cancel(r.await(5)) }, func() { r.Close() }, func() { r.await(5) }}
		},
	}
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			runs := 0
			for o := new(order); ; {
				r := &gateRun{CreditGate: NewCreditGate(20, 10), start: 1}
				r.TryTake(19)
				runTasks(o, scenario(r)...)
				if err := r.check(); err != nil {
					t.Fatalf("order %v: %v", o.choices, err)
				}
				runs++
				if !o.next() {
					break
				}
			}
			t.Logf("%d orders", runs)
		})
	}
}

func TestReturnLosesNoCreditInAnyOrder(t *testing.T) {
	for o := new(order); ; {
		r := NewCreditReturn(80)
		if err := r.Received(30); err != nil {
			t.Fatal(err)
		}
		consumed, returned := 0, 0
		consume := func() {
			for range 2 {
				consumed += 5
				if returned += r.Consumed(5); returned > consumed {
					t.Errorf("order %v: %d returned of %d", o.choices, returned, consumed)
				}
			}
		}
		runTasks(o, consume, consume, consume)
		if t.Failed() {
			break
		}
		if int(r.due.Load()) != 30-returned || r.Held() != 30-returned || 30-returned >= 10 {
			t.Fatalf("order %v: %d returned of 30, %d due, %d held", o.choices, returned, r.due.Load(), r.Held())
		}
		if err := r.Received(80 - r.Held()); errors.Is(err, ErrCreditExceeded) {
			t.Fatalf("order %v: %v", o.choices, err)
		}
		if !o.next() {
			break
		}
	}
}
