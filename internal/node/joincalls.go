package node

import (
	"bytes"
	"context"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/store"
)

// This file has what a Join asks of application code, wherever the Actor comes from: each
// is one turn of its Spot, or of the Actor while its messages are held. None of them begins
// while the node may not act: that is errNotOwner, and the caller tries again.

// JoinAsk is an Actor that asks to be let into a User Spot.
type JoinAsk struct {
	Actor   ActorRef // where it is before
	Type    string   // its stable type
	Codec   uint8
	Request []byte // valid during the call; empty if the Join has none
}

// JoinDone is what an Actor is told of a Join that has ended.
type JoinDone struct {
	Operation store.OpID // the same in each try of the callback
	JoinOutcome
}

var errTooLateToBegin = &Error{Kind: errkind.DeadlineExceeded, Text: "the deadline passed before the callback could begin; it will not"}

// askSpot has the User Spot decide about the Actor, in a turn of the Spot. When ctx has
// ended nobody waits for it any more, and what has not begun by then does not begin. The turn is
// of ctx's flow.
// The visitor is in the Spot's roster, so the Spot is not closed meanwhile; unless it is
// admitted the caller has it leave.
func (n *Node) askSpot(ctx context.Context, spot *objectCell, v *visitor, ask JoinAsk) (Admission, *Error) {
	const what = "OnActorJoin"
	var decided Admission // the turn's, until it has ended
	err := spot.await(ctx, spot.lifecycle, what, func(t *turn) *Error {
		switch {
		case ctx.Err() != nil:
			return errTooLateToBegin
		case !n.mayAct(clock.Now()):
			return errNotOwner
		case !v.letIn():
			return errTooLateToBegin
		case spot.typ.OnActorJoin == nil:
			return nil
		}
		err := spot.callbackAgain(t.claim, what, deadlineOf(ctx), flowOf(ctx), nil, func(c *Call) (e error) {
			a, e := spot.typ.OnActorJoin(c, spot.instance, ask)
			decided = Admission{Reject: a.Reject, Reply: bytes.Clone(a.Reply)} // the application may use its block again
			return e
		})
		if err != nil || decided.Reject {
			v.turnDown()
		}
		return err
	})
	switch {
	case err != nil:
		return Admission{}, err
	case len(decided.Reply) > replyBytesMax:
		return Admission{}, fail(errkind.CapacityExceeded, what, spot.ref.ID, "its reply of %d bytes is over the limit of %d", len(decided.Reply), replyBytesMax)
	}
	return decided, nil
}

// joinedSpot tells the Spot of an Actor that is in it now, in a turn of the Spot, for which it
// waits however long that takes: a Spot that is busy costs time, not the Actor. A nil Spot is
// an Entry Spot without a value.
func (n *Node) joinedSpot(spot *objectCell, actor ActorRef, of *flow.Context, before *tries) *Error {
	if spot == nil || spot.typ.OnJoinedActor == nil {
		return nil
	}
	return spot.whole(spot.lifecycle, "OnJoinedActor", of, before, func(c *Call) error {
		return spot.typ.OnJoinedActor(c, spot.instance, actor)
	})
}

// leftSpot tells the Spot of an Actor that has left it. Nobody waits for it, and there is one
// for each change of a membership, so this is bounded.
func (n *Node) leftSpot(spot *objectCell, actor ActorRef) {
	if spot == nil || spot.typ.OnLeaveActor == nil {
		return
	}
	spot.lifecycle(func(t *turn) {
		switch {
		case t.refused != nil:
		case !n.mayAct(clock.Now()):
			n.late.add(func() { n.leftSpot(spot, actor) })
		default:
			_ = spot.callback(t.claim, "OnLeaveActor", clock.Never, func(c *Call) error {
				return spot.typ.OnLeaveActor(c, spot.instance, actor)
			})
		}
	})
}

// complete tells the Actor how its Join ended, as a step of it: its messages are held by a
// hold that runs its steps. It is waited for as in joinedSpot.
func (n *Node) complete(cell *objectCell, done JoinDone, of *flow.Context, before *tries) *Error {
	if cell.typ.OnJoinCompleted == nil {
		return nil
	}
	return cell.whole(cell.step, "OnJoinCompleted", of, before, func(c *Call) error {
		return cell.typ.OnJoinCompleted(c, cell.instance, done)
	})
}

// whole runs a callback in the object's turn, which queue finds, and waits for its end, so that
// no two tries run at once. Only the node's end ends the wait. of is what it belongs to, or nil.
func (c *objectCell) whole(queue func(func(*turn)), what string, of *flow.Context, before *tries, f func(*Call) error) *Error {
	life := c.node.life
	return c.await(life, queue, what, func(t *turn) *Error {
		switch {
		case life.Err() != nil:
			return errTooLateToBegin
		case !c.node.mayAct(clock.Now()):
			return errNotOwner
		}
		return c.callbackAgain(t.claim, what, clock.Never, of, before, f)
	})
}
