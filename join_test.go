package zlnode_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// From the handler through both Spots to the Actor's next message, there and back.
// req: JN-08, JN-11, JN-14, JN-17, ID-06
func TestAJoinChangesTheSpotBetweenTwoMessages(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		w.admit = func(c *zlnode.JoinSpotCall) (zlnode.Admission, error) {
			var seat string
			if err := c.DecodeRequest(&seat); err != nil || c.ActorType != "nomad" || c.Codec() != zlnode.JSON {
				t.Errorf("asked for a %s with %q in %v: %v", c.ActorType, c.Request, c.Codec(), err)
			}
			return zlnode.Accept([]byte(`"seat ` + seat + `"`)), nil
		}
		n := w.server("a", w.app())
		st := w.location()
		ada := w.actor(n, "ada")
		refs := map[string]zlnode.SpotRef{"w1": w.spot(n, "w1", "wide"), "w2": w.spot(n, "w2", "wide"), "p1": w.spot(n, "p1", "apart")}
		from := "entry"
		for i, to := range []string{"w1", "w2", "p1", "w1", "entry", "p1", "entry"} {
			before, _, err := st.Read(w.ctx, "ada")
			if err != nil {
				t.Fatal(err)
			}
			order := joinOrder{Spot: to, Request: "7"}
			want := []string{"defer ada", `admit ada to ` + to + ` "7"`, "joined ada at " + to, "left ada from " + from, "complete ada Accepted", "note 1", "note 2"}
			if to == "entry" {
				order = joinOrder{}
				want = append(want[:1], want[2:]...)
			}
			// One message that is queued before the Join is registered, and one behind it.
			stopped := w.gate.stop(t, w.world, n.Actor("ada"))
			registered := make(chan error, 1)
			go func() {
				_, err := zlnode.Request[string](w.ctx, n.Actor("ada"), "join", order)
				registered <- err
			}()
			w.gate.open <- struct{}{}
			if err := errors.Join(receive(t, stopped), receive(t, registered)); err != nil {
				t.Fatal(err)
			}
			for k := range 2 {
				if err := zlnode.Send(w.ctx, n.Actor("ada"), "note", k+1); err != nil {
					t.Fatal(err)
				}
			}
			done := receive(t, w.done)
			var reply string
			if err := done.DecodeReply(&reply); err != nil || to != "entry" && reply != "seat 7" || to == "entry" && done.Reply != nil {
				t.Errorf("the reply is %q, %v", done.Reply, err)
			}
			if done.Operation == (zlnode.OperationID{}) || done.Ref != ada || done.Err != nil || done.Outcome != zlnode.JoinAccepted {
				t.Errorf("it ended with %+v", done)
			}
			w.was(want...)
			if at := w.where(n.Actor("ada")); at != to {
				t.Errorf("it is at %s, want %s", at, to)
			}
			if total, err := zlnode.Request[int](w.ctx, n.Actor("ada"), "add", 1); total != i+1 || err != nil {
				t.Errorf("its value has %d, %v; want %d", total, err, i+1)
			}
			row, _, err := st.Read(w.ctx, "ada")
			wide := strings.HasPrefix(to, "w")
			if err != nil || w.name(row.SpotID) != to || row.InUserSpot == (to == "entry") || (row.SpotVersion != 0) != wide ||
				row.Version <= before.Version || row.ObjectGen != before.ObjectGen || row.OwnerGen != before.OwnerGen {
				t.Errorf("the row is %+v, %v; it was %+v", row, err, before)
			}
			for id, ref := range refs {
				if id != to {
					continue
				}
				if closed, err := n.CloseSpot(w.ctx, ref); closed || err != nil {
					t.Errorf("the spot with a member was closed: %v %v", closed, err)
				}
			}
			w.balanced()
			from = to
		}
		if made := w.values.Load(); made != 1 {
			t.Errorf("%d values were made", made)
		}
		for _, ref := range refs {
			if closed, err := n.CloseSpot(w.ctx, ref); !closed || err != nil {
				t.Errorf("%s was not closed: %v", ref.ID, err)
			}
		}
		if gone, err := n.DestroyActor(w.ctx, ada); !gone || err != nil {
			t.Error(gone, err)
		}
		w.balanced()
	})
}

