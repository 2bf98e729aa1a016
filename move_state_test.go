package zlnode_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// The factory makes the value anew; queue and timers go along, and no adapter is asked.
// req: PO-03, PO-07
func TestARecreatedActorKeepsItsQueueAndItsTimers(t *testing.T) {
	onCrossing(t, crossingOptions{policy: &zlnode.RecreateOnRelocation}, func(t *testing.T, x *crossing) {
		x.bound().ticking()
		x.asks(x.c, "before")
		stopped := x.stopped()
		x.queueJoin(walkTo{})
		x.tells(x.a, "queued")
		x.walk.gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		x.arrives("b", x.spot.ID)
		x.told = []string{"queued"}
		x.asks(x.c, "there")
		x.playerReaches("a client's")
		x.hears("b")
		if did := x.walk.notes.of("did"); slices.Contains(did, "capture") || slices.Contains(did, "restore") {
			t.Errorf("an adapter was asked: %q", did)
		}
	})
}

// The state's bytes arrive as they were captured, whatever they are: none, and more than may
// be in flight at once.
// req: PO-04, PO-05, PO-08
func TestAStateArrivesAsItWasCaptured(t *testing.T) {
	const inFlight = 256 << 10
	tuned := crossingOptions{tune: func(c *node.Config) { c.Moves.ChunkBytes, c.Moves.LinkBytes = 64<<10, inFlight }}
	onCrossing(t, tuned, func(t *testing.T, x *crossing) {
		all := make([]byte, 0, 8<<20)
		for i := 0; len(all) < cap(all); i++ {
			all = append(all, byte(i), byte(i>>8), byte(i*7))
		}
		here, there := x.createSpotAt(x.c, "a", "wide").ID, x.spot.ID
		for i, state := range [][]byte{{}, {0}, all[:inFlight-1], all} {
			var got []byte
			x.walk.capture = func(*walker) ([]byte, error) { return state, nil }
			x.walk.restore = func(_ *walker, b []byte) error {
				got = bytes.Clone(b)
				return nil
			}
			rid, spot := "b", there
			if i%2 == 1 {
				rid, spot = "a", here
			}
			x.goes(walkTo{Spot: spot, Timeout: 20 * time.Second})
			x.arrives(rid, spot)
			if !bytes.Equal(got, state) {
				t.Errorf("of %d bytes came %d, or others", len(state), len(got))
			}
		}
	})
}

// What a handler sees of a message is what it would have seen without the move: of one that
// was queued, and of one that came meanwhile.
// req: JN-17, MF-01
func TestAMessageIsTheSameBehindAMove(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		meta, err := session.NewMetadata(map[string]string{"trace": strings.Repeat("v", 200)})
		if err != nil {
			t.Fatal(err)
		}
		type answer struct {
			payload string
			err     error
		}
		ask := func(n *zlnode.Node, size int, answers chan<- answer) {
			ctx, cancel := context.WithTimeout(x.ctx, 20*time.Second)
			defer cancel()
			r, err := n.Actor(x.ref.ID).With(meta).RequestRaw(ctx, "describe", bytes.Repeat([]byte{0xfe}, size))
			if err != nil {
				answers <- answer{err: err}
				return
			}
			answers <- answer{payload: string(r.Payload())}
			r.Release()
		}
		sizes := []int{0, 10, 5000}
		var want []string
		for _, n := range []*zlnode.Node{x.a, x.c} {
			for _, size := range sizes {
				answers := make(chan answer, 1)
				ask(n, size, answers)
				got := receive(t, answers)
				if got.err != nil {
					t.Fatal(got.err)
				}
				want = append(want, got.payload, got.payload)
			}
		}
		entered, release := x.inRestore()
		stopped := x.stopped()
		x.queueJoin(walkTo{Timeout: 20 * time.Second})
		answers := make(chan answer, 100)
		all := func() {
			for _, n := range []*zlnode.Node{x.a, x.c} {
				for _, size := range sizes {
					go ask(n, size, answers)
				}
			}
		}
		all()
		x.walk.gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		receive(t, entered)
		all()
		release()
		var got []string
		for range want {
			a := receive(t, answers)
			if a.err != nil {
				t.Error(a.err)
			}
			got = append(got, a.payload)
		}
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("the handlers saw %.300q, want %.300q", got, want)
		}
	})
}

