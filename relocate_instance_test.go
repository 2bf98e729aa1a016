package zlnode_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// asksShelf asks an Instance Spot with intent.
func (e *estate) asksShelf(n *zlnode.Node, id, line string) <-chan error {
	asked := make(chan error, 1)
	go func() {
		_, err := zlnode.Request[[]string](e.ctx, n.Instance(id, "shelf"), "ask", line)
		asked <- err
	}()
	return asked
}

// Messages with Instance intent follow the move: those that reach the old owner while the Spot moves
// and after it, and those that reach the new one before. If the move is off, the old owner has all.
//
// req: FO-12
func TestIntentsFollowAnInstanceSpot(t *testing.T) {
	onEstate(t, func(t *testing.T, e *estate) {
		id := e.shelfAt("a")
		nodes := []*zlnode.Node{e.a, e.b, e.c}
		for _, off := range []bool{true, false} {
			fails := zlnode.Errorf(zlnode.InternalFailure, "not today")
			e.making(func(c *zlnode.SpotContext) error {
				if c.Node().RID() != "b" {
					return nil
				}
				e.gate.pass()
				if off {
					return fails
				}
				return nil
			})
			moved := e.relocates(e.a, id, "b")
			receive(t, e.gate.entered)
			e.notes.clear()
			var asked []<-chan error
			for _, n := range nodes {
				e.sends(n.Instance(id, "shelf"), "sent by "+n.RID())
				asked = append(asked, e.asksShelf(n, id, "asked by "+n.RID()))
			}
			e.gate.open <- struct{}{}
			at := "b"
			if off { // it is tried once more
				receive(t, e.gate.entered)
				e.gate.open <- struct{}{}
				at = "a"
			}
			if err := receive(t, moved); (err != nil) != off {
				t.Fatalf("off=%v: %v", off, err)
			}
			for i, ended := range asked {
				if err := receive(t, ended); err != nil {
					t.Errorf("off=%v: the request of %s ended with %v", off, nodes[i].RID(), err)
				}
			}
			var want []string
			for _, n := range nodes {
				want = append(want, at+" sent by "+n.RID(), at+" asked by "+n.RID())
			}
			e.eventually("all have run", func() bool { return len(e.notes.of("ran")) >= len(want) })
			got := e.notes.of("ran")
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("off=%v: ran %q", off, got)
			}
		}
		e.inOrder()
	})
}

// One that has ended at its new node is the next incarnation's for who asks its old one; nothing is
// executed twice.
//
// req: FO-12
func TestAnInstanceSpotThatMovedAndEndedComesAgain(t *testing.T) {
	onEstate(t, func(t *testing.T, e *estate) {
		id := e.shelfAt("a")
		e.asks(e.c.Spot(id), "first")
		if err := e.relocate(e.a, id, "b"); err != nil {
			t.Fatal(err)
		}
		e.asks(e.c.Spot(id), "second")
		e.notes.clear()
		if closes, err := zlnode.Request[bool](e.ctx, e.c.Instance(id, "shelf"), "close", struct{}{}); !closes || err != nil {
			t.Fatal(closes, err)
		}
		e.sends(e.a.Instance(id, "shelf"), "sent")
		if err := receive(t, e.asksShelf(e.a, id, "asked")); err != nil {
			t.Error(err)
		}
		e.eventually("the one that was sent", func() bool { return len(e.notes.of("ran")) == 2 })
		if got := e.asks(e.c.Instance(id, "shelf"), "last"); slices.Contains(got, "first") || !slices.Contains(got, "asked") {
			t.Errorf("the next one has done %q", got)
		}
		e.eventually("the end of the first", func() bool { return slices.Contains(e.did("closing"), "closing at b ExplicitClose 2 true true") })
		e.inOrder()
	})
}

// It is evicted at its new node as any other, from when it came.
//
// req: CL-01
func TestAnInstanceSpotThatMovedIsEvicted(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		e := newEstateWith(w, zlnode.Config{InstanceSpotIdleTimeout: 50 * time.Millisecond})
		id := e.shelfAt("a")
		if err := e.relocate(e.a, id, "b"); err != nil {
			t.Fatal(err)
		}
		e.eventually("its end", func() bool {
			_, found, err := e.c.FindSpot(e.ctx, id)
			return err == nil && !found
		})
		if got := e.did("closing at b"); !slices.Equal(got, []string{"closing at b IdleEvicted 0 true true"}) {
			t.Errorf("closings %q", got)
		}
	})
}
