package proctest

import (
	"context"
	"crypto/rand"
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
	return onHostsWith(t, Options{Servers: []string{"a", "b"}, Timeout: 3 * time.Second, Lease: lease}, nodes...)
}

func onHostsWith(t *testing.T, opts Options, nodes ...string) (*Cluster, *Hosts, context.Context) {
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
	opts.Hosts = hosts
	c, ctx := cluster(t, opts)
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

// sees waits until the nodes of a have the link to the peer, or have it not.
func (c *Cluster) sees(t *testing.T, ctx context.Context, rid, peer string, ready bool) {
	t.Helper()
	no(t, poll(ctx, rid+" sees "+peer, func() (bool, error) {
		said, err := c.nodes[rid].view()
		return (said.Peers[peer] == zlnode.PeerReady.String()) == ready, err
	}))
}

// hops has the Actors go from node to node, as they can when all links are there.
func (c *Cluster) hops(t *testing.T, ctx context.Context) {
	t.Helper()
	c.Quiet()
	c.Load(ctx, 1, c.opts.Servers...)
	no(t, c.Progress(ctx, 500, 20))
}

// A node that does not hear one of its peers any more, and is heard by it, has no link to it
// within the time of liveness, and neither has the other; all others have noticed nothing.
// When it hears again the link is there again.
//
// req: FO-07
func TestOnHostsARoadIsCutOneWay(t *testing.T) {
	c, hosts, ctx := onHosts(t, 0)
	no(t, hosts.Deafen("b", "a"))
	c.sees(t, ctx, "a", "b", false)
	c.sees(t, ctx, "b", "a", false)
	no(t, c.Progress(ctx, 500, 0))
	if n := c.load.failed.Load(); n > 0 {
		t.Errorf("%d messages failed that had nothing to do with the road", n)
	}
	no(t, hosts.Listen("b"))
	c.sees(t, ctx, "a", "b", true)
	c.sees(t, ctx, "b", "a", true)
	c.hops(t, ctx)
	if lost := check(t, ctx, c, witness.Rules{Lossy: true}); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
}

// A process that dies while its cable is out closes no connection: its peers find out by
// themselves, and meet the next process of its name.
//
// req: FO-07 FO-08
func TestOnHostsADeadPeerSaysNothing(t *testing.T) {
	c, hosts, ctx := onHosts(t, 0)
	no(t, hosts.Unplug("b"))
	c.nodes["b"].kill()
	no(t, hosts.Plug("b"))
	c.sees(t, ctx, "a", "b", false)
	c.sees(t, ctx, gatewayRID, "b", false)
	no(t, c.Progress(ctx, 200, 0)) // of a's Actors
	no(t, c.StartNode("b"))
	c.sees(t, ctx, "a", "b", true)
	c.sees(t, ctx, gatewayRID, "b", true)
	no(t, poll(ctx, "the new process takes Actors", func() (bool, error) {
		made, err := c.sender.CreateActor(ctx, zlnode.CreateActor{ID: "new-" + rand.Text(), Type: walkerType})
		return err == nil && made.Ref.RID == "b", err
	}))
	check(t, ctx, c, witness.Rules{Lossy: true})
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
	c.sees(t, ctx, "a", "b", true)
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
	for _, o := range c.objects {
		if !o.actor() {
			continue
		}
		ref, found, err := c.sender.FindActor(ctx, o.id)
		no(t, err)
		if found && ref.RID == rid {
			return ref.ID
		}
	}
	t.Fatalf("no Actor is at %s", rid)
	return ""
}
