package zlnode_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// Actors hop between Spots of three nodes while everybody talks to them: what was accepted is
// executed once.
//
// req: RL-05, RL-08, MF-01
func TestNothingIsLostNorDoubledWhileActorsMove(t *testing.T) {
	onEachStoreInTurn(t, func(t *testing.T, w *world) {
		walk := &walkWorld{}
		app := walk.preserving()
		walk.ended = make(chan zlnode.JoinDone, 10_000)
		nodes := []*zlnode.Node{w.server("a", app), w.server("b", app), w.server("d", app), w.client("c", 3, app)}
		var spots []string
		for _, rid := range []string{"a", "b", "d"} {
			spots = append(spots, w.createSpotAt(nodes[3], rid, "wide").ID, w.createSpotAt(nodes[3], rid, "single").ID)
		}
		const actors, seconds = 6, 3
		var ids []string
		for range actors {
			ids = append(ids, w.createActorAt(nodes[3], "a", "walker").ID)
		}
		ctx, cancel := context.WithTimeout(w.ctx, seconds*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		sent := make([]map[string]bool, actors) // and accepted
		var mu sync.Mutex
		var joins, unsure atomic.Int64
		for k := range actors {
			sent[k] = map[string]bool{}
			for s, n := range nodes {
				wg.Go(func() {
					name := fmt.Sprintf("%s-%d", n.RID(), s)
					for i := 0; ctx.Err() == nil; i++ {
						line := numbered(name, i)
						var err error
						if i%2 == 0 {
							err = zlnode.Send(w.ctx, n.Actor(ids[k]), "tell", line)
						} else {
							_, err = zlnode.Request[[]string](w.ctx, n.Actor(ids[k]), "ask", line)
						}
						if err != nil {
							t.Errorf("%s to %s: %v", line, ids[k], err)
							unsure.Add(1)
							return
						}
						mu.Lock()
						sent[k][line] = true
						mu.Unlock()
					}
				})
			}
			wg.Go(func() {
				for i := k; ctx.Err() == nil; i++ {
					_, err := zlnode.Request[struct{}](w.ctx, nodes[3].Actor(ids[k]), "join", walkTo{Spot: spots[(i*5)%len(spots)]})
					if err != nil && zlnode.KindOf(err) != zlnode.Unavailable {
						t.Errorf("join of %s: %v", ids[k], err)
						return
					}
					joins.Add(1)
					done := receive(t, walk.ended)
					if done.Outcome != zlnode.JoinAccepted {
						t.Errorf("join of %s: %v %v", ids[k], done.Outcome, done.Err)
					}
				}
			})
		}
		wg.Wait()
		for k, id := range ids {
			got, err := zlnode.Request[[]string](w.ctx, nodes[3].Actor(id), "ask", "last")
			if err != nil {
				t.Fatal(err)
			}
			count := map[string]int{}
			for _, line := range got {
				count[line]++
			}
			var lost, twice []string
			for line := range sent[k] {
				if count[line] == 0 {
					lost = append(lost, line)
				}
			}
			for line, n := range count {
				if n > 1 {
					twice = append(twice, line)
				}
			}
			slices.Sort(lost)
			slices.Sort(twice)
			if len(lost)+len(twice) > 0 {
				t.Errorf("%s: of %d messages lost %v, doubled %v", id, len(sent[k]), lost[:min(len(lost), 20)], twice[:min(len(twice), 20)])
			}
		}
		t.Logf("%d joins", joins.Load())
	})
}
