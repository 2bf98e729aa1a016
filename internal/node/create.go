package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"

	"github.com/google/uuid"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// CreateRequest asks for an Actor or a User Spot.
type CreateRequest struct {
	Kind    store.Kind
	ID      string // of a User Spot that is to be new it may be "": then one is issued
	Type    string
	Mesh    string // "" : the node's own
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
	ctx, cancel := context.WithTimeout(ctx, n.cfg.CreateTimeout)
	defer cancel()
	var result CreateResult
	var err *Error
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
	case len(req.Request) > requestBytesMax:
		return fail(errkind.InvalidOperation, opCreate, req.ID, "a creation request of %d bytes is over the limit of %d", len(req.Request), requestBytesMax)
	case req.Mesh != "" && req.Mesh != n.cfg.Mesh:
		return fail(errkind.NotFound, opCreate, req.ID, "this node is not in mesh %q", req.Mesh)
	case !n.mayAct(clock.Now()):
		return errNotOwner.of(opCreate, req.ID)
	}
	return nil
}

// create tries until the id is ours, somebody else's, or the deadline passes. It
// reserves without looking first: the Store's refusal shows the row that is there.
func (n *Node) create(ctx context.Context, req *CreateRequest) (CreateResult, *Error) {
	targets := search{node: n, req: req, refused: map[string]bool{}}
	held := false // by a young epoch, until processes are over whose rows may be lost
	for ctx.Err() == nil {
		asked := clock.Now()
		change, err := targets.reserve(ctx)
		row, found := change.Record, change.Found
		switch {
		case err != nil && held && ctx.Err() != nil:
			continue
		case err != nil:
			if row, found = n.look(ctx, req.ID); !found {
				return CreateResult{}, err
			}
		case change.Reason == store.Applied:
			return n.runAt(ctx, req, &row)
		case change.Reason == store.AlreadyApplied:
			if result, known, err := targets.ended(ctx, &change); known || err != nil {
				return result, err
			}
			continue // it was cancelled
		case change.Reason == store.Recovering:
			held = true
			pause(ctx, createWaitMax)
			continue
		}
		held = false
		if found { // somebody else was first
			if result, over, err := n.wait(ctx, req, &row, asked); over {
				return result, err
			}
		}
	}
	if held {
		return CreateResult{}, fail(fromContext(ctx, opCreate, req.ID).Kind, opCreate, req.ID,
			"the Store has just come back or is new, and holds creations for %v; try again", n.cfg.RecoveryHold)
	}
	return CreateResult{}, fromContext(ctx, opCreate, req.ID)
}

// wait follows a row that is there until it gives the request its end, or until the id
// may be competed for: a loser waits for the winner, Ready gives it Existing, Missing
// lets it compete again with its own request (CR-12).
func (n *Node) wait(ctx context.Context, req *CreateRequest, row *store.Authority, asked clock.Mono) (_ CreateResult, over bool, _ *Error) {
	wait, nudge := createWaitMin, asked.Add(nudgeEvery)
	for {
		result, again, failure := n.existing(req, row, asked)
		switch {
		case !again:
			return result, true, failure
		case row.LeaseLeft <= 0:
			if err := n.cancelDead(ctx, row); err != nil {
				return CreateResult{}, true, err
			}
		default:
			if asked.Reached(nudge) && row.Create != nil {
				n.nudge(ctx, row)
				nudge = asked.Add(nudgeEvery)
			}
			if !pause(ctx, wait) {
				return CreateResult{}, true, fromContext(ctx, opCreate, req.ID)
			}
			wait = min(2*wait, createWaitMax)
		}
		asked = clock.Now()
		now, found, err := n.store.Read(ctx, req.ID)
		switch {
		case errors.Is(err, store.ErrUnknown) && pause(ctx, createWaitMin):
			return CreateResult{}, false, nil // the next reservation tells
		case err != nil:
			return CreateResult{}, true, n.storeFailure(ctx, err, req.ID)
		case !found:
			return CreateResult{}, false, nil
		}
		row = &now
	}
}

// look reads the row of an id for which no target was found: it may be there already.
func (n *Node) look(ctx context.Context, id string) (store.Authority, bool) {
	row, found, err := n.store.Read(ctx, id)
	return row, found && err == nil
}

