package node

import (
	"context"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

const opClose = "close spot"

var (
	errClosing   = &Error{Kind: errkind.Unavailable, Text: "the spot is being closed"}
	errOpenLate  = &Error{Kind: errkind.DeadlineExceeded, Text: "the creation's deadline passed between two callbacks of the spot"}
	errNoClose   = &Error{Kind: errkind.InvalidOperation, Text: "the entry spot is closed with its node only"}
	errOwnClose  = &Error{Kind: errkind.InvalidOperation, Text: "an instance spot is closed by its own handlers"}
	errCloseLate = &Error{Kind: errkind.DeadlineExceeded, Text: "the spot's turn for it came after the deadline; it was not closed"}
	errRowMoved  = &Error{Kind: errkind.Unavailable, Text: "the spot's row has changed since it was read", stale: true}
)

// spotClose is one close of a Spot as its owner is told of it.
type spotClose struct {
	ref      ActorRef
	version  store.Version // of the row that the caller read
	op       store.OpID
	deadline clock.Mono // also of OnClosing
}

// CloseSpot ends the User Spot that ref names. It returns false if the Spot is gone
// already or has members, and InvalidOperation if the id now belongs to another
// incarnation.
func (n *Node) CloseSpot(ctx context.Context, ref SpotRef) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.CreateTimeout)
	defer cancel()
	target := ActorRef(ref)
	if err := n.mayEnd(ctx, opClose, &target); err != nil {
		return false, err
	}
	var closed bool
	var err *Error
	blocking(ctx, func() { closed, err = n.closeAnywhere(ctx, target) })
	if err != nil {
		return false, err.of(opClose, ref.ID)
	}
	return closed, nil
}

// closeAnywhere asks the owner; if that finds that what was read of the Spot is old, it is
// read again.
func (n *Node) closeAnywhere(ctx context.Context, ref ActorRef) (bool, *Error) {
	for wait := createWaitMin; ; wait = min(2*wait, createWaitMax) {
		closed, err := n.tryClose(ctx, ref)
		if err == nil || !err.stale || !pause(ctx, wait) {
			return closed, err
		}
	}
}

func (n *Node) tryClose(ctx context.Context, ref ActorRef) (bool, *Error) {
	return n.endIncarnation(ctx, opClose, Target{ID: ref.ID, spot: true}, ref, func(now *route) (bool, *Error) {
		if now.kind == store.InstanceSpot && !exact(&ref) {
			return false, errOwnClose
		}
		k := spotClose{ref: now.ref, version: now.version, op: newOpID(), deadline: deadlineOf(ctx)}
		if n.isHere(&now.ref) {
			return n.closeHere(ctx, k)
		}
		return n.endThere(ctx, opClose, &now.ref, func(corr uint64) wire.Record {
			return &wire.UserSpotClose{
				Correlation: corr, Ref: wireRef(now.ref), StoreVersion: uint64(k.version), Op: k.op,
				DeadlineMS: wire.DeadlineMS(k.deadline.Sub(clock.Now())),
			}
		})
	})
}

// closeHere closes a User Spot of this node. Whatever can be known to refuse it is looked
// at before it is taken (CR-17).
func (n *Node) closeHere(ctx context.Context, k spotClose) (bool, *Error) {
	cell, ok := n.actors.Load(k.ref.ID)
	switch {
	case !ok:
		return n.removeOrphan(ctx, opClose, store.UserSpot, k.ref, k.op, func() (bool, *Error) { return n.closeHere(ctx, k) })
	case cell.typ.Kind == store.Actor:
		return false, errKind(opClose, k.ref.ID, cell.typ.Kind)
	case cell.ref.ObjectGen != k.ref.ObjectGen:
		return false, errIncarnation(opClose, k.ref.ID, k.ref.ObjectGen, cell.ref.ObjectGen)
	case cell.stuck.Load() != nil && cell.ref == k.ref: // a move has left it sealed
		end := n.freeStuck(cell, k.op)
		return end.destroyed, end.err
	case cell.typ.Kind == store.InstanceSpot:
		return false, errOwnClose
	case cell.ref.Lifecycle != k.ref.Lifecycle || cell.ref.OwnerGen != k.ref.OwnerGen:
		return false, errNotHere
	case !cell.members.none():
		return false, nil
	case cell.fate.claimed():
		return false, errSpotMoves
	}
	if !cell.takeRow(ctx) {
		return false, fromContext(ctx, opClose, k.ref.ID)
	}
	moved, gone := store.Version(cell.version.Load()) != k.version, cell.gone.Load()
	cell.leaveRow()
	switch {
	case gone:
		return false, nil
	case moved:
		return false, errRowMoved
	}
	// Members that are known to the Store and not to this node have no business here; but
	// to find them after OnClosing would be too late.
	switch members, err := n.store.Members(ctx, k.ref.ID, "", 1); {
	case err != nil:
		return false, n.storeFailure(ctx, err, k.ref.ID)
	case len(members) > 0:
		return false, nil
	}
	return cell.endInTurn(ctx, opClose, func(t *turn, ended func(destroyEnd)) { n.closeInTurn(t, k, ended) })
}

