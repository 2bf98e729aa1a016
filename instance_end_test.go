package zlnode_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
)

// S31: what races with the close of a spot is handled once, by it if it was accepted before,
// else by the next one and never by it, in the order of its sender.
func TestWhatRacesWithACloseIsHandledOnceAndInOrder(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		a := w.server("a", q.app())
		c := w.client("c", 1, zlnode.NewApp())
		const count = 600
		var wg sync.WaitGroup
		for i, n := range []*zlnode.Node{a, c} {
			wg.Go(func() {
				addr := n.Instance("x", "quest")
				for k := range count {
					if err := zlnode.Send(w.ctx, addr, "step", 10_000*(i+1)+k); err != nil {
						t.Errorf("send %d of %s: %v", k, n.RID(), err)
						return
					}
				}
			})
		}
		ends := 0
		for range 40 {
			if _, err := zlnode.Request[questState](w.ctx, c.Instance("x", "quest"), "end", 0); err != nil {
				t.Errorf("end: %v", err)
			}
			ends++
		}
		wg.Wait()
		want := 2*count + ends
		for len(q.handled()) < want {
			if w.ctx.Err() != nil {
				t.Fatalf("%d of %d messages were handled; dropped %d and %d", len(q.handled()), want, a.Stats().Dropped, c.Stats().Dropped)
			}
		}
		handled := q.handled()
		if len(handled) != want {
			t.Errorf("%d messages were handled, %d sent", len(handled), want)
		}
		next, last := [3]int{}, 0
		for _, h := range handled {
			var number, k int
			if _, err := fmt.Sscanf(h, "%d:%d", &number, &k); err != nil {
				t.Fatal(err)
			}
			if number < last {
				t.Fatalf("%s was handled after spot %d", h, last)
			}
			last = number
			if k == 0 {
				continue
			}
			if s := k / 10_000; k%10_000 != next[s] {
				t.Fatalf("sender %d: message %d was handled, %d is next", s, k%10_000, next[s])
			}
			next[k/10_000]++
		}
		for len(q.closed()) < int(q.made.Load()) && w.ctx.Err() == nil {
			w.idle()
		}
		if closed := q.closed(); len(closed) < 2 || closed[0] != fmt.Sprintf("1:%d", zlnode.ExplicitClose) {
			t.Errorf("closed %v, want each of several spots, explicitly", closed)
		}
	})
}

// req: CL-01
func TestAnInstanceSpotClosesItselfFromAHandlerOrATimer(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		deadlines := make(chan bool, 2)
		q.closing = func(c *zlnode.SpotCall) {
			_, has := c.Deadline()
			_, _ = c.Close() // once more changes nothing
			deadlines <- has
		}
		a := w.server("a", q.app())
		c := w.client("c", 1, zlnode.NewApp())
		st := w.location()
		for i, end := range []func() error{
			func() error {
				_, err := zlnode.Request[questState](w.ctx, c.Instance("x", "quest"), "end", 1)
				return err
			},
			func() error {
				return zlnode.Send(w.ctx, c.Instance("x", "quest"), "end later", time.Millisecond)
			},
		} {
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if !receive(t, deadlines) {
				t.Error("OnClosing has no deadline")
			}
			for found := true; found; {
				var err error
				if _, found, err = st.Read(w.ctx, "x"); err != nil {
					t.Fatal(err)
				}
			}
			if closed := q.closed(); !slices.Equal(closed[i:], []string{fmt.Sprintf("%d:%d", i+1, zlnode.ExplicitClose)}) {
				t.Errorf("closed: %v", closed)
			}
		}
		for a.Stats().Spots != 0 && w.ctx.Err() == nil { // its place in the object table goes after its row
			w.idle()
		}
		if s, err := step(w.ctx, c, "x", 1); err != nil || s.Number != 3 {
			t.Errorf("after the close: %+v %v", s, err)
		}
		if n := a.Stats().Spots; n != 1 {
			t.Errorf("%d spots", n)
		}
	})
}

// idle gives others the time that a test polls with.
func (w *world) idle() {
	select {
	case <-w.ctx.Done():
	case <-time.After(time.Millisecond):
	}
}