// req: JN-14
func TestARejectedActorStaysWhereItIs(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n := w.server("a", w.app())
		w.spot(n, "home", "wide")
		away := w.spot(n, "away", "apart")
		w.actor(n, "ada")
		w.joins(n.Actor("ada"), joinOrder{Spot: "home"})
		w.was("defer ada", "admit ada to home ", "joined ada at home", "left ada from entry", "complete ada Accepted")
		row, _, err := w.location().Read(w.ctx, "ada")
		if err != nil {
			t.Fatal(err)
		}
		w.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) { return zlnode.Reject([]byte(`"full"`)), nil }
		done := w.join(n.Actor("ada"), joinOrder{Spot: "away", Request: 1})
		var reply string
		if err := done.DecodeReply(&reply); err != nil || reply != "full" || done.Outcome != zlnode.JoinRejected || done.Err != nil || done.Operation == (zlnode.OperationID{}) {
			t.Errorf("it ended with %+v, %v", done, err)
		}
		if at := w.where(n.Actor("ada")); at != "home" {
			t.Errorf("it is at %s", at)
		}
		w.was("defer ada", "admit ada to away 1", "complete ada Rejected")
		if now, _, err := w.location().Read(w.ctx, "ada"); err != nil || now.Version != row.Version {
			t.Errorf("its row has changed: %+v %v", now, err)
		}
		if closed, err := n.CloseSpot(w.ctx, away); !closed || err != nil {
			t.Errorf("who rejected it was not closed: %v", err)
		}
	})
}

// req: JN-12
func TestAJoinToWhereTheActorIsChangesNothing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n := w.server("a", w.app())
		w.spot(n, "w", "wide")
		w.spot(n, "p", "apart")
		ada := w.actor(n, "ada")
		for _, to := range []string{"", "w", "p"} {
			if to != "" {
				w.joins(n.Actor("ada"), joinOrder{Spot: to})
				w.where(n.Actor("ada"))
				w.await("the spot that it left knows", func() bool { return len(w.notes.of("did left")) == 1 })
				w.notes.clear()
			}
			before, _, err := w.location().Read(w.ctx, "ada")
			if err != nil {
				t.Fatal(err)
			}
			done := w.joins(n.Actor("ada"), joinOrder{Spot: to, Request: "again"})
			if done.Ref != ada || done.Reply != nil || done.Operation == (zlnode.OperationID{}) {
				t.Errorf("it ended with %+v", done)
			}
			w.where(n.Actor("ada"))
			w.was("defer ada", "complete ada Accepted")
			if now, _, err := w.location().Read(w.ctx, "ada"); err != nil || now.Version != before.Version {
				t.Errorf("its row has changed: %+v %v", now, err)
			}
		}
	})
}

