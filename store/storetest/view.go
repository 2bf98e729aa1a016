package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zlnode/zlnode/store"
)

// odd are ids with everything that could mean something in a key, a range or a pattern.
var odd = []string{
	"\x00", "\x00\x00", "a\x00b", "a\nb", "\r\n", "{zl:default}", "}{", "a:b", ":", "1:6:player:x", "*", "[a-z]?", `\`, "%41", "A",
	"é", "e\u0301", "\U0010FFFF", "\x7f", " ", "in:x", "out:x",
	strings.Repeat("x", store.IDBytesMax), strings.Repeat("\x00", store.IDBytesMax), strings.Repeat("é", store.IDBytesMax/2),
}

var viewCases = []testCase{
	{"ListChoosesByKindTypeAndMesh", func(w *world) {
		types := func(d *store.Descriptor) {
			d.ActorTypes = []string{"1:player", "monster", "player", "player2"}
			d.SpotTypes = []store.SpotType{{Type: "player", Kind: store.InstanceSpot}, {Type: "player", Kind: store.UserSpot}}
		}
		p, q := w.server("node-a", types), w.server("node-b", types)
		var all []store.Authority
		for _, n := range []process{p, q} {
			for _, kind := range kinds {
				for _, name := range []string{"1:player", "monster", "player", "player2"} {
					if kind != store.Actor && name != "player" {
						continue
					}
					r := kindRequest(kind, fmt.Sprintf("%s %s %s", n.RID, kind, name), n)
					r.Type = name
					r.Wide = kind == store.UserSpot
					all = append(all, w.make(r))
				}
			}
		}
		all = append(all, w.reserve(request("creating", p), store.Applied))
		// Members of a SpotWide Spot are of its mesh, wherever it goes.
		w.change(changeOf(w.must("node-a Actor player"), "node-a UserSpot player", true), store.Applied)
		w.moveWide(w.must("node-a UserSpot player"), p, q, 1)
		for i := range all {
			all[i] = w.must(all[i].ID)
		}
		for _, f := range []store.Filter{
			{},
			{Kind: store.Actor},
			{Kind: store.UserSpot},
			{Kind: store.InstanceSpot},
			{Kind: store.EntrySpot},
			{Kind: store.Actor, Type: "player"},
			{Kind: store.Actor, Type: "player2"},
			{Kind: store.Actor, Type: "1:player"},
			{Kind: store.UserSpot, Type: "player"},
			{Kind: store.InstanceSpot, Type: "player"},
			{Kind: store.InstanceSpot, Type: "play"},
			{Mesh: p.desc.Mesh},
			{Mesh: q.desc.Mesh},
			{Mesh: "elsewhere"},
			{Kind: store.Actor, Mesh: p.desc.Mesh},
			{Kind: store.Actor, Type: "player", Mesh: q.desc.Mesh},
		} {
			want := map[string]store.Authority{}
			for _, a := range all {
				if (f.Kind == 0 || a.Kind == f.Kind) && (f.Type == "" || a.Type == f.Type) && (f.Mesh == "" || a.Mesh == f.Mesh) {
					want[a.ID] = a
				}
			}
			got := w.listAll(f, 3)
			if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
				w.t.Errorf("%+v lists %q; want %q", f, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
			}
			for id, a := range got {
				b := want[id]
				if a.Version != b.Version || a.OwnerID != b.OwnerID || a.OwnerGen != b.OwnerGen || a.SpotVersion != b.SpotVersion ||
					a.Mesh != b.Mesh || a.LeaseLeft <= 0 || a.Create != nil && a.Create.Request != nil {
					w.t.Errorf("listed %+v; want %+v without creation request", a, b)
				}
			}
		}
	}},
	{"ListIsCompleteAtAnyPageSize", func(w *world) {
		p := w.server("node-a")
		const objects = 1001
		together(20, func(n int) {
			for i := n; i < objects; i += 20 {
				if c, err := w.s.Reserve(w.ctx(), request(fmt.Sprintf("player-%d", i), p)); err != nil || c.Reason != store.Applied {
					w.t.Errorf("Reserve = %+v, %v", c, err)
				}
			}
		})
		for _, limit := range []int{1, 100, store.PageMax} {
			if got := w.listAll(store.Filter{Kind: store.Actor}, limit); len(got) != objects {
				w.t.Errorf("pages of %d list %d objects; want %d", limit, len(got), objects)
			}
		}
		var held []string
		for after := ""; ; after = held[len(held)-1] {
			ids, err := w.s.Held(w.ctx(), p.RID, p.Gen, store.HeldReserved, after, 100)
			if err != nil {
				w.t.Fatal(err)
			}
			held = append(held, ids...)
			if len(ids) < 100 {
				break
			}
		}
		if len(held) != objects || !slices.IsSorted(held) {
			w.t.Errorf("%d ids are reserved; want %d, in byte order", len(held), objects)
		}
	}},
	{"ListSeesWhatComesAndGoesBetweenPages", func(w *world) {
		p := w.server("node-a")
		for _, id := range []string{"b", "d", "f"} {
			w.actor(id, p)
		}
		first, err := w.s.List(w.ctx(), store.Filter{}, "", 2)
		if err != nil || len(first.Objects) != 2 || first.Next == "" {
			w.t.Fatalf("first page is %+v, %v", first, err)
		}
		w.actor("a", p)
		w.actor("e", p)
		w.delete(w.must("d"), newOp(), store.Applied) // the cursor's place
		second, err := w.s.List(w.ctx(), store.Filter{}, first.Next, 10)
		if err != nil || len(second.Objects) != 2 || second.Objects[0].ID != "e" || second.Objects[1].ID != "f" || second.Next != "" {
			w.t.Errorf("second page is %+v, %v; want e and f", second, err)
		}
	}},
	{"OddIDsAreListedHeldAndMembersAsTheyAre", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		want := slices.Sorted(slices.Values(odd))
		for _, wide := range []bool{false, true} {
			room := w.room("a room", p, wide)
			for _, id := range odd {
				w.member(id, p, room.ID)
			}
			w.wantMembers(room.ID, want...)
			if got := w.listAll(store.Filter{Kind: store.Actor, Type: "player"}, 1); len(got) != len(odd) {
				w.t.Errorf("%d objects are listed; want %d", len(got), len(odd))
			}
			for i, id := range want {
				page, err := w.s.Members(w.ctx(), room.ID, id, 1)
				if err != nil || !slices.Equal(page, want[i+1:min(i+2, len(want))]) {
					w.t.Errorf("behind %q the page is %q, %v", id, page, err)
				}
			}
			for _, id := range odd {
				a := w.change(changeOf(w.must(id), p.desc.EntrySpotID, false), store.Applied)
				w.reserveMove(moveOf(a, q, q.desc.EntrySpotID, false), store.Applied)
			}
			w.wantHeld(q, store.HeldReserved, want...)
			for i, id := range want {
				page, err := w.s.Held(w.ctx(), q.RID, q.Gen, store.HeldReserved, id, 2)
				if err != nil || !slices.Equal(page, want[i+1:min(i+3, len(want))]) {
					w.t.Errorf("behind %q %q are held, %v", id, page, err)
				}
			}
			w.consistent()
			for _, id := range odd {
				w.delete(w.end(endOf(w.must(id), store.Source, p), store.Applied), newOp(), store.Applied)
			}
			w.delete(room, newOp(), store.Applied)
		}
	}},
	{"OddIDsMayBeThoseOfSpots", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		for i, id := range odd {
			wide := i%2 == 0
			room := w.room(id, p, wide)
			a := w.member("player-1", p, id)
			w.wantMembers(id, "player-1")
			if wide {
				w.moveWide(room, p, q, 1)
			} else {
				w.moveTo(room, q, "", false)
				w.moveTo(a, q, id, true)
			}
			w.delete(w.change(changeOf(w.must(a.ID), q.desc.EntrySpotID, false), store.Applied), newOp(), store.Applied)
			w.delete(w.must(id), newOp(), store.Applied)
			quest := w.make(questRequest(id, p, []byte(id)))
			w.wantFirst(quest, []byte(id), 0)
			w.delete(quest, newOp(), store.Applied)
		}
		w.wantSlots(q, 0, 0)
	}},
	{"HeldIsOfOneLifecycle", func(w *world) {
		// One RID begins like the other, and so do generations.
		p, longer := w.server("node"), w.server("node-1")
		a := w.actor("player-1", p)
		w.actor("player-2", longer)
		w.expire(p)
		next := w.server("node")
		w.actor("player-3", next)
		w.wantHeld(p, store.HeldOwned, a.ID)
		w.wantHeld(next, store.HeldOwned, "player-3")
		w.wantHeld(longer, store.HeldOwned, "player-2")
		if p.Gen < 10 {
			return
		}
		ids, err := w.s.Held(w.ctx(), p.RID, p.Gen/10, store.HeldOwned, "", 10)
		if err != nil || len(ids) > 0 {
			w.t.Errorf("a lifecycle whose digits the other's begin with holds %q, %v", ids, err)
		}
	}},
	{"ReservationsOfAllProcessesAreListed", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		w.actor("ready", p)
		var want []store.Reservation
		for _, id := range odd {
			w.reserve(request(id, p), store.Applied)
			want = append(want, store.Reservation{ID: id, RID: p.RID, Lifecycle: p.Gen})
		}
		moving := w.actor("moving", p)
		w.reserveMove(moveOf(moving, q, q.desc.EntrySpotID, false), store.Applied)
		want = append(want, store.Reservation{ID: "moving", RID: q.RID, Lifecycle: q.Gen})
		for limit := range 4 {
			var got []store.Reservation
			for cursor := ""; ; {
				page, next, err := w.s.Reservations(w.ctx(), cursor, limit+1)
				if err != nil {
					w.t.Fatal(err)
				}
				if got = append(got, page...); next == "" {
					break
				}
				cursor = next
			}
			byID := func(a, b store.Reservation) int { return strings.Compare(a.ID, b.ID) }
			slices.SortFunc(got, byID)
			slices.SortFunc(want, byID)
			if !slices.Equal(got, want) {
				w.t.Errorf("pages of %d: %v; want %v", limit+1, got, want)
			}
		}
	}},
	{"PagesHaveLimits", func(w *world) {
		for _, limit := range []int{-1, 0, store.PageMax + 1} {
			w.wantInvalid(func() error { _, err := w.s.List(w.ctx(), store.Filter{}, "", limit); return err })
			w.wantInvalid(func() error { _, err := w.s.Members(w.ctx(), "room", "", limit); return err })
			w.wantInvalid(func() error { _, err := w.s.Held(w.ctx(), "node-a", 1, store.HeldOwned, "", limit); return err })
			w.wantInvalid(func() error { _, _, err := w.s.Reservations(w.ctx(), "", limit); return err })
		}
		w.wantInvalid(func() error { _, err := w.s.List(w.ctx(), store.Filter{Type: "player"}, "", 1); return err })
		w.wantInvalid(func() error { _, err := w.s.List(w.ctx(), store.Filter{}, "no cursor!", 1); return err })
		w.wantInvalid(func() error { _, _, err := w.s.Reservations(w.ctx(), "no cursor!", 1); return err })
	}},
}

// listAll lists with pages of that size, and fails for an object that comes twice.
func (w *world) listAll(f store.Filter, limit int) map[string]store.Authority {
	w.t.Helper()
	all := map[string]store.Authority{}
	for cursor := ""; ; {
		page, err := w.s.List(w.ctx(), f, cursor, limit)
		if err != nil || len(page.Objects) > limit {
			w.t.Fatalf("List(%+v, %q, %d) = %d objects, %v", f, cursor, limit, len(page.Objects), err)
		}
		for _, a := range page.Objects {
			if _, twice := all[a.ID]; twice {
				w.t.Fatalf("%q is listed twice", a.ID)
			}
			all[a.ID] = a
		}
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}
