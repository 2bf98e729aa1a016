package zlnode_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/wire"
)

// chunksTo returns a function that says of which sizes the chunks of the moves were that have
// been announced to b.
func (x *crossing) chunksTo() (announced func() []uint32) {
	sizes := make(chan uint32, 64)
	x.roads.Watch("a", "b", wire.CmdRestore, func(r wire.Record) { sizes <- r.(*wire.Restore).Manifest.ChunkBytes })
	return func() (all []uint32) {
		for len(sizes) > 0 {
			all = append(all, <-sizes)
		}
		return all
	}
}

// The chunks of an attempt are as large as its target has told, whatever the source would send,
// also when all is sent again, and behind a lost link.
// req: RL-24
func TestChunksAreAsLargeAsTheTargetHasTold(t *testing.T) {
	const chunk = 2 << 10
	tuned := crossingOptions{tune: func(c *node.Config) {
		if c.RID == "b" {
			c.Moves.ChunkBytes = chunk
		}
	}}
	onCrossing(t, tuned, func(t *testing.T, x *crossing) {
		announced := x.chunksTo()
		x.asks(x.c, strings.Repeat("x", 64<<10))
		restore, tries := walkAdapter{&walkWorld{}}, 0
		x.walk.restore = func(v *walker, state []byte) error {
			if tries++; tries == 1 {
				return zlnode.Errorf(zlnode.InternalFailure, "not yet")
			}
			return restore.Restore(v, state)
		}
		end := x.roads.At(cutBehind, "a", "b", wire.CmdStateChunk, 3)
		go func() {
			<-end.Reached
			x.roads.Open("a", "b")
		}()
		x.goes(walkTo{Timeout: 20 * time.Second})
		x.arrives("b", x.spot.ID)
		x.asks(x.c, "there")
		sizes := announced()
		if len(sizes) != 3 || slices.ContainsFunc(sizes, func(n uint32) bool { return n != chunk }) {
			t.Errorf("chunks of %v bytes were announced, want %d three times", sizes, chunk)
		}
		if chunks, bytes := x.roads.Passed("a", "b", wire.CmdStateChunk); bytes > chunks*(chunk+wire.StateChunkHead) {
			t.Errorf("%d chunks have %d bytes", chunks, bytes)
		}
	})
}

// The commit is one change of the row, in which owner, membership and both nodes' room are as
// they will be: nothing is changed again for the source, or when the target has opened.
// req: RL-21, ID-02
func TestAMovesCommitIsTheOnlyChange(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		st := x.location()
		before, _, err := st.Read(x.ctx, x.ref.ID)
		if err != nil {
			t.Fatal(err)
		}
		here := x.createSpotAt(x.c, "a", "single").ID
		x.goes(walkTo{Spot: here})
		x.arrives("a", here)
		entered, release := x.inJoined()
		x.goes(walkTo{Timeout: 20 * time.Second})
		receive(t, entered)
		row, found, err := st.Read(x.ctx, x.ref.ID)
		if err != nil || !found || row.RID != "b" || row.SpotID != x.spot.ID || !row.InUserSpot || row.Move != nil ||
			row.ObjectGen != before.ObjectGen || row.OwnerGen != before.OwnerGen+1 {
			t.Errorf("its row is %+v, and was %+v: %v", row, before, err)
		}
		x.inOrder()
		release()
		x.arrives("b", x.spot.ID)
		x.await("the source is told that it left", func() bool { return slices.Contains(x.walk.notes.of("did"), "leave at a") })
		if now, _, err := st.Read(x.ctx, x.ref.ID); err != nil || now.Version != row.Version {
			t.Errorf("its row was changed again: %+v, and was %+v: %v", now, row, err)
		}
		x.inOrder()
	})
}
