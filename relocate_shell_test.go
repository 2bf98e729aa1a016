package zlnode_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// hallWith makes a hall at node a with so many walkers in it.
func (e *estate) hallWith(members int) (hall zlnode.SpotRef, walkers []zlnode.ActorRef) {
	e.t.Helper()
	hall = e.createSpotAt(e.c, "a", "hall")
	for range members {
		ref := e.createActorAt(e.c, "a", "walker")
		if err := e.joins(ref.ID, hall.ID); err != nil {
			e.t.Fatal(err)
		}
		walkers = append(walkers, ref)
	}
	return hall, walkers
}

// joins has an Actor join the Spot, or the Entry Spot.
func (e *estate) joins(actor, spot string) error {
	e.t.Helper()
	to := walkTo{Spot: spot, Entry: spot == ""}
	if _, err := zlnode.Request[struct{}](e.ctx, e.c.Actor(actor), "join", to); err != nil {
		return err
	}
	if done := receive(e.t, e.walk.ended); done.Outcome != zlnode.JoinAccepted {
		return done.Err
	}
	return nil
}

func (e *estate) where(actor string) string {
	e.t.Helper()
	at, err := zlnode.Request[string](e.ctx, e.c.Actor(actor), "where", struct{}{})
	if err != nil {
		e.t.Fatal(err)
	}
	return at
}

func (e *estate) members(hall string) int {
	e.t.Helper()
	n, err := zlnode.Request[int](e.ctx, e.c.Spot(hall), "members", struct{}{})
	if err != nil {
		e.t.Fatal(err)
	}
	return n
}

// A PerActor Spot leaves before its members, which follow one by one. All that is for the Spot goes
// to the target from its commit on, what it hears of clients, too; it has all members from then on.
// At the source its OnClosing runs behind the last member. No callback tells of the moves.
//
// req: PA-01, PA-02, PA-03, PA-04, SB-01, CL-01, MB-08
func TestAPerActorSpotLeavesBeforeItsMembers(t *testing.T) {
	onEstate(t, func(t *testing.T, e *estate) {
		hall, walkers := e.hallWith(3)
		first, second, third := walkers[0], walkers[1], walkers[2]
		s := &stage{world: e.world, gateway: e.c}
		stays, goes := s.dial(t), s.dial(t)
		for p, ref := range map[*player]zlnode.ActorRef{stays: first, goes: second} {
			if err := p.bind(ref); err != nil {
				t.Fatal(err)
			}
		}
		e.asks(e.c.Spot(hall.ID), "before")
		e.walk.notes.clear()
		e.notes.clear()
		if err := e.relocate(e.a, hall.ID, "b"); err != nil {
			t.Fatal(err)
		}

		for _, n := range []*zlnode.Node{e.c, e.a} {
			if done := e.asks(n.Spot(hall.ID), n.RID()); done[0] != "c" {
				t.Errorf("the spot has done %q", done)
			}
		}
		e.ran("b c", "b a")
		now, found, err := e.c.FindSpot(e.ctx, hall.ID)
		if err != nil || !found || now.RID != "b" || now.ObjectGen != hall.ObjectGen || now.OwnerGen != hall.OwnerGen+1 {
			t.Errorf("it was %+v and is %+v: %v", hall, now, err)
		}
		if n := e.members(hall.ID); n != 3 {
			t.Errorf("it has %d members", n)
		}
		if at := e.where(first.ID); at != "a "+hall.ID {
			t.Errorf("a member is at %q", at)
		}
		if closed, err := e.c.CloseSpot(e.ctx, now); closed || err != nil {
			t.Errorf("with members behind it was closed: %v %v", closed, err)
		}
		if closes, err := zlnode.Request[bool](e.ctx, e.c.Spot(hall.ID), "close", struct{}{}); closes || err != nil {
			t.Errorf("with members behind it closes itself: %v %v", closes, err)
		}
		if err := e.joins(first.ID, ""); zlnode.KindOf(err) != zlnode.Unavailable {
			t.Errorf("a member that is behind has left: %v", err)
		}
		newcomer := e.createActorAt(e.c, "a", "walker")
		if err := e.joins(newcomer.ID, hall.ID); err != nil {
			t.Fatal(err)
		}
		if at, n := e.where(newcomer.ID), e.members(hall.ID); at != "b "+hall.ID || n != 4 {
			t.Errorf("who has joined is at %q, one of %d", at, n)
		}
		goes.Close()
		e.eventually("the spot hears of the client", func() bool { return len(e.did("gone")) == 1 })
		e.walk.notes.clear()

		for i, ref := range walkers {
			if got := e.did("closing"); len(got) != 0 {
				t.Errorf("closed before its members have left: %q", got)
			}
			if err := e.relocate(e.a, ref.ID, "b"); err != nil {
				t.Fatal(err)
			}
			if at, n := e.where(ref.ID), e.members(hall.ID); at != "b "+hall.ID || n != 4 {
				t.Errorf("member %d is at %q, one of %d", i, at, n)
			}
		}
		e.eventually("the end at the source", func() bool { return len(e.did("closing")) == 1 })
		if got, want := e.did(), []string{"closing at a RelocationOut 1 true false", "configure at b true", "initialize at b true", "gone at b " + second.ID + " true"}; !slices.Equal(got, want) {
			t.Errorf("callbacks %q, want %q", got, want)
		}
		for _, line := range e.walk.notes.of("did") {
			if line != "capture" && line != "restore" {
				t.Errorf("a member's move was told by %q", line)
			}
		}
		var got []string
		if err := stays.RequestJSON(e.ctx, "ask", "mine", &got); err != nil || pushed[string](stays, "done") != "mine" {
			t.Errorf("its client has %q: %v", got, err)
		}
		if err := e.joins(third.ID, ""); err != nil { // it goes on as any other
			t.Error(err)
		}
		if n := e.members(hall.ID); n != 3 {
			t.Errorf("%d members", n)
		}
		e.inOrder()
	})
}

