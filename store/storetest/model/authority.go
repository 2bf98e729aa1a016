package model

import (
	"cmp"
	"context"

	"github.com/zlnode/zlnode/store"
)

// unfenced says why the fence does not match its row, or its process may not act; 0 if
// all is well.
func (v view) unfenced(f store.Fence, wanted store.State) store.Reason {
	r := v.rows[f.ID]
	switch {
	case r == nil:
		return store.Missing
	case r.ObjectGen != f.ObjectGen:
		return store.GenerationConflict
	case r.Version != f.Version || r.State != wanted || r.SpotID != f.SpotID:
		return store.VersionConflict
	case r.shares && v.rows[r.SpotID].Version != f.SpotVersion:
		return store.VersionConflict
	case r.OwnerID != f.OwnerID || r.LeaseGen != f.LeaseGen:
		return store.OwnerConflict
	}
	return v.refused(r.owner())
}

// unfencedSpot is unfenced for what only a Spot can be asked for. An Actor whose owner
// stands elsewhere matches no fence then.
func (v view) unfencedSpot(f store.Fence) store.Reason {
	if r := v.rows[f.ID]; r != nil && r.shares && r.ObjectGen == f.ObjectGen {
		return store.VersionConflict
	}
	return v.unfenced(f, store.Ready)
}

// Read implements store.Store.
func (s *Store) Read(ctx context.Context, id string) (a store.Authority, found bool, err error) {
	err = s.call(ctx, store.CheckID("id", id), func(v view) { a, found = v.record(id) })
	return a, found, err
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, f store.Fence, op store.OpID) (store.Change, error) {
	return s.change(ctx, f.ID, cmp.Or(f.Check(), op.Check()), func(v view) store.Reason {
		if v.removedBy(op, f.ID, f.ObjectGen) {
			return store.AlreadyApplied
		}
		if reason := v.unfenced(f, store.Ready); reason != 0 {
			return reason
		}
		switch r := v.rows[f.ID]; {
		case r.Move != nil:
			return store.Moving
		case r.InUserSpot:
			return store.IsMember
		case v.occupied(f.ID):
			return store.NotEmpty
		}
		v.remove(f.ID, op)
		return store.Applied
	})
}

func (v view) removedBy(op store.OpID, id string, gen store.ObjectGen) bool {
	last, kept := v.removals[id]
	return kept && last.op == op && last.gen == gen
}

func (v view) remove(id string, op store.OpID) {
	r := v.rows[id]
	v.removals[id] = removal{r.ObjectGen, r.Version, op, v.now.Add(store.TerminalRetention)}
	delete(v.rows, id)
}

// occupied says whether Actors are in the Spot or on their way.
func (v view) occupied(spot string) bool { return len(v.members(spot))+len(v.pending(spot)) > 0 }

// Free implements store.Store.
func (s *Store) Free(ctx context.Context, f store.Free) (store.Change, error) {
	return s.change(ctx, f.ID, f.Check(), func(v view) store.Reason {
		if v.removedBy(f.Op, f.ID, f.ObjectGen) {
			return store.AlreadyApplied
		}
		r := v.rows[f.ID]
		switch {
		case r == nil:
			return store.Missing
		case r.ObjectGen != f.ObjectGen:
			return store.GenerationConflict
		case r.Version != f.Version || r.SpotID != f.SpotID || spotOf(r.Move) != f.MoveSpotID:
			return store.VersionConflict
		case v.occupied(f.ID):
			return store.NotEmpty
		}
		stuck := v.overdue(r) || r.shares && v.overdue(v.rows[r.SpotID])
		asks := r.OwnerID == f.By.OwnerID && r.LeaseGen == f.By.Gen
		if !stuck && !asks && v.refused(r.owner()) == 0 {
			return store.OwnerAlive
		}
		v.countFreed(r.owner())
		v.remove(f.ID, f.Op)
		return store.Applied
	})
}

// overdue says whether the row's move is past its validity.
func (v view) overdue(r *row) bool { return r.Move != nil && !r.Move.ValidUntil.After(v.now) }

// spotOf is the Spot that the move goes to.
func spotOf(m *store.Move) string {
	if m == nil {
		return ""
	}
	return m.SpotID
}

// ChangeSpot implements store.Store.
func (s *Store) ChangeSpot(ctx context.Context, c store.ChangeSpot) (store.Change, error) {
	return s.change(ctx, c.ID, c.Check(), func(v view) store.Reason {
		r := v.rows[c.ID]
		if r != nil && r.lastOp == c.Op {
			return store.AlreadyApplied
		}
		if reason := v.unfenced(c.Fence, store.Ready); reason != 0 {
			return reason
		}
		if r.Move != nil || v.carried(r) {
			return store.Moving
		}
		if c.InUserSpot {
			if reason := v.closed(c.SpotID, r.owner()); reason != 0 {
				return reason
			}
		} else if claimer, claimed := v.claimer(c.SpotID); !claimed || claimer.rid != r.RID || claimer.gen != r.LeaseGen {
			return store.SpotUnavailable
		}
		if v.versions.spent() {
			return store.Exhausted
		}
		v.place(r, c.SpotID, c.InUserSpot)
		v.wrote(r, c.Op)
		return store.Applied
	})
}

