package storetest

import "github.com/zlnode/zlnode/store"

// refusedReservations walks through all that keeps a move from being reserved.
func refusedReservations(w *world) {
	p, q := w.server("node-a"), w.server("node-b")
	a := w.actor("player-1", p)
	to := q.desc.EntrySpotID
	for rid, refused := range map[string]struct {
		want store.Reason
		edit func(*store.Descriptor)
	}{
		"client":      {store.TargetIncompatible, func(d *store.Descriptor) { d.Role = store.RoleClient }},
		"other-types": {store.TargetIncompatible, func(d *store.Descriptor) { d.ActorTypes = []string{"monster"} }},
		"preparing":   {store.TargetUnavailable, func(d *store.Descriptor) { d.State = store.Preparing }},
		"draining":    {store.TargetUnavailable, func(d *store.Descriptor) { d.State = store.Draining }},
		"no-entry":    {store.TargetUnavailable, func(d *store.Descriptor) { d.EntrySpotID = "" }},
	} {
		w.refuses(attempt{rid, refused.want, w.tryMove(moveOf(a, w.server(rid, refused.edit), rid+"-entry-1", false))})
	}
	full := w.server("full", limit(1), spotLimits(1, 1, 0))
	w.member("player-0", full, w.room("room-0", full, false).ID)
	gone, next := w.server("gone"), w.server("next")
	w.expire(gone)
	w.expire(next)
	w.lease(next.RID)
	shy, quest := w.room("shy", q, false), w.make(spotRequest(store.InstanceSpot, "quest", q))
	leaving := w.reserveMove(moveOf(w.room("leaving", q, false), p, "", false), store.Applied)
	w.reserve(spotRequest(store.UserSpot, "creating", q), store.Applied)
	here := w.room("here", p, false)
	w.refuses(
		attempt{"no such node", store.TargetUnavailable, w.tryMove(with(moveOf(a, q, to, false), func(r *store.ReserveMove) { r.TargetRID = "nobody" }))},
		attempt{"another lifecycle", store.TargetUnavailable, w.tryMove(with(moveOf(a, q, to, false), func(r *store.ReserveMove) { r.TargetLifecycle++ }))},
		attempt{"its lease has ended", store.TargetUnavailable, w.tryMove(moveOf(a, gone, gone.desc.EntrySpotID, false))},
		attempt{"its lease is another's", store.TargetUnavailable, w.tryMove(moveOf(a, next, next.desc.EntrySpotID, false))},
		attempt{"the owner itself", store.TargetIncompatible, w.tryMove(moveOf(a, p, here.ID, true))},
		attempt{"a full node", store.CapacityExceeded, w.tryMove(moveOf(a, full, full.desc.EntrySpotID, false))},
		attempt{"a Spot to a full node", store.CapacityExceeded, w.tryMove(moveOf(here, full, "", false))},
		attempt{"a later epoch than the Store's", store.EpochChanged, w.tryMove(with(moveOf(a, q, to, false), func(r *store.ReserveMove) { r.Epoch++ }))},
		attempt{"no such Spot", store.SpotUnavailable, w.tryMove(moveOf(a, q, "nowhere", true))},
		attempt{"a Spot elsewhere", store.SpotUnavailable, w.tryMove(moveOf(a, q, here.ID, true))},
		attempt{"an Instance Spot", store.SpotUnavailable, w.tryMove(moveOf(a, q, quest.ID, true))},
		attempt{"a Spot that is being created", store.SpotUnavailable, w.tryMove(moveOf(a, q, "creating", true))},
		attempt{"a User Spot as Entry Spot", store.SpotUnavailable, w.tryMove(moveOf(a, q, shy.ID, false))},
		attempt{"the Entry Spot of another", store.SpotUnavailable, w.tryMove(moveOf(a, q, p.desc.EntrySpotID, false))},
		attempt{"a Spot that moves", store.Moving, w.tryMove(moveOf(a, q, leaving.ID, true))},
	)
	creating := w.reserve(request("player-creating", p), store.Applied)
	w.refuses(attempt{"Creating", store.VersionConflict, w.tryMove(moveOf(creating, q, to, false))})
	light := w.server("light", func(d *store.Descriptor) { d.Weight = 0 })
	moved := w.reserveMove(moveOf(a, light, light.desc.EntrySpotID, false), store.Applied) // weight is for new objects
	a = w.end(endOf(moved, store.Source, p), store.Applied)
	w.refusesFence(a, func(a store.Authority) func() (store.Change, error) { return w.tryMove(moveOf(a, q, to, false)) })
	w.refusesHolder(p, func() func() (store.Change, error) { return w.tryMove(moveOf(a, q, to, false)) })
}

