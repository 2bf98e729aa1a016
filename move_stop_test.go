package zlnode_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/scripts/lua"
)

// member has the walker be in a Spot of node a, whose row its own row keeps.
func (x *crossing) member() zlnode.SpotRef {
	x.t.Helper()
	home := x.createSpotAt(x.c, "a", "wide")
	x.goes(walkTo{Spot: home.ID})
	if done := receive(x.t, x.walk.ended); done.Outcome != zlnode.JoinAccepted {
		x.t.Fatalf("it ended with %+v", done)
	}
	return home
}

// isGone fails the test if there is a row of one of the ids.
func (x *crossing) isGone(ids ...string) {
	x.t.Helper()
	st := x.location()
	for _, id := range ids {
		if row, found, err := st.Read(x.ctx, id); found || err != nil {
			x.t.Errorf("the row of %s is left: %+v, %v", id, row, err)
		}
	}
}

// heldRequest sends the walker a request that ends by itself, and returns how it does.
func (x *crossing) heldRequest(line string) <-chan error {
	held := make(chan error, 1)
	go func() {
		_, err := zlnode.Request[[]string](x.ctx, x.c.Actor(x.ref.ID), "ask", line)
		held <- err
	}()
	return held
}

// The target dies behind the boundary and has not committed. A source that stops does not wait
// for the end of the move's time: nobody has the Actor, and nothing of it is left.
// req: RL-15, RL-19, FO-03
func TestASourceThatStopsEndsAMoveWhoseTargetIsDead(t *testing.T) {
	onCrossing(t, shortLeases("b"), func(t *testing.T, x *crossing) {
		home := x.member()
		x.ticking()
		x.asks(x.c, "before")
		end := x.roads.At(stallBefore, "a", "b", wire.CmdCutover, 1)
		x.goes(walkTo{Timeout: time.Second})
		receive(t, end.Reached)
		x.child.kill()
		x.roads.GoOn("a", "b")
		held := x.heldRequest("no")
		x.stop(x.a)
		wantKind(t, receive(t, held), zlnode.ShuttingDown)
		x.isGone(x.ref.ID, home.ID)
		if ran := x.walk.notes.of("ran a"); !slices.Equal(ran, x.told) {
			t.Errorf("%q ran, want %q", ran, x.told)
		}
	})
}

// The target cannot reach the Store with its commit while its source stops. When it can, the
// source has ended the move, and the target has not the Actor either.
// req: RL-10, RL-15
func TestATargetThatComesBackBehindItsSourcesEndTakesNothing(t *testing.T) {
	onCrossing(t, crossingOptions{road: "b"}, func(t *testing.T, x *crossing) {
		home := x.member()
		x.asks(x.c, "before")
		x.store.barScript(lua.MoveCommit)
		x.goes(walkTo{Timeout: 10 * time.Second})
		x.await("it tries to commit", func() bool { return x.store.barred.Load() > 0 })
		held := x.heldRequest("no")
		x.stop(x.a)
		if err := receive(t, held); err == nil {
			t.Error("it is told as executed")
		}
		x.store.passAll()
		x.isGone(x.ref.ID, home.ID)
		x.stop(x.b)
		x.isGone(x.ref.ID, x.spot.ID)
		if ran := x.walk.notes.of("ran b"); len(ran) != 0 {
			t.Errorf("at the target ran %q", ran)
		}
	})
}

// The source dies while its Actor is restored. Its reservation is a member to come of the
// target's Spot, which is closed all the same when the target stops.
// req: JN-09, RL-19
func TestATargetThatStopsKeepsNoPlaceForWhoseSourceIsDead(t *testing.T) {
	onCrossing(t, shortLeases("a"), func(t *testing.T, x *crossing) {
		x.asks(x.c, "before")
		end := x.roads.At(stallBefore, "a", "b", wire.CmdStateChunk, 1)
		x.goes(walkTo{Timeout: 10 * time.Second})
		receive(t, end.Reached)
		x.child.kill()
		x.stop(x.b)
		x.isGone(x.spot.ID)
	})
}

// A node whose time to stop is over leaves nothing running, be a move from here or one to here in
// doubt.
// req: FO-03
func TestAShutdownThatIsCutShortEndsItsMoves(t *testing.T) {
	for name, node := range map[string]func(*crossing) *zlnode.Node{
		"the source": func(x *crossing) *zlnode.Node { return x.a },
		"the target": func(x *crossing) *zlnode.Node { return x.b },
	} {
		t.Run(name, func(t *testing.T) {
			onCrossing(t, crossingOptions{road: "b"}, func(t *testing.T, x *crossing) {
				x.asks(x.c, "before")
				x.store.barScript(lua.MoveCommit)
				x.goes(walkTo{Timeout: 10 * time.Second})
				x.await("it tries to commit", func() bool { return x.store.barred.Load() > 0 })
				ctx, cancel := context.WithCancel(x.ctx)
				cancel()
				x.cut = node(x)
				err := x.cut.Shutdown(ctx)
				if err == nil {
					t.Fatal("all was ended in order")
				}
				for _, left := range []string{"timer:", "mailbox:"} {
					if strings.Contains(err.Error(), left) {
						t.Errorf("something runs on: %v", err)
					}
				}
			})
		})
	}
}
