package relay

import (
	"errors"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// This file is what a Target does up to relay-ready: nothing that anyone else sees.

// drop ends it without the unit.
func (t *Target) drop(f *Failure) { t.end(TargetDropped, f) }

func (t *Target) end(o TargetOutcome, f *Failure) {
	t.wake, t.outcome = clock.Never, o
	t.do(targetOver, TargetEffect{Do: TargetEnd, Outcome: o, Row: t.row, Failure: f})
}

// say answers without changing the state.
func (t *Target) say(e TargetEffect) { t.effect = e }

var (
	errForged   = &Failure{errkind.ProtocolError, "the same attempt was asked for with other contents"}
	errUnasked  = &Failure{errkind.Unavailable, "there is no admission for the move; it was not asked for, or is over"}
	errDenied   = &Failure{errkind.Unavailable, "admission was refused"}
	errNotOwner = &Failure{errkind.Unavailable, "the target may not act: its lease is in doubt"}
	errAborted  = &Failure{errkind.Unavailable, "the source has ended the move, or has begun another"}
	errStopping = &Failure{errkind.ShuttingDown, "the target has begun to stop"}
	errLate     = &Failure{errkind.DeadlineExceeded, "the unit was restored after the move's deadline"}
)

func (t *Target) asked(now clock.Mono, e *TargetEvent) {
	switch {
	case t.state == targetOver:
	case t.state == targetIdle:
		t.ask = e.Ask
		t.begin(now, e.Deadline)
	case t.ask != e.Ask:
		t.say(TargetEffect{Do: TargetRefuse, Failure: errForged})
	case t.answer.Do != 0: // the first answer was lost: it is the same for all (S14)
		t.say(t.answer)
	}
}

// begin reads the row, which says of which type the unit is (RL-02).
func (t *Target) begin(now, deadline clock.Mono) {
	t.deadline = deadline
	t.validUntil = max(deadline, now.Add(t.timing.Prepared))
	t.do(targetReading, TargetEffect{Do: TargetRead})
}

func (t *Target) restoring(now clock.Mono, e *TargetEvent) {
	first := t.restore == (Restore{})
	switch {
	case t.state == targetOver:
	case t.state == targetIdle && e.Restore.Asked:
		t.drop(errUnasked)
	case t.state == targetIdle: // its Spot asks nobody for admission
		t.restore = e.Restore
		t.begin(now, e.Deadline)
	case first && !t.continues(&e.Restore), !first && t.restore != e.Restore:
		t.say(TargetEffect{Do: TargetRefuse, Failure: errForged})
	case t.state == targetDenied:
		t.say(TargetEffect{Do: TargetRefuse, Failure: errDenied})
	case t.state == targetPrepared:
		t.restore, t.deadline = e.Restore, e.Deadline
		t.validUntil = max(t.validUntil, e.Deadline)
		t.do(targetAssembling, TargetEffect{Do: TargetAssemble})
	case first: // before the answer
		t.say(TargetEffect{Do: TargetRefuse, Failure: errUnasked})
	case t.readied():
		t.say(TargetEffect{Do: TargetReady})
	}
}

// continues reports whether the Restore is of the attempt that asked for admission.
func (t *Target) continues(r *Restore) bool {
	f := r.Fence()
	return Judge(t.ask.Fence, f, false) == Same && f.Version >= t.ask.Version && r.Asked && r.Move.MoveSpotID == t.ask.SpotID
}

// readied reports whether relay-ready was said.
func (t *Target) readied() bool {
	switch t.Progress() {
	case ProgressReady, ProgressCommitted:
		return true
	case ProgressAssembling, ProgressGone:
	}
	return false
}

func (t *Target) read(now clock.Mono, e *TargetEvent) {
	switch {
	case t.state != targetReading:
		return
	case errors.Is(e.Err, store.ErrUnknown): // a read that was lost is read again
		t.sleep(targetReadLost, t.waits.wait(now, t.timing, t.timing.WaitMax))
		return
	}
	t.waits = backoff{}
	f := t.fits(e)
	if f == nil {
		t.row = e.Row
	}
	switch asked := t.restore == (Restore{}); {
	case f != nil && asked:
		t.deny(TargetEffect{Do: TargetAnswer, Failure: f})
	case f != nil:
		t.drop(f)
	case asked:
		t.do(targetAsking, TargetEffect{Do: TargetAsk, Row: t.row, Deadline: t.deadline})
	default:
		t.do(targetAssembling, TargetEffect{Do: TargetAssemble})
	}
}

// fits says why the row is not that of the unit as its source knows it, if it is not.
func (t *Target) fits(e *TargetEvent) *Failure {
	row, want := &e.Row, t.Fence()
	no := func(text string) *Failure { return &Failure{errkind.Unavailable, text} }
	switch {
	case e.Err != nil:
		return ofError(e.Err)
	case !e.Found:
		return no("it has no row")
	case row.ObjectGen != want.ObjectGen:
		return &Failure{errkind.InvalidOperation, "it is of another generation now"}
	case row.State != store.Ready, row.OwnerGen != want.OwnerGen, row.Version != want.Version,
		row.RID != t.job.From.RID, row.LeaseGen != t.job.From.Lifecycle:
		return no("by its row, who moves it is not its owner or does not know it as it is")
	}
	if t.restore == (Restore{}) {
		if row.Move != nil {
			return no("it moves already")
		}
		return nil
	}
	switch m, r := row.Move, &t.restore; {
	case m == nil, m.ID != want.Relocation, m.Attempt != want.Attempt, m.TargetRID != t.job.Self.RID,
		m.TargetLifecycle != t.job.Self.Gen, m.SpotID != r.Move.MoveSpotID, m.InUserSpot != r.InUserSpot,
		row.SpotID != r.Move.SpotID, row.Epoch != r.Move.Epoch:
		return no("by its row, this move to here does not stand")
	}
	return nil
}

// deny answers no, and keeps the answer for a source that did not get it.
func (t *Target) deny(answer TargetEffect) {
	t.answer = answer
	t.do(targetDenied, answer)
}

func (t *Target) decided(e *TargetEvent) {
	switch {
	case t.state != targetAsking:
	case t.failure != nil:
		t.drop(t.failure)
	case e.Failure != nil:
		t.deny(TargetEffect{Do: TargetAnswer, Failure: e.Failure})
	case e.Reject:
		t.deny(TargetEffect{Do: TargetAnswer, Reject: true, Reply: e.Reply})
	default:
		t.answer = TargetEffect{Do: TargetAnswer, Reply: e.Reply}
		t.do(targetPrepared, t.answer)
	}
}

func (t *Target) assembled(now clock.Mono) {
	if t.state == targetAssembling {
		t.wake = max(t.deadline, now)
		t.do(targetStaging, TargetEffect{Do: TargetStage, Row: t.row, Deadline: t.deadline})
	}
}

func (t *Target) broken(e *TargetEvent) {
	if t.state == targetAssembling {
		t.unstage(e.Failure)
	}
}

// unstage is for a restore that failed. If the application did, the source may send it all
// once more, for a new instance (RL-18).
func (t *Target) unstage(f *Failure) {
	if f.Kind != errkind.InternalFailure {
		t.drop(f)
		return
	}
	t.do(targetPrepared, TargetEffect{Do: TargetRefuse, Failure: f, Unstage: true})
}

// staged says relay-ready if nothing but the fence can refuse the commit any more.
func (t *Target) staged(now clock.Mono, e *TargetEvent) {
	if t.state != targetStaging {
		return
	}
	t.wake = clock.Never
	switch {
	case t.failure != nil:
		t.drop(t.failure)
	case e.Failure != nil:
		t.unstage(e.Failure)
	case !e.MayAct:
		t.drop(errNotOwner)
	case now.Reached(t.deadline):
		t.drop(errLate)
	default:
		t.validUntil = now.Add(t.timing.Validity)
		t.do(targetReadied, TargetEffect{Do: TargetReady})
		t.relayed(now)
	}
}
