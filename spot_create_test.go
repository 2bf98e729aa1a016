package zlnode_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/store"
)

// S01 of Spots: callers of three nodes race for one missing id.
// req: CR-01 CR-12
func TestOneFactoryOfASpotRunsHoweverManyRace(t *testing.T) {
	onEachStoreInTurn(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		a, b := w.server("a", rooms.app()), w.server("b", rooms.app())
		c := w.client("c", 2, rooms.app())
		w.linked(a, 1)
		w.linked(b, 1)
		nodes := []*zlnode.Node{a, b, c}
		for round := range 3 {
			id := fmt.Sprint("room-", round)
			before := rooms.factories.Load()
			var created, existing atomic.Int64
			refs := make([]zlnode.SpotRef, 60)
			var wg sync.WaitGroup
			for i := range refs {
				wg.Go(func() {
					r, err := nodes[i%3].GetOrCreateSpot(w.ctx, zlnode.CreateSpot{ID: id, Type: "room"})
					if err != nil {
						t.Errorf("caller %d: %v", i, err)
						return
					}
					switch r.Outcome {
					case zlnode.OutcomeCreated:
						created.Add(1)
					case zlnode.OutcomeExisting:
						existing.Add(1)
					}
					refs[i] = r.Ref
				})
			}
			wg.Wait()
			if n := rooms.factories.Load() - before; n != 1 {
				t.Errorf("%d factories ran", n)
			}
			if created.Load() != 1 || existing.Load() != 59 {
				t.Errorf("%d created, %d existing", created.Load(), existing.Load())
			}
			for i, r := range refs {
				if r != refs[0] {
					t.Fatalf("caller %d got %+v, caller 0 %+v", i, r, refs[0])
				}
			}
		}
		if a, b := a.Stats(), b.Stats(); a.Spots+b.Spots != 3 || a.Actors+b.Actors != 0 {
			t.Errorf("the nodes count %d and %d spots, %d and %d actors; want 3 and none", a.Spots, b.Spots, a.Actors, b.Actors)
		}
	})
}

func TestANewSpotWithoutAnIdIsIssuedOne(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		a := w.server("a", rooms.app())
		seen := map[string]bool{}
		for range 3 {
			r, err := a.CreateSpot(w.ctx, zlnode.CreateSpot{Type: "room"})
			if err != nil || r.Outcome != zlnode.OutcomeCreated {
				t.Fatalf("%+v %v", r, err)
			}
			if id := r.Ref.ID; seen[id] || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
				t.Errorf("issued %q", id)
			}
			seen[r.Ref.ID] = true
		}
		_, err := a.GetOrCreateSpot(w.ctx, zlnode.CreateSpot{Type: "room"})
		wantKind(t, err, zlnode.InvalidOperation)
		_, err = a.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "a-entry-00000000-0000-4000-8000-000000000000", Type: "room"})
		wantKind(t, err, zlnode.InvalidOperation)
		_, err = a.CreateActor(w.ctx, zlnode.CreateActor{Type: "counter"})
		wantKind(t, err, zlnode.InvalidOperation)
	})
}

