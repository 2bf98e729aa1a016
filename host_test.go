package zlnode_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// relocated asks for a planned maintenance and fails the test unless it ends as wanted.
func (w *world) relocated(n *zlnode.Node, reason zlnode.RelocateReason) zlnode.RelocateResult {
	w.t.Helper()
	r, err := n.Relocate(w.ctx, zlnode.Relocate{Timeout: 20 * time.Second})
	if err != nil || r.Reason != reason || (r.Outcome == zlnode.RelocateRelocated) != (reason == zlnode.ReasonNone) {
		w.t.Fatalf("the relocation of %s ended %v %v %q, %v; want %v", n.RID(), r.Outcome, r.Reason, r.Text, err, reason)
	}
	return r
}

// A node without objects is relocated at once, and others see that; Shutdown is allowed then.
func TestANodeWithoutObjectsIsRelocatedAtOnce(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		a, b := w.server("a", counterApp()), w.server("b", counterApp())
		w.linked(a, 1)
		w.linked(b, 1)
		if _, ok := a.Relocation(); ok || a.State() != zlnode.HostServing {
			t.Fatalf("it is %v", a.State())
		}
		for what, r := range map[string]zlnode.Relocate{
			"a version for maintenance": {TargetVersion: "2.0.0"},
			"no version":                {Mode: zlnode.RollingUpdate},
			"of a node without one":     {Mode: zlnode.RollingUpdate, TargetVersion: "2.0.0"},
			"a negative timeout":        {Timeout: -1},
		} {
			if _, err := a.Relocate(w.ctx, r); zlnode.KindOf(err) != zlnode.InvalidOperation || a.State() != zlnode.HostServing {
				t.Errorf("%s: %v", what, err)
			}
		}
		first := w.relocated(a, zlnode.ReasonNone)
		if a.State() != zlnode.HostRelocated {
			t.Fatalf("it is %v", a.State())
		}
		if again := w.relocated(a, zlnode.ReasonNone); again != first {
			t.Errorf("the second call got %+v", again)
		}
		p, ok := a.Relocation()
		if !ok || p.Running || p.RunsOn || p.Result == nil || *p.Result != first || !p.SafeToShutdown || len(p.Units) != 4 {
			t.Errorf("it shows %+v", p)
		}
		w.eventually("b sees that a does not serve", func() bool {
			return slices.ContainsFunc(b.Peers(), func(p zlnode.PeerStatus) bool { return p.RID == "a" && p.State == zlnode.PeerAdmitted })
		})
		c, err := a.CreateActor(w.ctx, zlnode.CreateActor{ID: "one", Type: "counter"})
		if err != nil || c.Ref.RID != "b" {
			t.Errorf("an Actor was created at %q, %v; want b", c.Ref.RID, err)
		}
		w.stop(a)
		if a.State() != zlnode.HostStopped {
			t.Errorf("it is %v", a.State())
		}
		w.relocated(a, zlnode.ReasonRuntimeNotReady)
	})
}

// req: S32
func TestANodeWhosePeersAreConfiguredByHandIsNotRelocated(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		b := w.server("b", counterApp())
		a := w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer, Peers: []zlnode.Peer{{RID: "b", Endpoint: b.Endpoint()}}}, counterApp())
		w.relocated(a, zlnode.ReasonManualTopologyUnsupported)
		if a.State() != zlnode.HostServing {
			t.Errorf("it is %v", a.State())
		}
		w.relocated(b, zlnode.ReasonNone) // whose peer is found by the Store
	})
}

// A Shutdown ends a relocation: who waits for it is told at once, and what has begun comes to its
// end or stays.
func TestAShutdownEndsARelocation(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		e := newEvacuation(w, 2)
		e.meet(e.serves("b", "1.0.0"))
		e.walk.restore = func(*walker, []byte) error {
			e.walk.gate.pass()
			return nil
		}
		ended := e.relocates(e.a, zlnode.Relocate{})
		receive(t, e.walk.gate.entered)
		stopped := make(chan error, 1)
		go func() { stopped <- e.a.Shutdown(w.ctx) }()
		e.wants(receive(t, ended), zlnode.ReasonShutdownRequested)
		if s := e.a.State(); s != zlnode.HostDraining && s != zlnode.HostStopped {
			t.Errorf("it is %v", s)
		}
		close(e.walk.gate.open)
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
		if r, over := e.a.ShutdownResult(); !over || r != (zlnode.ShutdownResult{}) {
			t.Errorf("it ended %+v, %v", r, over)
		}
		w.relocated(e.a, zlnode.ReasonRuntimeNotReady)
		(&joinWorld{world: w}).balanced()
	})
}

