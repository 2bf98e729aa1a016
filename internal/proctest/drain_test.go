package proctest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/witness"
	"github.com/zlnode/zlnode/store"
)

// follow is how long messages follow what has left a node that is drained, which stops behind
// that. A node takes nothing shorter.
const follow = 5500 * time.Millisecond

// drainable is a cluster whose servers can be drained, with Actors under load.
func drainable(t *testing.T, opts Options) (*Cluster, context.Context) {
	t.Helper()
	if opts.Servers == nil {
		opts.Servers = []string{"a", "b", "d"}
	}
	opts.Follow, opts.Pace = follow, 10*time.Millisecond
	return cluster(t, opts)
}

// relocates has a node lose what it has to others, and looks that nothing is left of it there.
func (c *Cluster) relocates(t *testing.T, ctx context.Context, rid string, r zlnode.Relocate) {
	t.Helper()
	p, began := c.nodes[rid], time.Now()
	no(t, p.relocate(&r))
	result, err := p.relocated()
	no(t, err)
	if result.Outcome != zlnode.RelocateRelocated {
		t.Fatalf("the relocation of %s ended with %v %v %q", rid, result.Outcome, result.Reason, result.Text)
	}
	left := time.Since(began)
	no(t, poll(ctx, rid+" has nothing any more", func() (bool, error) { // as the last targets commit
		held, err := c.view.Held(ctx, rid, store.LeaseGen(p.hello.Lifecycle), store.HeldOwned, "", 10)
		return err == nil && len(held) == 0, errors.Join(err, fmt.Errorf("the Store has %v at it", held))
	}))
	no(t, poll(ctx, rid+" may be shut down", func() (bool, error) {
		far, err := p.relocation()
		return far.SafeToShutdown, err
	}))
	t.Logf("%s was relocated in %v, and may be shut down after %v", rid, left, time.Since(began))
}

// again has a node that was relocated stop in order, and starts one in its place.
func (c *Cluster) replaced(t *testing.T, ctx context.Context, rid string) {
	t.Helper()
	began := time.Now()
	no(t, c.nodes[rid].stop())
	stopped := time.Since(began)
	no(t, c.StartNode(rid))
	no(t, c.sender.WaitPeers(ctx, len(c.opts.Servers)))
	t.Logf("%s has stopped after %v, and is there again after %v", rid, stopped, time.Since(began))
}

// Servers are drained and replaced one after the other, while senders and clients talk to what
// lives there and more is created: no message is lost, doubled or refused, and no Session ends.
//
// req: FO-14
func TestServersAreDrainedInTurn(t *testing.T) {
	t.Parallel()
	c, ctx := drainable(t, Options{Timeout: 30 * time.Second})
	no(t, c.Actors(ctx, 6))
	c.Load(ctx, 1)
	c.Create(ctx)
	t.Cleanup(c.Quiet)
	no(t, c.Progress(ctx, 200, 0))
	for _, rid := range c.opts.Servers {
		c.relocates(t, ctx, rid, zlnode.Relocate{Timeout: 20 * time.Second})
		c.replaced(t, ctx, rid)
		no(t, c.Progress(ctx, 200, 0))
	}
	if n := c.load.lost.Load(); n > 0 {
		t.Errorf("%d Sessions were lost", n)
	}
	if lost := check(t, ctx, c, witness.Rules{Faultless: true, JoinsFail: true}); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
	if c.load.unmade != nil {
		t.Errorf("a creation failed: %v", c.load.unmade)
	}
}
