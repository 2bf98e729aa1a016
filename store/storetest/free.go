package storetest

import (
	"fmt"

	"github.com/zlnode/zlnode/store"
)

var freeCases = []testCase{
	{"NothingOfALivingOwnerIsFreed", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide := w.room("wide", p, true)
		w.member("player-1", p, wide.ID)
		moving := w.reserveMove(moveOf(w.actor("player-2", p), q, q.desc.EntrySpotID, false), store.Applied)
		w.reserve(request("player-3", p), store.Applied)
		w.reserveMove(moveOf(wide, q, "", false), store.Applied)
		for _, id := range []string{"player-1", moving.ID, "player-3"} {
			a := w.must(id)
			f := store.FreeOf(&a, newOp())
			w.refuses(
				attempt{id, store.OwnerAlive, w.tryFree(f)},
				attempt{id + " by another", store.OwnerAlive, w.tryFree(with(f, func(f *store.Free) { f.By = q.Lease }))},
				attempt{id + " by another's owner id", store.OwnerAlive, w.tryFree(with(f, func(f *store.Free) { f.By = p.Lease; f.By.Gen++ }))},
			)
		}
		if n := w.freed(p); n != 0 {
			w.t.Errorf("the owner is told of %d rows", n)
		}
	}},
	{"RowsOfADeadOwnerAreFreedAndAPausedOneIsTold", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide, shy := w.room("wide", p, true), w.room("shy", p, false)
		w.member("player-wide", p, wide.ID)
		w.member("player-shy", p, shy.ID)
		w.actor("player-entry", p)
		w.make(questRequest("quest", p, []byte("message")))
		w.reserve(request("creating", p), store.Applied)
		w.reserveMove(moveOf(w.actor("moving", p), q, w.room("there", q, false).ID, true), store.Applied)
		w.expire(p)
		told := uint64(0)
		for _, id := range []string{"player-entry", "quest", "creating", "moving"} {
			a := w.must(id)
			w.refusesFree(a)
			f := store.FreeOf(&a, newOp())
			if c := w.free(f, store.Applied); c.Found {
				w.t.Errorf("%q is freed and shows %+v", id, c.Record)
			}
			told++
			w.wantMissing(id)
			w.free(f, store.AlreadyApplied)
			w.free(store.FreeOf(&a, newOp()), store.Missing)
		}
		// Members go before their Spot.
		for member, spot := range map[string]string{"player-wide": wide.ID, "player-shy": shy.ID} {
			s, a := w.must(spot), w.must(member)
			w.refuses(attempt{spot + " has a member", store.NotEmpty, w.tryFree(store.FreeOf(&s, newOp()))})
			w.free(store.FreeOf(&a, newOp()), store.Applied)
			w.free(store.FreeOf(&s, newOp()), store.Applied)
			told += 2
			w.wantMembers(spot)
		}
		w.wantSlots(p, 0, 0)
		w.wantSlots(q, 0, 1)
		w.wantHeld(p, store.HeldOwned)
		w.wantHeld(q, store.HeldReserved)
		if n := w.freed(p); n != told {
			w.t.Errorf("the owner is told of %d rows; want %d", n, told)
		}
		w.delete(w.must("there"), newOp(), store.Applied) // nobody is on the way to it
	}},
	{"RepeatDoesNotTouchTheNextIncarnation", func(w *world) {
		p := w.server("node-a")
		a := w.actor("player-1", p)
		f := with(store.FreeOf(&a, newOp()), func(f *store.Free) { f.By = p.Lease })
		w.free(f, store.Applied)
		w.actor(a.ID, p)
		w.refuses(
			attempt{"the same operation", store.AlreadyApplied, w.tryFree(f)},
			attempt{"another one", store.GenerationConflict, w.tryFree(with(f, func(f *store.Free) { f.Op = newOp() }))},
		)
	}},
	{"OwnerFreesWhatItCannotGoOnWith", func(w *world) {
		p := w.server("node-a")
		for _, wide := range []bool{false, true} {
			spot := w.room("spot", p, wide)
			a := w.member("player-1", p, spot.ID)
			w.refuses(attempt{"deletion of a member", store.IsMember, w.tryDelete(a)})
			w.free(with(store.FreeOf(&a, newOp()), func(f *store.Free) { f.By = p.Lease }), store.Applied)
			w.wantMembers(spot.ID)
			w.delete(spot, newOp(), store.Applied)
		}
		w.wantSlots(p, 0, 0)
	}},
	{"MovePastItsValidityIsFreedFromALivingOwner", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		from, to := w.room("from", p, false), w.room("to", q, false)
		r := moveOf(w.member("player-1", p, from.ID), q, to.ID, true)
		r.Validity = shortValidity
		moving := w.reserveMove(r, store.Applied)
		w.refusesFree(moving)
		w.freeAtLast(moving)
		w.refuses(
			attempt{"commit", store.Missing, w.tryCommit(commitOf(moving, q))},
			attempt{"abort", store.Missing, w.tryEnd(endOf(moving, store.Source, p))},
			attempt{"giving up", store.Missing, w.tryEnd(endOf(moving, store.Target, q))},
		)
		if n := w.freed(p); n != 1 {
			w.t.Errorf("the owner is told of %d rows; want 1", n)
		}
		w.delete(from, newOp(), store.Applied)
		w.delete(to, newOp(), store.Applied)
		w.wantSlots(q, 0, 0)
	}},
	{"MembersOfAnAggregatePastItsValidityAreFreedFromALivingOwner", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide := w.room("wide", p, true)
		for i := range 2 {
			w.member(fmt.Sprint("player-", i), p, wide.ID)
		}
		r := moveOf(wide, q, "", false)
		r.Validity = shortValidity
		moving := w.reserveMove(r, store.Applied)
		root := w.putChunk(store.MoveOf(&moving), []byte("root"), store.Applied)
		prepared := w.prepare(prepareOf(moving, p, store.Inventory{Root: root, Count: 3}), store.Applied)
		w.freeAtLast(w.must("player-0"))
		// What is left is not what was prepared: nothing commits it any more.
		w.refuses(attempt{"commit", store.InventoryConflict, w.tryCommit(commitOf(prepared, q))})
		w.freeAtLast(w.must("player-1"))
		w.freeAtLast(w.must(wide.ID))
		w.wantNoChunk(wide.ID, root)
		w.wantSlots(p, 0, 0)
		w.wantSlots(q, 0, 0)
	}},
	{"AggregateOfADeadSourceDoesNotMoveWithoutAMember", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide := w.room("wide", p, true)
		w.member("player-0", p, wide.ID)
		w.member("player-1", p, wide.ID)
		prepared := w.prepared(wide, p, q, 2)
		w.expire(p)
		a := w.must("player-0")
		w.free(store.FreeOf(&a, newOp()), store.Applied)
		w.refuses(attempt{"commit", store.InventoryConflict, w.tryCommit(commitOf(prepared, q))})
		w.end(endOf(prepared, store.Target, q), store.Applied)
		if n := w.freed(p); n != 1 {
			w.t.Errorf("the source is told of %d rows; want 1", n)
		}
		w.moveWide(w.must(wide.ID), p, q, 1)
	}},
	{"AggregateIsNotFixedWithoutAMemberThatWasBooked", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide := w.room("wide", p, true)
		w.member("player-0", p, wide.ID)
		w.member("player-1", p, wide.ID)
		moving := w.reserveMove(moveOf(wide, q, "", false), store.Applied)
		root := w.putChunk(store.MoveOf(&moving), []byte("root"), store.Applied)
		a := w.must("player-0")
		w.free(with(store.FreeOf(&a, newOp()), func(f *store.Free) { f.By = p.Lease }), store.Applied)
		for _, count := range []int{2, 3} {
			prepare := prepareOf(moving, p, store.Inventory{Root: root, Count: count})
			w.refuses(attempt{fmt.Sprint(count, " participants"), store.InventoryConflict, w.tryPrepare(prepare)})
		}
		w.moveWide(w.end(endOf(moving, store.Source, p), store.Applied), p, q, 1)
	}},
	{"RowsOfAProcessThatCannotComeBackAreTakenOffSilently", func(w *world) {
		p := w.server("node-a")
		a, b := w.actor("player-1", p), w.actor("player-2", p)
		w.expire(p)
		next := w.server(p.RID)
		w.free(store.FreeOf(&a, newOp()), store.Applied)
		if reason, err := w.s.ReleaseLease(w.ctx(), next.Lease); err != nil || reason != store.Applied {
			w.t.Fatalf("ReleaseLease = %v, %v", reason, err)
		}
		w.free(store.FreeOf(&b, newOp()), store.Applied)
		if n := w.freed(w.server(p.RID)); n != 0 {
			w.t.Errorf("the next process is told of %d rows of the one before", n)
		}
	}},
}