// existing decides what a row that is there means for the request; again says that
// its creation is under way and worth waiting for, or that of a dead node.
func (n *Node) existing(req *CreateRequest, row *store.Authority, asked clock.Mono) (_ CreateResult, again bool, _ *Error) {
	switch {
	case row.State == store.Creating && row.LeaseLeft <= 0:
		return CreateResult{}, true, nil
	case row.Kind != req.Kind || row.Type != req.Type:
		return CreateResult{}, false, fail(errkind.TypeMismatch, opCreate, req.ID, "it is a %v of type %q, not a %v of type %q", row.Kind, row.Type, req.Kind, req.Type)
	case !req.GetOrCreate:
		return CreateResult{}, false, fail(errkind.AlreadyExists, opCreate, req.ID, "it exists or is being created")
	case row.LeaseLeft <= 0:
		return CreateResult{}, false, errOwnerDead(opCreate, req.ID, row.RID)
	case row.State == store.Creating:
		return CreateResult{}, true, nil
	}
	n.routes.learn(row, asked)
	return CreateResult{Outcome: OutcomeExisting, Ref: refOf(row)}, false, nil
}

// search looks for a target and reserves it.
type search struct {
	node    *Node
	req     *CreateRequest
	refused map[string]bool // targets that the Store refused within this call
	full    bool            // one of them for want of capacity

	// What was asked for last.
	target store.Descriptor
	op     store.OperationKey
}

func (s *search) typ() typeKey { return typeKey{s.req.Kind, s.req.Type} }

// reserve picks targets until one is reserved, the id turns out to be taken, or
// none is left. The result is Applied; AlreadyApplied for a reservation that is over by
// now, see ended; Exists, TypeMismatch or Recovering.
func (s *search) reserve(ctx context.Context) (store.Change, *Error) {
	for {
		target, err := s.node.chooseTarget(s.typ(), s.refused)
		if err != nil {
			if s.full {
				return store.Change{}, fail(errkind.CapacityExceeded, opCreate, s.req.ID, "every node that hosts type %q is full", s.req.Type)
			}
			return store.Change{}, err.of(opCreate, s.req.ID)
		}
		change, err := s.reserveAt(ctx, target)
		if err != nil {
			return change, err
		}
		switch change.Reason {
		case store.AlreadyApplied: // by a try whose answer was lost
			if c := change.Record.Create; change.Found && c != nil && c.Op == s.op {
				change.Reason = store.Applied
			}
			return change, nil
		case store.Applied, store.Exists, store.TypeMismatch, store.Recovering:
			return change, nil
		case store.CapacityExceeded:
			s.full = true
			s.refused[target.RID] = true
		case store.TargetUnavailable, store.TargetIncompatible:
			s.refused[target.RID] = true
		case store.Exhausted:
			return change, fail(errkind.InternalFailure, opCreate, s.req.ID, "the namespace has no ObjectGeneration left")
		default:
			return change, fail(errkind.InternalFailure, opCreate, s.req.ID, "the Store refused the reservation for reason %d", change.Reason)
		}
	}
}

// reserveAt asks for one target. A lost answer is asked for again with the same
// operation id, so the Store says whether it was applied, until it has said so: a later
// try that did not reach the Store says nothing of the first. One that is given up, its
// target finds and ends.
func (s *search) reserveAt(ctx context.Context, target store.Descriptor) (store.Change, *Error) {
	s.target = target
	s.op = store.OperationKey{SourceRID: s.node.cfg.RID, SourceLifecycle: s.node.lifecycle(), Op: newOpID()}
	t := spotTypeOf(&target, s.typ())
	r := store.Reserve{
		Kind: s.req.Kind, ID: s.req.ID, Type: s.req.Type, Wide: t != nil && t.Wide, TargetRID: target.RID, TargetLifecycle: target.Lifecycle,
		Request: s.req.Request, Timeout: remaining(ctx), Op: s.op,
	}
	change, _, err := untilKnown(ctx, createWaitMax, func() (store.Change, error) { return s.node.store.Reserve(ctx, r) })
	if err != nil {
		return store.Change{}, s.node.storeFailure(ctx, err, s.req.ID)
	}
	return change, nil
}

