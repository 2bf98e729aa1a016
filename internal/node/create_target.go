package node

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// creation is one reserved creation as its target is told of it.
type creation struct {
	op       store.OperationKey
	kind     store.Kind
	id, typ  string
	objGen   store.ObjectGen
	version  store.Version
	deadline clock.Mono
	row      *store.Authority // with the request, if this node reserved it itself just now
	waits    bool             // its coordinator asks, who wants the result; else how it ends is read from the row
}

// CreateCall is what OnCreateActor gets. Its context ends at the creation's
// deadline.
type CreateCall struct {
	context.Context
	Actor    *ObjectContext
	Instance any
	Request  []byte // must not be modified
}

// runningOps are the creations that run at this node, so that one that is asked
// for twice runs once.
type runningOps struct {
	mu  sync.Mutex
	ops map[store.OpID]*runningOp
}

type runningOp struct {
	id   string
	over chan struct{} // closed when it has ended
}

// begin reports whether the job is the first of its operation; else it returns the one
// that runs.
func (r *runningOps) begin(job *creation) (runs *runningOp, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if runs := r.ops[job.op.Op]; runs != nil {
		return runs, false
	}
	runs = &runningOp{job.id, make(chan struct{})}
	r.ops[job.op.Op] = runs
	return runs, true
}

func (r *runningOps) end(op store.OpID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.ops[op].over)
	delete(r.ops, op)
}

// ids returns the ids that are being created.
func (r *runningOps) ids() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]bool, len(r.ops))
	for _, runs := range r.ops {
		all[runs.id] = true
	}
	return all
}

// runCreation runs a creation that was reserved for this node: factory and
// OnCreateActor on a staged instance, then one Store transaction that makes it
// Ready or removes it (CR-06 to CR-08). Whatever goes wrong before, the
// reservation is ended in the Store: nobody else may end it while this process
// lives. So it may take longer than the deadline; who waits for it watches its own.
func (n *Node) runCreation(job creation) (wire.CreateResult, *Error) {
	if !n.mayAct(clock.Now()) {
		return wire.CreateResult{}, errNotOwner // nothing may be committed; somebody will ask again
	}
	if runs, first := n.running.begin(&job); !first {
		return n.followCreation(job, runs)
	}
	defer n.running.end(job.op.Op)
	if c, here := n.actors.Load(job.id); here && c.ref.ObjectGen == uint64(job.objGen) {
		return n.replay(n.life, job) // it is over; a Store that forgot that may show it as Creating
	}
	if n.stopping.Load() {
		return n.failCreation(job, errkind.ShuttingDown)
	}
	if full := n.creations.enter(n.life, job.deadline); full != nil {
		return n.failCreation(job, full.Kind)
	}
	leave := sync.OnceFunc(n.creations.leave)
	defer leave()
	ctx, cancel := context.WithDeadline(n.life, job.deadline.Time())
	defer cancel()

	row, err := job.row, (*Error)(nil)
	if row == nil {
		row, err = n.readCreation(ctx, job)
	}
	switch {
	case err != nil:
		return n.failCreation(job, err.Kind)
	case row == nil: // this operation has ended before: the same answer again
		return n.replay(ctx, job)
	}
	job.op = row.Create.Op
	typ := n.app.typeOf(row.Kind, row.Type)
	if typ == nil || typ.Wide != row.Wide {
		return n.failCreation(job, errkind.NotConfigured)
	}
	held := &hold{}
	s := &staged{n.newCell(typ, refOf(row), row.Version, held), held}
	d := n.stage(ctx, s.cell, row.Create.Request, leave)
	switch {
	case d.err != nil:
		return n.failCreation(job, d.err.Kind)
	case d.admission.Reject:
		return n.finish(job, nil, store.Finish{Result: store.Rejected, Reply: d.admission.Reply})
	default:
		return n.finish(job, s, store.Finish{Result: store.Created, Reply: d.admission.Reply})
	}
}

// followCreation answers one who asks for a creation that runs already, as when the scan
// for reservations found it first: by the record that it leaves.
func (n *Node) followCreation(job creation, runs *runningOp) (wire.CreateResult, *Error) {
	if !job.waits {
		return wire.CreateResult{}, errCreationRuns
	}
	if err := n.creations.follow(n.life, runs.over, job.deadline); err != nil {
		return wire.CreateResult{}, err
	}
	return n.replay(n.life, job)
}

