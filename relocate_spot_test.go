package zlnode_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/hook"
)

// A Spot without members moves by itself: with its queue, its timers, its subscriptions and what its
// adapter captures, under its id and its generation. Its first callbacks but OnCreate run at the
// target, and OnClosing at the source, on the old value, whose context can do nothing any more.
//
// req: CL-01, RL-17
func TestANodeMovesItsSpots(t *testing.T) {
	onEstate(t, func(t *testing.T, e *estate) {
		beside := e.createSpotAt(e.c, "a", "hall")
		for _, kind := range []string{"hall", "shelf"} {
			e.notes.clear()
			var id string
			var spot, near zlnode.Addr
			if kind == "hall" {
				id = e.createSpotAt(e.c, "a", kind).ID
				spot, near = e.c.Spot(id), e.a.Spot(id)
				if _, err := zlnode.Request[struct{}](e.ctx, spot, "subscribe", "weather"); err != nil {
					t.Fatal(err)
				}
			} else {
				id = e.shelfAt("a")
				spot, near = e.c.Instance(id, kind), e.a.Instance(id, kind)
			}
			before, _, err := e.c.FindSpot(e.ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := zlnode.Request[struct{}](e.ctx, spot, "clock", everyFew); err != nil {
				t.Fatal(err)
			}
			e.ticks("a")
			for kind == "hall" && len(e.notes.of("ran")) == 0 { // until the topic is known to have a subscriber
				e.publishes("weather", "fog")
				e.idle()
			}
			e.asks(spot, "before")
			had := len(e.asks(spot, "and"))
			e.notes.clear()

			moved := e.stopsMove(id)
			e.sends(spot, "1", "2")
			e.sends(near, "3")
			asked := make(chan error, 1)
			go func() {
				_, err := zlnode.Request[[]string](e.ctx, near, "ask", "4")
				asked <- err
			}()
			if kind == "hall" {
				e.publishes("weather", "rain")
				e.members(beside.ID) // by the same link, so the node has it
			}
			e.gate.open <- struct{}{}
			if err := receive(t, moved); err != nil {
				t.Fatal(err)
			}
			if err := receive(t, asked); err != nil {
				t.Error(err)
			}
			done := e.asks(spot, "there")
			after, _, err := e.c.FindSpot(e.ctx, id)
			if err != nil || after.RID != "b" || after.ObjectGen != before.ObjectGen || after.OwnerGen != before.OwnerGen+1 {
				t.Errorf("it was %+v and is %+v: %v", before, after, err)
			}
			e.ticks("b")
			e.eventually("OnClosing", func() bool { return len(e.did("closing")) == 1 })
			if got, want := e.did(), []string{fmt.Sprintf("closing at a RelocationOut %d true false", had), "configure at b true", "initialize at b true"}; !slices.Equal(got, want) {
				t.Errorf("%s: callbacks %q, want %q", kind, got, want)
			}
			if kind == "shelf" {
				if !slices.Equal(done[:2], []string{"before", "and"}) {
					t.Errorf("its state is %q", done)
				}
				done = done[2:]
			}
			of := func(sender ...string) []string {
				return slices.DeleteFunc(slices.Clone(done), func(line string) bool { return !slices.Contains(sender, line) })
			}
			if !slices.Equal(of("1", "2", "there"), []string{"1", "2", "there"}) || !slices.Equal(of("3", "4"), []string{"3", "4"}) ||
				len(of("rain")) != map[string]int{"hall": 1, "shelf": 0}[kind] {
				t.Errorf("done %q", done)
			}
			if kind == "hall" {
				for !slices.Contains(e.asks(spot, "look"), "sun") {
					e.publishes("weather", "sun")
					e.idle()
				}
			}
			e.inOrder()
		}
	})
}

// A claimed Spot is not closed nor entered, nor moved by another; a close of which somebody was told
// comes first. What fails before the boundary leaves the Spot as it was, free again.
//
// req: RL-18
func TestTheMoveOfASpotAndItsEndExcludeEachOther(t *testing.T) {
	onEstate(t, func(t *testing.T, e *estate) {
		for _, id := range []string{e.createSpotAt(e.c, "a", "hall").ID, e.shelfAt("a")} {
			e.notes.clear()
			ref, _, err := e.c.FindSpot(e.ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			spot, hall := e.c.Spot(id), ref.ID[0] != 's'
			moved := e.stopsMove(id)
			if err := e.relocate(e.a, id, "b"); zlnode.KindOf(err) != zlnode.Unavailable {
				t.Errorf("moved by two: %v", err)
			}
			if hall {
				if _, err := e.c.CloseSpot(e.ctx, ref); zlnode.KindOf(err) != zlnode.Unavailable {
					t.Errorf("closed while it moved: %v", err)
				}
				guest := e.createActorAt(e.c, "a", "walker")
				if _, err := zlnode.Request[struct{}](e.ctx, e.c.Actor(guest.ID), "join", walkTo{Spot: id}); err != nil {
					t.Fatal(err)
				}
				if done := receive(t, e.walk.ended); done.Outcome != zlnode.JoinFailed || zlnode.KindOf(done.Err) != zlnode.Unavailable {
					t.Errorf("a join of it ended with %+v", done)
				}
			}
			e.sends(spot, "1", "2")
			e.making(func(c *zlnode.SpotContext) error {
				if c.Node().RID() == "b" {
					return zlnode.Errorf(zlnode.InternalFailure, "not today")
				}
				return nil
			})
			e.gate.open <- struct{}{}
			if err := receive(t, moved); err != nil { // that factory was under way before
				t.Fatal(err)
			}
			e.ran("b 1", "b 2")
			if err := e.relocate(e.b, id, "a"); err != nil { // which has it again
				t.Fatal(err)
			}
			if _, err := zlnode.Request[int](e.ctx, spot, "members", struct{}{}); err != nil { // it is open
				t.Fatal(err)
			}
			e.notes.clear()
			if err := e.relocate(e.a, id, "b"); zlnode.KindOf(err) != zlnode.InternalFailure {
				t.Errorf("a factory failed: %v", err)
			}
			if got := e.did(); len(got) != 0 {
				t.Errorf("a move that failed has run %q", got)
			}
			e.asks(spot, "3")
			e.ran("a 3")

			closes := make(chan error, 1)
			go func() {
				told, err := zlnode.Request[bool](e.ctx, spot, "close late", struct{}{})
				if err == nil && !told {
					err = fmt.Errorf("it was not closed")
				}
				closes <- err
			}()
			receive(t, e.gate.entered)
			e.makes.Store(nil)
			moved = e.relocates(e.a, id, "b")
			e.gate.open <- struct{}{}
			if err := receive(t, closes); err != nil {
				t.Error(err)
			}
			if err := receive(t, moved); err != nil {
				t.Errorf("the move of one that ended: %v", err)
			}
			e.eventually("its end", func() bool {
				_, found, err := e.c.FindSpot(e.ctx, id)
				return err == nil && !found
			})
			if got, want := e.did("closing"), []string{"closing at a ExplicitClose 3 true true"}; len(got) != 1 || hall && !slices.Equal(got, []string{"closing at a ExplicitClose 1 true true"}) || !hall && !slices.Equal(got, want) {
				t.Errorf("closings %q", got)
			}
			e.inOrder()
		}
	})
}

// A Spot that has moved and whose OnInitialize keeps failing is sealed, is listed, and is freed by its
// exact ref.
//
// req: RL-22
func TestASpotThatDoesNotOpenAtItsTargetIsFreedByItsRef(t *testing.T) {
	onEstate(t, func(t *testing.T, e *estate) {
		e.opening(func(c *zlnode.SpotCall) error {
			if c.Relocated() {
				return zlnode.Errorf(zlnode.InternalFailure, "not today")
			}
			return nil
		})
		ids := []string{e.createSpotAt(e.c, "a", "hall").ID, e.shelfAt("a")}
		for _, id := range ids {
			ctx, cancel := context.WithTimeout(e.ctx, time.Second)
			defer cancel()
			if err := hook.Inner(e.a).MoveObject(ctx, id, "b"); err != nil {
				t.Fatal(err)
			}
		}
		e.eventually("both are listed", func() bool { return len(e.b.StuckObjects()) == 2 })
		for _, id := range ids {
			ref, _, err := e.c.FindSpot(e.ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if closed, err := e.c.CloseSpot(e.ctx, ref); !closed || err != nil {
				t.Errorf("%s: %v %v", id, closed, err)
			}
			if _, found, err := e.c.FindSpot(e.ctx, id); found || err != nil {
				t.Errorf("%s is there: %v", id, err)
			}
		}
		e.inOrder()
	})
}

// Turns in a Yield end before the Spot's state is captured; messages that come meanwhile wait.
//
// req: RL-17
func TestASpotMovesWhenNoTurnOfItIsInAYield(t *testing.T) {
	onEstate(t, func(t *testing.T, e *estate) {
		id := e.shelfAt("a")
		spot := e.c.Spot(id)
		waits := make(chan error, 1)
		go func() {
			_, err := zlnode.Request[struct{}](e.ctx, spot, "wait", "slow")
			waits <- err
		}()
		receive(t, e.gate.entered)
		moved := e.relocates(e.a, id, "b")
		e.eventually("the move has sealed it", func() bool {
			row, _, err := e.location().Read(e.ctx, id)
			return err == nil && row.Move != nil
		})
		e.gate.open <- struct{}{}
		if err := receive(t, waits); err != nil {
			t.Error(err)
		}
		if err := receive(t, moved); err != nil {
			t.Fatal(err)
		}
		if done := e.asks(spot, "there"); !slices.Equal(done, []string{"slow", "there"}) {
			t.Errorf("done %q", done)
		}
		e.ran("a slow", "b there")
	})
}