// carried says whether the Actor moves with its Spot.
func (v view) carried(r *row) bool { return r.shares && v.rows[r.SpotID].Move != nil }

// closed says why an Actor of the process cannot enter the User Spot; 0 if it can.
func (v view) closed(spot string, p process) store.Reason {
	s := v.rows[spot]
	switch {
	case s == nil || s.State != store.Ready || s.Kind != store.UserSpot || s.owner() != p:
		return store.SpotUnavailable
	case s.Move != nil:
		return store.Moving
	}
	return 0
}

// place makes the Actor a member of the Spot.
func (v view) place(r *row, spot string, user bool) {
	r.SpotID, r.InUserSpot = spot, user
	if r.shares = user && v.rows[spot].Wide; r.shares {
		r.setOwner(v.rows[spot].owner(), v.rows[spot].Mesh)
	}
}

// Reassert implements store.Store.
func (s *Store) Reassert(ctx context.Context, r store.Reassert) (store.Change, error) {
	return s.change(ctx, r.ID, r.Check(), func(v view) store.Reason { return v.reassert(r) })
}

func (v view) reassert(r store.Reassert) store.Reason {
	old := v.rows[r.ID]
	owner := processOf(r.Owner)
	if old != nil && old.lastOp == r.Op {
		return store.AlreadyApplied
	}
	if r.Epoch != v.epoch {
		return store.EpochChanged
	}
	if reason := v.refused(owner); reason != 0 {
		return reason
	}
	if _, entry := v.claimer(r.ID); entry {
		return store.TypeMismatch
	}
	last, removed := v.removals[r.ID]
	if old == nil && removed && (r.ObjectGen < last.gen || r.ObjectGen == last.gen && r.Version <= last.version) {
		return store.Missing
	}
	if old != nil {
		switch {
		case r.ObjectGen < old.ObjectGen:
			return store.GenerationConflict
		case r.ObjectGen > old.ObjectGen:
			if v.occupied(r.ID) {
				return store.NotEmpty // they are the earlier incarnation's
			}
		case r.Version >= old.Version:
		case old.owner() != owner:
			return store.OwnerConflict
		default:
			return store.VersionConflict
		}
	}
	if r.InUserSpot {
		if reason := v.unasserted(r, owner); reason != 0 {
			return reason
		}
	}
	if v.versions.spent() {
		return store.Exhausted
	}
	if old != nil && old.owner() != owner {
		v.countFreed(old.owner())
	}
	made := &row{Authority: store.Authority{
		ID: r.ID, Kind: r.Kind, Type: r.Type, State: store.Ready, ObjectGen: r.ObjectGen, OwnerGen: r.OwnerGen, Wide: r.Wide,
	}}
	made.setOwner(owner, r.Mesh)
	if r.SpotID != "" {
		v.place(made, r.SpotID, r.InUserSpot)
	}
	if old != nil && old.ObjectGen == r.ObjectGen {
		made.Aggregate = old.Aggregate
		if old.State == store.Ready && old.Version == r.Version {
			made.first = old.first // what was lost, if anything, was not its end
		}
		if old.Move == nil {
			made.inventory = old.inventory
		}
		if old.Wide {
			v.carry(r.ID, owner, r.Mesh, r.OwnerGen-old.OwnerGen)
		}
	}
	v.rows[r.ID] = made
	v.wrote(made, r.Op)
	return store.Applied
}

// unasserted says why the Actor is not in the User Spot that it says. That one must have
// been asserted itself. Members of a PerActor Spot may be at another owner than it.
func (v view) unasserted(r store.Reassert, owner process) store.Reason {
	s := v.rows[r.SpotID]
	if s == nil {
		return store.SpotUnavailable
	}
	if !r.Shares {
		owner = s.owner()
	}
	if reason := v.closed(r.SpotID, owner); reason != 0 {
		return reason
	}
	if s.Epoch != v.epoch || s.Wide != r.Shares {
		return store.SpotUnavailable
	}
	return 0
}

// carry gives the members of a SpotWide Spot its owner.
func (v view) carry(spot string, owner process, mesh string, grown store.OwnerGen) {
	for _, id := range v.members(spot) {
		m := v.rows[id]
		m.setOwner(owner, mesh)
		m.OwnerGen += grown
	}
}
