package node

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/chunker"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/failpoint"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// moveIn is a move to this node, from the first request of its source on: it performs what
// its Target wants, on a task of its own.
type moveIn struct {
	node  *Node
	unit  wire.Unit
	id    moveID
	from  process
	queue *incoming
	until atomic.Int64                   // clock.Mono; when the source sends nothing any more
	left  atomic.Pointer[wire.ActorLeft] // what the source is told once the Actor is in its Spot
	began clock.Mono                     // never changes
	of    *moveIn                        // the aggregate's, which decides; nil: the object moves by itself
	uncut atomic.Int32                   // of an aggregate: parts whose cutover has not come

	// Of the task. cell is the queue's, too.
	wide     *wideIn // what comes along; nil: nothing does
	cell     *objectCell
	typed    bool // cell is of the object's type; before, its type is not known
	spot     *objectCell
	visitor  *visitor // the Actor in the roster of spot, until it is a member
	binding  binding
	admitted relay.Reply
	locked   bool // the row is taken
	// mine is when the Store first said that the Actor is this node's; 0: not yet.
	mine clock.Mono

	joinedTries, completeTries tries  // of OnJoinedActor and OnJoinCompleted
	failed                     *Error // the try before of the one that is under way; nil: it is the first

	clientGone bool // the Actor's client is to be told of as gone

	// Of a Spot: what it subscribes to, and how often it has.
	topics     []subscription
	subscribed uint64

	events inbox[relay.TargetEvent]

	mu       sync.Mutex
	fence    relay.Fence
	commits  bool // a commit was sent whose outcome is not known
	progress relay.Progress
	asked    waiting // for admission
	request  []byte  // of that
	codec    uint8
	restores waiting // for relay-ready
	op       store.OpID
	spotID   string
	member   bool        // spotID is a User Spot
	epoch    store.Epoch // of the reservation
	root     store.Digest
	payload  *chunker.Incoming
	sent     clock.Mono // when the source began to send it, as far as is known here
	broken   error
	filling  bool          // a link writes a chunk into payload, or into one that was dropped
	whole    chan struct{} // closed when all of the payload has come, or it is broken
	over     chan struct{}
}

// waiting is a request of the source that is to be answered.
type waiting struct {
	link *linkConn
	corr uint64
}

// untyped are the types of objects whose type is not read yet, by what moves. Their packets
// find their handlers when they run.
var untyped = map[wire.Unit]*ObjectType{
	wire.UnitJoin: noType(store.Actor), wire.UnitActor: noType(store.Actor), wire.UnitShell: noType(store.UserSpot),
	wire.UnitWide: noType(store.UserSpot), wire.UnitInstance: noType(store.InstanceSpot),
}

func noType(kind store.Kind) *ObjectType {
	return &ObjectType{Kind: kind, packets: map[string]*packetType{}}
}

// run does what the Target says, until its end.
func (i *moveIn) run() {
	n := i.node
	target := relay.NewTarget(relay.TargetJob{
		Self: n.lease, From: relay.Process{RID: i.from.rid, Lifecycle: store.LeaseGen(i.from.lifecycle)},
		CommitOp: newOpID(), GiveUpOp: newOpID(),
	}, n.moveTiming())
	span := n.traceMove(flow.Trace{}, "move in", &i.id, i.cell.ref.ID, "")
	assembling := false
	end := relay.TargetEffect{Do: relay.TargetEnd, Outcome: relay.TargetDropped, Failure: failureOfMove(errStopping)}
	for n.life.Err() == nil { // else nobody learns any more what becomes of it
		next, due := target.Effect()
		if due && next.Do == relay.TargetEnd {
			end = next
			break
		}
		until, _ := target.NextDeadline()
		var happened relay.TargetEvent
		switch {
		case due:
			assembling = next.Do == relay.TargetAssemble
			happened = i.perform(&next)
			for _, e := range i.ends() {
				target.Step(clock.Now(), e)
			}
		default:
			happened = i.wait(until, assembling)
			assembling = assembling && happened.Is != relay.TargetAssembled && happened.Is != relay.TargetBroken
		}
		if happened.Is != 0 {
			target.Step(clock.Now(), happened)
		}
		i.mu.Lock()
		if happened.Is == relay.TargetRestoring {
			i.fence = target.Fence()
		}
		i.commits, i.progress = target.Committing(), target.Progress()
		i.mu.Unlock()
	}
	i.events.close()
	i.end(&end)
	if span != nil {
		span.SetAttributes(attrType.String(i.cell.typ.Name))
		endSpan(span, endOfArrival(&end))
	}
}

