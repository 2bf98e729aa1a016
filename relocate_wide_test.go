package zlnode_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/hook"
	"github.com/zlnode/zlnode/internal/wire"
)

// A SpotWide Spot moves with its members by one commit: state, queues, timers and clients go along,
// no callback of membership runs, and what was queued runs before what was held (S34).
//
// req: AG-01 AG-04 AG-06 AG-09 RL-21 PO-04 S24 S33 S34
func TestASpotWideSpotMovesWithItsMembers(t *testing.T) {
	onParty(t, crossingOptions{}, 3, func(t *testing.T, p *party) {
		p.bound().ticking()
		p.rings()
		p.asksAll(p.c, "before")
		stopped := p.stopped() // the first member has the gate of all
		p.tellsAll(p.a, "queued 1")
		p.tellsAll(p.a, "queued 2")
		moved := p.relocates(p.a, p.hall.ID, "b")
		p.walk.gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		if err := receive(t, moved); err != nil {
			t.Fatal(err)
		}
		p.tellsAll(p.a, "later 1") // by the old route
		p.asksAll(p.a, "later 2")
		p.areAt("b")
		p.told = p.toldAll[p.ref.ID]
		p.playerReaches("a client's")
		p.toldAll[p.ref.ID] = p.told
		p.hears("b")
		p.tolls("b")
		if did := p.walk.notes.of("did"); !slices.Contains(did, "initialize at b relocated=true members=3") || slices.Contains(did, "joined") || slices.Contains(did, "leave") {
			t.Errorf("the application was asked %q", did)
		}
		if closed := p.walk.notes.of("closing"); len(closed) != 1 {
			t.Errorf("the hall was closed: %q", closed)
		}
		if m := p.b.Stats().Moves; m.In != 4 {
			t.Errorf("%d objects have come, want 4", m.In)
		}
		p.inOrder()
		if err := p.relocate(p.b, p.hall.ID, "a"); err != nil { // and back, over what follows it
			t.Fatal(err)
		}
		p.asksAll(p.c, "home")
		p.playerIsThere()
		p.areAt("a")
		p.inOrder()
	})
}

// playerIsThere has the first member's client ask it.
func (p *party) playerIsThere() {
	p.t.Helper()
	p.told = p.toldAll[p.ref.ID]
	p.playerReaches("a client's again")
	p.toldAll[p.ref.ID] = p.told
}

// Whatever fails of one of many before relay-ready: all stay, with all that they have, and a broken
// payload is DataLost (S35).
//
// req: AG-07 RL-18 S35
func TestAnAggregateThatCannotMoveStaysAsItWas(t *testing.T) {
	onParty(t, crossingOptions{}, 3, func(t *testing.T, p *party) {
		p.bound().ticking()
		p.rings()
		p.asksAll(p.c, "before")
		bad := zlnode.Errorf(zlnode.InternalFailure, "not today")
		fails := func(what string, kind zlnode.Kind) {
			t.Helper()
			if err := p.relocate(p.a, p.hall.ID, "b"); zlnode.KindOf(err) != kind {
				t.Errorf("%s: %v, want %v", what, err, kind)
			}
			p.walk.capture, p.walk.restore = nil, nil
			p.stay()
			p.playerIsThere()
			p.hears("a")
			p.tolls("a")
			if ran := p.walk.notes.of("bell b"); len(ran) != 0 {
				t.Errorf("%s: a timer ran at the target", what)
			}
		}
		var calls atomic.Int32
		p.walk.capture = func(*walker) ([]byte, error) {
			if calls.Add(1) == 2 {
				return nil, bad
			}
			return []byte("[]"), nil
		}
		fails("one capture", zlnode.InternalFailure)
		calls.Store(0)
		p.walk.restore = func(*walker, []byte) error {
			if calls.Add(1)%2 == 0 {
				return bad
			}
			return nil
		}
		fails("one restore, twice", zlnode.InternalFailure)
		p.roads.Damage("a", "b", wire.CmdStateChunk, func(_ int, record []byte) { record[len(record)-1]++ })
		fails("a chunk is not what was sent", zlnode.DataLost)
	})
}

