package zlnode_test

import (
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/store"
)

// A Store that has lost all is told of the Spots and their members again, who join
// and leave as before.
// req: FO-18
func TestMembersKeepTheirSpotsInANewEpoch(t *testing.T) {
	onEachStore(t, func(t *testing.T, world *world) {
		w := newJoinWorld(world)
		n := w.start(shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), w.app())
		refs := map[string]zlnode.ActorRef{}
		for _, id := range []string{"ada", "bob", "cid"} {
			refs[id] = w.actor(n, id)
		}
		wide, apart := w.spot(n, "w", "wide"), w.spot(n, "p", "apart")
		w.joins(n.Actor("ada"), joinOrder{Spot: "w"})
		w.joins(n.Actor("bob"), joinOrder{Spot: "p"})
		st := w.location()
		for _, all := range []bool{false, true} {
			before := map[string]store.Authority{}
			for _, id := range []string{"ada", "bob", "cid", "w", "p"} {
				row, _, err := st.Read(w.ctx, id)
				if err != nil {
					t.Fatal(err)
				}
				before[id] = row
			}
			if all {
				w.forget()
			} else if _, err := st.RaiseEpoch(w.ctx); err != nil {
				t.Fatal(err)
			}
			for id, was := range before {
				now := w.wantRow(st, id, "the new epoch", func(row *store.Authority, found bool) bool {
					return found && row.Epoch > was.Epoch && (id != "ada" || row.SpotVersion > was.SpotVersion)
				})
				if now.SpotID != was.SpotID || now.InUserSpot != was.InUserSpot || now.ObjectGen != was.ObjectGen || now.OwnerGen != was.OwnerGen ||
					now.Wide != was.Wide || (now.SpotVersion != 0) != (was.SpotVersion != 0) {
					t.Errorf("the row of %s is %+v; it was %+v", id, now, was)
				}
			}
		}
		w.await("the node acts", func() bool {
			_, err := zlnode.Request[int](w.ctx, n.Actor("ada"), "add", 1)
			return err == nil
		})
		w.joins(n.Actor("ada"), joinOrder{Spot: "p"})
		w.joins(n.Actor("bob"), joinOrder{Spot: "w"})
		w.joins(n.Actor("cid"), joinOrder{Spot: "w"})
		w.balanced()
		for id := range refs {
			w.joins(n.Actor(id), joinOrder{})
			if gone, err := n.DestroyActor(w.ctx, refs[id]); !gone || err != nil {
				t.Error(gone, err)
			}
		}
		for _, spot := range []zlnode.SpotRef{wide, apart} {
			if closed, err := n.CloseSpot(w.ctx, spot); !closed || err != nil {
				t.Error(closed, err)
			}
		}
		w.balanced()
	})
}