// wait returns what happens next, until the given time.
func (i *moveIn) wait(until clock.Mono, assembling bool) relay.TargetEvent {
	ctx, cancel := untilTime(i.node.life, until)
	defer cancel()
	var whole chan struct{}
	if assembling {
		i.mu.Lock()
		whole = i.whole
		i.mu.Unlock()
	}
	for {
		if e, ok := i.events.next(); ok {
			return e
		}
		select {
		case <-i.events.arrived:
		case <-whole:
			i.mu.Lock()
			defer i.mu.Unlock()
			if i.broken != nil {
				return relay.TargetEvent{Is: relay.TargetBroken, Failure: &relay.Failure{Kind: errkind.DataLost, Text: i.broken.Error()}}
			}
			failpoint.Hit("R06.after")
			return relay.TargetEvent{Is: relay.TargetAssembled, MayAct: i.node.mayAct(clock.Now())}
		case <-ctx.Done():
			return relay.TargetEvent{Is: relay.TargetTick}
		}
	}
}

// perform does one effect, whose end it returns; zero if nobody waits for one.
func (i *moveIn) perform(e *relay.TargetEffect) (happened relay.TargetEvent) {
	n := i.node
	switch e.Do {
	case relay.TargetRead:
		happened.Is = relay.TargetRow
		happened.Row, happened.Found, happened.Err = n.readRow(n.life, i.cell.ref.ID)
	case relay.TargetAsk:
		return i.askSpot(e)
	case relay.TargetAnswer:
		i.answerAsk(e)
	case relay.TargetAssemble: // see wait
	case relay.TargetStage:
		failpoint.Hit("R07.before")
		happened = i.stage(e)
		failpoint.Hit("R07.after")
	case relay.TargetReady:
		if !failpoint.Hit("R08.before") {
			i.sayReady()
		}
		failpoint.Hit("R08.after")
	case relay.TargetRefuse:
		i.refuse(e)
	case relay.TargetCommit:
		if e.Fallback {
			i.logTo(n.log.Warn(), "a move to here is committed without its source's last word, as nothing was heard of it", nil)
		}
		i.takeRow()
		happened.Is = relay.TargetCommitted
		failpoint.Hit("R11.before")
		happened.Change, happened.Err = n.whileLeased(func(ctx context.Context) (store.Change, error) { return n.store.CommitMove(ctx, e.Commit) })
		failpoint.Hit("R11.after")
	case relay.TargetGiveUp:
		happened.Is = relay.TargetGaveUp
		happened.Change, happened.Err = n.whileLeased(func(ctx context.Context) (store.Change, error) { return n.store.EndMove(ctx, e.GiveUp) })
	case relay.TargetConfirm:
		return i.confirm(&e.Row)
	case relay.TargetMerge:
		happened.Is = relay.TargetMerged
		failpoint.Hit("R12.before")
		i.merge(&e.Row)
		i.log("a move to here is committed", nil)
		i.leaveRow() // which may have to be written again before a callback may run
		failpoint.Hit("R12.after")
	case relay.TargetJoined:
		happened.Is = relay.TargetJoinedDone
		failpoint.Hit("R13.before")
		what, tell := "OnJoinedActor", func() *Error { return n.joinedSpot(i.spotHere(), i.cell.ref, nil, &i.joinedTries) }
		if i.unit.IsSpot() {
			what, tell = "OnInitialize", i.initialize
		}
		err := i.acting(e.Deadline, what, tell)
		if err != nil {
			happened.Failure = failureOfMove(err)
		} else {
			i.tellLeft()
		}
	case relay.TargetComplete:
		happened.Is = relay.TargetCompleted
		if i.unit.IsSpot() {
			if i.wide != nil && i.wide.ready {
				if err := i.acting(e.Deadline, "OnRelocationReadyCompleted", i.readyCompleted); err != nil {
					happened.Failure = failureOfMove(err)
				}
			}
			return happened
		}
		done := JoinDone{Operation: i.op, JoinOutcome: JoinOutcome{Result: JoinAccepted, Ref: i.cell.ref, Reply: i.admitted.Payload}}
		err := i.acting(e.Deadline, "OnJoinCompleted", func() *Error { return n.complete(i.cell, done, nil, &i.completeTries) })
		if err != nil {
			happened.Failure = failureOfMove(err)
		}
		failpoint.Hit("R13.after")
	case relay.TargetEnd: // see run
	}
	return happened
}

