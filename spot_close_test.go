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
	"github.com/zlnode/zlnode/internal/hook"
	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// req: CR-17 CL-01
func TestACloseComesBehindWhatWasAccepted(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		rooms := roomWorld{closing: func(c *zlnode.SpotCall, _ zlnode.ClosingReason) error {
			if at, ok := c.Deadline(); !ok || time.Until(at) > 10*time.Second || time.Until(at) <= 0 {
				return errors.New("its deadline is not the operation's")
			}
			if _, found, err := c.Node().FindSpot(c, c.Spot().ID()); !found || err != nil {
				return errors.New("its row is gone already")
			}
			return nil
		}}
		// One slot: were it not given back, no other room could come.
		a := w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer, MaxSpots: 1, CreateTimeout: 10 * time.Second}, rooms.app())
		c := w.start(zlnode.Config{RID: "c", Role: zlnode.RoleClient, CreateTimeout: 10 * time.Second}, rooms.app())
		w.linked(c, 1)
		for i, n := range []*zlnode.Node{a, c} {
			r, err := n.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
			if err != nil {
				t.Fatal(err)
			}
			stopped := rooms.gate.stop(t, w, n.Spot("x"))
			for k := range 3 {
				if err := zlnode.Send(w.ctx, n.Spot("x"), "note", k); err != nil {
					t.Fatal(err)
				}
			}
			closed := make(chan bool, 1)
			go func() {
				ok, err := n.CloseSpot(w.ctx, r.Ref)
				if err != nil {
					t.Error(err)
				}
				closed <- ok
			}()
			rooms.gate.open <- struct{}{}
			if err := receive(t, stopped); err != nil {
				t.Error(err)
			}
			if !receive(t, closed) {
				t.Error("the spot was not closed")
			}
			did := rooms.did("")
			if got, want := did[len(did)-4:], []string{"note 0", "note 1", "note 2", "closing 1"}; !slices.Equal(got, want) {
				t.Errorf("its last turns were %q, want %q (ExplicitClose)", got, want)
			}
			_, err = zlnode.Request[int](w.ctx, n.Spot("x"), "add", 1)
			wantKind(t, err, zlnode.NotFound)
			if again, err := n.CloseSpot(w.ctx, r.Ref); again || err != nil {
				t.Errorf("a second close: %v %v", again, err)
			}
			if rooms.closes() != i+1 || a.Stats().FailedCallbacks != 0 || a.Stats().Spots != 0 {
				t.Errorf("%d closings, %d failed callbacks, %d spots", rooms.closes(), a.Stats().FailedCallbacks, a.Stats().Spots)
			}
			next, err := n.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = n.CloseSpot(w.ctx, r.Ref)
			wantKind(t, err, zlnode.InvalidOperation) // the ref is of the incarnation before
			if gone, err := n.CloseSpot(w.ctx, next.Ref); !gone || err != nil {
				t.Fatal(gone, err)
			}
			rooms.notes = journal{}
			for range i + 1 {
				rooms.notes.add("did closing 1")
			}
		}
		if diff, err := w.location().Audit(w.ctx); err != nil || len(diff) != 0 {
			t.Errorf("the books: %s %v", strings.Join(diff, "; "), err)
		}
	})
}

