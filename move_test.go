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
