package node

import (
	"context"
	"sync"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/store"
)

// PendingJoin is one Join from its registration to its end. Its barrier is a hold that is
// the consumer of the Actor's mailbox from the first message after the handler's end on:
// whatever that message is, queued before or after the registration, it and all behind it
// are held (JN-17), until the Join is over. The Actor's own steps run meanwhile.
//
// How a Join ends is decided once: by its task, or before that commits by the deadline and
// the node's end. Then the Actor is told, and lastly the barrier goes.
//
// The Join has one message of its own in the mailbox. It makes the Actor look if nothing
// else does, and wherever it lies when the Actor ends (in the queue, in this barrier, in
// the hold of a destroy that came before) it is refused there, which ends the Join: so no
// end of an Actor needs to know of Joins.
//
// Safe for concurrent use.
type PendingJoin struct {
	Join                  // as it was registered; Request is a copy that nobody changes
	Op       store.OpID   // the OperationId
	Deadline clock.Mono   // of the Join with its move
	flow     flow.Context // of the turn that registered it
	counted  bool         // among the node's, until it is over
	// relocates: it is no Join. The relocation of its node has its place while the Actor
	// moves, so that there is no Join; its barrier is never raised.
	relocates bool

	cell    *objectCell
	stands  chan struct{} // closed when the barrier stands
	decided chan struct{} // closed when outcome is known
	done    chan struct{} // closed when the Join is over

	mu        sync.Mutex
	phase     joinPhase
	held      *hold // while the barrier stands
	known     bool  // outcome is
	committed bool  // only the task decides any more
	outcome   JoinOutcome
	stop      context.CancelFunc // of the task's context; nil: there is no task
}

type joinPhase uint8

const (
	joinRegistered joinPhase = iota // its handler runs
	joinActive                      // its handler ended normally; no further message of the Actor runs
	joinStanding                    // the barrier is the mailbox's consumer
	joinOver
)

// JoinOutcome is how a Join ended.
type JoinOutcome struct {
	Result JoinResult
	Ref    ActorRef // of the Actor, in the Spot that it has joined; of an accepted one
	Reply  []byte   // of OnActorJoin, if it gave one; of an accepted or rejected one
	Err    *Error   // of a failed one
}

// JoinResult is the kind of an outcome.
type JoinResult uint8

// The results.
const (
	JoinDropped JoinResult = iota // its handler did not end normally; nobody is told
	JoinAccepted
	JoinRejected
	JoinFailed
)

func joinFailed(err *Error) JoinOutcome { return JoinOutcome{Result: JoinFailed, Err: err} }

func newPendingJoin(to Join, actor *objectCell) *PendingJoin {
	return &PendingJoin{
		Join: to, Op: newOpID(), Deadline: clock.Now().Add(to.Timeout), cell: actor,
		stands: make(chan struct{}), decided: make(chan struct{}), done: make(chan struct{}),
	}
}

// Done is closed when the Join is over; Outcome then says how.
func (j *PendingJoin) Done() <-chan struct{} { return j.done }

// Outcome returns how the Join ends, as soon as that is decided.
func (j *PendingJoin) Outcome() JoinOutcome {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.outcome
}

// raise is for the end of the handler, before its reply. No message at which the Actor has
// not looked yet runs from here on.
func (j *PendingJoin) raise() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.phase == joinRegistered {
		j.phase = joinActive
	}
}

// activate begins the Join, after the reply.
func (j *PendingJoin) activate() {
	n := j.cell.node
	if n.stopping.Load() {
		j.cancel(errStopping)
	}
	n.joins.Add(1) // in the handler's turn, so that the node is not idle in between
	if !n.tasks.Go(j.run) {
		n.joins.Add(-1)
		j.end(joinFailed(errStopping))
		return
	}
	j.cell.ended(func(t *turn) {
		if t.refused != nil && t.refused != errMoving { // of a move the task knows the end
			j.end(joinFailed(t.refused))
		}
	})
}