// An aggregate needs a place for its Spot and each member, all or none (S33).
//
// req: S33
func TestAnAggregateHasPlacesForAllOrNone(t *testing.T) {
	small := crossingOptions{servers: func(c zlnode.Config) zlnode.Config {
		if c.RID == "b" {
			c.MaxActors = 3
		}
		return c
	}}
	onParty(t, small, 4, func(t *testing.T, p *party) {
		p.asksAll(p.c, "before")
		if err := p.relocate(p.a, p.hall.ID, "b"); zlnode.KindOf(err) != zlnode.CapacityExceeded {
			t.Errorf("four were moved to three places: %v", err)
		}
		p.stay()
	})
}

// A turn in a Yield has its end before the aggregate is sealed, and the others run meanwhile.
//
// req: AG-05
func TestAnAggregateIsSealedBetweenTurns(t *testing.T) {
	onParty(t, crossingOptions{}, 2, func(t *testing.T, p *party) {
		other := p.createActorAt(p.c, "a", "walker")
		p.asksAll(p.c, "before")
		lingered := make(chan error, 1)
		go func() {
			_, err := zlnode.Request[struct{}](p.ctx, p.c.Actor(p.members[1].ID), "linger", other.ID)
			lingered <- err
		}()
		receive(t, p.walk.gate.entered)
		moved := p.relocates(p.a, p.hall.ID, "b")
		p.await("its inventory is fixed", func() bool {
			row, found, err := p.location().Read(p.ctx, p.hall.ID)
			return err == nil && found && row.Move != nil && row.Move.Prepared != nil && row.Move.Prepared.Count == 3
		})
		p.toldAll[p.ref.ID] = append(p.toldAll[p.ref.ID], "meanwhile")
		if got, err := zlnode.Request[[]string](p.ctx, p.c.Actor(p.ref.ID), "ask", "meanwhile"); err != nil || !slices.Equal(got, p.toldAll[p.ref.ID]) {
			t.Errorf("while another member yields it has executed %q: %v", got, err)
		}
		if did := p.walk.notes.of("did"); len(did) != 0 {
			t.Errorf("while a turn was in a yield the application was asked %q", did)
		}
		p.walk.gate.open <- struct{}{}
		if err := receive(t, lingered); err != nil {
			t.Errorf("the turn in a yield ended with %v", err)
		}
		if err := receive(t, moved); err != nil {
			t.Fatal(err)
		}
		p.asksAll(p.c, "there")
		p.areAt("b")
		p.inOrder()
	})
}

// A Join that comes first is waited for, and its Actor goes along; one that comes later is refused.
//
// req: JN-13 AG-05
func TestAnAggregateAndAJoinExcludeEachOther(t *testing.T) {
	onParty(t, crossingOptions{}, 1, func(t *testing.T, p *party) {
		first, second := p.createActorAt(p.c, "a", "walker"), p.createActorAt(p.c, "a", "walker")
		joins := func(who zlnode.ActorRef) {
			if _, err := zlnode.Request[struct{}](p.ctx, p.c.Actor(who.ID), "join", walkTo{Spot: p.hall.ID}); err != nil {
				t.Fatal(err)
			}
		}
		p.walk.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) {
			p.walk.gate.pass()
			return zlnode.Accept(nil), nil
		}
		var restores atomic.Int32
		p.walk.restore = func(*walker, []byte) error {
			if restores.Add(1) == 1 {
				p.walk.gate.pass()
			}
			return nil
		}
		joins(first)
		receive(t, p.walk.gate.entered)
		moved := p.relocates(p.a, p.hall.ID, "b")
		p.walk.gate.open <- struct{}{}
		if done := receive(t, p.walk.ended); done.Outcome != zlnode.JoinAccepted {
			t.Errorf("the join that came first ended with %+v", done)
		}
		receive(t, p.walk.gate.entered) // in a restore
		joins(second)
		if done := receive(t, p.walk.ended); done.Outcome != zlnode.JoinFailed || zlnode.KindOf(done.Err) != zlnode.Unavailable {
			t.Errorf("the join that came later ended with %+v", done)
		}
		p.walk.gate.open <- struct{}{}
		if err := receive(t, moved); err != nil {
			t.Fatal(err)
		}
		p.members = append(p.members, first)
		p.areAt("b")
		p.inOrder()
	})
}