// Unused ones only: not with a timer, not while something runs or has run lately.
// req: CL-01
func TestAnInstanceSpotThatNobodyUsesIsEvicted(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer, InstanceSpotIdleTimeout: 50 * time.Millisecond}, q.app())
		c := w.client("c", 1, zlnode.NewApp())
		if err := zlnode.Send(w.ctx, c.Instance("timer", "quest"), "end later", time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := step(w.ctx, c, "idle", 1); err != nil {
			t.Fatal(err)
		}
		st := w.location()
		for found := true; found; {
			var err error
			if _, found, err = st.Read(w.ctx, "idle"); err != nil {
				t.Fatal(err)
			}
		}
		if closed := q.closed(); !slices.Equal(closed, []string{fmt.Sprintf("2:%d", zlnode.IdleEvicted)}) {
			t.Errorf("closed %v", closed)
		}
		if s, err := step(w.ctx, c, "idle", 2); err != nil || !slices.Equal(s.Seen, []int{2}) {
			t.Errorf("the next one: %+v %v", s, err)
		}
		if row, found, err := st.Read(w.ctx, "timer"); err != nil || !found || row.FirstPending {
			t.Errorf("the spot with a timer is gone: %v %v", found, err)
		}
		// Senders that are just slow enough race with the eviction again and again.
		handled := len(q.handled())
		var wg sync.WaitGroup
		const count = 12
		for i := range 4 {
			wg.Go(func() {
				addr := c.Instance(fmt.Sprint("slow-", i), "quest")
				for k := range count {
					<-time.After(time.Duration(48+k%4) * time.Millisecond)
					if err := zlnode.Send(w.ctx, addr, "step", k); err != nil {
						t.Errorf("send: %v", err)
					}
				}
			})
		}
		wg.Wait()
		for len(q.handled()) < handled+4*count {
			if w.ctx.Err() != nil {
				t.Fatalf("%d of %d were handled", len(q.handled())-handled, 4*count)
			}
			w.idle()
		}
	})
}

// Without the option nothing is evicted.
func TestAnInstanceSpotStaysByDefault(t *testing.T) {
	_, err := zlnode.Start(t.Context(), zlnode.Config{InstanceSpotIdleTimeout: -1}, zlnode.NewApp())
	wantKind(t, err, zlnode.InvalidOperation)
}

// At a shutdown accepted messages are handled and OnClosing runs; the id is free.
// req: CL-02
func TestAShutdownClosesInstanceSpots(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		a, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), q.app())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			if err := zlnode.Send(w.ctx, a.Instance("x", "quest"), "step", i); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
		defer cancel()
		if err := a.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if handled := q.handled(); len(handled) != 20 {
			t.Errorf("handled %v", handled)
		}
		if closed := q.closed(); !slices.Equal(closed, []string{fmt.Sprintf("1:%d", zlnode.HostShutdown)}) {
			t.Errorf("closed %v", closed)
		}
		if _, found, err := w.location().Read(w.ctx, "x"); err != nil || found {
			t.Errorf("the row is there: %v %v", found, err)
		}
		_, err = step(w.ctx, a, "x", 1)
		wantKind(t, err, zlnode.ShuttingDown)
	})
}

// A node that stops while it creates a Spot does not keep the id, nor the message: another
// node has both.
func TestANodeThatStopsHandsItsActivationsOn(t *testing.T) {
	onEachStoreInTurn(t, func(t *testing.T, w *world) {
		var q quests
		entered, release := make(chan string, 1), make(chan struct{})
		q.factory = func(c *zlnode.SpotContext) error {
			select {
			case entered <- c.Node().RID():
			default: // it is that of "y", or the next node's
			}
			<-release
			return nil
		}
		nodes, roads := map[string]*zlnode.Node{}, newLinkRoads(t)
		for _, rid := range []string{"a", "b"} {
			n, err := zlnode.Start(w.ctx, w.config(roads.behind(zlnode.Config{RID: rid, Role: zlnode.RoleServer})), q.app())
			if err != nil {
				t.Fatal(err)
			}
			nodes[rid] = n
		}
		c := w.start(roads.behind(zlnode.Config{RID: "c", Role: zlnode.RoleClient}), zlnode.NewApp())
		w.linked(c, 2)
		results := make(chan error, 2)
		ask := func(i int) {
			_, err := step(w.ctx, c, "x", i)
			results <- err
		}
		go ask(1)
		at := receive(t, entered)
		go ask(2)
		// One whose link closes before it is read has failed, too: nobody knows what became of it.
		w.eventually("both are at the node", func() bool {
			n, _ := roads.Passed("c", at, wire.CmdInstance)
			return n == 2
		})
		stopped := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
			defer cancel()
			stopped <- nodes[at].Shutdown(ctx)
		}()
		for { // until it takes nothing more
			ctx, cancel := context.WithTimeout(w.ctx, 10*time.Millisecond)
			_, err := step(ctx, nodes[at], "y", 0)
			cancel()
			if errors.Is(err, zlnode.ShuttingDown) {
				break
			}
		}
		close(release)
		if err := receive(t, stopped); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		var failed []error
		for range 2 {
			if err := receive(t, results); err != nil {
				failed = append(failed, err)
			}
		}
		if len(failed) != 1 {
			t.Errorf("of the two callers the first one fails, and no other: %v", failed)
		}
		for rid, n := range nodes {
			if rid != at {
				w.stop(n)
			}
		}
		if _, found, err := w.location().Read(w.ctx, "x"); err != nil || found {
			t.Errorf("the row is there: %v %v", found, err)
		}
	})
}
