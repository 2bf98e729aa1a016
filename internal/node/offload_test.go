package node

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

func TestWorkBeyondItsBoundsIsRefused(t *testing.T) {
	n := bareNode(t)
	n.workers = [2]*limiter{CPU: newLimiter(1, 0), IO: newLimiter(1, 0)}
	n.cfg.RequestTimeout = storeCallMax
	never := func(context.Context) error { t.Error("it ran"); return nil }
	err := n.Do(t.Context(), CPU, func(ctx context.Context) error {
		if err := n.Do(ctx, CPU, never); !errors.Is(err, errkind.CapacityExceeded) {
			t.Errorf("a second computation: %v", err)
		}
		return n.Do(ctx, IO, func(context.Context) error { return errkind.Rejected }) // bounded apart
	})
	if !errors.Is(err, errkind.Rejected) {
		t.Errorf("the work's own error became %v", err)
	}
	if err := n.Do(t.Context(), CPU, func(context.Context) error { return nil }); err != nil {
		t.Errorf("after the work: %v", err)
	}
	if err := n.Do(t.Context(), 7, never); !errors.Is(err, errkind.InvalidOperation) {
		t.Errorf("work of no kind: %v", err)
	}
}

// fullGate is a claim whose pool has too many turns in a Yield.
type fullGate struct{}

func (fullGate) Blocking(f func())      { f() }
func (fullGate) Yield(func()) bool      { return false }
func (fullGate) YieldAll(f func()) bool { return false }

func TestAYieldThatFindsNoPlaceRunsNothing(t *testing.T) {
	n := bareNode(t)
	n.workers, n.cfg.RequestTimeout = newWorkers(), storeCallMax
	room := n.newCell(&ObjectType{Kind: store.UserSpot, Name: "room", Wide: true}, ActorRef{ID: "room"}, 1, &hold{})
	c := &Call{turnContext: turnContext{node: n, cell: room, gate: fullGate{}}}
	err := n.Do(c.Yielding(), IO, func(context.Context) error { t.Error("it ran"); return nil })
	if !errors.Is(err, errkind.CapacityExceeded) {
		t.Errorf("got %v", err)
	}
	if c.gate == nil {
		t.Error("the turn has lost its gate")
	}
}

func TestNobodyIsBoundWhileTooManyLostClientsWait(t *testing.T) {
	n := bareNode(t)
	c := n.newCell(journalType(&journal{}), ActorRef{ID: "x", ObjectGen: 1}, 1, &hold{})
	n.disconnects.Store(disconnectsMax)
	if err := (&turn{node: n, cell: c}).register(&c.ref, binding{key: bindingKey{session: 1, gen: 1}}, false); err == nil || err.Kind != errkind.CapacityExceeded {
		t.Errorf("got %v", err)
	}
	n.disconnects.Store(0)
	if err := (&turn{node: n, cell: c}).register(&c.ref, binding{key: bindingKey{session: 1, gen: 1}}, false); err != nil || !c.binding.stands() {
		t.Errorf("got %v", err)
	}
}

func TestPlacesOfWorkComeBackHoweverItEnds(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	room := w.room(true, a)
	ends := []func(){func() { panic("boom") }, func() { runtime.Goexit() }, func() {}}
	for _, c := range []*objectCell{a, room} {
		for _, work := range []Work{CPU, IO} {
			for i, end := range ends {
				for _, yields := range []bool{false, true} {
					answer := await(t, "the answer", w.ask(c, func(c *Call) (Reply, error) {
						ctx := context.Context(c)
						if yields {
							ctx = c.Yielding()
						}
						return Reply{}, w.node.Do(ctx, work, func(context.Context) error { end(); return nil })
					}))
					if (answer.err == nil) != (i == 2) {
						t.Errorf("end %d: %v", i, answer.err)
					}
				}
			}
		}
	}
	until(t, "all is over", w.node.Idle)
	for _, l := range w.node.workers {
		if l.inside.Load() != 0 || l.running != 0 {
			t.Errorf("%d places are taken, %d inside", l.running, l.inside.Load())
		}
	}
}
