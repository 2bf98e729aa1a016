package zlnode_test

import (
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/scripts/lua"
)

// What is under way of a payload that the target has refused will not be acknowledged. It takes
// no room on the link from other moves, however long the refused one takes to end in the Store.
func TestARefusedPayloadTakesNoRoomFromOtherMoves(t *testing.T) {
	o := crossingOptions{road: "a", tune: func(c *node.Config) { c.Moves.ChunkBytes = 2 << 10 }}
	onCrossing(t, o, func(t *testing.T, x *crossing) {
		other := x.createActorAt(x.c, "a", "walker")
		x.asks(x.c, strings.Repeat("x", 64<<10))
		x.roads.Damage("a", "b", wire.CmdStateChunk, func(nth int, record []byte) {
			if nth == 2 {
				record[len(record)-1]++
			}
		})
		x.store.barScript(lua.MoveEnd)
		x.goes(walkTo{Timeout: 20 * time.Second})
		x.await("it is refused", func() bool { return x.store.barred.Load() > 0 })
		if _, err := zlnode.Request[struct{}](x.ctx, x.c.Actor(other.ID), "join", walkTo{Spot: x.spot.ID}); err != nil {
			t.Fatal(err)
		}
		if done := receive(t, x.walk.ended); done.Outcome != zlnode.JoinAccepted || done.Ref.ID != other.ID {
			t.Errorf("the first join that ended is %+v", done)
		}
		x.store.passAll()
		if done := receive(t, x.walk.ended); done.Outcome != zlnode.JoinFailed || zlnode.KindOf(done.Err) != zlnode.DataLost {
			t.Errorf("the refused one ended with %+v", done)
		}
		x.asks(x.c, "after")
		x.inOrder()
	})
}
