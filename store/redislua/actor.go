package redislua

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// ReadActor implements store.Store.
func (s *Store) ReadActor(ctx context.Context, id string) (store.Authority, bool, error) {
	if err := store.CheckID("id", id); err != nil {
		return store.Authority{}, false, err
	}
	k := &s.keys
	a, err := s.run(ctx, lua.ActorRead, []string{k.actor(id), k.request(id), k.leases})
	if err != nil {
		return store.Authority{}, false, err
	}
	row, found := a.row(id)
	if row.Create != nil {
		row.Create.Request = a.sealed("creation request", row.Create.Hash)
	}
	if err := a.end(); err != nil {
		return store.Authority{}, false, err
	}
	return row, found, nil
}

// ReserveActor implements store.Store.
func (s *Store) ReserveActor(ctx context.Context, r store.Reserve) (store.Change, error) {
	if err := r.Check(); err != nil {
		return store.Change{}, err
	}
	k := &s.keys
	return s.change(ctx, r.ID, lua.ActorReserve,
		[]string{
			k.actor(r.ID), k.request(r.ID), k.terminal(r.Op), k.node(r.TargetRID), k.leases, k.capacity, k.reserved,
			k.objectCounter, k.versionCounter,
		},
		r.ID, r.Type, operation(r.Op), r.TargetRID, decimal(r.TargetLifecycle), millis(r.Timeout),
		string(r.Request), sum(r.Request))
}

// FinishActor implements store.Store.
func (s *Store) FinishActor(ctx context.Context, f store.Finish) (store.Change, error) {
	if err := f.Check(); err != nil {
		return store.Change{}, err
	}
	k := &s.keys
	return s.change(ctx, f.ID, lua.ActorFinish,
		[]string{
			k.actor(f.ID), k.request(f.ID), k.terminal(f.Op), k.leases, k.capacity, k.reserved, k.owned,
			k.versionCounter,
		},
		f.ID, decimal(f.ObjectGen), decimal(f.Version), f.OwnerID, decimal(f.LeaseGen), operation(f.Op),
		strconv.Itoa(int(f.Result)), strconv.Itoa(int(f.FailKind)), string(f.Reply), sum(f.Reply),
		millis(store.TerminalRetention))
}

// DeleteActor implements store.Store.
func (s *Store) DeleteActor(ctx context.Context, f store.Fence, op store.OpID) (store.Change, error) {
	if err := firstOf(f.Check(), op.Check()); err != nil {
		return store.Change{}, err
	}
	k := &s.keys
	return s.change(ctx, f.ID, lua.ActorDelete,
		[]string{k.actor(f.ID), k.deletion(op), k.leases, k.capacity, k.owned},
		f.ID, decimal(f.ObjectGen), decimal(f.Version), f.OwnerID, decimal(f.LeaseGen), millis(store.TerminalRetention))
}

// ReadTerminal implements store.Store.
func (s *Store) ReadTerminal(ctx context.Context, op store.OperationKey) (store.Terminal, bool, error) {
	if err := op.Check(); err != nil {
		return store.Terminal{}, false, err
	}
	a, err := s.run(ctx, lua.TerminalRead, []string{s.keys.terminal(op)})
	if err != nil || a.reason != store.Exists {
		return store.Terminal{}, false, err
	}
	t := store.Terminal{
		Result:    store.Result(a.number("result", uint64(store.Failed))),
		ID:        a.word(),
		ObjectGen: store.ObjectGen(a.gen("object generation")),
		FailKind:  uint8(a.number("fail kind", 255)),
		Hash:      a.hash("hash"),
	}
	t.Reply = a.sealed("reply", t.Hash)
	if err := a.end(); err != nil {
		return store.Terminal{}, false, err
	}
	return t, true, nil
}

// change runs a script that answers with a reason and the row.
func (s *Store) change(ctx context.Context, id string, script lua.Script, keys []string, args ...string) (store.Change, error) {
	a, err := s.run(ctx, script, keys, args...)
	if err != nil {
		return store.Change{}, err
	}
	row, found := a.row(id)
	if err := a.end(); err != nil {
		return store.Change{}, err
	}
	return store.Change{Reason: a.reason, Record: row, Found: found}, nil
}

// row reads a row without its creation request, which is left for the caller.
func (a *answer) row(id string) (row store.Authority, found bool) {
	if a.number("found", 1) == 0 {
		return row, false
	}
	left := a.millis("time left")
	state := store.State(a.number("state", uint64(store.Ready)))
	row = store.Authority{
		ID:        id,
		State:     state,
		Type:      a.word(),
		ObjectGen: store.ObjectGen(a.gen("object generation")),
		OwnerGen:  store.OwnerGen(a.gen("owner generation")),
		Version:   store.Version(a.gen("version")),
		Mesh:      a.word(),
		RID:       a.word(),
		OwnerID:   a.word(),
		LeaseGen:  store.LeaseGen(a.gen("lease generation")),
		SpotID:    a.word(),
		LeaseLeft: left,
	}
	op := a.operation()
	if state == store.Ready {
		a.word() // no deadline
		a.word() // no hash
		return row, true
	}
	row.Create = &store.Creation{Op: op, Deadline: time.UnixMilli(int64(a.number("deadline", 1<<53))), Hash: a.hash("hash")}
	return row, true
}

// sealed reads bytes that must have that SHA-256. The caller owns them.
func (a *answer) sealed(what string, hash [32]byte) []byte {
	p := []byte(a.word())
	if a.err == nil && sha256.Sum256(p) != hash {
		a.err = fmt.Errorf("%w: %s of %s: the %s of %d bytes does not have its SHA-256", store.ErrCorrupt, a.script, a.key, what, len(p))
	}
	return p
}

// sum is the SHA-256 of p in hex.
func sum(p []byte) string {
	h := sha256.Sum256(p)
	return hex.EncodeToString(h[:])
}
