package zlnode_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
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
// req: S32
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