// A member that cannot move keeps the whole unit, of which nothing has changed (PA-05).
//
// req: PA-05
func TestAMemberThatCannotMoveKeepsItsPerActorSpot(t *testing.T) {
	onEstate(t, func(t *testing.T, e *estate) {
		hall, walkers := e.hallWith(1)
		fixed := e.createActorAt(e.c, "a", "fixed")
		if err := e.joins(fixed.ID, hall.ID); err != nil {
			t.Fatal(err)
		}
		e.notes.clear()
		if err := e.relocate(e.a, hall.ID, "b"); zlnode.KindOf(err) != zlnode.Rejected {
			t.Errorf("moved with a member that stays: %v", err)
		}
		if got, n := e.did(), e.members(hall.ID); len(got) != 0 || n != 2 {
			t.Errorf("callbacks %q, %d members", got, n)
		}
		if at := e.where(walkers[0].ID); at != "a "+hall.ID {
			t.Errorf("a member is at %q", at)
		}
		if err := e.joins(fixed.ID, ""); err != nil { // nothing of the claim is left
			t.Error(err)
		}
		e.inOrder()
	})
}

// A node that stops in the middle ends the members that are behind, and then the rest of the Spot;
// the target learns that they do not come.
//
// req: PA-04
func TestANodeStopsWithMembersBehind(t *testing.T) {
	onEstate(t, func(t *testing.T, e *estate) {
		hall, walkers := e.hallWith(2)
		e.notes.clear()
		if err := e.relocate(e.a, hall.ID, "b"); err != nil {
			t.Fatal(err)
		}
		if err := e.relocate(e.a, walkers[0].ID, "b"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
		defer cancel()
		if err := e.a.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if got := e.did("closing"); !slices.Equal(got, []string{"closing at a RelocationOut 0 true false"}) {
			t.Errorf("closings %q", got)
		}
		e.eventually("the spot has one member", func() bool { return e.members(hall.ID) == 1 })
		if err := e.joins(walkers[0].ID, ""); err != nil {
			t.Error(err)
		}
		now, _, err := e.c.FindSpot(e.ctx, hall.ID)
		if err != nil {
			t.Fatal(err)
		}
		if closed, err := e.c.CloseSpot(e.ctx, now); !closed || err != nil {
			t.Errorf("without members: %v %v", closed, err)
		}
		e.inOrder()
	})
}

// A node is relocated with Spots of all kinds, their members and clients; then nothing needs it.
//
// req: PA-03, SB-01
func TestANodeIsRelocatedWithItsSpots(t *testing.T) {
	onEstate(t, func(t *testing.T, e *estate) {
		hall, walkers := e.hallWith(3)
		empty, shelf, alone := e.createSpotAt(e.c, "a", "hall"), e.shelfAt("a"), e.createActorAt(e.c, "a", "walker")
		p := (&stage{world: e.world, gateway: e.c}).dial(t)
		if err := p.bind(walkers[0]); err != nil {
			t.Fatal(err)
		}
		e.asks(e.c.Spot(shelf), "kept")
		e.relocated(e.a, zlnode.ReasonNone)
		for _, spot := range []string{hall.ID, empty.ID, shelf} {
			if at, err := zlnode.Request[string](e.ctx, e.c.Spot(spot), "where", struct{}{}); err != nil || at != "b" {
				t.Errorf("%s is at %q: %v", spot, at, err)
			}
		}
		for _, ref := range walkers {
			if at := e.where(ref.ID); at != "b "+hall.ID {
				t.Errorf("a member is at %q", at)
			}
		}
		if at := e.where(alone.ID); at[:2] != "b " || at == "b "+hall.ID {
			t.Errorf("who was alone is at %q", at)
		}
		if done := e.asks(e.c.Spot(shelf), "more"); !slices.Equal(done, []string{"kept", "more"}) || e.members(hall.ID) != 3 {
			t.Errorf("%q, %d members", done, e.members(hall.ID))
		}
		var got []string
		if err := p.RequestJSON(e.ctx, "ask", "mine", &got); err != nil || pushed[string](p, "done") != "mine" {
			t.Errorf("its client has %q: %v", got, err)
		}
		e.eventually("OnClosing of three Spots", func() bool { return len(e.did("closing at a RelocationOut")) == 3 })
		e.inOrder()
	})
}
