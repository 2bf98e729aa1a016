package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// CreateRequest asks for an Actor or a User Spot.
type CreateRequest struct {
	Kind    store.Kind
	ID      string // of a User Spot that is to be new it may be "": then one is issued
	Type    string
	Mesh    string // "" : the only one whose objects the node uses
	Pass    string // through a Cordon; "": none
	Request []byte // for OnCreateActor or OnCreate; copied before the call returns
	// GetOrCreate accepts an object that is there already.
	GetOrCreate bool
}

// CreateOutcome says how a creation ended well.
type CreateOutcome uint8

// The outcomes.
const (
	OutcomeCreated  CreateOutcome = iota + 1
	OutcomeExisting               // GetOrCreate found it Ready
	OutcomeRejected               // OnCreateActor or OnCreate refused
)

// CreateResult is the end of a creation.
type CreateResult struct {
	Outcome CreateOutcome
	Ref     ActorRef // of Created and Existing
	Reply   []byte   // of that callback, of Created and Rejected
}

const opCreate = "create"

// newOpID returns an operation id: 128 random bits.
func newOpID() (id store.OpID) {
	rand.Read(id[:]) // never fails (crypto/rand)
	return id
}

// Create creates an object somewhere in the mesh, or with GetOrCreate finds it.
// The caller coordinates: it reserves the id at a target in the Store, so that
// of all who race exactly one gets to run the factory (CR-01), then asks the
// target to run it. One deadline covers it all (CR-13).
func (n *Node) Create(ctx context.Context, req CreateRequest) (CreateResult, error) {
	if req.ID == "" && req.Kind == store.UserSpot && !req.GetOrCreate {
		req.ID = uuid.NewString()
	}
	if err := n.checkCreate(&req); err != nil {
		return CreateResult{}, err
	}
	if err := fenced(ctx); err != nil {
		return CreateResult{}, err.of(opCreate, req.ID)
	}
	var span trace.Span
	if n.cfg.Tracer != nil {
		ctx, span = n.startSpan(ctx, "create "+req.Type, trace.SpanKindInternal, attrType.String(req.Type))
		if n.cfg.TraceIDs {
			span.SetAttributes(attrObject.String(req.ID))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.CreateTimeout)
	defer cancel()
	var result CreateResult
	var err *Error
	defer func() { endSpan(span, err) }()
	blocking(ctx, func() { result, err = n.create(ctx, &req) })
	if err != nil {
		return CreateResult{}, err
	}
	return result, nil
}

func (n *Node) checkCreate(req *CreateRequest) *Error {
	switch {
	case n.store == nil:
		return errNoStore(opCreate, req.ID)
	case !wire.ValidID(req.ID):
		return fail(errkind.InvalidOperation, opCreate, req.ID, "an id has 1 to %d bytes of UTF-8", idBytesMax)
	case entryIDForm.MatchString(req.ID):
		return fail(errkind.InvalidOperation, opCreate, req.ID, "ids of this form are reserved for Entry Spots")
	case !stableType.MatchString(req.Type):
		return fail(errkind.InvalidOperation, opCreate, req.ID, "%q is no stable type", req.Type)
	case len(req.Pass) > passBytesMax:
		return fail(errkind.InvalidOperation, opCreate, req.ID, "a pass of %d bytes is over the limit of %d", len(req.Pass), passBytesMax)
	case len(req.Request) > requestBytesMax:
		return fail(errkind.InvalidOperation, opCreate, req.ID, "a creation request of %d bytes is over the limit of %d", len(req.Request), requestBytesMax)
	}
	m, err := n.chooseMesh(opCreate, req.ID, req.Mesh)
	if err != nil {
		return err
	}
	req.Mesh = m.cfg.Name
	if !n.mayAct(clock.Now()) {
		return errNotOwner.of(opCreate, req.ID)
	}
	return nil
}

// createTiming is how long the machines of internal/creation wait.
var createTiming = creation.Timing{Wait: createWaitMin, WaitMax: createWaitMax, Settle: settleWaitMax, Nudge: nudgeEvery}

// create does what a creation.Source says, until its end.
func (n *Node) create(ctx context.Context, req *CreateRequest) (CreateResult, *Error) {
	source := creation.NewSource(creation.Call{
		Kind: req.Kind, ID: req.ID, Type: req.Type, Get: req.GetOrCreate, Deadline: deadlineOf(ctx),
	}, createTiming)
	c := creating{node: n, ctx: ctx, req: req, pass: store.PassDigest(req.Pass)}
	defer c.leave()
	for {
		next, due := source.Effect()
		switch {
		case due && next.Do == creation.SourceEnd:
			return c.result(&next.End)
		case due:
			if happened := c.perform(&next); happened.Is != 0 {
				source.Step(clock.Now(), happened)
			}
		default:
			at, _ := source.NextDeadline()
			happened := creation.SourceTick
			if !pause(ctx, at.Sub(clock.Now())) {
				happened = creation.SourceAbandoned
			}
			source.Step(clock.Now(), creation.SourceEvent{Is: happened})
		}
	}
}

// creating is one call of Create: it performs what its Source wants.
type creating struct {
	node  *Node
	ctx   context.Context
	req   *CreateRequest
	pass  string     // its PassDigest, or ""
	asked clock.Mono // when the Store was asked last
	wide  bool       // of the target that was chosen: its Spots of the type share their gate
	// mine is the operation that reserves at this process, from before the Store is asked:
	// else who finds the reservation first could run it to its end, and this call would run
	// what it was told of it once more. Zero: none.
	mine store.OpID
}

// take makes the operation this call's to run, if it is at this process.
func (c *creating) take(place *creation.Place, op store.OpID) {
	if c.mine == op {
		return
	}
	c.leave()
	if place.RID == c.node.cfg.RID && place.Lifecycle == c.node.lifecycle() {
		if _, first := c.node.running.begin(op, c.req.ID); first {
			c.mine = op
		}
	}
}

// leave ends that, unless the operation runs.
func (c *creating) leave() {
	if c.mine != (store.OpID{}) {
		c.node.running.end(c.mine)
		c.mine = store.OpID{}
	}
}

// perform does it and returns what came of it; of a nudge comes nothing.
func (c *creating) perform(e *creation.SourceEffect) (happened creation.SourceEvent) {
	n := c.node
	c.asked = clock.Now()
	switch e.Do {
	case creation.SourceChoose:
		happened.Is = creation.SourceChosen
		typ := typeKey{c.req.Kind, c.req.Type}
		target, err := n.chooseTarget(c.req.Mesh, typ, e.Excluded, c.pass)
		if err != nil {
			happened.Failure = failureOf(err)
			return happened
		}
		t := spotTypeOf(&target, typ)
		c.wide = t != nil && t.Wide
		happened.Place = creation.Place{RID: target.RID, Mesh: target.Mesh, Lifecycle: target.Lifecycle}
		happened.Op = store.OperationKey{SourceRID: n.cfg.RID, SourceLifecycle: n.lifecycle(), Op: newOpID()}
	case creation.SourceReserve:
		happened.Is = creation.SourceReserved
		if n.cfg.Tracer != nil {
			trace.SpanFromContext(c.ctx).SetAttributes(operationOf(e.Op.Op))
		}
		c.take(&e.Place, e.Op.Op)
		happened.Change, happened.Err = n.store.Reserve(c.ctx, store.Reserve{
			Kind: c.req.Kind, ID: c.req.ID, Type: c.req.Type, Wide: c.wide, TargetRID: e.Place.RID, TargetLifecycle: e.Place.Lifecycle,
			Request: c.req.Request, Timeout: remaining(c.ctx), Op: e.Op, Pass: c.pass,
		})
	case creation.SourceRead:
		happened.Is = creation.SourceRow
		happened.Row, happened.Found, happened.Err = n.store.Read(c.ctx, c.req.ID)
	case creation.SourceRecall:
		happened.Is = creation.SourceRecalled
		happened.Terminal, happened.Found, happened.Err = n.store.ReadTerminal(c.ctx, e.Op)
	case creation.SourceCancel:
		happened.Is = creation.SourceCancelled
		_, happened.Err = n.store.CancelCreation(c.ctx, e.Row.ID, e.Row.ObjectGen, e.Row.Version)
	case creation.SourceRun:
		happened.Is = creation.SourceAnswered
		var err *Error
		switch happened.Result, err = c.run(&e.Row); {
		case err != nil && c.ctx.Err() != nil:
			happened.Is = creation.SourceAbandoned
		case err != nil:
			happened.Failure = failureOf(err)
		}
	case creation.SourceNudge:
		n.nudge(c.ctx, &e.Row)
	case creation.SourceEnd: // see create
	}
	return happened
}

// result tells the caller.
func (c *creating) result(end *creation.SourceResult) (CreateResult, *Error) {
	n, id, r := c.node, c.req.ID, &end.Result
	if end.Outcome != creation.Existing {
		n.routes.drop(id) // what was known is of an earlier incarnation
	}
	switch end.Outcome {
	case creation.Existing:
		n.routes.learn(&end.Row, c.asked)
		return CreateResult{Outcome: OutcomeExisting, Ref: refOf(&end.Row)}, nil
	case creation.Created:
		return CreateResult{Outcome: OutcomeCreated, Ref: refOf(&r.Owner), Reply: r.Reply}, nil
	case creation.Rejected:
		return CreateResult{Outcome: OutcomeRejected, Reply: r.Reply}, nil
	case creation.OutOfHold:
		return CreateResult{}, fail(errkind.DeadlineExceeded, opCreate, id,
			"the Store has just come back or is new, and holds creations for %v; try again", n.cfg.RecoveryHold)
	case creation.TimedOut:
		<-c.ctx.Done() // the Source may have looked at the clock a moment earlier
		return CreateResult{}, fromContext(c.ctx, opCreate, id)
	case creation.Failed:
		if end.Failure == nil {
			return CreateResult{}, fail(errkind.Kind(r.FailKind), opCreate, id, "its factory or a callback of its creation failed on node %s", r.Owner.RID)
		}
	}
	return CreateResult{}, n.errorOf(c.ctx, end.Failure).of(opCreate, id)
}

// failureOf and errorOf carry errors through a machine. What application code gave as the
// cause of an error stays behind: it is logged, and none of a caller's business.
func failureOf(err *Error) *creation.Failure {
	return &creation.Failure{Kind: err.Kind, Text: err.Text}
}

func (n *Node) errorOf(ctx context.Context, f *creation.Failure) *Error {
	if f.Err != nil {
		return n.storeFailure(ctx, f.Err, "")
	}
	return &Error{Kind: f.Kind, Text: f.Text}
}

// run has the reservation's target run the creation and waits for its end.
func (c *creating) run(row *store.Authority) (creation.Result, *Error) {
	job := jobOf(row, deadlineOf(c.ctx))
	if !c.node.owns(row) {
		return c.ask(row, &job)
	}
	run := func() (creation.Result, *Error) { return c.node.runCreation(job, true) }
	if c.mine == job.Op.Op {
		row.Create.Request = bytes.Clone(c.req.Request)
		job.Row = row
		run = func() (creation.Result, *Error) { return c.node.runBegun(job) }
	}
	type end struct {
		result creation.Result
		err    *Error
	}
	ended := make(chan end, 1)
	started := c.node.tasks.Go(func() { // it goes on if the caller gives up
		r, err := run()
		ended <- end{r, err}
	})
	if !started {
		return creation.Result{}, errStopping
	}
	c.mine = store.OpID{} // the task ends it
	select {
	case e := <-ended:
		return e.result, e.err
	case <-c.ctx.Done():
		return creation.Result{}, fromContext(c.ctx, "", "")
	}
}

// ask asks a remote target.
func (c *creating) ask(row *store.Authority, job *creation.Job) (creation.Result, *Error) {
	r := c.node.askPeer(c.ctx, row.Mesh, row.RID, uint64(row.LeaseGen), job.Deadline, func(corr uint64) wire.Record {
		return createRecord(job, corr, uint64(row.LeaseGen))
	})
	if r.err != nil {
		return creation.Result{}, r.err
	}
	defer r.owner.Free()
	told, err := wire.DecodeCreateResult(r.payload)
	if err != nil {
		return creation.Result{}, fail(errkind.ProtocolError, "", "", "node %s answered with %v", row.RID, err)
	}
	return fromWireResult(&told, row), nil
}

// jobOf is the creation of a Creating row.
func jobOf(row *store.Authority, deadline clock.Mono) creation.Job {
	return creation.Job{
		Op: row.Create.Op, ID: row.ID, Type: row.Type, Kind: row.Kind, ObjGen: row.ObjectGen, Version: row.Version, Deadline: deadline,
	}
}

// nudge asks the target of a creation that somebody else began to run it, in case
// it was never told: the coordinator's link may have been lost in between. If it
// runs or is over already, that changes nothing.
func (n *Node) nudge(ctx context.Context, row *store.Authority) {
	// The creation's own deadline, which clocks that differ must not bring forward.
	job := jobOf(row, max(deadlineOf(ctx), clock.Now().Add(time.Until(row.Create.Deadline))))
	if n.owns(row) {
		n.tasks.Go(func() { _, _ = n.runCreation(job, false) }) // how it ends is read from the row
		return
	}
	l, _ := n.linkTo(row.Mesh, row.RID, uint64(row.LeaseGen))
	if l == nil {
		return
	}
	corr, err := l.pending.add(completeFunc(func(r result) { r.owner.Free() }), job.Deadline)
	if err == nil {
		l.sendControl(createRecord(&job, corr, uint64(row.LeaseGen)))
	}
}

// createRecord is the creation as its target is told of it.
func createRecord(j *creation.Job, corr, target uint64) wire.Record {
	rec := &wire.ActorCreate{
		Correlation: corr, Op: j.Op.Op, SourceLifecycle: uint64(j.Op.SourceLifecycle), ID: []byte(j.ID), Type: []byte(j.Type),
		ObjGen: uint64(j.ObjGen), StoreVersion: uint64(j.Version), TargetLifecycle: target,
		DeadlineMS: wire.DeadlineMS(j.Deadline.Sub(clock.Now())),
	}
	if j.Kind == store.UserSpot {
		return (*wire.UserSpotCreate)(rec)
	}
	return rec
}

// toWireResult is what a creation gave, as who asked over a link is told.
func toWireResult(r *creation.Result) wire.CreateResult {
	w := wire.CreateResult{HasReply: len(r.Reply) > 0, Reply: r.Reply}
	switch r.Terminal.Result {
	case store.Created:
		w.Outcome, w.Ref = wire.OutcomeCreated, wireRef(refOf(&r.Owner))
	case store.Rejected:
		w.Outcome = wire.OutcomeRejected
	default:
		w = wire.CreateResult{Outcome: wire.OutcomeFailed, Kind: r.FailKind}
	}
	return w
}

// fromWireResult is the same at who asked, with copies of what are views of the record.
// row is what the creation was reserved by.
func fromWireResult(w *wire.CreateResult, row *store.Authority) creation.Result {
	r := creation.Result{Owner: *row}
	r.ID, r.ObjectGen = row.ID, row.ObjectGen
	r.Reply = bytes.Clone(w.Reply)
	switch w.Outcome {
	case wire.OutcomeCreated:
		r.Terminal.Result = store.Created
		ref := refFromWire(&w.Ref)
		r.Owner = store.Authority{
			ID: ref.ID, ObjectGen: store.ObjectGen(ref.ObjectGen), Mesh: ref.Mesh, RID: ref.RID,
			LeaseGen: store.LeaseGen(ref.Lifecycle), OwnerGen: store.OwnerGen(ref.OwnerGen),
		}
	case wire.OutcomeRejected:
		r.Terminal.Result = store.Rejected
	default:
		r.Terminal.Result, r.FailKind = store.Failed, w.Kind
	}
	return r
}
