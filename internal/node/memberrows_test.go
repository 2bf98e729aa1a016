package node

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zlnode/zlnode/store"
)

// memberOf makes an Actor, and a Spot if there is none, of which the row says that it is
// its member.
func (n *Node) memberOf(t *testing.T, id, spot string, wide bool) (member, room *objectCell) {
	t.Helper()
	room, _ = n.actors.Load(spot)
	if room == nil {
		room = n.ready(spot, &journal{})
		room.typ.Kind, room.typ.Wide = store.UserSpot, wide
	}
	member = n.ready(id, &journal{})
	joined := make(chan *Error, 1)
	member.lifecycle(func(turn *turn) { joined <- member.join(turn.claim, room) })
	if err := await(t, "the member", joined); err != nil {
		t.Fatal(err)
	}
	member.rowSpot = room
	return member, room
}

// Rows of members are written again behind those of their Spots, with their places.
// req: FO-18
func TestMembersRowsAreWrittenBehindTheirSpots(t *testing.T) {
	var mu sync.Mutex
	var order []string
	rows := map[string]store.Reassert{}
	n := storedNode(t, &scripted{reassert: func(r store.Reassert) (store.Change, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, r.ID)
		rows[r.ID] = r
		return applied(7)
	}})
	n.entryID = "entry"
	n.memberOf(t, "ada", "wide", true)
	n.memberOf(t, "bob", "apart", false)
	n.ready("cid", &journal{})
	if !n.reassertObjects(n.life, 2) {
		t.Error("the round is not complete")
	}
	if spots := order[:2]; !slices.Contains(spots, "wide") || !slices.Contains(spots, "apart") || len(order) != 5 {
		t.Errorf("they were written in the order %v", order)
	}
	for id, want := range map[string]store.Reassert{
		"ada": {SpotID: "wide", InUserSpot: true, Shares: true}, "bob": {SpotID: "apart", InUserSpot: true}, "cid": {SpotID: "entry"}, "wide": {},
	} {
		if r := rows[id]; r.SpotID != want.SpotID || r.InUserSpot != want.InUserSpot || r.Shares != want.Shares {
			t.Errorf("the row of %s is claimed as %+v", id, r)
		}
	}
}

// A Spot that turns out to be another's: who shares its owner ends with it, who does not is
// in the Entry Spot then.
func TestASpotThatIsAnothersLeavesItsMembers(t *testing.T) {
	rows := map[string]store.Reassert{}
	n := storedNode(t, &scripted{reassert: func(r store.Reassert) (store.Change, error) {
		if r.Kind == store.UserSpot {
			return store.Change{Reason: store.OwnerConflict, Found: true, Record: store.Authority{RID: "b"}}, nil
		}
		rows[r.ID] = r
		return applied(7)
	}})
	n.entryID = "entry"
	wide, _ := n.memberOf(t, "ada", "wide", true)
	apart, _ := n.memberOf(t, "bob", "apart", false)
	if !n.reassertObjects(n.life, 2) {
		t.Error("the round is not complete")
	}
	barrier(t, apart)
	if !wide.gone.Load() || n.knows("ada") || len(rows) != 1 {
		t.Errorf("the member of the wide spot is here; the rows are %+v", rows)
	}
	if r := rows["bob"]; r.SpotID != "entry" || r.InUserSpot || apart.spot.Load() != nil || apart.gone.Load() {
		t.Errorf("the other's row is claimed as %+v", r)
	}
}

// Members of a SpotWide Spot are not read one by one when rows were freed: the Spot's list
// has them.
func TestMembersThatTheirSpotListsAreNotFreed(t *testing.T) {
	n := storedNode(t, &scripted{
		held:    func(store.Holding) []string { return []string{"wide"} },
		members: func(string, string) []string { return []string{"ada"} },
		read: func(_ context.Context, id string) (store.Authority, bool, error) {
			if id != "bob" {
				t.Errorf("the row of %s was read", id)
			}
			return store.Authority{}, false, nil
		},
	})
	ada, _ := n.memberOf(t, "ada", "wide", true)
	bob, _ := n.memberOf(t, "bob", "wide", true)
	if !n.dropFreed(1) || ada.gone.Load() || !bob.gone.Load() {
		t.Errorf("ada is gone: %v, bob is: %v", ada.gone.Load(), bob.gone.Load())
	}
}

// Rows of members of which this node has no object are removed, whether they name this
// node themselves or through their Spot.
func TestRowsOfUnknownMembersAreRemoved(t *testing.T) {
	var freed []store.Free
	n := storedNode(t, &scripted{
		held: func(store.Holding) []string { return []string{"apart", "wide", "bob", "lost-bob"} },
		members: func(spot, after string) []string {
			if spot != "wide" {
				t.Errorf("the members of %s are read", spot)
			}
			return []string{"ada", "lost-ada"}
		},
		read: func(_ context.Context, id string) (store.Authority, bool, error) {
			return store.Authority{
				ID: id, Kind: store.Actor, State: store.Ready, ObjectGen: 3, Version: 9, OwnerID: "owner", LeaseGen: 5, SpotID: "spot", InUserSpot: true,
			}, true, nil
		},
		free: func(f store.Free) (store.Change, error) {
			f.Op = store.OpID{}
			freed = append(freed, f)
			return store.Change{Reason: store.Applied}, nil
		},
	})
	for _, spot := range []string{"wide", "apart"} {
		member, room := n.memberOf(t, map[string]string{"wide": "ada", "apart": "bob"}[spot], spot, spot == "wide")
		member.stored, room.stored = true, true
	}
	if !n.deleteUnknown() {
		t.Error("not all were removed")
	}
	slices.SortFunc(freed, func(a, b store.Free) int { return strings.Compare(a.ID, b.ID) })
	row := func(id string) store.Free {
		return store.Free{ID: id, ObjectGen: 3, Version: 9, SpotID: "spot", By: n.lease}
	}
	if want := []store.Free{row("lost-ada"), row("lost-bob")}; !slices.Equal(freed, want) {
		t.Errorf("removed %+v, want %+v", freed, want)
	}
}

// The row of an Actor that has left names this node again when its return is committed, and
// the answer to that may be lost with the Store's epoch: while its move here is not over, the
// row is not that of nobody.
// req: RL-15
func TestTheRowOfAnActorThatComesBackIsNotRemoved(t *testing.T) {
	removed := 0
	n := storedNode(t, &scripted{
		held: func(store.Holding) []string { return []string{"ada"} },
		read: func(_ context.Context, id string) (store.Authority, bool, error) {
			return store.Authority{
				ID: id, Kind: store.Actor, State: store.Ready, ObjectGen: 3, Version: 9, OwnerID: "owner", LeaseGen: 5, SpotID: "spot", InUserSpot: true,
			}, true, nil
		},
		free: func(store.Free) (store.Change, error) {
			removed++
			return store.Change{Reason: store.Applied}, nil
		},
	})
	ada, _ := n.memberOf(t, "ada", "wide", false)
	ada.tenure.Store(leaving)
	ada.gone.Store(true)
	n.moves.preparing.Store("ada", &moveIn{})
	if !n.deleteUnknown() || removed != 0 {
		t.Errorf("removed %d rows while it comes back, want none", removed)
	}
	n.moves.preparing.Delete("ada")
	if !n.deleteUnknown() || removed != 1 {
		t.Errorf("removed %d rows once its move here has come to nothing, want 1", removed)
	}
}