// req: MB-05
func TestASpotWithMembersIsNotClosed(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		a := w.server("a", rooms.app())
		c := w.client("c", 1, rooms.app())
		for _, typ := range []string{"room", "hall"} {
			r, err := c.CreateSpot(w.ctx, zlnode.CreateSpot{ID: typ, Type: typ})
			if err != nil {
				t.Fatal(err)
			}
			var members []zlnode.ActorRef
			for _, id := range []string{"one of " + typ, "two of " + typ} {
				m, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "counter"})
				if err == nil {
					err = hook.Inner(a).PlaceMember(id, typ)
				}
				if err != nil {
					t.Fatal(err)
				}
				members = append(members, m.Ref)
			}
			before, _, err := w.location().Read(w.ctx, typ)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range members {
				for _, n := range []*zlnode.Node{a, c} {
					if closed, err := n.CloseSpot(w.ctx, r.Ref); closed || err != nil {
						t.Errorf("%s with members: closed %v, %v", typ, closed, err)
					}
				}
				if closed, err := zlnode.Request[bool](w.ctx, c.Spot(typ), "close", struct{}{}); closed || err != nil {
					t.Errorf("%s by its own hand: %v %v", typ, closed, err)
				}
				if _, err := zlnode.Request[int](w.ctx, c.Spot(typ), "add", 1); err != nil {
					t.Errorf("the spot stays as it is: %v", err)
				}
				if gone, err := c.DestroyActor(w.ctx, m); !gone || err != nil {
					t.Fatal(gone, err)
				}
			}
			if now, _, err := w.location().Read(w.ctx, typ); err != nil || now.Version != before.Version {
				t.Errorf("the row changed: %+v %v, before %+v", now, err, before)
			}
			if n := rooms.closes(); n != 0 {
				t.Errorf("%d closings of a spot with members", n)
			}
			if closed, err := c.CloseSpot(w.ctx, r.Ref); !closed || err != nil {
				t.Errorf("%s without members: closed %v, %v", typ, closed, err)
			}
			rooms.notes = journal{}
		}
	})
}

// A member of which only the Store knows.
// req: MB-05
func TestASpotWithMembersInTheStoreIsNotClosed(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		a := w.server("a", rooms.app())
		spot, err := a.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: "member", Type: "counter"}); err != nil {
			t.Fatal(err)
		}
		st := w.location()
		row, _, err := st.Read(w.ctx, "member")
		if err != nil {
			t.Fatal(err)
		}
		entry := row.SpotID
		move := func(spot string) {
			t.Helper()
			r, err := st.ChangeSpot(w.ctx, store.ChangeSpot{Fence: store.FenceOf(&row), Op: newOp(), SpotID: spot, InUserSpot: spot != entry})
			if err != nil || r.Reason != store.Applied {
				t.Fatal(r.Reason, err)
			}
			row = r.Record
		}
		move("x")
		if closed, err := a.CloseSpot(w.ctx, spot.Ref); closed || err != nil || rooms.closes() != 0 {
			t.Errorf("closed %v, %v, %d closings", closed, err, rooms.closes())
		}
		if _, err := zlnode.Request[int](w.ctx, a.Spot("x"), "add", 1); err != nil {
			t.Errorf("the spot stays as it is: %v", err)
		}
		move(entry)
		if closed, err := a.CloseSpot(w.ctx, spot.Ref); !closed || err != nil {
			t.Errorf("closed %v, %v", closed, err)
		}
		// The node has not heard of these changes, and ends its Actor's row by what it knows.
		if r, err := st.Delete(w.ctx, store.FenceOf(&row), newOp()); err != nil || r.Reason != store.Applied {
			t.Errorf("%v %v", r.Reason, err)
		}
	})
}

// req: CL-01
func TestASpotClosesItself(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		deadlines := make(chan bool, 10)
		rooms := roomWorld{closing: func(c *zlnode.SpotCall, _ zlnode.ClosingReason) error {
			_, ok := c.Deadline()
			deadlines <- ok
			return nil
		}}
		w.server("a", rooms.app())
		c := w.client("c", 1, rooms.app())
		if _, err := c.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"}); err != nil {
			t.Fatal(err)
		}
		_, err := zlnode.Request[bool](w.ctx, c.Spot("x"), "close me", struct{}{})
		wantKind(t, err, zlnode.InvalidOperation) // it would wait for its own end
		if ok, err := zlnode.Request[bool](w.ctx, c.Spot("x"), "close", struct{}{}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if !receive(t, deadlines) {
			t.Error("its OnClosing has no deadline")
		}
		for found := true; found; {
			if _, found, err = c.FindSpot(w.ctx, "x"); err != nil {
				t.Fatal(err)
			}
		}
		if did := rooms.did("closing"); !slices.Equal(did, []string{"closing 1"}) {
			t.Errorf("closed by %v, want ExplicitClose", did)
		}
	})
}

