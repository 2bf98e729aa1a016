package node

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// local is joins whose node runs them itself, on a Store that applies each change of a
// Spot unless the test says more.
type local struct {
	*joins
	version store.Version
	changes []store.ChangeSpot
	answer  func(store.ChangeSpot) (store.Reason, error) // before it is applied; nil: it is
	ended   chan JoinDone
}

func newLocal(t *testing.T) *local {
	w := &local{joins: newJoins(t), version: 10, ended: make(chan JoinDone, 100)}
	w.node.cfg.OnJoin = nil
	w.node.entryID = "the-entry"
	w.store.change = func(c store.ChangeSpot) (store.Change, error) {
		w.changes = append(w.changes, c)
		if w.answer != nil {
			if reason, err := w.answer(c); reason != store.Applied || err != nil {
				return store.Change{Reason: reason, Epoch: 1}, err
			}
		}
		w.version++
		return store.Change{Reason: store.Applied, Epoch: 1, Found: true, Record: store.Authority{Version: w.version, Epoch: 1}}, nil
	}
	return w
}

// actor makes one whose row was written in epoch 1 and that notes how its Joins end.
func (w *local) actor(id string) *objectCell {
	w.Helper()
	a := w.joins.actor(id)
	a.epoch.Store(1)
	a.typ.OnJoinCompleted = func(_ *Call, _ any, done JoinDone) error {
		w.notes.add('C')
		w.ended <- done
		return nil
	}
	return a
}

// spot makes a User Spot that notes who joins and leaves.
func (w *local) spot(id string, wide bool) *objectCell {
	w.Helper()
	s := w.object(store.UserSpot, id, wide)
	s.epoch.Store(1)
	note := func(b byte) func(*Call, any, ActorRef) error {
		return func(*Call, any, ActorRef) error { w.notes.add(b); return nil }
	}
	s.typ.OnJoinedActor, s.typ.OnLeaveActor = note('J'), note('L')
	return s
}

// join has the Actor's handler register the Join and returns how it ends.
func (w *local) join(a *objectCell, to Join) JoinDone {
	w.Helper()
	w.tell(a, register(to))
	return await(w.T, "the completion", w.ended)
}

func (w *local) wantFailed(done JoinDone, kind errkind.Kind) {
	w.Helper()
	if done.Result != JoinFailed || done.Err == nil || done.Err.Kind != kind {
		w.Errorf("it ended with %+v, want %v", done.JoinOutcome, kind)
	}
}

// The fence is that of the row as it is: its Spot, and the Spot's version if the Spot's
// owner is the Actor's.
// req: ID-06
func TestAChangeOfSpotNamesTheSpotBefore(t *testing.T) {
	w := newLocal(t)
	a := w.actor("ada")
	w.spot("wide", true).version.Store(7)
	w.spot("apart", false)
	for _, to := range []Join{{Spot: "wide"}, {Spot: "apart"}, {Entry: true}} {
		if done := w.join(a, to); done.Result != JoinAccepted {
			t.Fatalf("it ended with %+v", done)
		}
	}
	row := func(v store.Version, spot string, spotVersion store.Version) store.Fence {
		return store.Fence{ID: "ada", ObjectGen: 1, Version: v, OwnerID: "owner", LeaseGen: 5, SpotID: spot, SpotVersion: spotVersion}
	}
	want := []store.ChangeSpot{
		{Fence: row(1, "the-entry", 0), SpotID: "wide", InUserSpot: true},
		{Fence: row(11, "wide", 7), SpotID: "apart", InUserSpot: true},
		{Fence: row(12, "apart", 0), SpotID: "the-entry"},
	}
	seen := map[store.OpID]bool{}
	for i := range w.changes {
		seen[w.changes[i].Op] = true
		w.changes[i].Op = store.OpID{}
	}
	if !slices.Equal(w.changes, want) || len(seen) != 3 {
		t.Errorf("the changes are %+v", w.changes)
	}
}

