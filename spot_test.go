package zlnode_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
)

// lobby is the Entry Spot of a stage's owner.
type lobby struct{ journal *journal }

func (l *lobby) OnDisconnectActor(_ *zlnode.SpotCall, actor zlnode.ActorRef) error {
	l.journal.add("disconnected %s", actor.ID)
	l.journal.add("client %s gone", actor.ID)
	if strings.HasPrefix(actor.ID, "bad") {
		panic("a callback that breaks")
	}
	return nil
}

func (l *lobby) OnReconnectingActor(_ *zlnode.SpotCall, actor zlnode.ActorRef) error {
	l.journal.add("client %s away", actor.ID)
	return nil
}

func (l *lobby) OnReconnectedActor(_ *zlnode.SpotCall, actor zlnode.ActorRef) error {
	l.journal.add("client %s back", actor.ID)
	return nil
}

// disconnected waits for that many notices of lost clients.
func (s *stage) disconnected(n int) []string {
	s.t.Helper()
	s.await("the entry spot hears of its lost clients", func() bool { return len(s.journal.of("disconnected")) >= n })
	return s.journal.of("disconnected")
}

// req: MB-04
func TestTheEntrySpotHearsOnceOfALostClient(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		first, second, last := s.dial(t), s.dial(t), s.dial(t)
		first.login("a")
		second.login("a") // in place of the first, whose end is none of the Actor's matter
		first.Close()
		receive(t, s.closed)
		second.Close()
		receive(t, s.closed)
		last.login("z")
		last.Close()
		if got, want := s.disconnected(2), []string{"a", "z"}; !slices.Equal(got, want) {
			t.Errorf("lost clients of %v, want %v", got, want)
		}
		if bound, err := s.ask("a", "bound", nil); bound != 0 || err != nil {
			t.Errorf("the Actor is bound %d, %v", bound, err)
		}
	})
}

