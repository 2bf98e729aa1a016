package storetest

import (
	"reflect"
	"time"

	"github.com/zlnode/zlnode/store"
)

var moveCases = []testCase{
	{"ReservationBooksSlotsAndPlaces", func(w *world) {
		p := w.server("node-a")
		q := w.server("node-b", limit(1))
		from, to := w.room("from", p, false), w.room("to", q, false)
		a := w.member("player-1", p, from.ID)
		r := moveOf(a, q, to.ID, true)
		before := time.Now()
		got := w.reserveMove(r, store.Applied)
		want := a
		want.Version, want.LeaseLeft = got.Version, got.LeaseLeft
		want.Move = &store.Move{
			ID: r.Relocation, Attempt: 1, TargetRID: q.RID, TargetOwnerID: q.OwnerID, TargetLifecycle: q.Gen, SpotID: to.ID, InUserSpot: true,
			ValidUntil: got.Move.ValidUntil,
		}
		if !reflect.DeepEqual(got, want) || got.Version <= a.Version {
			w.t.Errorf("row is %+v with move %+v; want %+v with %+v", got, got.Move, want, want.Move)
		}
		if off := got.Move.ValidUntil.Sub(before) - longValidity; off.Abs() > time.Hour {
			w.t.Errorf("valid until %v, which is not %v from now", got.Move.ValidUntil, longValidity)
		}
		w.wantSlots(p, 1, 1)
		w.wantSlots(q, 1, 1)
		w.wantHeld(p, store.HeldOwned, from.ID, a.ID)
		w.wantHeld(q, store.HeldReserved, a.ID)
		w.wantMembers(from.ID, a.ID)
		w.wantMembers(to.ID)
		third := w.server("node-c")
		w.refuses(
			attempt{"another creation for the booked slot", store.CapacityExceeded, w.tryReserve(request("player-2", q))},
			attempt{
				"another move for the booked slot", store.CapacityExceeded,
				w.tryMove(moveOf(w.actor("player-3", p), q, q.desc.EntrySpotID, false)),
			},
			attempt{"a second move", store.Moving, w.tryMove(moveOf(got, third, third.desc.EntrySpotID, false))},
			attempt{"deletion", store.Moving, w.tryDelete(got)},
			attempt{"deletion of the Spot it comes to", store.NotEmpty, w.tryDelete(to)},
			attempt{"move of the Spot it comes to", store.Pending, w.tryMove(moveOf(to, third, "", false))},
			attempt{"move of the Spot it leaves", store.Pending, w.tryMove(moveOf(from, third, "", false))},
		)
		again := w.reserveMove(r, store.AlreadyApplied)
		if again.Version != got.Version {
			w.t.Errorf("again gives version %d; want %d", again.Version, got.Version)
		}
		w.wantSlots(q, 1, 1)
	}},
	{"CommitChangesOwnerMembershipAndSlotsInOneStep", func(w *world) {
		for _, from := range []string{"entry", "shy", "wide"} {
			for _, to := range []string{"entry", "shy", "wide"} {
				w.movesBetween(from, to)
			}
		}
	}},
	{"SpotsMoveAlone", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		for i, a := range []store.Authority{w.room("room", p, false), w.make(spotRequest(store.InstanceSpot, "quest", p))} {
			moving := w.reserveMove(moveOf(a, q, "", false), store.Applied)
			w.wantSlots(q, 0, 1)
			w.wantHeld(q, store.HeldReserved, a.ID)
			got := w.commit(commitOf(moving, q), store.Applied)
			want := a
			want.OwnerGen, want.RID, want.OwnerID, want.LeaseGen, want.Mesh = 2, q.RID, q.OwnerID, q.Gen, q.desc.Mesh
			want.Version, want.LeaseLeft = got.Version, got.LeaseLeft
			if !reflect.DeepEqual(got, want) || got.Version <= moving.Version {
				w.t.Errorf("row is %+v; want %+v", got, want)
			}
			w.wantHeld(q, store.HeldReserved)
			w.wantHeld(q, store.HeldOwned, a.ID)
			w.wantSlots(p, 0, 1-i)
			w.wantSlots(q, 0, 1)
			w.delete(got, newOp(), store.Applied)
			w.wantSlots(q, 0, 0)
		}
	}},
	{"EndOfTheSourcesLeaseIsNoObstacle", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		expired := w.reserveMove(moveOf(w.actor("player-1", p), q, q.desc.EntrySpotID, false), store.Applied)
		superseded := w.reserveMove(moveOf(w.actor("player-2", p), q, q.desc.EntrySpotID, false), store.Applied)
		w.expire(p)
		w.commit(commitOf(expired, q), store.Applied)
		w.server(p.RID)
		if got := w.commit(commitOf(superseded, q), store.Applied); got.RID != q.RID || got.LeaseLeft <= 0 {
			w.t.Errorf("row is %+v; want it at the target", got)
		}
	}},
	{"TargetThatOnlyExpiredRenewsAndTriesAgain", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		a := w.reserveMove(moveOf(w.actor("player-1", p), q, q.desc.EntrySpotID, false), store.Applied)
		c := commitOf(a, q)
		w.expire(q)
		w.refuses(
			attempt{"commit", store.LeaseExpired, w.tryCommit(c)},
			attempt{"giving up", store.LeaseExpired, w.tryEnd(endOf(a, store.Target, q))},
		)
		w.renew(q.Lease, longTTL, store.Applied)
		w.commit(c, store.Applied)
	}},
	{"TargetThatWasSupersededChangesNothing", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		a := w.reserveMove(moveOf(w.actor("player-1", p), q, q.desc.EntrySpotID, false), store.Applied)
		w.expire(q)
		next := w.server(q.RID)
		w.refuses(
			attempt{"commit", store.LeaseSuperseded, w.tryCommit(commitOf(a, q))},
			attempt{"giving up", store.LeaseSuperseded, w.tryEnd(endOf(a, store.Target, q))},
			attempt{"commit by the next process", store.OwnerConflict, w.tryCommit(commitOf(a, next))},
			attempt{"giving up by the next process", store.OwnerConflict, w.tryEnd(endOf(a, store.Target, next))},
		)
		w.end(endOf(a, store.Source, p), store.Applied)
	}},
	{"SourceThatWasSupersededChangesNothing", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		a := w.reserveMove(moveOf(w.actor("player-1", p), q, q.desc.EntrySpotID, false), store.Applied)
		wide := w.reserveMove(moveOf(w.room("wide", p, true), q, "", false), store.Applied)
		root := w.putChunk(store.MoveOf(&wide), []byte("root"), store.Applied)
		still := w.actor("player-2", p)
		all := func(want store.Reason) []attempt {
			return []attempt{
				{"abort", want, w.tryEnd(endOf(a, store.Source, p))},
				{"preparing an aggregate", want, w.tryPrepare(prepareOf(wide, p, store.Inventory{Root: root, Count: 1}))},
				{"a move", want, w.tryMove(moveOf(still, q, q.desc.EntrySpotID, false))},
				{"a change of Spots", want, w.tryChange(changeOf(still, "room", true))},
				{"a deletion", want, w.tryDelete(still)},
			}
		}
		w.expire(p)
		w.refuses(all(store.LeaseExpired)...)
		w.server(p.RID)
		w.refuses(all(store.LeaseSuperseded)...)
	}},
	{"OfAbortAndCommitTheFirstIsTrue", func(w *world) {
		w.endAgainstCommit(store.Source)
	}},
	{"OfGivingUpAndCommitTheFirstIsTrue", func(w *world) {
		w.endAgainstCommit(store.Target)
	}},
	{"OfAbortAndGivingUpTheFirstIsTrue", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		for _, order := range [][2]store.MoveParty{{store.Source, store.Target}, {store.Target, store.Source}} {
			asker := map[store.MoveParty]process{store.Source: p, store.Target: q}
			a := w.actor("player-1", p)
			moving := w.reserveMove(moveOf(a, q, q.desc.EntrySpotID, false), store.Applied)
			w.end(endOf(moving, order[0], asker[order[0]]), store.Applied)
			w.refuses(attempt{"the later one", store.MoveConflict, w.tryEnd(endOf(moving, order[1], asker[order[1]]))})
			w.delete(w.must(a.ID), newOp(), store.Applied)
		}
	}},
	{"LostAnswerIsLearntByTheSameOperation", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		r := moveOf(w.actor("player-1", p), q, q.desc.EntrySpotID, false)
		moving := w.reserveMove(r, store.Applied)
		if got := w.reserveMove(r, store.AlreadyApplied); !reflect.DeepEqual(got.Move, moving.Move) || got.Version != moving.Version {
			w.t.Errorf("repeated reservation shows %+v; want %+v", got, moving)
		}
		c := commitOf(moving, q)
		done := w.commit(c, store.Applied)
		if got := w.commit(c, store.AlreadyApplied); got.Version != done.Version || got.OwnerID != q.OwnerID || got.OwnerGen != done.OwnerGen {
			w.t.Errorf("repeated commit shows %+v; want %+v", got, done)
		}
		// By another operation nothing happens, but the row tells whose it is.
		w.refuses(attempt{"commit by another operation", store.MoveConflict, w.tryCommit(commitOf(moving, q))})

		again := w.reserveMove(moveOf(done, p, p.desc.EntrySpotID, false), store.Applied)
		e := endOf(again, store.Source, q)
		ended := w.end(e, store.Applied)
		if got := w.end(e, store.AlreadyApplied); got.Version != ended.Version || got.Move != nil {
			w.t.Errorf("repeated abort shows %+v; want %+v", got, ended)
		}
	}},
	{"LateOperationsOfAnOldAttemptChangeNothing", lateOperations},
	{"SweepIsForWhatIsPastItsValidity", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		room := w.room("room", q, false)
		long := w.reserveMove(moveOf(w.actor("player-1", p), q, room.ID, true), store.Applied)
		w.refuses(
			attempt{"before its end", store.OwnerAlive, w.tryEnd(endOf(long, store.Sweep, q))},
			attempt{"by the source", store.OwnerConflict, w.tryEnd(endOf(long, store.Sweep, p))},
		)
		r := moveOf(w.actor("player-2", p), q, room.ID, true)
		r.Validity = shortValidity
		short := w.reserveMove(r, store.Applied)
		e := endOf(short, store.Sweep, q)
		var got store.Change
		w.until("the move's validity to end", func() (done bool) {
			var err error
			got, err = w.s.EndMove(w.ctx(), e)
			if err != nil {
				w.t.Fatal(err)
			}
			return got.Reason != store.OwnerAlive
		})
		if a := got.Record; got.Reason != store.Applied || a.Move != nil || a.RID != p.RID || a.OwnerGen != short.OwnerGen {
			w.t.Errorf("swept: %+v", got)
		}
		w.wantHeld(q, store.HeldReserved, long.ID)
		w.wantSlots(q, 1, 1)
		w.refuses(attempt{"commit of what was swept", store.MoveConflict, w.tryCommit(commitOf(short, q))})
	}},
	{"CommitPastTheValidityAppliesWhileTheMoveStands", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		r := moveOf(w.actor("player-1", p), q, q.desc.EntrySpotID, false)
		r.Validity = shortValidity
		moving := w.reserveMove(r, store.Applied)
		w.expire(p) // takes longer
		w.commit(commitOf(moving, q), store.Applied)
	}},
	{"ReservationOfAMoveIsRefused", refusedReservations},
	{"CommitAndEndOfAMoveAreRefused", refusedCommits},
}