// run is the Join's task, until it is over or its Actor is stuck.
func (j *PendingJoin) run() {
	n := j.cell.node
	defer n.joins.Add(-1)
	ctx, stop := context.WithDeadline(n.life, j.Deadline.Time())
	defer stop()
	j.begun(stop)
	j.log("a join begins", nil)
	defer context.AfterFunc(ctx, func() {
		if ctx.Err() == context.DeadlineExceeded {
			j.cancel(errJoinDeadline)
		} else {
			j.cancel(errStopping) // unless it was decided, which ends ctx too
		}
	})()
	select {
	case <-j.stands:
	case <-j.done:
		j.logEnd(j.Outcome())
		return
	}
	switch {
	case ctx.Err() != nil: // nobody is asked any more
	case !n.mayAct(clock.Now()):
		j.decide(joinFailed(errNotOwner))
	case n.cfg.OnJoin != nil:
		n.cfg.OnJoin(j)
	default:
		n.runJoin(ctx, j)
	}
	select {
	case <-j.decided:
		j.finish()
	case <-j.done: // by the Actor's end here
		j.logEnd(j.Outcome())
	}
}

// begun gives the task's context to who decides.
func (j *PendingJoin) begun(stop context.CancelFunc) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stop = stop; j.known {
		stop()
	}
}

// stand returns the hold of the barrier, which is to be the consumer, or nil if it is not
// the time or too late.
func (j *PendingJoin) stand() *hold {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.phase != joinActive {
		return nil
	}
	j.phase, j.held = joinStanding, &hold{cell: j.cell}
	close(j.stands)
	return j.held
}

// raise makes the barrier of j the Actor's consumer, if it is due. A Join that ends at
// once seals the mailbox, and a seal wins over the Become of this turn.
func (c *objectCell) raise(claim *mailbox.Claim[message], j *PendingJoin) bool {
	held := j.stand()
	if held == nil {
		return false
	}
	c.become(claim, held)
	return true
}

// cancel decides from outside of the task that the Join fails, unless that has committed.
func (j *PendingJoin) cancel(err *Error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.committed {
		j.decideLocked(joinFailed(err))
	}
}

// commits is for the task before it changes the Store: from here on neither the deadline
// nor the node's end decides, as only the Store knows. It is false if one of them has.
func (j *PendingJoin) commits() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if clock.Now().Reached(j.Deadline) {
		j.decideLocked(joinFailed(errJoinDeadline))
	}
	j.committed = !j.known
	return j.committed
}

// decide is for the task. The first decision wins; the others return false.
func (j *PendingJoin) decide(o JoinOutcome) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.decideLocked(o)
}

func (j *PendingJoin) decideLocked(o JoinOutcome) bool {
	if j.known {
		return false
	}
	if o.Err != nil && o.Err.Op == "" { // else it says already what it is about, such as the Spot
		o.Err = o.Err.of(opJoin, j.cell.ref.ID)
	}
	j.known, j.outcome = true, o
	close(j.decided)
	if j.stop != nil {
		j.stop()
	}
	return true
}

// end makes the Join over, with o if it was not decided, and lets the Actor go on, which is
// free for another change of its membership before anything of it runs.
func (j *PendingJoin) end(o JoinOutcome) {
	j.mu.Lock()
	if j.phase == joinOver {
		j.mu.Unlock()
		return
	}
	stood := j.phase == joinStanding
	j.phase = joinOver
	j.decideLocked(o)
	j.mu.Unlock()
	j.uncount()
	if stood && !j.cell.gone.Load() { // else the Actor's end refuses what is held
		j.cell.box.Seal(&release{cell: j.cell, from: j.held, next: j.cell})
	}
	close(j.done)
}

// leave makes the Join over at this node, as the Actor is another's now or nobody's, unless
// the Actor's end has done so.
func (j *PendingJoin) leave() {
	j.mu.Lock()
	before := j.phase
	j.phase = joinOver
	j.mu.Unlock()
	if before == joinOver {
		return
	}
	j.uncount()
	close(j.done)
}

// uncount is for a Join that is over: another change of the Actor's membership may come.
func (j *PendingJoin) uncount() {
	if j.cell.joining.CompareAndSwap(j, nil); j.counted {
		j.cell.node.host.joins.Add(-1)
	}
}

// isOver reports whether the Actor has ended meanwhile.
func (j *PendingJoin) isOver() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// finish tells the Actor how its Join ended, and lets it go on.
func (j *PendingJoin) finish() {
	n, done := j.cell.node, JoinDone{j.Op, j.Outcome()}
	j.logEnd(done.JoinOutcome)
	if j.cell.stuck.Load() != nil { // sealed by what had to come before
		return
	}
	if j.insist("OnJoinCompleted", func(before *tries) *Error { return n.complete(j.cell, done, &j.flow, before) }) {
		j.end(done.JoinOutcome)
	}
}
