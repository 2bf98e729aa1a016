package zlnode_test

import (
	"slices"
	"testing"

	"github.com/zlnode/zlnode"
)

// req: JN-01, JN-08, PO-04
func TestAnActorMovesWithItsState(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		walk := &walkWorld{}
		app := walk.preserving()
		w.server("a", app)
		w.server("b", app)
		c := w.client("c", 2, app)
		spot := w.createSpotAt(c, "b", "wide")
		ref := w.createActorAt(c, "a", "walker")
		if _, err := zlnode.Request[[]string](w.ctx, c.Actor(ref.ID), "ask", "c 1"); err != nil {
			t.Fatal(err)
		}
		if _, err := zlnode.Request[struct{}](w.ctx, c.Actor(ref.ID), "join", walkTo{Spot: spot.ID}); err != nil {
			t.Fatal(err)
		}
		got, err := zlnode.Request[[]string](w.ctx, c.Actor(ref.ID), "ask", "c 2")
		if want := []string{"c 1", "c 2"}; err != nil || !slices.Equal(got, want) {
			t.Fatalf("executed %v, want %v: %v", got, want, err)
		}
		done := receive(t, walk.ended)
		if done.Outcome != zlnode.JoinAccepted || done.Ref.RID != "b" || done.Ref.ObjectGen != ref.ObjectGen || done.Ref.OwnerGen <= ref.OwnerGen {
			t.Errorf("the join ended with %+v, the actor was %+v", done, ref)
		}
		where, err := zlnode.Request[string](w.ctx, c.Actor(ref.ID), "where", struct{}{})
		if err != nil || where != "b "+spot.ID {
			t.Errorf("it is at %q: %v", where, err)
		}
	})
}

func TestANodeCountsItsMovesAndHowLongTheyTook(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		walk := &walkWorld{}
		app := walk.preserving()
		a, b := w.server("a", app), w.server("b", app)
		c := w.client("c", 2, app)
		here, there := w.createSpotAt(c, "a", "wide"), w.createSpotAt(c, "b", "wide")
		ref := w.createActorAt(c, "a", "walker")
		for _, spot := range []string{here.ID, there.ID} { // the first is no move
			if _, err := zlnode.Request[struct{}](w.ctx, c.Actor(ref.ID), "join", walkTo{Spot: spot}); err != nil {
				t.Fatal(err)
			}
			if done := receive(t, walk.ended); done.Outcome != zlnode.JoinAccepted {
				t.Fatalf("%+v", done)
			}
		}
		w.eventually("both nodes know that the actor has moved", func() bool {
			return a.Stats().Moves.Out == 1 && b.Stats().Moves.TargetResume.Count == 1
		})
		out, in := a.Stats().Moves, b.Stats().Moves
		if out.In != 0 || in.In != 1 || in.Out != 0 {
			t.Errorf("the source counts %+v, the target %+v", out, in)
		}
		for name, s := range map[string]zlnode.Spread{"stop of the source": out.SourceStop, "resume of the target": in.TargetResume} {
			if s.Count != 1 || s.Max <= 0 || s.P50 != s.Max || s.P99 != s.Max {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if out.TargetResume != (zlnode.Spread{}) || in.SourceStop != (zlnode.Spread{}) {
			t.Errorf("the source resumed %+v, the target stopped %+v", out.TargetResume, in.SourceStop)
		}
	})
}
