package model

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/zlnode/zlnode/store"
)

// ReserveMove implements store.Store.
func (s *Store) ReserveMove(ctx context.Context, m store.ReserveMove) (store.Change, error) {
	return s.change(ctx, m.ID, m.Check(), func(v view) store.Reason { return v.reserveMove(m) })
}

func (v view) reserveMove(m store.ReserveMove) store.Reason {
	r := v.rows[m.ID]
	if r != nil && r.lastOp == m.Op {
		return store.AlreadyApplied
	}
	if reason := v.unfenced(m.Fence, store.Ready); reason != 0 {
		return reason
	}
	switch epoch := v.epoch; {
	case m.Epoch != epoch:
		return store.EpochChanged
	case r.Epoch != epoch || r.shares && v.rows[r.SpotID].Epoch != epoch:
		return store.Unasserted
	case r.Move != nil || v.carried(r):
		return store.Moving
	case len(v.pending(r.ID)) > 0 || len(v.elsewhere(r)) > 0 || r.first != nil:
		return store.Pending
	case m.TargetRID == r.RID && m.TargetLifecycle == r.LeaseGen:
		return store.TargetIncompatible
	}
	members := 0
	if r.Wide {
		members = len(v.members(r.ID))
	}
	reason, n := v.unplaceable(m.TargetRID, m.TargetLifecycle, placement{kind: r.Kind, typ: r.Type, members: members})
	switch {
	case reason != 0:
		return reason
	case m.InUserSpot:
		if reason := v.closed(m.SpotID, n.process); reason != 0 {
			return reason
		}
	case m.SpotID != "" && m.SpotID != n.EntrySpotID:
		return store.SpotUnavailable
	}
	if v.versions.spent() {
		return store.Exhausted
	}
	r.Move = &store.Move{
		ID: m.Relocation, Attempt: m.Attempt, TargetRID: n.rid, TargetOwnerID: n.owner, TargetLifecycle: n.gen, SpotID: m.SpotID,
		InUserSpot: m.InUserSpot, ValidUntil: v.now.Add(m.Validity), Members: members,
	}
	r.toMesh, r.inventory = n.Mesh, nil
	v.wrote(r, m.Op)
	return store.Applied
}

// unmeant says why the row's move is not the one that is meant; 0 if it is.
func (v view) unmeant(m store.MoveRef) store.Reason {
	r := v.rows[m.ID]
	switch {
	case r == nil:
		return store.Missing
	case r.ObjectGen != m.ObjectGen:
		return store.GenerationConflict
	case r.Move == nil || r.Move.ID != m.Relocation || r.Move.Attempt != m.Attempt:
		return store.MoveConflict
	case r.Version != m.Version || r.SpotID != m.SpotID || r.Move.SpotID != m.MoveSpotID:
		return store.VersionConflict
	case m.Epoch != v.epoch || r.Epoch != v.epoch:
		return store.EpochChanged
	}
	return 0
}

// CommitMove implements store.Store.
func (s *Store) CommitMove(ctx context.Context, c store.CommitMove) (store.Change, error) {
	return s.change(ctx, c.ID, c.Check(), func(v view) store.Reason { return v.commit(c) })
}

func (v view) commit(c store.CommitMove) store.Reason {
	r := v.rows[c.ID]
	if r != nil && r.lastOp == c.Op {
		return store.AlreadyApplied
	}
	if reason := v.unmeant(c.MoveRef); reason != 0 {
		return reason
	}
	target := processOf(c.Target)
	switch {
	case r.OwnerID != c.SourceOwnerID || r.LeaseGen != c.SourceLease || r.target() != target:
		return store.OwnerConflict
	case !v.complete(r, c.Root):
		return store.InventoryConflict
	}
	if reason := v.refused(target); reason != 0 {
		return reason
	}
	if v.versions.spent() || counter(r.OwnerGen).spent() {
		return store.Exhausted
	}
	move := r.Move
	r.Move = nil
	r.setOwner(target, r.toMesh)
	r.OwnerGen++
	if r.Kind == store.Actor {
		v.place(r, move.SpotID, move.InUserSpot)
	}
	if r.Wide {
		r.Aggregate = &store.Aggregate{ID: move.ID, Inventory: *move.Prepared}
		v.carry(r.ID, target, r.Mesh, 1)
	}
	v.wrote(r, c.Op)
	return store.Applied
}

// complete says whether root is the inventory of all that moves: nothing but for a
// SpotWide Spot, there the one that was fixed, while no member has gone since.
func (v view) complete(r *row, root store.Digest) bool {
	if !r.Wide {
		return root == store.Digest{}
	}
	fixed := r.Move.Prepared
	return fixed != nil && fixed.Root == root && fixed.Count == len(v.members(r.ID))+1
}

