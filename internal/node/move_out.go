package node

import (
	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/failpoint"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// This file is what a move from here learns of its target, and how it ends.

// progress takes what the target says of the move.
func (o *moveOut) progress(l *linkConn, p *wire.MoveProgress) {
	switch p.State {
	case wire.ProgressAssembling:
		o.received(l, p.Chunks)
		return
	case wire.ProgressReady: // that is the answer to the Restore
	case wire.ProgressCommitted:
		if o.stranded.Load() {
			o.found()
			return
		}
		o.tell(relay.SourceEvent{Is: relay.SourceCommitted})
	case wire.ProgressGone:
		o.tell(relay.SourceEvent{Is: relay.SourceGivenUp})
	}
	if v := o.mover.Load(); v != nil {
		told := *p
		o.cell.step(func(t *turn) {
			if t.refused == nil {
				v.progress(t.claim, l, &told)
			}
		})
	}
}

// actorLeft is told by the target, perhaps more than once, that the object is there, an Actor in
// its Spot.
func (o *moveOut) actorLeft(a *wire.ActorLeft) {
	if o.left.Swap(true) {
		return
	}
	o.tell(relay.SourceEvent{Is: relay.SourceCommitted})
	failpoint.Hit("R13.S.before")
	o.leftSpot(refFromWire(&a.Ref))
	failpoint.Hit("R13.S.after")
}

// leftSpot tells the Spot of an Actor that has left by a Join (MB-08).
func (o *moveOut) leftSpot(ref ActorRef) {
	if o.unit != wire.UnitJoin {
		return
	}
	spot := o.from
	if spot == nil {
		spot = o.node.entry
	}
	o.node.leftSpot(spot, ref)
}

// linked is told of a new link to the target.
func (o *moveOut) linked(l *linkConn) {
	if o.stranded.Load() { // its commit may have come after all
		l.sendControl(&wire.MoveAsk{Relocation: o.id.relocation, Attempt: o.id.attempt})
		return
	}
	if v := o.mover.Load(); v != nil {
		o.cell.step(func(t *turn) {
			if t.refused == nil {
				v.reconnected(l)
			}
		})
	}
}

// end brings the object to life again, if it stays.
func (o *moveOut) end(e *relay.SourceEnded) (_ JoinOutcome, stays bool) {
	n := o.node
	switch e.Outcome {
	case relay.SourceMoved:
		o.leave()
		if o.mover.Load() == nil {
			o.abandon(errGone)
		} else {
			o.moved(&e.Row)
		}
		return JoinOutcome{}, false
	case relay.SourceLost:
		o.leave()
		if o.mover.Load() == nil || !e.Found || uint64(e.Row.ObjectGen) != o.cell.ref.ObjectGen {
			o.abandon(errGone)
		} else {
			o.strand(e)
		}
		return JoinOutcome{}, false
	case relay.SourceRejected, relay.SourceFailed: // it stays
	}
	o.leavePermit()
	if e.Prepared {
		if l := n.linkOf(o.to); l != nil { // else its preparation ends by itself
			l.sendControl(&wire.MoveAbort{Relocation: o.id.relocation, Attempt: o.id.attempt})
		}
	}
	if e.Found && n.owns(&e.Row) {
		o.cell.written(&e.Row)
	} else if e.Doubt {
		o.readAgain()
	}
	for _, m := range o.all() {
		m.stays(e)
	}
	if e.Captured { // nobody seals the mailbox again before it has all back: of two seals the first would never begin
		_ = o.cell.inStep(func(*turn) *Error { return nil })
	}
	if e.Outcome == relay.SourceRejected {
		o.log("a move was rejected", nil)
		return JoinOutcome{Result: JoinRejected, Reply: e.Reply.Payload}, true
	}
	err := &Error{Kind: e.Failure.Kind, Text: e.Failure.Text}
	o.log("a move is aborted", err)
	return JoinOutcome{Result: JoinFailed, Err: err}, true
}

// stays gives the object back to itself, or to its Join.
func (o *moveOut) stays(e *relay.SourceEnded) {
	if v := o.mover.Load(); e.Captured && v != nil {
		o.cell.box.Seal(&handBack{from: v})
	} else {
		o.cell.step(func(t *turn) { t.cell.sealing = false })
	}
	if e.Sealed {
		o.node.abortBinding(o.binding, o.id.relocation, o.cell.ref)
	}
	o.node.moves.out.Delete(o.id.key())
}

// readAgain learns what version the row has, if that is in doubt.
func (o *moveOut) readAgain() {
	for wait := createWaitMin; ; wait = min(2*wait, settleWaitMax) {
		row, found, err := o.node.readRow(o.node.life, o.cell.ref.ID)
		switch {
		case err == nil && found && o.node.owns(&row):
			o.cell.written(&row)
			return
		case err == nil, !pause(o.node.life, wait):
			return
		}
	}
}

// moved begins to follow.
func (o *moveOut) moved(row *store.Authority) {
	n := o.node
	failpoint.Hit("R14.S.before")
	ref := refOf(row)
	if ref.RID != o.to.rid || ref.Lifecycle != o.to.lifecycle { // the target's word alone: as its commit makes it
		ref = o.cell.ref
		ref.RID, ref.Lifecycle, ref.OwnerGen = o.to.rid, o.to.lifecycle, ref.OwnerGen+1
	}
	o.sealed()
	var value any
	grown := ref.OwnerGen - o.cell.ref.OwnerGen
	_ = o.eachInStep(func(m *moveOut, t *turn) *Error {
		there, version := ref, max(uint64(row.Version), m.cell.version.Load()+1)
		if m != o { // whose row is as it was
			there, version = m.cell.ref, m.cell.version.Load()
			there.RID, there.Lifecycle, there.OwnerGen = ref.RID, ref.Lifecycle, m.cell.ref.OwnerGen+grown
		} else {
			value = m.cell.instance
		}
		m.cell.tenure.Store(leaving)
		m.mover.Load().left(t.claim, n.linkOf(m.to), there, version, m.followsFor())
		m.now.Store(&there)
		return nil
	}) // refused only if the node ends
	o.leaveRow() // if nobody heard of its relay-ready
	for _, m := range o.all() {
		n.routes.drop(m.cell.ref.ID)
		n.counters.movedOut.Add(1)
		m.until.Store(int64(clock.Now().Add(m.followsFor())))
	}
	o.log("a move is committed", nil)
	failpoint.Hit("R14.S.after")
	if o.unit.IsSpot() {
		o.leaveShell(value)
	}
}

// leave ends the Join for this node, before what is refused here can end it, which would open
// the Actor.
func (o *moveOut) leave() {
	o.leavePermit()
	if o.join != nil {
		o.join.leave()
	}
}

// abandon ends an Actor whose row is gone, as it was freed by hand, or became another's
// although it was never sent anywhere. Its id may be another incarnation's by now.
func (o *moveOut) abandon(err *Error) {
	for _, m := range o.all() {
		m.node.moves.out.Delete(m.id.key())
		m.node.drop(m.cell, err)
	}
}

// strand leaves the object sealed, with its messages refused, until somebody frees it
// (decision 4), which a node that stops does itself.
func (o *moveOut) strand(e *relay.SourceEnded) {
	n, err := o.node, errStranded
	why := stuck{
		what: "its move to node " + o.to.rid, err: &Error{Kind: e.Failure.Kind, Text: e.Failure.Text}, sealed: true, elsewhere: e.Elsewhere,
	}
	if n.stopping.Load() {
		err = errStopping
	}
	o.log("a move is stranded", why.err)
	o.cell.naming(n.log.Error()).Str("reason", clip(why.String())).
		Msg("an object is at no node that is known, as its move did not end in time; it stays so until it is ended with its exact ref or the node stops")
	for _, m := range o.all() { // the Spot is freed behind its members
		m.strandAs(&why, err)
	}
}

// strandAs leaves one object sealed.
func (o *moveOut) strandAs(why *stuck, err *Error) {
	n := o.node
	o.cell.tenure.Store(leaving)
	v := o.sealed()
	_ = o.cell.inStep(func(t *turn) *Error {
		v.strand(t.claim, err, why.elsewhere)
		return nil
	}) // refused only if the node ends
	o.leaveRow()
	o.cell.stuck.Store(why)
	if n.stopping.Load() { // and may have gone through those that are stuck
		n.freeUnasked(o.cell)
	}
	o.stranded.Store(true)
	if l := n.linkOf(o.to); l != nil { // what it has said since the Source's end, nobody took
		o.linked(l)
	}
}

// found ends a stranding whose commit is of an epoch that is over, and was not lost: the Actor is
// the target's.
func (o *moveOut) found() {
	o.log("a move that was stranded is committed", nil)
	o.cell.stuck.Store(nil)
	o.node.moves.out.Delete(o.id.key())
	o.node.leaveTable(o.cell)
	o.node.routes.drop(o.cell.ref.ID)
}

// forget ends the follow: nobody finds the object here any more, and a moment later what is left
// of it goes. In between what this node's own code sends is still followed. It has no old route
// that is over, but may have found the object in the table just before.
func (o *moveOut) forget(now clock.Mono) {
	n := o.node
	switch {
	case !o.hidden:
		o.hidden = true
		n.leaveTable(o.cell)
		o.until.Store(int64(now.Add(sweepPause)))
		return
	case o.forgotten: // it is about to go
		return
	}
	o.forgotten = true
	if ref := o.now.Load(); ref != nil && !o.left.Swap(true) { // the target's word did not come
		o.leftSpot(*ref)
	}
	if l := n.linkOf(o.to); l != nil { // nothing more is relayed
		l.sendControl(&wire.MoveAbort{Relocation: o.id.relocation, Attempt: o.id.attempt})
	}
	o.cell.step(func(t *turn) {
		if t.refused == nil {
			o.mover.Load().end(t.claim, errMoved)
		}
		n.moves.out.Delete(o.id.key()) // behind which nothing of it is left here
	})
}

// received takes how many chunks the target has. The first answer over a link says where the
// payload begins, or goes on: the target may have had to end another attempt before.
func (o *moveOut) received(l *linkConn, chunks uint32) {
	if !o.goOn(l, chunks) {
		l.conn.Abort(engine.CloseReason{Code: engine.ProtocolError, Text: "it acknowledges chunks that were not sent"})
	}
}

// goOn has the payload go on over the link, if that is the one. It is false for more chunks than
// were sent.
func (o *moveOut) goOn(l *linkConn, chunks uint32) (ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock() // so that nothing is sent behind stopSending
	switch {
	case o.sending != l:
		return true
	case o.begins:
		failpoint.Hit("R05.after")
		failpoint.Hit("R06.before")
		o.begins = false
		return o.node.streams.send(l, o.sent, chunks)
	default:
		return o.node.streams.acked(l, o.sent, chunks)
	}
}

// stopSending ends the payload's way, if it is under way.
func (o *moveOut) stopSending() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sending != nil {
		o.node.streams.stop(o.sending, o.sent)
		o.sending, o.sent = nil, nil
	}
}