// initialize runs the first callbacks of a Spot that was one before, elsewhere.
func (i *moveIn) initialize() *Error {
	c := i.cell
	for _, callback := range []struct {
		what string
		run  func(*Call) error
	}{{"Configure", bound(c.typ.Configure, c)}, {"OnInitialize", bound(c.typ.OnInitialize, c)}} {
		if callback.run == nil {
			continue
		}
		if err := c.whole(c.step, callback.what, nil, &i.joinedTries, callback.run); err != nil {
			return err
		}
	}
	return nil
}

// acting runs a callback of an object that is here. If it takes longer than to the deadline, that
// shows as stuck. Times in which the node may not act do not count: behind them there is
// another try, be it past the deadline.
func (i *moveIn) acting(deadline clock.Mono, what string, callback func() *Error) (err *Error) {
	n, why := i.node, &stuck{what: what, err: i.failed}
	defer i.cell.showing(deadline, func() *stuck { return why })()
	defer func() { i.failed = err }()
	for {
		err = callback()
		if err == nil || err != errNotOwner && n.mayAct(clock.Now()) {
			return err
		}
		for !n.mayAct(clock.Now()) {
			if n.stopping.Load() || !pause(n.life, createWaitMax) {
				return err
			}
		}
	}
}

// waiting takes who waits for an answer.
func (i *moveIn) waiting(w *waiting) waiting {
	i.mu.Lock()
	defer i.mu.Unlock()
	to := *w
	*w = waiting{}
	return to
}

func (i *moveIn) takeRow() {
	if !i.locked {
		i.locked = i.cell.takeRow(i.node.life)
	}
}

func (i *moveIn) leaveRow() {
	if i.locked {
		i.locked = false
		i.cell.leaveRow()
	}
}

// spotHere returns the Spot that the Actor comes to.
func (i *moveIn) spotHere() *objectCell {
	if i.spot != nil {
		return i.spot
	}
	return i.node.entry
}

// retype makes the object's cell one of its stable type, with the same mailbox (RL-02).
func (i *moveIn) retype(row *store.Authority) *relay.Failure {
	if i.typed {
		return nil
	}
	n, before := i.node, i.cell
	typ := n.app.typeOf(row.Kind, row.Type)
	switch {
	case typ == nil:
		return &relay.Failure{Kind: errkind.Unavailable, Text: "node " + n.cfg.RID + " takes no objects of type " + row.Type}
	case row.Kind != before.typ.Kind, typ.Wide != row.Wide, row.Wide != (i.unit == wire.UnitWide):
		return &relay.Failure{Kind: errkind.InternalFailure, Text: "by its row it is not what its source says that it moves; all nodes register a type in the same way"}
	}
	cell := n.cellWith(typ, before.ref, i.queue, before.box)
	cell.moved, cell.entrance = i.unit.IsSpot(), before.entrance
	cell.tenure.Store(arriving)
	cell.group.Store(n.gateOf(typ))
	err := i.inTurn(func(*turn) { i.queue.cell.Store(cell) })
	if err != nil {
		return failureOfMove(err)
	}
	i.cell, i.typed = cell, true
	n.replace(before, cell)
	return nil
}

