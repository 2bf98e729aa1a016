package zlnode

import (
	"context"
	"time"

	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/timer"
)

// TimerMode says what becomes of ticks that fall due while the one before waits or runs.
type TimerMode uint8

// The modes.
const (
	// Coalesce: late ticks become one callback, which is told how many.
	Coalesce = TimerMode(timer.Coalesce)
	// Skip: late ticks are dropped.
	Skip = TimerMode(timer.Skip)
	// CatchUp: each of the newest CatchUpMax late ticks has a callback, one behind the
	// other; those before are counted into the first.
	CatchUp = TimerMode(timer.CatchUp)
	// FixedDelay: the next tick is a Period behind the end of the callback.
	FixedDelay = TimerMode(timer.FixedDelay)
)

// TimerOptions say when a timer is due: first after Delay, then every Period, counted from
// the registration without drift. Both are 0, or 1 ms to 10 years, and end at a
// millisecond; with Period 0 there is one tick.
type TimerOptions struct {
	Delay      time.Duration
	Period     time.Duration
	Mode       TimerMode
	CatchUpMax int // with CatchUp, at least 1
}

func (o TimerOptions) inner() timer.Options {
	return timer.Options{Delay: o.Delay, Period: o.Period, Mode: timer.Mode(o.Mode), CatchUpMax: o.CatchUpMax}
}

// Tick is one callback of a timer.
type Tick struct {
	Name string
	// Late is how long ago the tick was due.
	Late time.Duration
	// Count is how many ticks fell due since the callback before, this one included.
	Count uint64
}

func tickOf(t node.Tick) Tick { return Tick{t.Name, t.Late, t.Count} }

// OnTimer registers the handler of a timer of Actors of the type. Each tick is a turn of
// the Actor; one callback of a timer runs at a time. An error is logged and counted
// (Stats.FailedCallbacks), and the timer goes on.
func OnTimer[A any](t *ActorType[A], name string, h func(c *ActorCall, a *A, tick Tick) error) {
	t.app.CheckName("timer", t.t.Name, name, t.t.Timers[name] != nil)
	t.t.Timers[name] = func(c *node.Call, a any, tick node.Tick) error { return h(actorCall(c), a.(*A), tickOf(tick)) }
}

// Work is what a handler hands out of its turn's time.
type Work = node.Work

// The kinds of work, bounded apart from each other on each node.
const (
	CPU = node.CPU // computes: as many at once as processors, 4,096 more wait
	IO  = node.IO  // waits for something outside: 1,024 at once, 8,192 more wait
)

// Do runs f as work of that kind and returns its result. In a handler the turn goes on
// when f has ended, and the handler's worker serves other objects meanwhile; with a
// Yielding context so does the gate. f runs on the same goroutine with ctx. Work inside
// of work of its kind takes a second place.
//
// Kinds: what f returned; CapacityExceeded, too much of its kind waits already, and
// DeadlineExceeded, no place was free by ctx's deadline (or within the node's request
// timeout): f did not run then; InvalidOperation, w is no kind of work, or nobody can
// yield here.
func Do[T any](ctx context.Context, n *Node, w Work, f func(context.Context) (T, error)) (T, error) {
	var result T
	err := n.inner.Do(ctx, w, func(ctx context.Context) (err error) {
		result, err = f(ctx)
		return err
	})
	return result, err
}
