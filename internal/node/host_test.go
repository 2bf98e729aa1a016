package node

import (
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/store"
)

// An Instance Spot comes into being at no node that is relocated, and who asked goes on to another;
// one that is there gets its messages. A dawn that has yet to reserve its row is turned away.
func TestNoInstanceSpotComesIntoBeingAtARelocatedNode(t *testing.T) {
	n, typ, _ := activations(t)
	offer := func(cell *objectCell, id string) *Error {
		return n.offerHere(cell, id, "quest", sender{kind: msgIntentSend}, note('x'), clock.Now().Add(10*time.Second), nil)
	}
	there, held := n.dawn("there", typ)
	n.host.state.Store(uint32(store.Relocating))
	if err := offer(nil, "new"); err == nil || !err.stale || err.Kind != errkind.Unavailable || n.knows("new") {
		t.Errorf("a new one got %v", err)
	}
	if err := offer(there, "there"); err != nil {
		t.Errorf("the one that is there got %v", err)
	}
	run := &activation{node: n, dawn: there, held: held, first: &first{deadline: clock.Never}, leave: func() {}}
	if e := run.enter(); e.Failure == nil || e.Failure.Kind != errkind.Unavailable {
		t.Errorf("a dawn enters with %+v", e)
	}
	run.leave()
}

// A Join to a Spot of a node that is relocated is refused before the Actor stops, and a preparation
// that is there goes on.
//
// req: JN-13
func TestNobodyJoinsASpotOfARelocatedNode(t *testing.T) {
	w := newFollowed(t, func(*Config) {})
	failed := make(chan JoinDone, 1)
	w.a.app.Actors["walker"].OnJoinCompleted = func(_ *Call, _ any, done JoinDone) error { failed <- done; return nil }
	w.b.host.state.Store(uint32(store.Relocating))
	w.send("go", w.room)
	if done := await(t, "the join's end", failed); done.Result != JoinFailed || done.Err.Kind != errkind.Unavailable {
		t.Errorf("it ended with %+v", done)
	}
	w.b.host.state.Store(uint32(store.Serving))
	w.send("go", w.room)
	w.ask(w.ada)
	until(t, "it is there", func() bool { return w.b.Stats().Moves.In == 1 })
}

// Of two publications the later one has the state that is true, whichever comes first to the
// Store: the Store refuses the earlier one behind the later.
func TestALaterPublicationIsNotUndone(t *testing.T) {
	n := storedNode(t, &scripted{})
	n.openHosting()
	n.host.step(host.Event{Is: host.Started})
	before, first := n.host.publishes()
	n.host.step(host.Event{Is: host.Stopping})
	after, second := n.host.publishes()
	if before != store.Serving || after != store.Draining || second <= first {
		t.Errorf("published are %v as %d, then %v as %d", before, first, after, second)
	}
}

// What keeps a unit here is told as what it is.
//
// req: RL-18, FO-14
func TestWhatKeepsAUnitHereHasAReason(t *testing.T) {
	n := storedNode(t, &scripted{})
	c := &objectCell{node: n}
	for _, e := range []struct {
		end  unitEnd
		want host.Reason
	}{
		{unitEnd{result: unitStayed, err: errUnitNoTarget}, host.TargetUnavailable},
		{unitEnd{result: unitStayed, err: &Error{Kind: errkind.CapacityExceeded}}, host.TargetUnavailable},
		{unitEnd{result: unitStayed, err: &Error{Kind: errkind.ShuttingDown}}, host.TargetUnavailable},
		{unitEnd{result: unitStayed, err: &Error{Kind: errkind.Unavailable}, sent: true}, host.RelocationFailed},
		{unitEnd{result: unitStayed, err: &Error{Kind: errkind.DataLost}, sent: true}, host.RelocationFailed},
		{unitEnd{result: unitStayed, err: &Error{Kind: errkind.InternalFailure}, sent: true}, host.StateIncompatible},
		{unitEnd{result: unitStayed, err: &Error{Kind: errkind.InternalFailure}}, host.StateIncompatible},
		{unitEnd{result: unitStayed, err: &Error{Kind: errkind.Rejected}}, host.RelocationDisabled},
		{unitEnd{result: unitStayed, err: errUnitLate}, host.DeadlineExceeded},
		{unitEnd{result: unitLost, err: &Error{Kind: errkind.Unavailable}}, host.RelocationFailed},
	} {
		if got := n.whyStayed(c, &e.end); got != e.want {
			t.Errorf("%v, sent %v: %v, want %v", e.end.err, e.end.sent, got, e.want)
		}
	}
	c.stuck.Store(&stuck{})
	if got := n.whyStayed(c, &unitEnd{result: unitStayed, err: errUnitStuck}); got != host.RelocationFailed {
		t.Errorf("a stuck one: %v", got)
	}
	n.stopping.Store(true)
	if got := n.whyStayed(c, &unitEnd{result: unitStayed, err: errStopping}); got != host.ShutdownRequested {
		t.Errorf("of a node that stops: %v", got)
	}
}
