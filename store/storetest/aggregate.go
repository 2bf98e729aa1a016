package storetest

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/zlnode/zlnode/store"
)

var aggregateCases = []testCase{
	{"SpotWideSpotMovesWithItsMembersByOneCommit", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide := w.room("wide", p, true)
		var before []store.Authority
		var ids []string
		for i := range 5 {
			ids = append(ids, fmt.Sprintf("player-%d", i))
			w.member(ids[i], p, wide.ID)
		}
		stays := w.actor("stays", p)
		for _, id := range ids {
			before = append(before, w.must(id))
		}
		prepared := w.prepared(wide, p, q, len(ids))
		if m := prepared.Move; m == nil || m.Members != len(ids) || m.Prepared == nil || m.Prepared.Count != len(ids)+1 {
			w.t.Errorf("prepared: %+v with %+v", prepared, prepared.Move)
		}
		w.wantSlots(p, len(ids)+1, 1)
		w.wantSlots(q, len(ids), 1)

		c := commitOf(prepared, q)
		got := w.commit(c, store.Applied)
		want := wide
		want.OwnerGen++
		want.RID, want.OwnerID, want.LeaseGen, want.Mesh = q.RID, q.OwnerID, q.Gen, q.desc.Mesh
		want.Aggregate = &store.Aggregate{ID: prepared.Move.ID, Inventory: *prepared.Move.Prepared}
		want.Version, want.LeaseLeft = got.Version, got.LeaseLeft
		if !reflect.DeepEqual(got, want) || got.Version <= prepared.Version {
			w.t.Errorf("Spot is %+v; want %+v", got, want)
		}
		if again := w.commit(c, store.AlreadyApplied); again.Version != got.Version {
			w.t.Errorf("again gives %+v", again)
		}
		for i, id := range ids {
			want := before[i] // the row itself is as it was
			want.OwnerGen++
			want.RID, want.OwnerID, want.LeaseGen, want.Mesh = q.RID, q.OwnerID, q.Gen, q.desc.Mesh
			read := w.must(id)
			want.SpotVersion, want.LeaseLeft = got.Version, read.LeaseLeft
			if !reflect.DeepEqual(read, want) || read.LeaseLeft <= 0 {
				w.t.Errorf("member is %+v; want %+v", read, want)
			}
		}
		w.wantMembers(wide.ID, ids...)
		w.wantHeld(p, store.HeldOwned, stays.ID)
		w.wantHeld(q, store.HeldOwned, wide.ID)
		w.wantHeld(q, store.HeldReserved)
		w.wantSlots(p, 1, 0)
		w.wantSlots(q, len(ids), 1)

		// Members are fenced as of now, and leave.
		w.refuses(attempt{"a member as it was before", store.VersionConflict, w.tryChange(changeOf(before[0], q.desc.EntrySpotID, false))})
		left := w.change(changeOf(w.must(ids[0]), q.desc.EntrySpotID, false), store.Applied)
		if left.OwnerGen != before[0].OwnerGen+1 || left.SpotVersion != 0 {
			w.t.Errorf("member that left is %+v", left)
		}
		w.wantSlots(q, len(ids), 1)
	}},
	{"AggregateBooksItsMembersAtTheTarget", func(w *world) {
		p := w.server("node-a")
		q := w.server("node-b", limit(2))
		wide := w.room("wide", p, true)
		for i := range 3 {
			w.member(fmt.Sprint("player-", i), p, wide.ID)
		}
		w.refuses(attempt{"three members to two slots", store.CapacityExceeded, w.tryMove(moveOf(wide, q, "", false))})
		w.change(changeOf(w.must("player-0"), p.desc.EntrySpotID, false), store.Applied)
		moving := w.reserveMove(moveOf(wide, q, "", false), store.Applied)
		w.refuses(attempt{"a slot that a member will need", store.CapacityExceeded, w.tryReserve(request("player-9", q))})
		w.end(endOf(moving, store.Target, q), store.Applied)
		w.wantSlots(q, 0, 0)
		w.actor("player-9", q)
	}},
	{"NobodyEntersOrLeavesASpotWideSpotThatMoves", func(w *world) {
		p, q, third := w.server("node-a"), w.server("node-b"), w.server("node-c")
		wide := w.room("wide", p, true)
		w.member("player-1", p, wide.ID)
		here, there := w.actor("player-2", p), w.actor("player-3", third)
		prepared := w.prepared(wide, p, q, 1)
		a := w.must("player-1")
		try := func(when string) {
			w.t.Helper()
			w.refuses(
				attempt{when + ": a member leaves", store.Moving, w.tryChange(changeOf(a, p.desc.EntrySpotID, false))},
				attempt{when + ": a member moves", store.Moving, w.tryMove(moveOf(a, third, third.desc.EntrySpotID, false))},
				attempt{when + ": one enters", store.Moving, w.tryChange(changeOf(here, wide.ID, true))},
				attempt{when + ": one comes", store.Moving, w.tryMove(moveOf(there, p, wide.ID, true))},
			)
		}
		try("prepared")
		wide = w.end(endOf(prepared, store.Source, p), store.Applied)
		here = w.change(changeOf(here, wide.ID, true), store.Applied)
		w.change(changeOf(w.must(a.ID), p.desc.EntrySpotID, false), store.Applied)
		coming := w.reserveMove(moveOf(there, p, wide.ID, true), store.Applied)
		w.refuses(attempt{"a move with one on its way in", store.Pending, w.tryMove(moveOf(wide, q, "", false))})
		w.end(endOf(coming, store.Source, third), store.Applied)
		leaving := w.reserveMove(moveOf(w.must(here.ID), third, third.desc.EntrySpotID, false), store.Applied)
		w.refuses(attempt{"a move with one on its way out", store.Pending, w.tryMove(moveOf(wide, q, "", false))})
		w.commit(commitOf(leaving, third), store.Applied)
		w.moveWide(wide, p, q, 0)
	}},
	{"InventoryIsFixedBeforeTheCommit", inventoryIsFixed},
	{"ChunksStayAsTheyAre", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide := w.room("wide", p, true)
		moving := w.reserveMove(moveOf(wide, q, "", false), store.Applied)
		m := store.MoveOf(&moving)
		chunks := [][]byte{{0}, []byte("a\x00b\r\n{}"), bytes.Repeat([]byte{0xff, '\n', 0, 1}, store.PayloadBytesMax/4)}
		for _, chunk := range chunks {
			digest := w.putChunk(m, chunk, store.Applied)
			w.putChunk(m, chunk, store.AlreadyApplied)
			w.wantChunk(wide.ID, digest, chunk)
			if _, found, err := w.s.ReadInventory(w.ctx(), "another", digest); err != nil || found {
				w.t.Errorf("another Spot has the chunk too: %v, %v", found, err)
			}
		}
		for _, chunk := range [][]byte{nil, make([]byte, store.PayloadBytesMax+1)} {
			w.wantInvalid(func() error { _, err := w.s.PutInventory(w.ctx(), m, chunk); return err })
		}
		for _, refused := range []struct {
			want store.Reason
			edit func(*store.MoveRef)
		}{
			{store.Missing, func(m *store.MoveRef) { m.ID = "nobody" }},
			{store.GenerationConflict, func(m *store.MoveRef) { m.ObjectGen++ }},
			{store.VersionConflict, func(m *store.MoveRef) { m.Version-- }},
			{store.MoveConflict, func(m *store.MoveRef) { m.Attempt++ }},
			{store.EpochChanged, func(m *store.MoveRef) { m.Epoch++ }},
		} {
			digest := w.putChunk(with(m, refused.edit), []byte("refused"), refused.want)
			w.wantNoChunk(wide.ID, digest)
		}
		alone := w.reserveMove(moveOf(w.room("shy", p, false), q, "", false), store.Applied)
		w.putChunk(store.MoveOf(&alone), []byte("refused"), store.InventoryConflict)

		root := w.putChunk(m, []byte("root"), store.Applied)
		prepared := w.prepare(prepareOf(moving, p, store.Inventory{Root: root, Count: 1}), store.Applied)
		w.putChunk(m, []byte("late"), store.VersionConflict)
		m = store.MoveOf(&prepared)
		w.putChunk(m, []byte("late"), store.InventoryConflict)
		w.putChunk(m, chunks[0], store.AlreadyApplied)
	}},
	{"InventoryGoesWithTheEndOfTheMove", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide := w.room("wide", p, true)
		for by, asker := range map[store.MoveParty]process{store.Source: p, store.Target: q} {
			prepared := w.prepared(wide, p, q, 0)
			root := prepared.Move.Prepared.Root
			w.wantChunk(wide.ID, root, []byte("inventory of wide"))
			wide = w.end(endOf(prepared, by, asker), store.Applied)
			w.wantNoChunk(wide.ID, root)
		}
	}},
	{"InventoryOfACommittedAggregateIsDroppedByItsOwner", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		moved := w.moveWide(w.room("wide", p, true), p, q, 0)
		id, root := moved.Aggregate.ID, moved.Aggregate.Root
		w.wantChunk(moved.ID, root, []byte("inventory of wide"))
		another := store.RelocationID(newOp())
		w.refuses(
			attempt{"another aggregate", store.MoveConflict, w.tryComplete(moved, another)},
			attempt{"a Spot that came by none", store.MoveConflict, w.tryComplete(w.room("fresh", q, true), another)},
			attempt{"a Creating row", store.VersionConflict, w.tryComplete(w.reserve(spotRequest(store.UserSpot, "new", q), store.Applied), another)},
		)
		w.refusesFence(moved, func(a store.Authority) func() (store.Change, error) { return w.tryComplete(a, id) })
		for range 2 {
			w.refuses(attempt{"completion leaves the row", store.Applied, w.tryComplete(moved, id)})
			w.wantNoChunk(moved.ID, root)
		}

		// The next move's inventory is not the last one's.
		next := w.moveWide(moved, q, p, 0)
		w.wantChunk(next.ID, next.Aggregate.Root, []byte("inventory of wide"))
		again := w.reserveMove(moveOf(next, q, "", false), store.Applied)
		w.wantNoChunk(next.ID, next.Aggregate.Root)
		w.putChunk(store.MoveOf(&again), []byte("the next"), store.Applied)
		w.refuses(attempt{"while it moves again", store.Moving, w.tryComplete(again, next.Aggregate.ID)})
		w.end(endOf(again, store.Source, p), store.Applied)
		next = w.must(next.ID)
		w.refusesHolder(p, func() func() (store.Change, error) { return w.tryComplete(next, next.Aggregate.ID) })
	}},
	{"PerActorSpotMovesAndItsMembersFollow", perActor},
	{"LeftMembersThatGoElsewhereFreeTheSpotToo", func(w *world) {
		p, q, third := w.server("node-a"), w.server("node-b"), w.server("node-c")
		shy := w.room("shy", p, false)
		for i := range 3 {
			w.member(fmt.Sprint("player-", i), p, shy.ID)
		}
		shy = w.moveTo(shy, q, "", false)
		w.wantLeft(shy.ID, 3)
		w.change(changeOf(w.must("player-0"), p.desc.EntrySpotID, false), store.Applied)
		w.wantLeft(shy.ID, 2)
		w.moveTo(w.must("player-1"), third, third.desc.EntrySpotID, false)
		w.wantLeft(shy.ID, 1)
		a := w.must("player-2")
		w.free(with(store.FreeOf(&a, newOp()), func(f *store.Free) { f.By = p.Lease }), store.Applied)
		w.wantLeft(shy.ID, 0)
		w.moveTo(w.must(shy.ID), third, "", false)
	}},
}