// A tick that was due before the move has its callback at the target, and a timer that was
// registered goes on there with the time that was left.
// req: PO-04
func TestTimersGoAlongWithTheirPendingTicks(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		once := zlnode.TimerOptions{Delay: time.Millisecond}
		if _, err := zlnode.Request[struct{}](x.ctx, x.c.Actor(x.ref.ID), "clock", once); err != nil {
			t.Fatal(err)
		}
		x.await("the tick", func() bool { return len(x.walk.notes.of("tick a")) == 1 })
		stopped := x.stopped()
		if err := zlnode.Send(x.ctx, x.a.Actor(x.ref.ID), "clock", zlnode.TimerOptions{Delay: 20 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		x.queueJoin(walkTo{Stop: true})
		x.walk.gate.open <- struct{}{}
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		receive(t, x.walk.gate.entered)
		due := time.Now().Add(30 * time.Millisecond)
		x.await("the tick is due, behind the join", func() bool { return time.Now().After(due) })
		x.walk.gate.open <- struct{}{}
		x.arrives("b", x.spot.ID)
		x.await("the tick at the target", func() bool { return len(x.walk.notes.of("tick b")) == 1 })
		if ticks := x.walk.notes.of("tick"); !slices.Equal(ticks, []string{"a 1", "b 1"}) {
			t.Errorf("ticks were %q", ticks)
		}
	})
}

// A completion that keeps failing leaves the Actor sealed at the target, where it can be
// seen, and freed by its exact ref.
// req: JN-10, RL-22
func TestAnActorWhoseMoveCannotBeCompletedIsSealedAtTheTarget(t *testing.T) {
	breaks := errors.New("a callback that breaks")
	for what, breaking := range map[string]func(x *crossing, err error){
		"OnJoinedActor": func(x *crossing, err error) {
			x.walk.joined = func(*zlnode.SpotCall, zlnode.ActorRef) error { return err }
		},
		"OnJoinCompleted": func(x *crossing, err error) {
			x.walk.done = func(*zlnode.ActorCall, zlnode.JoinDone) error { return err }
		},
	} {
		t.Run(what, func(t *testing.T) {
			onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
				x.ticking()
				breaking(x, breaks)
				x.goes(walkTo{Timeout: time.Second})
				x.tells(x.a, "moving-1")
				x.await("it is sealed", func() bool { return len(x.b.StuckObjects()) == 1 })
				stuck := x.b.StuckObjects()[0]
				if stuck.Ref.ID != x.ref.ID || stuck.Ref.RID != "b" || stuck.Ref.ObjectGen != x.ref.ObjectGen || !strings.Contains(stuck.Reason, breaks.Error()) {
					t.Errorf("stuck is %+v", stuck)
				}
				for _, n := range []*zlnode.Node{x.a, x.b, x.c} {
					x.await("requests are refused", func() bool {
						soon, cancel := context.WithTimeout(x.ctx, 100*time.Millisecond)
						defer cancel()
						_, err := zlnode.Request[[]string](soon, n.Actor(x.ref.ID), "ask", "no")
						return zlnode.KindOf(err) == zlnode.Unavailable
					})
				}
				if ran := x.walk.notes.of("ran b"); len(ran) != 0 {
					t.Errorf("%q ran", ran)
				}
				if ticks := x.walk.notes.of("tick b"); len(ticks) != 0 {
					t.Errorf("its timer ran: %q", ticks)
				}
				_, err := x.c.DestroyActor(x.ctx, x.ref) // as it was before the move
				wantKind(t, err, zlnode.InvalidOperation)
				if gone, err := x.c.DestroyActor(x.ctx, stuck.Ref); !gone || err != nil {
					t.Errorf("it was not destroyed: %v", err)
				}
				if left := x.b.StuckObjects(); len(left) != 0 {
					t.Errorf("stuck are %+v", left)
				}
				if closed, err := x.c.CloseSpot(x.ctx, x.spot); !closed || err != nil {
					t.Errorf("its spot was not closed: %v", err)
				}
				x.inOrder()
			})
		})
	}
}

