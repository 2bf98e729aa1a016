package zlnode_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
)

// Nodes whose programs have a protocol version in common are linked, and one is the other's target
// in a rolling update. A node that speaks only newer ones is refused, which each of the two shows
// of the other, and it is nobody's target.
//
// req: S32
func TestANodeOfAnotherProtocolVersion(t *testing.T) {
	t.Parallel()
	w := onEmbedded(t)
	app := func() *zlnode.App { return (&walkWorld{}).app(zlnode.RecreateOnRelocation) }
	speaks := func(rid, version string, oldest, newest uint16) *zlnode.Node {
		return w.tuned(zlnode.Config{RID: rid, Role: zlnode.RoleServer, AppVersion: version}, app(), func(c *node.Config) {
			c.Speaks = [2]uint16{oldest, newest}
		})
	}
	old := speaks("old", "1.0.0", 1, 1)
	made, err := old.CreateActor(w.ctx, zlnode.CreateActor{ID: "one", Type: "walker"})
	if err != nil {
		t.Fatal(err)
	}
	strange := speaks("strange", "2.0.0", 2, 3)
	refuses := func(n *zlnode.Node, rid string) {
		w.eventually(n.RID()+" shows that the versions do not match", func() bool {
			return slices.ContainsFunc(n.Peers(), func(p zlnode.PeerStatus) bool {
				return p.RID == rid && p.State == zlnode.PeerReconnecting && strings.Contains(p.LastFailure, "Rejected: badVersion")
			})
		})
	}
	refuses(old, "strange")
	rolls := func(timeout time.Duration) zlnode.RelocateResult {
		r, err := old.Relocate(w.ctx, zlnode.Relocate{Mode: zlnode.RollingUpdate, TargetVersion: "2.0.0", Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := rolls(100 * time.Millisecond); r.Reason != zlnode.ReasonTargetUnavailable || !strings.Contains(r.Text, "1 are not linked") {
		t.Errorf("without a link it ended %+v", r)
	}
	if ref, found, err := old.FindActor(w.ctx, "one"); err != nil || !found || ref != made.Ref || old.State() != zlnode.HostServing {
		t.Errorf("the Actor is %+v %v %v, and the node %v", ref, found, err, old.State())
	}
	w.stop(strange)

	next := speaks("next", "2.0.0", 1, 3)
	if r := rolls(20 * time.Second); r.Outcome != zlnode.RelocateRelocated {
		t.Fatalf("it ended %+v", r)
	}
	w.eventually("the Actor is at next", func() bool {
		ref, found, err := next.FindActor(w.ctx, "one")
		return err == nil && found && ref.RID == "next" && ref.ObjectGen == made.Ref.ObjectGen
	})
}
