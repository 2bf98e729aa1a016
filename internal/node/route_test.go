package node

import (
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// routedRow is the row of a Ready Actor of another node.
func routedRow(version store.Version, rid string) *store.Authority {
	return &store.Authority{
		ID: "x", Kind: store.Actor, Type: "journal", State: store.Ready, ObjectGen: 1, OwnerGen: 1, Version: version,
		RID: rid, OwnerID: "other", LeaseGen: 9, LeaseLeft: time.Minute,
	}
}

// req: ID-05
func TestARouteLastsUntilItsAgeOrItsOwnersRightToAct(t *testing.T) {
	n := storedNode(t, &scripted{})
	n.cfg.RouteCacheMaxAge = 15 * time.Second
	now := clock.Now()
	n.routes.learn(routedRow(1, "b"), now)
	if n.routes.cached("x", now.Add(15*time.Second-1)) == nil || n.routes.cached("x", now.Add(15*time.Second)) != nil {
		t.Error("it does not last for its age")
	}
	short := routedRow(2, "b")
	short.LeaseLeft = n.cfg.Lease.Margin + time.Second
	n.routes.learn(short, now)
	if n.routes.cached("x", now.Add(time.Second-1)) == nil || n.routes.cached("x", now.Add(time.Second)) != nil {
		t.Error("it does not end when its owner may act no longer")
	}
}

// req: ID-05
func TestALaterVersionOfTheRowReplacesTheRoute(t *testing.T) {
	n := storedNode(t, &scripted{})
	n.cfg.RouteCacheMaxAge = 15 * time.Second
	now := clock.Now()
	n.routes.learn(routedRow(3, "c"), now)
	n.routes.learn(routedRow(2, "b"), now) // an answer that was overtaken
	if r := n.routes.cached("x", now); r == nil || r.ref.RID != "c" {
		t.Errorf("the route is %+v, want that of the later version", r)
	}
	n.routes.learn(routedRow(4, "d"), now)
	if r := n.routes.cached("x", now); r == nil || r.ref.RID != "d" {
		t.Errorf("the route is %+v, want the one that was learnt last", r)
	}
	dead := routedRow(5, "d")
	dead.LeaseLeft = 0
	n.routes.learn(dead, now)
	if n.routes.cached("x", now) != nil {
		t.Error("the route of a dead owner is kept")
	}
}

// What was asked for before all was forgotten may be of a past that is lost.
// req: CR-14
func TestAnAnswerThatWasUnderWayWhenAllWasForgottenIsNotKept(t *testing.T) {
	n := storedNode(t, &scripted{})
	n.cfg.RouteCacheMaxAge = 15 * time.Second
	asked := clock.Now()
	n.routes.learn(routedRow(1, "b"), asked)
	n.routes.clear()
	if n.routes.cached("x", asked) != nil {
		t.Error("it is not forgotten")
	}
	n.routes.learn(routedRow(1, "b"), asked)
	if n.routes.cached("x", asked) != nil {
		t.Error("an answer from before is kept")
	}
	n.routes.learn(routedRow(1, "b"), clock.Now().Add(time.Millisecond))
	if n.routes.cached("x", asked) == nil {
		t.Error("a later answer is not kept")
	}
}

func TestWithoutACacheNoRouteIsKept(t *testing.T) {
	n := storedNode(t, &scripted{})
	n.cfg.RouteCacheMaxAge = -1
	now := clock.Now()
	n.routes.learn(routedRow(1, "b"), now)
	if n.routes.known.Len() != 0 {
		t.Error("a route is kept")
	}
}
