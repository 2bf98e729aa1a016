package zlnode_test

import (
	"slices"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
)

// A target that cannot be reached, or says nothing, is a timeout; the Actor goes on where
// it is, and goes to that target when it can.
// req: JN-09, RL-12, RL-13, RL-15
func TestATargetThatFallsSilentIsATimeout(t *testing.T) {
	for _, how := range []struct {
		name string
		do   roadAction
	}{{"cut", cutBefore}, {"stalled", stallBefore}} {
		for _, at := range []struct {
			name string
			at   passing
			nth  int
		}{
			{"asking for admission", passing{"a", "b", wire.CmdJoinAdmit}, 1},
			{"answering for admission", passing{"b", "a", wire.CmdReply}, 1},
			{"asking to restore", passing{"a", "b", wire.CmdRestore}, 1},
			{"sending the state", passing{"a", "b", wire.CmdStateChunk}, 1},
		} {
			t.Run(how.name+" "+at.name, func(t *testing.T) {
				onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
					x.bound().ticking()
					entry := x.entryOf()
					x.asks(x.c, "before")
					end := x.roads.At(how.do, at.at.from, at.at.to, at.at.cmd, at.nth)
					x.goes(walkTo{Timeout: 700 * time.Millisecond})
					x.tells(x.a, "moving-1", "moving-2")
					receive(t, end.Reached)
					x.stays(zlnode.DeadlineExceeded, entry)
					x.roads.Forget()
					if how.do == cutBefore {
						x.roads.Open("a", "b")
					} else {
						x.roads.GoOn("a", "b")
					}
					x.linked(x.a, 1)
					x.goes(walkTo{})
					x.tells(x.a, "moving-3")
					x.arrives("b", x.spot.ID)
					x.asks(x.c, "there")
					x.playerReaches("a client's")
					x.hears("b")
					x.inOrder()
				})
			})
		}
	}
}

// Nobody hears that the target is ready, and it commits by itself. When the source has no
// more time it learns from the Store that the Actor has gone, and sends after it what came.
// req: RL-09, RL-15
func TestASourceThatNeverHeardOfTheCommitFollows(t *testing.T) {
	onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
		x.ticking()
		x.asks(x.c, "before")
		entered, release := x.inRestore()
		end := x.roads.At(cutBefore, "b", "a", wire.CmdReply, 2)
		const timeout = 1500 * time.Millisecond
		x.goes(walkTo{Timeout: timeout})
		over := time.Now().Add(timeout + 300*time.Millisecond)
		receive(t, entered)
		x.tells(x.a, "moving-1", "moving-2")
		release()
		receive(t, end.Reached)
		x.await("the deadline is over", func() bool { return time.Now().After(over) })
		x.tells(x.a, "moving-3")
		x.roads.Open("a", "b")
		x.arrives("b", x.spot.ID)
		x.asks(x.a, "by the old route")
		x.asks(x.c, "by the new one")
		x.hears("b")
		x.await("the source is told that it left", func() bool { return slices.Contains(x.walk.notes.of("did"), "leave entry at a") })
		x.inOrder()
	})
}

// Behind the boundary a road that stands still, longer than the target waits for the
// cutover, loses nothing.
// req: RL-09, RL-08, RL-11
func TestARoadThatStandsStillBehindTheBoundary(t *testing.T) {
	for _, at := range []struct {
		name string
		at   passing
		nth  int
	}{
		{"relay-ready", passing{"b", "a", wire.CmdReply}, 2},
		{"the first message", passing{"a", "b", wire.CmdRelay}, 1},
		{"the last message", passing{"a", "b", wire.CmdRelay}, 3},
		{"the cutover", passing{"a", "b", wire.CmdCutover}, 1},
		{"the word that it has left", passing{"b", "a", wire.CmdActorLeft}, 1},
	} {
		t.Run(at.name, func(t *testing.T) {
			onCrossing(t, crossingOptions{}, func(t *testing.T, x *crossing) {
				x.bound()
				x.asks(x.c, "before")
				entered, release := x.inRestore()
				end := x.roads.At(stallBefore, at.at.from, at.at.to, at.at.cmd, at.nth)
				x.goes(walkTo{Timeout: 10 * time.Second})
				receive(t, entered)
				x.tells(x.a, "moving-1", "moving-2", "moving-3")
				release()
				receive(t, end.Reached)
				done := receive(t, x.walk.ended)
				if done.Outcome != zlnode.JoinAccepted || done.Ref.RID != "b" {
					t.Fatalf("it ended with %+v", done)
				}
				x.roads.GoOn("a", "b")
				x.isAt("b", x.spot.ID)
				x.asks(x.a, "by the old route")
				x.playerReaches("a client's")
				x.inOrder()
			})
		})
	}
}