// EndMove implements store.Store.
func (s *Store) EndMove(ctx context.Context, e store.EndMove) (store.Change, error) {
	return s.change(ctx, e.ID, e.Check(), func(v view) store.Reason {
		r := v.rows[e.ID]
		if r != nil && r.lastOp == e.Op {
			return store.AlreadyApplied
		}
		if reason := v.unmeant(e.MoveRef); reason != 0 {
			return reason
		}
		party := r.target()
		if e.By == store.Source {
			party = r.owner()
		}
		switch {
		case party != processOf(e.Asker):
			return store.OwnerConflict
		case e.By == store.Sweep && r.Move.ValidUntil.After(v.now):
			return store.OwnerAlive
		}
		if reason := v.refused(party); reason != 0 {
			return reason
		}
		if v.versions.spent() {
			return store.Exhausted
		}
		r.Move, r.inventory = nil, nil
		v.wrote(r, e.Op)
		return store.Applied
	})
}

// PutInventory implements store.Store.
func (s *Store) PutInventory(ctx context.Context, m store.MoveRef, chunk []byte) (reason store.Reason, err error) {
	if err = m.Check(); err == nil && (len(chunk) == 0 || len(chunk) > store.PayloadBytesMax) {
		err = fmt.Errorf("%w: inventory chunk of %q has %d bytes", store.ErrInvalid, m.ID, len(chunk))
	}
	err = s.call(ctx, err, func(v view) { reason = v.putInventory(m, chunk) })
	return reason, err
}

func (v view) putInventory(m store.MoveRef, chunk []byte) store.Reason {
	if reason := v.unmeant(m); reason != 0 {
		return reason
	}
	r := v.rows[m.ID]
	digest := store.Digest(sha256.Sum256(chunk))
	switch {
	case r.inventory[digest] != nil:
		return store.AlreadyApplied
	case !r.Wide || r.Move.Prepared != nil:
		return store.InventoryConflict
	}
	if r.inventory == nil {
		r.inventory = map[store.Digest][]byte{}
	}
	r.inventory[digest] = bytes.Clone(chunk)
	return store.Applied
}

// ReadInventory implements store.Store.
func (s *Store) ReadInventory(ctx context.Context, spotID string, digest store.Digest) (chunk []byte, found bool, err error) {
	err = s.call(ctx, store.CheckID("Spot id", spotID), func(v view) {
		if r := v.rows[spotID]; r != nil {
			chunk, found = r.inventory[digest]
			chunk = bytes.Clone(chunk)
		}
	})
	return chunk, found, err
}

// PrepareAggregate implements store.Store.
func (s *Store) PrepareAggregate(ctx context.Context, p store.PrepareAggregate) (store.Change, error) {
	return s.change(ctx, p.ID, p.Check(), func(v view) store.Reason {
		r := v.rows[p.ID]
		if r != nil && r.lastOp == p.Op {
			return store.AlreadyApplied
		}
		if reason := v.unmeant(p.MoveRef); reason != 0 {
			return reason
		}
		switch {
		case !r.Wide:
			return store.InventoryConflict
		case r.owner() != processOf(p.Asker):
			return store.OwnerConflict
		case r.Move.Prepared != nil || r.inventory[p.Inventory.Root] == nil,
			p.Inventory.Count != r.Move.Members+1, len(v.members(p.ID)) != r.Move.Members:
			return store.InventoryConflict
		}
		if reason := v.refused(r.owner()); reason != 0 {
			return reason
		}
		if v.versions.spent() {
			return store.Exhausted
		}
		r.Move.Prepared = &store.Inventory{Root: p.Inventory.Root, Count: p.Inventory.Count}
		v.wrote(r, p.Op)
		return store.Applied
	})
}

// CompleteMove implements store.Store.
func (s *Store) CompleteMove(ctx context.Context, f store.Fence, id store.RelocationID) (store.Change, error) {
	return s.change(ctx, f.ID, cmp.Or(f.Check(), id.Check()), func(v view) store.Reason {
		if reason := v.unfencedSpot(f); reason != 0 {
			return reason
		}
		switch r := v.rows[f.ID]; {
		case r.Move != nil:
			return store.Moving // what is stored is that one's inventory
		case r.Aggregate == nil || r.Aggregate.ID != id:
			return store.MoveConflict
		}
		v.rows[f.ID].inventory = nil
		return store.Applied
	})
}
