package zlnode_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// wantRow polls the row until it is as wanted.
func (w *world) wantRow(st store.Store, id, what string, wanted func(row *store.Authority, found bool) bool) store.Authority {
	w.t.Helper()
	for {
		row, found, err := st.Read(w.ctx, id)
		if err != nil {
			w.t.Fatalf("%s: waiting for %s: %v (last %+v, %v)", id, what, err, row, found)
		}
		if wanted(&row, found) {
			return row
		}
	}
}

// forget removes the whole world from the Store, as a Redis that lost its data does.
func (w *world) forget() {
	w.t.Helper()
	c := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(w.url, "redis://"), Protocol: 2, DisableIdentity: true})
	defer func() { _ = c.Close() }()
	keys, err := c.Keys(w.ctx, `\{zl:`+w.namespace+`}:*`).Result()
	if err != nil || len(keys) == 0 {
		w.t.Fatalf("keys of the world: %v %v", keys, err)
	}
	if err := c.Del(w.ctx, keys...).Err(); err != nil {
		w.t.Fatal(err)
	}
}

func newOp() (op store.OpID) {
	_, _ = rand.Read(op[:])
	return op
}

// A new epoch: what runs goes on, and its owner writes its row again, after which the
// row can change owners.
func TestOwnersWriteTheirRowsAgainInANewEpoch(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		a := w.start(shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), counterApp())
		ref := w.createAt(a, "a")
		if _, err := zlnode.Request[int](w.ctx, a.Actor(ref.ID), "add", 1); err != nil {
			t.Fatal(err)
		}
		st := w.location()
		epoch, err := st.RaiseEpoch(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		row := w.wantRow(st, ref.ID, "the new epoch", func(row *store.Authority, found bool) bool {
			if !found || row.State != store.Ready || uint64(row.ObjectGen) != ref.ObjectGen {
				t.Fatalf("the row is %+v, %v", row, found)
			}
			return row.Epoch == epoch
		})
		if uint64(row.OwnerGen) != ref.OwnerGen {
			t.Errorf("owner generation %d; it was %d and nobody else owned it", row.OwnerGen, ref.OwnerGen)
		}
		if total, err := zlnode.Request[int](w.ctx, a.Actor(ref.ID), "add", 1); err != nil || total != 2 {
			t.Errorf("total %d %v; want the same actor", total, err)
		}
		if gone, err := a.DestroyActor(w.ctx, ref); err != nil || !gone {
			t.Errorf("destroy under the new version: %v %v", gone, err)
		}
	})
}

// A handler that takes long, or mail that waits, does not keep the row from being written
// again.
func TestARowIsWrittenAgainWhileAHandlerRuns(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		g := newGate()
		a := w.start(shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), recorderApp(g))
		if _, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: "r", Type: "recorder"}); err != nil {
			t.Fatal(err)
		}
		stopped := g.stop(t, w, a.Actor("r"))
		if err := zlnode.Send(w.ctx, a.Actor("r"), "note", 1); err != nil {
			t.Fatal(err)
		}
		st := w.location()
		epoch, err := st.RaiseEpoch(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		w.wantRow(st, "r", "the epoch", func(row *store.Authority, found bool) bool { return found && row.Epoch == epoch })
		if len(stopped) > 0 {
			t.Error("the handler had ended before the row was written again")
		}
		close(g.open)
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		if seen, err := zlnode.Request[[]int](w.ctx, a.Actor("r"), "seen", struct{}{}); err != nil || len(seen) != 1 {
			t.Errorf("what waited meanwhile: %v %v", seen, err)
		}
	})
}

// The answer to a re-assertion is lost: the Actor goes on, but its Destroy waits until
// the Store has said what became of it, and removes the row that there is then.
func TestAReassertionWhoseAnswerIsLostIsSettledBeforeADestroy(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		st := w.location()
		road := w.behindProxy()
		patient := shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer, CreateTimeout: 20 * time.Second})
		patient.LeaseTTL = time.Minute // it acts for as long as this test takes
		a := w.start(patient, counterApp())
		ref := w.createAt(a, "a")
		if _, err := zlnode.Request[int](w.ctx, a.Actor(ref.ID), "add", 1); err != nil {
			t.Fatal(err)
		}
		road.loseAnswerTo(lua.ObjectReassert)
		epoch, err := st.RaiseEpoch(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		receive(t, road.lost)
		if total, err := zlnode.Request[int](w.ctx, a.Actor(ref.ID), "add", 1); err != nil || total != 2 {
			t.Errorf("while the Store is away: total %d %v", total, err)
		}
		road.heal()
		w.wantRow(st, ref.ID, "the epoch", func(row *store.Authority, found bool) bool { return found && row.Epoch == epoch })
		if gone, err := a.DestroyActor(w.ctx, ref); err != nil || !gone {
			t.Errorf("destroy under the version that the re-assertion gave: %v %v", gone, err)
		}
		w.wantRow(st, ref.ID, "its end", func(_ *store.Authority, found bool) bool { return !found })
	})
}