// Closes from everywhere at once, among messages.
// req: CR-17
func TestOfClosesThatRaceOneClosesTheSpot(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		a, b := w.server("a", rooms.app()), w.server("b", rooms.app())
		c := w.client("c", 2, rooms.app())
		w.linked(a, 1)
		w.linked(b, 1)
		for round := range 5 {
			r, err := c.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
			if err != nil {
				t.Fatal(err)
			}
			var closed atomic.Int64
			var all sync.WaitGroup
			for i := range 30 {
				n := []*zlnode.Node{a, b, c}[i%3]
				all.Go(func() {
					_, err := zlnode.Request[int](w.ctx, n.Spot("x"), "add", 1)
					if k := zlnode.KindOf(err); err != nil && k != zlnode.NotFound && k != zlnode.Unavailable {
						t.Error(err)
					}
				})
				all.Go(func() {
					ok, err := n.CloseSpot(w.ctx, r.Ref)
					if err != nil && zlnode.KindOf(err) != zlnode.Unavailable {
						t.Error(err)
					}
					if ok {
						closed.Add(1)
					}
				})
			}
			all.Wait()
			if closed.Load() != 1 || rooms.closes() != round+1 {
				t.Fatalf("round %d: %d closed it, %d closings", round, closed.Load(), rooms.closes())
			}
		}
	})
}

// req: CL-01
func TestASpotWhoseClosingFailsEndsAllTheSame(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var panics atomic.Bool
		rooms := roomWorld{closing: func(*zlnode.SpotCall, zlnode.ClosingReason) error {
			if panics.Load() {
				panic("boom")
			}
			return errors.New("no time to say goodbye")
		}}
		a := w.server("a", rooms.app())
		for i, p := range []bool{false, true} {
			panics.Store(p)
			r, err := a.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
			if err != nil {
				t.Fatal(err)
			}
			if closed, err := a.CloseSpot(w.ctx, r.Ref); !closed || err != nil {
				t.Errorf("closed %v, %v", closed, err)
			}
			if _, found, err := a.FindSpot(w.ctx, "x"); found || err != nil {
				t.Errorf("found %v, %v", found, err)
			}
			if n := a.Stats().FailedCallbacks; n != uint64(i+1) {
				t.Errorf("%d failed callbacks counted", n)
			}
		}
	})
}

// A closing that hangs keeps the Spot's row: nobody may begin where it still runs. When it
// ends, the Spot does.
// req: CL-01
func TestAClosingThatHangsKeepsTheRow(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		late, release := make(chan struct{}), make(chan struct{})
		rooms := roomWorld{closing: func(c *zlnode.SpotCall, _ zlnode.ClosingReason) error {
			<-c.Done() // the deadline
			close(late)
			<-release
			return nil
		}}
		w.server("a", rooms.app())
		c := w.client("c", 1, rooms.app())
		r, err := c.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(w.ctx, 200*time.Millisecond)
		defer cancel()
		_, err = c.CloseSpot(ctx, r.Ref)
		wantKind(t, err, zlnode.DeadlineExceeded)
		receive(t, late)
		if _, found, err := c.FindSpot(w.ctx, "x"); !found || err != nil {
			t.Errorf("its id is free while it runs: %v", err)
		}
		close(release)
		for found := true; found; {
			if _, found, err = c.FindSpot(w.ctx, "x"); err != nil {
				t.Fatal(err)
			}
		}
		if n := rooms.closes(); n != 1 {
			t.Errorf("%d closings", n)
		}
	})
}

// A close whose turn comes too late is none.
// req: CR-17
func TestACloseThatGetsNoTurnInTimeChangesNothing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		w.server("a", rooms.app())
		c := w.client("c", 1, rooms.app())
		r, err := c.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
		if err != nil {
			t.Fatal(err)
		}
		stopped := rooms.gate.stop(t, w, c.Spot("x"))
		ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
		defer cancel()
		_, err = c.CloseSpot(ctx, r.Ref)
		wantKind(t, err, zlnode.DeadlineExceeded)
		there, cancel := context.WithTimeout(w.ctx, time.Second) // the owner's deadline is later by the way to it
		defer cancel()
		<-there.Done()
		close(rooms.gate.open)
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		for want := 1; want <= 3; want++ {
			if total, err := zlnode.Request[int](w.ctx, c.Spot("x"), "add", 1); err != nil || total != want {
				t.Fatalf("total %d %v, want %d", total, err, want)
			}
		}
		if rooms.closes() != 0 {
			t.Error("its OnClosing was called")
		}
	})
}