// req: JN-09
func TestAFailedJoinSaysWhy(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n := w.server("a", w.app())
		ada := w.actor(n, "ada")
		w.actor(n, "bob")
		spot := w.spot(n, "room", "wide")
		if _, err := zlnode.Request[struct{}](w.ctx, n.Instance("quest", "quest"), "ping", struct{}{}); err != nil {
			t.Fatal(err)
		}
		to := n.Actor("ada")
		for _, nowhere := range []string{"nobody", "bob", "quest"} {
			w.fails(to, joinOrder{Spot: nowhere}, zlnode.NotFound)
		}
		for what, refuses := range map[zlnode.Kind]func() (zlnode.Admission, error){
			zlnode.InternalFailure:  func() (zlnode.Admission, error) { return zlnode.Accept(nil), errors.New("breaks") },
			zlnode.CapacityExceeded: func() (zlnode.Admission, error) { return zlnode.Accept(make([]byte, 1<<20+1)), nil },
			zlnode.NotConfigured:    func() (zlnode.Admission, error) { return zlnode.Accept(nil), zlnode.Errorf(zlnode.NotConfigured, "no") },
		} {
			w.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) { return refuses() }
			w.fails(to, joinOrder{Spot: "room"}, what)
		}
		w.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) { panic("breaks") }
		w.fails(to, joinOrder{Spot: "room"}, zlnode.InternalFailure)
		w.admit = nil

		closing, closed := make(chan struct{}), make(chan bool, 1)
		goOn := make(chan struct{})
		w.closing = func(*zlnode.SpotCall) { close(closing); <-goOn }
		go func() {
			ok, err := n.CloseSpot(w.ctx, spot)
			closed <- ok && err == nil
		}()
		receive(t, closing)
		w.fails(to, joinOrder{Spot: "room"}, zlnode.Unavailable)
		close(goOn)
		if !receive(t, closed) {
			t.Error("the spot was not closed")
		}
		w.fails(to, joinOrder{Spot: "room"}, zlnode.NotFound)
		if at := w.where(to); at != "entry" {
			t.Errorf("it is at %s", at)
		}
		for _, line := range w.notes.of("did") {
			if strings.HasPrefix(line, "joined") || strings.HasPrefix(line, "left") {
				t.Errorf("a join that failed has %s", line)
			}
		}
		if gone, err := n.DestroyActor(w.ctx, ada); !gone || err != nil {
			t.Error(gone, err)
		}
		w.balanced()
	})
}

// req: JN-16
func TestAReplyOfAJoinHasAMegabyte(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		w.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) { return zlnode.Accept(make([]byte, 1<<20)), nil }
		n := w.server("a", w.app())
		w.actor(n, "ada")
		w.spot(n, "room", "apart")
		if done := w.joins(n.Actor("ada"), joinOrder{Spot: "room"}); len(done.Reply) != 1<<20 {
			t.Errorf("a reply of %d bytes came", len(done.Reply))
		}
	})
}

// Whether the Spot has not begun to decide by the deadline or has: the Actor hears once that
// it was too late, and stays; what has not begun does not.
// req: JN-02, JN-09
func TestAJoinThatIsTooLateFailsOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n := w.server("a", w.app())
		w.actor(n, "ada")
		w.spot(n, "busy", "apart")
		stopped := w.gate.stop(t, w.world, n.Spot("busy"))
		w.fails(n.Actor("ada"), joinOrder{Spot: "busy", Timeout: 30 * time.Millisecond}, zlnode.DeadlineExceeded)
		w.gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		began, goOn := make(chan struct{}), make(chan struct{})
		w.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) {
			close(began)
			<-goOn
			return zlnode.Accept(nil), nil
		}
		w.fails(n.Actor("ada"), joinOrder{Spot: "busy", Timeout: 300 * time.Millisecond}, zlnode.DeadlineExceeded)
		receive(t, began)
		close(goOn)
		if at := w.where(n.Actor("ada")); at != "entry" {
			t.Errorf("it is at %s", at)
		}
		w.admit = nil
		w.joins(n.Actor("ada"), joinOrder{Spot: "busy", Request: "in time"})
		w.was("defer ada", "complete ada Failed", "defer ada", "admit ada to busy ", "complete ada Failed",
			"defer ada", `admit ada to busy "in time"`, "joined ada at busy", "left ada from entry", "complete ada Accepted")
		w.balanced()
	})
}

// req: JN-04
func TestAHandlerThatFailsJoinsNothing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n := w.server("a", w.app())
		w.actor(n, "ada")
		w.spot(n, "room", "apart")
		_, err := zlnode.Request[string](w.ctx, n.Actor("ada"), "join", joinOrder{Spot: "room", Fail: true})
		wantKind(t, err, zlnode.Rejected)
		w.joins(n.Actor("ada"), joinOrder{Spot: "room", Request: 2})
		w.was("defer ada", "defer ada", "admit ada to room 2", "joined ada at room", "left ada from entry", "complete ada Accepted")
	})
}

