package zlnode_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// childQuests is what a child hosts: quests whose factory never ends if their id says so.
func childQuests() *zlnode.App {
	q := &quests{factory: func(c *zlnode.SpotContext) error {
		if strings.HasPrefix(c.ID(), "hang") {
			select {}
		}
		return nil
	}}
	return q.app()
}

// victims starts an object server in a process of its own and a client, all with a short
// lease; others comes in when the victim has what it is to have.
func (w *world) victims(q *quests) (victim *child, client *zlnode.Node, others func() *zlnode.Node) {
	w.t.Helper()
	victim = w.childOf(childOrder{Config: w.config(shortLease(zlnode.Config{RID: "a-victim", Role: zlnode.RoleServer})), Quests: true})
	client = w.start(shortLease(zlnode.Config{RID: "c", Role: zlnode.RoleClient}), zlnode.NewApp())
	w.linked(client, 1)
	return victim, client, func() *zlnode.Node {
		b := w.start(shortLease(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), q.app())
		for client.WaitPeers(w.ctx, 1) == nil && w.ctx.Err() == nil { // the victim may be gone by now
			if err := zlnode.Send(w.ctx, client.Instance("warm-up", "quest"), "step", 0); err == nil {
				return b
			}
		}
		w.t.Fatal("the other server takes nothing")
		return nil
	}
}

// S29: the owner of a spot that is Ready is killed. Who waits gets Unavailable, and so does
// everybody until the row is freed by hand, which needs the exact owner; nobody else has
// the spot meanwhile.
// req: FO-10 FO-12
func TestADeadOwnersInstanceSpotIsUnavailableUntilItIsFreed(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		victim, c, others := w.victims(&q)
		if _, err := step(w.ctx, c, "x", 1); err != nil {
			t.Fatal(err)
		}
		b := others()
		made := q.made.Load()
		st := w.location()
		before, _, err := st.Read(w.ctx, "x")
		if err != nil || before.RID != "a-victim" {
			t.Fatalf("%+v %v", before, err)
		}
		victim.kill()
		unavailable := func() {
			t.Helper()
			for _, n := range []*zlnode.Node{b, c} {
				_, err := step(w.ctx, n, "x", 2)
				wantKind(t, err, zlnode.Unavailable)
				wantKind(t, zlnode.Send(w.ctx, n.Instance("x", "quest"), "step", 2), zlnode.Unavailable)
			}
		}
		w.wantRow(st, "x", "the lease's end", func(row *store.Authority, found bool) bool {
			unavailable()
			if !found || row.Version != before.Version {
				t.Fatalf("the row is %+v, %v; it was %+v", row, found, before)
			}
			return row.LeaseLeft <= 0
		})
		unavailable()
		if q.made.Load() != made {
			t.Error("another node has made the spot")
		}
		f, err := st.Free(w.ctx, store.FreeOf(&before, newOp()))
		if err != nil || f.Reason != store.Applied {
			t.Fatalf("%+v %v", f, err)
		}
		if s, err := step(w.ctx, c, "x", 3); err != nil || s.RID != "b" || !slices.Equal(s.Seen, []int{3}) {
			t.Errorf("after it was freed: %+v %v", s, err)
		}
	})
}

// A node is killed while it creates a spot: its caller gets one failure and its message goes
// nowhere else; who comes later waits for the end of the lease and then has another node
// create it, under a new generation.
// req: FO-01 FO-11 FO-12
func TestACreationOfADeadNodeIsCancelledByTheNextMessage(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		victim, c, others := w.victims(&q)
		st := w.location()
		first := make(chan error, 1)
		go func() {
			_, err := step(w.ctx, c, "hang", 1)
			first <- err
		}()
		before := w.wantRow(st, "hang", "the reservation", func(_ *store.Authority, found bool) bool { return found })
		if before.State != store.Creating || before.RID != "a-victim" {
			t.Fatalf("%+v", before)
		}
		others()
		victim.kill()
		wantKind(t, receive(t, first), zlnode.Unavailable)
		s, err := step(w.ctx, c, "hang", 2)
		if err != nil || s.RID != "b" || !slices.Equal(s.Seen, []int{2}) {
			t.Errorf("%+v %v; want the later message alone", s, err)
		}
		row, _, err := st.Read(w.ctx, "hang")
		if err != nil || row.ObjectGen <= before.ObjectGen {
			t.Errorf("generation %d %v; the cancelled one was %d", row.ObjectGen, err, before.ObjectGen)
		}
	})
}

