package zlnode_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
	"github.com/zlnode/zlnode/store/redislua"
)

// location opens the world's Store beside its nodes.
func (w *world) location() store.Store {
	w.t.Helper()
	s, err := redislua.Open(w.ctx, redislua.Options{URL: w.url, Namespace: w.namespace, RecoveryHold: -1})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// shortLease lets a dead node's lease end within a test.
func shortLease(c zlnode.Config) zlnode.Config {
	c.LeaseRenew, c.LeaseTimeout, c.LeaseTTL, c.LeaseMargin = 200*time.Millisecond, 400*time.Millisecond, 1500*time.Millisecond, 500*time.Millisecond
	return c
}

// hang sends a request whose handler waits for ever, and returns when it does.
// The witness, a counter, is told by it.
func (w *world) hang(a, witness zlnode.Addr) (ended <-chan error) {
	w.t.Helper()
	c := make(chan error, 1)
	go func() {
		_, err := zlnode.Request[int](w.ctx, a, "hang", witness.ID())
		c <- err
	}()
	for {
		total, err := zlnode.Request[int](w.ctx, witness, "add", 0)
		if err != nil {
			w.t.Fatal(err)
		}
		if total > 0 {
			return c
		}
	}
}

// createAt creates counters until one is at the node rid.
func (w *world) createAt(n *zlnode.Node, rid string) zlnode.ActorRef {
	w.t.Helper()
	for range 100 {
		w.made++
		r, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: fmt.Sprint("counter-", w.made), Type: "counter"})
		if err != nil {
			w.t.Fatal(err)
		}
		if r.Ref.RID == rid {
			return r.Ref
		}
	}
	w.t.Fatalf("no actor was placed at %s", rid)
	panic("unreachable")
}

// besideAVictim starts an object server in a process of its own, another one and a client,
// all with a short lease.
func (w *world) besideAVictim() (victim *child, server, client *zlnode.Node) {
	w.t.Helper()
	victim = w.child(shortLease(zlnode.Config{RID: "a-victim", Role: zlnode.RoleServer}))
	server = w.start(shortLease(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), counterApp())
	client = w.start(shortLease(zlnode.Config{RID: "c", Role: zlnode.RoleClient}), counterApp())
	w.linked(client, 2)
	w.linked(server, 1)
	return victim, server, client
}

// An Actor whose node is killed is Unavailable: for those who were waiting, at
// once afterwards, and after the lease has ended; nobody takes it over and its
// row is left alone.
// req: FO-10 FO-02
func TestADeadOwnersActorIsUnavailable(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		victim, b, c := w.besideAVictim()
		ref := w.createAt(c, "a-victim")
		other := w.createAt(c, "b")
		actor := c.Actor(ref.ID)
		if _, err := zlnode.Request[int](w.ctx, actor, "add", 1); err != nil {
			t.Fatal(err)
		}
		st := w.location()
		before, found, err := st.Read(w.ctx, ref.ID)
		if !found || err != nil {
			t.Fatal(found, err)
		}

		waiting := w.hang(actor, c.Actor(other.ID))
		victim.kill()
		wantKind(t, receive(t, waiting), zlnode.Unavailable)

		for row := before; row.LeaseLeft > 0; { // until the lease has ended
			_, err := zlnode.Request[int](w.ctx, actor, "add", 1)
			wantKind(t, err, zlnode.Unavailable)
			wantKind(t, zlnode.Send(w.ctx, actor, "add", 1), zlnode.Unavailable)
			if row, found, err = st.Read(w.ctx, ref.ID); !found || err != nil {
				t.Fatal(found, err)
			}
		}
		_, err = zlnode.Request[int](w.ctx, b.Actor(ref.ID), "add", 1)
		wantKind(t, err, zlnode.Unavailable)
		_, _, err = c.FindActor(w.ctx, ref.ID)
		wantKind(t, err, zlnode.Unavailable)
		_, err = c.GetOrCreateActor(w.ctx, zlnode.CreateActor{ID: ref.ID, Type: "counter"})
		wantKind(t, err, zlnode.Unavailable)
		_, err = c.CreateActor(w.ctx, zlnode.CreateActor{ID: ref.ID, Type: "counter"})
		wantKind(t, err, zlnode.AlreadyExists)

		after, found, err := st.Read(w.ctx, ref.ID)
		if !found || err != nil {
			t.Fatal(found, err)
		}
		before.LeaseLeft, after.LeaseLeft = 0, 0
		if before != after {
			t.Errorf("the row changed:\n%+v\n%+v", before, after)
		}
		// The living are not touched.
		if total, err := zlnode.Request[int](w.ctx, c.Actor(other.ID), "add", 1); err != nil || total != 2 {
			t.Errorf("actor of the living node: %d %v", total, err)
		}
	})
}

