package proctest

import (
	"os"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/witness"
)

// storeSteps are those at which the Store is asked, or was.
var storeSteps = []string{
	"R01.before", "R01.after", "R02.after", "R05.before", "R08.before", "R08.S.after", "R11.before", "R11.after", "R12.before", "R13.before", "R14.after",
}

// The Store stands still while a process is at a step, for less or more than the leases.
func TestTheStoreIsPausedAtAStep(t *testing.T) {
	t.Parallel()
	run := func(pause time.Duration) func(*testing.T, string) {
		return func(t *testing.T, step string) {
			c, ctx := hurt(t, Options{}, "a", step, "stop")
			if err := c.storage.pause(); err != nil {
				t.Fatal(err)
			}
			if err := c.nodes["a"].resume(); err != nil {
				t.Fatal(err)
			}
			wait(ctx, pause)
			if err := c.storage.resume(); err != nil {
				t.Fatal(err)
			}
			if lost := check(t, ctx, c, witness.Rules{Lossy: true}); len(lost) > 0 {
				t.Errorf("lost %v", lost)
			}
		}
	}
	t.Run("shortly", func(t *testing.T) { eachStep(t, storeSteps, "", run(ttl/3)) })
	t.Run("longer than leases", func(t *testing.T) { eachStep(t, storeSteps, "R11.before", run(ttl+ttl/2)) })
}

// The Store is killed while a process is at a step, and comes back with all that it had
// answered, in another epoch. Moves that were behind their boundary leave their Actors to be
// freed by hand: nobody knows that the other end's change was not among what is lost.
func TestTheStoreIsKilledAtAStep(t *testing.T) {
	if os.Getenv("ZLNODE_TEST_REDIS") == "" {
		t.Skip("ZLNODE_TEST_REDIS names no redis-server")
	}
	eachStep(t, storeSteps, "R11.before", func(t *testing.T, step string) {
		c, ctx := hurt(t, Options{Redis: true}, "a", step, "stop")
		c.storage.kill()
		if err := c.nodes["a"].resume(); err != nil {
			t.Fatal(err)
		}
		wait(ctx, ttl/4)
		if err := c.StartStore(ctx); err != nil {
			t.Fatal(err)
		}
		check(t, ctx, c, witness.Rules{Lossy: true})
	})
}