// The same with a row that is Ready and whose first message is not back in its queue: no
// message has run, and the creation is cancelled, not continued.
// req: FO-11 FO-12
func TestASpotWhoseFirstMessageIsNotBackIsCancelledWithItsNode(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		url := w.url
		road := w.behindProxy()
		road.barScript(lua.FirstAdvance)
		behind := w.url
		w.url = behind
		victim := w.childOf(childOrder{Config: w.config(shortLease(zlnode.Config{RID: "a-victim", Role: zlnode.RoleServer})), Quests: true})
		w.url = url
		c := w.start(shortLease(zlnode.Config{RID: "c", Role: zlnode.RoleClient}), zlnode.NewApp())
		w.linked(c, 1)
		st := w.location()
		first := make(chan error, 1)
		go func() {
			_, err := step(w.ctx, c, "x", 1)
			first <- err
		}()
		before := w.wantRow(st, "x", "Ready", func(row *store.Authority, found bool) bool { return found && row.State == store.Ready })
		if !before.FirstPending {
			t.Fatal("the first message is back, though the Store was not told")
		}
		if f, kept, err := st.ReadFirst(w.ctx, "x", before.ObjectGen); err != nil || !kept || len(f.Message) == 0 {
			t.Errorf("the first message is not kept: %v %v", kept, err)
		}
		victim.kill()
		wantKind(t, receive(t, first), zlnode.Unavailable)
		b := w.start(shortLease(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), q.app())
		s, err := step(w.ctx, b, "x", 2)
		if err != nil || !slices.Equal(s.Seen, []int{2}) {
			t.Errorf("%+v %v; want the later message alone", s, err)
		}
		if row, _, err := st.Read(w.ctx, "x"); err != nil || row.ObjectGen <= before.ObjectGen {
			t.Errorf("generation %d %v; the cancelled one was %d", row.ObjectGen, err, before.ObjectGen)
		}
	})
}

// S29: an owner that was paused past its lease runs neither messages nor timers until it may
// act again, and nothing of a spot that was freed meanwhile.
// req: RL-20
func TestAPausedOwnersInstanceSpotRunsNothing(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		before, after := filepath.Join(t.TempDir(), "before"), filepath.Join(t.TempDir(), "after")
		st := w.location()
		p := w.pausable("a")
		c := w.start(shortLease(zlnode.Config{RID: "c", Role: zlnode.RoleClient}), zlnode.NewApp())
		w.linked(c, 1)
		w.diaryAt(c, p, "diary")
		journal := c.Instance("j", "journal")
		if pid, err := zlnode.Request[int](w.ctx, journal, "tick", before); err != nil || pid != p.cmd.Process.Pid {
			t.Fatal(pid, err)
		}
		for entries(t, before) < 3 {
			w.idle()
		}
		p.pause()
		for range 20 {
			if err := zlnode.Send(w.ctx, journal, "write", before); err != nil {
				t.Fatal(err)
			}
		}
		written := entries(t, before)
		row := w.wantRow(st, "j", "the lease's end", func(row *store.Authority, _ bool) bool { return row.LeaseLeft <= 0 })
		if f, err := st.Free(w.ctx, store.FreeOf(&row, newOp())); err != nil || f.Reason != store.Applied {
			t.Fatalf("%+v %v", f, err)
		}
		w.start(shortLease(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), diaryApp())
		for {
			pid, err := zlnode.Request[int](w.ctx, journal, "write", after)
			if err == nil && pid == os.Getpid() {
				break
			}
			if w.ctx.Err() != nil {
				t.Fatal(pid, err)
			}
		}
		p.resume()
		never := time.Now().Add(time.Hour)
		// It acts again, for longer than ticks wait that were due while it might not act.
		for acts := never; time.Since(acts) < 600*time.Millisecond; w.idle() {
			pid, err := zlnode.Request[int](w.ctx, c.Actor("diary"), "write", os.DevNull)
			switch {
			case err == nil && pid == p.cmd.Process.Pid && acts == never:
				acts = time.Now()
			case w.ctx.Err() != nil:
				t.Fatal(pid, err)
			}
		}
		if row, found, err := st.Read(w.ctx, "j"); err != nil || !found || row.RID != "b" {
			t.Errorf("%+v %v %v", row, found, err)
		}
		_ = p.in.Close()
		p.says("stopped")
		if n := entries(t, before); n != written {
			t.Errorf("%d messages or ticks ran after the pause", n-written)
		}
		if n := entries(t, after); n != 1 {
			t.Errorf("the new spot wrote %d entries", n)
		}
	})
}