// closeInTurn closes the Spot behind all that it has accepted before, unless it has
// members. What comes later is held until the row is removed, and is then refused. ended
// is called once, with the result.
func (n *Node) closeInTurn(t *turn, k spotClose, ended func(destroyEnd)) {
	if t.refused != nil {
		ended(endOf(t.refused))
		return
	}
	cell := t.cell
	switch {
	case n.stopping.Load(): // which closes it, behind its members
		ended(destroyEnd{err: errStopping})
		return
	case cell.fate.claimed():
		ended(destroyEnd{err: errSpotMoves})
		return
	case !cell.members.shut():
		ended(destroyEnd{})
		return
	}
	held := &hold{cell: cell}
	cell.become(t.claim, held)
	cell.calmly(t, func(t *turn) {
		err := t.refused
		switch {
		case err != nil:
			ended(endOf(err))
			return
		case !n.mayAct(t.claim.Now()):
			err = errNotOwner
		case clock.Now().Reached(k.deadline):
			err = errCloseLate
		}
		if err != nil {
			cell.giveBack(held)
			ended(destroyEnd{err: err})
			return
		}
		_ = cell.lastCall(t, ExplicitClose, k.deadline) // if it fails, that is logged and counted, and the Spot ends
		started := n.tasks.Go(func() {
			end := n.endSpot(cell, held, k.op)
			n.routes.drop(cell.ref.ID)
			ended(end)
		})
		if !started {
			ended(destroyEnd{err: errStopping})
		}
	})
}

// giveBack lets the Spot go on that was not closed.
func (c *objectCell) giveBack(held *hold) {
	c.members.reopen()
	c.box.Seal(&release{cell: c, from: held, next: c})
}

// endSpot removes the row of a Spot that had its OnClosing. There is no way back from that,
// so it tries again until the row is certainly gone or another's.
func (n *Node) endSpot(cell *objectCell, held *hold, op store.OpID) destroyEnd {
	for wait := createWaitMin; ; wait = min(2*wait, settleWaitMax) {
		if !cell.takeRow(n.life) {
			break
		}
		end, over := n.tryEndSpot(cell, held, op)
		cell.leaveRow()
		if over {
			return end
		}
		if !pause(n.life, wait) {
			break
		}
	}
	n.drop(cell, errStopping)
	return destroyEnd{err: errStopping}
}

// tryEndSpot is for the holder of takeRow.
func (n *Node) tryEndSpot(cell *objectCell, held *hold, op store.OpID) (_ destroyEnd, over bool) {
	if cell.gone.Load() { // the row turned out to be another's meanwhile
		return destroyEnd{}, true
	}
	if !cell.stored {
		n.drop(cell, errGone)
		return destroyEnd{destroyed: true}, true
	}
	kept, why, err := n.deleteRow(cell, op)
	switch {
	case kept && why == store.NotEmpty:
		n.log.Error().Str("spot", clip(cell.ref.ID)).
			Msg("a spot goes on behind its OnClosing, as the Store knows members of it that its node does not; this is a bug of zlnode")
		cell.giveBack(held)
		return destroyEnd{}, true
	case kept:
		return destroyEnd{}, false
	case err != nil: // the row is another's, or nobody will learn any more
		n.drop(cell, err)
	default:
		n.drop(cell, errGone)
	}
	return destroyEnd{err == nil, err}, true
}

// Relocated reports whether the Spot came from another node to this one.
func (c *Call) Relocated() bool {
	mustBeInTurn(c.cell != nil)
	return c.cell.moved
}

// Close closes the Spot whose turn it is behind what it has accepted. It returns false if
// the Spot has members.
func (c *Call) Close() (bool, error) {
	mustBeInTurn(c.cell != nil)
	cell := c.cell
	id := cell.ref.ID
	if err := c.fenced(); err != nil {
		return false, err.of(opClose, id)
	}
	switch {
	case cell.typ.Kind == store.EntrySpot:
		return false, errNoClose.of(opClose, id)
	case !cell.members.none():
		return false, nil
	case !cell.fate.promise():
		return false, errSpotMoves.of(opClose, id)
	}
	closes := cell.closeItself
	if cell.typ.Kind == store.InstanceSpot {
		closes = func(t *turn) { cell.shut(t, ExplicitClose) }
	}
	if full := cell.control(closes); full != nil {
		cell.fate.kept()
		return false, full.of(opClose, id)
	}
	return true, nil
}

// closeItself is the close that a User Spot has asked for, and was told that it comes.
func (c *objectCell) closeItself(t *turn) {
	n := c.node
	k := spotClose{ref: c.ref, op: newOpID(), deadline: clock.Now().Add(n.cfg.CreateTimeout)}
	n.closeInTurn(t, k, func(e destroyEnd) {
		if e.err == errNotOwner { // it waits until the node may act again
			n.late.add(func() { c.ended(c.closeItself) })
			return
		}
		c.fate.kept()
		if e.err != nil {
			n.log.Warn().Str("spot", clip(c.ref.ID)).Str("error", clip(e.err.Error())).Msg("a spot that closes itself was not closed")
		}
	})
}
