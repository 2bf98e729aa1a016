package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/cmap"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
)

// A Session that has no place for a binding asks nobody, so the binding that the Actor has
// stands.
func TestASessionThatIsFullAsksNoActor(t *testing.T) {
	w := newJoins(t)
	w.node.home.cfg.Name = "m"
	a := w.actor("ada")
	s := &sessionConn{node: w.node, id: 1}
	s.routes.Store(noRoutes)
	key := bindingKey{session: 7, gen: 1}
	a.ended(func(*turn) { a.bind(binding{key: key}) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	here := ActorRef{ID: "ada", ObjectGen: 1, OwnerGen: 1, Mesh: "m", RID: "a", Lifecycle: 5}
	there := here
	there.RID = "b"
	s.asked = bindingsMax
	for _, ref := range []ActorRef{here, there} {
		if err := s.bind(ctx, ref); err == nil || !errors.Is(err, errkind.CapacityExceeded) {
			t.Errorf("at %s: %v", ref.RID, err)
		}
	}
	s.asked = bindingsMax - 1
	for range 3 { // a bind that fails leaves its place
		if err := s.bind(ctx, there); err == nil || !errors.Is(err, errkind.Unavailable) {
			t.Errorf("without a link: %v", err)
		}
	}
	barrier(t, a)
	if a.binding.key != key || s.asked != bindingsMax-1 {
		t.Errorf("the actor is bound to %+v, %d places are taken", a.binding.key, s.asked)
	}
}

// The end of an incarnation that hangs comes when the next one is bound by the same link.
// req: MB-04
func TestAnOldIncarnationsEndLeavesTheNewOnesBinding(t *testing.T) {
	w := newJoins(t)
	l := &linkConn{node: w.node, conn: closedConn(t), returns: link.NewCreditReturn(linkCreditBytes), bound: cmap.New[*objectCell]()}
	bound := func(c *objectCell, gen uint64) {
		c.ended(func(*turn) { c.bind(binding{key: bindingKey{link: l, session: 1, gen: gen}}) })
		barrier(t, c)
	}
	before := w.actor("ada")
	bound(before, 1)
	w.node.actors.Delete("ada")
	now := w.actor("ada")
	bound(now, 2)
	before.refuseAll(errGone)
	barrier(t, before)
	if c, ok := l.bound.Load("ada"); !ok || c != now {
		t.Error("the link does not know the present incarnation")
	}
}
