package relay

import (
	"cmp"
	"errors"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// SourceMove is one attempt to move a unit, as its owner begins it.
type SourceMove struct {
	Unit     store.Fence    // of the unit's row
	OwnerGen store.OwnerGen // that this process has
	Epoch    store.Epoch    // under which it has it
	Self     store.Lease    // of this process

	To         Process
	SpotID     string // an Actor's membership after the move; of a Spot ""
	InUserSpot bool   // SpotID is a User Spot
	Asks       bool   // the target is asked for admission
	Wide       bool   // it is a SpotWide Spot, whose inventory is fixed before it is sent (AG-03)
	Fixed      bool   // the unit's policy forbids the move (PO-02)

	Relocation                    store.RelocationID
	Attempt                       uint32
	ReserveOp, PrepareOp, AbortOp store.OpID
	Deadline                      clock.Mono // of all up to the boundary
}

// SourceStep is what a Source wants done.
type SourceStep uint8

const (
	// SourceAdmit: ask the target for admission. Ends with SourceAdmitted, or SourceLinkLost.
	SourceAdmit SourceStep = iota + 1
	// SourceReserve: send Reserve to the Store. Ends with SourceReserved.
	SourceReserve
	// SourcePrepare: store the inventory of the aggregate in Row, and fix it by Prepare, whose
	// Inventory is the shell's to fill. Ends with SourcePrepared.
	SourcePrepare
	// SourcePermit: wait for a place among the moves that run at once. Ends with
	// SourcePermitted.
	SourcePermit
	// SourceSealSession: have the Session's owner seal the unit's binding, if it has one. Ends
	// with SourceSessionSealed.
	SourceSealSession
	// SourceCapture: seal the unit's gate, say sourceDrained, and capture state, timers, queue
	// and binding. Ends with SourceCaptured.
	SourceCapture
	// SourceRestore: send the Restore request of Row and what was captured, in chunks of
	// ChunkBytes. Try is 2 for all of it once more, for a new instance; after a lost link the
	// same Try goes on where the target's progress stands. Ends with SourceReady,
	// SourceRefused or SourceLinkLost.
	SourceRestore
	// SourceRelay: the boundary is behind. Relay what is held, send the cutover, and go on
	// relaying whatever comes. Nothing is waited for.
	SourceRelay
	// SourceRead: read the unit's row. Ends with SourceRow.
	SourceRead
	// SourceAbort: send Abort to the Store, if the lease allows. Ends with SourceAborted. Behind
	// the boundary it is what makes sure that the unit is nowhere.
	SourceAbort
	// SourceSettle: the Store's epoch has changed. Tell the target that the move is off and ask
	// it what became of it. It comes again now and then, until SourceCommitted, SourceGivenUp or
	// SourceTargetGone ends it.
	SourceSettle
	// SourceConfirm: write the unit's row again in the epoch that this process knows, as its
	// owner. Ends with SourceConfirmed.
	SourceConfirm
	// SourceEnd: the attempt is over with End.
	SourceEnd
)

// SourceEffect is what a Source wants done next.
type SourceEffect struct {
	Do         SourceStep
	Reserve    store.ReserveMove
	Prepare    store.PrepareAggregate
	Row        store.Authority // as the reservation left it, and what was prepared behind it
	ChunkBytes uint32
	Try        uint32
	Abort      store.EndMove
	End        SourceEnded
}

// SourceFact says what happened.
type SourceFact uint8

const (
	// SourceTick: time has passed.
	SourceTick SourceFact = iota + 1
	// SourceAdmitted: the target accepts with ChunkBytes, or refuses if Reject, both with
	// Reply; or it does not, for Failure.
	SourceAdmitted
	// SourceReserved: Change, or Err.
	SourceReserved
	// SourcePrepared: Change, or Err; or it was not asked for, for Failure.
	SourcePrepared
	// SourcePermitted: it has its place, or none for Failure.
	SourcePermitted
	// SourceSessionSealed: the binding is sealed if Bound, and there is none else. Its owner
	// was asked at SealedAt. Or it is not, for Failure.
	SourceSessionSealed
	// SourceCaptured: it is, or Failure.
	SourceCaptured
	// SourceReady: the target is ready. MayAct says whether this process may act, and knows of
	// no later epoch than the one in which the move was reserved.
	SourceReady
	// SourceRefused: the target is not, for Failure.
	SourceRefused
	// SourceLinkLost: the link to the target is gone, and an answer with it.
	SourceLinkLost
	// SourceLinkUp: there is a link to the target again. What was asked is asked again.
	SourceLinkUp
	// SourceTargetGone: the target's process is over.
	SourceTargetGone
	// SourceCommitted: the target says that it owns the unit, as OwnerGen.
	SourceCommitted
	// SourceGivenUp: the target says that it has dropped the unit, or knows nothing of it. From
	// then on it takes the attempt never again.
	SourceGivenUp
	// SourceRow: Row if Found, or Err.
	SourceRow
	// SourceAborted: Change, or Err.
	SourceAborted
	// SourceConfirmed: Row is the row as it is written; or it cannot be, for Failure, and Row,
	// if Found, is what the Store has.
	SourceConfirmed
	// SourceStopping: the node has begun to stop.
	SourceStopping
	// SourceHalting: it waits no longer for what the target makes of the move.
	SourceHalting
)

// SourceEvent is something that happened.
type SourceEvent struct {
	Is                    SourceFact
	MayAct, Reject, Bound bool
	Found                 bool
	Reply                 Reply
	ChunkBytes            uint32
	OwnerGen              store.OwnerGen
	SealedAt              clock.Mono
	Change                store.Change
	Row                   store.Authority
	Failure               *Failure
	Err                   error
}

// SourceOutcome is how a Source ended.
type SourceOutcome uint8

const (
	// SourceRejected: the target's application refused, with Reply. The unit goes on here.
	SourceRejected SourceOutcome = iota + 1
	// SourceFailed: for Failure, before the boundary. The unit goes on here.
	SourceFailed
	// SourceMoved: it is the target's. What is held, and comes, goes there, also if there was no
	// SourceRelay before.
	SourceMoved
	// SourceLost: it is nowhere, or, with Elsewhere, not known to be anywhere. It stays sealed
	// here: requests end Unavailable, sends are counted.
	SourceLost
)

// SourceEnded is the one end of a Source.
type SourceEnded struct {
	Outcome SourceOutcome
	Failure *Failure // of SourceFailed and SourceLost
	Reply   Reply    // of SourceRejected
	// OwnerGen of SourceMoved is that of the owner, which is the target unless Row says that
	// the unit has gone on since.
	OwnerGen store.OwnerGen
	Row      store.Authority
	Found    bool // Row is the row as the Store showed it last

	// What there is to undo, in this order, if the unit goes on here: the target's preparation,
	// by moveAbort; the capture, by which state, timers and queue go back; the Session's seal.
	Prepared, Captured, Sealed bool
	// Doubt: a reservation whose answer was lost may be applied yet. The row is read before
	// its next change.
	Doubt bool
	// Elsewhere, of SourceLost: the target may have it, by a commit of an epoch that is over, or
	// by one that this process cannot prevent.
	Elsewhere bool
}

type sourceState uint8

const (
	sourceAdmitting sourceState = iota + 1
	sourceAdmitLost             // waits for a link
	sourceReserving
	sourceReserveLost // waits; the reservation may be applied
	sourcePreparing
	sourcePrepareLost // waits; the inventory may be fixed
	sourcePermitting
	sourceSealing
	sourceCapturing
	sourceRestoring
	sourceRestoreLost // waits for a link
	sourceAwaiting    // the boundary is behind
	sourceReading
	sourceReadLost // waits
	sourceAborting
	sourceAbortLost // waits
	sourceSettling
	sourceConfirming
	sourceOver
)

// SealMargin is what is left of SealTimeout for commit, merge and route update.
const SealMargin = 500 * time.Millisecond

// Source is the owner's half of a move.
type Source struct {
	move   SourceMove
	timing Timing
	state  sourceState
	effect SourceEffect // Do is 0: none
	wake   clock.Mono
	waits  backoff

	reserve    store.ReserveMove
	lost       bool            // a try to reserve may be applied yet, whatever later ones were told
	reserved   store.Authority // as it was reserved, and prepared
	row        store.Authority // the last one seen
	found      bool
	chunkBytes uint32
	try        uint32
	sealLimit  clock.Mono // until when relay-ready is to be accepted for the Session's sake
	validUntil clock.Mono // when the row decides, from the boundary on
	failure    *Failure   // why it ends, or will when the effect under way has ended

	asked, sealed, captured bool // there may be something to undo
	crossed                 bool // the boundary: there is nothing to undo any more
	spent                   bool // behind it: the target will not commit any more
}

// NewSource returns a Source whose first effect is due.
func NewSource(now clock.Mono, m SourceMove, t Timing) *Source {
	s := &Source{move: m, timing: t, wake: clock.Never, sealLimit: clock.Never, chunkBytes: EntryChunkBytes}
	if m.Asks {
		s.admit()
	} else {
		s.begin(now)
	}
	return s
}

// Effect returns what is to be done next, and forgets it. ok is false while the Source
// waits for an event, or for time to pass.
func (s *Source) Effect() (e SourceEffect, ok bool) {
	e, s.effect = s.effect, SourceEffect{}
	return e, e.Do != 0
}

// NextDeadline returns when Step is to be called with SourceTick if nothing happens. For an
// effect that is under way it is also when whoever performs it need not wait any longer.
// The Store's answers have no deadline: what is too late then is decided then.
func (s *Source) NextDeadline() (clock.Mono, bool) {
	at := s.wake
	switch s.state {
	case sourceAdmitting, sourceAdmitLost, sourceRestoring, sourceRestoreLost:
		at = min(s.move.Deadline, s.sealLimit)
	case sourcePermitting, sourceSealing, sourceCapturing:
		if s.failure == nil {
			at = min(s.move.Deadline, s.sealLimit)
		}
	default: // it waits for time, or for nothing
	}
	return at, at != clock.Never
}

// Step takes what happened.
func (s *Source) Step(now clock.Mono, e SourceEvent) {
	switch e.Is {
	case SourceTick:
		s.tick(now)
	case SourceAdmitted:
		s.admitted(now, &e)
	case SourceReserved:
		s.wasReserved(now, &e)
	case SourcePrepared:
		s.wasPrepared(now, &e)
	case SourcePermitted:
		s.permitted(now, &e)
	case SourceSessionSealed:
		s.sessionSealed(now, &e)
	case SourceCaptured:
		s.wasCaptured(now, &e)
	case SourceReady:
		s.ready(now, &e)
	case SourceRefused:
		s.refused(now, &e)
	case SourceLinkLost:
		s.linkLost()
	case SourceLinkUp:
		s.linkUp(now)
	case SourceTargetGone:
		s.targetGone()
	case SourceCommitted:
		s.committed(&e)
	case SourceGivenUp:
		s.spend()
	case SourceRow:
		s.read(now, &e)
	case SourceAborted:
		s.aborted(now, &e)
	case SourceConfirmed:
		s.confirmed(&e)
	case SourceStopping:
		s.stop(&Failure{errkind.ShuttingDown, "the node has begun to stop"})
	case SourceHalting:
		s.halt()
	}
}

func (s *Source) do(state sourceState, e SourceEffect) { s.state, s.effect = state, e }

func (s *Source) sleep(state sourceState, until clock.Mono) { s.state, s.wake = state, until }

func (s *Source) tick(now clock.Mono) {
	switch s.state {
	case sourceAdmitting, sourceAdmitLost, sourcePermitting, sourceSealing, sourceCapturing, sourceRestoring, sourceRestoreLost:
		if f := s.tooLate(now); f != nil {
			s.stop(f)
		}
		return
	default:
	}
	if !now.Reached(s.wake) {
		return
	}
	s.wake = clock.Never
	switch s.state {
	case sourceReserveLost:
		s.do(sourceReserving, SourceEffect{Do: SourceReserve, Reserve: s.reserve})
	case sourcePrepareLost:
		if s.may(now, nil) {
			s.prepare()
		}
	case sourceAwaiting, sourceReadLost:
		s.do(sourceReading, SourceEffect{Do: SourceRead})
	case sourceAbortLost:
		s.sendAbort()
	case sourceSettling:
		s.ask(now)
	default: // nothing else waits for time
	}
}

// stop ends the attempt, if the boundary is still ahead: at once while it waits for the target,
// else when the effect under way has ended.
func (s *Source) stop(f *Failure) {
	switch s.state {
	case sourceAdmitting, sourceAdmitLost, sourcePrepareLost, sourceRestoring, sourceRestoreLost:
		s.fail(f)
	case sourceReserving, sourceReserveLost, sourcePermitting, sourcePreparing, sourceSealing, sourceCapturing:
		s.failure = cmp.Or(s.failure, f)
	default: // it ends already, or the boundary is behind
	}
}

// tooLate says why the attempt cannot go on, if it cannot.
func (s *Source) tooLate(now clock.Mono) *Failure {
	switch {
	case s.failure != nil:
		return s.failure
	case now.Reached(s.move.Deadline):
		return &Failure{errkind.DeadlineExceeded, "the move was not committed by its deadline"}
	case now.Reached(s.sealLimit):
		return &Failure{errkind.DeadlineExceeded, "the target was not ready in the time for which its client's packets are held; a larger state needs a longer SessionRelocationSealTimeout"}
	}
	return nil
}

func (s *Source) admit() {
	s.asked = true
	s.do(sourceAdmitting, SourceEffect{Do: SourceAdmit})
}

func (s *Source) admitted(now clock.Mono, e *SourceEvent) {
	switch late := s.tooLate(now); {
	case s.state != sourceAdmitting:
	case e.Failure != nil:
		s.fail(ofTarget(e.Failure))
	case e.Reject: // the target has dropped what it prepared
		s.asked = false
		s.end(SourceEnded{Outcome: SourceRejected, Reply: e.Reply})
	case late != nil:
		s.fail(late)
	default:
		s.chunkBytes = e.ChunkBytes
		s.begin(now)
	}
}

// begin checks what admission does not ask for, and reserves the move before anything of
// the unit stops.
func (s *Source) begin(now clock.Mono) {
	if s.move.Fixed {
		s.fail(&Failure{errkind.Rejected, "its type has DisableRelocation, so it stays at its node; give the type a policy by which it moves"})
		return
	}
	m := &s.move
	s.reserve = store.ReserveMove{
		Fence: m.Unit, Op: m.ReserveOp, Epoch: m.Epoch, Relocation: m.Relocation, Attempt: m.Attempt,
		Validity:  max(m.Deadline.Sub(now), 0) + s.timing.Validity,
		TargetRID: m.To.RID, TargetLifecycle: m.To.Lifecycle, SpotID: m.SpotID, InUserSpot: m.InUserSpot,
	}
	s.do(sourceReserving, SourceEffect{Do: SourceReserve, Reserve: s.reserve})
}

func (s *Source) wasReserved(now clock.Mono, e *SourceEvent) {
	if s.state != sourceReserving {
		return
	}
	if e.Err != nil {
		// A later try that did not reach the Store says nothing of one whose answer was lost.
		if s.lost = s.lost || errors.Is(e.Err, store.ErrUnknown); s.lost {
			s.sleep(sourceReserveLost, s.waits.wait(now, s.timing, s.timing.WaitMax))
			return
		}
		s.fail(ofError(e.Err))
		return
	}
	c := &e.Change
	if s.lost && c.Reason == store.LeaseExpired { // the one whose answer was lost may come behind a renewal
		s.sleep(sourceReserveLost, s.waits.wait(now, s.timing, s.timing.WaitMax))
		return
	}
	s.row, s.found = c.Record, c.Found
	s.lost = s.lost && !never(c.Reason)
	switch {
	case c.Reason != store.Applied && c.Reason != store.AlreadyApplied:
		s.fail(ofReservation(c.Reason, s.move.InUserSpot))
	case !s.stands(&c.Record): // it was ended since a try whose answer was lost
		s.lost = false
		s.fail(&Failure{errkind.Unavailable, "the move's reservation has ended"})
	default:
		s.lost, s.reserved, s.waits = false, c.Record, backoff{}
		if c.Epoch != s.move.Epoch { // nothing of this move would apply any more
			s.fail(&Failure{errkind.Unavailable, "the Store has begun a new epoch"})
		} else if s.may(now, nil) {
			s.do(sourcePermitting, SourceEffect{Do: SourcePermit})
		}
	}
}

// stands reports whether the row has this move.
func (s *Source) stands(row *store.Authority) bool {
	return row.Move != nil && row.Move.ID == s.move.Relocation && row.Move.Attempt == s.move.Attempt
}

// may reports whether the attempt goes on after an effect that has ended. Else it ends the
// attempt: the effect has failed, or it is too late by now.
func (s *Source) may(now clock.Mono, failed *Failure) bool {
	if failed == nil {
		failed = s.tooLate(now)
	}
	if failed != nil {
		s.fail(failed)
	}
	return failed == nil
}

func (s *Source) permitted(now clock.Mono, e *SourceEvent) {
	switch {
	case s.state != sourcePermitting || !s.may(now, e.Failure):
	case s.move.Wide:
		s.prepare()
	default:
		s.do(sourceSealing, SourceEffect{Do: SourceSealSession})
	}
}

func (s *Source) prepare() {
	s.do(sourcePreparing, SourceEffect{Do: SourcePrepare, Row: s.reserved, Prepare: store.PrepareAggregate{
		MoveRef: store.MoveOf(&s.reserved), Op: s.move.PrepareOp, Asker: s.move.Self,
	}})
}

// wasPrepared goes on behind the version that the inventory has given the row. If it never
// learns of it, the abort does.
func (s *Source) wasPrepared(now clock.Mono, e *SourceEvent) {
	c := &e.Change
	switch {
	case s.state != sourcePreparing || !s.may(now, e.Failure):
	case errors.Is(e.Err, store.ErrUnknown), e.Err == nil && c.Reason == store.LeaseExpired:
		s.sleep(sourcePrepareLost, min(s.waits.wait(now, s.timing, s.timing.WaitMax), s.move.Deadline))
	case e.Err != nil:
		s.fail(ofError(e.Err))
	case c.Reason != store.Applied && c.Reason != store.AlreadyApplied, !s.stands(&c.Record):
		s.fail(ofPreparation(c.Reason))
	case c.Epoch != s.move.Epoch:
		s.fail(&Failure{errkind.Unavailable, "the Store has begun a new epoch"})
	default:
		s.row, s.found, s.reserved, s.waits = c.Record, c.Found, c.Record, backoff{}
		s.do(sourceSealing, SourceEffect{Do: SourceSealSession})
	}
}

func (s *Source) sessionSealed(now clock.Mono, e *SourceEvent) {
	if s.state != sourceSealing {
		return
	}
	s.sealed = e.Bound || e.Failure != nil // an answer that was lost may have been yes
	if e.Bound {
		s.sealLimit = e.SealedAt.Add(s.timing.SealTimeout - s.timing.CutoverWait - SealMargin)
	}
	if s.may(now, e.Failure) {
		s.captured = true
		s.do(sourceCapturing, SourceEffect{Do: SourceCapture})
	}
}

func (s *Source) wasCaptured(now clock.Mono, e *SourceEvent) {
	if s.state == sourceCapturing && s.may(now, e.Failure) {
		s.try = 1
		s.restore()
	}
}

func (s *Source) restore() {
	s.asked = true
	s.do(sourceRestoring, SourceEffect{Do: SourceRestore, Row: s.reserved, ChunkBytes: s.chunkBytes, Try: s.try})
}

// ready is the boundary.
func (s *Source) ready(now clock.Mono, e *SourceEvent) {
	switch late := s.tooLate(now); {
	case s.state != sourceRestoring:
	case late != nil:
		s.fail(late)
	case !e.MayAct:
		s.fail(&Failure{errkind.Unavailable, "the node may not act: its lease is in doubt"})
	default:
		s.crossed = true
		s.do(sourceAwaiting, SourceEffect{Do: SourceRelay})
		s.validUntil = now.Add(s.timing.Validity + s.timing.Settle)
		s.wake = s.validUntil
	}
}

// refused has the unit restored once more, from all that was captured, if the application
// failed to (RL-18).
func (s *Source) refused(now clock.Mono, e *SourceEvent) {
	switch late := s.tooLate(now); {
	case s.state != sourceRestoring:
	case e.Failure.Kind == errkind.InternalFailure && s.try == 1 && late == nil:
		s.try = 2
		s.restore()
	default:
		s.fail(ofTarget(e.Failure))
	}
}

func (s *Source) linkLost() {
	switch s.state {
	case sourceAdmitting:
		s.state = sourceAdmitLost
	case sourceRestoring:
		s.state = sourceRestoreLost
	default: // nothing waits for an answer by the link
	}
}

func (s *Source) linkUp(now clock.Mono) {
	switch s.state {
	case sourceAdmitLost:
		s.admit()
	case sourceRestoreLost:
		s.restore()
	case sourceSettling:
		s.ask(now)
	default: // nothing was asked
	}
}

// targetGone is a timeout (RL-15), but while nothing was agreed on.
func (s *Source) targetGone() {
	switch s.state {
	case sourceAdmitting, sourceAdmitLost:
		s.fail(&Failure{errkind.Unavailable, "the target's node is gone"})
	case sourceAwaiting, sourceReading, sourceReadLost, sourceAborting, sourceAbortLost, sourceSettling:
		s.spend()
	default:
		s.stop(&Failure{errkind.DeadlineExceeded, "the target's node is gone, so the move cannot be committed"})
	}
}
