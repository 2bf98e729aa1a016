package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/store"
)

var raceCases = []testCase{
	{"LosersCompeteAgainOnceTheIDIsMissing", losersCompeteAgain},
	{"EveryIDHasOneOwnerAndEverySlotOneRow", churn},
	{"ChangesWithUnknownOutcomesAreLinearizable", scheduled},
	{"RacingChangesAreLinearizable", racing},
	{"MembersOfAMovingSpotHaveOneOwnerAtATime", movingSpot},
}

// losersCompeteAgain: twenty callers want one object. Whoever wins creates it, and
// the first three creations are rejected. In the end one caller has created it, the
// rejected ones know of their own rejection only, and all others find it.
func losersCompeteAgain(w *world) {
	p := w.server("node-a", limit(1))
	const callers, rejections = 20, 3
	var winners atomic.Int32
	var mu sync.Mutex
	ends := map[string]int{}
	together(callers, func(int) {
		end, err := w.getOrCreate("player-1", p, func() store.Result {
			if winners.Add(1) <= rejections {
				return store.Rejected
			}
			return store.Created
		})
		if err != nil {
			w.t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		ends[end]++
	})
	if ends["Created"] != 1 || ends["Rejected"] != rejections || ends["Existing"] != callers-1-rejections {
		w.t.Errorf("callers ended %v", ends)
	}
	w.wantActors(p.RID, 1)
}

// getOrCreate is what a node does for GetOrCreate: whoever reserves runs the factory,
// the others wait for the row to change and, if it went, compete with their own request.
func (w *world) getOrCreate(id string, p process, factory func() store.Result) (string, error) {
	ctx := w.ctx()
	for ctx.Err() == nil {
		r := request(id, p)
		c, err := w.s.Reserve(ctx, r)
		switch {
		case err != nil:
			return "", err
		case c.Reason == store.Exists && c.Record.State == store.Ready:
			return "Existing", nil
		case c.Reason == store.Exists || c.Reason == store.CapacityExceeded:
			continue // another one's creation is under way
		case c.Reason != store.Applied:
			return "", fmt.Errorf("reserve gave %v", c.Reason)
		}
		f := store.Finish{Fence: fence(c.Record), Op: r.Op, Result: factory()}
		done, err := w.s.Finish(ctx, f)
		if err != nil || done.Reason != store.Applied {
			return "", fmt.Errorf("finish gave %v, %w", done.Reason, err)
		}
		return f.Result.String(), nil
	}
	return "", ctx.Err()
}

// churn: creations, rejections, failures and deletions of a few ids by many at once,
// on two nodes with a limit. At the end every slot in use belongs to a row.
func churn(w *world) {
	nodes := []process{w.server("node-a", limit(3)), w.server("node-b", limit(4))}
	ids := []string{"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"}
	together(10, func(i int) {
		for n := range 15 {
			p := nodes[(i+n)%2]
			r := request(ids[(i*7+n)%len(ids)], p)
			c, err := w.s.Reserve(w.ctx(), r)
			if err != nil {
				w.t.Error(err)
				return
			}
			switch {
			case c.Reason == store.Applied:
				f := store.Finish{Fence: fence(c.Record), Op: r.Op, Result: store.Result(1 + n%3)}
				if done, err := w.s.Finish(w.ctx(), f); err != nil || done.Reason != store.Applied {
					w.t.Errorf("Finish of an own reservation gave %v, %v", done.Reason, err)
				}
			case c.Reason == store.Exists && c.Record.State == store.Ready && n%2 == 0:
				if _, err := w.s.Delete(w.ctx(), fence(c.Record), newOp()); err != nil {
					w.t.Error(err)
				}
			}
		}
	})
	rows := map[string]int{}
	for _, id := range ids {
		if a, found := w.read(id); found {
			if a.State != store.Ready {
				w.t.Errorf("%s is %v after all creations ended", id, a.State)
			}
			rows[a.RID]++
		}
	}
	for _, p := range nodes {
		w.wantActors(p.RID, rows[p.RID])
		if rows[p.RID] > p.desc.MaxActors {
			w.t.Errorf("%d rows on %s, which takes %d", rows[p.RID], p.RID, p.desc.MaxActors)
		}
	}
}