// What the Store refuses for good fails the Join, and the roster is as before; what may
// pass is asked for again, one operation until it is known.
// req: JN-09
func TestWhatTheStoreRefusesAJoin(t *testing.T) {
	unknown := func(store.ChangeSpot) (store.Reason, error) { return 0, store.ErrUnknown }
	down := func(store.ChangeSpot) (store.Reason, error) { return 0, store.ErrUnavailable }
	says := func(r store.Reason) func(store.ChangeSpot) (store.Reason, error) {
		return func(store.ChangeSpot) (store.Reason, error) { return r, nil }
	}
	for what, c := range map[string]struct {
		first  func(store.ChangeSpot) (store.Reason, error)
		behind bool // the Spot's row has yet to be written in the epoch
		kind   errkind.Kind
		again  bool
	}{
		"its generation":         {says(store.GenerationConflict), false, errkind.InvalidOperation, false},
		"its version":            {says(store.VersionConflict), false, errkind.Unavailable, false},
		"its owner":              {says(store.OwnerConflict), false, errkind.Unavailable, false},
		"it moves":               {says(store.Moving), false, errkind.Unavailable, false},
		"no row":                 {says(store.Missing), false, errkind.Unavailable, false},
		"the spot":               {says(store.SpotUnavailable), false, errkind.Unavailable, false},
		"another's lease":        {says(store.LeaseSuperseded), false, errkind.Unavailable, false},
		"a spot that is behind":  {says(store.SpotUnavailable), true, 0, true},
		"a lease in doubt":       {says(store.LeaseExpired), false, 0, true},
		"a store that is down":   {down, false, 0, true},
		"an answer that is lost": {unknown, false, 0, true},
	} {
		t.Run(what, func(t *testing.T) {
			w := newLocal(t)
			a, spot := w.actor("ada"), w.spot("room", true)
			if c.behind {
				spot.epoch.Store(0)
			}
			tries := 0
			w.answer = func(ch store.ChangeSpot) (store.Reason, error) {
				if tries++; tries == 1 {
					return c.first(ch)
				}
				return store.Applied, nil
			}
			done := w.join(a, Join{Spot: "room"})
			w.note(a, '1')
			barrier(t, a)
			if !c.again {
				w.wantFailed(done, c.kind)
				w.is("C1")
				if a.spot.Load() != nil || !spot.members.none() {
					t.Error("it is a member")
				}
				return
			}
			if done.Result != JoinAccepted || a.spot.Load() != spot || spot.members.none() || spot.hasMember(a) == false {
				t.Errorf("it ended with %+v", done)
			}
			w.is("JC1")
			if len(w.changes) != 2 || w.changes[0] != w.changes[1] {
				t.Errorf("the tries are %+v", w.changes)
			}
		})
	}
}

// A Spot's row that is written again takes its members' fence along.
func TestAMemberWhoseSpotsRowIsWrittenMeanwhileTriesAgain(t *testing.T) {
	w := newLocal(t)
	a, from := w.actor("ada"), w.spot("from", true)
	w.spot("to", false)
	from.version.Store(7)
	w.join(a, Join{Spot: "from"})
	w.answer = func(c store.ChangeSpot) (store.Reason, error) {
		if c.SpotVersion == 7 {
			from.version.Store(8)
			return store.VersionConflict, nil
		}
		return store.Applied, nil
	}
	if done := w.join(a, Join{Spot: "to"}); done.Result != JoinAccepted || w.changes[len(w.changes)-1].SpotVersion != 8 {
		t.Errorf("it ended with %+v, the changes are %+v", done, w.changes)
	}
}

