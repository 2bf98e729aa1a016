package zlnode_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// Callbacks behind a Join that the Store has are tried again, the later ones and the
// Actor's messages behind them, with one operation.
// req: JN-07, JN-10, RL-22
func TestACallbackBehindAJoinIsTriedAgain(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n := w.server("a", w.app())
		w.actor(n, "ada")
		w.spot(n, "room", "wide")
		fails, operations := 0, map[zlnode.OperationID]int{}
		w.joined = func(*zlnode.SpotCall) error {
			if fails++; fails <= 2 {
				return errors.New("not yet")
			}
			return nil
		}
		w.completed = func(_ *zlnode.ActorCall, done zlnode.JoinDone) error {
			operations[done.Operation]++
			switch operations[done.Operation] {
			case 1:
				return errors.New("not yet")
			case 2:
				panic("nor now")
			}
			return nil
		}
		if _, err := zlnode.Request[string](w.ctx, n.Actor("ada"), "join", joinOrder{Spot: "room"}); err != nil {
			t.Fatal(err)
		}
		if err := zlnode.Send(w.ctx, n.Actor("ada"), "note", 1); err != nil {
			t.Fatal(err)
		}
		if done := receive(t, w.done); operations[done.Operation] != 3 || len(operations) != 1 {
			t.Errorf("its operation is %v of %v", done.Operation, operations)
		}
		joined, complete := "joined ada at room", "complete ada Accepted"
		w.was("defer ada", "admit ada to room ", joined, joined, joined, "left ada from entry", complete, complete, complete, "note 1")
		if stuck := n.StuckObjects(); len(stuck) != 0 {
			t.Errorf("stuck are %+v", stuck)
		}
	})
}

// An Actor whose callback keeps failing runs nothing any more, and ends by its exact ref,
// though it is a member, or with its node.
// req: JN-10, RL-22
func TestAnActorWhoseJoinCannotBeCompletedIsSealed(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n := w.server("a", w.app())
		c := w.client("c", 1, w.app())
		breaks := errors.New("a callback that breaks")
		for what, callback := range map[string]func(error){
			"OnJoinedActor":   func(err error) { w.joined = func(*zlnode.SpotCall) error { return err } },
			"OnJoinCompleted": func(err error) { w.completed = func(*zlnode.ActorCall, zlnode.JoinDone) error { return err } },
		} {
			for _, from := range []*zlnode.Node{n, c} {
				ada := w.actor(from, "ada")
				spot := w.spot(from, "room", "wide")
				callback(breaks)
				if _, err := zlnode.Request[string](w.ctx, from.Actor("ada"), "join", joinOrder{Spot: "room", Timeout: time.Millisecond * 100}); err != nil {
					t.Fatal(err)
				}
				held := make(chan error, 1)
				go func() {
					_, err := zlnode.Request[int](w.ctx, from.Actor("ada"), "add", 1)
					held <- err
				}()
				w.await("it is sealed", func() bool { return len(n.StuckObjects()) == 1 })
				stuck := n.StuckObjects()[0]
				if stuck.Ref != ada || stuck.Type != "nomad" || stuck.SpotID != "room" || !strings.Contains(stuck.Reason, what) || !strings.Contains(stuck.Reason, breaks.Error()) {
					t.Errorf("stuck is %+v", stuck)
				}
				w.await("requests are refused", func() bool { // that come before it is sealed are held
					soon, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
					defer cancel()
					_, err := zlnode.Request[int](soon, from.Actor("ada"), "add", 1)
					return zlnode.KindOf(err) == zlnode.Unavailable
				})
				if closed, err := from.CloseSpot(w.ctx, spot); closed || err != nil {
					t.Errorf("its spot was closed: %v", err)
				}
				older := ada
				older.OwnerGen++
				_, err := from.DestroyActor(w.ctx, older)
				wantKind(t, err, zlnode.InvalidOperation)
				callback(nil)
				if gone, err := from.DestroyActor(w.ctx, ada); !gone || err != nil {
					t.Errorf("it was not destroyed: %v", err)
				}
				wantKind(t, receive(t, held), zlnode.NotFound)
				if left := n.StuckObjects(); len(left) != 0 {
					t.Errorf("stuck are %+v", left)
				}
				if closed, err := from.CloseSpot(w.ctx, spot); !closed || err != nil {
					t.Errorf("its spot was not closed: %v", err)
				}
				w.balanced()
				w.joined, w.completed = nil, nil
				for len(w.done) > 0 {
					<-w.done
				}
			}
		}
		if slices.ContainsFunc(w.notes.of("did"), func(line string) bool { return strings.HasPrefix(line, "note") }) {
			t.Error("a message of it ran")
		}
	})
}

