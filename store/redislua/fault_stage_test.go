package redislua

import (
	"context"
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// stage is a Store with two processes that host Actors and Spots, for tests in which
// objects move.
type stage struct {
	t testing.TB
	*Store
	a, b store.Lease
}

func newStage(t testing.TB, s *Store) *stage {
	t.Helper()
	return &stage{t, s, host(t, s, "node-a"), host(t, s, "node-b")}
}

// host takes the RID's lease and publishes a node that takes every kind of object.
func host(t testing.TB, s *Store, rid string) store.Lease {
	t.Helper()
	r, err := s.AcquireLease(within(t), rid, randomHex(), time.Hour)
	if err != nil || r.Reason != store.Applied {
		t.Fatalf("AcquireLease(%s) = %+v, %v", rid, r, err)
	}
	publish(t, s, r.Lease)
	return r.Lease
}

func publish(t testing.TB, s *Store, l store.Lease) {
	t.Helper()
	d := describe(l)
	d.SpotTypes = []store.SpotType{{Type: "chat", Kind: store.InstanceSpot}, {Type: "room", Kind: store.UserSpot}}
	if reason, err := s.PublishNode(within(t), l, d); err != nil || reason != store.Applied {
		t.Fatalf("PublishNode(%s) = %v, %v", l.RID, reason, err)
	}
}

func entryOf(l store.Lease) string { return describe(l).EntrySpotID }

// gives returns a check of a change's reason, which returns the row.
func (s *stage) gives(want store.Reason) func(store.Change, error) store.Authority {
	return func(c store.Change, err error) store.Authority {
		s.t.Helper()
		if err != nil || c.Reason != want {
			s.t.Fatalf("answer is %v with %+v, %v; want %v", c.Reason, c.Record, err, want)
		}
		return c.Record
	}
}

func (s *stage) applied(c store.Change, err error) store.Authority {
	s.t.Helper()
	return s.gives(store.Applied)(c, err)
}

func (s *stage) read(id string) store.Authority {
	s.t.Helper()
	a, found, err := s.Read(within(s.t), id)
	if err != nil || !found {
		s.t.Fatalf("Read(%s) = %v, %v; want a row", id, found, err)
	}
	return a
}

func reservation(id string, kind store.Kind, wide bool, at store.Lease) store.Reserve {
	r := store.Reserve{
		ID: id, Kind: kind, Type: "player", Wide: wide, TargetRID: at.RID, TargetLifecycle: at.Gen, Timeout: 5 * time.Second,
		Op:      store.OperationKey{SourceRID: at.RID, SourceLifecycle: at.Gen, Op: newOp()},
		Request: []byte("create " + id),
	}
	switch kind {
	case store.UserSpot:
		r.Type = "room"
	case store.InstanceSpot:
		r.Type, r.First = "chat", []byte("first message")
	case store.Actor, store.EntrySpot:
	}
	return r
}

func finishing(a store.Authority, result store.Result) store.Finish {
	return store.Finish{Fence: store.FenceOf(&a), Op: a.Create.Op, Result: result, Reply: []byte("reply")}
}

// make creates an object.
func (s *stage) make(id string, kind store.Kind, wide bool, at store.Lease) store.Authority {
	s.t.Helper()
	a := s.applied(s.Reserve(within(s.t), reservation(id, kind, wide, at)))
	return s.applied(s.Finish(within(s.t), finishing(a, store.Created)))
}

func (s *stage) actor(id string) store.Authority {
	s.t.Helper()
	return s.make(id, store.Actor, false, s.a)
}

func entering(a store.Authority, spot string) store.ChangeSpot {
	return store.ChangeSpot{Fence: store.FenceOf(&a), Op: newOp(), SpotID: spot, InUserSpot: true}
}

// crowd creates a SpotWide Spot with two members and returns its row.
func (s *stage) crowd(id string) store.Authority {
	s.t.Helper()
	spot := s.make(id, store.UserSpot, true, s.a)
	for _, name := range []string{"-x", "-y"} {
		s.applied(s.ChangeSpot(within(s.t), entering(s.actor(id+name), id)))
	}
	return spot
}

// moveTo asks for a move, of an Actor to the target's Entry Spot.
func moveTo(a store.Authority, to store.Lease) store.ReserveMove {
	r := store.ReserveMove{
		Fence: store.FenceOf(&a), Op: newOp(), Epoch: a.Epoch, Relocation: store.RelocationID(newOp()), Attempt: 1,
		Validity: time.Hour, TargetRID: to.RID, TargetLifecycle: to.Gen,
	}
	if a.Kind == store.Actor {
		r.SpotID = entryOf(to)
	}
	return r
}

// commitOf is the target's commit of the move that the row has.
func commitOf(a store.Authority, target store.Lease) store.CommitMove {
	return store.CommitOf(&a, target, newOp())
}

func endOf(a store.Authority, by store.MoveParty, asker store.Lease) store.EndMove {
	return store.EndOf(&a, by, asker, newOp())
}

// inventory is the chunk that fixes the crowd's inventory.
var inventory = []byte("inventory of a Spot and two members")

func preparing(a store.Authority, asker store.Lease) store.PrepareAggregate {
	return store.PrepareAggregate{
		MoveRef: store.MoveOf(&a), Op: newOp(), Asker: asker, Inventory: store.Inventory{Root: sha256.Sum256(inventory), Count: 3},
	}
}

// prepared creates a crowd whose move to the other process can be committed.
func (s *stage) prepared(id string) store.Authority {
	s.t.Helper()
	a := s.applied(s.ReserveMove(within(s.t), moveTo(s.crowd(id), s.b)))
	if reason, err := s.PutInventory(within(s.t), store.MoveOf(&a), inventory); err != nil || reason != store.Applied {
		s.t.Fatalf("PutInventory = %v, %v", reason, err)
	}
	return s.applied(s.PrepareAggregate(within(s.t), preparing(a, s.a)))
}

// raise begins a new epoch.
func (s *stage) raise() store.Epoch {
	s.t.Helper()
	epoch, err := s.RaiseEpoch(within(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	return epoch
}

// asserted is the row as its owner knows it, for the epoch.
func asserted(a store.Authority, owner store.Lease, epoch store.Epoch) store.Reassert {
	return store.Reassert{
		Op: newOp(), Epoch: epoch, Owner: owner, ID: a.ID, Kind: a.Kind, Type: a.Type, Wide: a.Wide, ObjectGen: a.ObjectGen,
		OwnerGen: a.OwnerGen, Version: a.Version, Mesh: a.Mesh, SpotID: a.SpotID, InUserSpot: a.InUserSpot, Shares: a.SpotVersion != 0,
	}
}

// wantOwner fails unless the object is the process's, in its row and in the lists of
// who owns what.
func (s *stage) wantOwner(id string, owner store.Lease) {
	s.t.Helper()
	a := s.read(id)
	if a.RID != owner.RID || a.OwnerID != owner.OwnerID || a.LeaseGen != owner.Gen {
		s.t.Errorf("%s is owned by %s %d; want %s %d", id, a.RID, a.LeaseGen, owner.RID, owner.Gen)
	}
	if a.SpotVersion != 0 || a.State != store.Ready {
		return // found through its Spot, or in the list of what comes
	}
	var owners []string
	for _, l := range []store.Lease{s.a, s.b} {
		ids, err := s.Held(within(s.t), l.RID, l.Gen, store.HeldOwned, "", store.PageMax)
		if err != nil {
			s.t.Fatal(err)
		}
		if slices.Contains(ids, id) {
			owners = append(owners, l.RID)
		}
	}
	if !slices.Equal(owners, []string{owner.RID}) {
		s.t.Errorf("%s is listed as owned by %v; want %s alone", id, owners, owner.RID)
	}
}

// ask is one change, under one operation, as often as it is called.
type ask func(ctx context.Context) (store.Reason, error)

func reasonOf(c store.Change, err error) (store.Reason, error) { return c.Reason, err }

// acts are the changes that a lost answer can leave in doubt. Each prepares the Store
// for the change of an object and returns it.
var acts = []struct {
	name    string
	script  lua.Script
	prepare func(s *stage, id string) ask
}{
	{"Reserve", lua.ObjectReserve, func(s *stage, id string) ask {
		r := reservation(id, store.Actor, false, s.a)
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.Reserve(ctx, r)) }
	}},
	{"ReserveInstance", lua.ObjectReserve, func(s *stage, id string) ask {
		r := reservation(id, store.InstanceSpot, false, s.a)
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.Reserve(ctx, r)) }
	}},
	{"FinishCreated", lua.ObjectFinish, func(s *stage, id string) ask {
		f := finishing(s.applied(s.Reserve(within(s.t), reservation(id, store.UserSpot, false, s.a))), store.Created)
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.Finish(ctx, f)) }
	}},
	{"FinishRejected", lua.ObjectFinish, func(s *stage, id string) ask {
		f := finishing(s.applied(s.Reserve(within(s.t), reservation(id, store.InstanceSpot, false, s.a))), store.Rejected)
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.Finish(ctx, f)) }
	}},
	{"AdvanceFirst", lua.FirstAdvance, func(s *stage, id string) ask {
		a, op := s.make(id, store.InstanceSpot, false, s.a), newOp()
		return func(ctx context.Context) (store.Reason, error) {
			return reasonOf(s.AdvanceFirst(ctx, store.FenceOf(&a), op, 7, true))
		}
	}},
	{"ChangeSpot", lua.SpotChange, func(s *stage, id string) ask {
		s.crowd(id + "-room")
		c := entering(s.actor(id), id+"-room")
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.ChangeSpot(ctx, c)) }
	}},
	{"ReserveMove", lua.MoveReserve, func(s *stage, id string) ask {
		r := moveTo(s.actor(id), s.b)
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.ReserveMove(ctx, r)) }
	}},
	{"ReserveMoveOfAggregate", lua.MoveReserve, func(s *stage, id string) ask {
		r := moveTo(s.crowd(id), s.b)
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.ReserveMove(ctx, r)) }
	}},
	{"PutInventory", lua.InventoryPut, func(s *stage, id string) ask {
		m := s.applied(s.ReserveMove(within(s.t), moveTo(s.crowd(id), s.b)))
		return func(ctx context.Context) (store.Reason, error) {
			return s.PutInventory(ctx, store.MoveOf(&m), inventory)
		}
	}},
	{"PrepareAggregate", lua.AggregatePrepare, func(s *stage, id string) ask {
		m := s.applied(s.ReserveMove(within(s.t), moveTo(s.crowd(id), s.b)))
		if reason, err := s.PutInventory(within(s.t), store.MoveOf(&m), inventory); err != nil || reason != store.Applied {
			s.t.Fatalf("PutInventory = %v, %v", reason, err)
		}
		p := preparing(m, s.a)
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.PrepareAggregate(ctx, p)) }
	}},
	{"CommitMove", lua.MoveCommit, func(s *stage, id string) ask {
		c := commitOf(s.applied(s.ReserveMove(within(s.t), moveTo(s.actor(id), s.b))), s.b)
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.CommitMove(ctx, c)) }
	}},
	{"CommitMoveOfAggregate", lua.MoveCommit, func(s *stage, id string) ask {
		c := commitOf(s.prepared(id), s.b)
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.CommitMove(ctx, c)) }
	}},
	{"EndMoveBySource", lua.MoveEnd, func(s *stage, id string) ask {
		e := endOf(s.applied(s.ReserveMove(within(s.t), moveTo(s.actor(id), s.b))), store.Source, s.a)
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.EndMove(ctx, e)) }
	}},
	{"EndMoveByTarget", lua.MoveEnd, func(s *stage, id string) ask {
		e := endOf(s.prepared(id), store.Target, s.b)
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.EndMove(ctx, e)) }
	}},
	{"Delete", lua.ObjectDelete, func(s *stage, id string) ask {
		a, op := s.actor(id), newOp()
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.Delete(ctx, store.FenceOf(&a), op)) }
	}},
	{"Free", lua.ObjectFree, func(s *stage, id string) ask {
		a := s.applied(s.ReserveMove(within(s.t), moveTo(s.actor(id), s.b)))
		f := store.FreeOf(&a, newOp())
		f.By = s.a
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.Free(ctx, f)) }
	}},
	{"Reassert", lua.ObjectReassert, func(s *stage, id string) ask {
		a := s.applied(s.ReserveMove(within(s.t), moveTo(s.actor(id), s.b)))
		r := asserted(a, s.a, s.raise())
		return func(ctx context.Context) (store.Reason, error) { return reasonOf(s.Reassert(ctx, r)) }
	}},
}
