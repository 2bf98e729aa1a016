package zlnode_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// The row is another incarnation's by the time that the target looks.
// req: JN-09, FO-09
func TestATargetRefusesAnotherIncarnation(t *testing.T) {
	small := crossingOptions{servers: func(c zlnode.Config) zlnode.Config {
		if c.RID == "a" {
			c.MaxActors = 1
		}
		return c
	}}
	onCrossing(t, small, func(t *testing.T, x *crossing) {
		st := x.location()
		asked := x.roads.At(stallBefore, "a", "b", wire.CmdJoinAdmit, 1)
		x.goes(walkTo{})
		receive(t, asked.Reached)
		row, found, err := st.Read(x.ctx, x.ref.ID)
		if !found || err != nil {
			t.Fatal(found, err)
		}
		if c, err := st.Delete(x.ctx, store.FenceOf(&row), store.OpID{1}); err != nil || c.Reason != store.Applied {
			t.Fatal(c.Reason, err)
		}
		x.createActorAt(x.c, "a", "walker") // which is full now
		r, err := x.c.CreateActor(x.ctx, zlnode.CreateActor{ID: row.ID, Type: "walker"})
		if err != nil || r.Ref.RID != "b" {
			t.Fatal(r.Ref, err)
		}
		x.roads.GoOn("a", "b")
		done := receive(t, x.walk.ended)
		if done.Outcome != zlnode.JoinFailed || zlnode.KindOf(done.Err) != zlnode.InvalidOperation {
			t.Errorf("the join ended %v with %v", done.Outcome, done.Err)
		}
		if did := x.walk.notes.of("did"); !slices.Equal(did, []string{"completed Failed at a"}) {
			t.Errorf("it did %q", did)
		}
		if got, err := zlnode.Request[[]string](x.ctx, x.b.Actor(row.ID), "ask", "new"); err != nil || len(got) != 1 {
			t.Errorf("the new one has executed %q: %v", got, err)
		}
	})
}

// The row is not as its owner knows it: the target asks nobody, whoever is right, and the Actor
// goes on where it is.
// req: JN-09, RL-02
func TestATargetRefusesARowThatIsNotAsItsOwnerSays(t *testing.T) {
	applied := func(t *testing.T, c store.Change, err error) store.Authority {
		t.Helper()
		if err != nil || c.Reason != store.Applied {
			t.Fatal(c.Reason, err)
		}
		return c.Record
	}
	for _, c := range []struct {
		name string
		now  func(t *testing.T, x *crossing, st store.Store, row *store.Authority) (undo func())
	}{
		{"its membership has changed", func(t *testing.T, x *crossing, st store.Store, row *store.Authority) func() {
			change := func(row *store.Authority, spot string, user bool) store.Authority {
				c, err := st.ChangeSpot(x.ctx, store.ChangeSpot{Fence: store.FenceOf(row), Op: newOp(), SpotID: spot, InUserSpot: user})
				return applied(t, c, err)
			}
			now := change(row, x.createSpotAt(x.c, "a", "single").ID, true)
			return func() { change(&now, row.SpotID, false) }
		}},
		{"it moves already", func(t *testing.T, x *crossing, st store.Store, row *store.Authority) func() {
			c, err := st.ReserveMove(x.ctx, store.ReserveMove{
				Fence: store.FenceOf(row), Op: newOp(), Epoch: row.Epoch, Relocation: store.RelocationID{9}, Attempt: 1, Validity: time.Minute,
				TargetRID: "b", TargetLifecycle: store.LeaseGen(x.b.Lifecycle()), SpotID: x.spot.ID, InUserSpot: true,
			})
			now := applied(t, c, err)
			return func() {
				owner := store.Lease{RID: row.RID, OwnerID: row.OwnerID, Gen: row.LeaseGen}
				c, err := st.EndMove(x.ctx, store.EndOf(&now, store.Source, owner, newOp()))
				applied(t, c, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
				x.ticking()
				entry := x.entryOf()
				x.asks(x.c, "before")
				st := x.location()
				asked := x.roads.At(stallBefore, "a", "b", wire.CmdJoinAdmit, 1)
				x.goes(walkTo{Timeout: 20 * time.Second})
				x.tells(x.a, "moving-1")
				receive(t, asked.Reached)
				row, found, err := st.Read(x.ctx, x.ref.ID)
				if err != nil || !found {
					t.Fatal(found, err)
				}
				undo := c.now(t, x, st, &row)
				x.roads.GoOn("a", "b")
				done := receive(t, x.walk.ended)
				if done.Outcome != zlnode.JoinFailed || zlnode.KindOf(done.Err) != zlnode.Unavailable {
					t.Errorf("the join ended %v with %v", done.Outcome, done.Err)
				}
				undo()
				x.unmoved(entry)
				if did := x.walk.notes.of("did"); !slices.Equal(did, []string{"completed Failed at a"}) {
					t.Errorf("it did %q", did)
				}
			})
		})
	}
}

