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

// drainable is a cluster of three servers that can be drained, with objects of all kinds under load:
// Actors, some of which hop among rooms, a hall with members, and cells. More Actors are created
// all the time.
func drainable(t *testing.T, opts Options) (*Cluster, context.Context) {
	t.Helper()
	opts.Servers, opts.Follow, opts.Pace = []string{"a", "b", "d"}, follow, 10*time.Millisecond
	c, ctx := cluster(t, opts)
	no(t, c.Populate(ctx, 4))
	no(t, c.members(ctx, "hall", hallType, 4))
	no(t, c.cells(ctx, 3))
	c.Load(ctx, 1, c.opts.Servers...)
	c.Create(ctx)
	t.Cleanup(c.Quiet)
	no(t, c.Progress(ctx, 200, 4))
	return c, ctx
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
// lives there, Actors hop and more are created: no message is lost, doubled or refused, and no
// Session ends.
//
// req: FO-14
func TestServersAreDrainedInTurn(t *testing.T) {
	t.Parallel()
	c, ctx := drainable(t, Options{Timeout: 30 * time.Second})
	for _, rid := range c.opts.Servers {
		c.relocates(t, ctx, rid, zlnode.Relocate{Timeout: 20 * time.Second})
		c.replaced(t, ctx, rid)
		no(t, c.Progress(ctx, 200, 4))
		if !all && rid == "b" {
			break // a has what came from b, and so on
		}
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

// Of three servers one is drained while another one is killed, or stands for longer than its
// lease, in the middle of what it is sent. What comes of the drain is what the node says of
// itself, and the next drain succeeds.
//
// req: FO-14
func TestAServerIsDrainedWhileAnotherOneIsHurt(t *testing.T) {
	needFailpoints(t)
	t.Parallel()
	for _, action := range []string{"stop", "exit"} {
		if !all && action != "stop" {
			continue
		}
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			c, ctx := drainable(t, Options{Lease: ttl, Timeout: 3 * time.Second})
			no(t, c.nodes["b"].arm("R07.after@2="+action))
			no(t, c.nodes["a"].relocate(&maintained))
			if got, err := c.nodes["b"].heard("failpoint"); err != nil {
				t.Fatalf("%s: %v; a has ended with %v", got, err, c.nodes["a"].all("relocated"))
			}
			if action == "stop" {
				no(t, c.nodes["b"].stands())
				wait(ctx, ttl+ttl/2)
				no(t, c.nodes["b"].resume())
			} else {
				again(t, c, "b")
			}
			drainEnds(t, ctx, c)
			no(t, c.sender.WaitPeers(ctx, 2)) // of which a may be none any more
			c.drained(t, ctx, "a")
			no(t, c.StartNode("a"))
			no(t, c.Progress(ctx, 100, 0))
			lost := check(t, ctx, c, witness.Rules{Lossy: true, JoinsFail: true})
			if action == "stop" && len(lost) > 0 {
				t.Errorf("lost %v", lost)
			}
		})
	}
}

// drained has a node be relocated, however often that takes, and stop.
func (c *Cluster) drained(t *testing.T, ctx context.Context, rid string) {
	t.Helper()
	p := c.nodes[rid]
	no(t, poll(ctx, rid+" is relocated", func() (bool, error) {
		if err := p.relocate(&maintained); err != nil {
			return false, err
		}
		r, err := p.relocated()
		return r.Outcome == zlnode.RelocateRelocated && err == nil, errors.Join(err, fmt.Errorf("%+v", r))
	}))
	no(t, p.stop())
}