// While an epoch is young nothing new is created, and the error says so; what is there
// is found.
func TestAYoungEpochHoldsCreations(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		before := w.server("a", counterApp())
		ref := w.createAt(before, "a")
		careful := w.start(zlnode.Config{
			RID: "b", Role: zlnode.RoleClient, RecoveryHold: time.Hour, CreateTimeout: 200 * time.Millisecond,
		}, counterApp())
		w.linked(careful, 1)
		if _, err := w.location().RaiseEpoch(w.ctx); err != nil {
			t.Fatal(err)
		}
		_, err := careful.CreateActor(w.ctx, zlnode.CreateActor{ID: "new", Type: "counter"})
		wantKind(t, err, zlnode.DeadlineExceeded)
		if !strings.Contains(err.Error(), "holds creations for 1h") {
			t.Errorf("the error does not say why: %v", err)
		}
		r, err := careful.GetOrCreateActor(w.ctx, zlnode.CreateActor{ID: ref.ID, Type: "counter"})
		if err != nil || r.Ref.ObjectGen != ref.ObjectGen {
			t.Errorf("the actor that is there: %+v, %v", r, err)
		}
	})
}

// Redis lost everything: lease, descriptor and rows of who lives come back as they
// were, and nobody else can take the id meanwhile.
func TestAStoreThatLostItsDataGetsTheLivingBack(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		a := w.start(shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), counterApp())
		b := w.start(shortLease(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), counterApp())
		w.linked(b, 1)
		ref := w.createAt(b, "a")
		if _, err := zlnode.Request[int](w.ctx, b.Actor(ref.ID), "add", 1); err != nil {
			t.Fatal(err)
		}
		st := w.location()
		w.forget()
		row := w.wantRow(st, ref.ID, "the row's return", func(row *store.Authority, found bool) bool { return found && row.LeaseLeft > 0 })
		if row.State != store.Ready || uint64(row.ObjectGen) != ref.ObjectGen || uint64(row.LeaseGen) != ref.Lifecycle {
			t.Errorf("the row came back as %+v; it was %+v", row, ref)
		}
		for _, n := range []*zlnode.Node{a, b} {
			if total, err := zlnode.Request[int](w.ctx, n.Actor(ref.ID), "add", 1); err != nil || total < 2 {
				t.Errorf("from %s: total %d %v; want the same actor", n.RID(), total, err)
			}
		}
		for listed := 0; listed < 2; { // both descriptors are back
			l, err := st.ListNodes(w.ctx, 0)
			if err != nil {
				t.Fatal(err)
			}
			listed = len(l.Nodes)
		}
		r, err := b.CreateActor(w.ctx, zlnode.CreateActor{ID: "after", Type: "counter"})
		if err != nil {
			t.Fatal(err)
		}
		if r.Ref.ObjectGen <= ref.ObjectGen {
			t.Errorf("generation %d after %d: it was issued before", r.Ref.ObjectGen, ref.ObjectGen)
		}
	})
}

// A row that names a node which knows nothing of it goes in a new epoch.
func TestRowsThatTheirOwnerDoesNotKnowAreRemoved(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		a := w.start(shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), counterApp())
		known := w.createAt(a, "a")
		st := w.location()
		row, _, err := st.Read(w.ctx, known.ID)
		if err != nil {
			t.Fatal(err)
		}
		epoch, err := st.RaiseEpoch(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		c, err := st.Reassert(w.ctx, store.Reassert{ // as if history had undone its end
			Op: newOp(), Epoch: epoch, Owner: store.Lease{RID: row.RID, OwnerID: row.OwnerID, Gen: row.LeaseGen}, ID: "ghost",
			Kind: store.Actor, Type: "counter", ObjectGen: 1, OwnerGen: 1, Version: 1, Mesh: row.Mesh, SpotID: row.SpotID,
		})
		if err != nil || c.Reason != store.Applied {
			t.Fatal(c, err)
		}
		w.wantRow(st, "ghost", "its end", func(_ *store.Authority, found bool) bool { return !found })
		w.wantRow(st, known.ID, "the epoch", func(row *store.Authority, found bool) bool {
			if !found {
				t.Fatal("the row of an actor that lives was removed")
			}
			return row.Epoch == epoch
		})
	})
}

// A reservation of which its target was never told, as when the coordinator's link
// broke or its script was applied late: the target finds and ends it.
// req: CR-08
func TestAReservationThatNobodyToldOfEnds(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		a := w.server("a", counterApp())
		st := w.location()
		l, err := st.ListNodes(w.ctx, 0)
		if err != nil || len(l.Nodes) != 1 {
			t.Fatal(l, err)
		}
		reserve := func(id string, timeout time.Duration) {
			t.Helper()
			c, err := st.Reserve(w.ctx, store.Reserve{
				ID: id, Kind: store.Actor, Type: "counter", TargetRID: "a", TargetLifecycle: l.Nodes[0].Lifecycle, Timeout: timeout,
				Op: store.OperationKey{SourceRID: "elsewhere", SourceLifecycle: 1, Op: newOp()},
			})
			if err != nil || c.Reason != store.Applied {
				t.Fatal(c, err)
			}
		}
		reserve("late", time.Millisecond)
		reserve("in-time", time.Hour)
		w.wantRow(st, "late", "its end", func(_ *store.Authority, found bool) bool { return !found })
		w.wantRow(st, "in-time", "Ready", func(row *store.Authority, found bool) bool { return found && row.State == store.Ready })
		if total, err := zlnode.Request[int](w.ctx, a.Actor("in-time"), "add", 1); err != nil || total != 1 {
			t.Errorf("total %d %v", total, err)
		}
	})
}

