package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zlnode/zlnode/store"
)

// cursorMark begins every cursor, so that a foreign one is noticed.
const cursorMark = "behind "

// List implements store.Store, in the order of ids.
func (s *Store) List(ctx context.Context, f store.Filter, cursor string, limit int) (p store.Page, err error) {
	behind, ours := strings.CutPrefix(cursor, cursorMark)
	if err = cmp.Or(f.Check(), store.CheckLimit(limit)); err == nil && !ours && cursor != "" {
		err = fmt.Errorf("%w: %.80q is no cursor of a list", store.ErrInvalid, cursor)
	}
	err = s.call(ctx, err, func(v view) {
		ids := page(v.each(func(r *row) bool {
			return (f.Kind == 0 || r.Kind == f.Kind) && (f.Type == "" || r.Type == f.Type) && (f.Mesh == "" || r.Mesh == f.Mesh)
		}), behind, limit)
		for _, id := range ids {
			a, _ := v.record(id)
			if a.Create != nil {
				a.Create.Request = nil
			}
			p.Objects = append(p.Objects, a)
		}
		if len(ids) == limit {
			p.Next = cursorMark + ids[limit-1]
		}
	})
	return p, err
}

// page returns the first ids behind the given one.
func page(ids []string, behind string, limit int) []string {
	out := []string{}
	for _, id := range ids {
		if id > behind && len(out) < limit {
			out = append(out, id)
		}
	}
	return out
}

// Members implements store.Store.
func (s *Store) Members(ctx context.Context, spotID, after string, limit int) (ids []string, err error) {
	err = s.call(ctx, cmp.Or(store.CheckID("Spot id", spotID), store.CheckLimit(limit)), func(v view) {
		ids = page(v.members(spotID), after, limit)
	})
	return ids, err
}

// Reservations implements store.Store.
func (s *Store) Reservations(ctx context.Context, cursor string, limit int) (all []store.Reservation, next string, err error) {
	behind, ours := strings.CutPrefix(cursor, cursorMark)
	if !ours && cursor != "" {
		err = fmt.Errorf("%w: %.80q is no cursor of a list", store.ErrInvalid, cursor)
	}
	err = s.call(ctx, cmp.Or(err, store.CheckLimit(limit)), func(v view) {
		of := map[string]store.Reservation{}
		v.each(func(r *row) bool {
			switch {
			case r.State == store.Creating:
				of[fmt.Sprintf("%s:%d:%s", r.RID, r.LeaseGen, r.ID)] = store.Reservation{ID: r.ID, RID: r.RID, Lifecycle: r.LeaseGen}
			case r.Move != nil:
				of[fmt.Sprintf("%s:%d:%s", r.Move.TargetRID, r.Move.TargetLifecycle, r.ID)] = store.Reservation{
					ID: r.ID, RID: r.Move.TargetRID, Lifecycle: r.Move.TargetLifecycle,
				}
			}
			return false
		})
		members := page(slices.Sorted(maps.Keys(of)), behind, limit)
		for _, m := range members {
			all = append(all, of[m])
		}
		if len(members) == limit {
			next = cursorMark + members[limit-1]
		}
	})
	return all, next, err
}

// Held implements store.Store.
func (s *Store) Held(ctx context.Context, rid string, lifecycle store.LeaseGen, h store.Holding, after string, limit int) (ids []string, err error) {
	err = s.call(ctx, cmp.Or(store.CheckName("RID", rid), store.CheckGen("lifecycle", lifecycle), store.CheckLimit(limit)), func(v view) {
		ids = page(v.each(func(r *row) bool {
			if h == store.HeldReserved {
				return r.reserved(rid, lifecycle)
			}
			return r.active(rid, lifecycle) && !r.shares
		}), after, limit)
	})
	return ids, err
}