// inventoryIsFixed: what an aggregate's inventory must be, and that nothing commits
// without it.
func inventoryIsFixed(w *world) {
	p, q := w.server("node-a"), w.server("node-b")
	wide := w.room("wide", p, true)
	w.member("player-1", p, wide.ID)
	w.member("player-2", p, wide.ID)
	moving := w.reserveMove(moveOf(wide, q, "", false), store.Applied)
	root := w.putChunk(store.MoveOf(&moving), []byte("root"), store.Applied)
	inv := store.Inventory{Root: root, Count: 3}
	alone := w.reserveMove(moveOf(w.room("shy", p, false), q, "", false), store.Applied)
	leaving := w.member("leaving", p, w.room("another", p, true).ID)
	leaving = w.reserveMove(moveOf(leaving, q, q.desc.EntrySpotID, false), store.Applied)
	w.refuses(
		attempt{"a member of a SpotWide Spot", store.InventoryConflict, w.tryPrepare(prepareOf(leaving, p, store.Inventory{Root: root, Count: 1}))},
		attempt{"a root that is not stored", store.InventoryConflict, w.tryPrepare(prepareOf(moving, p, store.Inventory{Root: store.Digest{1}, Count: 3}))},
		attempt{"a member too few", store.InventoryConflict, w.tryPrepare(prepareOf(moving, p, store.Inventory{Root: root, Count: 2}))},
		attempt{"a member too many", store.InventoryConflict, w.tryPrepare(prepareOf(moving, p, store.Inventory{Root: root, Count: 4}))},
		attempt{"no SpotWide Spot", store.InventoryConflict, w.tryPrepare(prepareOf(alone, p, store.Inventory{Root: root, Count: 1}))},
		attempt{"by the target", store.OwnerConflict, w.tryPrepare(prepareOf(moving, q, inv))},
		attempt{"another move", store.MoveConflict, w.tryPrepare(with(prepareOf(moving, p, inv), func(p *store.PrepareAggregate) { p.Attempt++ }))},
		attempt{"no row", store.Missing, w.tryPrepare(with(prepareOf(moving, p, inv), func(p *store.PrepareAggregate) { p.ID = "nobody" }))},
		attempt{"another incarnation", store.GenerationConflict, w.tryPrepare(with(prepareOf(moving, p, inv), func(p *store.PrepareAggregate) { p.ObjectGen++ }))},
		attempt{"another version", store.VersionConflict, w.tryPrepare(with(prepareOf(moving, p, inv), func(p *store.PrepareAggregate) { p.Version-- }))},
		attempt{"another epoch", store.EpochChanged, w.tryPrepare(with(prepareOf(moving, p, inv), func(p *store.PrepareAggregate) { p.Epoch++ }))},
		attempt{"commit without inventory", store.InventoryConflict, w.tryCommit(commitOf(moving, q))},
		attempt{"commit of one that is not fixed", store.InventoryConflict, w.tryCommit(with(commitOf(moving, q), func(c *store.CommitMove) { c.Root = root }))},
	)
	w.expire(p)
	w.refuses(attempt{"lease ended", store.LeaseExpired, w.tryPrepare(prepareOf(moving, p, inv))})
	w.renew(p.Lease, longTTL, store.Applied)
	prepare := prepareOf(moving, p, inv)
	prepared := w.prepare(prepare, store.Applied)
	if again := w.prepare(prepare, store.AlreadyApplied); again.Version != prepared.Version {
		w.t.Errorf("again gives %+v; want %+v", again, prepared)
	}
	w.refuses(
		attempt{"fixed already", store.InventoryConflict, w.tryPrepare(prepareOf(prepared, p, inv))},
		attempt{"commit by the version before it", store.VersionConflict, w.tryCommit(with(commitOf(prepared, q), func(c *store.CommitMove) { c.Version = moving.Version }))},
		attempt{"commit of another inventory", store.InventoryConflict, w.tryCommit(with(commitOf(prepared, q), func(c *store.CommitMove) { c.Root[0]++ }))},
		attempt{"commit without one", store.InventoryConflict, w.tryCommit(with(commitOf(prepared, q), func(c *store.CommitMove) { c.Root = store.Digest{} }))},
	)
	w.commit(commitOf(prepared, q), store.Applied)
}