// S03 of Spots: nothing of a creation is visible before it is done, and nothing but its
// callbacks, in their order, runs before that.
// req: CR-06
func TestASpotsFirstCallbacksComeBeforeAllElse(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		entered, decide := make(chan struct{}), make(chan struct{})
		rooms := roomWorld{
			configure: func(c *zlnode.SpotCall) error {
				return c.StartTimer("tick", zlnode.TimerOptions{Delay: time.Millisecond, Period: time.Millisecond})
			},
			admit: func(c *zlnode.CreateSpotCall) (zlnode.Admission, error) {
				var request string
				if err := c.DecodeRequest(&request); err != nil {
					return zlnode.Admission{}, err
				}
				if _, ok := c.Deadline(); !ok {
					return zlnode.Admission{}, errors.New("the decision has no deadline")
				}
				if err := zlnode.Send(c, c.Node().Actor("witness"), "add", 1); err != nil {
					return zlnode.Admission{}, err
				}
				entered <- struct{}{}
				<-decide
				return zlnode.Accept([]byte("hello " + request + " " + c.Spot().ID())), nil
			},
		}
		a := w.server("a", rooms.app())
		c := w.client("c", 1, rooms.app())
		if _, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: "witness", Type: "counter"}); err != nil {
			t.Fatal(err)
		}
		type end struct {
			r   zlnode.SpotCreation
			err error
		}
		ended := make(chan end, 1)
		go func() {
			r, err := c.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room", Request: "me"})
			ended <- end{r, err}
		}()
		receive(t, entered)
		for _, n := range []*zlnode.Node{a, c} {
			if ref, found, err := n.FindSpot(w.ctx, "x"); found || err != nil {
				t.Errorf("found before the decision: %+v %v", ref, err)
			}
			_, err := zlnode.Request[int](w.ctx, n.Spot("x"), "add", 0)
			wantKind(t, err, zlnode.NotFound)
		}
		close(decide)
		got := receive(t, ended)
		if got.err != nil || got.r.Outcome != zlnode.OutcomeCreated || string(got.r.Reply) != "hello me x" {
			t.Fatalf("%+v", got)
		}
		for _, n := range []*zlnode.Node{a, c} {
			if ref, found, err := n.FindSpot(w.ctx, "x"); !found || err != nil || ref != got.r.Ref {
				t.Errorf("after the decision: %+v %v %v, want %+v", ref, found, err, got.r.Ref)
			}
			if _, err := zlnode.Request[int](w.ctx, n.Spot("x"), "add", 1); err != nil {
				t.Error(err)
			}
		}
		for len(rooms.did("tick")) == 0 {
			if _, err := zlnode.Request[int](w.ctx, a.Spot("x"), "add", 0); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := rooms.did("")[:4], []string{"configure", `create "me"`, "initialize", "tick"}; !slices.Equal(got, want) {
			t.Errorf("it had %q, want %q", got, want)
		}
	})
}

// req: CR-07
func TestARejectedSpotLeavesNothing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var refuse atomic.Bool
		refuse.Store(true)
		rooms := roomWorld{admit: func(c *zlnode.CreateSpotCall) (zlnode.Admission, error) {
			if refuse.Load() {
				return zlnode.Reject([]byte("no room for you")), c.StartTimer("tick", zlnode.TimerOptions{Delay: time.Millisecond, Period: time.Millisecond})
			}
			return zlnode.Accept(nil), nil
		}}
		// One slot: were it not given back, the second creation could not succeed.
		a := w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer, MaxSpots: 1}, rooms.app(zlnode.MaxPerNode(1)))
		c := w.client("c", 1, rooms.app())
		r, err := c.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
		if err != nil || r.Outcome != zlnode.OutcomeRejected || string(r.Reply) != "no room for you" {
			t.Fatalf("%+v %v", r, err)
		}
		if got := rooms.did("initialize"); len(got) != 0 {
			t.Error("a rejected spot is initialized")
		}
		if _, found, err := c.FindSpot(w.ctx, "x"); found || err != nil {
			t.Errorf("a rejected spot is found: %v", err)
		}
		_, err = zlnode.Request[int](w.ctx, c.Spot("x"), "add", 0)
		wantKind(t, err, zlnode.NotFound)
		refuse.Store(false)
		if r, err = c.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"}); err != nil || r.Outcome != zlnode.OutcomeCreated {
			t.Fatalf("second try: %+v %v", r, err)
		}
		if diff, err := w.location().Audit(w.ctx); err != nil || len(diff) != 0 {
			t.Errorf("the books: %s %v", strings.Join(diff, "; "), err)
		}
		if st := a.Stats(); st.Spots != 1 || len(rooms.did("tick")) != 0 {
			t.Errorf("%d spots, %d ticks of the rejected one; want 1 and none", st.Spots, len(rooms.did("tick")))
		}
	})
}

