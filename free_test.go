package zlnode_test

import (
	"testing"

	"github.com/zlnode/zlnode"
)

// Nobody but who names a dead owner's Actor exactly frees it; then its id is free, once.
// req: FO-10
func TestADeadOwnersActorIsFreedByItsExactRef(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		victim, b, c := w.besideAVictim()
		ref := w.createAt(c, "a-victim")
		if _, err := zlnode.Request[int](w.ctx, c.Actor(ref.ID), "add", 7); err != nil {
			t.Fatal(err)
		}
		victim.kill()
		_, err := c.DestroyActor(w.ctx, ref) // its lease is not over, so it may live
		wantKind(t, err, zlnode.Unavailable)
		st := w.location()
		for left := true; left; {
			row, found, err := st.Read(w.ctx, ref.ID)
			if !found || err != nil {
				t.Fatal(found, err)
			}
			left = row.LeaseLeft > 0
		}
		found, there, err := c.FindActor(w.ctx, ref.ID)
		wantKind(t, err, zlnode.Unavailable)
		if there || found != ref {
			t.Errorf("found %+v, %v; want the ref %+v", found, there, ref)
		}
		vague := ref
		vague.RID, vague.Lifecycle, vague.OwnerGen = "", 0, 0
		_, err = b.DestroyActor(w.ctx, vague)
		wantKind(t, err, zlnode.Unavailable)
		other := ref
		other.ObjectGen++
		_, err = b.DestroyActor(w.ctx, other)
		wantKind(t, err, zlnode.InvalidOperation)

		for i, want := range []bool{true, false} {
			if gone, err := c.DestroyActor(w.ctx, found); err != nil || gone != want {
				t.Errorf("destroy %d: %v %v", i, gone, err)
			}
		}
		r, err := b.CreateActor(w.ctx, zlnode.CreateActor{ID: ref.ID, Type: "counter"})
		if err != nil || r.Outcome != zlnode.OutcomeCreated || r.Ref.ObjectGen <= ref.ObjectGen {
			t.Fatalf("created anew: %+v %v", r, err)
		}
		if total, err := zlnode.Request[int](w.ctx, c.Actor(ref.ID), "add", 1); err != nil || total != 1 {
			t.Errorf("the new incarnation: %d %v", total, err)
		}
		_, err = c.DestroyActor(w.ctx, ref)
		wantKind(t, err, zlnode.InvalidOperation)
	})
}