// req: MB-04
func TestOneActorsFailingNoticeStopsNoOther(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		c := s.dial(t)
		for _, id := range []string{"bad-1", "good", "bad-2"} {
			if err := c.bind(s.create(id)); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		got := s.disconnected(3)
		slices.Sort(got)
		if want := []string{"bad-1", "bad-2", "good"}; !slices.Equal(got, want) {
			t.Errorf("lost clients of %v, want %v", got, want)
		}
		s.await("the failures are counted", func() bool { return s.owner.Stats().FailedCallbacks == 2 })
		for _, id := range []string{"bad-1", "good"} {
			if _, err := s.ask(id, "note", 1); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

// The link to the node with the client is lost, and nobody says anything.
// req: MB-04
func TestALostLinkLosesTheClientsBehindIt(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		ref := s.create("a")
		p := s.member(t)
		p.send(&wire.Bind{
			Correlation: 1, Session: 1, BindingGen: 1,
			Ref: wire.Ref{
				ID: []byte(ref.ID), ObjGen: ref.ObjectGen, Mesh: []byte(ref.Mesh), RID: []byte(ref.RID),
				Lifecycle: ref.Lifecycle, OwnerGen: ref.OwnerGen,
			},
		})
		s.await("the Actor is bound", func() bool { bound, err := s.ask("a", "bound", nil); return bound == 1 && err == nil })
		p.conn.Close()
		if got, want := s.disconnected(1), []string{"a"}; !slices.Equal(got, want) {
			t.Errorf("lost clients of %v, want %v", got, want)
		}
	})
}

// hall is an Entry Spot that notes its life.
type hall struct {
	notes chan string
	fails error
	hangs chan struct{}
}

func (h *hall) OnInitialize(c *zlnode.SpotCall) error {
	h.notes <- "initialize " + c.Spot().Type()
	return h.fails
}

func (h *hall) OnClosing(c *zlnode.SpotCall, reason zlnode.ClosingReason) error {
	if _, ok := c.Deadline(); !ok {
		h.notes <- "no deadline"
	}
	if h.hangs != nil {
		<-h.hangs
	}
	if _, found, err := c.Node().FindActor(c, "s"); found && err == nil {
		h.notes <- "its actors are there"
	}
	if reason == zlnode.HostShutdown {
		h.notes <- "closing"
	}
	return nil
}

func hallApp(h *hall) *zlnode.App {
	app := zlnode.NewApp()
	zlnode.DefineEntrySpot(app, func(*zlnode.SpotContext) (*hall, error) { return h, nil })
	a := zlnode.DefineActor(app, "slow", func(*zlnode.ActorContext) (*struct{}, error) { return &struct{}{}, nil }, zlnode.DisableRelocation)
	zlnode.OnRequest(a, "wait", func(c *zlnode.ActorCall, _ *struct{}, _ struct{}) (struct{}, error) {
		h.notes <- "turn"
		return struct{}{}, nil
	})
	return app
}

// req: CR-16, CL-02
func TestAnEntrySpotIsInitializedFirstAndClosedLast(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		h := &hall{notes: make(chan string, 100)}
		n, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), hallApp(h))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: "s", Type: "slow"}); err != nil {
			t.Fatal(err)
		}
		if err := zlnode.Send(w.ctx, n.Actor("s"), "none", 1); err != nil {
			t.Fatal(err)
		}
		if _, err := zlnode.Request[struct{}](w.ctx, n.Actor("s"), "wait", struct{}{}); err != nil {
			t.Fatal(err)
		}
		w.stop(n)
		close(h.notes)
		var got []string
		for s := range h.notes {
			got = append(got, s)
		}
		if want := []string{"initialize entry", "turn", "its actors are there", "closing"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// req: CL-02
func TestAnEntrySpotIsClosedBehindWhatItsActorsHadAccepted(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		h, g := &hall{notes: make(chan string, 100)}, newGate()
		app := zlnode.NewApp()
		zlnode.DefineEntrySpot(app, func(*zlnode.SpotContext) (*hall, error) { return h, nil })
		a := zlnode.DefineActor(app, "slow", func(*zlnode.ActorContext) (*struct{}, error) { return &struct{}{}, nil }, zlnode.DisableRelocation)
		zlnode.OnSend(a, "work", func(*zlnode.ActorCall, *struct{}, int) error {
			g.pass()
			h.notes <- "work"
			return nil
		})
		n, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), app)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.CreateActor(w.ctx, zlnode.CreateActor{ID: "busy", Type: "slow"}); err != nil {
			t.Fatal(err)
		}
		const count = 3
		for range count {
			if err := zlnode.Send(w.ctx, n.Actor("busy"), "work", 1); err != nil {
				t.Fatal(err)
			}
		}
		receive(t, g.entered) // the first one runs, the others wait
		stopped := make(chan struct{})
		go func() { defer close(stopped); w.stop(n) }()
		for zlnode.KindOf(zlnode.Send(w.ctx, n.Actor("busy"), "none", 1)) != zlnode.ShuttingDown {
			continue
		}
		for range 50 { // time for a closing that does not wait
			if _, _, err := n.FindActor(w.ctx, "busy"); err != nil {
				t.Fatal(err)
			}
		}
		close(g.open)
		receive(t, stopped)
		close(h.notes)
		var got []string
		for s := range h.notes {
			got = append(got, s)
		}
		if want := []string{"initialize entry", "work", "work", "work", "closing"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestAnEntrySpotThatFailsToInitializeFailsTheStart(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		h := &hall{notes: make(chan string, 100), fails: errors.New("no map for today")}
		_, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), hallApp(h))
		wantKind(t, err, zlnode.InternalFailure)
		if !strings.Contains(err.Error(), "no map for today") {
			t.Errorf("the error does not say why: %v", err)
		}
	})
}

// A closing that hangs costs the shutdown its time, not more.
//
// req: CL-03
func TestAnEntrySpotThatHangsIsCutShort(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		h := &hall{notes: make(chan string, 100), hangs: make(chan struct{})}
		n, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), hallApp(h))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
		defer cancel()
		err = n.Shutdown(ctx)
		wantKind(t, err, zlnode.DeadlineExceeded)
		if r, over := n.ShutdownResult(); !over || r != (zlnode.ShutdownResult{Outcome: zlnode.ShutdownForced, Reason: zlnode.ShutdownDeadlineExceeded}) {
			t.Errorf("it ended %v %v", r.Outcome, r.Reason)
		}
		close(h.hangs)
	})
}
