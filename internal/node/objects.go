package node

import (
	"context"
	"errors"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

const (
	opFind    = "find actor"
	opDestroy = "destroy actor"
)

// Find returns the Ready Actor with that id. It creates nothing and reads the
// Store, not the cache. An Actor whose owner is dead is Unavailable.
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
	case err == nil:
		return r.ref, true, nil
	case err.Kind == errkind.NotFound:
		return ActorRef{}, false, nil
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
	ctx, cancel := context.WithTimeout(ctx, n.cfg.CreateTimeout)
	defer cancel()
	if t := turnFrom(ctx); t != nil && t.cell != nil && t.cell.ref.ID == ref.ID {
		return false, fail(errkind.InvalidOperation, opDestroy, ref.ID, "an actor's own handler cannot wait for its end")
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
	case err != nil && err.Kind == errkind.NotFound:
		return false, nil
	case err != nil:
		return false, err
	case now.ref.ObjectGen != ref.ObjectGen:
		return false, errIncarnation(opDestroy, ref.ID, ref.ObjectGen, now.ref.ObjectGen)
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
	n.routes.forget(ref.ID, now)
	return destroyed, nil
}

// destroyHere ends an Actor of this node, in its own turn: what was queued
// before runs, what comes later is held until the Store has removed the row and
// is then refused. If the Store could not be asked, the Actor goes on and what
// was held runs.
func (n *Node) destroyHere(ctx context.Context, ref ActorRef, op store.OpID) (bool, *Error) {
	cell, ok := n.actors.Load(ref.ID)
	if !ok {
		return false, nil
	}
	if cell.ref.ObjectGen != ref.ObjectGen {
		return false, errIncarnation(opDestroy, ref.ID, ref.ObjectGen, cell.ref.ObjectGen)
	}
	type end struct {
		destroyed bool
		err       *Error
	}
	ended := make(chan end, 1)
	full := cell.control(func(t *turn) {
		if t.refused != nil { // somebody else ended it meanwhile
			ended <- end{}
			return
		}
		held := &hold{node: n}
		cell.become(t.claim, held)
		n.tasks.Go(func() {
			destroyed, err := n.deleteRow(cell, op)
			if err != nil {
				cell.box.Seal(&release{cell: cell, from: held, next: cell})
			} else {
				n.drop(cell, errGone)
				n.routes.known.Delete(cell.ref.ID)
			}
			ended <- end{destroyed, err}
		})
	})
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

// deleteRow removes the row under the Actor's own fence. A lost answer is asked
// for again; a row that is then missing was removed by the earlier try.
func (n *Node) deleteRow(cell *actorCell, op store.OpID) (bool, *Error) {
	ctx, cancel := context.WithTimeout(n.life, finishTime)
	defer cancel()
	fence := store.Fence{
		ID: cell.ref.ID, ObjectGen: store.ObjectGen(cell.ref.ObjectGen), Version: cell.version,
		OwnerID: n.lease.OwnerID, LeaseGen: n.lifecycle(),
	}
	for {
		change, err := n.store.DeleteActor(ctx, fence, op)
		switch {
		case err == nil && (change.Reason == store.Applied || change.Reason == store.AlreadyApplied || change.Reason == store.Missing):
			return true, nil
		case err == nil:
			return false, fail(errkind.Unavailable, opDestroy, cell.ref.ID, "the Store refused it (reason %d): this process is not its owner any more", change.Reason)
		case errors.Is(err, store.ErrUnknown) && pause(ctx, createWaitMin):
		default:
			return false, fromStore(err, opDestroy, cell.ref.ID)
		}
	}
}
