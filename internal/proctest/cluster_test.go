package proctest

import (
	"context"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/witness"
)

// cluster starts one for a test, which ends with it whatever happens.
func cluster(t *testing.T, opts Options) (*Cluster, context.Context) {
	t.Helper()
	return started(t, opts, nil)
}

// started is cluster with nodes of other builds.
func started(t *testing.T, opts Options, builds map[string]build) (*Cluster, context.Context) {
	t.Helper()
	if opts.Patience == 0 {
		opts.Patience = 90 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), opts.Patience)
	t.Cleanup(cancel)
	opts.Dir = t.TempDir()
	if opts.Servers == nil {
		opts.Servers = []string{"a", "b", "d"}
	}
	if opts.Timeout == 0 {
		opts.Timeout = 5 * time.Second
	}
	c, err := start(ctx, opts, builds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.killAll)
	return c, ctx
}

// check is the end of each test: heal, audit, look at what was witnessed. It returns what was
// freed by hand.
func check(t *testing.T, ctx context.Context, c *Cluster, rules witness.Rules) (lost []string) {
	t.Helper()
	c.Quiet()
	lost, err := c.Settle(ctx)
	if err != nil {
		t.Error(err)
	}
	if err := c.Audit(ctx); err != nil {
		t.Error(err)
	}
	rules.Freed = lost
	for _, wrong := range c.Stop(rules) {
		t.Error(wrong)
	}
	t.Logf("%d messages, %d failed, %d hops, lost %v", c.load.done.Load(), c.load.failed.Load(), c.load.Hops.Load(), lost)
	return lost
}

func TestWithoutAFaultNothingFails(t *testing.T) {
	c, ctx := cluster(t, Options{Timeout: 30 * time.Second})
	if err := c.Populate(ctx, 4); err != nil {
		t.Fatal(err)
	}
	c.Load(ctx, 2, "a", "b", "d")
	if err := c.Progress(ctx, 2000, 40); err != nil {
		t.Error(err)
	}
	if lost := check(t, ctx, c, witness.Rules{Faultless: true}); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
	for kind := witness.TurnBegan; kind <= witness.JoinCompleted; kind++ {
		if n := c.seen[kind]; n == 0 && kind != witness.Refused {
			t.Errorf("nobody has witnessed %v, so nothing was checked of it", kind)
		}
	}
	t.Log(c.seen)
}