// One peer's end, orderly or not, acts at once, and stops neither other peers
// nor the Actors here.
// req: FO-07
func TestOnePeersEndTouchesNobodyElse(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		killed := w.child(zlnode.Config{RID: "a-killed", Role: zlnode.RoleServer})
		leaving, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "b-leaving", Role: zlnode.RoleServer}), counterApp())
		if err != nil {
			t.Fatal(err)
		}
		staying := w.server("c-staying", counterApp())
		own := w.server("d-own", counterApp())
		w.linked(own, 3)
		w.linked(staying, 3)
		actors := map[string]zlnode.Addr{}
		for _, rid := range []string{"a-killed", "b-leaving", "c-staying", "d-own"} {
			ref := w.createAt(own, rid)
			actors[rid] = own.Actor(ref.ID)
		}
		alive := func(rid string) {
			t.Helper()
			if _, err := zlnode.Request[int](w.ctx, actors[rid], "add", 1); err != nil {
				t.Errorf("actor at %s: %v", rid, err)
			}
		}
		for rid := range actors {
			alive(rid)
		}
		start := time.Now()
		waiting := w.hang(actors["a-killed"], own.Actor(w.createAt(own, "d-own").ID))
		killed.kill()
		wantKind(t, receive(t, waiting), zlnode.Unavailable)
		if d := time.Since(start); d > 10*time.Second { // liveness alone would take 15 s
			t.Errorf("a closed connection took %v to be noticed", d)
		}
		alive("b-leaving")
		alive("c-staying")
		alive("d-own")
		w.stop(leaving)
		_, err = zlnode.Request[int](w.ctx, actors["b-leaving"], "add", 1)
		if k := zlnode.KindOf(err); k != zlnode.NotFound && k != zlnode.Unavailable { // gone, or by a route of a moment ago
			t.Errorf("actor of the node that left: %v", err)
		}
		if _, found, err := own.FindActor(w.ctx, actors["b-leaving"].ID()); found || err != nil {
			t.Errorf("the node that left kept its actor in the Store: %v", err)
		}
		alive("c-staying")
		alive("d-own")
		if err := own.Err(); err != nil {
			t.Errorf("the node is in error: %v", err)
		}
	})
}

func TestAnOrderlyStopFreesIdsAndLease(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		first, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), counterApp())
		if err != nil {
			t.Fatal(err)
		}
		old := w.createAt(first, "a")
		w.stop(first)
		again := w.server("a", counterApp()) // the RID is free at once
		if again.Lifecycle() <= first.Lifecycle() {
			t.Errorf("lifecycle %d after %d", again.Lifecycle(), first.Lifecycle())
		}
		r, err := again.CreateActor(w.ctx, zlnode.CreateActor{ID: old.ID, Type: "counter"})
		if err != nil || r.Ref.ObjectGen <= old.ObjectGen {
			t.Errorf("%+v %v", r, err)
		}
	})
}

func TestASecondProcessOfARunningRIDIsRefused(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.server("a", counterApp())
		ctx, cancel := context.WithTimeout(w.ctx, 300*time.Millisecond)
		defer cancel()
		_, err := zlnode.Start(ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), counterApp())
		if err == nil {
			t.Fatal("two processes run with one RID")
		}
		if k := zlnode.KindOf(err); k != zlnode.AlreadyExists && k != zlnode.DeadlineExceeded {
			t.Errorf("%v", err)
		}
	})
}

// A node that loses its lease to another process acts no more.
func TestASupersededNodeStopsActing(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		cfg := shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer})
		a, err := zlnode.Start(w.ctx, w.config(cfg), counterApp())
		if err != nil {
			t.Fatal(err)
		}
		ref := w.createAt(a, "a")
		st := w.location()
		row, _, err := st.Read(w.ctx, ref.ID)
		if err != nil {
			t.Fatal(err)
		}
		// Somebody ends the lease and takes it, as after a long pause of a.
		if _, err := st.ReleaseLease(w.ctx, store.Lease{RID: "a", OwnerID: row.OwnerID, Gen: row.LeaseGen}); err != nil {
			t.Fatal(err)
		}
		r, err := st.AcquireLease(w.ctx, "a", "another-process", time.Minute)
		if err != nil || r.Reason != store.Applied {
			t.Fatal(r, err)
		}
		receive(t, a.Done())
		if a.Err() == nil {
			t.Error("Err tells no reason")
		}
		_, err = zlnode.Request[int](w.ctx, a.Actor(ref.ID), "add", 1)
		wantKind(t, err, zlnode.Unavailable)
		_, err = a.CreateActor(w.ctx, zlnode.CreateActor{ID: "new", Type: "counter"})
		wantKind(t, err, zlnode.Unavailable)
		ctx, cancel := context.WithTimeout(w.ctx, 2*time.Second)
		defer cancel()
		_ = a.Shutdown(ctx) // it may not remove what is not its own any more
		if now, found, err := st.Read(w.ctx, ref.ID); err != nil || !found || now.Version != row.Version {
			t.Errorf("the superseded node changed the row: %+v %v %v", now, found, err)
		}
	})
}

