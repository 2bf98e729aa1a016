package node

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

func TestAJoinEndsOnce(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	for range 100 {
		w.tell(a, register(toRoom7))
		j := w.standing()
		var wins [3]bool
		var ends sync.WaitGroup
		ends.Go(func() { wins[0] = j.Accept() })
		ends.Go(func() { wins[1] = j.Reject() })
		ends.Go(func() { wins[2] = j.Fail(errStopping) })
		ends.Wait()
		result := j.Outcome().Result
		if want := [3]bool{result == JoinAccepted, result == JoinRejected, result == JoinFailed}; wins != want {
			t.Fatalf("%v won, and the result is %v", wins, result)
		}
	}
}

// req: JN-02
func TestAJoinFailsAtItsDeadlineWhileItsBarrierStands(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	w.node.cfg.OnJoin = func(j *PendingJoin) { <-j.decided } // whatever it does
	j := w.registered(a, Join{Spot: "x", Timeout: 100 * time.Millisecond})
	w.note(a, '1')
	barrier(t, a)
	w.ended(j, JoinFailed, errkind.DeadlineExceeded)
	w.is("1")
}

func TestNobodyIsAskedAboutAJoinThatIsTooLate(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	for range 100 { // its barrier stands as the deadline passes, before that is noticed
		j := newPendingJoin(Join{}, a) // whose deadline is now
		j.phase, j.held = joinStanding, &hold{}
		w.node.joins.Add(1)
		close(j.stands)
		j.run()
		w.ended(j, JoinFailed, errkind.DeadlineExceeded)
	}
	w.none()
}

// The end of an Actor ends its Join, wherever that is, and each held message once.
func TestTheActorsEndEndsItsJoin(t *testing.T) {
	for _, stands := range []bool{true, false} {
		w := newJoins(t)
		a := w.actor("ada")
		var j *PendingJoin
		goOn := make(chan struct{})
		w.tell(a, func(c *Call) error {
			err := c.Registration().Defer(toRoom7)
			j = a.joining.Load()
			if !stands {
				w.node.drop(a, errGone) // while the handler runs
			}
			close(goOn)
			return err
		})
		await(t, "the handler", goOn)
		first := w.ask(a, nil)
		if stands {
			w.standing()
			w.heldAll(0)
			w.node.drop(a, errStopping)
		}
		second := w.ask(a, nil)
		kind := map[bool]errkind.Kind{true: errkind.ShuttingDown, false: errkind.NotFound}[stands]
		w.ended(j, JoinFailed, kind)
		w.wantKind("held", await(t, "the first", first).err, kind)
		w.wantKind("later", await(t, "the second", second).err, kind)
		w.none()
	}
}

// Two seals meet, in any order: what was held runs or is refused, once.
func TestAnActorsEndThatMeetsItsJoinsLosesNoMessage(t *testing.T) {
	w := newJoins(t)
	ran := 0
	for i := range 200 {
		a := w.actor(fmt.Sprint(i))
		w.tell(a, register(toRoom7))
		j := w.standing()
		var answers []<-chan result
		ask := func() {
			answers = append(answers, w.ask(a, func(*Call) (Reply, error) { ran++; return Reply{}, nil }))
		}
		ask()
		var ends sync.WaitGroup
		ends.Go(func() { j.Accept() })
		ends.Go(func() { w.node.drop(a, errGone) })
		ask()
		ends.Wait()
		ask()
		answered := 0
		for _, answer := range answers {
			if r := await(t, "an answer", answer); r.err == nil {
				answered++
			} else if r.err.Kind != errkind.NotFound {
				t.Errorf("refused with %v", r.err)
			}
		}
		if await(t, "the join's end", j.Done()); answered != ran {
			t.Errorf("%d ran, %d were answered", ran, answered)
		}
		ran, w.fns = 0, nil
	}
}

func TestAJoinOfAnActorThatIsBeingDestroyedAwaitsThat(t *testing.T) {
	for what, want := range map[string]struct {
		kept    bool
		timeout time.Duration
	}{"destroyed": {false, time.Minute}, "kept": {true, time.Minute}, "too late": {true, 20 * time.Millisecond}} {
		t.Run(what, func(t *testing.T) {
			w := newJoins(t)
			a := w.actor("ada")
			room := w.room(false, a)
			answer := make(chan error)
			w.store.remove = func(store.Fence) (store.Change, error) { return store.Change{Reason: store.Applied}, <-answer }
			gone := destroy(t, a)
			var j *PendingJoin
			w.run(room, func(c *Call) error {
				err := c.Registration().Defer(Join{Actor: "ada", Spot: "x", Timeout: want.timeout})
				j = a.joining.Load()
				return err
			})
			w.note(a, '1')
			w.heldAll(0)
			if want.timeout < time.Minute { // and the Actor is told when it may be
				await(t, "the deadline", j.decided)
			}
			w.none()
			if want.kept {
				answer <- store.ErrUnavailable
			} else {
				answer <- nil
			}
			if e := await(t, "the destroy", gone); e.destroyed == want.kept {
				t.Errorf("it ended with %+v", e)
			}
			switch {
			case !want.kept:
				w.ended(j, JoinFailed, errkind.NotFound)
				w.is("")
			case want.timeout < time.Minute:
				w.ended(j, JoinFailed, errkind.DeadlineExceeded)
				barrier(t, a)
				w.is("1")
			default:
				w.ended(accepted(w.standing()), JoinAccepted, 0)
				barrier(t, a)
				w.is("J1")
			}
			w.none()
		})
	}
}

func TestANodeThatStopsEndsItsJoins(t *testing.T) {
	w := newJoins(t)
	a, b := w.actor("ada"), w.actor("bob")
	w.tell(a, register(toRoom7))
	j := w.standing()
	w.note(a, '1')
	w.node.stopping.Store(true)
	for range 2 { // before its tasks are closed, and after
		var k *PendingJoin
		w.run(b, func(c *Call) error {
			err := c.Registration().Defer(toRoom7)
			k = b.joining.Load()
			return err
		})
		w.ended(k, JoinFailed, errkind.ShuttingDown)
		if j.Outcome().Result == JoinDropped {
			w.is("J") // it waits for the one that was first
			w.node.kill()
			w.ended(j, JoinFailed, errkind.ShuttingDown)
			barrier(t, a)
			w.is("J1")
			if err := w.node.tasks.close(t.Context()); err != nil {
				t.Error(err)
			}
			w.node.stopping.Store(false)
		}
	}
	w.none()
}

// A shutdown ends a Join that stands, so that its Actor can be ended in order.
func TestAShutdownDoesNotWaitForJoins(t *testing.T) {
	w := newJoins(t)
	w.store.remove = func(store.Fence) (store.Change, error) { return store.Change{Reason: store.Applied}, nil }
	a := w.actor("ada")
	w.tell(a, register(Join{Spot: "x", Timeout: time.Hour}))
	j := w.standing()
	w.note(a, '1')
	w.node.stopping.Store(true)
	w.node.failJoins()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.node.removeRows(ctx); err != nil {
		t.Error(err)
	}
	w.ended(j, JoinFailed, errkind.ShuttingDown)
	w.is("J1")
}

// The Actor of a Join may have been ended, with its messages, before the Join's task learns how
// the Actor's move ended.
func TestAJoinThatHasEndedWithItsActorMayBeLeft(t *testing.T) {
	w := newJoins(t)
	a := w.actor("ada")
	j := newPendingJoin(Join{}, a)
	j.end(joinFailed(errGone))
	j.leave()
	w.ended(j, JoinFailed, errGone.Kind)
}
