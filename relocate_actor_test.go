package zlnode_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/hook"
	"github.com/zlnode/zlnode/internal/node"
)

// relocate has a node move one of its objects, as it does when it is relocated.
func (w *world) relocate(n *zlnode.Node, id, rid string) error {
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
	defer cancel()
	return hook.Inner(n).MoveObject(ctx, id, rid)
}

// relocates is relocate beside the test.
func (w *world) relocates(n *zlnode.Node, id, rid string) <-chan error {
	moved := make(chan error, 1)
	go func() { moved <- w.relocate(n, id, rid) }()
	return moved
}

// What a node moves keeps state, queue, timers and client, and its application hears of it by
// its adapter alone.
//
// req: SB-06, MB-08
func TestANodeMovesItsActorWithoutACallback(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		x.bound().ticking()
		x.asks(x.c, "before")
		stopped := x.stopped()
		x.tells(x.a, "queued", "behind")
		moved := x.relocates(x.a, x.ref.ID, "b")
		x.walk.gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		if err := receive(t, moved); err != nil {
			t.Fatal(err)
		}
		x.asks(x.c, "there")
		x.playerReaches("a client's")
		x.hears("b")
		if did := x.walk.notes.of("did"); !slices.Equal(did, []string{"capture", "restore"}) {
			t.Errorf("the application was asked %q", did)
		}
		x.goes(walkTo{}) // it goes on as any other
		x.arrives("b", x.spot.ID)
		x.inOrder()
	})
}

// A Join that is pending comes first; one that comes later is refused (JN-13), as a destroy is.
//
// req: JN-13
func TestTheMoveOfANodeAndAJoinExcludeEachOther(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		here := x.createSpotAt(x.c, "a", "single").ID
		x.walk.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) {
			x.walk.gate.pass()
			return zlnode.Accept(nil), nil
		}
		x.goes(walkTo{Spot: here})
		receive(t, x.walk.gate.entered)
		moved := x.relocates(x.a, x.ref.ID, "b")
		x.walk.gate.open <- struct{}{}
		x.arrives("a", here)
		if err := receive(t, moved); zlnode.KindOf(err) != zlnode.Unavailable && zlnode.KindOf(err) != zlnode.NotFound {
			t.Errorf("without its spot it was moved: %v", err) // which is not at b
		}
		x.isAt("a", here)

		x.walk.admit = nil
		x.goes(walkTo{Entry: true})
		x.arrives("a", x.entryOf())
		x.walk.restore = func(*walker, []byte) error {
			x.walk.gate.pass()
			return nil
		}
		moved = x.relocates(x.a, x.ref.ID, "b")
		receive(t, x.walk.gate.entered)
		destroyed := make(chan error, 1)
		go func() {
			_, err := x.c.DestroyActor(x.ctx, x.ref)
			destroyed <- err
		}()
		x.walk.gate.open <- struct{}{}
		if err := receive(t, destroyed); zlnode.KindOf(err) != zlnode.Unavailable {
			t.Errorf("it was destroyed while it moved: %v", err)
		}
		if err := receive(t, moved); err != nil {
			t.Fatal(err)
		}
		x.asks(x.c, "there")
		x.inOrder()
	})
}

// What fails before the boundary leaves the Actor as it was (RL-18).
//
// req: RL-18
func TestAnActorThatItsNodeCannotMoveGoesOn(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		x.bound().ticking()
		entry := x.entryOf()
		for _, fails := range []string{"capture", "restore"} {
			bad := zlnode.Errorf(zlnode.InternalFailure, "not today")
			x.walk.capture, x.walk.restore = nil, nil
			if fails == "capture" {
				x.walk.capture = func(*walker) ([]byte, error) { return nil, bad }
			} else {
				x.walk.restore = func(*walker, []byte) error { return bad }
			}
			if err := x.relocate(x.a, x.ref.ID, "b"); zlnode.KindOf(err) != zlnode.InternalFailure {
				t.Errorf("%s: %v", fails, err)
			}
			x.unmoved(entry)
		}
		restores := len(x.walk.notes.of("did"))
		if did := x.walk.notes.of("did"); restores != 4 { // the second restore is the one more that is tried
			t.Errorf("the application was asked %q", did)
		}
		x.walk.restore = nil
		if err := x.relocate(x.a, x.ref.ID, "b"); err != nil {
			t.Fatal(err)
		}
		x.asks(x.c, "there")
		x.playerReaches("a client's")
		x.inOrder()
	})
}

// What the old node's own code sends has no old route that could be over: it comes there, also
// around the end of the follow.
//
// req: MF-01
func TestTheOldNodesOwnMessagesFollowToTheEnd(t *testing.T) {
	tuned := crossingOptions{tune: func(c *node.Config) { c.MessageFollowDuration = -1 }}
	onCrossing(t, tuned, func(t *testing.T, x *crossing) {
		moved := x.relocates(x.a, x.ref.ID, "b")
		sent, left := 0, false
		for more := 2000; !left || more > 0; sent++ {
			if err := zlnode.Send(x.ctx, x.a.Actor(x.ref.ID), "tell", numbered("a", sent)); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-moved:
				if err != nil {
					t.Fatal(err)
				}
				left = true
			default:
			}
			if left {
				more--
			}
			if sent%64 == 63 { // it keeps up
				if _, err := zlnode.Request[[]string](x.ctx, x.c.Actor(x.ref.ID), "ask", "?"); err != nil {
					t.Fatal(err)
				}
			}
		}
		x.await("all that was sent", func() bool {
			got, err := zlnode.Request[[]string](x.ctx, x.c.Actor(x.ref.ID), "ask", "?")
			if err != nil {
				t.Fatal(err)
			}
			return len(slices.DeleteFunc(got, func(line string) bool { return line == "?" })) >= sent
		})
		if n := x.a.Stats().Dropped + x.b.Stats().Dropped; n != 0 {
			t.Errorf("%d messages were dropped", n)
		}
	})
}
