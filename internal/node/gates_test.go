package node

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/errkind"
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
		a.ended(func(turn *turn) { a.bind(binding{key: key}); turn.unregister(key) })
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
		c.ended(func(turn *turn) { c.bind(binding{key: key}); turn.unregister(key); turn.unregister(key) })
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
	placed := make(chan struct{})
	a.lifecycle(func(turn *turn) { a.join(turn.claim, room); close(placed) })
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
	await(t, "the change", placed)
	wg.Wait()
	if n := all.most.Load(); n != 1 {
		t.Errorf("%d turns of the room at once", n)
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
		if l.inside.Load() != 0 || len(l.slots) != 0 {
			t.Errorf("%d places are taken, %d inside", len(l.slots), l.inside.Load())
		}
	}
}

// A shutdown ends a Join that stands, so that its Actor can be ended in order.
func TestAShutdownDoesNotWaitForJoins(t *testing.T) {
	w := newJoins(t)
	w.store.remove = func(store.Fence) (store.Change, error) { return store.Change{Reason: store.Applied}, nil }
	a := w.actor("ada")
	w.tell(a, register(Join{Spot: "x", Timeout: time.Hour}))
	j := w.standing()
	w.note(a, '1')
	w.node.stopping.Store(true)
	w.node.failJoins()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.node.removeActors(ctx); err != nil {
		t.Error(err)
	}
	w.ended(j, JoinFailed, errkind.ShuttingDown)
	w.is("J1")
}

// Once a caller has the reply, nothing that it sends to who joins runs before the Join.
// req: JN-17
func TestABarrierIsThereBeforeTheReplyIs(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	room := w.room(false, a)
	corr, full := w.node.local.add(completeFunc(func(r result) {
		r.owner.Free()
		w.note(a, '1') // the caller's next message, before anything else happens
		w.heldAll(1)
	}), 0)
	if full != nil {
		t.Fatal(full)
	}
	do := w.number(func(c *Call) (Reply, error) {
		return Reply{}, c.Registration().Defer(Join{Actor: "ada", Spot: "x"})
	})
	w.push(room, sender{kind: msgRequest, corr: corr}, &Outgoing{Name: "do", Payload: do})
	w.standing().Accept()
	barrier(t, a)
	w.is("J1")
}

// The error of a nested request says whom it concerned.
func TestANestedFailureNamesItsObject(t *testing.T) {
	inner := fail(errkind.NotFound, opRequest, "nobody", "there is no object with that id")
	got := asError(inner).of(opRequest, "ada")
	if want := `zlnode: request "ada": NotFound: request "nobody": there is no object with that id`; got.Error() != want {
		t.Errorf("%s, want %s", got, want)
	}
	own := Errorf(errkind.Rejected, "the room is full").of(opRequest, "room")
	if got := asError(own); got.Text != "the room is full" || !errors.Is(got, errkind.Rejected) {
		t.Errorf("an application's own text became %q", got.Text)
	}
}
