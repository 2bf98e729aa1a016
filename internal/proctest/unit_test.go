package proctest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/witness"
)

// kindOfUnit is what a drained node has, whose moves pass steps.
type kindOfUnit struct {
	name     string
	populate func(c *Cluster, ctx context.Context) error // at the one server that there is
	lacks    []string                                    // the steps of a Join's move that its moves have not
	also     []string                                    // those that only its source has
	nth      int                                         // of the hits of a step, at which it is hurt
}

// Nobody asks for the move of a unit, and no member's Spot hears of it. A Spot is asked for, but
// not the application. Whether anything is sent by an old route is chance.
var (
	unasked   = []string{"R01.before", "R01.T.before", "R01.T.after", "R13.before", "R13.after", "R16.before", "R16.after"}
	asked     = []string{"R01.T.before", "R01.T.after", "R13.after", "R16.before", "R16.after"}
	unbound   = append([]string{"R15.before", "R15.after", "R03.O.before", "R03.O.after", "R15.O.before", "R15.O.after"}, asked...)
	inventory = []string{"inventory.before", "inventory.after", "prepare.after"}
)

// Of a room the first to move is the room alone; of its members' moves it is one of the later ones.
var kindsOfUnits = []kindOfUnit{
	{"actor", func(c *Cluster, ctx context.Context) error { return c.Actors(ctx, 6) }, unasked, nil, 1},
	{"room", func(c *Cluster, ctx context.Context) error { return c.members(ctx, placePrefix+"a", roomType, 5) }, asked, nil, 1},
	{"member", func(c *Cluster, ctx context.Context) error { return c.members(ctx, placePrefix+"a", roomType, 5) }, unasked, nil, 3},
	{"hall", func(c *Cluster, ctx context.Context) error { return c.members(ctx, "hall", hallType, 5) }, asked, inventory, 1},
	{"cell", func(c *Cluster, ctx context.Context) error { return c.cells(ctx, 6) }, unbound, nil, 1},
}

// of returns those of the steps that the kind's moves have.
func (k *kindOfUnit) of(steps []string) []string {
	return slices.DeleteFunc(slices.Clone(steps), func(step string) bool { return slices.Contains(k.lacks, step) })
}

func (k *kindOfUnit) source() []string { return append(k.of(sourceSteps), k.also...) }

// toBeDrained is a cluster with one server, a, that has what the kind is of, and another one, b,
// that is empty; both under load.
func toBeDrained(t *testing.T, k *kindOfUnit, opts Options) (*Cluster, context.Context) {
	t.Helper()
	opts.Servers, opts.Timeout, opts.Pace = []string{"a"}, 3*time.Second, 5*time.Millisecond
	c, ctx := cluster(t, opts)
	no(t, k.populate(c, ctx))
	c.opts.Servers = append(c.opts.Servers, "b")
	no(t, c.StartNode("b"))
	no(t, c.sender.WaitPeers(ctx, 2))
	c.Load(ctx, 1)
	t.Cleanup(c.Quiet)
	no(t, c.Progress(ctx, 100, 0))
	no(t, poll(ctx, "the clients are bound", func() (bool, error) {
		bound := c.load.bound.Load()
		return bound == int64(c.actors()), fmt.Errorf("%d are", bound)
	}))
	return c, ctx
}

// maintained is what a is asked for.
var maintained = zlnode.Relocate{Timeout: 8 * time.Second}

// A drain passes the steps that the tests below hurt it at, and nothing fails.
func TestADrainPassesItsSteps(t *testing.T) {
	needFailpoints(t)
	t.Parallel()
	for i := range kindsOfUnits {
		k := &kindsOfUnits[i]
		if k.nth > 1 || !all && k.name != "hall" {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c, ctx := toBeDrained(t, k, Options{Follow: follow})
			want := map[string][]string{"a": k.source(), "b": k.of(targetSteps), gatewayRID: k.of(ownerSteps)}
			everything := slices.Concat(sourceSteps, targetSteps, ownerSteps, inventory)
			for rid := range want {
				no(t, c.nodes[rid].arm(strings.Join(everything, "=sleep:1ms;")+"=sleep:1ms"))
			}
			c.relocates(t, ctx, "a", maintained)
			if lost := check(t, ctx, c, witness.Rules{Faultless: true, JoinsFail: true}); len(lost) > 0 {
				t.Errorf("lost %v", lost)
			}
			for rid, steps := range want {
				passed := slices.DeleteFunc(c.nodes[rid].all("failpoint"), func(step string) bool { return strings.HasPrefix(step, "R16.") })
				slices.Sort(passed)
				slices.Sort(steps)
				if !slices.Equal(passed, steps) {
					t.Errorf("%s has passed %v, want %v", rid, passed, steps)
				}
			}
		})
	}
}

