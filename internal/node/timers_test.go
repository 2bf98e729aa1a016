package node

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/cmap"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/timer"
	"github.com/zlnode/zlnode/store"
)

// ticker is an Actor with the timers a and b, whose node fires nothing by itself: a test
// says what is due and when, in the Actor's turns.
type ticker struct {
	t    *testing.T
	node *Node
	cell *objectCell
	now  handClock
	ran  []string
}

// handClock goes when the test says so.
type handClock struct{ at atomic.Int64 }

func (c *handClock) Now() clock.Mono                         { return clock.Mono(c.at.Load()) }
func (c *handClock) Wait(_ clock.Mono, wake <-chan struct{}) { <-wake }

func newTicker(t *testing.T) *ticker {
	k := &ticker{t: t, node: bareNode(t)}
	k.node.cfg.TimerClock = &k.now
	k.node.timers = timer.New(timer.Config[*objectCell]{Fire: func(clock.Mono, []*objectCell) {}, Clock: &k.now})
	t.Cleanup(func() {
		if err := k.node.timers.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	handler := func(_ *Call, _ any, tick Tick) error { k.ran = append(k.ran, tick.Name); return nil }
	typ := &ObjectType{Kind: store.Actor, Name: "ticker", Timers: map[string]TimerHandler{"a": handler, "b": handler}}
	held := &hold{}
	k.cell = k.node.newCell(typ, ActorRef{ID: "x", ObjectGen: 1}, 1, held)
	k.cell.box.Seal(&release{cell: k.cell, from: held, next: k.cell})
	return k
}

// turn runs f in a turn of the Actor.
func (k *ticker) turn(f func(c *Call)) {
	k.t.Helper()
	k.cell.ended(func(t *turn) {
		_ = k.cell.callback(t.claim, "turn", clock.Never, func(c *Call) error { f(c); return nil })
	})
	barrier(k.t, k.cell)
}

func (k *ticker) start(c *Call, name string) {
	k.t.Helper()
	if err := c.StartTimer(name, timer.Options{Delay: time.Second, Period: time.Second}); err != nil {
		k.t.Error(err)
	}
}

// due queues the ticks that are due a second later, in a turn, and returns without waiting for theirs.
func (k *ticker) due(f func(t *turn)) {
	k.t.Helper()
	k.now.at.Add(int64(time.Second))
	k.cell.ended(func(t *turn) {
		k.cell.timersDue(t)
		f(t)
	})
	barrier(k.t, k.cell) // behind it come the ticks
	barrier(k.t, k.cell)
}

// armed reports whether the node's scheduler has the Actor.
func (k *ticker) armed() bool { return k.node.timers.Len() == 1 }

func TestATimerThatIsReplacedWhileItsTickWaitsGoesOn(t *testing.T) {
	k := newTicker(t)
	k.turn(func(c *Call) { k.start(c, "a") })
	k.due(func(turn *turn) { // the tick is queued behind this
		_ = k.cell.callback(turn.claim, "turn", clock.Never, func(c *Call) error { k.start(c, "a"); return nil })
	})
	if !k.armed() || len(k.ran) != 0 {
		t.Errorf("after %v the scheduler has it: %v; want none yet and true", k.ran, k.armed())
	}
}

// req: RL-20
func TestTicksThatFallIntoALapseWaitForItsEnd(t *testing.T) {
	k := newTicker(t)
	k.node.store = struct{ store.Store }{} // there is one; nothing here calls it
	k.node.admitUntil.Store(int64(clock.Never))
	k.turn(func(c *Call) { k.start(c, "a"); k.start(c, "b") })
	k.due(func(*turn) { k.node.admitUntil.Store(0) }) // the ticks are queued behind this
	if len(k.ran) != 0 || !k.armed() {
		t.Fatalf("in the lapse ran %v; the scheduler has it: %v", k.ran, k.armed())
	}
	k.turn(func(c *Call) { c.StopTimer("none") })
	k.turn(func(c *Call) { k.start(c, "b"); c.StopTimer("b") }) // what is armed anew is no later
	k.node.admitUntil.Store(int64(clock.Never))
	k.due(func(*turn) {})
	if !slices.Contains(k.ran, "a") || slices.Contains(k.ran, "b") {
		t.Errorf("after the lapse ran %v, want a and not b", k.ran)
	}
}

func TestWhoHasGivenUpItsGateStartsNoTimer(t *testing.T) {
	k := newTicker(t)
	k.turn(func(c *Call) {
		c.gate = nil // as in a yielded wait
		if err := c.StartTimer("a", timer.Options{}); err == nil || c.StopTimer("a") {
			t.Error("it touched the object's timers without its gate")
		}
	})
}

// A held message whose handler ends its goroutine costs those behind it nothing.
// req: FO-03
func TestHeldMessagesRunAlthoughOneEndsItsGoroutine(t *testing.T) {
	n := bareNode(t)
	ran := 0
	typ := typeWith("x", func(_ *Call, _ any, payload []byte) error {
		if payload[0] == 0 {
			runtime.Goexit()
		}
		ran++
		return nil
	})
	held := &hold{}
	c := n.newCell(typ, ActorRef{ID: "x", ObjectGen: 1}, 1, held)
	for b := range byte(3) {
		if err := pushNote(c, b); err != nil {
			t.Fatal(err)
		}
	}
	c.box.Seal(&release{cell: c, from: held, next: c})
	barrier(t, c)
	if failed := n.counters.failedSends.Load(); failed != 1 || ran != 2 || n.counters.dropped.Load() != 0 {
		t.Errorf("%d messages failed and %d executed, want 1 and 2", failed, ran)
	}
}

// The link by which an Actor was bound forgets it with its end.
func TestALinkForgetsAnActorThatIsGone(t *testing.T) {
	n := bareNode(t)
	held := &hold{}
	c := n.newCell(journalType(&journal{}), ActorRef{ID: "x", ObjectGen: 1}, 1, held)
	c.box.Seal(&release{cell: c, from: held, next: c})
	l := &linkConn{node: n, conn: closedConn(t), returns: link.NewCreditReturn(linkCreditBytes), bound: cmap.New[*objectCell]()}
	c.ended(func(*turn) { c.bind(binding{key: bindingKey{link: l, session: 1, gen: 1}}) })
	barrier(t, c)
	if l.bound.Len() != 1 {
		t.Fatal("the link does not know of the binding")
	}
	c.refuseAll(errGone)
	barrier(t, c)
	if n := l.bound.Len(); n != 0 {
		t.Errorf("the link keeps %d Actors that are gone", n)
	}
}
