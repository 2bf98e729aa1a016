package zlnode_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// thing is an Actor type whose factory and admission a test controls.
type thing struct{ made int64 }

type thingWorld struct {
	factories atomic.Int64 // runs of the factory
	factory   func(*zlnode.ActorContext) error
	admit     func(*zlnode.CreateActorCall) (zlnode.Admission, error)
}

func (w *thingWorld) app() *zlnode.App {
	app := zlnode.NewApp()
	zlnode.DefineActor(app, "thing", func(c *zlnode.ActorContext) (*thing, error) {
		n := w.factories.Add(1)
		if w.factory != nil {
			if err := w.factory(c); err != nil {
				return nil, err
			}
		}
		return &thing{made: n}, nil
	}, zlnode.DisableRelocation)
	if w.admit != nil {
		zlnode.OnCreateActor(app, w.admit)
	}
	return app
}

// S01: callers of three nodes race for one missing id.
// req: CR-01
func TestOneFactoryRunsHoweverManyRace(t *testing.T) {
	onEachStoreInTurn(t, func(t *testing.T, w *world) {
		var things thingWorld
		a, b := w.server("a", things.app()), w.server("b", things.app())
		c := w.client("c", 2, things.app())
		w.linked(a, 1)
		w.linked(b, 1)
		nodes := []*zlnode.Node{a, b, c}
		for round := range 5 {
			id := fmt.Sprint("thing-", round)
			before := things.factories.Load()
			var created, existing atomic.Int64
			refs := make([]zlnode.ActorRef, 60)
			var wg sync.WaitGroup
			for i := range refs {
				wg.Go(func() {
					r, err := nodes[i%3].GetOrCreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "thing"})
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
			if n := things.factories.Load() - before; n != 1 {
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
	})
}

func TestCreateOfAnIdThatExistsIsRefused(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var things thingWorld
		app := things.app()
		zlnode.DefineActor(app, "other", func(*zlnode.ActorContext) (*thing, error) { return &thing{}, nil }, zlnode.DisableRelocation)
		a := w.server("a", app)
		first, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "thing"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "thing"})
		wantKind(t, err, zlnode.AlreadyExists)
		_, err = a.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "other"})
		wantKind(t, err, zlnode.TypeMismatch)
		_, err = a.GetOrCreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "other"})
		wantKind(t, err, zlnode.TypeMismatch)
		again, err := a.GetOrCreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "thing"})
		if err != nil || again.Outcome != zlnode.OutcomeExisting || again.Ref != first.Ref {
			t.Errorf("get or create: %+v %v, want %+v", again, err, first.Ref)
		}
		if n := things.factories.Load(); n != 1 {
			t.Errorf("%d factories ran", n)
		}
	})
}

// req: CR-03
func TestPlacementGoesOnlyWhereTheActorFits(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var things thingWorld
		other := func() *zlnode.App {
			app := zlnode.NewApp()
			zlnode.DefineActor(app, "other", func(*zlnode.ActorContext) (*thing, error) { return &thing{}, nil }, zlnode.DisableRelocation)
			return app
		}
		w.start(zlnode.Config{RID: "a-small", Role: zlnode.RoleServer, MaxActors: 2}, things.app())
		w.start(zlnode.Config{RID: "b-cordoned", Role: zlnode.RoleServer, Weight: -1}, things.app())
		w.start(zlnode.Config{RID: "c-other", Role: zlnode.RoleServer}, other())
		w.start(zlnode.Config{RID: "d-small", Role: zlnode.RoleServer, MaxActors: 1}, things.app())
		c := w.client("z", 4, things.app())
		placed := map[string]int{}
		for i := range 3 {
			r, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: fmt.Sprint("t", i), Type: "thing"})
			if err != nil {
				t.Fatal(err)
			}
			placed[r.Ref.RID]++
		}
		if placed["a-small"] != 2 || placed["d-small"] != 1 {
			t.Errorf("placed %v", placed)
		}
		_, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: "t3", Type: "thing"})
		wantKind(t, err, zlnode.CapacityExceeded)
		_, err = c.CreateActor(w.ctx, zlnode.CreateActor{ID: "t4", Type: "nobody-has-it"})
		wantKind(t, err, zlnode.Unavailable)
	})
}