// inTurn runs f in a step of the Actor.
func (i *moveIn) inTurn(f func(t *turn)) *Error {
	return i.cell.inStep(func(t *turn) *Error {
		f(t)
		return nil
	})
}

// askSpot has the Spot decide about an Actor. It is entered first, so that it is not closed
// meanwhile. A Spot may come if its type is known here.
func (i *moveIn) askSpot(e *relay.TargetEffect) relay.TargetEvent {
	n, decided := i.node, relay.TargetEvent{Is: relay.TargetDecided}
	if decided.Failure = i.retype(&e.Row); decided.Failure != nil {
		return decided
	}
	if i.unit.IsSpot() {
		decided.MayAct = n.mayAct(clock.Now())
		return decided
	}
	i.mu.Lock()
	id, request, codec := i.spotID, i.request, i.codec
	i.mu.Unlock()
	spot := n.cellOf(id, store.UserSpot)
	switch {
	case spot == nil || spot.gone.Load():
		decided.Failure = &relay.Failure{Kind: errkind.NotFound, Text: "the spot is not at node " + n.cfg.RID}
		return decided
	}
	visitor, full := spot.admits()
	if full != nil {
		decided.Failure = failureOfMove(full)
		return decided
	}
	i.visitor = visitor
	i.spot = spot
	failpoint.Hit("R01.T.before")
	ctx, cancel := untilTime(n.life, e.Deadline)
	defer cancel()
	actor := refOf(&e.Row)
	a, err := n.askSpot(ctx, spot, i.visitor, JoinAsk{Actor: actor, Type: e.Row.Type, Codec: codec, Request: request})
	switch {
	case err != nil:
		decided.Failure = failureOfMove(err)
	default:
		decided.Reject, decided.Reply = a.Reject, relay.Reply{Present: a.Reply != nil, Payload: a.Reply}
	}
	failpoint.Hit("R01.T.after")
	decided.MayAct = n.mayAct(clock.Now())
	return decided
}

// answerAsk answers the question for admission.
func (i *moveIn) answerAsk(e *relay.TargetEffect) {
	if e.Failure != nil || e.Reject {
		i.unregister()
	}
	to := i.waiting(&i.asked)
	if to.link == nil {
		return
	}
	if e.Failure != nil {
		to.link.sendError(to.corr, &Error{Kind: e.Failure.Kind, Text: e.Failure.Text})
		return
	}
	a := wire.AdmitResult{Verdict: wire.VerdictAccepted, ChunkBytes: i.node.moveLimits.chunk.Load(), HasReply: e.Reply.Present, Codec: e.Reply.Codec, Reply: e.Reply.Payload}
	if e.Reject {
		a.Verdict, a.ChunkBytes = wire.VerdictRejected, 0
	} else {
		i.admitted = e.Reply
	}
	to.link.sendReply(to.corr, 0, a.AppendTo(nil))
}

func (i *moveIn) leaveSpot() {
	if i.visitor != nil {
		i.visitor.leave()
		i.visitor = nil
	}
}

// refuse answers the request to restore.
func (i *moveIn) refuse(e *relay.TargetEffect) {
	if e.Unstage {
		i.unstage()
	}
	if to := i.waiting(&i.restores); to.link != nil {
		to.link.sendError(to.corr, &Error{Kind: e.Failure.Kind, Text: e.Failure.Text})
	}
}