// req: CR-08
func TestAFailedCreationOfASpotLeavesNothing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		stuck := make(chan struct{})
		defer close(stuck)
		var how, where atomic.Pointer[string]
		fails := func(here string) error {
			if *where.Load() != here {
				return nil
			}
			switch *how.Load() {
			case "error":
				return zlnode.Errorf(zlnode.Rejected, "not today")
			case "plain error":
				return errors.New("out of cheese")
			case "panic":
				panic("boom")
			case "hang":
				<-stuck
			}
			return nil
		}
		rooms := roomWorld{
			factory:    func() error { return fails("factory") },
			configure:  func(*zlnode.SpotCall) error { return fails("configure") },
			admit:      func(*zlnode.CreateSpotCall) (zlnode.Admission, error) { return zlnode.Accept(nil), fails("create") },
			initialize: func(*zlnode.SpotCall) error { return fails("initialize") },
		}
		w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer, MaxSpots: 1}, rooms.app())
		c := w.client("c", 1, rooms.app())
		for _, at := range []string{"factory", "configure", "create", "initialize"} {
			for name, kind := range map[string]zlnode.Kind{
				"error": zlnode.Rejected, "plain error": zlnode.InternalFailure, "panic": zlnode.InternalFailure, "hang": zlnode.DeadlineExceeded,
			} {
				how.Store(&name)
				where.Store(&at)
				create := func() error {
					ctx, cancel := w.ctx, context.CancelFunc(func() {})
					if name == "hang" {
						ctx, cancel = context.WithTimeout(w.ctx, 200*time.Millisecond)
					}
					defer cancel()
					_, err := c.CreateSpot(ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
					return err
				}
				err := create()
				for errors.Is(err, zlnode.CapacityExceeded) { // the node list still has the last one
					err = create()
				}
				wantKind(t, err, kind)
				fine := "fine"
				how.Store(&fine)
				r, err := c.GetOrCreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"})
				if err != nil || r.Outcome != zlnode.OutcomeCreated {
					t.Fatalf("after %s in %s: %+v %v", name, at, r, err)
				}
				if gone, err := c.CloseSpot(w.ctx, r.Ref); !gone || err != nil {
					t.Fatalf("close: %v %v", gone, err)
				}
			}
		}
	})
}

// The id of a Spot is no Actor's and the other way round, wherever either is.
// req: ID-01
func TestAnIdIsOfOneKind(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		a := w.server("a", rooms.app())
		c := w.client("c", 1, rooms.app())
		actor, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: "actor", Type: "counter"})
		if err != nil {
			t.Fatal(err)
		}
		spot, err := c.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "spot", Type: "room"})
		if err != nil {
			t.Fatal(err)
		}
		row, _, err := w.location().Read(w.ctx, "actor")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []*zlnode.Node{a, c} {
			for range 2 { // with the route unknown and known
				refused := map[string]error{}
				_, refused["create an actor"] = n.CreateActor(w.ctx, zlnode.CreateActor{ID: "spot", Type: "counter"})
				_, refused["get or create an actor"] = n.GetOrCreateActor(w.ctx, zlnode.CreateActor{ID: "spot", Type: "counter"})
				_, refused["create a spot"] = n.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "actor", Type: "room"})
				_, refused["get or create a spot"] = n.GetOrCreateSpot(w.ctx, zlnode.CreateSpot{ID: "actor", Type: "room"})
				_, refused["a spot of another type"] = n.GetOrCreateSpot(w.ctx, zlnode.CreateSpot{ID: "spot", Type: "hall"})
				_, _, refused["find an actor"] = n.FindActor(w.ctx, "spot")
				_, _, refused["find a spot"] = n.FindSpot(w.ctx, "actor")
				_, refused["destroy"] = n.DestroyActor(w.ctx, zlnode.ActorRef(spot.Ref))
				_, refused["close"] = n.CloseSpot(w.ctx, zlnode.SpotRef(actor.Ref))
				refused["send to an actor"] = zlnode.Send(w.ctx, n.Actor("spot"), "note", 1)
				refused["send to a spot"] = zlnode.Send(w.ctx, n.Spot("actor"), "add", 1)
				_, refused["ask an actor"] = zlnode.Request[int](w.ctx, n.Actor("spot"), "add", 1)
				_, refused["ask a spot"] = zlnode.Request[int](w.ctx, n.Spot("actor"), "add", 1)
				for what, err := range refused {
					if zlnode.KindOf(err) != zlnode.TypeMismatch {
						t.Errorf("%s from %s: %v", what, n.RID(), err)
					}
				}
				_, err := n.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "spot", Type: "room"})
				wantKind(t, err, zlnode.AlreadyExists)
				if total, err := zlnode.Request[int](w.ctx, n.Spot("spot"), "add", 0); err != nil || total != 0 {
					t.Errorf("the spot: %d %v", total, err)
				}
				if total, err := zlnode.Request[int](w.ctx, n.Actor("actor"), "add", 0); err != nil || total != 0 {
					t.Errorf("the actor: %d %v", total, err)
				}
				if _, err := zlnode.Request[int](w.ctx, n.Spot(row.SpotID), "add", 1); zlnode.KindOf(err) != zlnode.NotFound {
					t.Errorf("the entry spot, whose id is %q, answers: %v", row.SpotID, err)
				}
			}
		}
	})
}

