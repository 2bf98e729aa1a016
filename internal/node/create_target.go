package node

import (
	"bytes"
	"context"
	"sync"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

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

// begin reports whether the operation on the id does not run yet, and is the caller's to
// run then; else it returns the one that runs. end must follow the first.
func (r *runningOps) begin(op store.OpID, id string) (runs *runningOp, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if runs := r.ops[op]; runs != nil {
		return runs, false
	}
	runs = &runningOp{id, make(chan struct{})}
	r.ops[op] = runs
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

// runCreation runs a creation that was reserved for this process, until its end. waits says
// that its coordinator asks, who wants the result; else how it ends is read from the row.
func (n *Node) runCreation(job creation.Job, waits bool) (creation.Result, *Error) {
	runs, first := n.running.begin(job.Op.Op, job.ID)
	if !first {
		return n.followCreation(&job, runs, waits)
	}
	return n.runBegun(job)
}

// runBegun does what a creation.Target says. It may take longer than the creation's
// deadline. The operation is the caller's to run (runningOps.begin), and ends here.
func (n *Node) runBegun(job creation.Job) (creation.Result, *Error) {
	defer n.running.end(job.Op.Op)
	self := creation.Self{RID: n.cfg.RID, Mesh: n.home.cfg.Name, OwnerID: n.lease.OwnerID, LeaseGen: n.lifecycle(), EntryID: n.entryID}
	target := creation.NewTarget(job, self, createTiming)
	c := creationRun{node: n, job: &job}
	defer c.leave()
	target.Step(clock.Now(), c.begun())
	for {
		next, due := target.Effect()
		happened := creation.TargetEvent{Is: creation.TargetTick}
		switch {
		case due && next.Do == creation.TargetEnd:
			return c.end(&next)
		case due:
			happened = c.perform(&next)
		default:
			if at, _ := target.NextDeadline(); !pause(n.life, at.Sub(clock.Now())) {
				return c.end(&creation.TargetEffect{Failure: failureOf(errStopping)})
			}
		}
		target.Step(clock.Now(), happened)
	}
}

// followCreation answers one who asks for a creation that runs already, as when the scan
// for reservations found it first: by the record that it leaves (CR-15).
func (n *Node) followCreation(job *creation.Job, runs *runningOp, waits bool) (creation.Result, *Error) {
	if !waits {
		return creation.Result{}, errCreationRuns
	}
	if err := n.creations.follow(n.life, runs.over, job.Deadline); err != nil {
		return creation.Result{}, err
	}
	kept, found, err := n.store.ReadTerminal(n.life, job.Op)
	switch {
	case err != nil:
		return creation.Result{}, n.storeFailure(n.life, err, job.ID)
	case !found:
		return creation.Result{}, fail(errkind.Unavailable, opCreate, job.ID, "its reservation is gone")
	}
	owner := store.Authority{ID: job.ID, ObjectGen: kept.ObjectGen, Mesh: n.home.cfg.Name, RID: n.cfg.RID, LeaseGen: n.lifecycle(), OwnerGen: 1}
	return creation.Result{Terminal: kept, Owner: owner}, nil
}

// creationRun is one creation at its target: it performs what its Target wants.
type creationRun struct {
	node   *Node
	job    *creation.Job
	placed bool // among the creations that run
	cell   *objectCell
	held   *hold
	taken  bool // the cell's row
}

func (c *creationRun) begun() creation.TargetEvent {
	n := c.node
	cell, known := n.actors.Load(c.job.ID)
	e := creation.TargetEvent{
		Is: creation.TargetBegun, MayAct: n.mayAct(clock.Now()), Here: known && cell.ref.ObjectGen == uint64(c.job.ObjGen),
	}
	if n.stopping.Load() {
		e.Failure = failureOf(errStopping)
	}
	return e
}

func (c *creationRun) perform(e *creation.TargetEffect) (happened creation.TargetEvent) {
	n := c.node
	switch e.Do {
	case creation.TargetEnter:
		happened.Is = creation.TargetEntered
		full := n.creations.enter(n.life, c.job.Deadline)
		if c.placed = full == nil; !c.placed {
			happened.Failure = failureOf(full)
		}
	case creation.TargetRead:
		happened.Is = creation.TargetRow
		happened.Row, happened.Found, happened.Err = n.readRow(n.life, c.job.ID)
	case creation.TargetStage:
		return c.stage(&e.Row)
	case creation.TargetPublish:
		c.cell.takeRow(n.life) // nobody else knows it yet, so this does not wait
		c.taken = true
		happened.Is, happened.Done = creation.TargetPublished, n.admitCell(c.cell)
	case creation.TargetFinish:
		happened.Is = creation.TargetFinished
		happened.Change, happened.Err = n.tryFinish(&e.Finish)
	case creation.TargetConfirm:
		happened.Is = creation.TargetConfirmed
		c.cell.written(&e.Row)
		if err := n.confirm(c.cell); err != nil {
			happened.Failure = failureOf(err)
		}
	case creation.TargetRecall:
		happened.Is = creation.TargetRecalled
		happened.Terminal, happened.Found, happened.Err = n.store.ReadTerminal(n.life, e.Op)
	case creation.TargetEnd: // see runBegun
	}
	return happened
}

// tryFinish makes one try to tell the Store how a creation ended, unless the lease is in
// doubt. That rows are to be written again is no reason against it, as these wait for it.
func (n *Node) tryFinish(f *store.Finish) (store.Change, error) {
	return n.whileLeased(func(ctx context.Context) (store.Change, error) { return n.store.Finish(ctx, *f) })
}

// whileLeased makes one try of a Store change, unless the lease is in doubt.
func (n *Node) whileLeased(try func(context.Context) (store.Change, error)) (store.Change, error) {
	if clock.Now().Reached(clock.Mono(n.leased.Load())) {
		return store.Change{}, store.ErrUnavailable
	}
	return n.attempt(try)
}

// end opens the object, or drops it.
func (c *creationRun) end(e *creation.TargetEffect) (creation.Result, *Error) {
	n := c.node
	var err *Error
	if e.Failure != nil {
		err = n.errorOf(n.life, e.Failure)
	}
	switch {
	case c.cell == nil:
	case e.Open:
		c.cell.box.Seal(&release{cell: c.cell, from: c.held, next: c.cell})
	case c.taken:
		n.drop(c.cell, err)
	}
	if c.taken {
		c.cell.leaveRow()
	}
	return e.Result, err
}

func (c *creationRun) leave() {
	if c.placed {
		c.node.creations.leave()
	}
}

// stage runs the application's part. Past the deadline it is given up: what it still does
// concerns an instance that nobody will see, but it keeps its place among the creations
// that run.
func (c *creationRun) stage(row *store.Authority) creation.TargetEvent {
	n := c.node
	typ := n.app.typeOf(row.Kind, row.Type)
	if typ == nil || typ.Wide != row.Wide {
		return creation.TargetEvent{Is: creation.TargetStaged, Failure: &creation.Failure{Kind: errkind.NotConfigured}}
	}
	if !n.mayAct(clock.Now()) { // it may have waited long for its place
		return creation.TargetEvent{Is: creation.TargetStaged, Failure: failureOf(errNotOwner)}
	}
	c.held = &hold{}
	c.cell = n.newCell(typ, refOf(row), row.Version, c.held)
	ctx, cancel := context.WithDeadline(n.life, c.job.Deadline.Time())
	defer cancel()
	ctx, span := n.traceCreation(ctx, c.job.Op.Op, c.cell)
	decided := make(chan creation.TargetEvent)
	cell, placed := c.cell, c.placed
	started := n.tasks.Go(func() {
		if placed {
			defer n.creations.leave()
		}
		staged := n.decide(ctx, cell, row.Create.Request)
		endSpan(span, endOfStaging(&staged))
		wanted := staged.Failure == nil && !staged.Reject
		select {
		case decided <- staged:
		case <-ctx.Done():
			wanted = false
		}
		if !wanted && typ.Kind != store.Actor {
			cell.refuseAll(errGone) // its turns may have started timers
		}
	})
	if !started {
		endSpan(span, errStopping)
		return creation.TargetEvent{Is: creation.TargetStaged, Failure: failureOf(errStopping)}
	}
	c.placed = false // the task leaves it
	select {
	case staged := <-decided:
		return staged
	case <-ctx.Done():
		if n.life.Err() != nil {
			return creation.TargetEvent{Is: creation.TargetStaged, Failure: failureOf(errStopping)}
		}
		return creation.TargetEvent{Is: creation.TargetTick} // the deadline
	}
}

// decide makes the value and asks who decides about it: the Entry Spot about an Actor, a
// Spot's own callbacks about a Spot.
func (n *Node) decide(ctx context.Context, cell *objectCell, request []byte) creation.TargetEvent {
	staged := creation.TargetEvent{Is: creation.TargetStaged}
	var a Admission
	err := cell.make()
	switch {
	case err != nil:
	case cell.typ.Kind != store.Actor:
		a, err = cell.open(n.life, cell.step, deadlineOf(ctx), request)
	case n.app.Entry.OnCreateActor != nil:
		err = guard(n, "creation", cell.ref.ID, func() (e error) {
			a, e = n.app.Entry.OnCreateActor(&CreateCall{Context: ctx, Actor: &cell.context, Instance: cell.instance, Request: request})
			return e
		})
		cell.failed("OnCreateActor", err)
	}
	if err == nil && len(a.Reply) > replyBytesMax {
		err = fail(errkind.CapacityExceeded, opCreate, cell.ref.ID, "its reply of %d bytes is over the limit of %d", len(a.Reply), replyBytesMax)
	}
	if err != nil {
		staged.Failure = failureOf(err)
	}
	staged.Reject, staged.Reply = a.Reject, bytes.Clone(a.Reply) // the application may use its block again
	return staged
}

// confirm is for a cell whose row is taken and was created or changed: it returns once the
// row is written in the epoch that this node knows. An answer of an earlier one may come
// from a primary that is over, whose changes are lost, and the round that would write the
// row again may have ended before the cell was in the table. A round that begins later
// finds it there.
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
			return fail(errkind.Unavailable, opCreate, c.ref.ID, "what the Store said of it was in a past that is lost, and its row cannot be written again")
		case rowInDoubt, epochIsOver: // a renewal tells of the next one
		}
		if !pause(n.life, wait) {
			return errStopping
		}
	}
}

// attempt makes one try of a Store change, bounded on its own.
func (n *Node) attempt(try func(context.Context) (store.Change, error)) (store.Change, error) {
	ctx, cancel := context.WithTimeout(n.life, storeCallMax)
	defer cancel()
	return try(ctx)
}