// unstage drops what was assembled and restored.
func (i *moveIn) unstage() {
	i.mu.Lock()
	i.freePayload()
	i.broken, i.whole = nil, make(chan struct{})
	i.mu.Unlock()
	i.dropMembers(errNotHere)
	i.cell.instance, i.binding = nil, binding{}
	i.setTimers(nil)
	_ = i.inTurn(func(*turn) {
		for k := range i.queue.saved {
			i.queue.saved[k].done()
		}
		i.queue.saved = nil
	}) // if the Actor is refused, so is what it had
}

// confirm sees to it that the row is written in the epoch that this node knows.
func (i *moveIn) confirm(row *store.Authority) relay.TargetEvent {
	if i.mine == 0 {
		i.mine = clock.Now()
	}
	e := relay.TargetEvent{Is: relay.TargetConfirmed, Row: *row}
	i.takeRow()
	i.cell.written(row)
	i.cell.rowSpot = i.spot
	if err := i.node.confirm(i.cell); err != nil {
		e.Failure = failureOfMove(err)
	}
	i.confirmMembers()
	e.Row.Version, e.Row.Epoch = store.Version(i.cell.version.Load()), store.Epoch(i.cell.epoch.Load())
	return e
}

// merge makes the object this node's, and an aggregate all at once, with dispatch closed.
func (i *moveIn) merge(row *store.Authority) {
	_ = i.eachInStep(func(_ int, m *moveIn, t *turn) { m.mergeIn(t, row) }) // only a node that stops refuses
	for _, m := range i.all() {
		m.merged()
	}
}

// mergeIn is merge in a step of the object. The row is the unit's.
func (i *moveIn) mergeIn(t *turn, row *store.Authority) {
	cell := i.cell
	i.queue.known, i.queue.upTo = true, i.queue.in.Last()
	switch {
	case i.unit.IsSpot():
		t.claim.Join(cell.group.Load())
		cell.used.Store(int64(clock.Now()))
		cell.subscribeAgain(i.topics, i.subscribed)
		cell.awaitMembers(row.MembersLeft)
		cell.ready.uses = i.wide != nil && i.wide.ready
	case i.spot != nil:
		g := i.spot.group.Load()
		t.claim.Join(g)
		cell.group.Store(g)
		switch {
		case i.visitor != nil:
			cell.spot.Store(i.spot)
			i.visitor = nil // the Actor is a member
		case cell.spot.Load() == nil: // else it is counted
			i.spot.memberCame(cell)
		}
	}
	if cell.bind(i.binding); i.binding.key.gen != 0 && !i.binding.stands() { // its link was lost since it was adopted
		cell.bind(binding{})
		i.clientGone = true
	}
	cell.tenure.Store(owned)
}

// merged makes known that the object is here.
func (i *moveIn) merged() {
	n := i.node
	i.takePlace()
	n.routes.drop(i.cell.ref.ID)
	if l := n.linkOf(i.from); l != nil {
		i.answer(l)
	}
	if i.binding.stands() {
		n.commitBinding(i.binding, i.id.relocation, i.cell.ref)
	}
}

// takePlace puts the Actor into the object table in place of what follows it from here: the
// route from here ends when the return commits.
func (i *moveIn) takePlace() {
	n, cell := i.node, i.cell
	var before *objectCell
	n.actors.Update(cell.ref.ID, func(now *objectCell, present bool) (*objectCell, bool) {
		if present && now != cell {
			before = now
		}
		return cell, true
	})
	if before != nil {
		before.gone.Store(true)
		before.step(func(t *turn) {
			if v, ok := before.current.(*mover); ok && t.refused == nil {
				v.home = cell
			}
		})
	}
}

