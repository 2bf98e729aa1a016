package node

import (
	"context"
	"crypto/rand"
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

// moveOut is a move from this node: it performs what its Source wants, on the task of the
// Join, or of the relocation of the node.
type moveOut struct {
	node     *Node
	unit     wire.Unit
	op       store.OpID // of the Join or the relocation
	began    clock.Mono
	deadline clock.Mono
	join     *PendingJoin // nil: a Spot moves
	cell     *objectCell
	id       moveID
	to       process
	spot     string                // that the Actor goes to; "": a Spot moves
	member   bool                  // it is a User Spot
	mover    atomic.Pointer[mover] // nil: the gate is not sealed
	from     *objectCell           // the Spot that the Actor leaves; nil: the Entry Spot
	cutOver  func()                // is called once, when its cutover was submitted; may be nil
	wide     *wideOut              // what goes along; nil: it is no aggregate
	of       *moveOut              // the aggregate's, which decides; nil: the object moves by itself

	stopped context.Context // ends when the node begins to stop
	stop    context.CancelFunc

	// Of the task.
	told       bool // the Source knows that the node stops
	binding    binding
	taken      captured
	payload    *stream
	row        store.Authority // as the reservation left it
	permitted  bool
	locked     bool // the row is taken
	linkLost   bool // a link that comes is news to the Source
	targetGone bool // the Source knows that the target's process is over

	until atomic.Int64 // clock.Mono; when the follow is over
	// Of the sweeper: nobody finds what is left here any more, and it is about to go.
	hidden, forgotten bool
	stranded          atomic.Bool              // it ended without a word of the Actor
	left              atomic.Bool              // the Spot here was told that the Actor has left
	now               atomic.Pointer[ActorRef] // where it is, once that is known

	events inbox[relay.SourceEvent]

	mu      sync.Mutex
	sending *linkConn // by which the payload goes, during a restore; nil: it does not
	sent    *stream   // the payload, with sending
	begins  bool      // the target has yet to say where it begins
}

// moveTarget is where a Join takes its Actor.
type moveTarget struct {
	to     process
	spot   string
	member bool // spot is a User Spot
}

// moveActor decides a Join to a Spot of another node, whose barrier stands. If the Actor is
// not moved it is as it was, with all that waits for it in the Join's hold. If it is, what
// comes for it is relayed from here for a time, and the Join is over here.
func (n *Node) moveActor(ctx context.Context, j *PendingJoin, to moveTarget) {
	o := n.newMoveOut(wire.UnitJoin, j.cell, to, j.Deadline)
	o.join, o.op, o.began = j, j.Op, j.began()
	defer o.stop()
	if n.linkOf(o.to) == nil { // its deadline is not waited for
		j.decide(joinFailed(errNoLink(opJoin, j.cell.ref.ID, to.to.rid)))
		return
	}
	if !o.cell.takeRow(ctx) {
		j.decide(joinFailed(errJoinDeadline))
		return
	}
	o.locked = true
	defer o.leaveRow()
	if !j.commits() { // from here on the Source says how it ends
		return
	}
	end, known := o.runKnown(j.flow.Trace)
	if !known {
		return
	}
	if outcome, stays := o.end(&end); stays {
		j.decide(outcome)
	}
}

// newMoveOut makes a move of the object, which may be stopped from then on.
func (n *Node) newMoveOut(unit wire.Unit, c *objectCell, to moveTarget, deadline clock.Mono) *moveOut {
	o := &moveOut{
		node: n, unit: unit, cell: c, to: to.to, spot: to.spot, member: to.member, from: c.spot.Load(), began: clock.Now(),
		deadline: deadline, events: newInbox(saidAgain), id: moveID{attempt: 1},
	}
	o.stopped, o.stop = context.WithCancel(n.life)
	o.until.Store(int64(clock.Never))
	rand.Read(o.id.relocation[:]) // never fails (crypto/rand)
	return o
}

// runKnown runs the move, whose row is taken, to its end, which its caller takes. known is
// false if the node has ended before, which ends all that there is of the move.
func (o *moveOut) runKnown(sent flow.Trace) (_ relay.SourceEnded, known bool) {
	n := o.node
	n.moves.out.Store(o.id.key(), o)
	if n.stopping.Load() {
		o.stop()
	}
	span := n.traceMove(sent, "move out", &o.id, o.cell.ref.ID, o.cell.typ.Name)
	end, known := o.run()
	endSpan(span, endOfMove(&end, known))
	if !known {
		o.leave()
		o.abandon(errStopping)
	}
	return end, known
}

// takeRow takes the row if that is not done; it is not if the node ends.
func (o *moveOut) takeRow() {
	if !o.locked {
		o.locked = o.cell.takeRow(o.node.life)
	}
}

// leaveRow gives back the row, and those of what goes along.
func (o *moveOut) leaveRow() {
	for _, m := range o.all() {
		if m.locked {
			m.locked = false
			m.cell.leaveRow()
		}
	}
}

// run does what the Source says, until its end; known is false if the node's end came first.
func (o *moveOut) run() (_ relay.SourceEnded, known bool) {
	n, c := o.node, o.cell
	source := relay.NewSource(clock.Now(), relay.SourceMove{
		Unit: c.fence(), OwnerGen: store.OwnerGen(c.ref.OwnerGen), Epoch: store.Epoch(n.known.Load()), Self: n.lease,
		To: relay.Process{RID: o.to.rid, Lifecycle: store.LeaseGen(o.to.lifecycle)}, SpotID: o.spot, InUserSpot: o.member,
		Asks: o.asks(), Wide: o.unit == wire.UnitWide, Fixed: c.typ.Policy == Disable, Relocation: o.id.relocation, Attempt: o.id.attempt,
		ReserveOp: newOpID(), PrepareOp: newOpID(), AbortOp: newOpID(), Deadline: o.deadline,
	}, n.moveTiming())
	defer o.events.close()
	for n.life.Err() == nil {
		next, due := source.Effect()
		until, _ := source.NextDeadline()
		happened := relay.SourceEvent{Is: relay.SourceTick}
		switch {
		case due && next.Do == relay.SourceEnd:
			return next.End, true
		case due:
			happened = o.perform(&next, until)
		default:
			happened = o.wait(until)
		}
		if happened.Is != 0 {
			source.Step(clock.Now(), happened)
		}
	}
	return relay.SourceEnded{}, false
}

// asks reports whether the target is asked for admission: by a Join to a User Spot, and for a
// Spot, which the target may not take.
func (o *moveOut) asks() bool { return asked(o.unit, o.member) }

func asked(unit wire.Unit, inUserSpot bool) bool {
	return unit.IsSpot() || unit == wire.UnitJoin && inUserSpot
}

// saidAgain: of what a target says again once is enough.
func saidAgain(last, e *relay.SourceEvent) bool { return last.Is == e.Is }

// tell brings an event to the task. What the target says of a part of an aggregate it says of
// the Spot, too.
func (o *moveOut) tell(e relay.SourceEvent) {
	if o.of == nil {
		o.events.put(e)
	}
}

// wait returns what happens next, until the given time.
func (o *moveOut) wait(until clock.Mono) relay.SourceEvent {
	ctx, cancel := untilTime(o.node.life, until)
	defer cancel()
	for {
		changed := o.node.news.watch()
		if e, ok := o.events.next(); ok {
			return e
		}
		if o.linkLost && o.node.linkOf(o.to) != nil {
			o.linkLost = false
			return relay.SourceEvent{Is: relay.SourceLinkUp}
		}
		if !o.targetGone && o.node.home.links.superseded(o.to) {
			o.targetGone = true
			return relay.SourceEvent{Is: relay.SourceTargetGone}
		}
		select {
		case <-o.events.arrived:
		case <-changed:
		case <-o.stopping():
			return o.interrupted()
		case <-ctx.Done():
			return o.interrupted()
		}
	}
}

// stopping is closed once the node has begun to stop, until the Source knows.
func (o *moveOut) stopping() <-chan struct{} {
	if o.told {
		return nil
	}
	return o.stopped.Done()
}

// untilTime returns a context that ends then.
func untilTime(ctx context.Context, until clock.Mono) (context.Context, context.CancelFunc) {
	if until == clock.Never {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, until.Time())
}

// perform does one effect, whose end it returns; zero if nobody waits for one.
func (o *moveOut) perform(e *relay.SourceEffect, until clock.Mono) (happened relay.SourceEvent) {
	n := o.node
	ctx, cancel := untilTime(n.life, until)
	defer cancel()
	if !o.told {
		defer context.AfterFunc(o.stopped, cancel)()
	}
	switch e.Do {
	case relay.SourceAdmit:
		failpoint.Hit("R01.before")
		return o.admit(ctx)
	case relay.SourceReserve:
		happened.Is = relay.SourceReserved
		happened.Change, happened.Err = n.attempt(func(ctx context.Context) (store.Change, error) { return n.store.ReserveMove(ctx, e.Reserve) })
		if r := happened.Change.Reason; happened.Err == nil && (r == store.Applied || r == store.AlreadyApplied) {
			o.log("a move is reserved", nil)
		}
		failpoint.Hit("R01.after")
	case relay.SourcePermit:
		happened.Is = relay.SourcePermitted
		if o.permitted { // a relocation has taken it before
			return happened
		}
		full := n.movesOut.enter(ctx, until)
		if o.permitted = full == nil; !o.permitted {
			happened.Failure = failureOfMove(full)
		}
	case relay.SourcePrepare:
		return o.prepare(ctx, e)
	case relay.SourceSealSession:
		if o.wide != nil {
			return o.sealSessions(ctx)
		}
		return o.sealSession(ctx)
	case relay.SourceCapture:
		happened.Is = relay.SourceCaptured
		if err := o.capture(ctx); err != nil {
			happened.Failure = failureOfMove(err)
		}
	case relay.SourceRestore:
		o.row = e.Row
		return o.restore(ctx, e)
	case relay.SourceRelay:
		o.relay()
	case relay.SourceRead:
		happened.Is = relay.SourceRow
		happened.Row, happened.Found, happened.Err = n.readRow(n.life, o.cell.ref.ID)
	case relay.SourceAbort:
		o.takeRow()
		happened.Is = relay.SourceAborted
		failpoint.Hit("abort.before")
		happened.Change, happened.Err = n.whileLeased(func(ctx context.Context) (store.Change, error) { return n.store.EndMove(ctx, e.Abort) })
		failpoint.Hit("abort.after")
	case relay.SourceSettle:
		o.settle()
	case relay.SourceConfirm:
		return o.confirm()
	case relay.SourceEnd: // see run
	}
	return happened
}

func failureOfMove(err *Error) *relay.Failure {
	return &relay.Failure{Kind: err.Kind, Text: err.onWire()}
}

// interrupted is the event in place of that of an effect that did not end by its time.
func (o *moveOut) interrupted() relay.SourceEvent {
	if o.stopped.Err() != nil && !o.told {
		o.told = true
		return relay.SourceEvent{Is: relay.SourceStopping}
	}
	return relay.SourceEvent{Is: relay.SourceTick}
}

// lost is the event of a link that is not there.
func (o *moveOut) lost() relay.SourceEvent {
	o.linkLost = true
	return relay.SourceEvent{Is: relay.SourceLinkLost}
}

// ask sends the target a request and waits for its one end. begin is called right before. A
// nil link: there is none.
func (o *moveOut) ask(ctx context.Context, record func(corr uint64) wire.Record, begin func(*linkConn)) (result, *linkConn) {
	l := o.node.linkOf(o.to)
	if l == nil {
		return result{err: errLinkLost}, nil
	}
	w, corr, err := l.pending.addWaiter()
	if err != nil {
		return result{err: err}, l
	}
	if begin != nil {
		begin(l)
	}
	if err := l.sendRecord(ctx, record(corr)); err != nil {
		return l.pending.abandon(w, corr, err), l
	}
	return l.pending.await(ctx, w, corr, deadlineOf(ctx)), l
}

// ended says how a request to the target ended that brought no answer; zero: it did.
func (o *moveOut) ended(ctx context.Context, r *result, l *linkConn) relay.SourceEvent {
	switch {
	case r.err == nil:
	case l == nil || l.gone.Load():
		return o.lost()
	case ctx.Err() != nil:
		return o.interrupted()
	}
	return relay.SourceEvent{}
}

func (o *moveOut) admit(ctx context.Context) relay.SourceEvent {
	c := o.cell
	r, l := o.ask(ctx, func(corr uint64) wire.Record {
		a := wire.JoinAdmit{
			Correlation: corr, Relocation: o.id.relocation, Attempt: o.id.attempt, Unit: o.unit, Op: o.op, Ref: wireRef(c.ref),
			StoreVersion: c.version.Load(), SpotID: []byte(o.spot), DeadlineMS: wire.DeadlineMS(o.deadline.Sub(clock.Now())),
		}
		if o.unit == wire.UnitJoin {
			a.Codec, a.Request = o.join.Codec, o.join.Request
		}
		return &a
	}, nil)
	e := o.ended(ctx, &r, l)
	if e.Is != 0 {
		return e
	}
	e.Is = relay.SourceAdmitted
	if r.err != nil {
		e.Failure = failureOfMove(r.err)
		return e
	}
	defer r.owner.Free()
	a, err := wire.DecodeAdmitResult(r.payload)
	if err != nil {
		e.Failure = &relay.Failure{Kind: errkind.ProtocolError, Text: "node " + o.to.rid + " answered with " + err.Error()}
		return e
	}
	e.Reject, e.ChunkBytes = a.Verdict == wire.VerdictRejected, a.ChunkBytes
	if !e.Reject && o.unit == wire.UnitJoin {
		o.join.log("a join was admitted", nil)
	}
	if a.HasReply {
		e.Reply = relay.Reply{Present: true, Codec: a.Codec, Payload: append([]byte{}, a.Reply...)}
	}
	return e
}

func (o *moveOut) sealSession(ctx context.Context) relay.SourceEvent {
	e := relay.SourceEvent{Is: relay.SourceSessionSealed}
	failpoint.Hit("R03.before")
	err := o.cell.inStep(func(*turn) *Error {
		o.binding, o.cell.sealing = o.cell.binding, o.unit != wire.UnitJoin // of which the barrier keeps others
		return nil
	})
	if err == nil {
		e.SealedAt, e.Bound, err = o.node.sealBinding(ctx, o.cell, o.binding, o.id.relocation)
	}
	if err != nil {
		e.Failure = failureOfMove(err)
	}
	if !e.Bound {
		o.binding = binding{}
	}
	return e
}

// relay crosses the boundary: what was captured is not needed here any more.
func (o *moveOut) relay() {
	failpoint.Hit("R08.S.after")
	o.log("a move is cut over", nil)
	for _, m := range o.all() {
		m.cell.tenure.Store(leaving)
		m.cell.step(func(t *turn) {
			if t.refused == nil {
				m.mover.Load().relay(t.claim, m.node.linkOf(m.to))
			}
		})
		m.taken = captured{}
	}
	o.payload = nil
	o.leavePermit()
	o.leaveRow()
}

func (o *moveOut) leavePermit() {
	if o.permitted {
		o.permitted = false
		o.node.movesOut.leave()
	}
}

// settle has the target say what became of the move.
func (o *moveOut) settle() {
	if l := o.node.linkOf(o.to); l != nil {
		l.sendControl(&wire.MoveAbort{Relocation: o.id.relocation, Attempt: o.id.attempt})
		l.sendControl(&wire.MoveAsk{Relocation: o.id.relocation, Attempt: o.id.attempt})
	}
	o.linkLost = o.node.linkOf(o.to) == nil
}

// confirm writes the Actor's row again, as its owner. It reads it until it has an answer: a row
// that could not be read would be taken for one that is gone, and the Actor be dropped that the
// row says is here.
func (o *moveOut) confirm() relay.SourceEvent {
	e := relay.SourceEvent{Is: relay.SourceConfirmed}
	if o.takeRow(); !o.locked {
		e.Failure = failureOfMove(errStopping)
		return e
	}
	if err := o.node.confirm(o.cell); err != nil {
		e.Failure = failureOfMove(err)
	}
	for wait := createWaitMin; ; wait = min(2*wait, settleWaitMax) {
		row, found, err := o.node.readRow(o.node.life, o.cell.ref.ID)
		if err == nil {
			e.Row, e.Found = row, found
			return e
		}
		if !pause(o.node.life, wait) {
			return e
		}
	}
}

// sealed seals the Actor's gate, if it is not, and returns its mover.
func (o *moveOut) sealed() *mover {
	v := o.mover.Load()
	if v == nil {
		unit := o.unit
		if o.of != nil { // its times are those of what it is a part of
			unit = o.of.unit
		}
		v = &mover{cell: o.cell, id: o.id, to: o.to, unit: unit, sealed: clock.Now(), cutOver: o.cutOver}
		switch {
		case o.unit == wire.UnitJoin:
			v.back = o.join.held
		case o.wide != nil:
			v.back = o.wide.barrier
		}
		o.mover.Store(v)
		o.cell.box.Seal(v)
		if o.of == nil {
			o.log("a move has sealed its object", nil)
		}
	}
	return v
}

// capture seals the Actor's gate and takes what goes along.
func (o *moveOut) capture(ctx context.Context) *Error {
	if o.wide != nil {
		return o.captureAll(ctx)
	}
	v := o.sealed()
	take := func(*turn) (err *Error) {
		failpoint.Hit("R03.after")
		failpoint.Hit("R04.before")
		began := clock.Now()
		o.taken, err = v.capture(&o.binding)
		o.cell.typ.tookCapture(began, o.taken.size())
		failpoint.Hit("R04.after")
		return err
	}
	if o.unit.IsSpot() {
		return o.captureCalm(ctx, take)
	}
	return o.cell.inStep(take)
}

// restore sends the payload and waits until the target is ready. A Try that was begun over
// a link that was lost goes on behind what the target says that it has.
func (o *moveOut) restore(ctx context.Context, e *relay.SourceEffect) relay.SourceEvent {
	n := o.node
	if e.Try > 1 {
		o.log("a move restores its object once more, as the target failed to", nil)
	}
	failpoint.Hit("R05.before")
	if o.payload == nil {
		o.payload = &stream{id: o.id, out: chunker.NewOutgoing(o.segments(), e.ChunkBytes, n.cfg.MoveCompression)}
	}
	m, asked := o.payload.out.Manifest(), clock.Now()
	r, l := o.ask(ctx, func(corr uint64) wire.Record {
		return &wire.Restore{
			Correlation: corr, Relocation: o.id.relocation, Attempt: o.id.attempt, Unit: o.unit, Op: o.op, Ref: wireRef(o.cell.ref),
			StoreVersion: uint64(o.row.Version), Epoch: uint64(o.row.Epoch), SpotID: []byte(o.row.SpotID),
			TargetSpotID: []byte(o.spot), InUserSpot: o.member, SourceOwnerID: []byte(n.lease.OwnerID), SourceLease: uint64(n.lease.Gen),
			DeadlineMS: wire.DeadlineMS(o.deadline.Sub(clock.Now())), Root: o.root(),
			Manifest: wire.Manifest{
				Total: m.Total, Raw: m.Raw, ChunkBytes: m.ChunkBytes, Chunks: m.Chunks, CRC: m.CRC, Compression: uint8(m.Compression),
			},
		}
	}, func(l *linkConn) {
		o.mu.Lock()
		o.sending, o.sent, o.begins = l, o.payload, true
		o.mu.Unlock()
	})
	o.stopSending() // unless the target has all of it, it may not acknowledge what is under way
	happened := o.ended(ctx, &r, l)
	switch {
	case happened.Is != 0:
	case r.err != nil:
		happened.Is, happened.Failure = relay.SourceRefused, failureOfMove(r.err)
	default:
		r.owner.Free()
		l.tookPayload(asked, m.Total)
		failpoint.Hit("R08.S.before")
		happened.Is, happened.MayAct = relay.SourceReady, n.mayActIn(o.row.Epoch)
	}
	return happened
}