// hurtDrain has a process do something at a step of the drain of a, and returns when that has come
// to it.
func hurtDrain(t *testing.T, k *kindOfUnit, rid, step, action string) (*Cluster, context.Context) {
	t.Helper()
	c, ctx := toBeDrained(t, k, Options{Lease: ttl})
	no(t, c.nodes[rid].arm(fmt.Sprintf("%s@%d=%s", step, k.nth, action)))
	no(t, c.nodes["a"].relocate(&maintained))
	if got, err := c.nodes[rid].heard("failpoint"); err != nil || got != step {
		t.Fatalf("%s: %v; a has ended with %v", got, err, c.nodes["a"].all("relocated"))
	}
	if action == "stop" {
		no(t, c.nodes[rid].stands())
	}
	return c, ctx
}

// drainEnds waits for the result of the drain of a, which lives, and looks whether a is what that says.
func drainEnds(t *testing.T, ctx context.Context, c *Cluster) {
	t.Helper()
	result, err := c.nodes["a"].relocated()
	no(t, err)
	want := zlnode.HostServing
	if result.Outcome == zlnode.RelocateRelocated {
		want = zlnode.HostRelocated
	}
	said, err := c.nodes["a"].view()
	no(t, err)
	if t.Logf("the drain has ended with %v %v %q", result.Outcome, result.Reason, result.Text); said.State != want.String() {
		t.Errorf("%s is %s, want %v", "a", said.State, want)
	}
}

// The processes of a drain are killed or paused at each step of the move of each kind of unit, or
// the other end is killed while one stands there.
//
// req: FO-14
func TestADrainIsHurtAtAStep(t *testing.T) {
	t.Parallel()
	type hurt struct {
		name, rid, action string
		steps             func(*kindOfUnit) []string
		selected          string // a kind and its step
		then              func(t *testing.T, ctx context.Context, c *Cluster) (mayLose bool)
	}
	killed := func(rid string) func(*testing.T, context.Context, *Cluster) bool {
		return func(t *testing.T, ctx context.Context, c *Cluster) bool {
			again(t, c, rid)
			if rid != "a" {
				drainEnds(t, ctx, c)
			}
			return true
		}
	}
	paused := func(rid string) func(*testing.T, context.Context, *Cluster) bool {
		return func(t *testing.T, ctx context.Context, c *Cluster) bool {
			wait(ctx, ttl+ttl/2)
			no(t, c.nodes[rid].resume())
			drainEnds(t, ctx, c)
			return false
		}
	}
	theOther := func(rid, other string) func(*testing.T, context.Context, *Cluster) bool {
		return func(t *testing.T, ctx context.Context, c *Cluster) bool {
			c.nodes[other].kill()
			no(t, c.nodes[rid].resume())
			return killed(other)(t, ctx, c)
		}
	}
	source := (*kindOfUnit).source
	target := func(k *kindOfUnit) []string { return k.of(targetSteps) }
	owner := func(k *kindOfUnit) []string { return k.of(ownerSteps) }
	for _, h := range []hurt{
		{"source is killed", "a", "exit", source, "hall/R10.after", killed("a")},
		{"target is killed", "b", "exit", target, "actor/R08.after", killed("b")},
		{"owner is killed", gatewayRID, "exit", owner, "", killed(gatewayRID)},
		{"source stands", "a", "stop", source, "", paused("a")},
		{"target stands", "b", "stop", target, "room/R11.before", paused("b")},
		{"source is killed while target stands", "b", "stop", target, "", theOther("b", "a")},
		{"target is killed while source stands", "a", "stop", source, "", theOther("a", "b")},
	} {
		for i := range kindsOfUnits {
			k := &kindsOfUnits[i]
			t.Run(k.name+"/"+h.name, func(t *testing.T) {
				steps := ""
				if of, step, _ := strings.Cut(h.selected, "/"); of == k.name {
					steps = step
				}
				eachStep(t, h.steps(k), steps, func(t *testing.T, step string) {
					c, ctx := hurtDrain(t, k, h.rid, step, h.action)
					mayLose := h.then(t, ctx, c)
					if lost := check(t, ctx, c, witness.Rules{Lossy: true, JoinsFail: true}); len(lost) > 0 && !mayLose {
						t.Errorf("lost %v", lost)
					}
				})
			})
		}
	}
}
