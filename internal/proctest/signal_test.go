package proctest

import (
	"context"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/witness"
)

// terminated is a, of toBeDrained, that was told to end by a signal.
func terminated(t *testing.T, opts Options, step string) (*Cluster, context.Context, time.Time) {
	t.Helper()
	c, ctx := toBeDrained(t, &kindsOfUnits[0], opts)
	if step != "" {
		no(t, c.nodes["b"].arm(step+"=stop"))
	}
	said, err := c.nodes["a"].view()
	no(t, err)
	if !said.Ready {
		t.Error("a node that serves is not ready")
	}
	began := time.Now()
	no(t, c.nodes["a"].terminate())
	if step == "" {
		return c, ctx, began
	}
	if got, err := c.nodes["b"].heard("failpoint"); err != nil || got != step {
		t.Fatalf("%s: %v", got, err)
	}
	no(t, c.nodes["b"].stands())
	if said, err = c.nodes["a"].view(); err != nil || said.Ready || said.State != zlnode.HostRelocating.String() {
		t.Errorf("while its objects leave it says %+v, %v", said, err)
	}
	return c, ctx, began
}

// A signal has a node's objects leave, and the node end in order: with status 0, and no message
// and no Session is lost.
func TestASignalHasANodeLeave(t *testing.T) {
	t.Parallel()
	c, ctx, _ := terminated(t, Options{Follow: follow, Budget: 20 * time.Second}, "")
	if status := c.nodes["a"].exit(); status != zlnode.ExitStopped {
		t.Errorf("it ends with %d: %v", status, c.nodes["a"].all("ended"))
	}
	no(t, c.Progress(ctx, 100, 0))
	if n := c.load.lost.Load(); n > 0 {
		t.Errorf("%d Sessions were lost", n)
	}
	if lost := check(t, ctx, c, witness.Rules{Faultless: true}); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
}

// A node whose target does not answer ends within its budget all the same, or when a second signal
// says so, and says by its status that objects were left.
func TestASignalledNodeWaitsForNoTargetForEver(t *testing.T) {
	t.Parallel()
	run := func(name string, budget, within time.Duration, signals int) {
		t.Run(name, func(t *testing.T) {
			needFailpoints(t)
			t.Parallel()
			c, ctx, began := terminated(t, Options{Lease: ttl, Budget: budget}, "R07.before")
			for range signals {
				began = time.Now()
				no(t, c.nodes["a"].terminate())
			}
			status := c.nodes["a"].exit()
			if took := time.Since(began); status != zlnode.ExitObjectsLeft && status != zlnode.ExitDisorder || took > within {
				t.Errorf("it ends with %d after %v: %v", status, took, c.nodes["a"].all("ended"))
			}
			no(t, c.nodes["b"].resume())
			no(t, c.StartNode("a"))
			c.mayEnd = true
			lost := check(t, ctx, c, witness.Rules{Lossy: true})
			if len(lost) == 0 {
				t.Error("nothing was left behind")
			}
		})
	}
	run("budget", 5*time.Second, 8*time.Second, 0)
	if all {
		run("second signal", time.Minute, 20*time.Second, 1)
	}
}