// refusesFree edits each part of the row that Free compares.
func (w *world) refusesFree(a store.Authority) {
	w.t.Helper()
	f := store.FreeOf(&a, newOp())
	w.refuses(
		attempt{"no row", store.Missing, w.tryFree(with(f, func(f *store.Free) { f.ID = "nobody" }))},
		attempt{"another incarnation", store.GenerationConflict, w.tryFree(with(f, func(f *store.Free) { f.ObjectGen++ }))},
		attempt{"another version", store.VersionConflict, w.tryFree(with(f, func(f *store.Free) { f.Version++ }))},
		attempt{"another Spot", store.VersionConflict, w.tryFree(with(f, func(f *store.Free) { f.SpotID += "x" }))},
		attempt{"another Spot of the move", store.VersionConflict, w.tryFree(with(f, func(f *store.Free) { f.MoveSpotID += "x" }))},
	)
}

// freeAtLast frees a row once the validity that protects it has passed.
func (w *world) freeAtLast(a store.Authority) {
	w.t.Helper()
	f := store.FreeOf(&a, newOp())
	w.until("the validity to pass", func() bool {
		c, err := w.s.Free(w.ctx(), f)
		if err != nil || c.Reason != store.Applied && c.Reason != store.OwnerAlive {
			w.t.Fatalf("Free(%q) = %+v, %v", a.ID, c, err)
		}
		return c.Reason == store.Applied
	})
	w.wantMissing(a.ID)
}