// failCreation ends the reservation as Failed.
func (n *Node) failCreation(job creation, kind errkind.Kind) (wire.CreateResult, *Error) {
	return n.finish(job, nil, store.Finish{Result: store.Failed, FailKind: uint8(kind)})
}

type staged struct {
	cell *objectCell
	held *hold
}

type decision struct {
	admission Admission
	err       *Error
}

// stage runs the application's part and calls leave when that is over. Past the
// deadline it is given up: what it still does concerns an instance that nobody
// will see, but it keeps its place among the creations that run.
func (n *Node) stage(ctx context.Context, cell *objectCell, request []byte, leave func()) decision {
	decided := make(chan decision)
	started := n.tasks.Go(func() {
		defer leave()
		a, err := n.admission(ctx, cell, request)
		if err == nil && len(a.Reply) > replyBytesMax {
			err = fail(errkind.CapacityExceeded, opCreate, cell.ref.ID, "its reply of %d bytes is over the limit of %d", len(a.Reply), replyBytesMax)
		}
		a.Reply = bytes.Clone(a.Reply) // the application may use its block again
		wanted := err == nil && !a.Reject
		select {
		case decided <- decision{a, err}:
		case <-ctx.Done():
			wanted = false
		}
		if !wanted && cell.typ.Kind != store.Actor {
			cell.refuseAll(errGone) // its turns may have started timers
		}
	})
	if !started {
		return decision{err: errStopping}
	}
	select {
	case d := <-decided:
		return d
	case <-ctx.Done():
		return decision{err: fromContext(ctx, opCreate, cell.ref.ID)}
	}
}

// admission makes the value and asks who decides about it: the Entry Spot about an Actor, a
// Spot's own callbacks about a Spot.
func (n *Node) admission(ctx context.Context, cell *objectCell, request []byte) (a Admission, err *Error) {
	err = guard(n, "creation", cell.ref.ID, func() (e error) {
		cell.instance, e = cell.typ.Factory(&cell.context)
		if e != nil || cell.typ.Kind != store.Actor || n.app.Entry.OnCreateActor == nil {
			return e
		}
		a, e = n.app.Entry.OnCreateActor(&CreateCall{Context: ctx, Actor: &cell.context, Instance: cell.instance, Request: request})
		return e
	})
	if err == nil && cell.typ.Kind != store.Actor {
		return cell.open(n.life, cell.step, deadlineOf(ctx), request)
	}
	return a, err
}