// Callbacks that fail at first are tried again, with one operation, before anything else.
// req: JN-07, RL-22, RL-23
func TestCallbacksBehindAMoveAreTriedAgain(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		fails, operations := 0, map[zlnode.OperationID]int{}
		x.walk.joined = func(*zlnode.SpotCall, zlnode.ActorRef) error {
			if fails++; fails <= 2 {
				return errors.New("not yet")
			}
			return nil
		}
		x.walk.done = func(_ *zlnode.ActorCall, done zlnode.JoinDone) error {
			operations[done.Operation]++
			if operations[done.Operation] < 3 {
				return errors.New("not yet")
			}
			return nil
		}
		x.goes(walkTo{})
		x.tells(x.a, "moving-1")
		if done := x.arrives("b", x.spot.ID); fails != 3 || len(operations) != 1 || operations[done.Operation] != 3 {
			t.Errorf("OnJoinedActor ran %d times, the completion %v", fails, operations)
		}
		x.asks(x.c, "there")
	})
}

// A restore that fails once has a second try with a new value, of the same bytes.
// req: CR-10, RL-18, RL-23
func TestARestoreThatFailsHasASecondTry(t *testing.T) {
	tuned := crossingOptions{tune: func(c *node.Config) { c.Moves.ChunkBytes, c.Moves.LinkBytes = 1<<10, 4<<10 }}
	onCrossing(t, tuned, func(t *testing.T, x *crossing) {
		x.bound().ticking()
		x.asks(x.c, strings.Repeat("x", 20<<10))
		values := map[*walker]bool{}
		restore := walkAdapter{&walkWorld{}}
		x.walk.restore = func(v *walker, state []byte) error {
			if values[v] = true; len(values) == 1 {
				v.Done = []string{"half of it"}
				return errors.New("not yet")
			}
			return restore.Restore(v, state)
		}
		x.goes(walkTo{})
		x.tells(x.a, "moving-1")
		x.arrives("b", x.spot.ID)
		x.asks(x.c, "there")
		x.playerReaches("a client's")
		x.hears("b")
		if len(values) != 2 {
			t.Errorf("%d values were restored", len(values))
		}
		if n, _ := x.roads.Passed("a", "b", wire.CmdRestore); n != 2 {
			t.Errorf("%d requests to restore were sent", n)
		}
	})
}

// S22: what takes an old route when nothing follows any more is not executed, and the next
// message takes the present one.
// req: MF-01, MF-02
func TestBehindTheFollowNothingIsCarried(t *testing.T) {
	tuned := crossingOptions{tune: func(c *node.Config) { c.MessageFollowDuration = -1 }}
	onCrossing(t, tuned, func(t *testing.T, x *crossing) {
		x.asks(x.c, "before")
		x.goes(walkTo{})
		receive(t, x.walk.ended)
		x.await("the source knows", func() bool { return x.a.Stats().Moves.Out == 1 })
		if err := zlnode.Send(x.ctx, x.c.Actor(x.ref.ID), "tell", "by the old route"); err != nil {
			t.Fatal(err)
		}
		x.await("it is dropped", func() bool { return x.a.Stats().Dropped == 1 })
		x.asks(x.c, "by the new one")
		x.asks(x.a, "from the source")
		x.asks(x.a, "again")
	})
}
