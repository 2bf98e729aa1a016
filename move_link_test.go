package zlnode_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/wire"
)

// inRestore has the target's adapter wait until it is let go.
func (x *crossing) inRestore() (entered <-chan struct{}, release func()) {
	come, open := make(chan struct{}, 8), make(chan struct{})
	restore := walkAdapter{&walkWorld{}}
	x.walk.restore = func(v *walker, state []byte) error {
		come <- struct{}{}
		<-open
		return restore.Restore(v, state)
	}
	x.later(func() { close(open) })
	return come, x.release
}

// A link that ends at any moment of a move costs nothing but time: the move goes on over
// the next one, nothing is lost or doubled, and everything is in order.
// req: RL-05, RL-08, RL-14, RL-15
func TestAMoveGoesOnOverTheNextLink(t *testing.T) {
	type moment struct {
		name     string
		do       roadAction
		from, to string
		cmd      wire.Command
		nth      int
	}
	for _, m := range []moment{
		{"the question for admission is lost", cutBefore, "a", "b", wire.CmdJoinAdmit, 1},
		{"the question for admission has come", cutBehind, "a", "b", wire.CmdJoinAdmit, 1},
		{"the answer of admission is lost", cutBefore, "b", "a", wire.CmdReply, 1},
		{"the request to restore is lost", cutBefore, "a", "b", wire.CmdRestore, 1},
		{"the request to restore has come", cutBehind, "a", "b", wire.CmdRestore, 1},
		{"the first chunk is lost", cutBefore, "a", "b", wire.CmdStateChunk, 1},
		{"a chunk is lost", cutBefore, "a", "b", wire.CmdStateChunk, 3},
		{"a chunk has come", cutBehind, "a", "b", wire.CmdStateChunk, 3},
		{"the word of chunks is lost", cutBefore, "b", "a", wire.CmdMoveProgress, 3},
		{"relay-ready is lost", cutBefore, "b", "a", wire.CmdReply, 2},
		{"a relayed message is lost", cutBefore, "a", "b", wire.CmdRelay, 2},
		{"a relayed message has come", cutBehind, "a", "b", wire.CmdRelay, 3},
		{"the cutover is lost", cutBefore, "a", "b", wire.CmdCutover, 1},
		{"the cutover has come", cutBehind, "a", "b", wire.CmdCutover, 1},
		{"the word that it has left is lost", cutBefore, "b", "a", wire.CmdActorLeft, 1},
	} {
		t.Run(m.name, func(t *testing.T) {
			tuned := crossingOptions{tune: func(c *node.Config) { c.Moves.ChunkBytes, c.Moves.LinkBytes = 1<<10, 4<<10 }}
			onCrossing(t, tuned, func(t *testing.T, x *crossing) {
				x.bound().ticking()
				x.asks(x.c, string(slices.Repeat([]byte("x"), 64<<10))) // a state of many chunks
				entered, release := x.inRestore()
				end := x.roads.At(m.do, m.from, m.to, m.cmd, m.nth)
				go func() {
					<-end.Reached
					x.roads.Open("a", "b")
				}()
				stopped := x.stopped()
				x.tells(x.a, lines("old", 3)...)
				x.queueJoin(walkTo{Timeout: 20 * time.Second})
				x.tells(x.a, lines("behind", 3)...)
				x.walk.gate.open <- struct{}{}
				if err := receive(t, stopped); err != nil {
					t.Fatal(err)
				}
				receive(t, entered)
				x.tells(x.a, lines("moving", 5)...)
				release()
				x.arrives("b", x.spot.ID)
				receive(t, end.Reached)
				x.asks(x.c, "new")
				x.linked(x.a, 1)
				x.asks(x.a, "by the old route")
				x.asks(x.b, "at the target")
				x.playerReaches("a client's")
				did := x.walk.notes.of("did")
				for what, want := range map[string]int{
					"admit at b": 1, "capture": 1, "restore": 1, "joined at b": 1, "completed Accepted at b": 1,
				} {
					n := 0
					for _, line := range did {
						if line == what {
							n++
						}
					}
					if n != want {
						t.Errorf("%q was called %d times, want %d: %q", what, n, want, did)
					}
				}
				x.await("the source is told that it left", func() bool { return slices.Contains(x.walk.notes.of("did"), "leave entry at a") })
				x.inOrder()
			})
		})
	}
}
