package redislua

import (
	"crypto/sha256"
	"reflect"
	"testing"

	"github.com/zlnode/zlnode/store"
)

// Whatever needs a new version fails at the last one and changes nothing; what only
// takes away does not need one.
//
// req: ID-08
func TestChangesThatNeedAVersionFailAtTheLastOne(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		raw := rawClient(t, url)
		w := populate(t, s)
		read := func(id string) store.Authority {
			t.Helper()
			a, found, err := s.Read(within(t), id)
			if err != nil || !found {
				t.Fatalf("Read(%q) = %v, %v", id, found, err)
			}
			a.LeaseLeft = 0
			return a
		}
		wide := read("wide")
		c, err := s.ReserveMove(within(t), moveAlone(wide, w.b))
		if err != nil || c.Reason != store.Applied {
			t.Fatalf("ReserveMove = %+v, %v", c, err)
		}
		wide = c.Record
		chunk := []byte("inventory")
		if reason, err := s.PutInventory(within(t), store.MoveOf(&wide), chunk); err != nil || reason != store.Applied {
			t.Fatalf("PutInventory = %v, %v", reason, err)
		}
		if err := raw.Set(within(t), s.keys.versionCounter, "9223372036854775807", 0).Err(); err != nil {
			t.Fatal(err)
		}
		entry, moving, quest := read("entry"), read("moving"), read("quest")
		commit := commitOf(moving, w.b)
		for name, try := range map[string]func() (store.Change, error){
			"ChangeSpot": func() (store.Change, error) {
				return s.ChangeSpot(within(t), store.ChangeSpot{Fence: fence(entry), Op: newOp(), SpotID: "node-a-entry-1"})
			},
			"ReserveMove": func() (store.Change, error) {
				m := moveAlone(entry, w.b)
				m.SpotID, m.InUserSpot = "there", true
				return s.ReserveMove(within(t), m)
			},
			"CommitMove": func() (store.Change, error) { return s.CommitMove(within(t), commit) },
			"EndMove": func() (store.Change, error) {
				return s.EndMove(within(t), endOf(moving, store.Source, w.a))
			},
			"PrepareAggregate": func() (store.Change, error) {
				return s.PrepareAggregate(within(t), store.PrepareAggregate{
					MoveRef: store.MoveOf(&wide), Op: newOp(), Asker: w.a, Inventory: store.Inventory{Root: sha256.Sum256(chunk), Count: 2},
				})
			},
			"AdvanceFirst": func() (store.Change, error) { return s.AdvanceFirst(within(t), fence(quest), newOp(), 1, true) },
			"Reassert": func() (store.Change, error) {
				return s.Reassert(within(t), store.Reassert{
					Op: newOp(), Epoch: entry.Epoch, Owner: w.a, ID: entry.ID, Kind: entry.Kind, Type: entry.Type, ObjectGen: entry.ObjectGen,
					OwnerGen: entry.OwnerGen, Version: entry.Version, Mesh: entry.Mesh, SpotID: entry.SpotID,
				})
			},
		} {
			before := []store.Authority{read("entry"), read("moving"), read("quest"), read("wide"), read("shy")}
			if c, err := try(); err != nil || c.Reason != store.Exhausted {
				t.Errorf("%s = %+v, %v; want Exhausted", name, c, err)
			}
			after := []store.Authority{read("entry"), read("moving"), read("quest"), read("wide"), read("shy")}
			if !reflect.DeepEqual(before, after) {
				t.Errorf("%s changed %+v to %+v", name, before, after)
			}
			audit(t, s)
		}
		if c, err := s.Delete(within(t), fence(entry), newOp()); err != nil || c.Reason != store.Applied {
			t.Errorf("Delete = %+v, %v; want Applied", c, err)
		}

		// An owner generation has its own end.
		raw.Set(within(t), s.keys.versionCounter, "9000000000000000000", 0)
		raw.HSet(within(t), s.keys.object("moving"), "owner_gen", "9223372036854775807")
		if c, err := s.CommitMove(within(t), commit); err != nil || c.Reason != store.Exhausted || c.Record.OwnerGen != store.GenMax {
			t.Errorf("CommitMove at the last owner generation = %+v, %v; want Exhausted", c, err)
		}
		audit(t, s)
	})
}

// moveAlone is a first attempt to move a row that is in no Spot.
func moveAlone(a store.Authority, to store.Lease) store.ReserveMove {
	return store.ReserveMove{
		Fence: fence(a), Op: newOp(), Epoch: a.Epoch, Relocation: store.RelocationID(newOp()), Attempt: 1, Validity: stepMax,
		TargetRID: to.RID, TargetLifecycle: to.Gen,
	}
}
