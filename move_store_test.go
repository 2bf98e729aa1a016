package zlnode_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/scripts/lua"
)

// The answer to the move's reservation or its commit is lost, with the Store for a while:
// nobody runs the Actor meanwhile, and the move goes on when the Store is there again.
// req: RL-10, RL-16, FO-17
func TestAMoveWhoseAnswerIsLostGoesOn(t *testing.T) {
	for _, lost := range []struct {
		name, road string
		script     lua.Script
	}{
		{"the reservation's", "a", lua.MoveReserve},
		{"the commit's", "b", lua.MoveCommit},
	} {
		t.Run(lost.name, func(t *testing.T) {
			onCrossing(t, crossingOptions{road: lost.road}, func(t *testing.T, x *crossing) {
				x.bound().ticking()
				x.asks(x.c, "before")
				x.store.loseAnswerTo(lost.script)
				x.goes(walkTo{Timeout: 10 * time.Second})
				x.tells(x.a, "moving-1", "moving-2")
				receive(t, x.store.lost)
				x.quiet(300 * time.Millisecond)
				x.store.heal()
				x.arrives("b", x.spot.ID)
				x.asks(x.c, "there")
				x.playerReaches("a client's")
				x.hears("b")
				x.inOrder()
			})
		})
	}
}

// The answer to the abort is lost: the Actor stays sealed until the Store has said that no
// commit applies any more, and then goes on at the source.
// req: RL-15, FO-17
func TestASourceDoesNotOpenBeforeItsAbortIsKnown(t *testing.T) {
	for _, barred := range []bool{false, true} {
		name := "it is lost"
		if barred {
			name = "it does not come"
		}
		t.Run(name, func(t *testing.T) {
			onCrossing(t, crossingOptions{road: "a"}, func(t *testing.T, x *crossing) {
				x.bound().ticking()
				entry := x.entryOf()
				x.asks(x.c, "before")
				x.walk.restore = func(*walker, []byte) error { return errors.New("breaks") }
				if barred {
					x.store.barScript(lua.MoveEnd)
				} else {
					x.store.loseAnswerTo(lua.MoveEnd)
				}
				x.goes(walkTo{Timeout: 10 * time.Second})
				x.tells(x.a, "moving-1", "moving-2")
				if barred {
					x.await("it is tried", func() bool { return x.store.barred.Load() > 0 })
				} else {
					receive(t, x.store.lost)
				}
				x.tells(x.a, "held-1", "held-2") // behind what was captured
				x.quiet(300 * time.Millisecond)
				if barred {
					x.store.passAll()
				} else {
					x.store.heal()
				}
				x.stays(zlnode.InternalFailure, entry)
			})
		})
	}
}

// The Store is away while the state is restored, and longer: relay-ready stands, and the
// commit follows.
// req: RL-16, FO-18
func TestATargetWaitsForTheStoreWithItsCommit(t *testing.T) {
	for _, road := range []string{"a", "b"} {
		t.Run("from "+road, func(t *testing.T) {
			onCrossing(t, crossingOptions{road: road}, func(t *testing.T, x *crossing) {
				x.bound().ticking()
				x.asks(x.c, "before")
				entered, release := x.inRestore()
				x.goes(walkTo{Timeout: 10 * time.Second})
				receive(t, entered)
				x.tells(x.a, "moving-1", "moving-2")
				x.store.goAway()
				release()
				if road == "b" {
					x.quiet(2 * time.Second)
					x.store.heal()
				}
				x.arrives("b", x.spot.ID)
				x.store.heal()
				x.asks(x.c, "there")
				x.playerReaches("a client's")
				x.hears("b")
				x.inOrder()
			})
		})
	}
}

// quiet fails the test if the walker runs anything within that time.
func (x *crossing) quiet(d time.Duration) {
	x.t.Helper()
	until := time.Now().Add(d)
	runs := func() (all []string) {
		all = append(x.walk.notes.of("ran"), x.walk.notes.of("tick b")...)
		return append(all, x.walk.notes.of("did completed")...)
	}
	before := runs()
	x.await("that time", func() bool { return time.Now().After(until) })
	if now := runs(); !slices.Equal(now, before) {
		x.t.Errorf("%q ran, where only %q had", now, before)
	}
}
