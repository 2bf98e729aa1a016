package zlnode_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/wire"
)

func shortLeases(child string) crossingOptions {
	return crossingOptions{child: child, servers: shortLease}
}

// The target's process dies before the source knows that it is ready: the Actor goes on at
// the source with everything.
// req: JN-09, RL-15, RL-19
func TestATargetThatDiesBeforeItIsReadyTakesNothingAlong(t *testing.T) {
	for _, at := range []struct {
		name string
		at   passing
		nth  int
	}{
		{"before it decides", passing{"a", "b", wire.CmdJoinAdmit}, 1},
		{"when it has decided", passing{"b", "a", wire.CmdReply}, 1},
		{"while the state comes", passing{"a", "b", wire.CmdStateChunk}, 1},
		{"when it is ready", passing{"b", "a", wire.CmdReply}, 2},
	} {
		t.Run(at.name, func(t *testing.T) {
			onCrossing(t, shortLeases("b"), func(t *testing.T, x *crossing) {
				x.bound().ticking()
				entry := x.entryOf()
				x.asks(x.c, "before")
				end := x.roads.At(cutBefore, at.at.from, at.at.to, at.at.cmd, at.nth)
				x.goes(walkTo{Timeout: 700 * time.Millisecond}) // less than a target waits for its cutover
				x.tells(x.a, "moving-1", "moving-2")
				receive(t, end.Reached)
				x.child.kill()
				x.stays(zlnode.DeadlineExceeded, entry)
			})
		})
	}
}

// The target's process dies behind the boundary and has not committed: nobody runs the Actor
// any more. It is Unavailable, its old owner lists it, and who names it exactly frees it.
// req: RL-15, RL-19, MF-02
func TestAnActorWhoseTargetDiesBehindTheBoundaryIsListed(t *testing.T) {
	o := shortLeases("b")
	o.tune = func(c *node.Config) { c.MoveValidity = 2 * time.Second }
	onCrossing(t, o, func(t *testing.T, x *crossing) {
		x.ticking()
		x.asks(x.c, "before")
		end := x.roads.At(stallBefore, "a", "b", wire.CmdCutover, 1)
		x.goes(walkTo{Timeout: time.Second})
		receive(t, end.Reached)
		x.child.kill()
		x.roads.GoOn("a", "b")
		held := make(chan error, 1)
		go func() {
			_, err := zlnode.Request[[]string](x.ctx, x.c.Actor(x.ref.ID), "ask", "no")
			held <- err
		}()
		wantKind(t, receive(t, held), zlnode.Unavailable)
		x.await("it is listed", func() bool { return len(x.a.StuckObjects()) == 1 })
		if stuck := x.a.StuckObjects()[0]; stuck.Ref != x.ref {
			t.Errorf("stuck is %+v", stuck)
		}
		for _, n := range []*zlnode.Node{x.a, x.c} {
			_, err := zlnode.Request[[]string](x.ctx, n.Actor(x.ref.ID), "ask", "no")
			wantKind(t, err, zlnode.Unavailable)
		}
		if ran := x.walk.notes.of("ran a"); !slices.Equal(ran, x.told) {
			t.Errorf("%q ran", ran)
		}
		x.await("it is freed", func() bool { // the move's time is over by the Store's clock
			gone, err := x.c.DestroyActor(x.ctx, x.ref)
			return gone && err == nil
		})
		if left := x.a.StuckObjects(); len(left) != 0 {
			t.Errorf("stuck are %+v", left)
		}
		if _, err := x.c.CreateActor(x.ctx, zlnode.CreateActor{ID: x.ref.ID, Type: "walker"}); err != nil {
			t.Error(err)
		}
		x.inOrder()
	})
}

// The source's process dies behind the boundary. The target commits when it has heard
// nothing for a while, and the Actor goes on there with what came before the boundary.
// req: RL-09, RL-10, RL-19
func TestATargetGoesOnWithoutItsSource(t *testing.T) {
	for _, at := range []struct {
		name string
		cmd  wire.Command
		told []string
	}{
		{"before a message", wire.CmdRelay, []string{"before"}},
		{"before the cutover", wire.CmdCutover, []string{"before", "moving-1"}},
	} {
		t.Run(at.name, func(t *testing.T) {
			onCrossing(t, shortLeases("a"), func(t *testing.T, x *crossing) {
				x.ticking()
				x.asks(x.c, "before")
				other := x.createActorAt(x.c, "a", "walker")
				entered, release := x.inRestore()
				end := x.roads.At(stallBefore, "a", "b", at.cmd, 1)
				x.goes(walkTo{Timeout: 10 * time.Second})
				receive(t, entered)
				x.tells(x.c, "moving-1")
				if _, err := zlnode.Request[[]string](x.ctx, x.c.Actor(other.ID), "ask", "behind it"); err != nil {
					t.Fatal(err)
				}
				release()
				receive(t, end.Reached)
				x.child.kill()
				done := receive(t, x.walk.ended)
				if done.Outcome != zlnode.JoinAccepted || done.Ref.RID != "b" {
					t.Fatalf("it ended with %+v", done)
				}
				x.told = at.told
				x.isAt("b", x.spot.ID)
				x.asks(x.c, "there")
				x.hears("b")
				if ran := x.walk.notes.of("ran b"); slices.Contains(ran, "before") {
					t.Errorf("at the target ran %q", ran)
				}
			})
		})
	}
}
