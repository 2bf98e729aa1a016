package proctest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/witness"
)

// newer is the program that others are updated to. The selection has this program be it; all is
// one that is compiled for it.
func newer(t *testing.T) build {
	t.Helper()
	b := build{version: "1.1.0", number: 1, speaks: [2]uint16{1, 2}}
	if !all {
		return b
	}
	b.number, b.exe = 2, filepath.Join(t.TempDir(), "newer")
	args := []string{"test", "-c", "-o", b.exe, "-tags=newer,invariants,failpoints", "."}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	b.number = 0 // it says so itself
	return b
}

// Servers of one version are replaced by those of a newer program one after the other, while both
// run and objects move: all go on, what the newer program adds to their states is kept by whom
// it means nothing, and no object goes back.
//
// req: FO-14
func TestServersAreUpdatedInTurn(t *testing.T) {
	t.Parallel()
	next, number := newer(t), 1
	if next.exe != "" {
		number = 2
	}
	c, ctx := started(t, Options{Servers: []string{"a", "b"}, Timeout: 30 * time.Second, Follow: follow, Pace: 10 * time.Millisecond}, map[string]build{
		"a": {version: "1.0.0"}, "b": {version: "1.0.0"}, "d": next,
	})
	no(t, c.Actors(ctx, 6))
	c.Load(ctx, 1)
	c.Create(ctx)
	t.Cleanup(c.Quiet)
	no(t, c.Progress(ctx, 100, 0))
	c.opts.Servers = append(c.opts.Servers, "d")
	no(t, c.StartNode("d"))
	no(t, c.sender.WaitPeers(ctx, 3))
	update := zlnode.Relocate{Mode: zlnode.RollingUpdate, TargetVersion: next.version, Timeout: 20 * time.Second}
	for _, rid := range []string{"a", "b"} {
		c.relocates(t, ctx, rid, update)
		c.builds[rid] = next
		c.replaced(t, ctx, rid)
		no(t, c.Progress(ctx, 100, 0))
	}
	c.relocates(t, ctx, "d", zlnode.Relocate{Timeout: 20 * time.Second}) // so that all have moved as the newer program has it
	c.Quiet()
	want := fmt.Sprintf("since build %d", number)
	for _, o := range c.objects[:6] {
		got, err := zlnode.Request[string](ctx, c.to(&o), "state", struct{}{})
		if ref, _, _ := c.sender.FindActor(ctx, o.id); err != nil || ref.RID == "d" || got != want && ref.OwnerGen > 2 {
			t.Errorf("%s at %s has %q of the newer program, %v; want %q", o.id, ref.RID, got, err, want)
		}
	}
	if n := c.load.lost.Load(); n > 0 {
		t.Errorf("%d Sessions were lost", n)
	}
	if lost := check(t, ctx, c, witness.Rules{Faultless: true, JoinsFail: true}); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
}
