package proctest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/failpoint"
	"github.com/zlnode/zlnode/internal/witness"
)

// ttl is the lease of nodes that are hurt.
const ttl = 2 * time.Second

// all says that the whole matrix is to be run, not the selection.
var all = os.Getenv("ZLNODE_PROCTEST") == "all"

// needFailpoints skips a test in a program that has none.
func needFailpoints(t *testing.T) {
	t.Helper()
	if !failpoint.Enabled {
		t.Skip("built without the tag failpoints")
	}
}

// sourceSteps, targetSteps and ownerSteps are what a source, a target and the owner of the
// Sessions pass in a move. The selection is what is run each time.
var (
	sourceSteps = []string{
		"R01.before", "R01.after", "R03.before", "R03.after", "R04.before", "R04.after", "R05.before", "R05.after", "R06.before",
		"R08.S.before", "R08.S.after", "R09.before", "R09.after", "R10.before", "R10.after", "R13.S.before", "R13.S.after",
		"R14.S.before", "R14.S.after", "R16.before", "R16.after",
	}
	targetSteps = []string{
		"R01.T.before", "R01.T.after", "R02.before", "R02.after", "R05.T.before", "R05.T.after", "R06.after", "R07.before", "R07.after",
		"R08.before", "R08.after", "R09.T.before", "R09.T.after", "R10.T.before", "R10.T.after", "R11.before", "R11.after",
		"R12.before", "R12.after", "R13.before", "R13.after", "R14.before", "R14.after", "R15.before", "R15.after",
	}
	ownerSteps = []string{"R03.O.before", "R03.O.after", "R15.O.before", "R15.O.after"}
)

// eachStep runs its steps beside others: most of their time they wait.
func eachStep(t *testing.T, steps []string, selection string, f func(t *testing.T, step string)) {
	needFailpoints(t)
	t.Parallel()
	for _, step := range steps {
		if all || strings.Contains(" "+selection+" ", " "+step+" ") {
			t.Run(step, func(t *testing.T) {
				t.Parallel()
				f(t, step)
			})
		}
	}
}

// hurt is a cluster of two servers, a and b, between which Actors hop, and whose node rid is to
// do something at a step. It returns when that has come to it.
func hurt(t *testing.T, opts Options, rid, step, action string) (*Cluster, context.Context) {
	t.Helper()
	opts.Servers, opts.Lease, opts.Timeout = []string{"a", "b"}, ttl, 3*time.Second
	c, ctx := cluster(t, opts)
	if err := c.Populate(ctx, 6); err != nil {
		t.Fatal(err)
	}
	c.Load(ctx, 1, "a", "b")
	t.Cleanup(c.Quiet)
	if err := c.Progress(ctx, 100, 6); err != nil {
		t.Fatal(err)
	}
	if err := c.nodes[rid].arm(fmt.Sprintf("%s@3=%s", step, action)); err != nil {
		t.Fatal(err)
	}
	if got, err := c.nodes[rid].heard("failpoint"); err != nil || got != step {
		t.Fatalf("%s: %v", got, err)
	}
	if action == "stop" { // it has said so before
		if err := c.nodes[rid].stands(); err != nil {
			t.Fatal(err)
		}
	}
	return c, ctx
}

// again starts a node of a process that has ended.
func again(t *testing.T, c *Cluster, rid string) {
	t.Helper()
	<-c.nodes[rid].done
	if err := c.StartNode(rid); err != nil {
		t.Fatal(err)
	}
}

func TestAProcessIsKilledAtAStep(t *testing.T) {
	t.Parallel()
	run := func(rid string) func(*testing.T, string) {
		return func(t *testing.T, step string) {
			c, ctx := hurt(t, Options{}, rid, step, "exit")
			again(t, c, rid)
			check(t, ctx, c, witness.Rules{Lossy: true})
		}
	}
	t.Run("source", func(t *testing.T) { eachStep(t, sourceSteps, "R09.after", run("a")) })
	t.Run("target", func(t *testing.T) { eachStep(t, targetSteps, "R10.T.before R11.after", run("a")) })
	t.Run("owner", func(t *testing.T) { eachStep(t, ownerSteps, "R15.O.before", run(gatewayRID)) })
}

// A process that is stopped at a step, and goes on before its lease ends or behind that.
func TestAProcessIsPausedAtAStep(t *testing.T) {
	t.Parallel()
	run := func(rid string, pause time.Duration) func(*testing.T, string) {
		return func(t *testing.T, step string) {
			c, ctx := hurt(t, Options{}, rid, step, "stop")
			wait(ctx, pause)
			if err := c.nodes[rid].resume(); err != nil {
				t.Fatal(err)
			}
			if lost := check(t, ctx, c, witness.Rules{Lossy: true}); len(lost) > 0 {
				t.Errorf("lost %v", lost)
			}
		}
	}
	for _, of := range []struct {
		name, short, long string
		rid               string
		steps             []string
	}{
		{"source", "", "R08.S.before", "a", sourceSteps},
		{"target", "", "", "a", targetSteps},
		{"owner", "", "", gatewayRID, ownerSteps},
	} {
		t.Run(of.name+" shortly", func(t *testing.T) { eachStep(t, of.steps, of.short, run(of.rid, ttl/3)) })
		t.Run(of.name+" past its lease", func(t *testing.T) { eachStep(t, of.steps, of.long, run(of.rid, ttl+ttl/2)) })
	}
}

// A process stands at a step and the other end of its moves is killed; then it goes on.
func TestTheOtherEndIsKilledAtAStep(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, step string) {
		c, ctx := hurt(t, Options{}, "a", step, "stop")
		c.nodes["b"].kill()
		if err := c.nodes["a"].resume(); err != nil {
			t.Fatal(err)
		}
		again(t, c, "b")
		check(t, ctx, c, witness.Rules{Lossy: true})
	}
	t.Run("target", func(t *testing.T) { eachStep(t, sourceSteps, "", run) })
	t.Run("source", func(t *testing.T) { eachStep(t, targetSteps, "R11.before", run) })
}
