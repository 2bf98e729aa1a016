package storetest

import "github.com/zlnode/zlnode/store"

var memberCases = []testCase{
	{"ChangeOfSpotChangesNeitherGeneration", func(w *world) {
		p, other := w.server("node-a"), w.server("node-b")
		shy := w.room("shy", p, false)
		wide := w.room("wide", p, true)
		// A SpotWide Spot that has moved has an owner generation of its own.
		far := w.moveWide(w.moveWide(w.room("far", p, true), p, other, 0), other, p, 0)
		if far.OwnerGen != 3 {
			w.t.Fatalf("far has owner generation %d; want 3", far.OwnerGen)
		}
		a := w.actor("player-1", p)
		a = w.moveTo(w.moveTo(a, other, other.desc.EntrySpotID, false), p, p.desc.EntrySpotID, false)
		for _, to := range []struct {
			spot string
			user bool
			wide *store.Authority
		}{
			{shy.ID, true, nil},
			{wide.ID, true, &wide},
			{far.ID, true, &far},
			{wide.ID, true, &wide},
			{shy.ID, true, nil},
			{far.ID, true, &far},
			{p.desc.EntrySpotID, false, nil},
			{far.ID, true, &far},
			{shy.ID, true, nil},
			{p.desc.EntrySpotID, false, nil},
		} {
			c := changeOf(a, to.spot, to.user)
			got := w.change(c, store.Applied)
			spotVersion := store.Version(0)
			if to.wide != nil {
				spotVersion = to.wide.Version
			}
			if got.ObjectGen != a.ObjectGen || got.OwnerGen != a.OwnerGen || got.Version <= a.Version || got.SpotID != to.spot ||
				got.InUserSpot != to.user || got.SpotVersion != spotVersion || got.RID != p.RID || got.OwnerID != p.OwnerID ||
				got.LeaseGen != p.Gen || got.Mesh != p.desc.Mesh || got.LeaseLeft <= 0 {
				w.t.Errorf("in %s the Actor is %+v; was %+v", to.spot, got, a)
			}
			if again := w.change(c, store.AlreadyApplied); again.Version != got.Version {
				w.t.Errorf("again gives version %d; want %d", again.Version, got.Version)
			}
			if read := w.must(a.ID); read.OwnerGen != got.OwnerGen || read.Version != got.Version || read.RID != p.RID {
				w.t.Errorf("reads %+v; want %+v", read, got)
			}
			for _, spot := range []string{shy.ID, wide.ID, far.ID} {
				if spot == to.spot {
					w.wantMembers(spot, a.ID)
				} else {
					w.wantMembers(spot)
				}
			}
			if to.wide != nil { // found through the Spot
				w.wantHeld(p, store.HeldOwned, far.ID, shy.ID, wide.ID)
			} else {
				w.wantHeld(p, store.HeldOwned, far.ID, a.ID, shy.ID, wide.ID)
			}
			w.wantSlots(p, 1, 3)
			w.consistent()
			a = got
		}
		for _, spot := range []store.Authority{shy, wide, far} {
			if now := w.must(spot.ID); now.Version != spot.Version {
				w.t.Errorf("%s is at version %d after its members changed; was %d", spot.ID, now.Version, spot.Version)
			}
		}
	}},
	{"VersionOfASpotWideSpotIsPartOfItsMembersFence", func(w *world) {
		p, other := w.server("node-a"), w.server("node-b")
		wide := w.room("wide", p, true)
		a := w.member("player-1", p, wide.ID)
		moved := w.reserveMove(moveOf(wide, other, "", false), store.Applied)
		w.end(endOf(moved, store.Source, p), store.Applied)
		w.refuses(
			attempt{"the Spot's version as it was", store.VersionConflict, w.tryChange(changeOf(a, p.desc.EntrySpotID, false))},
			attempt{
				"without it", store.VersionConflict,
				w.tryChange(with(changeOf(a, p.desc.EntrySpotID, false), func(c *store.ChangeSpot) { c.SpotVersion = 0 })),
			},
			attempt{"a move with it", store.VersionConflict, w.tryMove(moveOf(a, other, other.desc.EntrySpotID, false))},
			attempt{"a deletion with it", store.VersionConflict, w.tryDelete(a)},
		)
		now := w.must(a.ID)
		if now.Version != a.Version || now.SpotVersion <= a.SpotVersion {
			w.t.Errorf("member reads %+v; was %+v", now, a)
		}
		w.change(changeOf(now, p.desc.EntrySpotID, false), store.Applied)
	}},
	{"ChangeOfSpotIsRefused", func(w *world) {
		p, other := w.server("node-a"), w.server("node-b")
		shy, elsewhere := w.room("shy", p, false), w.room("elsewhere", other, false)
		w.reserve(spotRequest(store.UserSpot, "creating", p), store.Applied)
		w.make(spotRequest(store.InstanceSpot, "quest", p))
		w.actor("player-0", p)
		leaving := w.reserveMove(moveOf(w.room("leaving", p, false), other, "", false), store.Applied)
		moving := w.reserveMove(moveOf(w.actor("player-moving", p), other, other.desc.EntrySpotID, false), store.Applied)
		wide := w.room("wide", p, true)
		w.member("player-wide", p, wide.ID)
		w.reserveMove(moveOf(wide, other, "", false), store.Applied)
		passenger := w.must("player-wide")
		creating := w.reserve(request("player-creating", p), store.Applied)
		a := w.actor("player-1", p)
		for spot, want := range map[string]store.Reason{
			"nowhere": store.SpotUnavailable, elsewhere.ID: store.SpotUnavailable, "creating": store.SpotUnavailable,
			"quest": store.SpotUnavailable, "player-0": store.SpotUnavailable, p.desc.EntrySpotID: store.SpotUnavailable,
			leaving.ID: store.Moving, wide.ID: store.Moving,
		} {
			w.refuses(attempt{"to User Spot " + spot, want, w.tryChange(changeOf(a, spot, true))})
		}
		for _, spot := range []string{"nowhere", shy.ID, other.desc.EntrySpotID} {
			w.refuses(attempt{"to Entry Spot " + spot, store.SpotUnavailable, w.tryChange(changeOf(a, spot, false))})
		}
		w.refuses(
			attempt{"it moves", store.Moving, w.tryChange(changeOf(moving, shy.ID, true))},
			attempt{"its Spot moves with it", store.Moving, w.tryChange(changeOf(passenger, p.desc.EntrySpotID, false))},
			attempt{"Creating", store.VersionConflict, w.tryChange(changeOf(creating, shy.ID, true))},
		)
		w.refusesFence(a, func(a store.Authority) func() (store.Change, error) { return w.tryChange(changeOf(a, shy.ID, true)) })
		w.refusesHolder(p, func() func() (store.Change, error) { return w.tryChange(changeOf(a, shy.ID, true)) })
	}},
	{"MembersOfASpotAndTheSpotItselfAreNotDeleted", func(w *world) {
		p, other := w.server("node-a"), w.server("node-b")
		for _, wide := range []bool{false, true} {
			spot := w.room("spot", p, wide)
			a := w.member("player-1", p, spot.ID)
			w.refuses(
				attempt{"a member", store.IsMember, w.tryDelete(a)},
				attempt{"a Spot with a member", store.NotEmpty, w.tryDelete(spot)},
			)
			a = w.change(changeOf(a, p.desc.EntrySpotID, false), store.Applied)
			coming := w.actor("player-2", other)
			coming = w.reserveMove(moveOf(coming, p, spot.ID, true), store.Applied)
			w.refuses(attempt{"a Spot with a member on its way", store.NotEmpty, w.tryDelete(spot)})
			coming = w.end(endOf(coming, store.Source, other), store.Applied)
			w.delete(coming, newOp(), store.Applied)
			w.delete(a, newOp(), store.Applied)
			w.delete(spot, newOp(), store.Applied)
			w.wantSlots(p, 0, 0)
		}
	}},
}