// A Spot that says itself when it may move moves then: what waits for it runs behind
// OnRelocationReadyCompleted, at the target. Until then it runs on, and a turn that fails says nothing.
//
// req: AG-08 AG-02
func TestASpotThatSaysWhenItMayMove(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		p := newParty(x, "arena", 2)
		round := func(fails bool) <-chan error {
			ended := make(chan error, 1)
			go func() {
				_, err := zlnode.Request[struct{}](p.ctx, p.c.Spot(p.hall.ID), "round", fails)
				ended <- err
			}()
			receive(t, p.walk.gate.entered)
			return ended
		}
		tell := func(line string) {
			if err := zlnode.Send(p.ctx, p.a.Spot(p.hall.ID), "tell", line); err != nil {
				t.Fatal(err)
			}
		}
		short, cancel := context.WithTimeout(p.ctx, 50*time.Millisecond)
		defer cancel()
		if err := hook.Inner(p.a).MoveObject(short, p.hall.ID, "b"); zlnode.KindOf(err) != zlnode.DeadlineExceeded {
			t.Errorf("it was moved without its word: %v", err)
		}
		moved := p.relocates(p.a, p.hall.ID, "b")
		p.await("it waits for its word", func() bool { return hook.Inner(p.a).AwaitsReady(p.hall.ID) })
		failed := round(true)
		p.walk.gate.open <- struct{}{}
		if err := receive(t, failed); zlnode.KindOf(err) != zlnode.Rejected {
			t.Error(err)
		}
		tell("one")
		ends := round(false)
		tell("two") // behind the turn that says it
		p.walk.gate.open <- struct{}{}
		if err := receive(t, ends); err != nil {
			t.Error(err)
		}
		if err := receive(t, moved); err != nil {
			t.Fatal(err)
		}
		p.await("all has run", func() bool { return len(p.walk.notes.of("arena")) == 3 })
		if did, want := p.walk.notes.of("arena"), []string{"ran one at a", "completed at b", "ran two at b"}; !slices.Equal(did, want) {
			t.Errorf("it did %q, want %q", did, want)
		}
		p.areAt("b")

		// What it has said holds to its next turn: who comes before that does not wait.
		ends = round(false)
		p.walk.gate.open <- struct{}{}
		if err := receive(t, ends); err != nil {
			t.Error(err)
		}
		if err := p.relocate(p.b, p.hall.ID, "a"); err != nil {
			t.Fatal(err)
		}
		p.areAt("a")
		p.inOrder()
	})
}

// The target's process dies before it is ready: all goes on at the source.
//
// req: AG-07
func TestAnAggregateWhoseTargetDiesBeforeItIsReadyStays(t *testing.T) {
	onParty(t, shortLeases("b"), 2, func(t *testing.T, p *party) {
		p.asksAll(p.c, "before")
		end := p.roads.At(cutBefore, "a", "b", wire.CmdStateChunk, 1)
		moved := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(p.ctx, time.Second)
			defer cancel()
			moved <- hook.Inner(p.a).MoveObject(ctx, p.hall.ID, "b")
		}()
		receive(t, end.Reached)
		p.child.kill()
		if err := receive(t, moved); zlnode.KindOf(err) != zlnode.DeadlineExceeded {
			t.Errorf("it was moved to the dead: %v", err)
		}
		p.stay()
	})
}
