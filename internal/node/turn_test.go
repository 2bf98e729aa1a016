package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// silent is an error that cannot say what it is.
type silent struct{ text *string }

func (s *silent) Error() string { return *s.text }

// req: FO-03
func TestAnErrorThatPanicsEndsTheTurnAsAPanicDoes(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	for what, bad := range map[string]error{"typed nil": (*silent)(nil), "nil *Error": (*Error)(nil)} {
		answer := w.ask(a, func(c *Call) (Reply, error) {
			if err := c.Registration().Defer(toRoom7); err != nil {
				t.Error(err)
			}
			return Reply{}, bad
		})
		if r := await(t, "the answer", answer); r.err == nil || !errors.Is(r.err, errkind.InternalFailure) {
			t.Errorf("%s: %v", what, r.err)
		}
		until(t, "the turn is over", func() bool { return a.joining.Load() == nil })
	}
}

// The right to act is looked at for each message, be it queued or held.
// req: RL-20
func TestNoMessageOfARowRunsPastTheLease(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	held := &hold{}
	became := make(chan struct{})
	a.ended(func(t *turn) { a.become(t.claim, held); close(became) })
	await(t, "the hold", became)
	for range 200 { // short turns, after which the worker looks at its own clock seldom
		w.note(a, '.')
	}
	for range 20 {
		w.tell(a, func(*Call) error {
			w.notes.add('x')
			for end := clock.Now().Add(10 * time.Millisecond); !clock.Now().Reached(end); {
			}
			if w.node.admitUntil.Load() == int64(clock.Never) {
				w.node.admitUntil.Store(int64(clock.Now()))
			}
			return nil
		})
	}
	a.box.Seal(&release{cell: a, from: held, next: a})
	barrier(t, a)
	w.notes.mu.Lock()
	defer w.notes.mu.Unlock()
	ran := 0
	for _, b := range w.notes.all {
		if b == 'x' {
			ran++
		}
	}
	if ran != 1 {
		t.Errorf("%d turns ran, want the one in which the lease ended", ran)
	}
}

func TestAYieldingContextIsOfOneTurn(t *testing.T) {
	w := newJoins(t)
	spot := w.object(store.InstanceSpot, "dungeon", false)
	kept := make(chan context.Context, 1)
	w.run(spot, func(c *Call) error { kept <- c.Yielding(); return nil })
	ctx := <-kept
	w.run(spot, func(c *Call) error { // which may have the same Call
		err := w.node.Do(ctx, IO, func(context.Context) error { t.Error("it ran"); return nil })
		if !errors.Is(err, errkind.InvalidOperation) {
			t.Errorf("a context of an earlier turn: %v", err)
		}
		return nil
	})
}