// S03: nothing of a creation is visible before it is done.
// req: CR-06 CR-11
func TestAcceptPublishesTheActorAtOnce(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		entered, decide := make(chan *thing), make(chan struct{})
		things := thingWorld{admit: func(c *zlnode.CreateActorCall) (zlnode.Admission, error) {
			var request string
			if err := c.DecodeRequest(&request); err != nil {
				return zlnode.Admission{}, err
			}
			entered <- c.Instance.(*thing)
			<-decide
			return zlnode.Accept([]byte("hello " + request + " " + c.Actor.ID())), nil
		}}
		a := w.server("a", things.app())
		c := w.client("c", 1, things.app())
		type end struct {
			r   zlnode.Creation
			err error
		}
		ended := make(chan end, 1)
		go func() {
			r, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "thing", Request: "me"})
			ended <- end{r, err}
		}()
		if staged := receive(t, entered); staged.made != 1 {
			t.Errorf("OnCreateActor got instance %d, the factory made 1", staged.made)
		}
		for _, n := range []*zlnode.Node{a, c} {
			if ref, found, err := n.FindActor(w.ctx, "x"); found || err != nil {
				t.Errorf("found before the decision: %+v %v", ref, err)
			}
			_, err := zlnode.Request[int](w.ctx, n.Actor("x"), "p", 0)
			wantKind(t, err, zlnode.NotFound)
		}
		close(decide)
		got := receive(t, ended)
		if got.err != nil || got.r.Outcome != zlnode.OutcomeCreated || string(got.r.Reply) != "hello me x" {
			t.Fatalf("%+v", got)
		}
		for _, n := range []*zlnode.Node{a, c} {
			if ref, found, err := n.FindActor(w.ctx, "x"); !found || err != nil || ref != got.r.Ref {
				t.Errorf("after the decision: %+v %v %v, want %+v", ref, found, err, got.r.Ref)
			}
		}
	})
}

// req: CR-07
func TestARejectedActorLeavesNothing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var refuse atomic.Bool
		refuse.Store(true)
		things := thingWorld{admit: func(*zlnode.CreateActorCall) (zlnode.Admission, error) {
			if refuse.Load() {
				return zlnode.Reject([]byte("no room for you")), nil
			}
			return zlnode.Accept(nil), nil
		}}
		// One slot: were it not given back, the second creation could not succeed.
		w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer, MaxActors: 1}, things.app())
		c := w.client("c", 1, things.app())
		r, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "thing"})
		if err != nil || r.Outcome != zlnode.OutcomeRejected || string(r.Reply) != "no room for you" {
			t.Fatalf("%+v %v", r, err)
		}
		if _, found, err := c.FindActor(w.ctx, "x"); found || err != nil {
			t.Errorf("a rejected actor is found: %v", err)
		}
		_, err = zlnode.Request[int](w.ctx, c.Actor("x"), "p", 0)
		wantKind(t, err, zlnode.NotFound)
		refuse.Store(false)
		if r, err = c.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "thing"}); err != nil || r.Outcome != zlnode.OutcomeCreated {
			t.Fatalf("second try: %+v %v", r, err)
		}
	})
}

