package zlnode_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
)

// moveFailure is a way in which a move fails before the boundary.
type moveFailure struct {
	name    string
	kind    zlnode.Kind
	options crossingOptions
	to      walkTo
	// arm is called before the Join, and may return what is to be done when it is registered.
	arm func(t *testing.T, x *crossing) (then func())
	did []string // what is called, before the completion
}

// moveFailures are those of JN-09.
func moveFailures() []moveFailure {
	breaks := errors.New("breaks")
	inAdmission := func(do func(t *testing.T, x *crossing)) func(*testing.T, *crossing) func() {
		return func(t *testing.T, x *crossing) func() {
			asked := x.roads.At(stallBefore, "a", "b", wire.CmdJoinAdmit, 1)
			return func() {
				receive(t, asked.Reached)
				do(t, x)
				x.roads.GoOn("a", "b")
			}
		}
	}
	capture := func(f func(*walker) ([]byte, error)) func(*testing.T, *crossing) func() {
		return func(_ *testing.T, x *crossing) func() {
			x.walk.capture = f
			return nil
		}
	}
	admitted, captured := []string{"admit at b"}, []string{"admit at b", "capture"}
	return []moveFailure{
		{name: "the spot is closed meanwhile", kind: zlnode.NotFound, arm: inAdmission(func(t *testing.T, x *crossing) {
			if closed, err := x.c.CloseSpot(x.ctx, x.spot); !closed || err != nil {
				t.Fatalf("the spot was not closed: %v", err)
			}
		})},
		{name: "the spot is being closed", kind: zlnode.Unavailable, arm: inAdmission(func(t *testing.T, x *crossing) {
			closing, open, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			x.walk.closing = func(c *zlnode.SpotCall) {
				if c.Spot().ID() == x.spot.ID {
					close(closing)
					<-open
				}
			}
			go func() {
				defer close(ended)
				_, _ = x.c.CloseSpot(x.ctx, x.spot)
			}()
			receive(t, closing)
			x.later(func() {
				close(open)
				receive(t, ended)
			})
		})},
		{name: "there is no room", kind: zlnode.CapacityExceeded, did: admitted, options: crossingOptions{
			servers: func(c zlnode.Config) zlnode.Config {
				if c.RID == "b" {
					c.MaxActors = 1
				}
				return c
			},
		}, arm: func(t *testing.T, x *crossing) func() {
			for x.createActorAt(x.c, "b", "walker").RID != "b" {
			}
			return nil
		}},
		{name: "the policy forbids it", kind: zlnode.Rejected, did: admitted, options: crossingOptions{policy: &zlnode.DisableRelocation}},
		{name: "admission takes too long", kind: zlnode.DeadlineExceeded, did: admitted, to: walkTo{Timeout: 300 * time.Millisecond}, arm: func(t *testing.T, x *crossing) func() {
			open := make(chan struct{})
			x.walk.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) { <-open; return zlnode.Accept(nil), nil }
			x.later(func() { close(open) })
			return nil
		}},
		{name: "admission fails", kind: zlnode.InternalFailure, did: admitted, arm: func(_ *testing.T, x *crossing) func() {
			x.walk.admit = func(*zlnode.JoinSpotCall) (zlnode.Admission, error) { return zlnode.Admission{}, breaks }
			return nil
		}},
		{name: "restore takes too long", kind: zlnode.DeadlineExceeded, did: append(captured, "restore"), to: walkTo{Timeout: time.Second}, arm: func(t *testing.T, x *crossing) func() {
			open := make(chan struct{})
			x.walk.restore = func(*walker, []byte) error { <-open; return nil }
			x.later(func() { close(open) })
			return nil
		}},
		{name: "capture fails", kind: zlnode.InternalFailure, did: captured, arm: capture(func(*walker) ([]byte, error) { return nil, breaks })},
		{name: "capture panics", kind: zlnode.InternalFailure, did: captured, arm: capture(func(*walker) ([]byte, error) { panic("breaks") })},
		{name: "capture gives nil", kind: zlnode.InternalFailure, did: captured, arm: capture(func(*walker) ([]byte, error) { return nil, nil })},
		{name: "restore fails", kind: zlnode.InternalFailure, did: append(captured, "restore", "restore"), arm: func(_ *testing.T, x *crossing) func() {
			x.walk.restore = func(*walker, []byte) error { return breaks }
			return nil
		}},
		{name: "restore panics", kind: zlnode.InternalFailure, did: append(captured, "restore", "restore"), arm: func(_ *testing.T, x *crossing) func() {
			x.walk.restore = func(*walker, []byte) error { panic("breaks") }
			return nil
		}},
		{name: "the factory fails", kind: zlnode.InternalFailure, did: captured, arm: func(_ *testing.T, x *crossing) func() {
			x.walk.factory = func(*zlnode.ActorContext) error { return breaks }
			return nil
		}},
		{name: "a chunk is not what was sent", kind: zlnode.DataLost, did: captured, arm: func(_ *testing.T, x *crossing) func() {
			x.roads.Damage("a", "b", wire.CmdStateChunk, func(_ int, record []byte) { record[len(record)-1]++ })
			return nil
		}},
	}
}

// Whatever fails before the boundary: the Actor goes on where it was, with what it was, in
// the order in which it was told, and nothing is left at the target.
// req: JN-09, RL-15, RL-18, PO-02, PO-07
func TestAMoveThatFailsLeavesEverythingAsItWas(t *testing.T) {
	for _, f := range moveFailures() {
		t.Run(f.name, func(t *testing.T) {
			onCrossing(t, f.options, func(t *testing.T, x *crossing) {
				x.bound().ticking()
				entry := x.entryOf()
				x.asks(x.c, "before")
				var then func()
				if f.arm != nil {
					then = f.arm(t, x)
				}
				x.walk.notes.clear()
				x.goes(f.to)
				x.tells(x.a, "moving-1", "moving-2")
				if then != nil {
					then()
				}
				x.stays(f.kind, entry)
				if did := x.walk.notes.of("did"); !slices.Equal(did, append(slices.Clone(f.did), "completed Failed at a")) {
					t.Errorf("it did %q, want %q and the completion", did, f.did)
				}
				x.release()
				if _, err := x.c.CloseSpot(x.ctx, x.spot); err != nil {
					t.Error(err)
				}
				if _, found, err := x.c.FindSpot(x.ctx, x.spot.ID); found || err != nil {
					t.Errorf("somebody is left in the spot: %v", err)
				}
			})
		})
	}
}
