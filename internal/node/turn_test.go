package node

import (
	"errors"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
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
