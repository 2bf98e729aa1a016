package node

import (
	"context"
	"errors"
	"time"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

const (
	opFind    = "find"
	opDestroy = "destroy actor"
)

// Find returns the Ready Actor with that id. It creates nothing and reads the
// Store, not the cache. An Actor whose owner is dead is Unavailable, and its ref comes
// with the error.
func (n *Node) Find(ctx context.Context, id string) (ActorRef, bool, error) {
	return n.find(ctx, Target{ID: id})
}

// FindSpot is Find of a User or Instance Spot.
func (n *Node) FindSpot(ctx context.Context, id string) (SpotRef, bool, error) {
	ref, found, err := n.find(ctx, Target{ID: id, spot: true})
	return SpotRef(ref), found, err
}

func (n *Node) find(ctx context.Context, to Target) (ActorRef, bool, error) {
	if !wire.ValidID(to.ID) {
		return ActorRef{}, false, fail(errkind.InvalidOperation, opFind, to.ID, "an id has 1 to %d bytes of UTF-8", idBytesMax)
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.CreateTimeout)
	defer cancel()
	var r *route
	var err *Error
	blocking(ctx, func() { r, err = n.routes.read(ctx, opFind, to.ID) })
	switch {
	case r != nil && !to.fits(r.kind):
		return ActorRef{}, false, errKind(opFind, to.ID, r.kind)
	case err == nil:
		return r.ref, true, nil
	case err.Kind == errkind.NotFound:
		return ActorRef{}, false, nil
	case r != nil:
		return r.ref, false, err
	}
	return ActorRef{}, false, err
}

// Destroy ends the Actor that ref names. It returns false if it is gone
// already, and InvalidOperation if the id now belongs to another incarnation.
func (n *Node) Destroy(ctx context.Context, ref ActorRef) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.CreateTimeout)
	defer cancel()
	if err := n.mayEnd(ctx, opDestroy, &ref); err != nil {
		return false, err
	}
	var destroyed bool
	var err *Error
	blocking(ctx, func() { destroyed, err = n.destroy(ctx, ref) })
	if err != nil {
		return false, err
	}
	return destroyed, nil
}

// mayEnd refuses what names nothing, and a turn that would wait for its own end.
func (n *Node) mayEnd(ctx context.Context, op string, ref *ActorRef) *Error {
	switch {
	case n.store == nil:
		return errNoStore(op, ref.ID)
	case !wire.ValidID(ref.ID) || ref.ObjectGen == 0:
		return fail(errkind.InvalidOperation, op, ref.ID, "the ref names no incarnation")
	}
	t := turnFrom(ctx)
	if err := t.fenced(); err != nil {
		return err.of(op, ref.ID)
	}
	if t == nil || t.cell == nil {
		return nil
	}
	if t.cell.ref.ID == ref.ID {
		return fail(errkind.InvalidOperation, op, ref.ID, "an object's own handler cannot wait for its end")
	}
	if cell, here := n.actors.Load(ref.ID); here && t.gate != nil && t.cell.sharesGate(cell) {
		return errSameGate.of(op, ref.ID)
	}
	return nil
}

func (n *Node) destroy(ctx context.Context, ref ActorRef) (bool, *Error) {
	return n.endIncarnation(ctx, opDestroy, Target{ID: ref.ID}, ref, func(now *route) (bool, *Error) {
		op := newOpID()
		if n.isHere(&now.ref) {
			return n.destroyHere(ctx, ref, op)
		}
		sent := now.ref
		if exact(&ref) { // which its owner may ask for
			sent = ref
		}
		return n.endThere(ctx, opDestroy, &now.ref, func(corr uint64) wire.Record {
			return &wire.ActorDestroy{Correlation: corr, Ref: wireRef(sent), Op: op}
		})
	})
}

