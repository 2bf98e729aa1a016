package storetest

import (
	"reflect"

	"github.com/zlnode/zlnode/store"
)

var epochCases = []testCase{
	{"EpochsAndWhatTheyIssueGrow", func(w *world) {
		p := w.server("node-a")
		a := w.actor("player-1", p)
		last := a.Epoch
		for i := range 3 {
			e := w.raise()
			if e <= last {
				w.t.Fatalf("epoch %d after %d", e, last)
			}
			r, err := w.s.RenewLease(w.ctx(), p.Lease, last, longTTL)
			if err != nil || r.Reason != store.Applied || r.Epoch != e {
				w.t.Errorf("renewal tells of %+v, %v; want epoch %d", r, err, e)
			}
			c, err := w.s.Reserve(w.ctx(), request(a.ID, p))
			if err != nil || c.Reason != store.Exists || c.Epoch != e || c.Record.Epoch != last {
				w.t.Errorf("refused reservation tells of %+v, %v; want epoch %d", c, err, e)
			}
			next := w.server("node-b" + string(rune('0'+i)))
			b := w.actor("player-1"+string(rune('0'+i)), next)
			if b.Epoch != e || b.ObjectGen <= a.ObjectGen || b.Version <= a.Version || next.Gen <= p.Gen {
				w.t.Errorf("in epoch %d: lease %d and %+v; before: lease %d and %+v", e, next.Gen, b, p.Gen, a)
			}
			p, a, last = next, b, e
		}
	}},
	{"WhatIsOpenGoesOnUnderItsLease", func(w *world) {
		p := w.server("node-a")
		room := w.room("room", p, false)
		a, gone := w.actor("player-1", p), w.actor("player-2", p)
		quest := w.make(questRequest("quest", p, []byte("message")))
		r := request("player-3", p)
		creating := w.reserve(r, store.Applied)
		e := w.raise()
		for _, got := range []store.Authority{
			w.change(changeOf(a, room.ID, true), store.Applied),
			w.advance(quest, newOp(), 0, true, store.Applied),
			w.finish(creating, r.Op, store.Created, store.Applied).Record,
		} {
			if got.Epoch != e {
				w.t.Errorf("%q was written in epoch %d; want %d", got.ID, got.Epoch, e)
			}
		}
		w.delete(gone, newOp(), store.Applied)
	}},
	{"OwnerChangesOnlyWhatItsOwnerWroteInThisEpoch", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		room, wide := w.room("room", p, false), w.room("wide", p, true)
		quest := w.make(spotRequest(store.InstanceSpot, "quest", p))
		entry, member := w.actor("entry", p), w.member("member", p, room.ID)
		passenger := w.member("passenger", p, wide.ID)
		late := w.actor("late", p)
		e := w.raise()
		// The row is of this epoch, but not its owner's, the Spot's.
		late = w.change(changeOf(late, wide.ID, true), store.Applied)
		for _, a := range []store.Authority{room, wide, quest, entry, member, passenger, late} {
			to, user := "", false
			if a.Kind == store.Actor {
				to = q.desc.EntrySpotID
			}
			old := moveOf(a, q, to, user)
			old.Epoch = entry.Epoch
			w.refuses(
				attempt{a.ID + " under the epoch before", store.EpochChanged, w.tryMove(old)},
				attempt{a.ID + " before it was written", store.Unasserted, w.tryMove(with(old, func(r *store.ReserveMove) { r.Epoch = e }))},
			)
		}
		for _, a := range []store.Authority{room, wide, quest, entry, member, passenger, late} {
			a = w.reassert(assertionOf(w.must(a.ID), p, e), store.Applied)
			to := ""
			if a.Kind == store.Actor {
				to = q.desc.EntrySpotID
			}
			w.end(endOf(w.reserveMove(moveOf(w.must(a.ID), q, to, false), store.Applied), store.Source, p), store.Applied)
		}
	}},
	{"MoveOfAnEarlierEpochIsOver", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		from, to := w.room("from", p, false), w.room("to", q, false)
		a := w.reserveMove(moveOf(w.member("player-1", p, from.ID), q, to.ID, true), store.Applied)
		wide := w.reserveMove(moveOf(w.room("wide", p, true), q, "", false), store.Applied)
		root := w.putChunk(store.MoveOf(&wide), []byte("root"), store.Applied)
		fixed := w.prepared(w.room("fixed", p, true), p, q, 0)
		e := w.raise()
		prepare := prepareOf(wide, p, store.Inventory{Root: root, Count: 1})
		// It does not help to name the present epoch.
		for _, epoch := range []store.Epoch{a.Epoch, e} {
			commit, commitAll := commitOf(a, q), commitOf(fixed, q)
			abort, giveUp, sweep := endOf(a, store.Source, p), endOf(a, store.Target, q), endOf(a, store.Sweep, q)
			late := store.MoveOf(&wide)
			for _, ref := range []*store.MoveRef{
				&commit.MoveRef, &commitAll.MoveRef, &abort.MoveRef, &giveUp.MoveRef, &sweep.MoveRef, &prepare.MoveRef, &late,
			} {
				ref.Epoch = epoch
			}
			w.refuses(
				attempt{"commit", store.EpochChanged, w.tryCommit(commit)},
				attempt{"abort", store.EpochChanged, w.tryEnd(abort)},
				attempt{"giving up", store.EpochChanged, w.tryEnd(giveUp)},
				attempt{"sweep", store.EpochChanged, w.tryEnd(sweep)},
				attempt{"preparing", store.EpochChanged, w.tryPrepare(prepare)},
				attempt{"commit of an aggregate", store.EpochChanged, w.tryCommit(commitAll)},
			)
			w.putChunk(late, []byte("late"), store.EpochChanged)
		}
		w.wantSlots(q, 1, 3)

		// The owner writes the rows as it knows them, and the moves are gone.
		w.reassert(assertionOf(from, p, e), store.Applied)
		for _, m := range []store.Authority{a, wide, fixed} {
			got := w.reassert(assertionOf(m, p, e), store.Applied)
			if got.Move != nil || got.RID != p.RID || got.OwnerGen != m.OwnerGen || got.Epoch != e {
				w.t.Errorf("%q is %+v; want it without move", m.ID, got)
			}
		}
		w.wantNoChunk(wide.ID, root)
		w.wantNoChunk(fixed.ID, fixed.Move.Prepared.Root)
		w.wantSlots(q, 0, 1)
		w.wantHeld(q, store.HeldReserved)
		w.refuses(
			attempt{"late commit", store.MoveConflict, w.tryCommit(commitOf(a, q))},
			attempt{"late commit of an aggregate", store.MoveConflict, w.tryCommit(commitOf(fixed, q))},
		)
		w.delete(to, newOp(), store.Applied)
		w.wantMembers(from.ID, a.ID)
	}},
	{"RowThatIsAsItsOwnerKnowsItIsWrittenAgain", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		room := w.room("room", p, false)
		wide := w.moveWide(w.moveWide(w.room("wide", p, true), p, q, 0), q, p, 0)
		quest := w.make(questRequest("quest", p, []byte("message")))
		rows := []store.Authority{
			room, wide, quest, w.actor("entry", p), w.member("member", p, room.ID), w.member("passenger", p, wide.ID),
		}
		e := w.raise()
		for _, a := range rows {
			before := w.must(a.ID)
			r := assertionOf(before, p, e)
			got := w.reassert(r, store.Applied)
			want := before
			want.Version, want.Epoch, want.LeaseLeft = got.Version, e, got.LeaseLeft
			if !reflect.DeepEqual(got, want) || got.Version <= before.Version || got.LeaseLeft <= 0 {
				w.t.Errorf("%q is %+v; want %+v", a.ID, got, want)
			}
			if again := w.reassert(r, store.AlreadyApplied); again.Version != got.Version {
				w.t.Errorf("again gives %+v; want %+v", again, got)
			}
			w.consistent()
		}
		w.wantFirst(quest, []byte("message"), 0)
		w.wantSlots(p, 3, 3)
		w.wantMembers(room.ID, "member")
		w.wantMembers(wide.ID, "passenger")
	}},
	{"RowThatWasLostIsThereAgain", func(w *world) {
		p := w.server("node-a", limit(1), spotLimits(1, 1, 1)) // what is there already is not refused
		for _, kind := range kinds {
			a := w.make(kindRequest(kind, "lost", p))
			w.delete(a, newOp(), store.Applied)
			e := w.raise()
			a.OwnerGen = 5
			known := assertionOf(a, p, e)
			known.Version++ // a change that was lost with the row
			got := w.reassert(known, store.Applied)
			want := a
			want.Version, want.Epoch, want.LeaseLeft = got.Version, e, got.LeaseLeft
			if !reflect.DeepEqual(got, want) || got.Version <= a.Version {
				w.t.Errorf("%+v; want %+v", got, want)
			}
			w.wantHeld(p, store.HeldOwned, a.ID)
			actors := 0
			if kind == store.Actor {
				actors = 1
			}
			w.wantSlots(p, actors, 1-actors)
			w.consistent()
			w.delete(got, newOp(), store.Applied)
		}
	}},
	{"LaterVersionIsTrue", laterVersion},
	{"OwnerWhoseRowIsTakenIsTold", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide := w.room("wide", p, true)
		passenger := w.member("passenger", p, wide.ID)
		entry, kept := w.actor("entry", p), w.actor("kept", p)
		creating := w.reserve(request("creating", p), store.Applied)
		e := w.raise()
		kept = w.reassert(assertionOf(kept, p, e), store.Applied)
		// One that went on alone, one with its members, one that was Creating.
		passenger.SpotID, passenger.InUserSpot, passenger.SpotVersion = q.desc.EntrySpotID, false, 0
		for i, a := range []store.Authority{passenger, wide, entry, creating} {
			a.Version += 10
			taken := w.reassert(assertionOf(a, q, e), store.Applied)
			w.reassert(assertionOf(taken, q, e), store.Applied) // its own now
			if n := w.freed(p); n != uint64(i+1) {
				w.t.Errorf("behind %q: the owner before is told of %d rows; want %d", a.ID, n, i+1)
			}
		}
		if n := w.freed(q); n != 0 {
			w.t.Errorf("who took the rows is told of %d", n)
		}
		w.expire(p)
		next := w.server(p.RID)
		kept.Version += 10
		w.reassert(assertionOf(kept, q, e), store.Applied)
		if n := w.freed(next); n != 0 {
			w.t.Errorf("the next process is told of %d rows of the one before", n)
		}
	}},
	{"EntrySpotOfANodeDoesNotComeBackAsAnObject", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		for _, kind := range kinds {
			a := w.make(kindRequest(kind, "lost", p))
			w.delete(a, newOp(), store.Applied)
			q.desc.EntrySpotID = a.ID
			q.desc.Revision++
			w.publish(q.Lease, q.desc, store.Applied)
			e := w.raise()
			w.refuses(
				attempt{"its node", store.TypeMismatch, w.tryReassert(assertionOf(a, q, e))},
				attempt{"another one", store.TypeMismatch, w.tryReassert(assertionOf(a, p, e))},
			)
			q.desc.EntrySpotID = "node-b-entry-1"
			q.desc.Revision++
			w.publish(q.Lease, q.desc, store.Applied)
			a.Version++ // a change that was lost with the row
			w.delete(w.reassert(assertionOf(a, p, e), store.Applied), newOp(), store.Applied)
		}
	}},
	{"LateAssertionDoesNotBringBackWhatWasRemoved", lateAssertion},
	{"AssertionIsForALiveOwnerInThePresentEpoch", func(w *world) {
		p := w.server("node-a")
		a := w.actor("player-1", p)
		old := a.Epoch
		e := w.raise()
		w.refuses(
			attempt{"the epoch before", store.EpochChanged, w.tryReassert(assertionOf(a, p, old))},
			attempt{"a later one", store.EpochChanged, w.tryReassert(assertionOf(a, p, e+1))},
		)
		w.refusesHolder(p, func() func() (store.Change, error) { return w.tryReassert(assertionOf(a, p, e)) })
	}},
}