// tellLeft tells the source that the Actor is in its Spot here. If the link is lost then,
// the source hears it when it asks on the next one.
func (i *moveIn) tellLeft() {
	if i.left.Load() != nil {
		return
	}
	i.mu.Lock()
	spot := cmp.Or(i.spotID, i.cell.ref.ID)
	i.mu.Unlock()
	told := &wire.ActorLeft{Relocation: i.id.relocation, Attempt: i.id.attempt, Ref: wireRef(i.cell.ref), SpotID: []byte(spot)}
	i.left.Store(told)
	if l := i.node.linkOf(i.from); l != nil {
		l.sendControl(told)
	}
}

// end opens the Actor, or drops what was prepared.
func (i *moveIn) end(e *relay.TargetEffect) {
	n := i.node
	switch e.Outcome {
	case relay.TargetOpened:
		n.counters.movedIn.Add(uint64(len(i.all())))
		failpoint.Hit("R14.before")
		i.open()
		failpoint.Hit("R14.after")
		n.stoodStill(&n.counters.moves[i.unit].targetResume, i.unit, i.cell.ref.ID, "at its target, from the commit on", clock.Now().Sub(i.mine))
		i.log("a move to here is over, and its actor runs", nil)
		if i.clientGone {
			n.tellSpot(clientGone, i.spotHere(), i.cell.ref, nil)
		}
	case relay.TargetStuck:
		i.leaveRow()
		if !i.cell.gone.Load() { // else it was freed while the callback hung
			why := stuck{what: "a callback of its move here", err: &Error{Kind: e.Failure.Kind, Text: e.Failure.Text}, sealed: true}
			i.sealMembers(why)
			i.cell.seal(i.queue, why)
		}
	default:
		i.drop(e.Failure)
	}
	if e.Outcome != relay.TargetDropped {
		i.tellLeft() // also if its new Spot could not be told
	}
	i.mu.Lock()
	i.freePayload()
	i.broken = context.Canceled // what still comes is not looked at
	i.mu.Unlock()
	i.leaveRow()
	for _, m := range i.all() {
		m.until.Store(int64(n.relayedUntil()))
		if m != i {
			m.ended()
		}
	}
	if e.Outcome == relay.TargetDropped {
		n.moves.gone.Store(i.id.key(), n.relayedUntil())
		n.moves.in.Delete(i.id.key())
		if l := n.linkOf(i.from); l != nil { // behind its boundary the source has nothing to wait for
			l.sendControl(&wire.MoveProgress{Relocation: i.id.relocation, Attempt: i.id.attempt, State: wire.ProgressGone})
		}
	}
	i.ended()
	i.answerLate()
}

// answerLate answers a source that asks once more to restore what has ended.
func (i *moveIn) answerLate() {
	i.mu.Lock()
	here := i.progress == relay.ProgressCommitted
	i.mu.Unlock()
	if here {
		i.sayReady()
	} else if to := i.waiting(&i.restores); to.link != nil {
		to.link.sendError(to.corr, errNotHere)
	}
}

// sayReady answers the request to restore.
func (i *moveIn) sayReady() {
	if to := i.waiting(&i.restores); to.link != nil {
		to.link.sendReply(to.corr, 0, nil)
	}
}

// unregister removes the temporary queue, with the place in the Spot.
func (i *moveIn) unregister() {
	i.node.leaveTable(i.cell)
	i.leaveSpot()
	_ = i.inTurn(func(t *turn) { i.queue.drop(t.claim, errNotHere) }) // if it is refused, that was done before
}

func (i *moveIn) drop(f *relay.Failure) {
	i.dropMembers(errNotHere)
	i.unregister()
	if f == nil {
		f = &relay.Failure{Kind: errkind.Unavailable, Text: "the move was given up"}
	}
	i.log("a move to here is off", &Error{Kind: f.Kind, Text: f.Text})
	for _, w := range []*waiting{&i.asked, &i.restores} {
		if to := i.waiting(w); to.link != nil {
			to.link.sendError(to.corr, &Error{Kind: f.Kind, Text: f.Text})
		}
	}
}