// movesBetween moves an Actor from such a Spot at one node to such a Spot at another.
func (w *world) movesBetween(from, to string) {
	w.t.Helper()
	name := from + "-" + to
	p, q := w.server("a-"+name), w.server("b-"+name)
	spot := func(kind, id string, at process) (string, bool, store.Version) {
		if kind == "entry" {
			return at.desc.EntrySpotID, false, 0
		}
		room := w.room(id, at, kind == "wide")
		if kind == "wide" { // an owner generation of its own
			third := w.server("c-" + id)
			room = w.moveWide(w.moveWide(room, at, third, 0), third, at, 0)
			return room.ID, true, room.Version
		}
		return room.ID, true, 0
	}
	fromID, fromUser, _ := spot(from, "from-"+name, p)
	toID, toUser, toVersion := spot(to, "to-"+name, q)
	a := w.actor("player-"+name, p)
	if fromUser {
		a = w.change(changeOf(a, fromID, true), store.Applied)
	}
	spots := [2]int{}
	for i, n := range []process{p, q} {
		d, _ := w.node(n.RID)
		spots[i] = d.Spots
	}
	moving := w.reserveMove(moveOf(a, q, toID, toUser), store.Applied)
	got := w.commit(commitOf(moving, q), store.Applied)
	want := a
	want.OwnerGen++
	want.RID, want.OwnerID, want.LeaseGen, want.Mesh = q.RID, q.OwnerID, q.Gen, q.desc.Mesh
	want.SpotID, want.InUserSpot, want.SpotVersion = toID, toUser, toVersion
	want.Version, want.LeaseLeft = got.Version, got.LeaseLeft
	if !reflect.DeepEqual(got, want) || got.Version <= moving.Version || got.LeaseLeft <= 0 {
		w.t.Errorf("%s: the row is %+v; want %+v", name, got, want)
	}
	if read := with(w.must(a.ID), func(a *store.Authority) { a.LeaseLeft = got.LeaseLeft }); !reflect.DeepEqual(read, got) {
		w.t.Errorf("%s: reads %+v; want %+v", name, read, got)
	}
	w.wantSlots(p, 0, spots[0])
	w.wantSlots(q, 1, spots[1])
	w.wantHeld(q, store.HeldReserved)
	if fromUser {
		w.wantMembers(fromID)
		w.delete(w.must(fromID), newOp(), store.Applied) // nobody is on the way any more
	}
	if toUser {
		w.wantMembers(toID, a.ID)
	}
	w.consistent()
}