// lateAssertion: the answer to an assertion was lost, and its repeat was applied before it.
func lateAssertion(w *world) {
	p := w.server("node-a")
	for _, kind := range kinds {
		before := w.make(kindRequest(kind, "before", p))
		w.delete(before, newOp(), store.Applied)
		a := w.make(kindRequest(kind, "before", p))
		removals := map[string]func(a store.Authority){
			"deleted": func(a store.Authority) { w.delete(a, newOp(), store.Applied) },
			"freed by hand": func(a store.Authority) {
				w.free(with(store.FreeOf(&a, newOp()), func(f *store.Free) { f.By = p.Lease }), store.Applied)
			},
		}
		for how, remove := range removals {
			e := w.raise()
			late := assertionOf(a, p, e)
			written := w.reassert(with(late, func(r *store.Reassert) { r.Op = newOp() }), store.Applied)
			remove(written)
			w.refuses(
				attempt{how + ": the first try", store.Missing, w.tryReassert(late)},
				attempt{how + ": one that knew its end", store.Missing, w.tryReassert(assertionOf(written, p, e))},
				attempt{how + ": of the incarnation before", store.Missing, w.tryReassert(assertionOf(before, p, e))},
			)
			e = w.raise()
			w.refuses(attempt{how + ": in the next epoch", store.Missing, w.tryReassert(assertionOf(written, p, e))})
			written.Version++ // a change that was lost, behind which it was not removed
			a = w.reassert(assertionOf(written, p, e), store.Applied)
		}
		w.delete(a, newOp(), store.Applied)
	}
	quest := w.make(questRequest("quest", p, []byte("message")))
	late := assertionOf(quest, p, w.raise())
	w.expire(p)
	c, err := w.s.CancelCreation(w.ctx(), quest.ID, quest.ObjectGen, quest.Version)
	w.outcome("CancelCreation", quest.ID, c, err, store.Applied)
	w.renew(p.Lease, longTTL, store.Applied)
	w.refuses(attempt{"a creation that was cancelled", store.Missing, w.tryReassert(late)})
	w.wantSlots(p, 0, 0)
	w.consistent()
}

