package node

import (
	"context"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

const opRelocate = "relocate"

// unit is what the relocation of a node moves in one go.
type unit struct {
	kind wire.Unit
	cell *objectCell
}

// unitEnd is how the move of a unit ended.
type unitEnd struct {
	result unitResult
	err    *Error // of what stays or is lost
	sent   bool   // something of it was sent to the target, or may have been
}

type unitResult uint8

const (
	unitLeft   unitResult = iota + 1 // it is another node's, or no object any more
	unitStayed                       // it goes on here
	unitLost                         // it is at no node that is known, and is listed as stuck
)

func stays(err *Error) unitEnd { return unitEnd{result: unitStayed, err: err} }

var (
	errRelocating   = &Error{Kind: errkind.Unavailable, Text: "its node is being relocated, and the object moves"}
	errUnitLate     = &Error{Kind: errkind.DeadlineExceeded, Text: "it did not come to a turn of it before the relocation's deadline"}
	errUnitStuck    = &Error{Kind: errkind.InternalFailure, Text: "it is sealed by a callback that keeps failing; free it by its exact ref"}
	errSpotLost     = &Error{Kind: errkind.Unavailable, Text: "it is a member of a spot that moved before it and is at no living node; have it join another spot, or the entry spot"}
	errUnitNoTarget = &Error{Kind: errkind.Unavailable, Text: "the node that it should move to is not linked any more, or not in the list"}
)

// moveUnit moves a unit to another node, as this one is relocated. The caller has a permit
// (movesOut), which is the move's from here on and given back with what it is for. cutOver is
// called when the unit's cutover was submitted, or it has left without one. It returns when it
// is known where the unit is; past the deadline only if the unit had passed its boundary.
func (n *Node) moveUnit(ctx context.Context, u unit, to process, deadline clock.Mono, op store.OpID, cutOver func()) unitEnd {
	r := &relocating{node: n, unit: u, to: to, deadline: deadline, op: op, cutOver: cutOver, permitted: true}
	defer r.leavePermit()
	if spot := u.cell.spot.Load(); spot != nil {
		if spot.lost() {
			return unitEnd{result: unitLost, err: errSpotLost.of(opRelocate, u.cell.ref.ID)}
		}
		if there, left := spot.whereTo(); left { // where its Spot is
			r.to, to = there, there
		}
	}
	if n.linkOf(to) == nil {
		return stays(errUnitNoTarget.of(opRelocate, u.cell.ref.ID))
	}
	switch u.kind {
	case wire.UnitShell:
		return r.moveShell(ctx)
	case wire.UnitWide:
		return r.moveWide(ctx)
	case wire.UnitInstance:
		return r.moveSpot(ctx)
	default:
		return r.moveActor(ctx)
	}
}

// relocating is a unit's move for its node.
type relocating struct {
	node      *Node
	unit      unit
	to        process
	deadline  clock.Mono
	op        store.OpID
	cutOver   func()
	permitted bool // the permit is still to be given back
}

func (r *relocating) leavePermit() {
	if r.permitted {
		r.permitted = false
		r.node.movesOut.leave()
	}
}

// moveActor moves an Actor to the Entry Spot of the target (SB-06), or to the Spot at the target
// in which it is a member.
func (r *relocating) moveActor(ctx context.Context) unitEnd {
	n, c := r.node, r.unit.cell
	place, err := r.claim(ctx)
	if err != nil {
		return r.unclaimed(err)
	}
	defer place.end(JoinOutcome{})
	to := moveTarget{to: r.to}
	if spot := c.spot.Load(); spot != nil {
		to.spot, to.member = spot.ref.ID, true
	} else if to.spot = n.entryOf(r.to); to.spot == "" {
		return stays(errUnitNoTarget.of(opRelocate, c.ref.ID))
	}
	return r.run(ctx, r.newMove(to, place))
}

// unclaimed is the end of a unit that is not to be had.
func (r *relocating) unclaimed(err *Error) unitEnd {
	switch c := r.unit.cell; {
	case c.stuck.Load() != nil:
		return stays(errUnitStuck.of(opRelocate, c.ref.ID))
	case c.gone.Load():
		return unitEnd{result: unitLeft}
	default:
		return stays(err.of(opRelocate, c.ref.ID))
	}
}

// newMove makes the move, with the place of a Join that it has taken if the unit is an Actor.
func (r *relocating) newMove(to moveTarget, place *PendingJoin) *moveOut {
	o := r.node.newMoveOut(r.unit.kind, r.unit.cell, to, r.deadline)
	o.join, o.op, o.cutOver = place, r.op, r.cutOver
	return o
}

// run takes the row and runs the move, which has the permit then.
func (r *relocating) run(ctx context.Context, o *moveOut) unitEnd {
	defer o.stop()
	id := o.cell.ref.ID
	if !o.cell.takeRow(ctx) {
		return stays(errUnitLate.of(opRelocate, id))
	}
	o.locked = true
	defer o.leaveRow()
	if o.cell.gone.Load() {
		return unitEnd{result: unitLeft}
	}
	o.permitted, r.permitted = true, false
	end, known := o.runKnown(flow.Trace{})
	if !known {
		return unitEnd{result: unitLost, err: errStopping.of(opRelocate, id)}
	}
	outcome, stayed := o.end(&end)
	switch {
	case stayed:
		return unitEnd{result: unitStayed, err: outcome.Err.of(opRelocate, id), sent: end.Captured}
	case end.Outcome == relay.SourceLost:
		return unitEnd{result: unitLost, err: (&Error{Kind: end.Failure.Kind, Text: end.Failure.Text}).of(opRelocate, id)}
	}
	return unitEnd{result: unitLeft}
}

// claim takes the place of a Join for the move, in a turn of the Actor, so that it has no Join and
// is not destroyed meanwhile (JN-13). A Join that is pending comes first.
func (r *relocating) claim(ctx context.Context) (*PendingJoin, *Error) {
	ctx, cancel := untilTime(ctx, r.deadline)
	defer cancel()
	for {
		place, before, err := r.tryClaim(ctx)
		if err != nil || place != nil {
			return place, err
		}
		select {
		case <-before.done:
		case <-ctx.Done():
			return nil, r.late(ctx)
		}
	}
}

// late says why a unit did not come to its move.
func (r *relocating) late(ctx context.Context) *Error {
	switch {
	case r.node.stopping.Load() || r.node.life.Err() != nil:
		return errStopping
	case clock.Now().Reached(r.deadline):
		return errUnitLate
	}
	return fromContext(ctx, opRelocate, r.unit.cell.ref.ID)
}

// tryClaim returns the place, or the Join that has it.
func (r *relocating) tryClaim(ctx context.Context) (place, before *PendingJoin, err *Error) {
	c := r.unit.cell
	j := newPendingJoin(Join{Actor: c.ref.ID, Timeout: r.deadline.Sub(clock.Now())}, c)
	j.relocates = true
	late := r.inTurn(ctx, func(t *turn) {
		err = t.refused
		for err == nil && before == nil && !c.joining.CompareAndSwap(nil, j) {
			before = c.joining.Load()
		}
	})
	switch {
	case late != nil:
		return nil, nil, late
	case err != nil || before != nil:
		return nil, before, err
	}
	return j, nil, nil
}

// entryOf returns the Entry Spot of a process that serves, or "".
func (n *Node) entryOf(p process) string {
	for _, d := range n.discovery.nodes() {
		if d.RID == p.rid && uint64(d.Lifecycle) == p.lifecycle {
			return d.EntrySpotID
		}
	}
	return ""
}

// MoveObject moves an object of this node, as a relocation of the node does: for tests.
func (n *Node) MoveObject(ctx context.Context, id, rid string) error {
	c, ok := n.actors.Load(id)
	if !ok {
		return errNotHere.of(opRelocate, id)
	}
	var to process
	for _, d := range n.discovery.nodes() {
		if d.RID == rid {
			to = process{d.RID, uint64(d.Lifecycle)}
		}
	}
	deadline := deadlineOf(ctx)
	if full := n.movesOut.enter(ctx, deadline); full != nil {
		return full
	}
	end := n.moveUnit(ctx, unit{unitOf(c), c}, to, deadline, newOpID(), nil)
	if end.result == unitLeft {
		return nil
	}
	return end.err
}

// unitOf returns as what an object moves by itself.
func unitOf(c *objectCell) wire.Unit {
	switch {
	case c.typ.Kind == store.InstanceSpot:
		return wire.UnitInstance
	case c.typ.Wide:
		return wire.UnitWide
	case c.typ.Kind == store.UserSpot:
		return wire.UnitShell
	default:
		return wire.UnitActor
	}
}