// endAgainstCommit ends one move before its commit and one behind it.
func (w *world) endAgainstCommit(by store.MoveParty) {
	p, q := w.server("node-a"), w.server("node-b")
	asker := map[store.MoveParty]process{store.Source: p, store.Target: q}[by]
	from, to := w.room("from", p, false), w.room("to", q, false)
	a := w.member("player-1", p, from.ID)

	moving := w.reserveMove(moveOf(a, q, to.ID, true), store.Applied)
	ended := w.end(endOf(moving, by, asker), store.Applied)
	want := a
	want.Version, want.LeaseLeft = ended.Version, ended.LeaseLeft
	if !reflect.DeepEqual(ended, want) || ended.Version <= moving.Version {
		w.t.Errorf("ended: %+v; want %+v with a larger version", ended, want)
	}
	w.wantSlots(q, 0, 1)
	w.wantHeld(q, store.HeldReserved)
	w.refuses(attempt{"commit behind the end", store.MoveConflict, w.tryCommit(commitOf(moving, q))})
	if c, err := w.s.CommitMove(w.ctx(), commitOf(moving, q)); err != nil || c.Record.OwnerID != p.OwnerID || c.Record.Move != nil {
		w.t.Errorf("the target learns %+v, %v; want that the source has it", c, err)
	}

	// The next attempt of the same relocation, and the other order.
	r := moveOf(ended, q, to.ID, true)
	r.Relocation, r.Attempt = moving.Move.ID, 2
	moving = w.reserveMove(r, store.Applied)
	w.commit(commitOf(moving, q), store.Applied)
	w.refuses(attempt{"end behind the commit", store.MoveConflict, w.tryEnd(endOf(moving, by, asker))})
	c, err := w.s.EndMove(w.ctx(), endOf(moving, by, asker))
	if err != nil || c.Record.OwnerID != q.OwnerID || c.Record.LeaseGen != q.Gen || c.Record.OwnerGen != a.OwnerGen+1 || c.Record.SpotID != to.ID {
		w.t.Errorf("the later one learns %+v, %v; want that the target has it", c, err)
	}
}