// The row's removal, when its answer is lost and the Store is away: the Spot is over, and its
// row goes when the Store is back.
// req: FO-17
func TestACloseWhoseAnswerIsLostIsFinished(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		b := w.start(zlnode.Config{RID: "b", Role: zlnode.RoleClient, CreateTimeout: 25 * time.Second}, rooms.app())
		road := w.behindProxy()
		a := w.server("a", rooms.app())
		w.linked(b, 1)
		r, err := b.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
		if err != nil {
			t.Fatal(err)
		}
		road.loseAnswerTo(lua.ObjectDelete)
		closed := make(chan bool, 1)
		go func() {
			ok, err := b.CloseSpot(w.ctx, r.Ref)
			if err != nil {
				t.Error(err)
			}
			closed <- ok
		}()
		receive(t, road.lost)
		for range 20 {
			ctx, cancel := context.WithTimeout(w.ctx, 20*time.Millisecond)
			_, err := zlnode.Request[int](ctx, a.Spot("x"), "add", 1)
			cancel()
			if k := zlnode.KindOf(err); k != zlnode.DeadlineExceeded && k != zlnode.Unavailable && k != zlnode.NotFound {
				t.Fatalf("a spot without a row answered: %v", err)
			}
		}
		road.heal()
		if !receive(t, closed) {
			t.Error("it was not closed")
		}
		if n := rooms.closes(); n != 1 {
			t.Errorf("%d closings", n)
		}
		if _, err := b.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"}); err != nil {
			t.Error(err)
		}
	})
}

// A Spot that cannot remove its row does not come back from its OnClosing.
// req: CL-01
func TestASpotIsNotGivenBackAfterItsClosing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		road := w.behindProxy()
		a := w.server("a", rooms.app())
		r, err := a.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
		if err != nil {
			t.Fatal(err)
		}
		road.barScript(lua.ObjectDelete)
		closed := make(chan bool, 1)
		go func() {
			ok, err := a.CloseSpot(w.ctx, r.Ref)
			if err != nil {
				t.Error(err)
			}
			closed <- ok
		}()
		for road.barred.Load() == 0 {
			if _, _, err := a.FindSpot(w.ctx, "x"); err != nil {
				t.Fatal(err)
			}
		}
		for road.barred.Load() < 3 {
			ctx, cancel := context.WithTimeout(w.ctx, 10*time.Millisecond)
			_, err := zlnode.Request[int](ctx, a.Spot("x"), "add", 1)
			cancel()
			if err == nil {
				t.Fatal("it answers after its OnClosing")
			}
		}
		road.passAll()
		if !receive(t, closed) || rooms.closes() != 1 {
			t.Errorf("%d closings", rooms.closes())
		}
	})
}