// Once the Store was asked, only its answer decides, be the deadline over or the node about
// to stop.
// req: JN-09, JN-10
func TestAJoinThatTheStoreIsAskedForIsDecidedByIt(t *testing.T) {
	for _, applied := range []bool{true, false} {
		w := newLocal(t)
		a := w.actor("ada")
		spot := w.spot("room", false)
		asked := 0
		w.answer = func(store.ChangeSpot) (store.Reason, error) {
			if asked++; asked > 1 && applied {
				return store.Applied, nil
			}
			j := a.joining.Load()
			w.node.failJoins()
			until(t, "the deadline", func() bool { return clock.Now().Reached(j.Deadline) })
			if asked > 1 {
				return store.Moving, nil
			}
			return 0, store.ErrUnknown
		}
		done := w.join(a, Join{Spot: "room", Timeout: 300 * time.Millisecond})
		if applied && done.Result != JoinAccepted {
			t.Errorf("it ended with %+v", done)
		} else if !applied {
			w.wantFailed(done, errkind.Unavailable)
		}
		if spot.members.none() == applied {
			t.Errorf("it is a member: %v", !applied)
		}
	}
}

// A Join whose time is over when the Spot has decided asks the Store for nothing.
// req: JN-09
func TestAJoinIsNotBegunInTheStoreBehindItsDeadline(t *testing.T) {
	w := newLocal(t)
	a, spot := w.actor("ada"), w.spot("room", false)
	spot.typ.OnActorJoin = func(*Call, any, JoinAsk) (Admission, error) {
		until(t, "the deadline", func() bool { return clock.Now().Reached(a.joining.Load().Deadline) })
		return Admission{}, nil
	}
	w.wantFailed(w.join(a, Join{Spot: "room", Timeout: 50 * time.Millisecond}), errkind.DeadlineExceeded)
	barrier(t, spot)
	if len(w.changes) != 0 || !spot.members.none() {
		t.Errorf("the changes are %+v", w.changes)
	}
}

func TestAJoinCommitsBeforeItsDeadlineAndUndecided(t *testing.T) {
	w := newLocal(t)
	a := w.actor("ada")
	late, cancelled, now := newPendingJoin(Join{}, a), newPendingJoin(Join{Timeout: time.Hour}, a), newPendingJoin(Join{Timeout: time.Hour}, a)
	cancelled.cancel(errStopping)
	if late.commits() || cancelled.commits() || !now.commits() {
		t.Error("one commits that is over, or one that is not does not")
	}
	now.cancel(errStopping)
	if late.Outcome().Err.Kind != errkind.DeadlineExceeded || cancelled.Outcome().Err.Kind != errkind.ShuttingDown || now.Outcome().Err != nil {
		t.Errorf("they end with %+v, %+v, %+v", late.Outcome(), cancelled.Outcome(), now.Outcome())
	}
}

// An Actor that ends while its Join runs is in no roster, and nobody is told of it.
func TestAnActorThatEndsInItsJoinLeavesNoPlace(t *testing.T) {
	w := newLocal(t)
	for _, when := range []string{"asked", "stored"} {
		a, spot := w.actor(when), w.spot("room "+when, true)
		end := func() { w.node.drop(a, errGone) }
		w.answer = nil
		if when == "asked" {
			spot.typ.OnActorJoin = func(*Call, any, JoinAsk) (Admission, error) { end(); return Admission{}, nil }
		} else {
			w.answer = func(store.ChangeSpot) (store.Reason, error) { end(); return store.Applied, nil }
		}
		w.tell(a, register(Join{Spot: "room " + when}))
		until(t, "the join's task has ended", func() bool { return a.joining.Load() == nil && w.node.joins.Load() == 0 && spot.members.none() })
		barrier(t, spot)
	}
	w.is("")
}

// A member that waits with a Yield is told to leave: it does when that turn is over, and
// what comes then runs in the new Spot.
// req: MB-06, JN-15
func TestAMemberInAYieldLeavesBehindIt(t *testing.T) {
	w := newLocal(t)
	a := w.actor("ada")
	from, to := w.spot("from", true), w.spot("to", true)
	w.join(a, Join{Spot: "from"})
	yields, goOn := make(chan struct{}), make(chan struct{})
	w.tell(a, func(c *Call) error {
		err := w.node.Do(c.Yielding(), IO, func(context.Context) error { close(yields); <-goOn; return nil })
		w.notes.add('Y')
		return err
	})
	await(t, "the yield", yields)
	w.run(from, register(Join{Actor: "ada", Spot: "to"}))
	w.note(a, '1')
	w.heldAll(1)
	w.is("JC")
	close(goOn)
	await(t, "the completion", w.ended)
	barrier(t, a)
	barrier(t, from)
	if got := w.sofar(); got != "JCYJLC1" && got != "JCYJCL1" && got != "JCYJC1L" {
		t.Errorf("it ran %q", got)
	}
	if !a.sharesGate(to) || a.sharesGate(from) || !from.members.none() {
		t.Error("it has the gate that it had")
	}
}

