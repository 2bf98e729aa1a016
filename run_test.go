package zlnode_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/store"
)

// running is a node that RunUntilSignal ends.
type running struct {
	*world
	walk    *walkWorld
	n       *zlnode.Node
	signals chan os.Signal
	ended   chan zlnode.RunResult
}

func newRunning(t *testing.T, w *world, policy zlnode.RelocationPolicy) *running {
	e := &running{world: w, walk: &walkWorld{}, signals: make(chan os.Signal), ended: make(chan zlnode.RunResult, 1)}
	e.n = w.start(shortLease(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), e.walk.app(policy))
	return e
}

func (e *running) runs(ctx context.Context, o zlnode.RunOptions) {
	e.t.Helper()
	if !e.n.Ready() {
		e.t.Error("the node serves and is not ready")
	}
	o.Signals = e.signals
	go func() { e.ended <- e.n.RunUntilSignal(ctx, o) }()
}

func (e *running) signal(s os.Signal) {
	e.t.Helper()
	select {
	case e.signals <- s:
	case <-time.After(10 * time.Second):
		e.t.Fatal("nobody takes a signal")
	}
}

// hangs makes an Actor whose handler is at the gate until the test's end.
func (e *running) hangs() {
	e.t.Helper()
	made, err := e.n.CreateActor(e.ctx, zlnode.CreateActor{ID: "walker", Type: "walker"})
	if err != nil {
		e.t.Fatal(err)
	}
	stopped := e.walk.gate.stop(e.t, e.world, e.n.Actor(made.Ref.ID))
	e.t.Cleanup(func() {
		e.walk.gate.open <- struct{}{}
		_ = receive(e.t, stopped) // its sender's request has ended
	})
	e.cut = e.n
}

func (e *running) ends(exit int) zlnode.RunResult {
	e.t.Helper()
	r := receive(e.t, e.ended)
	if r.ExitCode() != exit {
		e.t.Errorf("the exit status is %d, want %d: %+v", r.ExitCode(), exit, r)
	}
	if e.n.Ready() {
		e.t.Error("it is ready behind its end")
	}
	return r
}

// A signal has the node be not ready, be relocated and shut down; what others still send in the
// lead is served.
func TestASignalEndsANodeInOrder(t *testing.T) {
	t.Parallel()
	e := newRunning(t, onEmbedded(t), zlnode.DisableRelocation)
	e.runs(e.ctx, zlnode.RunOptions{Lead: time.Hour, Budget: 2 * time.Hour})
	e.signal(syscall.SIGTERM)
	e.eventually("it is not ready", func() bool { return !e.n.Ready() })
	if s := e.n.State(); s != zlnode.HostServing {
		t.Errorf("it is %v in the lead", s)
	}
	if _, err := e.n.CreateActor(e.ctx, zlnode.CreateActor{ID: "late", Type: "walker"}); err != nil {
		t.Errorf("in the lead: %v", err)
	}
	e.signal(syscall.SIGTERM) // hurries
	r := e.ends(zlnode.ExitObjectsLeft)
	if r.Signal != syscall.SIGTERM || r.Relocation != nil || r.ObjectsLeft != 1 || r.Shutdown != nil || r.Abandoned != nil {
		t.Errorf("%+v", r)
	}
	if s := e.n.State(); s != zlnode.HostStopped {
		t.Errorf("it is %v", s)
	}
}

func TestASignalRelocatesWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options zlnode.RunOptions
		actor   bool
		exit    int
		check   func(zlnode.RunResult) bool
	}{
		"nothing": {exit: zlnode.ExitStopped, check: func(r zlnode.RunResult) bool {
			return r.Relocation != nil && r.Relocation.Outcome == zlnode.RelocateRelocated
		}},
		"what may not move": {actor: true, exit: zlnode.ExitObjectsLeft, check: func(r zlnode.RunResult) bool {
			return r.Relocation != nil && r.Relocation.Reason == zlnode.ReasonRelocationDisabled && r.ObjectsLeft == 1
		}},
		"what shall end": {actor: true, options: zlnode.RunOptions{StayAndEnd: true}, exit: zlnode.ExitStopped, check: func(r zlnode.RunResult) bool {
			return r.Relocation == nil && r.ObjectsLeft == 0
		}},
		"to no version": {actor: true, options: zlnode.RunOptions{Relocate: zlnode.Relocate{Mode: zlnode.RollingUpdate}}, exit: zlnode.ExitObjectsLeft, check: func(r zlnode.RunResult) bool {
			return r.Relocation != nil && r.Relocation.Outcome == zlnode.RelocateBlocked && r.Relocation.Text != ""
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newRunning(t, onEmbedded(t), zlnode.DisableRelocation)
			if c.actor {
				if _, err := e.n.CreateActor(e.ctx, zlnode.CreateActor{ID: "walker", Type: "walker"}); err != nil {
					t.Fatal(err)
				}
			}
			e.runs(e.ctx, c.options)
			e.signal(os.Interrupt)
			if r := e.ends(c.exit); !c.check(r) || r.Signal != os.Interrupt {
				t.Errorf("%+v", r)
			}
		})
	}
}