// endIncarnation reads where the incarnation of ref is, and end ends it there. An object whose
// owner is dead is freed. It is false for one that is gone.
func (n *Node) endIncarnation(ctx context.Context, what string, to Target, ref ActorRef, end func(now *route) (bool, *Error)) (bool, *Error) {
	now, err := n.routes.read(ctx, what, ref.ID)
	switch {
	case now == nil && err.Kind == errkind.NotFound:
		return false, nil
	case now == nil:
		return false, err
	case !to.fits(now.kind):
		return false, errKind(what, ref.ID, now.kind)
	case now.ref.ObjectGen != ref.ObjectGen:
		return false, errIncarnation(what, ref.ID, ref.ObjectGen, now.ref.ObjectGen)
	case err != nil && now.ref != ref: // who wants it freed has to say whose it is
		return false, err
	case err != nil:
		return n.free(ctx, what, ref)
	}
	return end(now)
}

// endThere has another node end the object that ref names.
func (n *Node) endThere(ctx context.Context, what string, ref *ActorRef, record func(corr uint64) wire.Record) (bool, *Error) {
	r := n.askPeer(ctx, ref.Mesh, ref.RID, ref.Lifecycle, deadlineOf(ctx), record)
	if r.err != nil {
		return false, r.err.of(what, ref.ID)
	}
	defer r.owner.Free()
	n.routes.drop(ref.ID)
	ended, err := wire.DecodeDestroyResult(r.payload)
	if err != nil {
		return false, fail(errkind.ProtocolError, what, ref.ID, "node %s answered with %v", ref.RID, err)
	}
	return ended, nil
}

// free removes the row of an object whose owner's lease is over by the Store's clock. That
// its state is lost is the caller's decision: it names the owner. It is false for one that
// is gone, and for a Spot with members, which go before it.
func (n *Node) free(ctx context.Context, what string, ref ActorRef) (bool, *Error) {
	row, found, err := n.store.Read(ctx, ref.ID)
	switch {
	case err != nil:
		return false, n.storeFailure(ctx, err, ref.ID).of(what, ref.ID)
	case !found:
		return false, nil
	}
	f := store.FreeOf(&row, newOpID())
	f.ObjectGen = store.ObjectGen(ref.ObjectGen)
	change, doubt, err := untilKnown(ctx, settleWaitMax, func() (store.Change, error) { return n.store.Free(ctx, f) })
	switch {
	case doubt || err != nil:
		return false, n.storeFailure(ctx, err, ref.ID).of(what, ref.ID)
	case change.Reason == store.NotEmpty:
		return false, nil
	case !deleted(change.Reason):
		return false, fail(errkind.Unavailable, what, ref.ID, "the Store refused to free it: %v", change.Reason)
	}
	n.routes.drop(ref.ID)
	return change.Reason == store.Applied || change.Reason == store.AlreadyApplied, nil
}

// destroyHere ends an Actor of this node, in its own turn: what was queued
// before runs, what comes later is held until the Store has removed the row and
// is then refused. If it is certain that the row was not removed, the Actor goes
// on and what was held runs.
func (n *Node) destroyHere(ctx context.Context, ref ActorRef, op store.OpID) (bool, *Error) {
	cell, ok := n.actors.Load(ref.ID)
	switch {
	case !ok:
		return n.removeOrphan(ctx, opDestroy, store.Actor, ref, op, func() (bool, *Error) { return n.destroyHere(ctx, ref, op) })
	case cell.typ.Kind != store.Actor:
		return false, errKind(opDestroy, ref.ID, cell.typ.Kind)
	case cell.ref.ObjectGen != ref.ObjectGen:
		return false, errIncarnation(opDestroy, ref.ID, ref.ObjectGen, cell.ref.ObjectGen)
	case cell.stuck.Load() == nil:
	case cell.ref != ref:
		return false, errStuckRef.of(opDestroy, ref.ID)
	default:
		end := n.freeStuck(cell, op)
		return end.destroyed, end.err
	}
	return cell.endInTurn(ctx, opDestroy, func(t *turn, ended func(destroyEnd)) { n.destroyInTurn(t, op, ended) })
}