func TestAStoreThatDoesNotAnswerIsNamed(t *testing.T) {
	w := newWorld(t, "redis://127.0.0.1:1") // nothing listens on port 1
	_, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), counterApp())
	wantKind(t, err, zlnode.Unavailable)
	if !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("the error does not name the address: %v", err)
	}
}

// Large replies that all come at once may find no room on the link, and then say
// so; they do not take the link, and what hangs on it, down with them.
func TestAFloodOfLargeRepliesLeavesTheLinkAlone(t *testing.T) {
	onEachStoreInTurn(t, func(t *testing.T, w *world) {
		w.server("a", recorderApp(nil))
		c := w.client("c", 1, recorderApp(nil))
		const actors = 64
		payload := make([]byte, 1<<20)
		for i := range actors {
			r, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: fmt.Sprint("r", i), Type: "recorder"})
			if err != nil {
				t.Fatal(err)
			}
			// The route is known before: the Store has no part in this.
			if _, found, err := c.FindActor(w.ctx, r.Ref.ID); err != nil || !found {
				t.Fatal(found, err)
			}
		}
		var wg sync.WaitGroup
		for i := range actors {
			wg.Go(func() {
				reply, err := c.Actor(fmt.Sprint("r", i)).RequestRaw(w.ctx, "echo", payload)
				switch {
				case err == nil:
					reply.Release()
				case strings.Contains(err.Error(), "link"), zlnode.KindOf(err) == zlnode.DeadlineExceeded:
				default:
					t.Errorf("r%d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if n := c.Stats().Peers; n != 1 {
			t.Fatalf("%d links are left", n)
		}
		if _, err := zlnode.Request[int](w.ctx, c.Actor("r0"), "note", 1); err != nil {
			t.Errorf("after the flood: %v", err)
		}
	})
}

// A node that destroys an Actor and creates its id anew elsewhere reaches the new
// one with its next message, one-way or not.
func TestANewIncarnationIsReachedAtOnceByItsCreator(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.server("a", counterApp())
		w.server("b", counterApp())
		c := w.client("c", 2, counterApp())
		where := ""
		moved := false
		for i := 0; i < 20 || !moved; i++ {
			r, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "counter"})
			if err != nil {
				t.Fatal(err)
			}
			moved = moved || where != "" && where != r.Ref.RID
			where = r.Ref.RID
			if err := zlnode.Send(w.ctx, c.Actor("x"), "add", 5); err != nil {
				t.Fatal(err)
			}
			if total, err := zlnode.Request[int](w.ctx, c.Actor("x"), "add", 0); err != nil || total != 5 {
				t.Fatalf("incarnation %d at %s: total %d %v, want 5", r.Ref.ObjectGen, where, total, err)
			}
			if gone, err := c.DestroyActor(w.ctx, r.Ref); !gone || err != nil {
				t.Fatalf("destroy: %v %v", gone, err)
			}
		}
	})
}

// A node whose route is old reaches the present incarnation with its next request:
// the node that it asks first does not have the Actor and says so.
// req: FO-01 FO-09
func TestAnOldRouteIsMendedByTheNextRequest(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.server("a", counterApp())
		w.server("b", counterApp())
		c, d := w.client("c", 2, counterApp()), w.client("d", 2, counterApp())
		first, err := d.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "counter"})
		if err != nil {
			t.Fatal(err)
		}
		if total, err := zlnode.Request[int](w.ctx, c.Actor("x"), "add", 7); err != nil || total != 7 { // c has a route now
			t.Fatal(total, err)
		}
		for now := first; now.Ref.RID == first.Ref.RID; {
			if gone, err := d.DestroyActor(w.ctx, now.Ref); !gone || err != nil {
				t.Fatalf("destroy: %v %v", gone, err)
			}
			if now, err = d.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "counter"}); err != nil {
				t.Fatal(err)
			}
		}
		if total, err := zlnode.Request[int](w.ctx, c.Actor("x"), "add", 1); err != nil || total != 1 {
			t.Errorf("by the old route: total %d %v, want 1 of the new incarnation", total, err)
		}
	})
}

// A Store that does not answer when a node begins to stop, and soon does, is told, too, and all
// ends in order.
// req: CL-02
func TestANodeThatStopsTellsAStoreThatComesBack(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		direct := w.url
		road := w.behindProxy()
		n := w.server("a", counterApp())
		w.url = direct
		r, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: "c", Type: "counter"})
		if err != nil {
			t.Fatal(err)
		}
		road.barScript(lua.NodePublish)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			w.stop(n)
		}()
		w.eventually("it is tried", func() bool { return road.barred.Load() > 1 })
		road.passAll()
		receive(t, stopped)
		if _, found, err := w.location().Read(w.ctx, r.Ref.ID); found || err != nil {
			t.Errorf("its actor's row is left: %v", err)
		}
	})
}