// readCreation reads the pending creation from the Store itself and checks that
// it is the one asked for and meant for this process. A nil row says that it is
// over.
func (n *Node) readCreation(ctx context.Context, job creation) (*store.Authority, *Error) {
	for {
		row, found, err := n.store.Read(ctx, job.id)
		switch {
		case errors.Is(err, store.ErrUnknown) && pause(ctx, createWaitMin):
			continue
		case err != nil:
			return nil, n.storeFailure(ctx, err, job.id)
		case !found, row.ObjectGen != job.objGen, row.State == store.Ready:
			return nil, nil
		case row.Create == nil || row.Create.Op.Op != job.op.Op || row.Version != job.version || row.Kind != job.kind || row.Type != job.typ:
			return nil, nil
		case !n.owns(&row):
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

// finish ends the creation in the Store. A created cell is in the object table,
// with its messages held, before the row can become Ready, so that whoever reads
// Ready finds it; it is let go only when the Store has said how it ended, in the epoch
// that this node knows.
func (n *Node) finish(job creation, s *staged, f store.Finish) (wire.CreateResult, *Error) {
	if s != nil {
		s.cell.takeRow(n.life) // nobody else knows it yet, so this does not wait
		defer s.cell.leaveRow()
		if !n.admitCell(s.cell) {
			return wire.CreateResult{}, errCreationRuns
		}
	}
	f.Op = job.op
	f.Fence = n.fence(job.kind, job.id, job.objGen, job.version)
	change, err := n.finishRow(f)
	if c := change.Record.Create; err == nil && c != nil && c.Op.Op == f.Op.Op && c.Op != f.Op {
		f.Op = c.Op // somebody else than its coordinator asked for it, and knew half of the key
		change, err = n.finishRow(f)
	}
	row := &change.Record
	switch {
	case err != nil:
	case change.Reason != store.Applied && change.Reason != store.AlreadyApplied,
		s != nil && (!change.Found || row.State != store.Ready || row.ObjectGen != job.objGen):
		err = fail(errkind.Unavailable, opCreate, job.id, "the Store had ended its creation otherwise (%v)", change.Reason)
	}
	if s != nil && err == nil {
		s.cell.version = row.Version
		s.cell.epoch.Store(uint64(row.Epoch))
		err = n.confirm(s.cell)
	}
	switch {
	case s == nil:
	case err != nil:
		n.drop(s.cell, err)
	default:
		s.cell.box.Seal(&release{cell: s.cell, from: s.held, next: s.cell})
	}
	if err != nil {
		return wire.CreateResult{}, err
	}
	return resultOf(&store.Terminal{Result: f.Result, Reply: f.Reply, FailKind: f.FailKind}, row), nil
}

// confirm is for a created cell whose row is taken: it returns once the row is written in
// the epoch that this node knows. An answer of an earlier one may come from a primary that
// is over, whose changes are lost, and the round that would write the row again may have
// ended before the cell was in the table. A round that begins later finds it there.
func (n *Node) confirm(c *objectCell) *Error {
	for wait := createWaitMin; ; wait = min(2*wait, settleWaitMax) {
		known := store.Epoch(n.known.Load())
		if !c.behind(known) {
			return nil
		}
		switch n.reassertRow(c, known) {
		case rowIsWritten:
			return nil
		case rowIsOver:
			return fail(errkind.Unavailable, opCreate, c.ref.ID, "it was created in a past of the Store that is lost, and its row cannot be written again")
		case rowInDoubt, epochIsOver: // a renewal tells of the next one
		}
		if !pause(n.life, wait) {
			return errStopping
		}
	}
}

// fence names a row of this process: of a Spot, or of an Actor in its Entry Spot.
func (n *Node) fence(kind store.Kind, id string, gen store.ObjectGen, v store.Version) store.Fence {
	return store.Fence{ID: id, ObjectGen: gen, Version: v, OwnerID: n.lease.OwnerID, LeaseGen: n.lifecycle(), SpotID: n.entryOf(kind)}
}

// entryOf returns the Entry Spot, for what has a Spot that it is in.
func (n *Node) entryOf(kind store.Kind) string {
	if kind == store.Actor {
		return n.entryID
	}
	return ""
}

// finishRow tells the Store until it has answered, for as long as this process
// lives: it alone may end the reservation. While the lease is in doubt it waits; but not
// for rows that are to be written again, as these wait for it.
func (n *Node) finishRow(f store.Finish) (store.Change, *Error) {
	for wait := createWaitMin; ; wait = min(2*wait, settleWaitMax) {
		if clock.Now() < clock.Mono(n.leased.Load()) {
			change, err := n.attempt(func(ctx context.Context) (store.Change, error) { return n.store.Finish(ctx, f) })
			switch {
			case err == nil && change.Reason != store.LeaseExpired:
				return change, nil
			case errors.Is(err, store.ErrInvalid):
				return change, fromStore(err, opCreate, f.ID)
			}
		}
		if !pause(n.life, wait) {
			return store.Change{}, errStopping
		}
	}
}

// attempt makes one try of a Store change, bounded on its own.
func (n *Node) attempt(try func(context.Context) (store.Change, error)) (store.Change, error) {
	ctx, cancel := context.WithTimeout(n.life, storeCallMax)
	defer cancel()
	return try(ctx)
}

// admitCell puts a cell in the object table, unless the incarnation or a later
// one is there. An earlier one is over: the Store has issued a new one.
func (n *Node) admitCell(cell *objectCell) (admitted bool) {
	var earlier *objectCell
	n.actors.Update(cell.ref.ID, func(now *objectCell, present bool) (*objectCell, bool) {
		admitted = !present || now.ref.ObjectGen < cell.ref.ObjectGen
		if !admitted {
			return now, true
		}
		earlier = now
		return cell, true
	})
	if admitted && cell.typ.Kind != store.Actor {
		n.spots.Add(1)
	}
	if earlier != nil {
		n.leftTable(earlier)
		earlier.refuseAll(errGone)
	}
	return admitted
}

// drop takes a cell out of the table and refuses what waits in it.
func (n *Node) drop(cell *objectCell, err *Error) {
	var was bool
	n.actors.Update(cell.ref.ID, func(now *objectCell, present bool) (*objectCell, bool) {
		was = present && now == cell
		return now, present && now != cell
	})
	if was {
		n.leftTable(cell)
	}
	cell.refuseAll(err)
}

// leftTable is told of each cell that has left the object table.
func (n *Node) leftTable(cell *objectCell) {
	if cell.typ.Kind != store.Actor {
		n.spots.Add(-1)
	}
}