// req: JN-03
func TestASpotsHandlerHasItsMembersJoin(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n := w.server("a", w.app())
		w.actor(n, "ada")
		for _, typ := range []string{"wide", "apart"} {
			w.spot(n, typ, typ)
			w.spot(n, "other "+typ, typ)
			w.joins(n.Actor("ada"), joinOrder{Spot: typ})
			w.where(n.Actor("ada")) // its turn comes when the join is over, of which the completion is the last part
			w.joins(n.Spot(typ), joinOrder{Actor: "ada", Spot: "other " + typ})
			w.where(n.Actor("ada"))
			_, err := zlnode.Request[string](w.ctx, n.Spot(typ), "join", joinOrder{Actor: "ada"})
			wantKind(t, err, zlnode.InvalidOperation) // it has left
			w.joins(n.Spot("other "+typ), joinOrder{Actor: "ada"})
			if at := w.where(n.Actor("ada")); at != "entry" {
				t.Errorf("it is at %s", at)
			}
		}
		w.balanced()
	})
}

// keptState is an adapter that nobody is to call.
type keptState struct{ t *testing.T }

func (s keptState) Capture(*counter) ([]byte, error) {
	s.t.Error("Capture was called")
	return []byte{}, nil
}

func (s keptState) Restore(*counter, []byte) error {
	s.t.Error("Restore was called")
	return nil
}

// req: JN-11, PO-07
func TestNoAdapterIsCalledForAJoinWithinTheNode(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		app := w.app()
		keeper := zlnode.DefineActor(app, "keeper", func(*zlnode.ActorContext) (*counter, error) { return &counter{}, nil },
			zlnode.PreserveStateWith(keptState{t}))
		zlnode.OnRequest(keeper, "join", func(c *zlnode.ActorCall, a *counter, spot string) (int, error) {
			a.total++
			return a.total, c.JoinSpot(spot, nil).Defer()
		})
		n := w.server("a", app)
		if _, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: "ada", Type: "keeper"}); err != nil {
			t.Fatal(err)
		}
		for i, typ := range []string{"wide", "apart"} {
			w.spot(n, typ, typ)
			if total, err := zlnode.Request[int](w.ctx, n.Actor("ada"), "join", typ); err != nil || total != i+1 {
				t.Fatal(total, err)
			}
			w.await("it has joined", func() bool { return len(w.notes.of("did joined")) == i+1 })
		}
	})
}

// One call, however often it is copied and used, is one Join.
// req: JN-03
func TestACopyOfAJoinCallIsTheSameCall(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		app := w.app()
		var kept *zlnode.JoinCall
		bare := zlnode.DefineActor(app, "bare", func(*zlnode.ActorContext) (*counter, error) { return &counter{}, nil }, zlnode.DisableRelocation)
		zlnode.OnRequest(bare, "twice", func(c *zlnode.ActorCall, _ *counter, _ struct{}) (struct{}, error) {
			first := c.JoinSpot("room", nil)
			second := *first
			kept = c.JoinEntrySpot()
			err := first.Defer()
			for _, again := range []*zlnode.JoinCall{first, &second} {
				if zlnode.KindOf(again.Defer()) != zlnode.InvalidOperation {
					t.Error("it was registered twice")
				}
			}
			if zlnode.KindOf(c.JoinEntrySpot().Defer()) != zlnode.Unavailable {
				t.Error("a second join of the actor was registered")
			}
			for _, wrong := range []*zlnode.JoinCall{c.JoinSpot("", nil), c.JoinSpot("x", func() {}), c.JoinSpot("x", nil).Timeout(0), c.JoinSpotRaw("x", make([]byte, 1<<20+1))} {
				if zlnode.KindOf(wrong.Defer()) != zlnode.InvalidOperation {
					t.Error("it was registered")
				}
			}
			return struct{}{}, err
		})
		n := w.server("a", app)
		w.spot(n, "room", "wide")
		if _, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: "ada", Type: "bare"}); err != nil {
			t.Fatal(err)
		}
		if _, err := zlnode.Request[struct{}](w.ctx, n.Actor("ada"), "twice", struct{}{}); err != nil {
			t.Fatal(err)
		}
		if zlnode.KindOf(kept.Defer()) != zlnode.InvalidOperation {
			t.Error("it was registered behind the handler")
		}
		w.await("the spot knows", func() bool { return len(w.notes.of("did left")) == 1 })
		w.was("admit ada to room ", "joined ada at room", "left ada from entry")
	})
}