// req: CR-08
func TestAFailedCreationLeavesNothing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		stuck := make(chan struct{})
		defer close(stuck)
		var how atomic.Pointer[string]
		fails := func() error {
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
		var inFactory atomic.Bool
		things := thingWorld{
			factory: func(*zlnode.ActorContext) error {
				if inFactory.Load() {
					return fails()
				}
				return nil
			},
			admit: func(*zlnode.CreateActorCall) (zlnode.Admission, error) {
				if inFactory.Load() {
					return zlnode.Accept(nil), nil
				}
				return zlnode.Accept(nil), fails()
			},
		}
		w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer, MaxActors: 1}, things.app())
		c := w.client("c", 1, things.app())
		for _, in := range []bool{true, false} {
			inFactory.Store(in)
			for name, kind := range map[string]zlnode.Kind{
				"error": zlnode.Rejected, "plain error": zlnode.InternalFailure, "panic": zlnode.InternalFailure, "hang": zlnode.DeadlineExceeded,
			} {
				how.Store(&name)
				ctx, cancel := w.ctx, context.CancelFunc(func() {})
				if name == "hang" {
					ctx, cancel = context.WithTimeout(w.ctx, 300*time.Millisecond)
				}
				_, err := c.CreateActor(ctx, zlnode.CreateActor{ID: "x", Type: "thing"})
				cancel()
				wantKind(t, err, kind)
				// The clean-up after a deadline may still be on its way to the
				// Store; a creator that waits for the id's end then gets its turn.
				fine := "fine"
				how.Store(&fine)
				r, err := c.GetOrCreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "thing"})
				if err != nil || r.Outcome != zlnode.OutcomeCreated {
					t.Fatalf("after %s (in factory %v): %+v %v", name, in, r, err)
				}
				if gone, err := c.DestroyActor(w.ctx, r.Ref); !gone || err != nil {
					t.Fatalf("destroy: %v %v", gone, err)
				}
			}
		}
	})
}

// req: CR-13
func TestOneDeadlineCoversAWholeCreation(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		var deadline atomic.Pointer[time.Time]
		things := thingWorld{admit: func(c *zlnode.CreateActorCall) (zlnode.Admission, error) {
			at, ok := c.Deadline()
			if !ok {
				return zlnode.Admission{}, errors.New("the decision has no deadline")
			}
			if deadline.CompareAndSwap(nil, &at) {
				<-c.Done() // so the first attempt fails, as it need not if it were faster
				<-release
			}
			return zlnode.Accept(nil), nil
		}}
		w.server("a", things.app())
		c := w.client("c", 1, things.app())
		ctx, cancel := context.WithTimeout(w.ctx, 400*time.Millisecond)
		defer cancel()
		asked, _ := ctx.Deadline()
		waited := make(chan error, 1)
		go func() { // a second caller waits for the first one's creation, to its own deadline
			_, err := c.GetOrCreateActor(ctx, zlnode.CreateActor{ID: "x", Type: "thing"})
			waited <- err
		}()
		_, err := c.GetOrCreateActor(ctx, zlnode.CreateActor{ID: "x", Type: "thing"})
		wantKind(t, err, zlnode.DeadlineExceeded)
		wantKind(t, receive(t, waited), zlnode.DeadlineExceeded)
		if at := deadline.Load(); at == nil || at.After(asked.Add(50*time.Millisecond)) {
			t.Errorf("the target's deadline is %v, the caller's %v", at, asked)
		}
		close(release)
		// The next call reads anew: the failed attempt is cleaned up and it creates.
		r, err := c.GetOrCreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "thing"})
		if err != nil || r.Outcome != zlnode.OutcomeCreated {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// req: ID-01
func TestIdsAreExactAndGlobal(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		a, b := w.server("a", counterApp()), w.server("b", counterApp())
		w.linked(a, 1)
		w.linked(b, 1)
		ids := []string{
			"x", "X", "é", "e\u0301", // case-sensitive, not normalised
			strings.Repeat("l", 255), "{a}:b", "a b\nc\x00d", "日本",
		}
		refs := map[uint64]string{}
		for i, id := range ids {
			r, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "counter"})
			if err != nil {
				t.Fatalf("%q: %v", id, err)
			}
			if other, twice := refs[r.Ref.ObjectGen]; twice {
				t.Errorf("%q and %q are one actor", id, other)
			}
			refs[r.Ref.ObjectGen] = id
			for _, n := range []*zlnode.Node{a, b} { // the id is enough, from anywhere
				if err := zlnode.Send(w.ctx, n.Actor(id), "add", i); err != nil {
					t.Errorf("%q from %s: %v", id, n.RID(), err)
				}
			}
		}
		for i, id := range ids {
			for try := 0; ; try++ { // the two sends come over different ways
				total, err := zlnode.Request[int](w.ctx, b.Actor(id), "add", 0)
				if err != nil {
					t.Fatalf("%q: %v", id, err)
				}
				if total == 2*i {
					break
				}
				if try == 10_000 {
					t.Fatalf("%q: total %d, want %d", id, total, 2*i)
				}
			}
		}
		for _, id := range []string{"", strings.Repeat("l", 256), "\xff"} {
			_, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "counter"})
			wantKind(t, err, zlnode.InvalidOperation)
			_, _, err = a.FindActor(w.ctx, id)
			wantKind(t, err, zlnode.InvalidOperation)
			wantKind(t, zlnode.Send(w.ctx, a.Actor(id), "add", 1), zlnode.InvalidOperation)
		}
	})
}

