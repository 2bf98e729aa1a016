package zlnode_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
	"github.com/zlnode/zlnode/store/redislua"
)

// A node that cannot write its rows again acts no longer than nothing new is created in
// the new epoch: what the Store has lost may then begin elsewhere.
// req: FO-18
func TestAnActorWhoseRowIsLostStopsBeforeItsIdIsFree(t *testing.T) {
	const hold = 2500 * time.Millisecond
	onEachStore(t, func(t *testing.T, w *world) {
		st, creator := w.location(), w.holding(hold)
		b := w.start(shortLease(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), counterApp())
		road := w.behindProxy()
		a := w.start(shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer, RecoveryHold: hold}), counterApp())
		w.linked(b, 1)
		lost, kept := w.createAt(b, "a"), w.createAt(b, "a")
		for _, ref := range []zlnode.ActorRef{lost, kept} {
			if total, err := zlnode.Request[int](w.ctx, a.Actor(ref.ID), "add", 1); err != nil || total != 1 {
				t.Fatal(total, err)
			}
		}
		road.barScript(lua.ObjectReassert)
		w.forgetRow(lost.ID)
		if _, err := st.RaiseEpoch(w.ctx); err != nil {
			t.Fatal(err)
		}
		reserve := store.Reserve{
			ID: lost.ID, Kind: store.Actor, Type: "counter", TargetRID: "b", TargetLifecycle: store.LeaseGen(b.Lifecycle()), Timeout: time.Hour,
			Op: store.OperationKey{SourceRID: "elsewhere", SourceLifecycle: 1, Op: newOp()},
		}
		for { // until the epoch is not young any more
			c, err := creator.Reserve(w.ctx, reserve)
			if err != nil {
				t.Fatal(err)
			}
			if c.Reason == store.Applied {
				break
			}
		}
		for _, ref := range []zlnode.ActorRef{lost, kept} {
			_, err := zlnode.Request[int](w.ctx, a.Actor(ref.ID), "add", 1)
			wantKind(t, err, zlnode.Unavailable)
		}

		road.passAll()
		if total := w.addWhenItActs(a.Actor(kept.ID)); total != 2 {
			t.Errorf("total %d of what is its own; want the same actor", total)
		}
		if total, err := zlnode.Request[int](w.ctx, a.Actor(lost.ID), "add", 1); err == nil && total != 1 {
			t.Errorf("total %d of an actor whose id is reserved elsewhere", total)
		}
	})
}

// A node that might not act when it heard of a new epoch, as after a long absence, acts
// when all its rows are written again.
// req: FO-18
func TestANodeThatWasAwayInANewEpochFirstWritesItsRows(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		st := w.location()
		road := w.behindProxy()
		a := w.start(shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), counterApp())
		ref := w.createAt(a, "a")
		add := func() (int, error) { return zlnode.Request[int](w.ctx, a.Actor(ref.ID), "add", 1) }
		road.goAway()
		total := 0
		for {
			now, err := add()
			if err != nil {
				wantKind(t, err, zlnode.Unavailable)
				break
			}
			total = now
		}
		if _, err := st.RaiseEpoch(w.ctx); err != nil {
			t.Fatal(err)
		}
		road.barScript(lua.ObjectReassert)
		road.heal()
		for road.barred.Load() < 8 {
			_, err := add()
			wantKind(t, err, zlnode.Unavailable)
		}
		road.passAll()
		if now := w.addWhenItActs(a.Actor(ref.ID)); now != total+1 {
			t.Errorf("total %d after %d; want the same actor", now, total)
		}
	})
}

// The Store lost everything, the count of freed rows with it. That says nothing of the
// rows that are left to a node of which one was freed before.
func TestALostCountOfFreedRowsEndsNoActor(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		st := w.location()
		road := w.behindProxy()
		a := w.start(shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), counterApp())
		freed, kept := w.createAt(a, "a"), w.createAt(a, "a")
		if _, err := zlnode.Request[int](w.ctx, a.Actor(kept.ID), "add", 1); err != nil {
			t.Fatal(err)
		}
		road.goAway()
		row := w.wantRow(st, freed.ID, "its owner's end", func(row *store.Authority, _ bool) bool { return row.LeaseLeft <= 0 })
		if c, err := st.Free(w.ctx, store.FreeOf(&row, newOp())); err != nil || c.Reason != store.Applied {
			t.Fatal(c, err)
		}
		road.heal()
		for { // it has heard
			_, err := zlnode.Request[int](w.ctx, a.Actor(freed.ID), "add", 1)
			if zlnode.KindOf(err) == zlnode.NotFound {
				break
			}
			if w.ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		w.forget()
		w.wantRow(st, kept.ID, "its return", func(row *store.Authority, found bool) bool { return found && row.LeaseLeft > 0 })
		if total := w.addWhenItActs(a.Actor(kept.ID)); total != 2 {
			t.Errorf("total %d; want the same actor", total)
		}
	})
}