// Two Spots of which each sends its member to the other.
func TestTwoMembersChangePlaces(t *testing.T) {
	w := newLocal(t)
	a, b := w.actor("ada"), w.actor("bob")
	x, y := w.spot("x", true), w.spot("y", true)
	w.join(a, Join{Spot: "x"})
	w.join(b, Join{Spot: "y"})
	for range 50 {
		until(t, "the joins are over", func() bool { return a.joining.Load() == nil && b.joining.Load() == nil })
		w.tell(x, register(Join{Actor: "ada", Spot: y.ref.ID}))
		w.tell(y, register(Join{Actor: "bob", Spot: x.ref.ID}))
		for range 2 {
			if done := await(t, "a completion", w.ended); done.Result != JoinAccepted {
				t.Fatalf("it ended with %+v", done)
			}
		}
		if !y.hasMember(a) || !x.hasMember(b) || !a.sharesGate(y) || !b.sharesGate(x) {
			t.Fatal("they have not changed places")
		}
		x, y = y, x
	}
	if x.members.count.Load() != 1 || y.members.count.Load() != 1 {
		t.Errorf("the spots count %d and %d members", x.members.count.Load(), y.members.count.Load())
	}
}

// An OnActorJoin that has not begun when its Join's time is over does not begin.
// req: JN-02
func TestNoSpotIsAskedBehindTheDeadline(t *testing.T) {
	w := newLocal(t)
	spot := w.spot("room", false)
	var asked atomic.Bool
	spot.typ.OnActorJoin = func(*Call, any, JoinAsk) (Admission, error) { asked.Store(true); return Admission{}, nil }
	busy, goOn := make(chan struct{}), make(chan struct{})
	w.tell(spot, func(*Call) error { close(busy); <-goOn; return nil })
	await(t, "the turn", busy)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan *Error, 1)
	go func() {
		_, err := w.node.askSpot(ctx, spot, spot.members.ask(), JoinAsk{})
		ended <- err
	}()
	until(t, "it is queued", func() bool { return w.node.pool.Stats().Running == 1 })
	cancel()
	w.wantKind("the end", await(t, "the end", ended), errkind.DeadlineExceeded)
	close(goOn)
	barrier(t, spot)
	if asked.Load() {
		t.Error("it was asked")
	}
}

// While the node may not act nobody hears of a Join, and afterwards all do.
// req: RL-20
func TestInALapseNobodyHearsOfAJoin(t *testing.T) {
	w := newLocal(t)
	a := w.actor("ada")
	w.spot("room", false)
	w.node.entry.typ.OnLeaveActor = func(*Call, any, ActorRef) error { w.notes.add('E'); return nil }
	w.answer = func(store.ChangeSpot) (store.Reason, error) { w.node.admitUntil.Store(0); return store.Applied, nil }
	j := w.registered(a, Join{Spot: "room", Timeout: 50 * time.Millisecond})
	until(t, "it is a member", func() bool { return a.spot.Load() != nil })
	late := max(clock.Now(), j.Deadline).Add(insistMin + settleWaitMax)
	until(t, "it could be stuck", func() bool { return clock.Now().Reached(late) })
	w.is("")
	w.node.admitUntil.Store(int64(clock.Never))
	await(t, "the completion", w.ended)
	w.node.late.run()
	barrier(t, w.node.entry)
	if got := w.sofar(); got != "JCE" && got != "JEC" {
		t.Errorf("it ran %q", got)
	}
	if s := a.stuck.Load(); s != nil {
		t.Errorf("it is stuck: %v", s)
	}
}