// S08 and:
// req: ID-03
func TestGenerationsTellIncarnationsApart(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		w.server("a", counterApp())
		w.server("b", counterApp())
		c := w.client("c", 2, counterApp())
		create := func() zlnode.ActorRef {
			t.Helper()
			r, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "counter"})
			if err != nil {
				t.Fatal(err)
			}
			return r.Ref
		}
		old := create()
		if old.ObjectGen == 0 || old.ObjectGen >= 1<<63 {
			t.Errorf("generation %d", old.ObjectGen)
		}
		b, err := json.Marshal(old)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`"objectGeneration":"%d"`, old.ObjectGen); !strings.Contains(string(b), want) {
			t.Errorf("%s does not show %s", b, want)
		}
		if _, err := zlnode.Request[int](w.ctx, c.Actor("x"), "add", 5); err != nil {
			t.Fatal(err)
		}
		if gone, err := c.DestroyActor(w.ctx, old); !gone || err != nil {
			t.Fatalf("destroy: %v %v", gone, err)
		}
		if gone, err := c.DestroyActor(w.ctx, old); gone || err != nil {
			t.Errorf("second destroy: %v %v", gone, err)
		}
		_, err = zlnode.Request[int](w.ctx, c.Actor("x"), "add", 1)
		wantKind(t, err, zlnode.NotFound)
		now := create()
		if now.ObjectGen <= old.ObjectGen {
			t.Errorf("generation %d after %d", now.ObjectGen, old.ObjectGen)
		}
		_, err = c.DestroyActor(w.ctx, old)
		wantKind(t, err, zlnode.InvalidOperation)
		total, err := zlnode.Request[int](w.ctx, c.Actor("x"), "add", 1)
		if err != nil || total != 1 { // by id: the new incarnation, wherever it is
			t.Errorf("total %d %v", total, err)
		}
	})
}

// req: ID-07
func TestANodeWithAnObjectRoleNeedsAStore(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, role := range []zlnode.Role{zlnode.RoleClient, zlnode.RoleServer} {
		// Were a socket opened first, the error would be about the address.
		_, err := zlnode.Start(t.Context(), zlnode.Config{Role: role, MeshKey: meshKey, Listen: taken.Addr().String()}, counterApp())
		wantKind(t, err, zlnode.NotConfigured)
	}
	n, err := zlnode.Start(t.Context(), zlnode.Config{}, zlnode.NewApp())
	if err != nil {
		t.Fatalf("role None: %v", err)
	}
	_, err = n.CreateActor(t.Context(), zlnode.CreateActor{ID: "x", Type: "counter"})
	wantKind(t, err, zlnode.NotConfigured) // no hidden local object manager
	wantKind(t, zlnode.Send(t.Context(), n.Actor("x"), "add", 1), zlnode.NotConfigured)
	if err := n.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