// refusesFence edits each part of the row that a fence compares.
func (w *world) refusesFence(a store.Authority, try func(store.Authority) func() (store.Change, error)) {
	w.t.Helper()
	for _, c := range []struct {
		why  string
		want store.Reason
		edit func(*store.Authority)
	}{
		{"no row", store.Missing, func(a *store.Authority) { a.ID = "nobody" }},
		{"another incarnation", store.GenerationConflict, func(a *store.Authority) { a.ObjectGen++ }},
		{"another version", store.VersionConflict, func(a *store.Authority) { a.Version++ }},
		{"another owner", store.OwnerConflict, func(a *store.Authority) { a.OwnerID = "another" }},
		{"another lease", store.OwnerConflict, func(a *store.Authority) { a.LeaseGen++ }},
	} {
		w.refuses(attempt{c.why, c.want, try(with(a, c.edit))})
	}
	if a.SpotID != "" {
		w.refuses(attempt{"another Spot", store.VersionConflict, try(with(a, func(a *store.Authority) { a.SpotID += "x" }))})
	}
}

// refusesHolder ends the lease of the process that asks, then has it superseded.
func (w *world) refusesHolder(p process, try func() func() (store.Change, error)) {
	w.t.Helper()
	w.expire(p)
	w.refuses(attempt{"the asker's lease has ended", store.LeaseExpired, try()})
	w.lease(p.RID)
	w.refuses(attempt{"the asker's lease is another's", store.LeaseSuperseded, try()})
}