// lateOperations: what the processes of a first attempt sent arrives after the row went
// on, as often and as late as it likes.
func lateOperations(w *world) {
	p, q := w.server("node-a"), w.server("node-b")
	room := w.room("room", q, false)
	a := w.actor("player-1", p)
	reserve := moveOf(a, q, room.ID, true)
	first := w.reserveMove(reserve, store.Applied)
	commit, abort, giveUp, sweep := commitOf(first, q), endOf(first, store.Source, p), endOf(first, store.Target, q), endOf(first, store.Sweep, q)
	late := func(why string, moved, reserved store.Reason) {
		w.t.Helper()
		w.refuses(
			attempt{why + ": reservation", reserved, w.tryMove(reserve)},
			attempt{why + ": commit", moved, w.tryCommit(commit)},
			attempt{why + ": abort", moved, w.tryEnd(abort)},
			attempt{why + ": giving up", moved, w.tryEnd(giveUp)},
			attempt{why + ": sweep", moved, w.tryEnd(sweep)},
		)
	}
	ended := w.end(endOf(first, store.Source, p), store.Applied)
	late("aborted", store.MoveConflict, store.VersionConflict)

	next := moveOf(ended, q, room.ID, true)
	next.Relocation, next.Attempt = reserve.Relocation, 2
	second := w.reserveMove(next, store.Applied)
	late("second attempt", store.MoveConflict, store.VersionConflict)

	moved := w.commit(commitOf(second, q), store.Applied)
	late("moved", store.MoveConflict, store.VersionConflict)

	// The same relocation and attempt by a later version of the row.
	moved = w.change(changeOf(moved, q.desc.EntrySpotID, false), store.Applied)
	back := w.moveTo(moved, p, p.desc.EntrySpotID, false)
	third := moveOf(back, q, room.ID, true)
	third.Relocation = reserve.Relocation
	third.Attempt = 1
	moving := w.reserveMove(third, store.Applied)
	late("same attempt, later version", store.VersionConflict, store.VersionConflict)

	w.delete(w.end(endOf(moving, store.Source, p), store.Applied), newOp(), store.Applied)
	late("gone", store.Missing, store.Missing)
	w.actor(a.ID, p)
	late("another incarnation", store.GenerationConflict, store.GenerationConflict)
}
