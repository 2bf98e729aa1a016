package proctest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/witness"
)

// paths are the ways by which messages go through a cluster, each with what became of them.
type paths struct {
	mu    sync.Mutex
	ends  map[string]map[string]int // of each path by kind; "ok" is one
	names []string
}

func (p *paths) note(path string, err error) {
	how := "ok"
	if err != nil {
		how = zlnode.KindOf(err).String()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends[path] == nil {
		p.ends[path] = map[string]int{}
		p.names = append(p.names, path)
	}
	p.ends[path][how]++
}

// take returns what there was since the last time, and the table of it.
func (p *paths) take(phase string) (ends map[string]map[string]int, table string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n", phase)
	slices.Sort(p.names)
	for _, name := range p.names {
		fmt.Fprintf(&b, "  %-28s", name)
		for _, how := range slices.Sorted(maps.Keys(p.ends[name])) {
			fmt.Fprintf(&b, " %s %d", how, p.ends[name][how])
		}
		b.WriteString("\n")
	}
	ends, p.ends, p.names = p.ends, map[string]map[string]int{}, nil
	return ends, b.String()
}

// walk goes all paths again and again, each with a goroutine of its own and a deadline for
// each message.
func (p *paths) walk(ctx context.Context, c *Cluster, ids map[string]string) *sync.WaitGroup {
	var work sync.WaitGroup
	each := func(path string, f func(context.Context) error) {
		work.Go(func() {
			for ctx.Err() == nil {
				one, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
				p.note(path, f(one))
				cancel()
				wait(ctx, 5*time.Millisecond)
			}
		})
	}
	for rid, id := range ids {
		each("actor at "+rid, func(ctx context.Context) error {
			_, err := zlnode.Request[string](ctx, c.sender.Actor(id), "where", struct{}{})
			return err
		})
		each("node "+rid, func(ctx context.Context) error {
			_, err := zlnode.Request[string](ctx, c.sender.Peer(rid), "whoami", struct{}{})
			return err
		})
	}
	for _, name := range []string{channelName, ownChannelName} {
		each("channel "+name, func(ctx context.Context) error {
			_, err := zlnode.Request[string](ctx, c.sender.Channel(name), "whoami", struct{}{})
			return err
		})
	}
	return &work
}

// Five processes, of which one is cut off for 20 s, then one stands still for 20 s, then the
// Store is away for 10 s, all under load: what fails says so by a kind, what has nothing to do
// with it does not fail, and in the end all paths work again, though nothing was restarted.
//
// req: FO-07 FO-18
func TestOnHostsFiveProcessesAreHurt(t *testing.T) {
	c, hosts, ctx := onHostsWith(t, Options{Redis: true, Servers: []string{"a", "b", "d"}, Timeout: 3 * time.Second, Patience: 4 * time.Minute})
	ids := map[string]string{}
	for _, rid := range c.opts.Servers {
		ids[rid] = c.at(t, ctx, rid)
	}
	no(t, c.sender.WaitChannel(ctx, channelName, 3))
	no(t, c.sender.WaitChannel(ctx, ownChannelName, 3))
	p := &paths{ends: map[string]map[string]int{}}
	walking, stop := context.WithCancel(ctx)
	work := p.walk(walking, c, ids)
	defer work.Wait()
	defer stop()

	// whole waits until all paths work again, and returns what there was till then.
	whole := func(phase string) map[string]map[string]int {
		t.Helper()
		hurt, table := p.take(phase)
		t.Log(table)
		for path, how := range hurt {
			for kind := range how {
				if kind != "ok" && kind != zlnode.Unavailable.String() && kind != zlnode.DeadlineExceeded.String() {
					t.Errorf("%s: %s failed with %s", phase, path, kind)
				}
			}
		}
		no(t, poll(ctx, "all paths work after "+phase, func() (bool, error) {
			wait(ctx, time.Second)
			ends, table := p.take("after " + phase)
			for _, how := range ends {
				if how["ok"] == 0 || len(how) > 1 {
					return false, fmt.Errorf("%s", table)
				}
			}
			return len(ends) == 2*len(ids)+2, nil
		}))
		return hurt
	}
	untouched := func(phase string, hurt map[string]map[string]int, but string) {
		t.Helper()
		for path, how := range hurt {
			if !strings.HasSuffix(path, " "+but) && !strings.HasPrefix(path, "channel ") && len(how) > 1 {
				t.Errorf("%s: %s failed, which has nothing to do with it: %v", phase, path, how)
			}
		}
	}
	wait(ctx, 2*time.Second)
	untouched("before", whole("nothing is wrong"), "")

	no(t, hosts.Unplug("a"))
	wait(ctx, 20*time.Second)
	no(t, hosts.Plug("a"))
	untouched("a is cut off", whole("a is cut off"), "a")

	no(t, c.nodes["b"].pause())
	wait(ctx, 20*time.Second)
	no(t, c.nodes["b"].resume())
	untouched("b stands still", whole("b stands still"), "b")

	c.storage.kill()
	wait(ctx, 10*time.Second)
	no(t, c.StartStore(ctx))
	for path, how := range whole("the Store is away") { // the links stay, and what needs no owner goes on
		if !strings.HasPrefix(path, "actor at ") && len(how) > 1 {
			t.Errorf("the Store is away: %s failed, which does not need it: %v", path, how)
		}
	}

	stop()
	work.Wait()
	for rid := range ids {
		if p := c.nodes[rid]; !p.alive() {
			t.Errorf("%s has ended", rid)
		}
	}
	check(t, ctx, c, witness.Rules{Lossy: true})
}
