package zlnode_test

import (
	"testing"

	"github.com/zlnode/zlnode"
)

// The queues of all Actors of a node share one budget. With all of it in use a message is
// refused to its sender here, and to who asked from another node; nothing that was
// accepted is lost, and the room comes back with the turns.
func TestTheQueuesOfANodeShareABudget(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		g := newGate()
		n := w.start(zlnode.Config{RID: "s", Role: zlnode.RoleServer, QueueBytes: 1 << 20}, recorderApp(g))
		client := w.client("c", 1, zlnode.NewApp())
		actors := []string{"a", "b", "c"}
		var ended []<-chan error
		for _, id := range actors {
			if _, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "recorder"}); err != nil {
				t.Fatal(err)
			}
			ended = append(ended, g.stop(t, w, n.Actor(id)))
		}
		const size = 10_000
		payload := make([]byte, size)
		accepted := map[string]int{}
		for _, id := range actors {
			for {
				err := n.Actor(id).SendRaw(w.ctx, "unknown", payload)
				if err != nil {
					wantKind(t, err, zlnode.CapacityExceeded)
					break
				}
				accepted[id]++
			}
		}
		if got := accepted["a"] + accepted["b"] + accepted["c"]; got < 80 || got > 1<<20/size || accepted["a"] < 80 {
			t.Errorf("accepted %v of %d bytes each, with room for 1 MiB", accepted, size)
		}
		_, err := client.Actor("b").RequestRaw(w.ctx, "echo", payload)
		wantKind(t, err, zlnode.Unavailable)
		close(g.open)
		for i, id := range actors {
			if err := receive(t, ended[i]); err != nil {
				t.Error(err)
			}
			r, err := client.Actor(id).RequestRaw(w.ctx, "echo", payload)
			for zlnode.KindOf(err) == zlnode.Unavailable { // the turns are under way
				r, err = client.Actor(id).RequestRaw(w.ctx, "echo", payload)
			}
			if err != nil {
				t.Fatalf("after the turns: %v", err)
			}
			r.Release()
		}
		if st := n.Stats(); st.FailedSends != uint64(accepted["a"]+accepted["b"]+accepted["c"]) {
			t.Errorf("%d messages had their turn, %v were accepted", st.FailedSends, accepted)
		}
	})
}

// The queue of one object has the room that is configured, in messages and in bytes.
func TestTheQueueOfAnObjectHasItsBudget(t *testing.T) {
	for name, x := range map[string]struct {
		zlnode.Config
		payload, room int
	}{
		"messages":      {zlnode.Config{ObjectQueueMessages: 21}, 100_000, 20}, // one of them has its turn
		"bytes":         {zlnode.Config{ObjectQueueBytes: 2_100_000}, 100_000, 20},
		"many messages": {zlnode.Config{ObjectQueueMessages: 20_001}, 700, 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			onEachStoreInTurn(t, func(t *testing.T, w *world) {
				g := newGate()
				c := x.Config
				c.RID, c.Role = "s", zlnode.RoleServer
				n := w.start(c, recorderApp(g))
				if _, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: "a", Type: "recorder"}); err != nil {
					t.Fatal(err)
				}
				ended := g.stop(t, w, n.Actor("a"))
				accepted, err := 0, error(nil)
				for {
					if err = n.Actor("a").SendRaw(w.ctx, "unknown", make([]byte, x.payload)); err != nil {
						break
					}
					accepted++
				}
				wantKind(t, err, zlnode.CapacityExceeded)
				if accepted != x.room {
					t.Errorf("accepted %d, with room for %d", accepted, x.room)
				}
				close(g.open)
				if err := receive(t, ended); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