// Each answer of the Store that an activation or a close waits for is lost once: the spot
// comes into being once, its first message runs once, and the id is free in the end.
// req: FO-13 FO-17
func TestAnswersThatAreLostDuringAnActivationAreAskedForAgain(t *testing.T) {
	for _, script := range []lua.Script{lua.ObjectReserve, lua.ObjectFinish, lua.FirstAdvance, lua.ObjectDelete} {
		t.Run(script.Name, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, w *world) {
				var q quests
				c := w.client("c", 0, zlnode.NewApp())
				road := w.behindProxy()
				w.server("a", q.app())
				w.linked(c, 1)
				road.loseAnswerTo(script)
				ended := make(chan error, 2)
				go func() {
					_, err := zlnode.Request[questState](w.ctx, c.Instance("x", "quest"), "end", 1)
					ended <- err
				}()
				receive(t, road.lost)
				go func() { // it waits behind the first, or for the next incarnation
					_, err := step(w.ctx, c, "x", 2)
					ended <- err
				}()
				road.heal()
				for range 2 {
					if err := receive(t, ended); err != nil && !errors.Is(err, zlnode.Unavailable) {
						t.Error(err)
					}
				}
				if s, err := step(w.ctx, c, "x", 3); err != nil {
					t.Errorf("in the end: %+v %v", s, err)
				}
				count := 0
				for _, h := range q.handled() {
					if strings.HasSuffix(h, ":1") {
						count++
					}
				}
				if count != 1 {
					t.Errorf("the first message ran %d times: %v", count, q.handled())
				}
			})
		})
	}
}

// A reservation that its process took for refused and that was applied late is never
// continued: its message went elsewhere. The next message ends it and has its own spot.
func TestAReservationForASpotThatNobodyRunsIsEnded(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		var q quests
		a := w.server("a", q.app())
		st := w.location()
		r := store.Reserve{
			ID: "x", Kind: store.InstanceSpot, Type: "quest", TargetRID: "a", TargetLifecycle: store.LeaseGen(a.Lifecycle()),
			First: []byte("message"), Timeout: time.Minute,
			Op: store.OperationKey{SourceRID: "a", SourceLifecycle: store.LeaseGen(a.Lifecycle()), Op: newOp()},
		}
		change, err := st.Reserve(w.ctx, r)
		if err != nil || change.Reason != store.Applied {
			t.Fatalf("%+v %v", change, err)
		}
		if s, err := step(w.ctx, a, "x", 1); err != nil || !slices.Equal(s.Seen, []int{1}) {
			t.Errorf("%+v %v", s, err)
		}
		if row, _, err := st.Read(w.ctx, "x"); err != nil || row.ObjectGen <= change.Record.ObjectGen {
			t.Errorf("generation %d %v; that of the reservation was %d", row.ObjectGen, err, change.Record.ObjectGen)
		}
	})
}
