package relay

import (
	"cmp"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// Ask is a source's question for admission. Two with one identity are equal, or one is not
// from the source.
type Ask struct {
	Fence
	SpotID  string   // the User Spot that an Actor wants to enter; "": a Spot moves
	Request [32]byte // digest of what the application is asked, with its codec
}

// Restore is a source's request to take the unit over.
type Restore struct {
	Move          store.MoveRef  // as it was reserved
	OwnerGen      store.OwnerGen // of the source
	SourceOwnerID string
	SourceLease   store.LeaseGen
	InUserSpot    bool         // Move.MoveSpotID is a User Spot
	Asked         bool         // admission came before it
	Quiet         bool         // no callback runs at the target: its node moves an Actor (MB-08)
	Root          store.Digest // of an aggregate's inventory, else zero
	Payload       Payload
}

// Payload identifies what is sent.
type Payload struct {
	Bytes       uint64
	Chunks, CRC uint32
}

// Fence returns the identity of the attempt.
func (r *Restore) Fence() Fence {
	return Fence{
		ID: r.Move.ID, ObjectGen: r.Move.ObjectGen, OwnerGen: r.OwnerGen, Version: r.Move.Version,
		Relocation: r.Move.Relocation, Attempt: r.Move.Attempt,
	}
}

// TargetJob is what a Target is made with, besides what it is asked.
type TargetJob struct {
	Self               store.Lease // of this process
	From               Process     // who asks: the unit's owner
	CommitOp, GiveUpOp store.OpID
}

// TargetStep is what a Target wants done.
type TargetStep uint8

const (
	// TargetRead: read the unit's row. Ends with TargetRow.
	TargetRead TargetStep = iota + 1
	// TargetAsk: have the application decide about the Actor in Row by the deadline, with a
	// place kept among the Spot's members; of a Spot, see whether this node can take it. Ends
	// with TargetDecided.
	TargetAsk
	// TargetAnswer: answer who asks for admission: accepted, or refused if Reject, both with
	// Reply; or Failure. Unless it is accepted all that was prepared is dropped in the same
	// step (RL-03). Nothing is waited for. It may come more than once.
	TargetAnswer
	// TargetAssemble: wait until the payload is whole. Ends with TargetAssembled or
	// TargetBroken.
	TargetAssemble
	// TargetStage: make the unit of Row and restore it by the deadline, without running
	// anything of it. Ends with TargetStaged.
	TargetStage
	// TargetReady: say relay-ready. Nothing is waited for. It may come more than once.
	TargetReady
	// TargetRefuse: answer who asks with Failure. If Unstage, what was assembled and restored is
	// dropped; the rest of the preparation stays. Nothing is waited for.
	TargetRefuse
	// TargetCommit: send Commit to the Store, if the lease allows. Fallback says that no
	// cutover has come. Ends with TargetCommitted.
	TargetCommit
	// TargetGiveUp: send GiveUp to the Store. Ends with TargetGaveUp.
	TargetGiveUp
	// TargetConfirm: see to it that Row is written in the epoch that this process knows. Ends
	// with TargetConfirmed.
	TargetConfirm
	// TargetMerge: the unit is this process's, by Row. Put the queues together with dispatch
	// closed, tell the source, and send the Session's owner the new route. Ends with
	// TargetMerged.
	TargetMerge
	// TargetJoined: run OnJoinedActor, or of a Spot OnInitialize. It may take longer than to
	// Deadline, after which it is not tried again. When it has run for the first time, whatever
	// it gave, the source is told that the unit left it. Ends with TargetJoinedDone.
	TargetJoined
	// TargetComplete: run the completion callback, or of a Spot OnRelocationReadyCompleted, in
	// the same way. Ends with TargetCompleted.
	TargetComplete
	// TargetEnd: the attempt is over with Outcome.
	TargetEnd
)

// TargetEffect is what a Target wants done next.
type TargetEffect struct {
	Do       TargetStep
	Row      store.Authority
	Deadline clock.Mono // of TargetAsk, TargetStage and all tries of TargetJoined and TargetComplete
	Reject   bool
	Reply    Reply
	Failure  *Failure
	Unstage  bool
	Commit   store.CommitMove
	Fallback bool
	GiveUp   store.EndMove
	Outcome  TargetOutcome
}

// TargetOutcome is how a Target ended.
type TargetOutcome uint8

const (
	// TargetDropped: the unit is not this process's. All that was prepared goes; who waits for an
	// answer gets Failure. Of what came for the unit, copies that the source relayed are dropped
	// unanswered, and originals go to the owner, or end Unavailable.
	TargetDropped TargetOutcome = iota + 1
	// TargetOpened: it is, by Row, and dispatch opens.
	TargetOpened
	// TargetStuck: it is, by Row, but a callback failed, for Failure, until the deadline. It
	// stays sealed.
	TargetStuck
)

// TargetFact says what happened.
type TargetFact uint8

const (
	// TargetTick: time has passed.
	TargetTick TargetFact = iota + 1
	// TargetAsked: the source asks for admission by Ask, until Deadline. It may ask again.
	TargetAsked
	// TargetRestoring: the source asks to restore by Restore, until Deadline. It may ask again.
	TargetRestoring
	// TargetRow: Row if Found, or Err.
	TargetRow
	// TargetDecided: the application accepts, or refuses if Reject, both with Reply; or it does
	// not decide, for Failure.
	TargetDecided
	// TargetAssembled: the payload is whole, and its checksum is right.
	TargetAssembled
	// TargetBroken: it cannot be, for Failure.
	TargetBroken
	// TargetStaged: the unit is restored, or is not for Failure. MayAct says whether this
	// process may act, and knows of no later epoch than the one of the Restore.
	TargetStaged
	// TargetRelayed: a relay record of the attempt has come.
	TargetRelayed
	// TargetCutover: the cutover has come, and all records before it.
	TargetCutover
	// TargetAborted: the source says that the move is off, or a later attempt replaces it.
	TargetAborted
	// TargetCommitted: Change, or Err.
	TargetCommitted
	// TargetGaveUp: Change, or Err.
	TargetGaveUp
	// TargetConfirmed: Row is the row as it is written, or it cannot be for Failure.
	TargetConfirmed
	// TargetMerged: the queues are one.
	TargetMerged
	// TargetJoinedDone: it is done, or Failure.
	TargetJoinedDone
	// TargetCompleted: it is done, or Failure.
	TargetCompleted
	// TargetStopping: the node has begun to stop.
	TargetStopping
)

// TargetEvent is something that happened.
type TargetEvent struct {
	Is                    TargetFact
	Ask                   Ask
	Restore               Restore
	Deadline              clock.Mono
	MayAct, Reject, Found bool
	Reply                 Reply
	Row                   store.Authority
	Change                store.Change
	Failure               *Failure
	Err                   error
}

// Progress is how far a Target is, for a source that asks.
type Progress uint8

const (
	ProgressAssembling Progress = iota + 1 // relay-ready is still to come
	ProgressReady                          // it was said, and the commit's outcome is not known
	ProgressCommitted                      // the unit is the target's
	ProgressGone                           // it never will be, by this attempt
)

type targetState uint8

const (
	targetIdle targetState = iota + 1
	targetReading
	targetReadLost // waits
	targetAsking
	targetPrepared // waits for a Restore
	targetDenied   // the answer was no; it is kept for who asks again
	targetAssembling
	targetStaging
	targetReadied // relay-ready was said; waits for the cutover, or for silence
	targetCommitting
	targetCommitLost // waits; the commit may be applied
	targetGivingUp
	targetGiveUpLost // waits
	targetConfirming
	targetMerging
	targetJoining
	targetJoinLost // waits
	targetCompleting
	targetCompleteLost // waits
	targetOver
)

// Target is the half of a move at the process that the unit goes to. Whoever makes it has
// registered the unit's temporary queue before, which takes all that comes for the unit, and
// keeps it until the Target ends. For an attempt whose Target has ended, or of which the source
// was told that it is gone, there is no other Target: in a new epoch the source acts on that.
type Target struct {
	job    TargetJob
	timing Timing
	state  targetState
	effect TargetEffect // Do is 0: none
	wake   clock.Mono
	waits  backoff

	ask        Ask     // zero if there was none
	restore    Restore // zero before it came
	answer     TargetEffect
	row        store.Authority // with the unit's type; from the commit on as it left it
	deadline   clock.Mono      // of the whole move
	callsUntil clock.Mono      // for which callbacks are tried, from the commit on
	validUntil clock.Mono      // of the preparation, and from relay-ready on of the Restore
	failure    *Failure        // why it ends when the effect under way has ended
	outcome    TargetOutcome
}

// NewTarget returns a Target that waits for TargetAsked or TargetRestoring.
func NewTarget(j TargetJob, t Timing) *Target {
	return &Target{job: j, timing: t, state: targetIdle, wake: clock.Never, validUntil: clock.Never}
}

// Effect returns what is to be done next, and forgets it. ok is false while the Target
// waits for an event, or for time to pass.
func (t *Target) Effect() (e TargetEffect, ok bool) {
	e, t.effect = t.effect, TargetEffect{}
	return e, e.Do != 0
}

// NextDeadline returns when Step is to be called with TargetTick if nothing happens. For an
// effect that is under way it is also when whoever performs it need not wait any longer.
func (t *Target) NextDeadline() (clock.Mono, bool) {
	at := t.wake
	if t.expires() {
		at = min(at, t.validUntil)
	}
	return at, at != clock.Never
}

// expires reports whether it is a preparation that ends with its validity. One of which the
// application decides does not: that has its deadline, and what is too late then is
// decided then.
func (t *Target) expires() bool {
	switch t.state {
	case targetReading, targetReadLost, targetPrepared, targetDenied, targetAssembling:
		return true
	default:
		return false
	}
}

// Step takes what happened.
func (t *Target) Step(now clock.Mono, e TargetEvent) {
	switch e.Is {
	case TargetTick:
		t.tick(now)
	case TargetAsked:
		t.asked(now, &e)
	case TargetRestoring:
		t.restoring(now, &e)
	case TargetRow:
		t.read(now, &e)
	case TargetDecided:
		t.decided(&e)
	case TargetAssembled:
		t.assembled(now)
	case TargetBroken:
		t.broken(&e)
	case TargetStaged:
		t.staged(now, &e)
	case TargetRelayed:
		t.relayed(now)
	case TargetCutover:
		t.cutover(now)
	case TargetAborted:
		t.stop(errAborted, true)
	case TargetCommitted:
		t.committed(now, &e)
	case TargetGaveUp:
		t.gaveUp(now, &e)
	case TargetConfirmed:
		t.confirmed(&e)
	case TargetMerged:
		t.merged(now)
	case TargetJoinedDone:
		t.joined(now, &e)
	case TargetCompleted:
		t.completed(now, &e)
	case TargetStopping:
		t.stop(errStopping, false)
	}
}

// Fence returns the identity of the attempt, as the source told it last.
func (t *Target) Fence() Fence {
	if t.restore != (Restore{}) {
		return t.restore.Fence()
	}
	return t.ask.Fence
}

// Progress returns how far it is.
func (t *Target) Progress() Progress {
	switch t.state {
	case targetIdle, targetReading, targetReadLost, targetAsking, targetPrepared, targetAssembling, targetStaging:
		return ProgressAssembling
	case targetReadied, targetCommitting, targetCommitLost, targetGivingUp, targetGiveUpLost, targetConfirming:
		return ProgressReady
	case targetDenied:
		return ProgressGone
	default: // the commit is behind, or it is over
		if t.outcome == TargetDropped {
			return ProgressGone
		}
		return ProgressCommitted
	}
}

// Committing reports whether a commit was sent whose outcome is not known. Then no later
// attempt replaces this one.
func (t *Target) Committing() bool {
	switch t.state {
	case targetCommitting, targetCommitLost, targetGivingUp, targetGiveUpLost, targetConfirming:
		return true
	default:
		return false
	}
}

func (t *Target) do(state targetState, e TargetEffect) { t.state, t.effect = state, e }

func (t *Target) sleep(state targetState, until clock.Mono) { t.state, t.wake = state, until }

func (t *Target) tick(now clock.Mono) {
	if t.expires() && now.Reached(t.validUntil) {
		t.drop(&Failure{errkind.DeadlineExceeded, "what was prepared for the move is not valid any more"})
		return
	}
	if !now.Reached(t.wake) {
		return
	}
	t.wake = clock.Never
	switch t.state {
	case targetStaging: // what the application still does concerns a unit that nobody will see
		t.drop(cmp.Or(t.failure, errLate))
	case targetReadLost:
		t.do(targetReading, TargetEffect{Do: TargetRead})
	case targetReadied:
		t.decide(now, true)
	case targetCommitLost:
		t.decide(now, false)
	case targetGiveUpLost:
		t.giveUp()
	case targetJoinLost:
		t.call(targetJoining, TargetJoined)
	case targetCompleteLost:
		t.call(targetCompleting, TargetComplete)
	default: // nothing else waits for time
	}
}

// stop ends an attempt that was not committed and cannot have been: at once, or when the
// application has ended. Behind relay-ready only the source's word does, which gives it when
// it knows that no commit applies any more (RL-15).
func (t *Target) stop(f *Failure, bySource bool) {
	switch t.state {
	case targetIdle, targetReading, targetReadLost, targetPrepared, targetDenied, targetAssembling:
		t.drop(f)
	case targetAsking, targetStaging:
		t.failure = cmp.Or(t.failure, f)
	case targetReadied:
		if bySource {
			t.drop(f)
		}
	default: // the Store decides, or has decided
	}
}
