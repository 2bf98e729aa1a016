package node

import (
	"context"
	"sync"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/store"
)

// PendingJoin is one Join from its registration to its end. Its barrier is a hold that is
// the consumer of the Actor's mailbox from the first message after the handler's end on:
// whatever that message is, queued before or after the registration, it and all behind it
// are held (JN-17), until the Join ends.
//
// The Join has one message of its own in the mailbox. It makes the Actor look if nothing
// else does, and wherever it lies when the Actor ends (in the queue, in this barrier, in
// the hold of a destroy that came before) it is refused there, which ends the Join: so no
// end of an Actor needs to know of Joins.
//
// Safe for concurrent use.
type PendingJoin struct {
	Join                // as it was registered; Request is a copy that nobody changes
	Op       store.OpID // the OperationId
	Deadline clock.Mono // of the Join with its move

	cell   *objectCell
	stands chan struct{} // closed when the barrier stands
	done   chan struct{} // closed when the Join is over

	mu      sync.Mutex
	phase   joinPhase
	held    *hold // while the barrier stands
	outcome JoinOutcome
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
	JoinDropped JoinResult = iota // its handler did not end normally
	JoinAccepted
	JoinRejected
	JoinFailed
)

// Accept, Reject and Fail end the Join. The first of them, the deadline, the Actor's end
// and the node's wins; the others return false.
func (j *PendingJoin) Accept() bool { return j.end(JoinOutcome{Result: JoinAccepted}) }

// Reject ends the Join by the Spot's decision.
func (j *PendingJoin) Reject() bool { return j.end(JoinOutcome{Result: JoinRejected}) }

// Fail ends the Join with an error.
func (j *PendingJoin) Fail(err *Error) bool {
	return j.end(JoinOutcome{Result: JoinFailed, Err: err})
}

// Done is closed when the Join is over; Outcome then says how.
func (j *PendingJoin) Done() <-chan struct{} { return j.done }

// Outcome returns how the Join ended.
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
	if n.stopping.Load() || !n.tasks.Go(j.run) {
		j.Fail(errStopping)
		return
	}
	j.cell.ended(func(t *turn) {
		if t.refused != nil {
			j.Fail(t.refused)
		}
	})
}

// run is the Join's task, until it is over. Its deadline and the node's end hold whatever
// the action does.
func (j *PendingJoin) run() {
	n := j.cell.node
	ctx, cancel := context.WithDeadline(n.life, j.Deadline.Time())
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if ctx.Err() == context.DeadlineExceeded {
			j.Fail(errJoinDeadline)
		} else {
			j.Fail(errStopping)
		}
	})
	defer stop()
	select {
	case <-j.stands:
	case <-j.done:
		return
	}
	switch {
	case ctx.Err() != nil: // nobody is asked any more
	case !n.mayAct(clock.Now()):
		j.Fail(errNotOwner)
	case n.cfg.OnJoin == nil:
		j.Fail(errNoJoins)
	default:
		n.cfg.OnJoin(j)
	}
	<-j.done
}

// stand returns the hold of the barrier, which is to be the consumer, or nil if it is not
// the time or too late.
func (j *PendingJoin) stand() *hold {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.phase != joinActive {
		return nil
	}
	j.phase, j.held = joinStanding, &hold{}
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

// end ends the Join with o and lets the Actor go on, unless it has ended before. The
// Actor is free for another change of its membership before anything of it runs.
func (j *PendingJoin) end(o JoinOutcome) bool {
	j.mu.Lock()
	if j.phase == joinOver {
		j.mu.Unlock()
		return false
	}
	stood := j.phase == joinStanding
	j.phase, j.outcome = joinOver, o
	j.mu.Unlock()
	j.cell.joining.CompareAndSwap(j, nil)
	if stood && !j.cell.gone.Load() { // else the Actor's end refuses what is held
		j.cell.box.Seal(&release{cell: j.cell, from: j.held, next: j.cell})
	}
	close(j.done)
	return true
}