// What is there goes to another node, and messages may follow it for a while; a client's do not
// fail meanwhile.
func TestASignalHasObjectsGoOnElsewhere(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		e := newRunning(t, w, zlnode.RecreateOnRelocation)
		c := w.client("c", 1, e.walk.app(zlnode.RecreateOnRelocation))
		made, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: "walker", Type: "walker"})
		if err != nil {
			t.Fatal(err)
		}
		b := w.server("b", e.walk.app(zlnode.RecreateOnRelocation))
		w.linked(e.n, 1)
		w.linked(c, 2)
		w.linked(b, 1)
		e.runs(w.ctx, zlnode.RunOptions{Budget: time.Hour}) // Config.MessageFollowDuration is less
		e.signal(syscall.SIGTERM)
		w.eventually("it is relocated", func() bool { return e.n.State() == zlnode.HostRelocated })
		where, err := zlnode.Request[string](w.ctx, c.Actor(made.Ref.ID), "where", struct{}{})
		if err != nil || where[:1] != "b" {
			t.Errorf("it is at %q: %v", where, err)
		}
		if p, ok := e.n.Relocation(); !ok || p.SafeToShutdown {
			t.Errorf("nothing follows it: %+v", p)
		}
		e.signal(syscall.SIGTERM)
		r := e.ends(zlnode.ExitStopped)
		if r.Relocation == nil || r.Relocation.Outcome != zlnode.RelocateRelocated || r.ObjectsLeft != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// A second signal cuts Shutdown short, and a third one does not wait for it any more.
func TestFurtherSignalsHurry(t *testing.T) {
	t.Parallel()
	t.Run("second", func(t *testing.T) {
		t.Parallel()
		e := newRunning(t, onEmbedded(t), zlnode.DisableRelocation)
		e.hangs()
		e.runs(e.ctx, zlnode.RunOptions{Budget: time.Hour, Hurry: 20 * time.Millisecond, StayAndEnd: true})
		e.signal(syscall.SIGTERM)
		e.signal(syscall.SIGTERM)
		if r := e.ends(zlnode.ExitDisorder); r.Shutdown == nil {
			t.Errorf("%+v", r)
		}
	})
	t.Run("third", func(t *testing.T) {
		t.Parallel()
		e := newRunning(t, onEmbedded(t), zlnode.DisableRelocation)
		e.hangs()
		e.runs(e.ctx, zlnode.RunOptions{Budget: time.Hour, Hurry: time.Hour})
		e.signal(syscall.SIGTERM)
		e.signal(os.Interrupt)
		e.eventually("it stops", func() bool { return e.n.State() == zlnode.HostDraining })
		e.signal(os.Interrupt)
		if r := e.ends(130); r.Abandoned != os.Interrupt || r.Signal != syscall.SIGTERM || r.Shutdown != nil {
			t.Errorf("%+v", r)
		}
	})
}

// What else ends a node ends the wait for a signal, and one that hosts nothing has less to end.
func TestWhatElseEndsANode(t *testing.T) {
	t.Parallel()
	t.Run("context", func(t *testing.T) {
		t.Parallel()
		e := newRunning(t, onEmbedded(t), zlnode.RecreateOnRelocation)
		close(e.signals) // as one does who has none
		ctx, cancel := context.WithCancel(e.ctx)
		e.runs(ctx, zlnode.RunOptions{})
		cancel()
		if r := e.ends(zlnode.ExitStopped); r.Signal != nil || r.Relocation == nil {
			t.Errorf("%+v", r)
		}
	})
	t.Run("without objects", func(t *testing.T) {
		t.Parallel()
		e := &running{world: newWorld(t, ""), signals: make(chan os.Signal), ended: make(chan zlnode.RunResult, 1)}
		e.n = e.start(zlnode.Config{RID: "a"}, zlnode.NewApp())
		e.runs(e.ctx, zlnode.RunOptions{})
		e.signal(syscall.SIGTERM)
		if r := e.ends(zlnode.ExitStopped); r.Signal != syscall.SIGTERM || r.Relocation != nil {
			t.Errorf("%+v", r)
		}
	})
	t.Run("shutdown", func(t *testing.T) {
		t.Parallel()
		e := newRunning(t, onEmbedded(t), zlnode.RecreateOnRelocation)
		e.runs(e.ctx, zlnode.RunOptions{})
		e.stop(e.n)
		if r := e.ends(zlnode.ExitStopped); r.Signal != nil || r.Relocation != nil {
			t.Errorf("%+v", r)
		}
	})
	t.Run("lease", func(t *testing.T) {
		t.Parallel()
		e := newRunning(t, onEmbedded(t), zlnode.RecreateOnRelocation)
		e.cut = e.n
		e.runs(e.ctx, zlnode.RunOptions{})
		st := e.location()
		e.eventually("another process has the lease", func() bool { // which the node may write again first
			e.forget()
			r, err := st.AcquireLease(e.ctx, "a", "another", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return r.Reason == store.Applied
		})
		if r := e.ends(zlnode.ExitLost); r.Lost == nil {
			t.Errorf("%+v", r)
		}
	})
}
