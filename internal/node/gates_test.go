package node

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/timer"
	"github.com/zlnode/zlnode/store"
)

// crowd counts who is inside at once.
type crowd struct{ inside, most atomic.Int32 }

func (c *crowd) visit() {
	n := c.inside.Add(1)
	for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
	}
	for range 20 {
		runtime.Gosched()
	}
	c.inside.Add(-1)
}

// A SpotWide Spot's packets, timers and notices of lost clients, and its members' packets
// and timers, have one turn at a time.
// req: MB-02, MB-03
func TestASpotWideSpotHasOneTurnForAll(t *testing.T) {
	w := newJoins(t)
	a, b := w.actor("ada"), w.actor("bob")
	room := w.room(true, a, b)
	var all crowd
	var ticks, lost atomic.Int32
	tick := func(*Call, any, Tick) error { all.visit(); ticks.Add(1); return nil }
	for _, c := range []*objectCell{a, b, room} {
		c.typ.Timers = map[string]TimerHandler{"tick": tick}
	}
	room.typ.OnDisconnectActor = func(*Call, any, ActorRef) error { all.visit(); lost.Add(1); return nil }
	visit := func(*Call) error { all.visit(); return nil }
	for _, c := range []*objectCell{a, b, room} {
		w.run(c, func(c *Call) error { return c.StartTimer("tick", timer.Options{Period: time.Millisecond}) })
	}
	const rounds = 200
	for i := range rounds {
		for _, c := range []*objectCell{a, b, room} {
			w.tell(c, visit)
		}
		key := bindingKey{session: 1, gen: uint64(i + 1)}
		a.ended(func(turn *turn) { a.bind(binding{key: key}); turn.unregister(key, nil) })
	}
	until(t, "all has been", func() bool { return lost.Load() == rounds && ticks.Load() > 20 })
	for _, c := range []*objectCell{a, b, room} {
		w.run(c, func(c *Call) error { c.StopTimer("tick"); return nil })
	}
	if n := all.most.Load(); n != 1 {
		t.Errorf("%d turns at once", n)
	}
}

// The Spot that an Actor is in hears of its lost client, and no other.
// req: MB-03, MB-04
func TestALostClientIsTheActorsSpotsAffair(t *testing.T) {
	w := newJoins(t)
	a, b := w.actor("ada"), w.actor("bob")
	room := w.room(false, a)
	tell := func(c *objectCell, mark byte) {
		c.typ.OnDisconnectActor = func(_ *Call, _ any, ref ActorRef) error {
			w.notes.add(mark)
			w.notes.add(ref.ID[0])
			return nil
		}
	}
	tell(room, 'R')
	tell(w.node.entry, 'E')
	for i, c := range []*objectCell{a, b} {
		key := bindingKey{session: 1, gen: uint64(i + 1)}
		c.ended(func(turn *turn) { c.bind(binding{key: key}); turn.unregister(key, nil); turn.unregister(key, nil) })
		barrier(t, c)
		barrier(t, room)
		barrier(t, w.node.entry)
	}
	w.is("RaEb")
}

// req: MB-06
func TestAnInstanceSpotsOwnMessagesRunWhileItYields(t *testing.T) {
	w := newJoins(t)
	spot := w.object(store.InstanceSpot, "dungeon", false)
	in, out := make(chan struct{}), make(chan struct{})
	w.tell(spot, func(c *Call) error {
		err := w.node.Do(c.Yielding(), IO, func(context.Context) error { close(in); <-out; return nil })
		w.notes.add('1')
		return err
	})
	await(t, "the yield", in)
	w.note(spot, '2')
	barrier(t, spot)
	close(out)
	until(t, "the turn is over", func() bool { return spot.yields.Load() == 0 })
	w.is("21")
}

// A Join's hold that gives on a change of membership: what is behind it runs under the new
// gate.
func TestWhatIsHeldBehindAMembershipRunsUnderTheNewGate(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	room := w.object(store.UserSpot, "room", true)
	w.tell(a, register(toRoom7))
	j := w.standing()
	placed := make(chan *Error, 1)
	a.lifecycle(func(turn *turn) { placed <- a.join(turn.claim, room) })
	var all crowd
	var wg sync.WaitGroup
	visit := func(*Call) error { defer wg.Done(); all.visit(); return nil }
	wg.Add(200)
	for range 100 {
		w.tell(a, visit)
	}
	w.heldAll(0)
	for range 100 {
		w.tell(room, visit)
	}
	j.Accept()
	if err := await(t, "the change", placed); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if n := all.most.Load(); n != 1 {
		t.Errorf("%d turns of the room at once", n)
	}
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
	a.ended(func(turn *turn) { turn.unregister(key, nil) })
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
