package redislua

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// Reserve implements store.Store.
func (s *Store) Reserve(ctx context.Context, r store.Reserve) (store.Change, error) {
	if err := r.Check(); err != nil {
		return store.Change{}, err
	}
	k := &s.keys
	op, source := creationOp(r.Op)
	args := []string{
		r.ID, kind(r.Kind), r.Type, flag(r.Wide, "1"), op, source, r.TargetRID, decimal(r.TargetLifecycle),
		millis(r.Timeout), millis(s.options.RecoveryHold), string(r.Request), sum(r.Request), r.Pass,
	}
	if r.First != nil {
		args = append(args, string(r.First))
	}
	return s.change(ctx, r.ID, lua.ObjectReserve,
		[]string{
			k.epoch, k.object(r.ID), k.request(r.ID), k.first(r.ID), k.terminal(r.Op), k.node(r.TargetRID), k.leases, k.capacity,
			k.reserved, k.objects, k.entries, k.objectCounter, k.versionCounter,
		}, args...)
}

// Finish implements store.Store.
func (s *Store) Finish(ctx context.Context, f store.Finish) (store.Change, error) {
	if err := f.Check(); err != nil {
		return store.Change{}, err
	}
	k := &s.keys
	op, source := creationOp(f.Op)
	return s.change(ctx, f.ID, lua.ObjectFinish,
		[]string{
			k.epoch, k.object(f.ID), k.request(f.ID), k.first(f.ID), k.terminal(f.Op), k.leases, k.capacity, k.reserved, k.owned,
			k.objects, k.versionCounter,
		},
		fenced(f.Fence, op, source, strconv.Itoa(int(f.Result)), strconv.Itoa(int(f.FailKind)), string(f.Reply), sum(f.Reply),
			millis(store.TerminalRetention))...)
}

// CancelCreation implements store.Store.
func (s *Store) CancelCreation(ctx context.Context, id string, gen store.ObjectGen, v store.Version) (store.Change, error) {
	if err := store.CheckRow(id, gen, v); err != nil {
		return store.Change{}, err
	}
	k := &s.keys
	return s.change(ctx, id, lua.CreationCancel,
		[]string{
			k.epoch, k.object(id), k.removed(id), k.request(id), k.first(id), k.leases, k.capacity, k.reserved, k.owned, k.objects,
			k.freed,
		},
		id, decimal(gen), decimal(v), millis(store.TerminalRetention))
}

// ReadFirst implements store.Store.
func (s *Store) ReadFirst(ctx context.Context, id string, gen store.ObjectGen) (store.FirstMessage, bool, error) {
	if err := store.CheckRow(id, gen, 1); err != nil {
		return store.FirstMessage{}, false, err
	}
	a, err := s.run(ctx, lua.FirstRead, []string{s.keys.object(id), s.keys.first(id)}, decimal(gen))
	if err != nil || a.reason != store.Exists {
		return store.FirstMessage{}, false, err
	}
	f := store.FirstMessage{Cursor: a.number("cursor", math.MaxUint64), Message: []byte(a.word())}
	return f, true, a.end()
}

// AdvanceFirst implements store.Store.
func (s *Store) AdvanceFirst(ctx context.Context, f store.Fence, op store.OpID, cursor uint64, done bool) (store.Change, error) {
	if err := cmp.Or(f.Check(), op.Check()); err != nil {
		return store.Change{}, err
	}
	k := &s.keys
	return s.change(ctx, f.ID, lua.FirstAdvance,
		[]string{k.epoch, k.object(f.ID), k.first(f.ID), k.leases, k.capacity, k.owned, k.versionCounter},
		fenced(f, hexOf(op), strconv.FormatUint(cursor, 10), flag(done, "done"))...)
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
	t.Reply = a.sealed("reply", a.word(), t.Hash)
	if err := a.end(); err != nil {
		return store.Terminal{}, false, err
	}
	return t, true, nil
}

// sealed returns bytes that must have that SHA-256. The caller owns them.
func (a *answer) sealed(what, word string, hash store.Digest) []byte {
	p := []byte(word)
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

func kind(k store.Kind) string { return strconv.Itoa(int(k)) }

func flag(set bool, word string) string {
	if set {
		return word
	}
	return ""
}

// fenced puts the fence's words before the others.
func fenced(f store.Fence, args ...string) []string {
	spot := ""
	if f.SpotVersion != 0 {
		spot = decimal(f.SpotVersion)
	}
	return append([]string{f.ID, decimal(f.ObjectGen), decimal(f.Version), f.OwnerID, decimal(f.LeaseGen), f.SpotID, spot}, args...)
}
