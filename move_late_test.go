package zlnode_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/scripts/lua"
)

// A Spot that is busy beyond the Join's deadline costs the Actor that was committed into it
// time. Meanwhile that shows, and the Actor could be freed.
// req: JN-10, RL-22
func TestASpotThatIsBusyForLongSealsNobody(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		x.ticking()
		x.asks(x.c, "before")
		entered, release := x.inRestore()
		x.goes(walkTo{}) // of whose 5 s this takes what is left
		receive(t, entered)
		stopped := x.walk.gate.stop(t, x.world, x.c.Spot(x.spot.ID))
		release()
		x.await("it shows", func() bool { return len(x.b.StuckObjects()) == 1 })
		if stuck := x.b.StuckObjects()[0]; stuck.Ref.ID != x.ref.ID || stuck.Ref.RID != "b" {
			t.Errorf("stuck is %+v", stuck)
		}
		x.walk.gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		x.arrives("b", x.spot.ID)
		x.asks(x.c, "after")
		x.hears("b")
		if stuck := x.b.StuckObjects(); len(stuck) != 0 {
			t.Errorf("stuck are %+v", stuck)
		}
		x.inOrder()
	})
}

// A callback that has failed before it hangs shows why.
// req: RL-22
func TestACallbackThatHangsShowsWhatItFailedWithBefore(t *testing.T) {
	breaks := errors.New("a callback that breaks")
	for what, hang := range map[string]func(x *crossing, tried func() error){
		"OnJoinedActor": func(x *crossing, tried func() error) {
			x.walk.joined = func(*zlnode.SpotCall, zlnode.ActorRef) error { return tried() }
		},
		"OnJoinCompleted": func(x *crossing, tried func() error) {
			x.walk.done = func(*zlnode.ActorCall, zlnode.JoinDone) error { return tried() }
		},
	} {
		t.Run(what, func(t *testing.T) {
			onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
				open, tries := make(chan struct{}), 0
				x.later(func() { close(open) })
				hang(x, func() error {
					if tries++; tries == 1 {
						return breaks
					}
					<-open
					return nil
				})
				x.goes(walkTo{Timeout: time.Second})
				x.await("it shows", func() bool { return len(x.b.StuckObjects()) == 1 })
				if stuck := x.b.StuckObjects()[0]; !strings.Contains(stuck.Reason, what) || !strings.Contains(stuck.Reason, breaks.Error()) {
					t.Errorf("stuck is %+v", stuck)
				}
				x.release()
				x.await("it opens", func() bool { return len(x.b.StuckObjects()) == 0 })
				x.asks(x.c, "after")
			})
		})
	}
}

// Who is freed while a callback is waited for does not come to life when that ends.
// req: RL-22
func TestAnActorThatIsFreedBeforeItOpensStaysGone(t *testing.T) {
	for _, c := range []struct {
		name string
		hang func(t *testing.T, x *crossing) (goOn func())
	}{
		{"its spot is busy", func(t *testing.T, x *crossing) func() {
			stopped := x.walk.gate.stop(t, x.world, x.c.Spot(x.spot.ID))
			return func() {
				x.walk.gate.open <- struct{}{}
				if err := receive(t, stopped); err != nil {
					t.Error(err)
				}
			}
		}},
		{"its completion hangs", func(_ *testing.T, x *crossing) func() {
			open := make(chan struct{})
			x.walk.done = func(*zlnode.ActorCall, zlnode.JoinDone) error { <-open; return nil }
			x.later(func() { close(open) })
			return x.release
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
				x.ticking()
				entered, release := x.inRestore()
				x.goes(walkTo{})
				receive(t, entered)
				goOn := c.hang(t, x)
				x.tells(x.a, "moving-1")
				release()
				x.await("it shows", func() bool { return len(x.b.StuckObjects()) == 1 })
				if gone, err := x.c.DestroyActor(x.ctx, x.b.StuckObjects()[0].Ref); !gone || err != nil {
					t.Errorf("it was not destroyed: %v", err)
				}
				goOn()
				x.await("its spot is empty", func() bool {
					closed, err := x.c.CloseSpot(x.ctx, x.spot)
					return closed && err == nil
				})
				for _, n := range []*zlnode.Node{x.a, x.b} { // a has a follow
					_, err := zlnode.Request[[]string](x.ctx, n.Actor(x.ref.ID), "ask", "no")
					wantKind(t, err, zlnode.NotFound)
				}
				if stuck := x.b.StuckObjects(); len(stuck) != 0 {
					t.Errorf("stuck are %+v", stuck)
				}
				if ran := append(x.walk.notes.of("ran b"), x.walk.notes.of("tick b")...); len(ran) != 0 {
					t.Errorf("%q ran", ran)
				}
				x.inOrder()
			})
		})
	}
}

// A commit that reaches the Store behind the end of the move, which the source has written when
// its time was over, is refused: the Actor is at no node until it is freed by its exact ref.
// req: RL-15, RL-16
func TestACommitThatComesBehindItsSourcesEndOpensNothing(t *testing.T) {
	o := crossingOptions{road: "b", tune: func(c *node.Config) { c.MoveValidity = 500 * time.Millisecond }}
	onCrossing(t, o, func(t *testing.T, x *crossing) {
		x.asks(x.c, "before")
		x.store.barScript(lua.MoveEnd) // the target cannot give it up
		letGo := x.store.keepScript(lua.MoveCommit)
		x.later(letGo)
		x.goes(walkTo{Timeout: 20 * time.Second})
		x.await("it is listed", func() bool { return len(x.a.StuckObjects()) == 1 })
		letGo()
		x.store.passAll()
		x.await("its place in the spot is free", func() bool {
			closed, err := x.c.CloseSpot(x.ctx, x.spot)
			return closed && err == nil
		})
		if row, found, err := x.location().Read(x.ctx, x.ref.ID); err != nil || !found || row.RID != "a" || row.Move != nil {
			t.Errorf("its row is %+v: %v", row, err)
		}
		for _, n := range []*zlnode.Node{x.a, x.b, x.c} {
			_, err := zlnode.Request[[]string](x.ctx, n.Actor(x.ref.ID), "ask", "no")
			wantKind(t, err, zlnode.Unavailable)
		}
		if gone, err := x.c.DestroyActor(x.ctx, x.a.StuckObjects()[0].Ref); !gone || err != nil {
			t.Errorf("it was not destroyed: %v", err)
		}
		x.isGone(x.ref.ID)
		if ran := x.walk.notes.of("ran b"); len(ran) != 0 {
			t.Errorf("at the target ran %q", ran)
		}
		x.inOrder()
	})
}
