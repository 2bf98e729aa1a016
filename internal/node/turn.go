package node

import (
	"context"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// turnContext is the context.Context of a handler's turn. It is made for reuse:
// a turn that asks for nothing but its values allocates nothing, the cancel
// channel is made when somebody asks for it.
//
// It belongs to the handler's goroutine and ends with the turn.
type turnContext struct {
	node     *Node
	gate     interface{ Blocking(func()) } // the claim, while the turn runs
	cell     *actorCell                    // nil in a Session's turn
	deadline clock.Mono
	inner    context.Context // made on demand
	cancel   context.CancelFunc
}

type turnKey struct{}

// turnFrom returns the turn that ctx belongs to, or nil.
func turnFrom(ctx context.Context) *turnContext {
	t, _ := ctx.Value(turnKey{}).(*turnContext)
	return t
}

// Deadline implements context.Context: that of the message.
func (t *turnContext) Deadline() (time.Time, bool) {
	if t.deadline == clock.Never {
		return time.Time{}, false
	}
	return t.deadline.Time(), true
}

// Done implements context.Context: closed at the deadline, at the turn's end,
// and when the node stops.
func (t *turnContext) Done() <-chan struct{} { return t.made().Done() }

// Err implements context.Context.
func (t *turnContext) Err() error {
	switch {
	case t.inner != nil:
		return t.inner.Err()
	case t.node == nil:
		return context.Canceled // the turn is over
	}
	if t.deadline != clock.Never && clock.Now().Reached(t.deadline) {
		return context.DeadlineExceeded
	}
	return t.node.life.Err()
}

// Value implements context.Context.
func (t *turnContext) Value(key any) any {
	if key == (turnKey{}) {
		return t
	}
	if t.inner != nil {
		return t.inner.Value(key)
	}
	return nil
}

func (t *turnContext) made() context.Context {
	mustBeInTurn(t.inner != nil || t.node != nil)
	if t.inner == nil {
		if t.deadline == clock.Never {
			t.inner, t.cancel = context.WithCancel(t.node.life)
		} else {
			t.inner, t.cancel = context.WithDeadline(t.node.life, t.deadline.Time())
		}
	}
	return t.inner
}

// end ends the context and reports whether the struct may be used again: a
// context that was handed out as a parent may still be looked at.
func (t *turnContext) end() (reusable bool) {
	t.gate = nil
	if t.inner == nil {
		return true
	}
	t.cancel()
	return false
}

// blocking runs f, which may wait. In a turn the worker's place is lent to
// another meanwhile.
func blocking(ctx context.Context, f func()) {
	if t := turnFrom(ctx); t != nil && t.gate != nil {
		t.gate.Blocking(f)
		return
	}
	f()
}
