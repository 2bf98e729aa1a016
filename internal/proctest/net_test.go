package proctest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/witness"
)

// onHosts is a cluster whose processes have a host each, under load. Actors hop among nodes.
func onHosts(t *testing.T, lease time.Duration, nodes ...string) (*Cluster, *Hosts, context.Context) {
	t.Helper()
	if os.Getenv("ZLNODE_NETTEST") == "" {
		t.Skip("run by make test-net: it needs root, and makes network namespaces")
	}
	hosts, err := NewHosts()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hosts.Close(); err != nil {
			t.Error(err)
		}
	})
	c, ctx := cluster(t, Options{Hosts: hosts, Servers: []string{"a", "b"}, Timeout: 3 * time.Second, Lease: lease})
	if err := c.Populate(ctx, 8); err != nil {
		t.Fatal(err)
	}
	c.Load(ctx, 1, nodes...)
	t.Cleanup(c.Quiet)
	if err := c.Progress(ctx, 200, 0); err != nil {
		t.Fatal(err)
	}
	return c, hosts, ctx
}

// no fails the test for an error.
func no(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hops has the Actors go from node to node, as they can when all links are there.
func (c *Cluster) hops(t *testing.T, ctx context.Context) {
	t.Helper()
	c.Quiet()
	c.Load(ctx, 1, c.opts.Servers...)
	no(t, c.Progress(ctx, 500, 20))
}

// A cable that is out for moments costs time only.
func TestOnHostsACableFlaps(t *testing.T) {
	c, hosts, ctx := onHosts(t, 0, "a", "b")
	for range 40 {
		no(t, hosts.Unplug("b"))
		wait(ctx, 50*time.Millisecond)
		no(t, hosts.Plug("b"))
		wait(ctx, 150*time.Millisecond)
	}
	no(t, c.Progress(ctx, 500, 20))
	if lost := check(t, ctx, c, witness.Rules{}); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
}

// A node behind a slow road makes those wait who send to it more than it takes, and then
// fail; nobody else.
//
// req: FO-07
func TestOnHostsARoadIsSlow(t *testing.T) {
	c, hosts, ctx := onHosts(t, 0)
	near, far := c.at(t, ctx, "a"), c.at(t, ctx, "b")
	no(t, hosts.Slow("b", "1mbit"))
	flood := make(chan error, 1)
	go func() {
		for {
			if err := zlnode.Send(ctx, c.sender.Actor(far).As(zlnode.Raw), "tell", make([]byte, 512<<10)); err != nil {
				flood <- err
				return
			}
		}
	}()
	for full := false; !full; {
		one, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err := zlnode.Request[string](one, c.sender.Actor(near), "where", struct{}{})
		cancel()
		no(t, err)
		select {
		case err := <-flood:
			if full = true; !errors.Is(err, zlnode.DeadlineExceeded) {
				t.Errorf("who sends too much is told %v", err)
			}
		default:
		}
	}
	no(t, hosts.Slow("b", ""))
	c.hops(t, ctx)
	if lost := check(t, ctx, c, witness.Rules{Lossy: true}); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
}

// A node that the Store cannot hear stops acting when its lease is over, though its links are
// there; the others go on. When the Store hears it again, so does it, and it was not restarted.
//
// req: FO-18
func TestOnHostsTheStoreIsOutOfReachOfOneNode(t *testing.T) {
	c, hosts, ctx := onHosts(t, 4*time.Second)
	near, far := c.at(t, ctx, "a"), c.at(t, ctx, "b")
	no(t, hosts.Deafen(storeHost, "b"))
	where := func(id string) error {
		one, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := zlnode.Request[string](one, c.sender.Actor(id), "where", struct{}{})
		return err
	}
	no(t, poll(ctx, "b stops acting", func() (bool, error) {
		err := where(far)
		return errors.Is(err, zlnode.Unavailable), err
	}))
	no(t, where(near))
	no(t, hosts.Listen(storeHost))
	no(t, poll(ctx, "b acts again", func() (bool, error) {
		err := where(far)
		return err == nil, err
	}))
	c.hops(t, ctx)
	if lost := check(t, ctx, c, witness.Rules{Lossy: true}); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
}

// at returns an Actor that is at the node.
func (c *Cluster) at(t *testing.T, ctx context.Context, rid string) string {
	t.Helper()
	for i := range c.load.actors {
		ref, found, err := c.sender.FindActor(ctx, actorID(i))
		no(t, err)
		if found && ref.RID == rid {
			return ref.ID
		}
	}
	t.Fatalf("no Actor is at %s", rid)
	return ""
}
