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
	opFind    = "find actor"
	opDestroy = "destroy actor"
)

// Find returns the Ready Actor with that id. It creates nothing and reads the
// Store, not the cache. An Actor whose owner is dead is Unavailable, and its ref comes
// with the error.
func (n *Node) Find(ctx context.Context, id string) (ref ActorRef, found bool, _ error) {
	if !wire.ValidID(id) {
		return ActorRef{}, false, fail(errkind.InvalidOperation, opFind, id, "an id has 1 to %d bytes of UTF-8", idBytesMax)
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.CreateTimeout)
	defer cancel()
	var r *route
	var err *Error
	blocking(ctx, func() { r, err = n.routes.read(ctx, opFind, id) })
	switch {
	case r != nil && r.kind != store.Actor:
		return ActorRef{}, false, errKind(opFind, id, r.kind)
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
	if n.store == nil {
		return false, errNoStore(opDestroy, ref.ID)
	}
	if !wire.ValidID(ref.ID) || ref.ObjectGen == 0 {
		return false, fail(errkind.InvalidOperation, opDestroy, ref.ID, "the ref names no incarnation")
	}
	if err := fenced(ctx); err != nil {
		return false, err.of(opDestroy, ref.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.CreateTimeout)
	defer cancel()
	if t := turnFrom(ctx); t != nil && t.cell != nil && t.cell.ref.ID == ref.ID {
		return false, fail(errkind.InvalidOperation, opDestroy, ref.ID, "an actor's own handler cannot wait for its end")
	} else if t != nil && t.gate != nil && t.cell != nil {
		if cell, here := n.actors.Load(ref.ID); here && t.cell.sharesGate(cell) {
			return false, errSameGate.of(opDestroy, ref.ID)
		}
	}
	var destroyed bool
	var err *Error
	blocking(ctx, func() { destroyed, err = n.destroy(ctx, ref) })
	if err != nil {
		return false, err
	}
	return destroyed, nil
}

func (n *Node) destroy(ctx context.Context, ref ActorRef) (bool, *Error) {
	now, err := n.routes.read(ctx, opDestroy, ref.ID)
	switch {
	case now == nil && err.Kind == errkind.NotFound:
		return false, nil
	case now == nil:
		return false, err
	case now.kind != store.Actor:
		return false, errKind(opDestroy, ref.ID, now.kind)
	case now.ref.ObjectGen != ref.ObjectGen:
		return false, errIncarnation(opDestroy, ref.ID, ref.ObjectGen, now.ref.ObjectGen)
	case err != nil && now.ref != ref: // who wants it freed has to say whose it is
		return false, err
	case err != nil:
		return n.free(ctx, ref)
	}
	op := newOpID()
	if n.isHere(&now.ref) {
		return n.destroyHere(ctx, now.ref, op)
	}
	rec := wire.ActorDestroy{Ref: wireRef(now.ref), Op: op}
	r := n.askPeer(ctx, now.ref.RID, now.ref.Lifecycle, deadlineOf(ctx), func(corr uint64) wire.Record {
		rec.Correlation = corr
		return &rec
	})
	if r.err != nil {
		return false, r.err.of(opDestroy, ref.ID)
	}
	defer r.owner.Free()
	destroyed, bad := wire.DecodeDestroyResult(r.payload)
	if bad != nil {
		return false, fail(errkind.ProtocolError, opDestroy, ref.ID, "node %s answered with %v", now.ref.RID, bad)
	}
	n.routes.drop(ref.ID)
	return destroyed, nil
}

// free removes the row of an Actor whose owner's lease is over by the Store's clock. That
// its state is lost is the caller's decision: it names the owner.
func (n *Node) free(ctx context.Context, ref ActorRef) (bool, *Error) {
	row, found, err := n.store.Read(ctx, ref.ID)
	switch {
	case err != nil:
		return false, n.storeFailure(ctx, err, ref.ID).of(opDestroy, ref.ID)
	case !found:
		return false, nil
	}
	f := store.FreeOf(&row, newOpID())
	f.ObjectGen = store.ObjectGen(ref.ObjectGen)
	change, doubt, err := untilKnown(ctx, settleWaitMax, func() (store.Change, error) { return n.store.Free(ctx, f) })
	switch {
	case doubt || err != nil:
		return false, n.storeFailure(ctx, err, ref.ID).of(opDestroy, ref.ID)
	case !deleted(change.Reason):
		return false, fail(errkind.Unavailable, opDestroy, ref.ID, "the Store refused to free it: %v", change.Reason)
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
		return n.destroyOrphan(ctx, ref, op)
	case cell.typ.Kind != store.Actor:
		return false, errKind(opDestroy, ref.ID, cell.typ.Kind)
	case cell.ref.ObjectGen != ref.ObjectGen:
		return false, errIncarnation(opDestroy, ref.ID, ref.ObjectGen, cell.ref.ObjectGen)
	}
	ended := make(chan destroyEnd, 1)
	full := cell.control(func(t *turn) { n.destroyInTurn(t, op, func(e destroyEnd) { ended <- e }) })
	if full != nil {
		return false, full.of(opDestroy, ref.ID)
	}
	select {
	case e := <-ended:
		return e.destroyed, e.err
	case <-ctx.Done():
		return false, fromContext(ctx, opDestroy, ref.ID)
	}
}

type destroyEnd struct {
	destroyed bool
	err       *Error
}

// destroyInTurn holds the Actor's messages and asks the Store in the background.
// ended is called once, with the result.
func (n *Node) destroyInTurn(t *turn, op store.OpID, ended func(destroyEnd)) {
	switch t.refused {
	case nil:
	case errGone: // somebody else ended it meanwhile
		ended(destroyEnd{})
		return
	default:
		ended(destroyEnd{err: t.refused})
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
	kept, err := n.deleteRow(cell, op)
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

// deleteRow removes the row under the Actor's own fence, for the holder of takeRow.
// kept says that the row is certainly still there and this process's. Once an answer was lost, it goes on
// asking until it has one: an Actor that may have lost its row must not run.
func (n *Node) deleteRow(cell *objectCell, op store.OpID) (kept bool, _ *Error) {
	id := cell.ref.ID
	fence := n.fence(cell.typ.Kind, id, store.ObjectGen(cell.ref.ObjectGen), cell.version)
	change, doubt, err := untilKnown(n.life, settleWaitMax, func() (store.Change, error) {
		n.deletes <- struct{}{} // each holder leaves within storeCallMax
		defer func() { <-n.deletes }()
		return n.attempt(func(ctx context.Context) (store.Change, error) { return n.store.Delete(ctx, fence, op) })
	})
	switch {
	case doubt && n.life.Err() != nil:
		return false, errStopping.of(opDestroy, id)
	case err != nil:
		return !doubt, fromStore(err, opDestroy, id)
	case deleted(change.Reason):
		return false, nil
	}
	return n.owns(&change.Record), fail(errkind.Unavailable, opDestroy, id, "the Store refused it: %v", change.Reason)
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

// destroyOrphan removes a row that names this process and has no Actor here, as
// is left when it was never learnt how a creation ended.
func (n *Node) destroyOrphan(ctx context.Context, ref ActorRef, op store.OpID) (bool, *Error) {
	row, found, err := n.store.Read(ctx, ref.ID)
	switch {
	case err != nil:
		return false, n.storeFailure(ctx, err, ref.ID).of(opDestroy, ref.ID)
	case !found || row.State != store.Ready || uint64(row.ObjectGen) != ref.ObjectGen:
		return false, nil
	case !n.owns(&row):
		return false, errNotHere.of(opDestroy, ref.ID)
	}
	if _, ok := n.actors.Load(ref.ID); ok { // it came while the row was read
		return n.destroyHere(ctx, ref, op)
	}
	change, err := n.store.Delete(ctx, store.FenceOf(&row), op)
	switch {
	case err != nil:
		return false, n.storeFailure(ctx, err, ref.ID).of(opDestroy, ref.ID)
	case !deleted(change.Reason):
		return false, fail(errkind.Unavailable, opDestroy, ref.ID, "the Store refused it: %v", change.Reason)
	}
	n.routes.drop(ref.ID)
	return true, nil
}
