package sim

import "github.com/zlnode/zlnode/store"

// This file is the oracle of rooms that move: all members of a SpotWide one do, or none.

// changedRoom is told of each change of a User Spot's row. Those of the members of a SpotWide one
// follow it.
func (b *book) changedRoom(h *host, what string, row *store.Authority) {
	if row.Wide {
		for _, f := range b.all {
			b.follows(f, what, row)
		}
	}
	if what == "commit move" {
		b.w.Cover.Mark("committed rooms")
		b.committedRoom(row)
	}
	b.acts(h)
}

func (b *book) follows(f *life, what string, spot *store.Authority) {
	row, found, _ := b.w.store.Read(background, f.id)
	if !found || row.ObjectGen != f.gen || !row.InUserSpot || row.SpotID != spot.ID {
		return
	}
	if row.RID != spot.RID || row.LeaseGen != spot.LeaseGen {
		b.w.fail("AG-04", "%s is %s's by its row, and its room %s's", f.id, row.RID, spot.RID)
	}
	switch what {
	case "commit move":
		if row.OwnerGen != f.as+1 {
			b.w.fail("I7", "%s #%d got owner generation %d behind %d with its room", f.id, f.gen, row.OwnerGen, f.as)
		}
		f.owner, f.as = refOf(&row).at, row.OwnerGen
		b.committed(&row)
		b.w.Cover.Mark("committed members")
	case "abort move", "give up move", "sweep":
		if m := b.moves[b.lastMove(f)]; m != nil && m.o.whole != nil && !m.committed {
			m.aborted = true
		}
	}
}

// committedRoom checks that the commit of a room comes behind the capture of all.
func (b *book) committedRoom(row *store.Authority) {
	for _, r := range b.wholes {
		if o := r.o; o.r.ref.gen != row.ObjectGen || o.to != refOf(row).at || o.id != latest(b.wholes, row.ObjectGen) {
			continue
		}
		r.committed = true
		for _, m := range r.o.members {
			if b.moves[m.id].captured == nil {
				b.w.fail("AG-06", "room %s was committed, and %s is not captured", row.ID, m.a.ref.id)
			}
		}
	}
}

// latest is the latest move of a room.
func latest(all map[store.RelocationID]*wholeRecord, gen store.ObjectGen) (id store.RelocationID) {
	for at, r := range all {
		if r.o.r.ref.gen == gen && (at[0] > id[0] || at[0] == id[0] && at[1] > id[1]) {
			id = at
		}
	}
	return id
}

// together checks that no member of a SpotWide room runs at another process than the one that now
// begins a turn of one.
func (b *book) together(a *actor) {
	if a.room == nil || !a.room.wide {
		return
	}
	for _, p := range b.w.living {
		if p.host == nil || p.host == a.h || !p.mayAct() {
			continue
		}
		r := p.host.rooms[a.room.ref.id]
		if r == nil || r.gone || r.ref.gen != a.room.ref.gen {
			continue
		}
		for _, other := range r.here() {
			if other.cur == (open{}) {
				b.w.fail("AG-07", "a turn of %s begins at %s, and %s of the same room is open at %s", a.ref.id, a.h.name(), other.ref.id, p.name())
			}
		}
	}
}

// mergedRoom is told when a room is another process's.
func (b *book) mergedRoom(i *arriving) {
	if !i.h.mayAct() {
		return
	}
	if !b.wholes[i.id].committed {
		b.w.fail("I5", "%s takes room %s, which is not committed", i.h.name(), i.r.ref.id)
	}
}
