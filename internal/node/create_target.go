package node

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// creation is one reserved creation as its target is told of it.
type creation struct {
	op       store.OperationKey
	id, typ  string
	objGen   store.ObjectGen
	version  store.Version
	deadline clock.Mono
}

// CreateCall is what OnCreateActor gets. Its context ends at the creation's
// deadline.
type CreateCall struct {
	context.Context
	Actor    *ActorContext
	Instance any
	Request  []byte // must not be modified
}

// finishTime is what a target allows itself for telling the Store how a
// creation ended, after the creation's own deadline.
const finishTime = 5 * time.Second

// runCreation runs a creation that was reserved for this node: factory and
// OnCreateActor on a staged instance, then one Store transaction that makes it
// Ready or removes it (CR-06 to CR-08). The returned result is the recorded one.
func (n *Node) runCreation(job creation) (wire.CreateResult, *Error) {
	if err := n.creations.enter(n.life, job.deadline); err != nil {
		return wire.CreateResult{}, err
	}
	defer n.creations.leave()
	if n.stopping.Load() { // after enter: a shutdown waits for those that got in
		return wire.CreateResult{}, errStopping
	}
	ctx, cancel := context.WithDeadline(n.life, job.deadline.Time())
	defer cancel()

	row, err := n.readCreation(ctx, job)
	if err != nil {
		return wire.CreateResult{}, err
	}
	if row == nil { // this operation has ended before: the same answer again
		return n.replay(ctx, job)
	}
	typ := n.app.Actors[row.Type]
	if typ == nil {
		return n.finish(job, row, nil, store.Failed, nil, errkind.NotConfigured)
	}
	ref := refOf(row)
	held := &hold{node: n}
	cell := n.newCell(typ, ref, row.Version, held)
	decision := n.stage(ctx, cell, row.Create.Request)
	if decision.err != nil {
		return n.finish(job, row, nil, store.Failed, nil, decision.err.Kind)
	}
	if decision.admission.Reject {
		return n.finish(job, row, nil, store.Rejected, decision.admission.Reply, 0)
	}
	return n.finish(job, row, &staged{cell, held}, store.Created, decision.admission.Reply, 0)
}

type staged struct {
	cell *actorCell
	held *hold
}

type decision struct {
	admission Admission
	err       *Error
}

// stage runs the application's part. Past the deadline it is given up: what it
// still does concerns an instance that nobody will see.
func (n *Node) stage(ctx context.Context, cell *actorCell, request []byte) decision {
	decided := make(chan decision, 1)
	n.tasks.Go(func() {
		var a Admission
		err := guard(n, "creation", cell.ref.ID, func() (e error) {
			if cell.instance, e = cell.typ.Factory(&cell.context); e != nil || n.app.Entry.OnCreateActor == nil {
				return e
			}
			a, e = n.app.Entry.OnCreateActor(&CreateCall{Context: ctx, Actor: &cell.context, Instance: cell.instance, Request: request})
			return e
		})
		if err == nil && len(a.Reply) > replyBytesMax {
			err = fail(errkind.CapacityExceeded, opCreate, cell.ref.ID, "its reply of %d bytes is over the limit of %d", len(a.Reply), replyBytesMax)
		}
		a.Reply = bytes.Clone(a.Reply) // the application may use its block again
		decided <- decision{a, err}
	})
	select {
	case d := <-decided:
		return d
	case <-ctx.Done():
		return decision{err: fromContext(ctx, opCreate, cell.ref.ID)}
	}
}

// readCreation reads the pending creation from the Store itself and checks that
// it is the one asked for and meant for this process. A nil row says that it is
// over.
func (n *Node) readCreation(ctx context.Context, job creation) (*store.Authority, *Error) {
	for {
		row, found, err := n.store.ReadActor(ctx, job.id)
		switch {
		case err != nil && errors.Is(err, store.ErrUnknown) && pause(ctx, createWaitMin):
			continue
		case err != nil:
			return nil, n.storeFailure(ctx, err, job.id)
		case !found, row.ObjectGen != job.objGen, row.State == store.Ready:
			return nil, nil
		case row.Create == nil || row.Create.Op != job.op || row.Version != job.version:
			return nil, nil
		case row.OwnerID != n.lease.OwnerID || row.LeaseGen != n.lifecycle():
			return nil, fail(errkind.Unavailable, opCreate, job.id, "it is reserved for another process of node %s", n.cfg.RID)
		}
		return &row, nil
	}
}