// laterVersion: rows as a history left them that lost changes, and owners that know of
// them. A version that is larger than the row's says that the row is what was lost.
func laterVersion(w *world) {
	p, q := w.server("node-a"), w.server("node-b")
	room := w.room("room", q, false)
	a := w.actor("player-1", p)
	reserved := w.reserve(request("player-2", p), store.Applied)
	e := w.raise()
	w.reassert(assertionOf(room, q, e), store.Applied)

	// Its move to another owner and Spot was lost.
	moved := a
	moved.Version += 10
	moved.OwnerGen, moved.Mesh, moved.SpotID, moved.InUserSpot = 2, q.desc.Mesh, room.ID, true
	got := w.reassert(assertionOf(moved, q, e), store.Applied)
	if got.RID != q.RID || got.OwnerID != q.OwnerID || got.OwnerGen != 2 || got.SpotID != room.ID || got.ObjectGen != a.ObjectGen {
		w.t.Errorf("%+v; want it at the later owner", got)
	}
	w.wantHeld(p, store.HeldOwned)
	w.wantMembers(room.ID, a.ID)
	w.refuses(attempt{"the owner before", store.OwnerConflict, w.tryReassert(assertionOf(a, p, e))})

	// Its own change was not lost, but the answer was.
	back := w.change(changeOf(got, q.desc.EntrySpotID, false), store.Applied)
	w.refuses(attempt{"the owner, as it was", store.VersionConflict, w.tryReassert(assertionOf(got, q, e))})

	// It went and came again as another, and that was lost.
	next := back
	next.ObjectGen, next.Version, next.OwnerGen = back.ObjectGen+5, back.Version+10, 1
	next.SpotID, next.InUserSpot, next.Mesh = p.desc.EntrySpotID, false, p.desc.Mesh
	got = w.reassert(assertionOf(next, p, e), store.Applied)
	if got.RID != p.RID || got.ObjectGen != next.ObjectGen || got.OwnerGen != 1 {
		w.t.Errorf("%+v; want the later incarnation", got)
	}
	w.refuses(attempt{"the incarnation before", store.GenerationConflict, w.tryReassert(assertionOf(back, q, e))})

	// Its creation was finished, and that was lost; or it is another kind by now.
	ready := reserved
	ready.Version += 10
	if got := w.reassert(assertionOf(ready, p, e), store.Applied); got.State != store.Ready || got.Create != nil {
		w.t.Errorf("%+v; want it Ready", got)
	}
	spot := w.must(ready.ID)
	spot.Kind, spot.Type, spot.SpotID, spot.ObjectGen, spot.Version = store.UserSpot, "room", "", spot.ObjectGen+1, spot.Version+1
	if got := w.reassert(assertionOf(spot, q, e), store.Applied); got.Kind != store.UserSpot || got.SpotID != "" {
		w.t.Errorf("%+v; want a Spot", got)
	}
	w.wantHeld(p, store.HeldOwned, a.ID)
	w.wantHeld(q, store.HeldOwned, ready.ID, room.ID)
	w.wantSlots(p, 1, 0)
	w.wantSlots(q, 0, 2)
	w.consistent()
}
