package relay

import (
	"errors"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// This file is what a Target does from relay-ready on: the one commit, until its outcome is
// known, and what follows if the unit is here.

// relayed restarts the silence: who relays will send the cutover.
func (t *Target) relayed(now clock.Mono) {
	if t.state == targetReadied {
		t.wake = min(now.Add(t.timing.CutoverWait), t.validUntil)
	}
}

func (t *Target) cutover(now clock.Mono) {
	if t.state == targetReadied {
		t.wake = clock.Never
		t.decide(now, false)
	}
}

// decide commits while the Restore is valid. Then the source looks at the row, and takes
// what it sees there for the end.
func (t *Target) decide(now clock.Mono, fallback bool) {
	if now.Reached(t.validUntil) {
		t.giveUp()
		return
	}
	t.commit(fallback)
}

// commit takes all it expects of the row from the Restore, and nothing from a later read.
func (t *Target) commit(fallback bool) {
	r := &t.restore
	t.do(targetCommitting, TargetEffect{Do: TargetCommit, Fallback: fallback, Commit: store.CommitMove{
		MoveRef: r.Move, Op: t.job.CommitOp, SourceOwnerID: r.SourceOwnerID, SourceLease: r.SourceLease, Target: t.job.Self,
		Root: r.Root,
	}})
}

func (t *Target) committed(now clock.Mono, e *TargetEvent) {
	c := &e.Change
	switch {
	case t.state != targetCommitting:
	case errors.Is(e.Err, store.ErrInvalid):
		t.drop(ofError(e.Err))
	case e.Err == nil && t.owns(c):
		t.confirm(&c.Record)
	case e.Err == nil && (c.Reason == store.AlreadyApplied || never(c.Reason)):
		t.drop(overtaken(c.Reason))
	case now.Reached(t.validUntil), e.Err == nil && c.Reason == store.InventoryConflict:
		t.giveUp()
	default: // lost, or the lease has to be renewed: the same again, until it is known
		t.sleep(targetCommitLost, min(t.waits.wait(now, t.timing, t.timing.Settle), t.validUntil))
	}
}

// owns reports whether the row of a change is that of the unit here.
func (t *Target) owns(c *store.Change) bool {
	row := &c.Record
	return c.Found && row.State == store.Ready && row.ObjectGen == t.restore.Move.ObjectGen && row.OwnerGen > t.restore.OwnerGen &&
		row.OwnerID == t.job.Self.OwnerID && row.LeaseGen == t.job.Self.Gen
}

var errGivenUp = &Failure{errkind.Unavailable, "the move was not committed in time, and is given up"}

func overtaken(reason store.Reason) *Failure {
	return &Failure{errkind.Unavailable, "the Store had decided otherwise about the move (" + reason.String() + ")"}
}

// giveUp ends the move in the Store: only when no commit of it applies any more may the unit be
// dropped (RL-16).
func (t *Target) giveUp() {
	t.do(targetGivingUp, TargetEffect{Do: TargetGiveUp, GiveUp: store.EndMove{
		MoveRef: t.restore.Move, Op: t.job.GiveUpOp, By: store.Target, Asker: t.job.Self,
	}})
}

func (t *Target) gaveUp(now clock.Mono, e *TargetEvent) {
	c := &e.Change
	switch {
	case t.state != targetGivingUp:
	case errors.Is(e.Err, store.ErrInvalid):
		t.drop(ofError(e.Err))
	case e.Err == nil && t.owns(c):
		t.confirm(&c.Record)
	case e.Err == nil && (c.Reason == store.Applied || c.Reason == store.AlreadyApplied):
		t.drop(errGivenUp)
	case e.Err == nil && never(c.Reason):
		t.drop(overtaken(c.Reason))
	default:
		t.sleep(targetGiveUpLost, t.waits.wait(now, t.timing, t.timing.Settle))
	}
}

func (t *Target) confirm(row *store.Authority) {
	t.do(targetConfirming, TargetEffect{Do: TargetConfirm, Row: *row})
}

func (t *Target) confirmed(e *TargetEvent) {
	switch {
	case t.state != targetConfirming:
	case e.Failure != nil:
		t.drop(e.Failure)
	default:
		t.row, t.waits = e.Row, backoff{}
		t.do(targetMerging, TargetEffect{Do: TargetMerge, Row: t.row})
	}
}

func (t *Target) merged(now clock.Mono) {
	switch {
	case t.state != targetMerging:
	case t.restore.Quiet:
		t.end(TargetOpened, nil)
	default:
		t.callsUntil = max(t.deadline, now.Add(t.timing.Insist))
		t.call(targetJoining, TargetJoined)
	}
}

// call runs a callback, however long it takes, or its turn to come. Without time left each has
// one try.
func (t *Target) call(state targetState, do TargetStep) {
	t.wake = clock.Never
	t.do(state, TargetEffect{Do: do, Deadline: t.callsUntil})
}

func (t *Target) joined(now clock.Mono, e *TargetEvent) {
	switch {
	case t.state != targetJoining:
	case e.Failure != nil:
		t.again(now, targetJoinLost, e.Failure)
	default:
		t.waits = backoff{}
		t.call(targetCompleting, TargetComplete)
	}
}

func (t *Target) completed(now clock.Mono, e *TargetEvent) {
	switch {
	case t.state != targetCompleting:
	case e.Failure != nil:
		t.again(now, targetCompleteLost, e.Failure)
	default:
		t.end(TargetOpened, nil)
	}
}

// again runs a callback that failed once more, with dispatch closed, until the deadline. Then
// the unit stays sealed: it never goes back (RL-22).
func (t *Target) again(now clock.Mono, waiting targetState, f *Failure) {
	if now.Reached(t.callsUntil) {
		t.end(TargetStuck, f)
		return
	}
	t.sleep(waiting, min(t.waits.wait(now, t.timing, t.timing.WaitMax), t.callsUntil))
}
