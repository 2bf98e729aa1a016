package zlnode_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/wire"
)

// The limits of moves change while moves run: more lets go what waits, less keeps back what
// comes, and fails nothing that has begun.
func TestLimitsOfMovesChangeWhileMovesRun(t *testing.T) {
	const chunk = 1 << 10
	tuned := crossingOptions{tune: func(c *node.Config) { c.Moves = node.MoveLimits{ChunkBytes: chunk, LinkBytes: chunk, Restores: 1} }}
	onCrossing(t, tuned, func(t *testing.T, x *crossing) {
		change := func(n *zlnode.Node, to func(*zlnode.RelocationLimits)) {
			t.Helper()
			l := n.RelocationLimits()
			to(&l)
			if err := n.SetRelocationLimits(l); err != nil {
				t.Fatal(err)
			}
			if now := n.RelocationLimits(); now != l {
				t.Errorf("the limits are %+v, and not %+v", now, l)
			}
		}
		chunks := func() int { n, _ := x.roads.Passed("a", "b", wire.CmdStateChunk); return n }

		// One chunk is under way, and nobody acknowledges it: there is room for another one.
		x.asks(x.c, strings.Repeat("x", 16*chunk))
		still := x.roads.At(stallBefore, "b", "a", wire.CmdMoveProgress, 2)
		x.goes(walkTo{Timeout: 20 * time.Second})
		receive(t, still.Reached)
		before := chunks()
		if before != 1 {
			t.Fatalf("%d chunks are under way, and there was room for one", before)
		}
		change(x.a, func(l *zlnode.RelocationLimits) { l.LinkBytes = -1 })
		x.await("another chunk", func() bool { return chunks() > before })

		// It was told the size of its chunks; the next move is told another one.
		change(x.b, func(l *zlnode.RelocationLimits) { l.ChunkBytes = 8 * chunk })
		x.roads.GoOn("a", "b")
		x.arrives("b", x.spot.ID)
		first := chunks()
		if first < 16 {
			t.Errorf("the state came in %d chunks", first)
		}

		// One is restored at a time; then there is room for two, and for one again.
		entered, release := x.inRestore()
		others := make([]zlnode.ActorRef, 3)
		for i := range others {
			others[i] = x.createActorAt(x.c, "a", "walker")
		}
		goes := func(ref zlnode.ActorRef) {
			t.Helper()
			if _, err := zlnode.Request[struct{}](x.ctx, x.c.Actor(ref.ID), "join", walkTo{Spot: x.spot.ID, Timeout: 20 * time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		goes(others[0])
		receive(t, entered)
		goes(others[1])
		x.await("its state has come", func() bool { return chunks() == first+2 })
		change(x.b, func(l *zlnode.RelocationLimits) { l.MaxRestores = 2 })
		receive(t, entered)
		change(x.b, func(l *zlnode.RelocationLimits) { l.MaxRestores = 1 })
		change(x.a, func(l *zlnode.RelocationLimits) { l.MaxMoves = 1 })
		goes(others[2]) // has no permit yet
		release()
		for range others {
			if done := receive(t, x.walk.ended); done.Outcome != zlnode.JoinAccepted {
				t.Errorf("a join ended %+v", done)
			}
		}
		if n := chunks() - first; n != len(others) {
			t.Errorf("%d small states came in %d chunks", len(others), n)
		}
		x.inOrder()
	})
}

// Limits that make no sense change nothing, and those that are not set are the defaults.
func TestLimitsOfMovesAreChecked(t *testing.T) {
	t.Parallel()
	n := newWorld(t, "").start(zlnode.Config{RID: "a"}, zlnode.NewApp())
	defaults := zlnode.RelocationLimits{LinkBytes: 16 << 20, NodeBytes: -1, ChunkBytes: 256 << 10, MaxMoves: 64, MaxRestores: 64}
	if now := n.RelocationLimits(); now != defaults {
		t.Errorf("the limits at the start are %+v", now)
	}
	set := zlnode.RelocationLimits{LinkBytes: 1, NodeBytes: 2, ChunkBytes: 1 << 20, MaxMoves: 65_536, MaxRestores: 1}
	if err := n.SetRelocationLimits(set); err != nil {
		t.Error(err)
	}
	for _, bad := range []zlnode.RelocationLimits{
		{ChunkBytes: 1<<10 - 1}, {ChunkBytes: 1<<20 + 1}, {MaxMoves: -1}, {MaxRestores: -1}, {MaxMoves: 65_537}, {MaxRestores: 65_537},
	} {
		wantKind(t, n.SetRelocationLimits(bad), zlnode.InvalidOperation)
	}
	if now := n.RelocationLimits(); now != set {
		t.Errorf("the limits are %+v, and not %+v", now, set)
	}
	var all sync.WaitGroup
	seen := make([]zlnode.RelocationLimits, 8)
	for i := range seen {
		all.Go(func() {
			_ = n.SetRelocationLimits(zlnode.RelocationLimits{MaxMoves: i + 1, MaxRestores: i + 1})
			seen[i] = n.RelocationLimits()
		})
	}
	all.Wait()
	if slices.ContainsFunc(seen, func(l zlnode.RelocationLimits) bool { return l.MaxMoves != l.MaxRestores }) {
		t.Errorf("limits of several changes are mixed: %+v", seen)
	}
	if err := n.SetRelocationLimits(zlnode.RelocationLimits{}); err != nil || n.RelocationLimits() != defaults {
		t.Errorf("the defaults are %+v: %v", n.RelocationLimits(), err)
	}
}
