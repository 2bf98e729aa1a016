package zlnode_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// An aggregate has no fixed limit. The members' requests of before and after it are all executed, each by its
// member. With ZLNODE_TEST_MEMBERS it has as many as that says, such as 2000, whose inventory is a tree.
//
// req: AG-01 AG-03 AG-04
func TestAnAggregateOfManyMembers(t *testing.T) {
	many := 60
	if n, err := strconv.Atoi(os.Getenv("ZLNODE_TEST_MEMBERS")); err == nil {
		many = n
	}
	t.Parallel()
	w := onEmbedded(t)
	if url := realURL(); url != "" {
		w = newWorld(t, url)
	}
	x := newCrossing(w, crossingOptions{})
	p := newParty(x, "ballroom", 1)
	if err := x.b.Cordon(x.ctx, zlnode.Cordon{}); err != nil {
		t.Fatal(err)
	}
	each := func(f func(k int) error) {
		t.Helper()
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for k := int(next.Add(1)); k < many; k = int(next.Add(1)) {
					if err := f(k); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
	id := func(k int) string { return fmt.Sprint("member-", k) }
	each(func(k int) error {
		_, err := x.c.CreateActor(x.ctx, zlnode.CreateActor{ID: id(k), Type: "walker"})
		return err
	})
	var joins sync.WaitGroup
	joins.Go(func() {
		for k := 1; k < many; k++ {
			<-x.walk.ended
		}
	})
	each(func(k int) error { return zlnode.Send(x.ctx, x.a.Actor(id(k)), "join", walkTo{Spot: p.hall.ID}) })
	joins.Wait()
	each(func(k int) error { return zlnode.Send(x.ctx, x.a.Actor(id(k)), "tell", "before") })
	began := time.Now()
	if err := x.relocate(x.a, p.hall.ID, "b"); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("%d members moved in %v; the source stood still for %v", many, took, x.a.Stats().Moves.SourceStop.Max)
	each(func(k int) error {
		got, err := zlnode.Request[[]string](x.ctx, x.c.Actor(id(k)), "ask", "after")
		if err == nil && (len(got) != 2 || got[0] != "before") {
			err = fmt.Errorf("%s has executed %q", id(k), got)
		}
		return err
	})
	p.areAt("b")
	if m := x.b.Stats().Moves; m.In != uint64(many)+1 {
		t.Errorf("%d objects have come, want %d", m.In, many+1)
	}
	if row, _, err := x.location().Read(x.ctx, p.hall.ID); err != nil || row.Aggregate == nil || row.Aggregate.Count != many+1 {
		t.Errorf("the hall's row is %+v: %v", row, err)
	}
	x.inOrder()
}