// refusedCommits walks through all that keeps a commit or an end of a move from applying.
func refusedCommits(w *world) {
	p, q, third := w.server("node-a"), w.server("node-b"), w.server("node-c")
	from, to := w.room("from", p, false), w.room("to", q, false)
	a := w.member("player-1", p, from.ID)
	moving := w.reserveMove(moveOf(a, q, to.ID, true), store.Applied)
	still := w.actor("player-2", p)
	for _, c := range []struct {
		why  string
		want store.Reason
		edit func(*store.MoveRef)
	}{
		{"no row", store.Missing, func(m *store.MoveRef) { m.ID = "nobody" }},
		{"another incarnation", store.GenerationConflict, func(m *store.MoveRef) { m.ObjectGen++ }},
		{"another move", store.MoveConflict, func(m *store.MoveRef) { m.Relocation = store.RelocationID(newOp()) }},
		{"another attempt", store.MoveConflict, func(m *store.MoveRef) { m.Attempt++ }},
		{"no move", store.MoveConflict, func(m *store.MoveRef) { m.ID, m.ObjectGen, m.Version = still.ID, still.ObjectGen, still.Version }},
		{"another version", store.VersionConflict, func(m *store.MoveRef) { m.Version-- }},
		{"from another Spot", store.VersionConflict, func(m *store.MoveRef) { m.SpotID = to.ID }},
		{"to another Spot", store.VersionConflict, func(m *store.MoveRef) { m.MoveSpotID = from.ID }},
		{"another epoch", store.EpochChanged, func(m *store.MoveRef) { m.Epoch++ }},
	} {
		commit := commitOf(moving, q)
		c.edit(&commit.MoveRef)
		w.refuses(attempt{"commit: " + c.why, c.want, w.tryCommit(commit)})
		for by, asker := range map[store.MoveParty]process{store.Source: p, store.Target: q, store.Sweep: q} {
			end := endOf(moving, by, asker)
			c.edit(&end.MoveRef)
			w.refuses(attempt{"end: " + c.why, c.want, w.tryEnd(end)})
		}
	}
	for why, edit := range map[string]func(*store.CommitMove){
		"another source":            func(c *store.CommitMove) { c.SourceOwnerID = third.OwnerID },
		"another lease of it":       func(c *store.CommitMove) { c.SourceLease = third.Gen },
		"another target":            func(c *store.CommitMove) { c.Target = third.Lease },
		"the source as target":      func(c *store.CommitMove) { c.Target = p.Lease },
		"another target's RID":      func(c *store.CommitMove) { c.Target.RID = third.RID },
		"another target's owner id": func(c *store.CommitMove) { c.Target.OwnerID = third.OwnerID },
		"another target's lease":    func(c *store.CommitMove) { c.Target.Gen = third.Gen },
	} {
		w.refuses(attempt{"commit: " + why, store.OwnerConflict, w.tryCommit(with(commitOf(moving, q), edit))})
	}
	w.refuses(
		attempt{"commit with an inventory", store.InventoryConflict, w.tryCommit(with(commitOf(moving, q), func(c *store.CommitMove) { c.Root[0] = 1 }))},
		attempt{"abort by the target", store.OwnerConflict, w.tryEnd(endOf(moving, store.Source, q))},
		attempt{"giving up by the source", store.OwnerConflict, w.tryEnd(endOf(moving, store.Target, p))},
		attempt{"abort by a third", store.OwnerConflict, w.tryEnd(endOf(moving, store.Source, third))},
		attempt{"giving up by a third", store.OwnerConflict, w.tryEnd(endOf(moving, store.Target, third))},
	)
	w.refusesHolder(q, func() func() (store.Change, error) { return w.tryCommit(commitOf(moving, q)) })
	w.refuses(attempt{"giving up", store.LeaseSuperseded, w.tryEnd(endOf(moving, store.Target, q))})
	w.refusesHolder(p, func() func() (store.Change, error) { return w.tryEnd(endOf(moving, store.Source, p)) })
}