// An Actor is a member of one Spot, and a member is destroyed in none but the Entry Spot.
// req: JN-14
func TestAMemberLeavesBeforeItIsDestroyed(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n := w.server("a", w.app())
		for _, typ := range []string{"wide", "apart"} {
			ada := w.actor(n, "ada")
			spot := w.spot(n, "room", typ)
			w.joins(n.Actor("ada"), joinOrder{Spot: "room"})
			_, err := n.DestroyActor(w.ctx, ada)
			wantKind(t, err, zlnode.InvalidOperation)
			w.joins(n.Actor("ada"), joinOrder{})
			if gone, err := n.DestroyActor(w.ctx, ada); !gone || err != nil {
				t.Error(gone, err)
			}
			if closed, err := n.CloseSpot(w.ctx, spot); !closed || err != nil {
				t.Error(closed, err)
			}
		}
		w.balanced()
	})
}

// A node that stops: who waits for a Spot's decision hears of it, and the Spots have their
// members yet when they are closed.
// req: JN-09, JN-13
func TestAShutdownEndsJoinsAndKeepsMembers(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), w.app())
		if err != nil {
			t.Fatal(err)
		}
		w.actor(n, "ada")
		w.actor(n, "bob")
		w.spot(n, "w", "wide")
		w.spot(n, "p", "apart")
		w.joins(n.Actor("ada"), joinOrder{Spot: "w"})
		began := make(chan struct{})
		w.admit = func(c *zlnode.JoinSpotCall) (zlnode.Admission, error) {
			close(began)
			<-c.Done()
			return zlnode.Admission{}, c.Err()
		}
		st := w.location()
		w.closing = func(*zlnode.SpotCall) {
			if members, err := st.Members(context.Background(), "w", "", 10); len(members) != 1 || err != nil {
				t.Errorf("at its end the members are %v, %v", members, err)
			}
		}
		if _, err := zlnode.Request[string](w.ctx, n.Actor("bob"), "join", joinOrder{Spot: "p", Timeout: 2 * time.Second}); err != nil {
			t.Fatal(err)
		}
		receive(t, began)
		w.stop(n)
		if done := receive(t, w.done); done.Outcome != zlnode.JoinFailed || zlnode.KindOf(done.Err) != zlnode.ShuttingDown {
			t.Errorf("it ended with %+v", done)
		}
		for _, id := range []string{"ada", "bob", "w", "p"} {
			if _, found, err := st.Read(w.ctx, id); found || err != nil {
				t.Errorf("%s is left: %v", id, err)
			}
		}
		w.balanced()
	})
}

// A Join that the Store has is one, also if the node was not told.
// req: JN-10
func TestAJoinWhoseAnswerIsLostIsFoundOut(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		st := w.location()
		road := w.behindProxy()
		n := w.server("a", w.app())
		w.actor(n, "ada")
		for _, to := range []string{"wide", "apart"} {
			w.spot(n, to, to)
		}
		w.joins(n.Actor("ada"), joinOrder{Spot: "apart"}) // after which the Store knows the script
		for _, to := range []string{"wide", "apart", ""} {
			road.loseAnswerTo(lua.SpotChange)
			if _, err := zlnode.Request[string](w.ctx, n.Actor("ada"), "join", joinOrder{Spot: to}); err != nil {
				t.Fatal(err)
			}
			receive(t, road.lost)
			if row, _, err := st.Read(w.ctx, "ada"); err != nil || row.State != store.Ready || row.SpotID != to && to != "" {
				t.Errorf("the row is %+v, %v", row, err)
			}
			road.heal()
			if done := receive(t, w.done); done.Outcome != zlnode.JoinAccepted {
				t.Errorf("it ended with %+v", done)
			}
		}
		w.balanced()
	})
}
