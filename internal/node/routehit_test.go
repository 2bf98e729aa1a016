package node

import (
	"strconv"
	"testing"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/store"
)

// ways are Targets of which a node knows all: the object is here, with a Target that
// keeps hold of it or without, or there is a route to it and a link.
type ways struct {
	node              *Node
	held, here, there []Target
}

func knownWays(tb testing.TB, each int) *ways {
	tb.Helper()
	w := &ways{node: bareNode(tb)}
	n, peer := w.node, &linkConn{peer: link.Peer{RID: "b", Lifecycle: 7}}
	n.home.links.slots["b"] = peer
	n.home.links.publish(peer)
	typ := journalType(&journal{})
	for i := range each {
		id := "here-" + strconv.Itoa(i)
		w.here = append(w.here, n.Target(id, false))
		n.actors.Store(id, n.newCell(typ, ActorRef{ID: id, ObjectGen: 1, OwnerGen: 1}, 1, &hold{}))
		w.held = append(w.held, n.Target(id, false))
		id = "there-" + strconv.Itoa(i)
		n.routes.known.Store(id, &route{
			ref:  ActorRef{ID: id, ObjectGen: 1, OwnerGen: 1, RID: "b", Lifecycle: 7},
			kind: store.Actor, mesh: n.home, asked: clock.Now(), until: clock.Never,
		})
		w.there = append(w.there, n.Target(id, false))
	}
	return w
}

// each calls f with the name of each sort of Targets, and what is at their end.
func (w *ways) each(f func(name string, to []Target, local bool)) {
	f("held", w.held, true)
	f("here", w.here, true)
	f("there", w.there, false)
}

func TestAKnownWayIsFoundWithoutAllocation(t *testing.T) {
	w := knownWays(t, 100)
	w.each(func(name string, to []Target, local bool) {
		i := 0
		allocs := testing.AllocsPerRun(1000, func() {
			got, err := w.node.wayTo(t.Context(), opSend, &to[i%len(to)])
			if err != nil || (got.cell != nil) != local || (got.link != nil) == local {
				t.Fatalf("%s: %+v, %v", name, got, err)
			}
			i++
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations for each way", name, allocs)
		}
	})
}

// A send's or a request's way to its object, of 10,000 in turn.
func BenchmarkRouteHit(b *testing.B) {
	w := knownWays(b, 100)
	w.each(func(name string, to []Target, _ bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			ctx, i := b.Context(), 0
			for b.Loop() {
				if _, err := w.node.wayTo(ctx, opSend, &to[i]); err != nil {
					b.Fatal(err)
				}
				if i++; i == len(to) {
					i = 0
				}
			}
		})
	})
	b.Run("there, all at once", func(b *testing.B) {
		b.ReportAllocs()
		ctx := b.Context()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				if _, err := w.node.wayTo(ctx, opSend, &w.there[i%len(w.there)]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
