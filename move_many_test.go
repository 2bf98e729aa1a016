package zlnode_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// A thousand Actors want to move at once. The states that are captured and not yet restored
// are those of the moves that have a permit, whatever waits.
func TestAThousandMovesHoldAFewStates(t *testing.T) {
	onEachStoreInTurn(t, func(t *testing.T, w *world) {
		const permits = 8
		actors := 1000
		if !strings.Contains(t.Name(), "redis") { // the embedded store takes milliseconds for each
			actors = 64
		}
		var captured, most atomic.Int64
		walk := &walkWorld{}
		walk.capture = func(*walker) ([]byte, error) {
			now := captured.Add(1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			return make([]byte, 4<<10), nil
		}
		walk.restore = func(*walker, []byte) error {
			captured.Add(-1)
			return nil
		}
		app := walk.preserving()
		walk.ended = make(chan zlnode.JoinDone, actors)
		for _, rid := range []string{"a", "b"} {
			w.start(zlnode.Config{RID: rid, Role: zlnode.RoleServer, MaxMoves: permits}, app)
		}
		c := w.client("c", 2, app)
		across := map[string]string{"a": w.createSpotAt(c, "b", "single").ID, "b": w.createSpotAt(c, "a", "single").ID}
		to := map[string]string{}
		for i := range actors {
			r, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: fmt.Sprint("walker-", i), Type: "walker"})
			if err != nil {
				t.Fatal(err)
			}
			to[r.Ref.ID] = across[r.Ref.RID]
		}
		for id, spot := range to {
			if err := zlnode.Send(w.ctx, c.Actor(id), "join", walkTo{Spot: spot, Timeout: 30 * time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		for range actors {
			if done := receive(t, walk.ended); done.Outcome != zlnode.JoinAccepted {
				t.Fatalf("%+v", done)
			}
		}
		if most.Load() > 2*permits || captured.Load() != 0 {
			t.Errorf("%d states were captured at once and %d are left, with %d permits at each node", most.Load(), captured.Load(), permits)
		}
	})
}

// A room that is full by Members lets in as many as it has room for, however many ask at once
// from both nodes.
func TestMembersCountWhoIsOnTheWay(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		const size, actors = 2, 12
		walk := &walkWorld{admit: func(c *zlnode.JoinSpotCall) (zlnode.Admission, error) {
			if c.Members() > size {
				return zlnode.Reject(nil), nil
			}
			return zlnode.Accept(nil), nil
		}}
		app := walk.preserving()
		w.server("a", app)
		w.server("b", app)
		c := w.client("c", 2, app)
		spot := w.createSpotAt(c, "b", "wide").ID
		for i := range actors {
			if _, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: fmt.Sprint("walker-", i), Type: "walker"}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range actors {
			if err := zlnode.Send(w.ctx, c.Actor(fmt.Sprint("walker-", i)), "join", walkTo{Spot: spot}); err != nil {
				t.Fatal(err)
			}
		}
		outcomes := map[zlnode.JoinOutcome]int{}
		for range actors {
			outcomes[receive(t, walk.ended).Outcome]++
		}
		if outcomes[zlnode.JoinAccepted] != size || outcomes[zlnode.JoinRejected] != actors-size {
			t.Errorf("%v", outcomes)
		}
	})
}
