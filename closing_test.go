package zlnode_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/zlnode/zlnode"
)

// An Actor has no callback for its node's end; its Spot has, and the Actor is a member then.
// What the Spot asks of it runs, and what is for others does not.
// req: CL-02
func TestAClosingSpotAsksAndTellsItsMembersAndNobodyElse(t *testing.T) {
	onEachStore(t, func(t *testing.T, base *world) {
		w := newJoinWorld(base)
		a, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), w.app())
		if err != nil {
			t.Fatal(err)
		}
		w.closing = func(c *zlnode.SpotCall) {
			n, id := c.Node(), c.Spot().ID()
			member := n.Actor("member of " + id)
			ctx := context.Context(c)
			if id == "wide" {
				_, err := zlnode.Request[int](c, member, "add", 1)
				if zlnode.KindOf(err) != zlnode.InvalidOperation {
					t.Errorf("a request under the gate that the spot holds: %v", err)
				}
				ctx = c.Yielding()
			}
			if total, err := zlnode.Request[int](ctx, member, "add", 7); err != nil || total != 7 {
				t.Errorf("the member of %s has %d, %v", id, total, err)
			}
			if err := zlnode.Send(c, member, "note", 1); err != nil {
				t.Errorf("a send to the member of %s: %v", id, err)
			}
			for _, other := range []string{"stranger", "nobody"} {
				if err := zlnode.Send(c, n.Actor(other), "note", 2); !errors.Is(err, zlnode.ShuttingDown) {
					t.Errorf("a send to %s: %v", other, err)
				}
			}
			if _, err := zlnode.Request[string](ctx, n.Spot("another"), "join", joinOrder{}); !errors.Is(err, zlnode.ShuttingDown) {
				t.Errorf("a request to another spot: %v", err)
			}
		}
		for _, id := range []string{"wide", "apart"} {
			w.spot(a, id, id)
			w.actor(a, "member of "+id)
			w.joins(a.Actor("member of "+id), joinOrder{Spot: id})
		}
		w.actor(a, "stranger")
		w.notes.clear()
		w.stop(a)
		var noted int
		for _, line := range w.notes.of("did") {
			if line == "note 1" {
				noted++
			}
		}
		if did := w.notes.of("did"); noted != 2 || slices.Contains(did, "note 2") {
			t.Errorf("it did %q", did)
		}
		if a.Stats().FailedCallbacks != 0 {
			t.Errorf("%d failed callbacks", a.Stats().FailedCallbacks)
		}
		w.balanced()
	})
}
