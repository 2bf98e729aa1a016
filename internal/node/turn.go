package node

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/store"
)

// turnContext is the context.Context of a handler's turn. It is made for reuse:
// a turn that asks for nothing but its values allocates nothing, the cancel
// channel is made when somebody asks for it.
//
// It belongs to the handler's goroutine and ends with the turn.
type turnContext struct {
	node     *Node
	gate     gate        // the claim, while the turn runs
	cell     *objectCell // nil in other turns than an object's
	session  bool        // it is a Session's turn
	joins    *joinScope  // made on demand
	deadline clock.Mono
	flow     flow.Context    // of the message; its Correlation is valid during the turn
	yielded  bool            // the turn has had a Yield
	ready    bool            // the Spot has said that it may move behind the turn
	accepted bool            // it is of a message that a node which stops still works off
	span     trace.Span      // of the turn; nil: none
	traced   context.Context // has the span; nil without one
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
	switch {
	case key == (turnKey{}):
		return t
	case key == (flowKey{}) && !t.flow.Empty():
		return &t.flow
	}
	if t.traced != nil {
		if v := t.traced.Value(key); v != nil {
			return v
		}
	}
	if t.inner != nil {
		return t.inner.Value(key)
	}
	return nil
}

// fenced refuses what ctx's turn asks for if its object has ended here meanwhile: what
// the turn knows may be old (RL-17).
func fenced(ctx context.Context) *Error { return turnFrom(ctx).fenced() }

func (t *turnContext) fenced() *Error {
	if t != nil && t.cell != nil && t.cell.gone.Load() {
		return errFenced
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
	if t.span != nil {
		t.span.End()
	}
	if t.inner == nil {
		return true
	}
	t.cancel()
	return false
}

// gate is a claim, as far as a turn that waits needs it.
type gate interface {
	Blocking(f func())
	Yield(f func()) bool
	YieldAll(f func()) bool
}

type yieldKey struct{}

// yielding is a turn's context whose waits give up the gate.
type yielding struct {
	*Call
	turn uint64 // of the Call, which other turns use later
}

// Value implements context.Context. A context that is derived from this one may ask after
// the turn, when it is cancelled.
func (y yielding) Value(key any) any {
	inTurn := y.Call.turn.Load() == y.turn
	switch {
	case key == (yieldKey{}):
		return inTurn
	case inTurn:
		return y.Call.Value(key)
	}
	return nil
}

// Yielding returns c's context with which a request or a piece of work gives up the gate
// of the SpotWide or Instance Spot in which the turn runs, while it waits (MB-06).
func (c *Call) Yielding() context.Context {
	mustBeInTurn(c.cell != nil)
	return yielding{c, c.turn.Load()}
}

// suspend runs f, which may wait. In a turn the worker's place is lent to another
// meanwhile, and with a yielding context the gate is given up. If it cannot be, f does
// not run.
func suspend(ctx context.Context, f func()) *Error {
	t, yields := turnFrom(ctx), ctx.Value(yieldKey{})
	switch {
	case yields == false:
		return errYieldLate
	case t == nil || t.gate == nil:
		f()
		return nil
	case yields == nil:
		t.gate.Blocking(f)
		return nil
	case t.cell == nil || !t.cell.mayYield():
		return errNoYield
	}
	if !t.yielded {
		t.yielded = true
		t.cell.yields.Add(1)
	}
	gate := t.gate
	t.gate = nil // what f does waits outside of the turn
	defer func() { t.gate = gate }()
	yield := gate.Yield
	if t.cell.typ.Kind != store.Actor {
		yield = gate.YieldAll // a Spot's own messages go on too; an Actor's do not
	}
	if !yield(f) {
		return errYieldsFull
	}
	return nil
}

// blocking is suspend for waits that never give up the gate.
func blocking(ctx context.Context, f func()) {
	if t := turnFrom(ctx); t != nil && t.gate != nil {
		t.gate.Blocking(f)
		return
	}
	f()
}
