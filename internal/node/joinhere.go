package node

import (
	"context"
	"errors"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// This file runs a Join whose barrier stands, if Actor and Spot are at this node: no
// adapter, the same value, the same generations (JN-11).

// runJoin decides the Join, or has the Actor move to the Spot's node.
func (n *Node) runJoin(ctx context.Context, j *PendingJoin) {
	now := j.cell.spot.Load()
	if j.Entry {
		if now == nil {
			j.decide(j.accepted(nil))
			return
		}
		n.joinEntry(ctx, j)
		return
	}
	if now != nil && now.ref.ID == j.Spot && !now.gone.Load() {
		j.decide(j.accepted(nil))
		return
	}
	spot, r, err := n.findSpot(ctx, j.Spot)
	switch {
	case err != nil:
		j.decide(joinFailed(err.of(opJoin, j.Spot)))
	case spot != nil:
		n.joinHere(ctx, j, spot)
	default:
		n.moveActor(ctx, j, moveTarget{process{r.ref.RID, r.ref.Lifecycle}, j.Spot, true})
	}
}

// joinEntry has the Actor return to the Entry Spot of its node, if that takes Actors; else it
// goes to that of a node which does.
func (n *Node) joinEntry(ctx context.Context, j *PendingJoin) {
	if n.cfg.Weight > 0 {
		n.joinHere(ctx, j, nil)
		return
	}
	d, err := n.chooseTarget(n.home.cfg.Name, typeKey{store.Actor, j.cell.typ.Name}, nil, "")
	if err != nil {
		j.decide(joinFailed(err.of(opJoin, j.cell.ref.ID)))
		return
	}
	n.moveActor(ctx, j, moveTarget{process{d.RID, uint64(d.Lifecycle)}, d.EntrySpotID, false})
}

// accepted is the outcome of a Join after which the Actor is at this node.
func (j *PendingJoin) accepted(reply []byte) JoinOutcome {
	return JoinOutcome{Result: JoinAccepted, Ref: j.cell.ref, Reply: reply}
}

// findSpot returns the User Spot, if it is at this node, or the route to it.
func (n *Node) findSpot(ctx context.Context, id string) (*objectCell, *route, *Error) {
	here := func() *objectCell {
		if c, ok := n.actors.Load(id); ok && !c.gone.Load() && !c.dawn {
			return c
		}
		return nil
	}
	c := here()
	if c == nil {
		r, err := n.routes.read(ctx, opJoin, id)
		switch {
		case err != nil:
			return nil, nil, err
		case r.kind != store.UserSpot:
			return nil, nil, errNoUserSpot(id, r.kind)
		case !n.isHere(&r.ref):
			return nil, r, nil
		}
		if c = here(); c == nil { // it has just ended, or nobody ever learnt how its creation did
			return nil, nil, errNotHere
		}
	}
	if c.typ.Kind != store.UserSpot {
		return nil, nil, errNoUserSpot(id, c.typ.Kind)
	}
	return c, nil, nil
}

func errNoUserSpot(id string, is store.Kind) *Error {
	return fail(errkind.NotFound, opJoin, id, "it is of kind %v, and only a User Spot is joined by its id", is)
}

// joinHere makes the Actor a member of a User Spot of this node, or, if spot is nil, of the
// Entry Spot, which asks nobody.
func (n *Node) joinHere(ctx context.Context, j *PendingJoin, spot *objectCell) {
	var reply []byte
	var visitor *visitor
	if spot != nil {
		v, refused := spot.admits()
		if refused != nil {
			j.decide(joinFailed(refused.of(opJoin, j.Spot)))
			return
		}
		visitor = v
		a, err := n.askSpot(context.WithValue(ctx, flowKey{}, &j.flow), spot, visitor, JoinAsk{Actor: j.cell.ref, Type: j.cell.typ.Name, Codec: j.Codec, Request: j.Request})
		if err != nil || a.Reject {
			visitor.leave()
			if err != nil {
				j.decide(joinFailed(err.of(opJoin, j.Spot)))
			} else {
				j.decide(JoinOutcome{Result: JoinRejected, Reply: a.Reply})
			}
			return
		}
		j.log("a join was admitted", nil)
		reply = a.Reply
	}
	if err := n.changeSpot(ctx, j, spot); err != nil {
		if spot != nil {
			visitor.leave()
		}
		j.decide(joinFailed(err))
		return
	}
	n.joined(j, spot, reply)
}

// joined is for a Join that the Store has: it can only go on.
func (n *Node) joined(j *PendingJoin, spot *objectCell, reply []byte) {
	c := j.cell
	var left *objectCell
	err := c.await(n.life, c.step, opJoin, func(t *turn) *Error {
		left = c.enter(t.claim, spot)
		return nil
	})
	if err != nil { // the Actor has ended, or the node has
		if spot != nil {
			spot.members.leave()
		}
		return
	}
	to, from := spot, left
	if to == nil {
		to = n.entry
	}
	if from == nil {
		from = n.entry
	}
	j.insist("OnJoinedActor", func(before *tries) *Error {
		err := n.joinedSpot(to, c.ref, &j.flow, before)
		if err != nil && to.gone.Load() {
			return nil // there is nobody to be told any more
		}
		return err
	})
	n.leftSpot(from, c.ref)
	if left != nil {
		left.memberLeft() // behind which it may be closed
	}
	j.decide(j.accepted(reply)) // also if it is stuck, of which finish knows
}

// changeSpot has the Actor's row name the Spot. What the Store refuses for a while only, it
// asks for again until ctx ends, unless it has been told that there is nothing to wait for.
// Once it has returned without error the row is written in the present epoch.
func (n *Node) changeSpot(ctx context.Context, j *PendingJoin, spot *objectCell) *Error {
	c := j.cell
	op := newOpID()
	for wait := createWaitMin; ; wait = min(2*wait, createWaitMax) {
		if !c.takeRow(ctx) {
			return errJoinDeadline
		}
		if !j.commits() {
			c.leaveRow()
			return errJoinDeadline // or what else has decided
		}
		again, err := n.tryChange(c, spot, op)
		c.leaveRow()
		switch {
		case !again:
			return err
		case n.stopping.Load():
			return errStopping
		case !pause(ctx, wait):
			return errJoinDeadline
		}
	}
}

// tryChange is for the holder of takeRow. again says that the row is as it was, and that
// another try may do better.
func (n *Node) tryChange(c, spot *objectCell, op store.OpID) (again bool, _ *Error) {
	if c.gone.Load() {
		return false, errGone
	}
	to := store.ChangeSpot{Fence: c.fence(), Op: op, SpotID: n.entryID}
	if spot != nil {
		to.SpotID, to.InUserSpot = spot.ref.ID, true
	}
	change, doubt, err := untilKnown(n.life, createWaitMax, func() (store.Change, error) {
		n.changes <- struct{}{} // each holder leaves within storeCallMax
		defer func() { <-n.changes }()
		return n.attempt(func(ctx context.Context) (store.Change, error) { return n.store.ChangeSpot(ctx, to) })
	})
	switch {
	case err != nil && doubt: // the node's end, or an unreadable row: nobody will know
		n.drop(c, errGone)
		return false, fromStore(err, opJoin, c.ref.ID)
	case err != nil:
		return errors.Is(err, store.ErrUnavailable), fromStore(err, opJoin, c.ref.ID)
	}
	switch reason := change.Reason; {
	case reason == store.Applied || reason == store.AlreadyApplied:
		c.rowSpot = spot
		c.written(&change.Record)
		if err := n.confirm(c); err != nil {
			n.drop(c, errGone)
			return false, err
		}
		return false, nil
	case reason == store.LeaseExpired: // a renewal may come
		return true, nil
	case reason == store.GenerationConflict:
		err := fail(errkind.InvalidOperation, opJoin, c.ref.ID, "the Store knows another incarnation of the actor")
		return c.behind(change.Epoch), err
	case reason == store.VersionConflict:
		again = c.caughtUp(&change.Record) || to.SpotVersion != 0 // the Spot's row has just been written
	}
	again = again || c.behind(change.Epoch) || spot != nil && spot.behind(change.Epoch)
	return again, fail(errkind.Unavailable, opJoin, c.ref.ID, "the Store refused it: %v", change.Reason)
}