// ended is for a reservation whose answer was lost until the target had found and ended
// it: the caller gets that operation's own result (CR-15). It is not known if it was
// cancelled, which keeps no record.
func (s *search) ended(ctx context.Context, change *store.Change) (_ CreateResult, known bool, _ *Error) {
	kept, found, err := s.node.store.ReadTerminal(ctx, s.op)
	for errors.Is(err, store.ErrUnknown) && pause(ctx, createWaitMin) {
		kept, found, err = s.node.store.ReadTerminal(ctx, s.op)
	}
	if err != nil {
		return CreateResult{}, false, s.node.storeFailure(ctx, err, s.req.ID)
	}
	if !found {
		return CreateResult{}, false, nil
	}
	row := &change.Record
	if !change.Found || row.State != store.Ready || row.ObjectGen != kept.ObjectGen { // it is gone again
		t := &s.target
		row = &store.Authority{ID: s.req.ID, ObjectGen: kept.ObjectGen, Mesh: t.Mesh, RID: t.RID, LeaseGen: t.Lifecycle, OwnerGen: 1}
	}
	terminal := resultOf(&kept, row)
	result, failure := s.node.result(s.req, &terminal, row.RID)
	return result, true, failure
}

// runAt has the reservation's target run the creation and waits for its end.
func (n *Node) runAt(ctx context.Context, req *CreateRequest, row *store.Authority) (CreateResult, *Error) {
	job := creation{
		op: row.Create.Op, kind: row.Kind, id: row.ID, typ: row.Type, objGen: row.ObjectGen, version: row.Version,
		deadline: deadlineOf(ctx), waits: true,
	}
	var terminal wire.CreateResult
	var err *Error
	if n.owns(row) {
		row.Create.Request = bytes.Clone(req.Request)
		job.row = row
		terminal, err = n.runHere(ctx, job)
	} else {
		terminal, err = n.askCreation(ctx, row, job)
	}
	if err != nil {
		return CreateResult{}, err.of(opCreate, req.ID)
	}
	return n.result(req, &terminal, row.RID)
}

// result is what the request's own creation gave, at the node rid.
func (n *Node) result(req *CreateRequest, terminal *wire.CreateResult, rid string) (CreateResult, *Error) {
	n.routes.drop(req.ID) // what was known is of an earlier incarnation
	switch terminal.Outcome {
	case wire.OutcomeCreated:
		return CreateResult{Outcome: OutcomeCreated, Ref: refFromWire(&terminal.Ref), Reply: terminal.Reply}, nil
	case wire.OutcomeRejected:
		return CreateResult{Outcome: OutcomeRejected, Reply: terminal.Reply}, nil
	default:
		return CreateResult{}, fail(errkind.Kind(terminal.Kind), opCreate, req.ID, "its factory or a callback of its creation failed on node %s", rid)
	}
}

// runHere runs the creation at this node. It goes on if the caller gives up.
func (n *Node) runHere(ctx context.Context, job creation) (wire.CreateResult, *Error) {
	type end struct {
		terminal wire.CreateResult
		err      *Error
	}
	ended := make(chan end, 1)
	started := n.tasks.Go(func() {
		terminal, err := n.runCreation(job)
		ended <- end{terminal, err}
	})
	if !started {
		return wire.CreateResult{}, errStopping
	}
	select {
	case e := <-ended:
		return e.terminal, e.err
	case <-ctx.Done():
		return wire.CreateResult{}, fromContext(ctx, "", "")
	}
}

// nudge asks the target of a creation that somebody else began to run it, in case
// it was never told: the coordinator's link may have been lost in between. If it
// runs or is over already, that changes nothing.
func (n *Node) nudge(ctx context.Context, row *store.Authority) {
	job := creation{
		op: row.Create.Op, kind: row.Kind, id: row.ID, typ: row.Type, objGen: row.ObjectGen, version: row.Version, deadline: deadlineOf(ctx),
	}
	if n.owns(row) {
		n.tasks.Go(func() { _, _ = n.runCreation(job) }) // how it ends is read from the row
		return
	}
	l := n.links.to(row.RID, uint64(row.LeaseGen))
	if l == nil {
		return
	}
	corr, err := l.pending.add(completeFunc(func(r result) { r.owner.Free() }), job.deadline)
	if err == nil {
		l.sendControl(job.record(corr, uint64(row.LeaseGen)))
	}
}