// endInTurn runs end in the object's turn and waits until it has called ended.
func (c *objectCell) endInTurn(ctx context.Context, what string, end func(t *turn, ended func(destroyEnd))) (bool, *Error) {
	over := make(chan destroyEnd, 1)
	full := c.control(func(t *turn) { end(t, func(e destroyEnd) { over <- e }) })
	if full != nil {
		return false, full.of(what, c.ref.ID)
	}
	select {
	case e := <-over:
		return e.destroyed, e.err
	case <-ctx.Done():
		return false, fromContext(ctx, what, c.ref.ID)
	}
}

// destroyEnd is the end of a destroy or a close.
type destroyEnd struct {
	destroyed bool
	err       *Error
}

// endOf is the end for who finds the object ended.
func endOf(refused *Error) destroyEnd {
	if refused == errGone { // somebody else ended it meanwhile
		return destroyEnd{}
	}
	return destroyEnd{err: refused}
}

// destroyInTurn holds the Actor's messages and asks the Store in the background.
// ended is called once, with the result.
func (n *Node) destroyInTurn(t *turn, op store.OpID, ended func(destroyEnd)) {
	if t.refused != nil {
		ended(endOf(t.refused))
		return
	}
	if t.cell.relocates() {
		ended(destroyEnd{err: errRelocating})
		return
	}
	cell, held := t.cell, &hold{}
	started := n.tasks.Go(func() {
		end := n.endCell(cell, held, op)
		n.routes.drop(cell.ref.ID)
		ended(end)
	})
	if !started {
		ended(destroyEnd{err: errStopping})
		return
	}
	cell.become(t.claim, held)
}

// relocates reports whether the Actor moves as its node is relocated, by itself or with its Spot.
func (c *objectCell) relocates() bool {
	if j := c.joining.Load(); j != nil && j.relocates {
		return true
	}
	spot := c.spot.Load()
	return spot != nil && spot.typ.Wide && spot.fate.claimed()
}

// endCell removes the row once no other change of it is under way, and ends the Actor
// before there can be one.
func (n *Node) endCell(cell *objectCell, held *hold, op store.OpID) destroyEnd {
	if !cell.takeRow(n.life) {
		n.drop(cell, errStopping)
		return destroyEnd{err: errStopping.of(opDestroy, cell.ref.ID)}
	}
	defer cell.leaveRow()
	if cell.gone.Load() { // the row turned out to be another's meanwhile
		return destroyEnd{}
	}
	kept, err := true, n.leaveSpot(cell)
	for wait := createWaitMin; err == nil; wait = min(2*wait, settleWaitMax) {
		var why store.Reason
		kept, why, err = n.deleteRow(cell, op)
		if why != store.NotEmpty || !n.stopping.Load() || cell.membersBehind() > 0 {
			break
		}
		n.refuseComing(cell.ref.ID)
		if !pause(n.life, wait) {
			break
		}
		err = nil
	}
	switch {
	case kept:
		cell.box.Seal(&release{cell: cell, from: held, next: cell})
	case err != nil: // the row is another's, or nobody will learn any more
		n.drop(cell, err)
	default:
		n.drop(cell, errGone)
	}
	return destroyEnd{err == nil, err}
}

// leaveSpot is for the holder of takeRow who ends the object. A member of a User Spot has to
// leave it before, unless its node stops: then its row does, without a callback.
func (n *Node) leaveSpot(cell *objectCell) *Error {
	for wait := createWaitMin; cell.rowSpot != nil; wait = min(2*wait, settleWaitMax) {
		if !n.stopping.Load() {
			return errMember.of(opDestroy, cell.ref.ID)
		}
		again, err := n.tryChange(cell, nil, newOpID())
		if err != nil && !(again && pause(n.life, wait)) {
			return err
		}
	}
	return nil
}

var errMember = &Error{Kind: errkind.InvalidOperation, Text: "the actor is in a user spot; it must leave it before, by JoinEntrySpot"}