// perActor: the Spot moves alone; each member follows by its own commit.
func perActor(w *world) {
	p, q, third := w.server("node-a"), w.server("node-b"), w.server("node-c")
	shy := w.room("shy", p, false)
	ids := []string{"player-0", "player-1", "player-2"}
	for _, id := range ids {
		w.member(id, p, shy.ID)
	}
	outside := w.actor("outside", p)
	moved := w.moveTo(shy, q, "", false)
	if moved.MembersLeft != len(ids) || moved.RID != q.RID || moved.OwnerGen != shy.OwnerGen+1 || moved.Aggregate != nil {
		w.t.Errorf("Spot is %+v; want it at the target, with %d members left", moved, len(ids))
	}
	w.wantMembers(shy.ID, ids...)
	w.wantSlots(p, len(ids)+1, 0)
	w.wantSlots(q, 0, 1)
	// New members come to the Spot's new owner only, and are not waited for.
	w.refuses(attempt{"one enters at the owner before", store.SpotUnavailable, w.tryChange(changeOf(outside, shy.ID, true))})
	w.member("new", q, shy.ID)
	for i, id := range ids {
		before := w.must(id)
		if before.RID != p.RID || before.SpotID != shy.ID || before.OwnerGen != 1 {
			w.t.Errorf("member that is left is %+v", before)
		}
		w.wantLeft(shy.ID, len(ids)-i)
		w.refuses(attempt{"the Spot's next move", store.Pending, w.tryMove(moveOf(w.must(shy.ID), third, "", false))})
		got := w.moveTo(before, q, shy.ID, true)
		if got.RID != q.RID || got.SpotID != shy.ID || got.OwnerGen != before.OwnerGen+1 || got.ObjectGen != before.ObjectGen {
			w.t.Errorf("member that followed is %+v", got)
		}
	}
	w.wantLeft(shy.ID, 0)
	w.wantMembers(shy.ID, append([]string{"new"}, ids...)...)
	w.wantSlots(q, len(ids)+1, 1)
	if now := w.must(shy.ID); now.Version != moved.Version {
		w.t.Errorf("the Spot is at version %d after its members followed; was %d", now.Version, moved.Version)
	}
	// A member that leaves behind it is none of those.
	w.change(changeOf(w.must("new"), q.desc.EntrySpotID, false), store.Applied)
	again := w.moveTo(w.must(shy.ID), third, "", false)
	if again.MembersLeft != len(ids) {
		w.t.Errorf("%d members are left by the second move; want %d", again.MembersLeft, len(ids))
	}
}

func (w *world) wantLeft(spot string, want int) {
	w.t.Helper()
	if a := w.must(spot); a.MembersLeft != want {
		w.t.Fatalf("%d members of %q are left; want %d", a.MembersLeft, spot, want)
	}
	w.consistent()
}

func (w *world) wantChunk(spot string, digest store.Digest, want []byte) {
	w.t.Helper()
	if got, found, err := w.s.ReadInventory(w.ctx(), spot, digest); err != nil || !found || !bytes.Equal(got, want) {
		w.t.Fatalf("chunk of %q is %.20q of %d bytes, %v, %v; want %.20q", spot, got, len(got), found, err, want)
	}
}

func (w *world) wantNoChunk(spot string, digest store.Digest) {
	w.t.Helper()
	if got, found, err := w.s.ReadInventory(w.ctx(), spot, digest); err != nil || found {
		w.t.Fatalf("chunk of %q is still %.20q, %v", spot, got, err)
	}
}

func (w *world) tryComplete(a store.Authority, id store.RelocationID) func() (store.Change, error) {
	return func() (store.Change, error) { return w.s.CompleteMove(w.ctx(), fence(a), id) }
}