// An id that was an Actor's and is a Spot's now is found as such by who knows the old route.
func TestARouteOfAnotherKindIsReadAnew(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		a := w.server("a", rooms.app())
		c, d := w.client("c", 1, rooms.app()), w.client("d", 1, rooms.app())
		r, err := d.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "counter"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := zlnode.Request[int](w.ctx, c.Actor("x"), "add", 1); err != nil {
			t.Fatal(err)
		}
		if gone, err := a.DestroyActor(w.ctx, r.Ref); !gone || err != nil {
			t.Fatal(gone, err)
		}
		if _, err := a.CreateSpot(w.ctx, zlnode.CreateSpot{ID: "x", Type: "room"}); err != nil {
			t.Fatal(err)
		}
		if total, err := zlnode.Request[int](w.ctx, c.Spot("x"), "add", 2); err != nil || total != 2 {
			t.Errorf("total %d %v", total, err)
		}
	})
}

// req: CR-03
func TestPlacementGoesOnlyWhereTheSpotFits(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		w.start(zlnode.Config{RID: "a-small", Role: zlnode.RoleServer, MaxSpots: 2, MaxActors: 1}, rooms.app())
		w.start(zlnode.Config{RID: "b-cordoned", Role: zlnode.RoleServer, Weight: -1}, rooms.app())
		w.start(zlnode.Config{RID: "c-other", Role: zlnode.RoleServer}, counterApp())
		w.start(zlnode.Config{RID: "d-few", Role: zlnode.RoleServer}, rooms.app(zlnode.MaxPerNode(1)))
		c := w.client("z", 4, rooms.app())
		placed := map[string]int{}
		create := func(typ string) error {
			r, err := c.CreateSpot(w.ctx, zlnode.CreateSpot{Type: typ})
			placed[typ+" at "+r.Ref.RID]++
			return err
		}
		for range 3 {
			if err := create("room"); err != nil {
				t.Fatal(err)
			}
		}
		wantKind(t, create("room"), zlnode.CapacityExceeded)
		if placed["room at a-small"] != 2 || placed["room at d-few"] != 1 {
			t.Errorf("placed %v", placed)
		}
		if err := create("hall"); err != nil || placed["hall at d-few"] != 1 { // the bound is each type's own
			t.Errorf("placed %v, %v", placed, err)
		}
		wantKind(t, create("hall"), zlnode.CapacityExceeded)
		wantKind(t, create("nobody-has-it"), zlnode.Unavailable)
		wantKind(t, create("counter"), zlnode.Unavailable) // a type of actors
		if _, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "counter"}); err != nil {
			t.Errorf("spots take no room of actors: %v", err)
		}
	})
}