// record is the creation as its target is told of it.
func (j *creation) record(corr, target uint64) wire.Record {
	rec := &wire.ActorCreate{
		Correlation: corr, Op: j.op.Op, SourceLifecycle: uint64(j.op.SourceLifecycle), ID: []byte(j.id), Type: []byte(j.typ),
		ObjGen: uint64(j.objGen), StoreVersion: uint64(j.version), TargetLifecycle: target,
		DeadlineMS: wire.DeadlineMS(j.deadline.Sub(clock.Now())),
	}
	if j.kind == store.UserSpot {
		return (*wire.UserSpotCreate)(rec)
	}
	return rec
}

// askCreation asks a remote target. If the answer is lost with the link, the
// kept terminal record tells how the operation ended (CR-13, CR-15).
func (n *Node) askCreation(ctx context.Context, row *store.Authority, job creation) (wire.CreateResult, *Error) {
	r := n.askPeer(ctx, row.RID, uint64(row.LeaseGen), job.deadline, func(corr uint64) wire.Record {
		return job.record(corr, uint64(row.LeaseGen))
	})
	if r.err == nil {
		defer r.owner.Free()
		terminal, err := wire.DecodeCreateResult(r.payload)
		if err != nil {
			return wire.CreateResult{}, fail(errkind.ProtocolError, "", "", "node %s answered with %v", row.RID, err)
		}
		return cloneResult(terminal), nil
	}
	if r.err.Kind == errkind.Unavailable && ctx.Err() == nil {
		if kept, found, err := n.store.ReadTerminal(ctx, job.op); err == nil && found {
			return resultOf(&kept, row), nil
		}
	}
	return wire.CreateResult{}, r.err
}

// resultOf turns a kept terminal record into the result that it stands for.
func resultOf(t *store.Terminal, row *store.Authority) wire.CreateResult {
	r := wire.CreateResult{HasReply: len(t.Reply) > 0, Reply: t.Reply}
	switch t.Result {
	case store.Created:
		r.Outcome, r.Ref = wire.OutcomeCreated, wireRef(refOf(row))
	case store.Rejected:
		r.Outcome = wire.OutcomeRejected
	default:
		r = wire.CreateResult{Outcome: wire.OutcomeFailed, Kind: t.FailKind}
	}
	return r
}

// cloneResult copies what are views of a record.
func cloneResult(r wire.CreateResult) wire.CreateResult {
	clone := func(b *[]byte) { *b = append([]byte(nil), *b...) }
	clone(&r.Ref.ID)
	clone(&r.Ref.Mesh)
	clone(&r.Ref.RID)
	clone(&r.Reply)
	return r
}

// chooseTarget picks a node for a stable type: of those that may host it, have
// room, and are this node or linked to it, by smooth weighted round robin.
func (n *Node) chooseTarget(typ typeKey, refused map[string]bool) (store.Descriptor, *Error) {
	var candidates []store.Descriptor
	hosts, full := 0, 0
	for _, d := range n.mesh.nodes() {
		if !mayHost(&d, n.cfg.Mesh, typ) || refused[d.RID] {
			continue
		}
		hosts++
		switch {
		case !hasRoom(&d, typ.kind):
			full++
		case d.RID == n.cfg.RID || n.links.to(d.RID, uint64(d.Lifecycle)) != nil:
			candidates = append(candidates, d)
		}
	}
	n.choosers.mu.Lock()
	defer n.choosers.mu.Unlock()
	c := n.choosers.byType[typ]
	if c == nil {
		c = &chooser{}
		n.choosers.byType[typ] = c
	}
	if i := c.choose(candidates); i >= 0 {
		return candidates[i], nil
	}
	delete(n.choosers.byType, typ)
	switch {
	case hosts == 0:
		return store.Descriptor{}, fail(errkind.Unavailable, opCreate, "", "no serving node hosts type %q", typ.name)
	case full == hosts:
		return store.Descriptor{}, fail(errkind.CapacityExceeded, opCreate, "", "every node that hosts type %q is full", typ.name)
	default:
		return store.Descriptor{}, fail(errkind.Unavailable, opCreate, "", "no node that hosts type %q is linked yet", typ.name)
	}
}

// storeFailure names a Store error by the operation's deadline if that ended it.
func (n *Node) storeFailure(ctx context.Context, err error, id string) *Error {
	if ctx.Err() != nil {
		return fromContext(ctx, opCreate, id)
	}
	return fromStore(err, opCreate, id)
}
