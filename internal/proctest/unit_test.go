package proctest

import (
	"context"
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
	// lacks are the steps of a Join's move that its moves have not.
	lacks []string
}

// unasked are those of a move that nobody asks for and of which no member's Spot hears. Whether
// anything is sent by an old route is chance.
var unasked = []string{"R01.before", "R01.T.before", "R01.T.after", "R13.before", "R13.after", "R16.before", "R16.after"}

var kindsOfUnits = []kindOfUnit{
	{"actor", func(c *Cluster, ctx context.Context) error { return c.Actors(ctx, 6) }, unasked},
	{"room", func(c *Cluster, ctx context.Context) error { return c.members(ctx, placePrefix+"a", roomType, 5) }, nil},
	{"hall", func(c *Cluster, ctx context.Context) error { return c.members(ctx, "hall", hallType, 5) }, nil},
	{"cell", func(c *Cluster, ctx context.Context) error { return c.cells(ctx, 5) }, nil},
}

func (k *kindOfUnit) of(steps []string) []string {
	return slices.DeleteFunc(slices.Clone(steps), func(step string) bool { return slices.Contains(k.lacks, step) })
}

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
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			c, ctx := toBeDrained(t, k, Options{Follow: follow})
			want := map[string][]string{"a": k.of(sourceSteps), "b": k.of(targetSteps), gatewayRID: ownerSteps}
			for rid, steps := range want {
				no(t, c.nodes[rid].arm(strings.Join(steps, "=sleep:1ms;")+"=sleep:1ms"))
			}
			c.relocates(t, ctx, "a", maintained)
			if lost := check(t, ctx, c, witness.Rules{Faultless: true, JoinsFail: true}); len(lost) > 0 {
				t.Errorf("lost %v", lost)
			}
			for rid, steps := range want {
				passed := c.nodes[rid].all("failpoint")
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
	no(t, c.nodes[rid].arm(step+"="+action))
	no(t, c.nodes["a"].relocate(&maintained))
	if got, err := c.nodes[rid].heard("failpoint"); err != nil || got != step {
		t.Fatalf("%s: %v", got, err)
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
		steps             []string
		selected          string // kinds and steps
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
	for _, h := range []hurt{
		{"source is killed", "a", "exit", sourceSteps, "", killed("a")},
		{"target is killed", "b", "exit", targetSteps, "actor R08.after", killed("b")},
		{"owner is killed", gatewayRID, "exit", ownerSteps, "", killed(gatewayRID)},
		{"source stands", "a", "stop", sourceSteps, "", paused("a")},
		{"target stands", "b", "stop", targetSteps, "actor R07.before", paused("b")},
		{"source is killed while target stands", "b", "stop", targetSteps, "", theOther("b", "a")},
		{"target is killed while source stands", "a", "stop", sourceSteps, "", theOther("a", "b")},
	} {
		for i := range kindsOfUnits {
			k := &kindsOfUnits[i]
			t.Run(k.name+"/"+h.name, func(t *testing.T) {
				of, steps, _ := strings.Cut(h.selected, " ")
				if of != k.name {
					steps = ""
				}
				eachStep(t, k.of(h.steps), steps, func(t *testing.T, step string) {
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