// replay answers a repeated operation from its kept record (CR-15).
func (n *Node) replay(ctx context.Context, job creation) (wire.CreateResult, *Error) {
	kept, found, err := n.store.ReadTerminal(ctx, job.op)
	if err != nil {
		return wire.CreateResult{}, n.storeFailure(ctx, err, job.id)
	}
	if !found {
		return wire.CreateResult{}, fail(errkind.Unavailable, opCreate, job.id, "its reservation is gone")
	}
	row := store.Authority{ID: job.id, ObjectGen: kept.ObjectGen, Mesh: n.cfg.Mesh, RID: n.cfg.RID, LeaseGen: n.lifecycle(), OwnerGen: 1}
	return resultOf(&kept, &row), nil
}

// finish ends the creation in the Store. The cell is in the object table, with
// its messages held, before the row can become Ready, so that whoever reads
// Ready finds it. A lost answer is asked for again with the same operation id
// until the answer is known or this process may not act any more.
func (n *Node) finish(job creation, row *store.Authority, s *staged, result store.Result, reply []byte, kind errkind.Kind) (wire.CreateResult, *Error) {
	if s != nil && !n.admitCell(s.cell) {
		return wire.CreateResult{}, fail(errkind.Unavailable, opCreate, job.id, "the same creation is already running")
	}
	f := store.Finish{
		Fence: store.Fence{ID: row.ID, ObjectGen: row.ObjectGen, Version: row.Version, OwnerID: row.OwnerID, LeaseGen: row.LeaseGen},
		Op:    job.op, Result: result, Reply: reply, FailKind: uint8(kind),
	}
	change, err := n.finishRow(job, f)
	if err == nil && change.Reason != store.Applied && change.Reason != store.AlreadyApplied {
		err = fail(errkind.Unavailable, opCreate, job.id, "the Store refused to end its creation (reason %d): this process is not its owner any more", change.Reason)
	}
	switch {
	case s == nil:
	case err != nil:
		n.drop(s.cell, err)
	default:
		s.cell.version = change.Record.Version
		s.cell.box.Seal(&release{cell: s.cell, from: s.held, next: s.cell})
	}
	if err != nil {
		return wire.CreateResult{}, err
	}
	t := store.Terminal{Result: result, Reply: reply, FailKind: uint8(kind)}
	return resultOf(&t, &change.Record), nil
}

// admitCell puts a cell in the object table, unless the incarnation or a later
// one is there.
func (n *Node) admitCell(cell *actorCell) (admitted bool) {
	n.actors.Update(cell.ref.ID, func(now *actorCell, present bool) (*actorCell, bool) {
		if admitted = !present || now.ref.ObjectGen < cell.ref.ObjectGen; admitted {
			return cell, true
		}
		return now, true
	})
	return admitted
}

func (n *Node) finishRow(job creation, f store.Finish) (store.Change, *Error) {
	ctx, cancel := context.WithTimeout(n.life, max(job.deadline.Sub(clock.Now()), 0)+finishTime)
	defer cancel()
	for {
		change, err := n.store.FinishActor(ctx, f)
		switch {
		case err == nil:
			return change, nil
		case ctx.Err() != nil, !n.mayAct(clock.Now()), !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrUnavailable):
			return change, fromStore(err, opCreate, job.id)
		}
		if !pause(ctx, createWaitMax) {
			return change, fromContext(ctx, opCreate, job.id)
		}
	}
}

// drop takes a cell out of the table and refuses what waits in it.
func (n *Node) drop(cell *actorCell, err *Error) {
	n.actors.Update(cell.ref.ID, func(now *actorCell, present bool) (*actorCell, bool) {
		return now, present && now != cell
	})
	cell.refuseAll(err)
}
