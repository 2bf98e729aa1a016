package zlnode_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/scripts/lua"
)

// A Destroy whose answer was lost: the Actor may have lost its row, so it does not
// run until the Store has said so.
// req: FO-17
func TestADestroyWhoseAnswerIsLostNeverLeavesTwoActors(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		b := w.server("b", counterApp())
		road := w.behindProxy()
		a := w.server("a", counterApp())
		w.linked(b, 1)
		ref := w.createAt(b, "a")
		if _, err := zlnode.Request[int](w.ctx, b.Actor(ref.ID), "add", 1); err != nil {
			t.Fatal(err)
		}
		road.loseAnswerTo(lua.ObjectDelete)
		destroyed := make(chan error, 1)
		go func() {
			_, err := b.DestroyActor(w.ctx, ref)
			destroyed <- err
		}()
		receive(t, road.lost)
		// The row is gone; the id may be created elsewhere. What is left at a
		// answers nobody: it holds what comes, or says that it is gone.
		for range 20 {
			ctx, cancel := context.WithTimeout(w.ctx, 20*time.Millisecond)
			_, err := zlnode.Request[int](ctx, a.Actor(ref.ID), "add", 1)
			cancel()
			if k := zlnode.KindOf(err); k != zlnode.DeadlineExceeded && k != zlnode.Unavailable && k != zlnode.NotFound {
				t.Fatalf("an actor without a row answered: %v", err)
			}
		}
		road.heal()
		if err := receive(t, destroyed); err != nil {
			t.Errorf("destroy: %v", err)
		}
		r, err := b.CreateActor(w.ctx, zlnode.CreateActor{ID: ref.ID, Type: "counter"})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []*zlnode.Node{a, b} {
			for { // until the destroyed one has refused the last request that it held
				total, err := zlnode.Request[int](w.ctx, n.Actor(ref.ID), "add", 0)
				if err == nil {
					if total != 0 {
						t.Errorf("%s reaches an actor with total %d; the new one at %s has 0", n.RID(), total, r.Ref.RID)
					}
					break
				}
				if w.ctx.Err() != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A creation whose last answer was lost is not forgotten: the Actor is there when
// the Store is.
func TestACreationWhoseAnswerIsLostIsFinished(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		b := w.client("b", 0, counterApp())
		road := w.behindProxy()
		w.server("a", counterApp())
		w.linked(b, 1)
		road.loseAnswerTo(lua.ObjectFinish)
		created := make(chan error, 1)
		go func() {
			_, err := b.CreateActor(w.ctx, zlnode.CreateActor{ID: "x", Type: "counter"})
			created <- err
		}()
		receive(t, road.lost)
		road.heal()
		if err := receive(t, created); err != nil {
			t.Errorf("create: %v", err)
		}
		if total, err := zlnode.Request[int](w.ctx, b.Actor("x"), "add", 1); err != nil || total != 1 {
			t.Errorf("total %d %v", total, err)
		}
	})
}

// More creations than a node runs at once, with a decision that hangs past their
// deadlines: the target ends them all, though nobody asks and the decision still
// hangs, and their ids are free.
// req: CR-08
func TestCreationsThatNeverGotTheirTurnLeaveNothing(t *testing.T) {
	onEachStoreInTurn(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		things := thingWorld{admit: func(*zlnode.CreateActorCall) (zlnode.Admission, error) {
			<-release
			return zlnode.Accept(nil), nil
		}}
		w.server("a", things.app())
		c := w.start(zlnode.Config{RID: "c", Role: zlnode.RoleClient, CreateTimeout: 20 * time.Second}, things.app())
		w.linked(c, 1)
		const count = 300 // 256 run at once
		ctx, cancel := context.WithTimeout(w.ctx, 700*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for i := range count {
			wg.Go(func() {
				_, err := c.CreateActor(ctx, zlnode.CreateActor{ID: fmt.Sprint("t", i), Type: "thing"})
				if err == nil {
					t.Error("created though its decision hangs")
				}
			})
		}
		wg.Wait()
		st := w.location()
		for i := range count {
			for found := true; found; {
				var err error
				if _, found, err = st.Read(w.ctx, fmt.Sprint("t", i)); err != nil {
					t.Fatalf("t%d was never ended: %v", i, err)
				}
			}
		}
		close(release)
		for i := range count {
			wg.Go(func() {
				if _, err := c.GetOrCreateActor(w.ctx, zlnode.CreateActor{ID: fmt.Sprint("t", i), Type: "thing"}); err != nil {
					t.Errorf("t%d: %v", i, err)
				}
			})
		}
		wg.Wait()
	})
}

// One handler that hangs does not keep the others' ids from being freed.
func TestAHandlerThatHangsDelaysOnlyItsOwnActorsEnd(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		g := newGate()
		a, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), recorderApp(g))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			if _, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: fmt.Sprint("r", i), Type: "recorder"}); err != nil {
				t.Fatal(err)
			}
		}
		stopped := g.stop(t, w, a.Actor("r7"))
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		if err := a.Shutdown(ctx); err == nil {
			t.Error("the shutdown says nothing of the actor that hangs")
		}
		close(g.open)
		if err := receive(t, stopped); err != nil && zlnode.KindOf(err) != zlnode.ShuttingDown && zlnode.KindOf(err) != zlnode.Unavailable {
			t.Errorf("the request that hung: %v", err)
		}
		st := w.location()
		for i := range 20 {
			_, found, err := st.Read(w.ctx, fmt.Sprint("r", i))
			if err != nil || found != (i == 7) {
				t.Errorf("r%d: found %v %v", i, found, err)
			}
		}
	})
}
