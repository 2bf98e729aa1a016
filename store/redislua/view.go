package redislua

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// List implements store.Store. The set `objects` has kind, type and id of every row, in
// that order, so kind and type choose a range of it; the mesh is looked for in the rows.
func (s *Store) List(ctx context.Context, f store.Filter, cursor string, limit int) (store.Page, error) {
	behind, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		err = fmt.Errorf("%w: %.80q is no cursor of a list", store.ErrInvalid, cursor)
	}
	if err := cmp.Or(err, f.Check(), store.CheckLimit(limit)); err != nil {
		return store.Page{}, err
	}
	entries, err := s.lexPage(ctx, s.keys.objects, listed(f), string(behind), limit)
	if err != nil || len(entries) == 0 {
		return store.Page{}, err
	}
	ids := make([]string, len(entries))
	for i, e := range entries {
		if ids[i], err = listedID(e); err != nil {
			return store.Page{}, err
		}
	}
	rows, err := s.rows(ctx, ids)
	if err != nil {
		return store.Page{}, err
	}
	var p store.Page
	for _, a := range rows {
		if f.Mesh == "" || a.Mesh == f.Mesh {
			p.Objects = append(p.Objects, a)
		}
	}
	if len(entries) == limit {
		p.Next = base64.RawURLEncoding.EncodeToString([]byte(entries[limit-1]))
	}
	return p, nil
}

// listed is how members of `objects` begin that the filter takes: see index_of.
func listed(f store.Filter) string {
	switch {
	case f.Kind == 0:
		return ""
	case f.Type == "":
		return kind(f.Kind) + ":"
	}
	return kind(f.Kind) + ":" + strconv.Itoa(len(f.Type)) + ":" + f.Type + ":"
}

func listedID(entry string) (string, error) {
	if parts := strings.SplitN(entry, ":", 3); len(parts) == 3 {
		if n, err := strconv.Atoi(parts[1]); err == nil && n >= 0 && n < len(parts[2]) {
			return parts[2][n+1:], nil
		}
	}
	return "", fmt.Errorf("%w: list of objects: entry %.80q", store.ErrCorrupt, entry)
}

// Members implements store.Store.
func (s *Store) Members(ctx context.Context, spotID, after string, limit int) ([]string, error) {
	if err := cmp.Or(store.CheckID("Spot id", spotID), store.CheckLimit(limit)); err != nil {
		return nil, err
	}
	return s.lexPage(ctx, s.keys.members(spotID), "", after, limit)
}

// Held implements store.Store.
func (s *Store) Held(ctx context.Context, rid string, lifecycle store.LeaseGen, h store.Holding, after string, limit int) ([]string, error) {
	if err := cmp.Or(store.CheckName("RID", rid), store.CheckGen("lifecycle", lifecycle), h.Check(), store.CheckLimit(limit)); err != nil {
		return nil, err
	}
	set := s.keys.owned
	if h == store.HeldReserved {
		set = s.keys.reserved
	}
	begin := process(rid, lifecycle) + ":"
	if after != "" {
		after = begin + after
	}
	ids, err := s.lexPage(ctx, set, begin, after, limit)
	for i := range ids {
		ids[i] = strings.TrimPrefix(ids[i], begin)
	}
	return ids, err
}

// Reservations implements store.Store.
func (s *Store) Reservations(ctx context.Context, cursor string, limit int) (all []store.Reservation, next string, err error) {
	behind, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		err = fmt.Errorf("%w: %.80q is no cursor of a list", store.ErrInvalid, cursor)
	}
	if err := cmp.Or(err, store.CheckLimit(limit)); err != nil {
		return nil, "", err
	}
	members, err := s.lexPage(ctx, s.keys.reserved, "", string(behind), limit)
	for _, m := range members {
		parts := strings.SplitN(m, ":", 3)
		if len(parts) != 3 {
			return nil, "", fmt.Errorf("%w: list of reservations: entry %.80q", store.ErrCorrupt, m)
		}
		gen, err := strconv.ParseUint(parts[1], 10, 63)
		if err != nil {
			return nil, "", fmt.Errorf("%w: list of reservations: entry %.80q", store.ErrCorrupt, m)
		}
		all = append(all, store.Reservation{RID: parts[0], Lifecycle: store.LeaseGen(gen), ID: parts[2]})
	}
	if len(members) == limit {
		next = base64.RawURLEncoding.EncodeToString([]byte(members[limit-1]))
	}
	return all, next, err
}

// lexPage reads members of a sorted set that begin so, behind the given one.
func (s *Store) lexPage(ctx context.Context, set, begin, behind string, limit int) ([]string, error) {
	from, to := "-", "+"
	if begin != "" {
		from, to = "["+begin, "("+begin+"\xff" // no member has this byte: ids are UTF-8
	}
	if behind != "" {
		from = "(" + behind
	}
	a, err := s.run(ctx, lua.Page, []string{set}, from, to, strconv.Itoa(limit))
	if err != nil {
		return nil, err
	}
	members := make([]string, 0, len(a.words)-a.read)
	for a.more() {
		members = append(members, a.word())
	}
	return members, a.end()
}

// rows reads the rows of ids that have one, in their order. Owners that are a Spot's
// are read too.
func (s *Store) rows(ctx context.Context, ids []string) ([]store.Authority, error) {
	rows, err := s.rowsOnly(ctx, ids)
	if err != nil {
		return nil, err
	}
	known := map[string]*store.Authority{}
	var spots []string
	for i := range rows {
		if a := &rows[i]; !owned(a) && known[a.SpotID] == nil {
			known[a.SpotID] = &store.Authority{}
			spots = append(spots, a.SpotID)
		}
	}
	if len(spots) == 0 {
		return rows, nil
	}
	spotRows, err := s.rowsOnly(ctx, spots)
	if err != nil {
		return nil, err
	}
	for i := range spotRows {
		known[spotRows[i].ID] = &spotRows[i]
	}
	there := rows[:0]
	for _, a := range rows {
		if !owned(&a) {
			spot := known[a.SpotID]
			if !owned(spot) {
				continue // it has changed Spots since: not in this page
			}
			share(&a, spot)
		}
		there = append(there, a)
	}
	return there, nil
}

// share gives the Actor's row, as rowsOnly reads it, the owner of its Spot.
func share(a, spot *store.Authority) {
	a.Mesh, a.RID, a.OwnerID, a.LeaseGen, a.LeaseLeft = spot.Mesh, spot.RID, spot.OwnerID, spot.LeaseGen, spot.LeaseLeft
	a.SpotVersion, a.OwnerGen = spot.Version, a.OwnerGen+spot.OwnerGen
}

// rowsOnly reads rows as they are. OwnerGen of an Actor that shares its Spot's owner is
// its row's own, which may stand for a negative number: the sum wraps to what is meant.
func (s *Store) rowsOnly(ctx context.Context, ids []string) ([]store.Authority, error) {
	keys := append(make([]string, 0, 2+len(ids)), s.keys.epoch, s.keys.leases)
	for _, id := range ids {
		keys = append(keys, s.keys.object(id))
	}
	a, err := s.run(ctx, lua.RowsRead, keys)
	if err != nil {
		return nil, err
	}
	a.gen("epoch")
	var rows []store.Authority
	for a.more() {
		place := a.number("place", uint64(len(ids)-1))
		left := a.timeLeft()
		r := row{a, map[string]string{}}
		for range a.number("count of fields", uint64(len(a.words))) {
			field := a.word()
			r.fields[field] = a.word()
		}
		if a.err == nil {
			rows = append(rows, r.authority(ids[place], left))
		}
	}
	return rows, a.end()
}