// req: JN-10
func TestANodeWithASealedActorStops(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), w.app())
		if err != nil {
			t.Fatal(err)
		}
		w.actor(n, "ada")
		w.spot(n, "room", "apart")
		w.completed = func(*zlnode.ActorCall, zlnode.JoinDone) error { return errors.New("breaks") }
		if _, err := zlnode.Request[string](w.ctx, n.Actor("ada"), "join", joinOrder{Spot: "room", Timeout: time.Millisecond * 100}); err != nil {
			t.Fatal(err)
		}
		w.await("it is sealed", func() bool { return len(n.StuckObjects()) == 1 })
		st := w.location()
		w.stop(n)
		for _, id := range []string{"ada", "room"} {
			if _, found, err := st.Read(w.ctx, id); found || err != nil {
				t.Errorf("%s is left: %v", id, err)
			}
		}
		w.balanced()
	})
}

// A callback that takes longer than the Join may shows as stuck, and goes on when it ends.
// req: RL-22
func TestACallbackThatTakesLongIsNotTriedTwiceAtOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n := w.server("a", w.app())
		w.actor(n, "ada")
		w.spot(n, "room", "apart")
		goOn := make(chan struct{})
		w.joined = func(*zlnode.SpotCall) error { <-goOn; return nil }
		if _, err := zlnode.Request[string](w.ctx, n.Actor("ada"), "join", joinOrder{Spot: "room", Timeout: 100 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		w.await("it shows", func() bool { return len(n.StuckObjects()) == 1 })
		close(goOn)
		if done := receive(t, w.done); done.Outcome != zlnode.JoinAccepted {
			t.Errorf("it ended with %+v", done)
		}
		w.where(n.Actor("ada"))
		w.was("defer ada", "admit ada to room ", "joined ada at room", "left ada from entry", "complete ada Accepted")
		if stuck := n.StuckObjects(); len(stuck) != 0 {
			t.Errorf("stuck are %+v", stuck)
		}
	})
}

// A Spot is closed or has a member, never both; and an Actor is destroyed or joins.
func TestAJoinRacesTheEndsOfItsSpotAndItsActor(t *testing.T) {
	onEachStoreInTurn(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n := w.server("a", w.app())
		seen := map[string]int{}
		for i := range 60 {
			typ := []string{"wide", "apart"}[i%2]
			id, room := fmt.Sprint("actor-", i), fmt.Sprint("room-", i)
			ada, spot := w.actor(n, id), w.spot(n, room, typ)
			var races sync.WaitGroup
			var closed, gone atomic.Bool
			races.Go(func() {
				ok, err := n.CloseSpot(w.ctx, spot)
				if closed.Store(ok); err != nil {
					t.Error(err)
				}
			})
			if i%4 > 1 {
				races.Go(func() {
					ok, err := n.DestroyActor(w.ctx, ada)
					if gone.Store(ok); err != nil && zlnode.KindOf(err) != zlnode.InvalidOperation { // a member
						t.Error(err)
					}
				})
			}
			for range 30 * (i % 10) { // so that each of them is the first at times
				_, _ = zlnode.Request[int](w.ctx, n.Actor(id), "add", 1)
			}
			_, err := zlnode.Request[string](w.ctx, n.Actor(id), "join", joinOrder{Spot: room})
			races.Wait()
			if err != nil {
				if !gone.Load() {
					t.Fatal(err)
				}
				seen["destroyed"]++
				continue
			}
			done := receive(t, w.done)
			at := "nowhere"
			if !gone.Load() {
				at = w.where(n.Actor(id))
			}
			switch {
			case done.Outcome == zlnode.JoinAccepted && !closed.Load() && at == room:
				seen["accepted"]++
			case done.Outcome == zlnode.JoinFailed && closed.Load() && at != room:
				seen["closed"]++
			default:
				t.Errorf("it joined: %v %v, the spot was closed: %v, it is at %s", done.Outcome, done.Err, closed.Load(), at)
			}
		}
		t.Logf("%v", seen)
		w.balanced()
	})
}
