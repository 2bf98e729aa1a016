package zlnode_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
)

// S18: what was queued, what comes while the Actor moves and what comes behind it runs at
// the target, each once and in the order in which it was sent; and each callback has its
// place.
// req: JN-08, JN-14, JN-17, RL-01, RL-08
func TestMessagesAndCallbacksKeepTheirOrderAcrossAMove(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		entered, release := x.inRestore()
		ran := func() []string { return x.walk.notes.of("ran b") }
		early := func(when string) {
			if done := ran(); len(done) != 0 {
				t.Errorf("%s %q has run", when, done)
			}
		}
		x.walk.joined = func(*zlnode.SpotCall, zlnode.ActorRef) error { early("before OnJoinedActor has ended"); return nil }
		x.walk.done = func(*zlnode.ActorCall, zlnode.JoinDone) error { early("before the completion has ended"); return nil }
		x.asks(x.a, "old-1")
		stopped := x.stopped()
		x.queueJoin(walkTo{})
		x.tells(x.a, "old-2")
		x.walk.gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		receive(t, entered)
		x.tells(x.a, "moving-1", "moving-2", "new-1")
		early("before the state is there")
		release()
		x.arrives("b", x.spot.ID)
		x.asks(x.c, "last")
		if got, want := ran(), []string{"old-2", "moving-1", "moving-2", "new-1", "last"}; !slices.Equal(got, want) {
			t.Errorf("at the target ran %q, want %q", got, want)
		}
		if got := x.walk.notes.of("ran a"); !slices.Equal(got, []string{"old-1"}) {
			t.Errorf("at the source ran %q", got)
		}
		const left = "leave entry at a"
		x.await("the source is told that it left", func() bool { return slices.Contains(x.walk.notes.of("did"), left) })
		did := x.walk.notes.of("did")
		if at := slices.Index(did, left); at < slices.Index(did, "joined at b") {
			t.Errorf("it left before it had joined: %q", did)
		}
		did = slices.DeleteFunc(did, func(line string) bool { return line == left })
		if want := []string{"admit at b", "capture", "restore", "joined at b", "completed Accepted at b"}; !slices.Equal(did, want) {
			t.Errorf("called were %q, want %q", did, want)
		}
	})
}

// S16: a rejection touches nothing but the completion, to which the reply goes.
// req: JN-07, JN-14, RL-03, PO-07
func TestARejectedMoveTouchesNothing(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		x.bound().ticking()
		entry := x.entryOf()
		x.walk.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) { return zlnode.Reject([]byte("full")), nil }
		x.goes(walkTo{})
		x.tells(x.a, "moving-1")
		done := receive(t, x.walk.ended)
		if done.Outcome != zlnode.JoinRejected || string(done.Reply) != "full" {
			t.Errorf("it ended with %+v", done)
		}
		x.unmoved(entry)
		if did, want := x.walk.notes.of("did"), []string{"admit at b", "completed Rejected at a"}; !slices.Equal(did, want) {
			t.Errorf("called were %q, want %q", did, want)
		}
		x.walk.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) { return zlnode.Accept([]byte("welcome")), nil }
		x.goes(walkTo{})
		if done := x.arrives("b", x.spot.ID); string(done.Reply) != "welcome" {
			t.Errorf("it ended with %+v", done)
		}
	})
}

// S20: a request that waits while its Actor moves ends once: by its deadline, and then it
// never runs, or with its own reply.
// req: FO-03, RL-08, MF-01
func TestRequestsAcrossAMoveEndOnce(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		entered, release := x.inRestore()
		stopped := x.stopped()
		var long, short sync.WaitGroup
		ask := func(n *zlnode.Node, line string) {
			long.Go(func() {
				got, err := zlnode.Request[[]string](x.ctx, n.Actor(x.ref.ID), "ask", "long "+line)
				if err != nil || got[len(got)-1] != "long "+line {
					t.Errorf("%s got the reply %q: %v", line, got, err)
				}
			})
			short.Go(func() {
				ctx, cancel := context.WithTimeout(x.ctx, 200*time.Millisecond)
				defer cancel()
				if _, err := zlnode.Request[[]string](ctx, n.Actor(x.ref.ID), "ask", "short "+line); zlnode.KindOf(err) != zlnode.DeadlineExceeded {
					t.Errorf("%s, in a short time: %v", line, err)
				}
			})
		}
		x.queueJoin(walkTo{Timeout: 20 * time.Second})
		nodes := []*zlnode.Node{x.a, x.b, x.c}
		for _, n := range nodes {
			ask(n, "queued from "+n.RID())
		}
		x.walk.gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		receive(t, entered)
		for _, n := range nodes {
			ask(n, "moving from "+n.RID())
		}
		short.Wait()
		release()
		x.arrives("b", x.spot.ID)
		long.Wait()
		var want []string
		for _, n := range nodes {
			want = append(want, "long queued from "+n.RID(), "long moving from "+n.RID())
		}
		ran := x.walk.notes.of("ran b")
		slices.Sort(ran)
		if slices.Sort(want); !slices.Equal(ran, want) {
			t.Errorf("there ran %q, want %q", ran, want)
		}
	})
}

// S21: an Actor that goes to and fro is reached where it is, from everywhere, and no message
// of the way is taken for one that goes in circles.
// req: MF-01, MF-03
func TestAnActorThatGoesToAndFroIsReached(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		x.bound().ticking()
		d := x.server("d", x.app)
		x.linked(d, 2)
		x.linked(x.c, 3)
		x.linked(x.a, 2)
		nodes := []*zlnode.Node{x.a, x.b, x.c, d}
		spots := map[string]string{"b": x.spot.ID}
		for _, rid := range []string{"a", "d"} {
			spots[rid] = x.createSpotAt(x.c, rid, "single").ID
		}
		for i, rid := range []string{"b", "a", "b", "d", "b", "a", "d"} {
			stopped := x.stopped()
			from := nodes[i%len(nodes)]
			x.tells(from, "queued-1 from "+from.RID(), "queued-2 from "+from.RID())
			x.queueJoin(walkTo{Spot: spots[rid]})
			x.walk.gate.open <- struct{}{}
			if err := receive(t, stopped); err != nil {
				t.Error(err)
			}
			x.arrives(rid, spots[rid])
			for _, n := range nodes {
				x.asks(n, "to "+rid+" from "+n.RID())
			}
			x.playerReaches("to " + rid + " from its client")
			x.hears(rid)
		}
		x.inOrder()
	})
}

// What waits in the queue goes along with every move, however many there are.
func TestAMessageThatIsCarriedByManyMovesIsExecuted(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		back := x.createSpotAt(x.c, "a", "wide")
		x.stopped()
		const moves = 2*wire.MaxHops + 1
		for i := range moves {
			x.queueJoin(walkTo{Spot: []string{x.spot.ID, back.ID}[i%2]})
		}
		x.tells(x.a, "last")
		close(x.walk.gate.open)
		for range moves {
			if done := receive(t, x.walk.ended); done.Outcome != zlnode.JoinAccepted {
				t.Fatalf("the join ended with %+v", done)
			}
		}
		x.asks(x.c, "behind it")
	})
}