// A node that stops before the target is ready keeps its Actors, and ends them.
// req: JN-09, JN-13
func TestASourceThatStopsFailsItsMoves(t *testing.T) {
	for _, at := range []struct {
		name string
		stop func(t *testing.T, x *crossing) (reached <-chan struct{})
	}{
		{"while it asks for admission", func(_ *testing.T, x *crossing) <-chan struct{} {
			return x.roads.At(stallBefore, "a", "b", wire.CmdJoinAdmit, 1).Reached
		}},
		{"while the target restores", func(_ *testing.T, x *crossing) <-chan struct{} {
			entered, _ := x.inRestore()
			return entered
		}},
	} {
		t.Run(at.name, func(t *testing.T) {
			onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
				x.asks(x.c, "before")
				reached := at.stop(t, x)
				x.goes(walkTo{Timeout: 20 * time.Second})
				x.tells(x.a, "moving-1")
				receive(t, reached)
				stopped := make(chan struct{})
				go func() {
					defer close(stopped)
					x.stop(x.a)
				}()
				done := receive(t, x.walk.ended)
				if done.Outcome != zlnode.JoinFailed || zlnode.KindOf(done.Err) != zlnode.ShuttingDown {
					t.Errorf("the join ended %v with %v", done.Outcome, done.Err)
				}
				receive(t, stopped)
				if ran := x.walk.notes.of("ran a"); !slices.Equal(ran, x.told) {
					t.Errorf("%q ran, want %q", ran, x.told)
				}
				if did := x.walk.notes.of("did"); !slices.Contains(did, "completed Failed at a") || slices.Contains(did, "completed Accepted at b") {
					t.Errorf("it did %q", did)
				}
				x.roads.GoOn("a", "b")
				x.release()
				if _, found, err := x.location().Read(x.ctx, x.ref.ID); found || err != nil {
					t.Errorf("its row is left: %v", err)
				}
			})
		})
	}
}

// A target that stops before it is ready says so, and takes nothing.
// req: JN-09
func TestATargetThatStopsTakesNothing(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		x.bound().ticking()
		entry := x.entryOf()
		x.asks(x.c, "before")
		entered, release := x.inRestore()
		x.goes(walkTo{Timeout: 20 * time.Second})
		x.tells(x.a, "moving-1")
		receive(t, entered)
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			x.stop(x.b)
		}()
		st := x.location()
		x.await("it stops", func() bool {
			list, err := st.ListNodes(x.ctx, 0)
			return err == nil && slices.ContainsFunc(list.Nodes, func(d store.Descriptor) bool { return d.RID == "b" && d.State == store.Draining })
		})
		late := time.Now().Add(300 * time.Millisecond) // and has told its moves so
		x.await("it has", func() bool { return time.Now().After(late) })
		release()
		x.stays(zlnode.ShuttingDown, entry)
		receive(t, stopped)
	})
}