// The Store knows of a User Spot whether its members share its owner, though who creates it
// does not know the type.
func TestASpotsRowSaysWhetherItIsSpotWide(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		a := w.start(shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), rooms.app())
		c := w.client("c", 1, zlnode.NewApp())
		st := w.location()
		for typ, wide := range map[string]bool{"room": true, "hall": false} {
			if _, err := c.CreateSpot(w.ctx, zlnode.CreateSpot{ID: typ, Type: typ}); err != nil {
				t.Fatal(err)
			}
			row, found, err := st.Read(w.ctx, typ)
			if err != nil || !found || row.Kind != store.UserSpot || row.Wide != wide || row.SpotID != "" {
				t.Errorf("%s: %+v %v %v", typ, row, found, err)
			}
		}
		// Its owner writes it again in a new epoch, and if it was lost.
		w.forgetRow("room")
		epoch, err := st.RaiseEpoch(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for typ, wide := range map[string]bool{"room": true, "hall": false} {
			row := w.wantRow(st, typ, "the new epoch", func(row *store.Authority, found bool) bool { return found && row.Epoch == epoch })
			if row.Kind != store.UserSpot || row.Wide != wide || row.Type != typ {
				t.Errorf("%s: %+v", typ, row)
			}
		}
		if total, err := zlnode.Request[int](w.ctx, a.Spot("room"), "add", 3); err != nil || total != 3 {
			t.Errorf("total %d %v", total, err)
		}
	})
}

// req: CL-02
func TestAShutdownClosesSpotsAndFreesTheirIds(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var rooms roomWorld
		var there atomic.Int64
		rooms.closing = func(c *zlnode.SpotCall, _ zlnode.ClosingReason) error {
			if _, found, err := c.Node().FindSpot(c, c.Spot().ID()); found && err == nil {
				there.Add(1)
			}
			return nil
		}
		a, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), rooms.app())
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"x", "y"} {
			if _, err := a.CreateSpot(w.ctx, zlnode.CreateSpot{ID: id, Type: "room"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := zlnode.Send(w.ctx, a.Spot("x"), "note", 1); err != nil {
			t.Fatal(err)
		}
		w.stop(a)
		if got, want := rooms.did("closing"), []string{"closing 2", "closing 2"}; !slices.Equal(got, want) {
			t.Errorf("closed by %v, want %v (HostShutdown)", got, want)
		}
		if there.Load() != 2 {
			t.Errorf("%d spots were there while they were closed, want 2", there.Load())
		}
		st := w.location()
		for _, id := range []string{"x", "y"} {
			if _, found, err := st.Read(w.ctx, id); found || err != nil {
				t.Errorf("%s is left: %v", id, err)
			}
		}
	})
}

// An Entry Spot has no address: neither as a Spot nor as an Actor is its id known, here or
// from another node, though Actors are in it.
// req: MB-07
func TestAnEntrySpotCannotBeAddressed(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		server := w.server("s", counterApp())
		client := w.client("c", 1, zlnode.NewApp())
		l, err := w.location().ListNodes(w.ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(l.Nodes, func(d store.Descriptor) bool { return d.RID == "s" })
		entry := l.Nodes[i].EntrySpotID
		if entry == "" {
			t.Fatal("the node publishes no entry spot")
		}
		for _, n := range []*zlnode.Node{server, client} {
			for _, a := range []zlnode.Addr{n.Spot(entry), n.Actor(entry)} {
				wantKind(t, a.SendRaw(w.ctx, "add", nil), zlnode.NotFound)
				_, err := a.RequestRaw(w.ctx, "add", nil)
				wantKind(t, err, zlnode.NotFound)
			}
			_, err := n.GetOrCreateSpot(w.ctx, zlnode.CreateSpot{ID: entry, Type: "parlour"})
			wantKind(t, err, zlnode.InvalidOperation)
		}
	})
}
