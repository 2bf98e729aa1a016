package zlnode_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/invariant"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/wire"
)

// inJoined has the target's OnJoinedActor wait until it is let go.
func (x *crossing) inJoined() (entered <-chan struct{}, release func()) {
	come, open := make(chan struct{}, 8), make(chan struct{})
	x.walk.joined = func(*zlnode.SpotCall, zlnode.ActorRef) error {
		come <- struct{}{}
		<-open
		return nil
	}
	x.later(func() { close(open) })
	return come, x.release
}

// relayed returns how many messages a has relayed to b.
func (x *crossing) relayed() int {
	n, _ := x.roads.Passed("a", "b", wire.CmdRelay)
	return n
}

// Not beside other tests, whose buffers are counted too.
func TestAMessageThatFollowsGivesItsBuffersBack(t *testing.T) {
	if !invariant.Enabled {
		t.Skip("buffers are counted in builds with the tag invariants")
	}
	onEachStore(t, func(t *testing.T, w *world) {
		x := newCrossing(w, crossingOptions{})
		x.goes(walkTo{})
		x.arrives("b", x.spot.ID)
		payload := bytes.Repeat([]byte("x"), 4000) // has a buffer of its own
		ask := func() {
			r, err := x.a.Actor(x.ref.ID).RequestRaw(x.ctx, "describe", payload)
			if err != nil {
				t.Fatal(err)
			}
			r.Release()
		}
		ask()
		const asked = 300
		live := buf.Live()
		before := x.relayed()
		for range asked {
			ask()
		}
		if now := x.relayed(); now-before != asked {
			t.Fatalf("%d of %d messages were relayed", now-before, asked)
		}
		x.await("their buffers are given back", func() bool { return buf.Live() < live+asked/3 })
	})
}

// What comes between the commit and the opening is bounded by the queue of the node that the
// Actor has left: it keeps the originals until they are sure to run.
func TestWhatComesBeforeAnActorOpensIsBounded(t *testing.T) {
	const queue = 256
	o := crossingOptions{tune: func(c *node.Config) { c.ObjectQueueMessages = queue }}
	onCrossing(t, o, func(t *testing.T, x *crossing) {
		entered, release := x.inJoined()
		x.spot = x.createSpotAt(x.c, "b", "single") // of which a callback does not stop the Actor's queue
		x.goes(walkTo{Timeout: 20 * time.Second})
		receive(t, entered)
		var err error
		for len(x.told) < 4*queue && err == nil {
			line := numbered("early", len(x.told))
			if err = zlnode.Send(x.ctx, x.a.Actor(x.ref.ID), "tell", line); err == nil {
				x.told = append(x.told, line)
			}
		}
		wantKind(t, err, zlnode.CapacityExceeded)
		taken := len(x.told)
		x.await("all are relayed", func() bool { return x.relayed() == taken })
		release()
		x.await("all have run", func() bool { return len(x.walk.notes.of("ran b")) == taken })
		x.await("there is room again", func() bool { return zlnode.Send(x.ctx, x.a.Actor(x.ref.ID), "tell", "again") == nil })
		x.told = append(x.told, "again")
		x.arrives("b", x.spot.ID)
		x.asks(x.a, "late")
	})
}

// The Spot that an Actor has left is told so, though its node has stopped to follow when the
// target says it: once.
// req: JN-14
func TestTheSpotThatAnActorLeftHearsOfItWithoutAFollow(t *testing.T) {
	o := crossingOptions{servers: func(c zlnode.Config) zlnode.Config {
		c.MessageFollowDuration = -1
		return c
	}}
	onCrossing(t, o, func(t *testing.T, x *crossing) {
		entered, release := x.inJoined()
		x.goes(walkTo{Timeout: 20 * time.Second})
		receive(t, entered)
		x.await("the follow is over", func() bool {
			n, _ := x.roads.Passed("a", "b", wire.CmdMoveAbort)
			return n > 0
		})
		left := func() int {
			n := 0
			for _, line := range x.walk.notes.of("did") {
				if line == "leave entry at a" {
					n++
				}
			}
			return n
		}
		x.await("the entry spot hears of it", func() bool { return left() > 0 })
		release()
		x.arrives("b", x.spot.ID)
		x.await("the target has said so, too", func() bool {
			n, _ := x.roads.Passed("b", "a", wire.CmdActorLeft)
			return n > 0
		})
		x.asks(x.a, "over the same link, behind it")
		if left() != 1 {
			t.Errorf("the entry spot was told %d times", left())
		}
	})
}

// While an Actor has not opened, a new link brings again what its target has already: each
// runs once, in order.
// req: RL-08
func TestARelayedMessageThatComesTwiceRunsOnce(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		entered, release := x.inJoined()
		x.spot = x.createSpotAt(x.c, "b", "single") // of which a callback does not stop the Actor's queue
		x.goes(walkTo{Timeout: 20 * time.Second})
		receive(t, entered)
		const count = 10
		end := x.roads.At(cutBehind, "a", "b", wire.CmdRelay, count)
		x.tells(x.a, lines("early", count)...)
		receive(t, end.Reached)
		x.roads.Open("a", "b")
		x.await("all have come again", func() bool { return x.relayed() == 2*count })
		release()
		x.arrives("b", x.spot.ID)
		x.asks(x.a, "by the old route")
	})
}

// An Actor leaves nine nodes one after the other. Who asks at the first would be carried nine
// times, and hears that this is too far; its message runs nowhere. From the second it is
// reached, and from the first by whoever reads where it is.
// req: MF-03
func TestAMessageFollowsEightTimes(t *testing.T) {
	o := crossingOptions{servers: func(c zlnode.Config) zlnode.Config {
		c.MessageFollowDuration = 10 * time.Minute
		return c
	}}
	onCrossing(t, o, func(t *testing.T, x *crossing) {
		way := []*zlnode.Node{x.a, x.b}
		for _, line := range lines("n", 8) {
			way = append(way, x.start(o.servers(zlnode.Config{RID: line, Role: zlnode.RoleServer}), x.app))
		}
		for _, n := range way {
			x.linked(n, len(way)-1)
		}
		x.linked(x.c, len(way))
		spots := map[string]string{}
		for len(spots) < len(way) {
			r, err := x.c.CreateSpot(x.ctx, zlnode.CreateSpot{Type: "single"})
			if err != nil {
				t.Fatal(err)
			}
			spots[r.Ref.RID] = r.Ref.ID
		}
		for _, to := range way[1:] {
			x.goes(walkTo{Spot: spots[to.RID()], Timeout: 20 * time.Second})
			x.arrives(to.RID(), spots[to.RID()])
		}
		_, err := zlnode.Request[[]string](x.ctx, x.a.Actor(x.ref.ID), "ask", "too far")
		wantKind(t, err, zlnode.Unavailable)
		if err := zlnode.Send(x.ctx, x.a.Actor(x.ref.ID), "tell", "too far, too"); err != nil {
			t.Fatal(err)
		}
		x.await("it is counted", func() bool {
			dropped := uint64(0)
			for _, n := range way {
				dropped += n.Stats().Dropped
			}
			return dropped == 1
		})
		x.asks(x.b, "as far as may be")
		x.asks(x.c, "by the present route")
	})
}