// A reservation's answer is lost until its target has found and run it: the caller gets
// its own creation's result, though the id is taken by then.
// req: CR-15
func TestACreationThatItsTargetFoundFirstIsItsCallersStill(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		st := w.location()
		entered, decide := make(chan struct{}), make(chan struct{})
		things := thingWorld{admit: func(c *zlnode.CreateActorCall) (zlnode.Admission, error) {
			switch c.Actor.ID() {
			case "refused":
				return zlnode.Reject([]byte("no")), nil
			case "slow":
				close(entered)
				<-decide
			}
			return zlnode.Accept([]byte("welcome")), nil
		}}
		a := w.server("a", things.app())
		if _, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: "first", Type: "thing"}); err != nil { // the Store knows the scripts
			t.Fatal(err)
		}
		direct := w.url
		type end struct {
			r   zlnode.Creation
			err error
		}
		ended := map[string]chan end{}
		roads := map[string]*storeProxy{}
		callers := map[string]*zlnode.Node{}
		for _, id := range []string{"taken", "refused", "slow"} {
			w.url = direct
			roads[id] = w.behindProxy()
			caller := w.start(zlnode.Config{RID: "caller-" + id, Role: zlnode.RoleClient, CreateTimeout: 25 * time.Second}, things.app())
			w.linked(caller, 1)
			callers[id] = caller
			roads[id].loseAnswerTo(lua.ObjectReserve)
			ended[id] = make(chan end, 1)
			go func() {
				r, err := caller.CreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "thing"})
				ended[id] <- end{r, err}
			}()
			receive(t, roads[id].lost)
		}
		row := w.wantRow(st, "taken", "Ready", func(row *store.Authority, found bool) bool { return found && row.State == store.Ready })
		w.wantRow(st, "refused", "its end", func(_ *store.Authority, found bool) bool { return !found })
		receive(t, entered)
		for _, road := range roads {
			road.heal()
		}
		if e := receive(t, ended["taken"]); e.err != nil || e.r.Outcome != zlnode.OutcomeCreated || string(e.r.Reply) != "welcome" ||
			e.r.Ref.ObjectGen != uint64(row.ObjectGen) || e.r.Ref.RID != "a" {
			t.Errorf("the creation: %+v, the row %+v", e, row)
		}
		if e := receive(t, ended["refused"]); e.err != nil || e.r.Outcome != zlnode.OutcomeRejected || string(e.r.Reply) != "no" {
			t.Errorf("the refusal: %+v", e)
		}
		for range 300 { // the last one asks while the creation runs
			_, _, _ = callers["slow"].FindActor(w.ctx, "first")
		}
		close(decide)
		if e := receive(t, ended["slow"]); e.err != nil || e.r.Outcome != zlnode.OutcomeCreated || string(e.r.Reply) != "welcome" {
			t.Errorf("the slow creation: %+v", e)
		}
		if n := things.factories.Load(); n != 4 {
			t.Errorf("%d factories ran for four creations", n)
		}
	})
}

// addWhenItActs adds one to a counter as soon as its node may act.
func (w *world) addWhenItActs(a zlnode.Addr) int {
	w.t.Helper()
	for {
		total, err := zlnode.Request[int](w.ctx, a, "add", 1)
		if err == nil {
			return total
		}
		if w.ctx.Err() != nil {
			w.t.Fatal(err)
		}
	}
}

// holding opens the world's Store as one who creates nothing in a young epoch.
func (w *world) holding(hold time.Duration) store.Store {
	w.t.Helper()
	s, err := redislua.Open(w.ctx, redislua.Options{URL: w.url, Namespace: w.namespace, RecoveryHold: hold})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// forgetRow removes a row, as if its last changes were lost.
func (w *world) forgetRow(id string) {
	w.t.Helper()
	c := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(w.url, "redis://"), Protocol: 2, DisableIdentity: true})
	defer func() { _ = c.Close() }()
	if n, err := c.Del(w.ctx, "{zl:"+w.namespace+"}:object:"+id).Result(); err != nil || n != 1 {
		w.t.Fatalf("row of %s: %d removed, %v", id, n, err)
	}
}
