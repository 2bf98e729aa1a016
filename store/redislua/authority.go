package redislua

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// spotTriesMax bounds how often a row is read again because the Actor changed Spots
// between two reads. A change takes longer than a read; a few in a row do not happen.
const spotTriesMax = 10

// Read implements store.Store. The owner of an Actor in a SpotWide Spot stands in the
// Spot's row, which the Actor's names: it takes a second round trip.
func (s *Store) Read(ctx context.Context, id string) (store.Authority, bool, error) {
	if err := store.CheckID("id", id); err != nil {
		return store.Authority{}, false, err
	}
	k := &s.keys
	for spot, tries := "", 0; ; tries++ {
		a, err := s.run(ctx, lua.ObjectRead, []string{k.epoch, k.object(id), k.request(id), k.leases, k.object(spot)}, spot)
		if err != nil {
			return store.Authority{}, false, err
		}
		c, request := a.changeWithRequest(id)
		if c.Record.Create != nil {
			c.Record.Create.Request = a.sealed("creation request", request, c.Record.Create.Hash)
		}
		switch err := a.end(); {
		case err != nil:
			return store.Authority{}, false, err
		case !c.Found || owned(&c.Record):
			return c.Record, c.Found, nil
		case tries == spotTriesMax || spot == c.Record.SpotID:
			return store.Authority{}, false, fmt.Errorf("%w: %s shares the owner of Spot %q, which has none", store.ErrCorrupt, k.object(id), spot)
		}
		spot = c.Record.SpotID
	}
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, f store.Fence, op store.OpID) (store.Change, error) {
	if err := cmp.Or(f.Check(), op.Check()); err != nil {
		return store.Change{}, err
	}
	k := &s.keys
	return s.change(ctx, f.ID, lua.ObjectDelete,
		slices.Concat([]string{
			k.epoch, k.object(f.ID), k.removed(f.ID), k.first(f.ID), k.leases, k.capacity, k.owned, k.objects, k.inventory(f.ID),
		}, k.spot(f.ID), k.spot(f.SpotID)),
		fenced(f, hexOf(op), millis(store.TerminalRetention))...)
}

// Free implements store.Store.
func (s *Store) Free(ctx context.Context, f store.Free) (store.Change, error) {
	if err := f.Check(); err != nil {
		return store.Change{}, err
	}
	by, lease := f.By.OwnerID, ""
	if by != "" {
		lease = decimal(f.By.Gen)
	}
	k := &s.keys
	return s.change(ctx, f.ID, lua.ObjectFree,
		slices.Concat([]string{
			k.epoch, k.object(f.ID), k.removed(f.ID), k.request(f.ID), k.first(f.ID), k.leases, k.capacity, k.owned, k.reserved,
			k.objects, k.freed, k.inventory(f.ID),
		}, k.spot(f.ID), k.spot(f.SpotID), k.spot(f.MoveSpotID)),
		f.ID, decimal(f.ObjectGen), decimal(f.Version), f.SpotID, f.MoveSpotID, hexOf(f.Op), millis(store.TerminalRetention), by, lease)
}

// ChangeSpot implements store.Store.
func (s *Store) ChangeSpot(ctx context.Context, c store.ChangeSpot) (store.Change, error) {
	if err := c.Check(); err != nil {
		return store.Change{}, err
	}
	k := &s.keys
	return s.change(ctx, c.ID, lua.SpotChange,
		slices.Concat([]string{k.epoch, k.object(c.ID), k.leases, k.capacity, k.owned, k.entries, k.versionCounter},
			k.spot(c.Fence.SpotID), k.spot(c.SpotID)),
		fenced(c.Fence, hexOf(c.Op), c.SpotID, membership(c.InUserSpot))...)
}

// Reassert implements store.Store. What the row says meanwhile is not known: it is
// read first, and again if it has changed.
func (s *Store) Reassert(ctx context.Context, r store.Reassert) (store.Change, error) {
	if err := r.Check(); err != nil {
		return store.Change{}, err
	}
	k := &s.keys
	place := ""
	if r.SpotID != "" {
		place = membership(r.InUserSpot)
	}
	for tries := 0; ; tries++ {
		spot, moveSpot, err := s.spotsOf(ctx, r.ID)
		if err != nil {
			return store.Change{}, err
		}
		c, err := s.change(ctx, r.ID, lua.ObjectReassert,
			slices.Concat([]string{
				k.epoch, k.object(r.ID), k.request(r.ID), k.first(r.ID), k.leases, k.capacity, k.reserved, k.owned, k.objects,
				k.versionCounter, k.inventory(r.ID), k.freed, k.entries, k.removed(r.ID),
			}, k.spot(r.ID), k.spot(r.SpotID), k.spot(spot), k.spot(moveSpot)),
			r.ID, hexOf(r.Op), decimal(r.Epoch), r.Owner.RID, r.Owner.OwnerID, decimal(r.Owner.Gen), kind(r.Kind), r.Type,
			flag(r.Wide, "1"), decimal(r.ObjectGen), decimal(r.OwnerGen), decimal(r.Version), r.Mesh, r.SpotID, place,
			flag(r.Shares, "shares"), spot, moveSpot)
		if err != nil || c.Reason != store.VersionConflict || tries == spotTriesMax || c.Record.Version > r.Version {
			return c, err
		}
	}
}

// spotsOf reads the Spot of a row and that of its move.
func (s *Store) spotsOf(ctx context.Context, id string) (spot, moveSpot string, err error) {
	rows, err := s.rowsOnly(ctx, []string{id})
	if err != nil || len(rows) == 0 {
		return "", "", err
	}
	if m := rows[0].Move; m != nil {
		moveSpot = m.SpotID
	}
	return rows[0].SpotID, moveSpot, nil
}

// change runs a script that answers with a row. If the row is that of an Actor which
// shares the owner of a Spot that the script did not know, it is read again.
func (s *Store) change(ctx context.Context, id string, script lua.Script, keys []string, args ...string) (store.Change, error) {
	a, err := s.run(ctx, script, keys, args...)
	if err != nil {
		return store.Change{}, err
	}
	c := a.change(id)
	c.Reason = a.reason
	if err := a.end(); err != nil {
		return store.Change{}, err
	}
	if c.Found && !owned(&c.Record) {
		if c.Record, c.Found, err = s.Read(ctx, id); err != nil {
			return store.Change{}, fmt.Errorf("%w: %s answered %v; the row was not read then: %w", store.ErrUnknown, script.Name, a.reason, err)
		}
	}
	return c, nil
}

// changeWithRequest reads a row that has the creation request as one more field.
func (a *answer) changeWithRequest(id string) (c store.Change, request string) {
	if n := len(a.words); n >= 2 && a.words[n-2] == "request" {
		request, a.words = a.words[n-1], a.words[:n-2]
	}
	return a.change(id), request
}

func membership(user bool) string {
	if user {
		return "user"
	}
	return "entry"
}