// A Spot whose node is killed is Unavailable until who names it exactly frees it; then its
// id is free, once.
// req: FO-10
func TestADeadOwnersSpotIsFreedByItsExactRef(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		victim := w.child(shortLease(zlnode.Config{RID: "a-victim", Role: zlnode.RoleServer}))
		b := w.start(shortLease(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), parlours(counterApp()))
		c := w.start(shortLease(zlnode.Config{RID: "c", Role: zlnode.RoleClient}), counterApp())
		w.linked(c, 2)
		w.linked(b, 1)
		ref := w.createSpotAt(c, "a-victim", "parlour")
		if _, err := zlnode.Request[int](w.ctx, c.Spot(ref.ID), "add", 7); err != nil {
			t.Fatal(err)
		}
		victim.kill()
		_, err := c.CloseSpot(w.ctx, ref) // its lease is not over, so it may live
		wantKind(t, err, zlnode.Unavailable)
		st := w.location()
		w.wantRow(st, ref.ID, "the lease's end", func(row *store.Authority, found bool) bool { return found && row.LeaseLeft <= 0 })
		_, err = zlnode.Request[int](w.ctx, b.Spot(ref.ID), "add", 1)
		wantKind(t, err, zlnode.Unavailable)
		_, err = b.GetOrCreateSpot(w.ctx, zlnode.CreateSpot{ID: ref.ID, Type: "parlour"})
		wantKind(t, err, zlnode.Unavailable)
		found, there, err := c.FindSpot(w.ctx, ref.ID)
		wantKind(t, err, zlnode.Unavailable)
		if there || found != ref {
			t.Errorf("found %+v, %v; want the ref %+v", found, there, ref)
		}
		vague := ref
		vague.RID, vague.Lifecycle, vague.OwnerGen = "", 0, 0
		_, err = b.CloseSpot(w.ctx, vague)
		wantKind(t, err, zlnode.Unavailable)
		other := ref
		other.ObjectGen++
		_, err = b.CloseSpot(w.ctx, other)
		wantKind(t, err, zlnode.InvalidOperation)
		for i, want := range []bool{true, false} {
			if gone, err := c.CloseSpot(w.ctx, found); err != nil || gone != want {
				t.Errorf("close %d: %v %v", i, gone, err)
			}
		}
		r, err := b.CreateSpot(w.ctx, zlnode.CreateSpot{ID: ref.ID, Type: "parlour"})
		if err != nil || r.Outcome != zlnode.OutcomeCreated || r.Ref.ObjectGen <= ref.ObjectGen {
			t.Fatalf("created anew: %+v %v", r, err)
		}
		if total, err := zlnode.Request[int](w.ctx, c.Spot(ref.ID), "add", 1); err != nil || total != 1 {
			t.Errorf("the new incarnation: %d %v", total, err)
		}
	})
}

// A creation of a Spot whose node is killed is cancelled by the next who wants the id.
// req: CR-08
func TestACreationOfASpotAtADeadNodeIsCancelled(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		victim := w.child(shortLease(zlnode.Config{RID: "a-victim", Role: zlnode.RoleServer}))
		c := w.start(shortLease(zlnode.Config{RID: "c", Role: zlnode.RoleClient, CreateTimeout: 20 * time.Second}), counterApp())
		w.linked(c, 1)
		hangs := make(chan error, 1)
		go func() {
			_, err := c.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "parlour", Request: []byte("hang")})
			hangs <- err
		}()
		st := w.location()
		w.wantRow(st, "x", "Creating", func(row *store.Authority, found bool) bool { return found && row.State == store.Creating })
		victim.kill()
		wantKind(t, receive(t, hangs), zlnode.Unavailable)
		w.start(shortLease(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), parlours(counterApp()))
		w.linked(c, 1)
		r, err := c.GetOrCreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "parlour"})
		if err != nil || r.Outcome != zlnode.OutcomeCreated || r.Ref.RID != "b" {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// An OnClosing that hangs costs its own spot its end, and no other: they have theirs in
// time, and their ids are free.
// req: CL-02
func TestASpotWhoseOnClosingHangsKeepsNoOther(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		var ran, late atomic.Int64
		rooms := roomWorld{closing: func(c *zlnode.SpotCall, _ zlnode.ClosingReason) error {
			if c.Spot().ID() == "hangs" {
				<-release
				return nil
			}
			ran.Add(1)
			if c.Err() != nil {
				late.Add(1)
			}
			return nil
		}}
		a, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), rooms.app())
		if err != nil {
			t.Fatal(err)
		}
		const others = 10
		for i := range others + 1 {
			id := fmt.Sprint("room-", i)
			if i == others/2 {
				id = "hangs"
			}
			if _, err := a.CreateSpot(w.ctx, zlnode.CreateSpot{ID: id, Type: "hall"}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(w.ctx, 4*time.Second)
		defer cancel()
		err = a.Shutdown(ctx)
		close(release)
		wantKind(t, err, zlnode.DeadlineExceeded)
		if ran.Load() != others || late.Load() != 0 {
			t.Errorf("%d of %d OnClosing ran, %d past their deadline", ran.Load(), others, late.Load())
		}
		rows, err := w.location().List(w.ctx, store.Filter{}, "", 100)
		if err != nil || len(rows.Objects) != 1 || rows.Objects[0].ID != "hangs" {
			t.Errorf("left: %d rows, %v", len(rows.Objects), err)
		}
	})
}
