package storetest

import (
	"github.com/zlnode/zlnode/store"
)

// How Spots and their members come into a new epoch: the Spot first.
var epochSpotCases = []testCase{
	{"SpotIsWrittenBeforeItsMembers", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		for _, wide := range []bool{false, true} {
			room := w.room("room", p, wide)
			a := w.member("player-1", p, room.ID)
			e := w.raise()
			w.refuses(attempt{"before its Spot", store.SpotUnavailable, w.tryReassert(assertionOf(a, p, e))})
			room = w.reassert(assertionOf(room, p, e), store.Applied)
			w.refuses(
				attempt{
					"in a Spot that is not there", store.SpotUnavailable,
					w.tryReassert(with(assertionOf(a, p, e), func(r *store.Reassert) { r.SpotID = "nowhere" })),
				},
				attempt{
					"with a Spot of the other mode", store.SpotUnavailable,
					w.tryReassert(with(assertionOf(a, p, e), func(r *store.Reassert) { r.Shares = !wide })),
				},
				attempt{
					"in an object that is no Spot", store.SpotUnavailable,
					w.tryReassert(with(assertionOf(a, p, e), func(r *store.Reassert) { r.SpotID = "player-1" })),
				},
			)
			moving := w.reserveMove(moveOf(room, q, "", false), store.Applied)
			w.refuses(attempt{"while its Spot moves", store.Moving, w.tryReassert(assertionOf(a, p, e))})
			room = w.end(endOf(moving, store.Source, p), store.Applied)
			a = w.reassert(assertionOf(w.must(a.ID), p, e), store.Applied)
			w.delete(w.change(changeOf(a, p.desc.EntrySpotID, false), store.Applied), newOp(), store.Applied)
			w.delete(room, newOp(), store.Applied)
		}
	}},
	{"MemberOfASpotWideSpotIsWrittenByTheSpotsOwner", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide := w.room("wide", p, true)
		a := w.member("player-1", p, wide.ID)
		e := w.raise()
		w.reassert(assertionOf(wide, p, e), store.Applied)
		later := a
		later.Version += 10
		w.refuses(attempt{"another process", store.SpotUnavailable, w.tryReassert(assertionOf(later, q, e))})
		w.reassert(assertionOf(w.must(a.ID), p, e), store.Applied)
	}},
	{"LostMoveOfASpotWideSpotTakesItsMembersAlong", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide := w.room("wide", p, true)
		w.member("player-0", p, wide.ID)
		w.member("player-1", p, wide.ID)
		before := w.must("player-0")
		e := w.raise()
		moved := wide
		moved.Version, moved.OwnerGen, moved.Mesh = wide.Version+10, 2, q.desc.Mesh
		got := w.reassert(assertionOf(moved, q, e), store.Applied)
		w.wantSlots(p, 0, 0)
		w.wantSlots(q, 2, 1)
		w.consistent()
		a := w.must("player-0")
		if a.RID != q.RID || a.OwnerGen != before.OwnerGen+1 || a.SpotVersion != got.Version {
			w.t.Errorf("member is %+v; want it at its Spot's owner", a)
		}
		// What the owner knows of the member's generation holds, whatever the Spot's is.
		a.OwnerGen = 7
		if a = w.reassert(assertionOf(a, q, e), store.Applied); a.OwnerGen != 7 {
			w.t.Errorf("member is %+v; want owner generation 7", a)
		}
		if out := w.change(changeOf(a, q.desc.EntrySpotID, false), store.Applied); out.OwnerGen != 7 {
			w.t.Errorf("member that left is %+v; want owner generation 7", out)
		}
	}},
	{"MembersThatAreLeftBehindAreWrittenThere", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		shy := w.room("shy", p, false)
		for _, id := range []string{"player-0", "player-1", "player-2"} {
			w.member(id, p, shy.ID)
		}
		moved := w.moveTo(shy, q, "", false)
		w.moveTo(w.must("player-0"), q, shy.ID, true)
		e := w.raise()
		if got := w.reassert(assertionOf(moved, q, e), store.Applied); got.MembersLeft != 2 {
			w.t.Errorf("the Spot is %+v; want 2 members left", got)
		}
		w.reassert(assertionOf(w.must("player-0"), q, e), store.Applied)
		w.reassert(assertionOf(w.must("player-1"), p, e), store.Applied)
		w.wantLeft(shy.ID, 2)
		// That one of them had followed was lost.
		followed := w.must("player-2")
		followed.Version, followed.OwnerGen, followed.Mesh = followed.Version+10, 2, q.desc.Mesh
		w.reassert(assertionOf(followed, q, e), store.Applied)
		w.wantLeft(shy.ID, 1)
		w.moveTo(w.must("player-1"), q, shy.ID, true)
		w.wantLeft(shy.ID, 0)
		w.moveTo(w.must(shy.ID), p, "", false)
	}},
	{"LostMoveOfAPerActorSpotLeavesItsMembersBehind", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		shy := w.room("shy", p, false)
		a, b := w.member("player-0", p, shy.ID), w.member("player-1", p, shy.ID)
		e := w.raise()
		shy.Version, shy.OwnerGen, shy.Mesh = shy.Version+10, 2, q.desc.Mesh
		w.reassert(assertionOf(shy, q, e), store.Applied)
		w.wantLeft(shy.ID, 2)
		w.reassert(assertionOf(a, p, e), store.Applied)
		w.moveTo(w.must(a.ID), q, shy.ID, true)
		w.wantLeft(shy.ID, 1)
		// A member whose row was lost while it was behind.
		w.free(with(store.FreeOf(&b, newOp()), func(f *store.Free) { f.By = p.Lease }), store.Applied)
		w.wantLeft(shy.ID, 0)
		b.Version++ // a change that was lost with the row
		w.reassert(assertionOf(b, p, e), store.Applied)
		w.wantLeft(shy.ID, 1)
	}},
	{"SpotWithMembersDoesNotBecomeAnotherIncarnation", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		for _, wide := range []bool{false, true} {
			spot := w.room("spot", p, wide)
			a := w.member("player-0", p, spot.ID)
			e := w.raise()
			later := assertionOf(spot, q, e)
			later.Version += 10
			later.ObjectGen++
			refused := func() {
				w.t.Helper()
				w.refuses(
					attempt{"of the same mode", store.NotEmpty, w.tryReassert(later)},
					attempt{"of the other mode", store.NotEmpty, w.tryReassert(with(later, func(r *store.Reassert) { r.Wide = !wide }))},
					attempt{
						"an Instance Spot", store.NotEmpty,
						w.tryReassert(with(later, func(r *store.Reassert) { r.Kind, r.Type, r.Wide = store.InstanceSpot, "quest", false })),
					},
				)
			}
			refused()
			w.delete(w.change(changeOf(w.must(a.ID), p.desc.EntrySpotID, false), store.Applied), newOp(), store.Applied)
			coming := w.reserveMove(moveOf(w.actor("player-1", q), p, spot.ID, true), store.Applied)
			refused() // one is on its way
			w.delete(w.end(endOf(coming, store.Source, q), store.Applied), newOp(), store.Applied)
			w.delete(w.reassert(with(later, func(r *store.Reassert) { r.Wide = !wide }), store.Applied), newOp(), store.Applied)
		}
	}},
	{"AggregateStaysKnownToItsOwner", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide := w.moveWide(w.room("wide", p, true), p, q, 0)
		e := w.raise()
		got := w.reassert(assertionOf(wide, q, e), store.Applied)
		if got.Aggregate == nil || *got.Aggregate != *wide.Aggregate {
			w.t.Errorf("aggregate is %+v; want %+v", got.Aggregate, wide.Aggregate)
		}
		w.wantChunk(wide.ID, wide.Aggregate.Root, []byte("inventory of wide"))
		// Another incarnation did not come by it.
		next := got
		next.ObjectGen, next.Version = got.ObjectGen+1, got.Version+1
		if got = w.reassert(assertionOf(next, q, e), store.Applied); got.Aggregate != nil {
			w.t.Errorf("the next incarnation has the aggregate %+v", got.Aggregate)
		}
		w.wantNoChunk(wide.ID, wide.Aggregate.Root)
	}},
	{"FirstMessageIsDroppedIfItsEndMayBeWhatWasLost", func(w *world) {
		p := w.server("node-a")
		a := w.make(questRequest("quest", p, []byte("message")))
		e := w.raise()
		later := a
		later.Version += 10
		if got := w.reassert(assertionOf(later, p, e), store.Applied); got.FirstPending {
			w.t.Errorf("%+v; want no first message", got)
		}
		w.wantNoFirst(a.ID, a.ObjectGen)
	}},
}