// req: CL-03
func TestAShutdownSaysWhatWasForced(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		b := w.server("b", counterApp())
		for what, c := range map[string]struct {
			closing func(c *zlnode.SpotCall) error
			reason  zlnode.ShutdownReason
		}{
			"in order":               {func(*zlnode.SpotCall) error { return nil }, zlnode.ShutdownReasonNone},
			"a failing callback":     {func(*zlnode.SpotCall) error { return zlnode.Errorf(zlnode.Rejected, "not yet") }, zlnode.ShutdownTeardownFailed},
			"a callback that panics": {func(*zlnode.SpotCall) error { panic("no") }, zlnode.ShutdownTeardownFailed},
		} {
			h := &lodge{closing: c.closing}
			n, err := zlnode.Start(w.ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer}), lodgeApp(h))
			if err != nil {
				t.Fatal(err)
			}
			if _, over := n.ShutdownResult(); over {
				t.Errorf("%s: it is over before it began", what)
			}
			err = n.Shutdown(w.ctx)
			r, over := n.ShutdownResult()
			want := zlnode.ShutdownResult{Reason: c.reason}
			if c.reason != zlnode.ShutdownReasonNone {
				want.Outcome = zlnode.ShutdownForced
			}
			if !over || r != want || (err == nil) != (want.Outcome == zlnode.ShutdownStopped) || n.State() != zlnode.HostStopped {
				t.Errorf("%s: it is %v and ended %v %v, %v; want %v %v", what, n.State(), r.Outcome, r.Reason, err, want.Outcome, want.Reason)
			}
			if _, ok := n.Relocation(); ok || b.Stats().Moves.In != 0 {
				t.Errorf("%s: something was relocated", what)
			}
		}
	})
}

// lodge is an Entry Spot of which only the end is looked at.
type lodge struct{ closing func(*zlnode.SpotCall) error }

func (l *lodge) OnClosing(c *zlnode.SpotCall, _ zlnode.ClosingReason) error { return l.closing(c) }

func lodgeApp(l *lodge) *zlnode.App {
	app := counterApp()
	zlnode.DefineEntrySpot(app, func(*zlnode.SpotContext) (*lodge, error) { return l, nil })
	return app
}

// A process that is killed runs no closing callback; one that is stopped does.
//
// req: CL-04
func TestAKilledProcessRunsNoClosingCallback(t *testing.T) {
	t.Parallel()
	w := onEmbedded(t)
	files := map[string]string{}
	for _, rid := range []string{"killed", "stopped"} {
		files[rid] = filepath.Join(t.TempDir(), "closed")
		c := w.childOf(childOrder{Config: w.config(zlnode.Config{RID: rid, Role: zlnode.RoleServer}), Closing: files[rid]})
		if rid == "killed" {
			c.kill()
		} else {
			c.stop()
		}
		if _, err := os.Stat(files[rid]); (err == nil) != (rid == "stopped") {
			t.Errorf("the callback of the process that was %s: %v", rid, err)
		}
	}
}

// While the Store does not answer nothing begins; if it does not answer when the node has begun to
// say so, the node serves again, and says that as soon as it can.
func TestARelocationNeedsTheStore(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		direct := w.url
		road := w.behindProxy()
		a := w.server("a", counterApp())
		w.url = direct
		b := w.server("b", counterApp())
		w.linked(b, 1)
		soon := zlnode.Relocate{Timeout: 150 * time.Millisecond}
		blocked := func(what string) {
			t.Helper()
			r, err := a.Relocate(w.ctx, soon)
			if err != nil || r.Reason != zlnode.ReasonStoreUnavailable || a.State() != zlnode.HostServing {
				t.Errorf("%s: it ended %v %q, %v, and is %v", what, r.Reason, r.Text, err, a.State())
			}
		}
		road.goAway()
		blocked("nobody answers")
		road.heal()
		road.barScript(lua.NodePublish)
		blocked("nobody is told")
		road.passAll()
		road.loseAnswerTo(lua.NodePublish)
		ended := make(chan zlnode.RelocateResult, 1)
		go func() {
			r, _ := a.Relocate(w.ctx, zlnode.Relocate{})
			ended <- r
		}()
		receive(t, road.lost)
		road.heal()
		if r := receive(t, ended); r.Outcome != zlnode.RelocateRelocated {
			t.Errorf("it ended %v %q", r.Reason, r.Text)
		}
		w.eventually("the Store has its state", func() bool {
			list, err := w.location().ListNodes(w.ctx, 0)
			return err == nil && slices.ContainsFunc(list.Nodes, func(d store.Descriptor) bool { return d.RID == "a" && d.State == store.Relocated })
		})
	})
}

// A reservation that was made at the node before it was relocated, and of which nobody has told
// it, becomes an Actor, which leaves with the others.
func TestAReservationThatNobodyToldOfLeaves(t *testing.T) {
	t.Parallel()
	w := onEmbedded(t)
	e := newEvacuation(w, 1)
	_, err := w.location().Reserve(w.ctx, store.Reserve{
		ID: "untold", Kind: store.Actor, Type: "walker", Op: store.OperationKey{SourceRID: "x", SourceLifecycle: 1, Op: store.OpID{1}},
		TargetRID: "a", TargetLifecycle: store.LeaseGen(e.a.Lifecycle()), Timeout: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.meet(e.serves("b", "1.0.0"))
	e.wants(receive(t, e.relocates(e.a, zlnode.Relocate{})), zlnode.ReasonNone)
	e.refs = append(e.refs, zlnode.ActorRef{ID: "untold"})
	if at := e.all(); at["b"] != 2 {
		t.Errorf("they are at %v", at)
	}
}