// A creation whose target died is cancelled by the next one who wants the id, once the
// target's lease is over.
// req: CR-08 FO-11
func TestACreationOfADeadNodeIsCancelledByTheNext(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		victim := w.child(shortLease(zlnode.Config{RID: "a-victim", Role: zlnode.RoleServer}))
		b := w.start(shortLease(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), counterApp())
		st := w.location()
		var target store.Descriptor
		for target.RID != "a-victim" {
			l, err := st.ListNodes(w.ctx, 0)
			if err != nil {
				t.Fatal(err)
			}
			target = l.Nodes[0]
		}
		victim.kill()
		c, err := st.Reserve(w.ctx, store.Reserve{
			ID: "x", Kind: store.Actor, Type: "counter", TargetRID: target.RID, TargetLifecycle: target.Lifecycle, Timeout: time.Hour,
			Op: store.OperationKey{SourceRID: "b", SourceLifecycle: 1, Op: newOp()},
		})
		if err != nil || c.Reason != store.Applied {
			t.Fatal(c, err)
		}
		r, err := b.GetOrCreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "counter"})
		if err != nil {
			t.Fatal(err)
		}
		if r.Ref.RID != "b" || r.Ref.ObjectGen <= uint64(c.Record.ObjectGen) {
			t.Errorf("created %+v after the reservation %+v", r.Ref, c.Record)
		}
	})
}

// The Store is away: the last node list and its links stay for the grace, requests on
// them go on.
// req: FO-18
func TestAnOutageOfTheStoreKeepsListAndLinksForTheGrace(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		lasting := w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer}, counterApp())
		ref := w.createAt(lasting, "a")
		road := w.behindProxy()
		patient := w.start(zlnode.Config{RID: "b", Role: zlnode.RoleClient, CreateTimeout: 5 * time.Second}, counterApp())
		hasty := w.start(zlnode.Config{RID: "c", Role: zlnode.RoleClient, StoreFailureGrace: time.Millisecond}, counterApp())
		for _, n := range []*zlnode.Node{patient, hasty} {
			w.linked(n, 1)
			if _, err := zlnode.Request[int](w.ctx, n.Actor(ref.ID), "add", 1); err != nil { // learns the route
				t.Fatal(err)
			}
		}
		road.goAway()
		// Within the grace the list still names a target, and the failure is the Store's.
		// Past it there is no target any more.
		create := func(n *zlnode.Node, id string) string {
			_, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "counter"})
			wantKind(t, err, zlnode.Unavailable)
			return err.Error()
		}
		for !strings.Contains(create(hasty, "y"), "no serving node") {
		}
		if text := create(patient, "x"); strings.Contains(text, "no serving node") {
			t.Errorf("within the grace: %s", text)
		}
		for _, n := range []*zlnode.Node{patient, hasty} {
			if _, err := zlnode.Request[int](w.ctx, n.Actor(ref.ID), "add", 1); err != nil {
				t.Errorf("%s on its open link: %v", n.RID(), err)
			}
		}
		road.heal()
		for { // the full list is read again
			if _, err := hasty.CreateActor(w.ctx, zlnode.CreateActor{ID: "z", Type: "counter"}); err == nil {
				break
			} else if w.ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	})
}

// The creation of a process that was killed is cancelled though nobody asks for the id, and
// its capacity is free; it is not continued elsewhere.
// req: FO-11 CR-08
func TestACreationOfADeadProcessIsCancelledUnasked(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		victim, _, _ := w.besideAVictim()
		st := w.location()
		l, err := st.ListNodes(w.ctx, 0)
		if err != nil || l.Nodes[0].RID != "a-victim" {
			t.Fatal(l, err)
		}
		victim.kill()
		c, err := st.Reserve(w.ctx, store.Reserve{
			ID: "x", Kind: store.Actor, Type: "counter", TargetRID: "a-victim", TargetLifecycle: l.Nodes[0].Lifecycle, Timeout: time.Hour,
			Op: store.OperationKey{SourceRID: "elsewhere", SourceLifecycle: 1, Op: newOp()},
		})
		if err != nil || c.Reason != store.Applied {
			t.Fatal(c.Reason, err)
		}
		w.wantRow(st, "x", "its end", func(_ *store.Authority, found bool) bool { return !found })
		if wrong, err := st.Audit(w.ctx); err != nil || len(wrong) > 0 {
			t.Errorf("the Store's counts differ: %v, %v", wrong, err)
		}
	})
}
