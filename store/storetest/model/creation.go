package model

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"

	"github.com/zlnode/zlnode/store"
)

// Reserve implements store.Store.
func (s *Store) Reserve(ctx context.Context, r store.Reserve) (store.Change, error) {
	return s.change(ctx, r.ID, r.Check(), func(v view) store.Reason { return v.reserve(r) })
}

func (v view) reserve(r store.Reserve) store.Reason {
	old := v.rows[r.ID]
	_, ended := v.terminals[r.Op]
	_, entry := v.claimer(r.ID)
	switch {
	case ended || old != nil && old.lastOp == r.Op:
		return store.AlreadyApplied
	case old != nil && old.Kind == r.Kind && old.Type == r.Type:
		return store.Exists
	case old != nil || entry:
		return store.TypeMismatch
	case v.now.Before(v.since.Add(v.hold)):
		return store.Recovering
	}
	reason, n := v.unplaceable(r.TargetRID, r.TargetLifecycle, placement{kind: r.Kind, typ: r.Type, created: true, pass: r.Pass})
	if reason != 0 {
		return reason
	}
	if v.objectGens.spent() || v.versions.spent() {
		return store.Exhausted
	}
	made := &row{lastOp: r.Op, Authority: store.Authority{
		ID: r.ID, Kind: r.Kind, Type: r.Type, State: store.Creating, Wide: r.Wide, OwnerGen: 1,
		ObjectGen: store.ObjectGen(v.objectGens.next()), Version: store.Version(v.versions.next()), Epoch: v.epoch,
		Create: &store.Creation{
			Op: r.Op, Request: append([]byte{}, r.Request...), Hash: sha256.Sum256(r.Request), Deadline: v.now.Add(r.Timeout),
		},
	}}
	made.setOwner(n.process, n.Mesh)
	if r.Kind == store.Actor {
		made.SpotID = n.EntrySpotID
	}
	if r.First != nil {
		made.first = &store.FirstMessage{Message: bytes.Clone(r.First)}
	}
	v.rows[r.ID] = made
	return store.Applied
}

// Finish implements store.Store.
func (s *Store) Finish(ctx context.Context, f store.Finish) (store.Change, error) {
	return s.change(ctx, f.ID, f.Check(), func(v view) store.Reason { return v.finish(f) })
}

func (v view) finish(f store.Finish) store.Reason {
	old := v.rows[f.ID]
	ended, was := v.terminals[f.Op]
	ready := old != nil && old.State == store.Ready && old.ObjectGen == f.ObjectGen && old.lastOp == f.Op
	if ready || was && ended.ObjectGen == f.ObjectGen {
		return store.AlreadyApplied
	}
	if reason := v.unfenced(f.Fence, store.Creating); reason != 0 {
		return reason
	}
	if old.lastOp != f.Op {
		return store.VersionConflict
	}
	if f.Result == store.Created && v.versions.spent() {
		return store.Exhausted
	}
	if until := old.Create.Deadline.Add(store.TerminalRetention); until.After(v.now) {
		v.terminals[f.Op] = terminal{store.Terminal{
			Result: f.Result, ID: f.ID, ObjectGen: f.ObjectGen, Reply: append([]byte{}, f.Reply...), FailKind: f.FailKind,
			Hash: sha256.Sum256(f.Reply),
		}, until}
	}
	if f.Result != store.Created {
		delete(v.rows, f.ID)
		return store.Applied
	}
	old.State, old.Create = store.Ready, nil
	v.wrote(old, f.Op)
	return store.Applied
}

// wrote makes the row one that the operation wrote now.
func (v view) wrote(r *row, op any) {
	r.Version, r.lastOp, r.Epoch = store.Version(v.versions.next()), op, v.epoch
}

// CancelCreation implements store.Store.
func (s *Store) CancelCreation(ctx context.Context, id string, gen store.ObjectGen, version store.Version) (store.Change, error) {
	return s.change(ctx, id, store.CheckRow(id, gen, version), func(v view) store.Reason {
		r := v.rows[id]
		switch {
		case r == nil:
			return store.Missing
		case r.ObjectGen != gen:
			return store.GenerationConflict
		case r.Version != version || r.State == store.Ready && r.first == nil:
			return store.VersionConflict
		case v.refused(r.owner()) == 0:
			return store.OwnerAlive
		}
		v.countFreed(r.owner())
		v.remove(id, store.OpID{})
		return store.Applied
	})
}

// ReadFirst implements store.Store.
func (s *Store) ReadFirst(ctx context.Context, id string, gen store.ObjectGen) (f store.FirstMessage, found bool, err error) {
	err = s.call(ctx, store.CheckRow(id, gen, 1), func(v view) {
		if r := v.rows[id]; r != nil && r.ObjectGen == gen && r.first != nil {
			f, found = *r.first, true
			f.Message = bytes.Clone(f.Message)
		}
	})
	return f, found, err
}

// AdvanceFirst implements store.Store.
func (s *Store) AdvanceFirst(ctx context.Context, f store.Fence, op store.OpID, cursor uint64, done bool) (store.Change, error) {
	return s.change(ctx, f.ID, cmp.Or(f.Check(), op.Check()), func(v view) store.Reason {
		r := v.rows[f.ID]
		if r != nil && r.lastOp == op {
			return store.AlreadyApplied
		}
		if reason := v.unfencedSpot(f); reason != 0 {
			return reason
		}
		switch {
		case r.first == nil:
			return store.VersionConflict
		case v.versions.spent():
			return store.Exhausted
		}
		if r.first.Cursor = cursor; done {
			r.first = nil
		}
		v.wrote(r, op)
		return store.Applied
	})
}

// ReadTerminal implements store.Store.
func (s *Store) ReadTerminal(ctx context.Context, op store.OperationKey) (t store.Terminal, found bool, err error) {
	err = s.call(ctx, op.Check(), func(v view) {
		var kept terminal
		kept, found = v.terminals[op]
		t = kept.Terminal
		t.Reply = bytes.Clone(t.Reply)
	})
	return t, found, err
}
