package redislua

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// ReserveMove implements store.Store.
func (s *Store) ReserveMove(ctx context.Context, r store.ReserveMove) (store.Change, error) {
	if err := r.Check(); err != nil {
		return store.Change{}, err
	}
	place := ""
	if r.SpotID != "" {
		place = membership(r.InUserSpot)
	}
	k := &s.keys
	return s.change(ctx, r.ID, lua.MoveReserve,
		slices.Concat([]string{
			k.epoch, k.object(r.ID), k.node(r.TargetRID), k.leases, k.capacity, k.reserved, k.owned, k.versionCounter,
			k.inventory(r.ID),
		}, k.spot(r.ID), k.spot(r.Fence.SpotID), k.spot(r.SpotID)),
		fenced(r.Fence, hexOf(r.Op), decimal(r.Epoch), hexOf(r.Relocation), attempt(r.Attempt), millis(r.Validity), r.TargetRID,
			decimal(r.TargetLifecycle), r.SpotID, place)...)
}

// CommitMove implements store.Store.
func (s *Store) CommitMove(ctx context.Context, c store.CommitMove) (store.Change, error) {
	if err := c.Check(); err != nil {
		return store.Change{}, err
	}
	root := ""
	if c.Root != (store.Digest{}) {
		root = hex.EncodeToString(c.Root[:])
	}
	k := &s.keys
	return s.change(ctx, c.ID, lua.MoveCommit,
		slices.Concat([]string{k.epoch, k.object(c.ID), k.leases, k.capacity, k.reserved, k.owned, k.versionCounter}, k.moved(c.MoveRef)),
		moving(c.MoveRef, hexOf(c.Op), c.SourceOwnerID, decimal(c.SourceLease), c.Target.RID, c.Target.OwnerID,
			decimal(c.Target.Gen), root)...)
}

// EndMove implements store.Store.
func (s *Store) EndMove(ctx context.Context, e store.EndMove) (store.Change, error) {
	if err := e.Check(); err != nil {
		return store.Change{}, err
	}
	as := [...]string{store.Source: "source", store.Target: "target", store.Sweep: "sweep"}[e.By]
	k := &s.keys
	return s.change(ctx, e.ID, lua.MoveEnd,
		slices.Concat([]string{
			k.epoch, k.object(e.ID), k.leases, k.capacity, k.reserved, k.owned, k.versionCounter, k.inventory(e.ID),
		}, k.moved(e.MoveRef)),
		moving(e.MoveRef, hexOf(e.Op), as, e.Asker.RID, e.Asker.OwnerID, decimal(e.Asker.Gen))...)
}

// PutInventory implements store.Store.
func (s *Store) PutInventory(ctx context.Context, m store.MoveRef, chunk []byte) (store.Reason, error) {
	if err := m.Check(); err != nil {
		return 0, err
	}
	if len(chunk) == 0 || len(chunk) > store.PayloadBytesMax {
		return 0, fmt.Errorf("%w: inventory chunk of %q has %d bytes: need 1 to %d", store.ErrInvalid, m.ID, len(chunk), store.PayloadBytesMax)
	}
	k := &s.keys
	a, err := s.run(ctx, lua.InventoryPut, []string{k.epoch, k.object(m.ID), k.inventory(m.ID)}, moving(m, sum(chunk), string(chunk))...)
	if err != nil {
		return 0, err
	}
	return a.reason, a.end()
}

// ReadInventory implements store.Store.
func (s *Store) ReadInventory(ctx context.Context, spotID string, digest store.Digest) ([]byte, bool, error) {
	if err := store.CheckID("Spot id", spotID); err != nil {
		return nil, false, err
	}
	a, err := s.run(ctx, lua.InventoryRead, []string{s.keys.inventory(spotID)}, hex.EncodeToString(digest[:]))
	if err != nil || a.reason != store.Exists {
		return nil, false, err
	}
	chunk := []byte(a.word())
	if err := a.end(); err != nil {
		return nil, false, err
	}
	if sha256.Sum256(chunk) != digest {
		return nil, false, fmt.Errorf("%w: inventory chunk of %q of %d bytes does not have its SHA-256", store.ErrCorrupt, spotID, len(chunk))
	}
	return chunk, true, nil
}

// PrepareAggregate implements store.Store.
func (s *Store) PrepareAggregate(ctx context.Context, p store.PrepareAggregate) (store.Change, error) {
	if err := p.Check(); err != nil {
		return store.Change{}, err
	}
	k := &s.keys
	return s.change(ctx, p.ID, lua.AggregatePrepare,
		slices.Concat([]string{
			k.epoch, k.object(p.ID), k.leases, k.capacity, k.reserved, k.owned, k.versionCounter, k.inventory(p.ID),
		}, k.spot(p.ID)),
		moving(p.MoveRef, hexOf(p.Op), p.Asker.RID, p.Asker.OwnerID, decimal(p.Asker.Gen), hex.EncodeToString(p.Inventory.Root[:]),
			strconv.Itoa(p.Inventory.Count))...)
}

// CompleteMove implements store.Store.
func (s *Store) CompleteMove(ctx context.Context, f store.Fence, id store.RelocationID) (store.Change, error) {
	if err := cmp.Or(f.Check(), id.Check()); err != nil {
		return store.Change{}, err
	}
	k := &s.keys
	return s.change(ctx, f.ID, lua.MoveComplete, []string{k.epoch, k.object(f.ID), k.leases, k.inventory(f.ID)}, fenced(f, hexOf(id))...)
}

// moved names the keys of the places that a move touches.
func (k *keys) moved(m store.MoveRef) []string {
	return slices.Concat(k.spot(m.ID), k.spot(m.SpotID), k.spot(m.MoveSpotID))
}

// moving puts the words of the move before the others.
func moving(m store.MoveRef, args ...string) []string {
	return append([]string{
		m.ID, decimal(m.ObjectGen), decimal(m.Version), hexOf(m.Relocation), attempt(m.Attempt), decimal(m.Epoch), m.SpotID, m.MoveSpotID,
	}, args...)
}

func attempt(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