// deleteRow removes the row under the object's own fence, for the holder of takeRow.
// kept says that the row is certainly still there and this process's, and why, if the Store
// said so. Once an answer was lost, it goes on asking until it has one: an object that may
// have lost its row must not run.
func (n *Node) deleteRow(cell *objectCell, op store.OpID) (kept bool, why store.Reason, _ *Error) {
	id, what := cell.ref.ID, opDestroy
	if cell.typ.Kind != store.Actor {
		what = opClose
	}
	try := func() (store.Change, bool, error) {
		fence := cell.fence()
		return untilKnown(n.life, settleWaitMax, func() (store.Change, error) {
			n.changes <- struct{}{} // each holder leaves within storeCallMax
			defer func() { <-n.changes }()
			return n.attempt(func(ctx context.Context) (store.Change, error) { return n.store.Delete(ctx, fence, op) })
		})
	}
	change, doubt, err := try()
	if err == nil && change.Reason == store.VersionConflict && cell.caughtUp(&change.Record) {
		change, doubt, err = try()
	}
	switch {
	case doubt && n.life.Err() != nil:
		return false, 0, errStopping.of(what, id)
	case err != nil:
		return !doubt, 0, fromStore(err, what, id)
	case deleted(change.Reason):
		return false, change.Reason, nil
	}
	return n.owns(&change.Record), change.Reason, fail(errkind.Unavailable, what, id, "the Store refused it: %v", change.Reason)
}

// unreadable reports whether the Store answered that it has a row which no zlnode writes;
// an answer that was another call's tells nothing.
func unreadable(err error) bool {
	return errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrUnknown)
}

// untilKnown repeats one operation of the Store until it has answered: once an answer was
// lost, that try may be applied yet, of which a later one that did not reach the Store, or
// came while the lease was not renewed, says nothing. doubt says that one may be applied
// yet, as ctx ended first or the row is unreadable.
func untilKnown(ctx context.Context, waitMax time.Duration, try func() (store.Change, error)) (change store.Change, doubt bool, err error) {
	for wait := createWaitMin; ; wait = min(2*wait, waitMax) {
		change, err = try()
		switch {
		case err == nil && !(doubt && change.Reason == store.LeaseExpired):
			return change, false, nil
		case errors.Is(err, store.ErrUnknown):
			doubt = true
		case unreadable(err):
			return change, doubt, err
		}
		if !doubt || !pause(ctx, wait) {
			return change, doubt, err
		}
	}
}

// deleted reports whether the answer says that the incarnation is gone.
func deleted(r store.Reason) bool {
	return r == store.Applied || r == store.AlreadyApplied || r == store.Missing || r == store.GenerationConflict
}

// removeOrphan removes a row that names this process and has no object here, as is left
// when it was never learnt how a creation ended. If there is one by now, it is here's.
func (n *Node) removeOrphan(ctx context.Context, what string, kind store.Kind, ref ActorRef, op store.OpID, here func() (bool, *Error)) (bool, *Error) {
	row, found, err := n.store.Read(ctx, ref.ID)
	switch {
	case err != nil:
		return false, n.storeFailure(ctx, err, ref.ID).of(what, ref.ID)
	case !found || row.State != store.Ready || uint64(row.ObjectGen) != ref.ObjectGen:
		return false, nil
	case row.Kind != kind:
		return false, errKind(what, ref.ID, row.Kind)
	case !n.owns(&row):
		return false, errNotHere.of(what, ref.ID)
	}
	if _, ok := n.actors.Load(ref.ID); ok { // it came while the row was read
		return here()
	}
	change, err := n.deleteOrphan(ctx, &row, op)
	switch {
	case err != nil:
		return false, n.storeFailure(ctx, err, ref.ID).of(what, ref.ID)
	case !deleted(change.Reason):
		return false, fail(errkind.Unavailable, what, ref.ID, "the Store refused it: %v", change.Reason)
	}
	n.routes.drop(ref.ID)
	return true, nil
}

// deleteOrphan removes a row of this process that has no object, wherever it says that one
// is a member or goes.
func (n *Node) deleteOrphan(ctx context.Context, row *store.Authority, op store.OpID) (store.Change, error) {
	if !row.InUserSpot && row.Move == nil {
		return n.store.Delete(ctx, store.FenceOf(row), op)
	}
	f := store.FreeOf(row, op)
	f.By = n.lease
	return n.store.Free(ctx, f)
}
