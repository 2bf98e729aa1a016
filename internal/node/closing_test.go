package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/cmap"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// req: CL-02
func TestASpotIsClosedWhenNoTurnOfItIsInAYield(t *testing.T) {
	w := newJoins(t)
	spot := w.object(store.InstanceSpot, "dungeon", false)
	spot.typ.OnClosing = func(*Call, any, ClosingReason) error { w.notes.add('C'); return nil }
	waits, release := make(chan struct{}), make(chan struct{})
	w.tell(spot, func(c *Call) error {
		err := w.node.Do(c.Yielding(), IO, func(context.Context) error { close(waits); <-release; return nil })
		w.notes.add('Y')
		return err
	})
	await(t, "the yield", waits)
	closed := make(chan error, 1)
	go func() { closed <- w.node.closeSpot(t.Context(), spot, HostShutdown) }()
	until(t, "the closing has had its turn", func() bool {
		calm := make(chan bool, 1)
		spot.ended(func(*turn) { calm <- spot.calm.Load() != nil })
		return <-calm
	})
	w.note(spot, 'x') // the Spot goes on meanwhile
	barrier(t, spot)
	close(release)
	if err := await(t, "the end", closed); err != nil {
		t.Error(err)
	}
	w.is("xYC")
}

// A Spot that ends while its closing waits for a yield answers it.
func TestAClosingThatWaitsEndsWithItsSpot(t *testing.T) {
	w := newJoins(t)
	spot := w.object(store.InstanceSpot, "dungeon", false)
	waits, release := make(chan struct{}), make(chan struct{})
	w.tell(spot, func(c *Call) error {
		return w.node.Do(c.Yielding(), IO, func(context.Context) error { close(waits); <-release; return nil })
	})
	await(t, "the yield", waits)
	refused := make(chan *Error, 1)
	spot.whenCalm(func(turn *turn) { refused <- turn.refused })
	spot.refuseAll(errGone)
	if err := await(t, "the refusal", refused); err != errGone {
		t.Errorf("refused with %v", err)
	}
	close(release)
	barrier(t, spot)
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

// A lost client that is noticed while the node may not act is told of afterwards.
// req: MB-04
func TestADisconnectInALapseIsToldAfterwards(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	w.node.entry.typ.OnDisconnectActor = func(_ *Call, _ any, ref ActorRef) error {
		w.notes.add(ref.ID[0])
		return nil
	}
	key := bindingKey{session: 7, gen: 1}
	a.ended(func(*turn) { a.bind(binding{key: key}) })
	w.node.admitUntil.Store(0)
	a.ended(func(turn *turn) { turn.unregister(key) })
	barrier(t, a)
	barrier(t, w.node.entry)
	w.is("")
	w.node.admitUntil.Store(int64(clock.Never))
	w.node.late.run()
	w.node.late.run()
	barrier(t, w.node.entry)
	w.is("a")
	if n := w.node.disconnects.Load(); n != 0 {
		t.Errorf("%d notices wait", n)
	}
}

// A Session that has no place for a binding asks nobody, so the binding that the Actor has
// stands.
func TestASessionThatIsFullAsksNoActor(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	s := &sessionConn{node: w.node, id: 1}
	s.routes.Store(noRoutes)
	key := bindingKey{session: 7, gen: 1}
	a.ended(func(*turn) { a.bind(binding{key: key}) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	here := ActorRef{ID: "ada", ObjectGen: 1, OwnerGen: 1, Mesh: "m", RID: "a", Lifecycle: 5}
	there := here
	there.RID = "b"
	s.asked = bindingsMax
	for _, ref := range []ActorRef{here, there} {
		if err := s.bind(ctx, ref); err == nil || !errors.Is(err, errkind.CapacityExceeded) {
			t.Errorf("at %s: %v", ref.RID, err)
		}
	}
	s.asked = bindingsMax - 1
	for range 3 { // a bind that fails leaves its place
		if err := s.bind(ctx, there); err == nil || !errors.Is(err, errkind.Unavailable) {
			t.Errorf("without a link: %v", err)
		}
	}
	barrier(t, a)
	if a.binding.key != key || s.asked != bindingsMax-1 {
		t.Errorf("the actor is bound to %+v, %d places are taken", a.binding.key, s.asked)
	}
}

// The end of an incarnation that hangs comes when the next one is bound by the same link.
// req: MB-04
func TestAnOldIncarnationsEndLeavesTheNewOnesBinding(t *testing.T) {
	w := newJoins(t)
	l := &linkConn{node: w.node, bound: cmap.New[*objectCell]()}
	bound := func(c *objectCell, gen uint64) {
		c.ended(func(*turn) { c.bind(binding{key: bindingKey{link: l, session: 1, gen: gen}}) })
		barrier(t, c)
	}
	before := w.actor("ada")
	bound(before, 1)
	w.node.actors.Delete("ada")
	now := w.actor("ada")
	bound(now, 2)
	before.refuseAll(errGone)
	barrier(t, before)
	if c, ok := l.bound.Load("ada"); !ok || c != now {
		t.Error("the link does not know the present incarnation")
	}
}
