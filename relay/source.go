package relay

import (
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// SourceMove is one attempt to move a unit, as its owner begins it.
type SourceMove struct {
	Unit     store.Fence    // of the unit's row
	OwnerGen store.OwnerGen // that this process has
	Epoch    store.Epoch    // under which it has it
	Self     store.Lease    // of this process

	To         Process
	SpotID     string // the unit's membership after the move
	InUserSpot bool   // SpotID is a User Spot, which is asked for admission
	Fixed      bool   // the unit's policy forbids the move (PO-02)

	Relocation         store.RelocationID
	Attempt            uint32
	ReserveOp, AbortOp store.OpID
	Deadline           clock.Mono // of all up to the boundary
}

// SourceStep is what a Source wants done.
type SourceStep uint8

const (
	// SourceAdmit: ask the target for admission. Ends with SourceAdmitted, or SourceLinkLost.
	SourceAdmit SourceStep = iota + 1
	// SourceReserve: send Reserve to the Store. Ends with SourceReserved.
	SourceReserve
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
	// SourceAbort: send Abort to the Store, if the lease allows. Ends with SourceAborted.
	SourceAbort
	// SourceSettle: the Store's epoch has changed. Tell the target that the move is off and ask
	// it, on each new link again, what became of it. Ends with SourceCommitted, SourceGivenUp or
	// SourceTargetGone.
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
	Row        store.Authority // as the reservation left it
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
	// SourcePermitted: it has its place, or none for Failure.
	SourcePermitted
	// SourceSessionSealed: the binding is sealed if Bound, and there is none else. Its owner
	// was asked at SealedAt. Or it is not, for Failure.
	SourceSessionSealed
	// SourceCaptured: it is, or Failure.
	SourceCaptured
	// SourceReady: the target is ready. MayAct says whether this process may act.
	SourceReady
	// SourceRefused: the target is not, for Failure.
	SourceRefused
	// SourceLinkLost: the link to the target is gone, and an answer with it.
	SourceLinkLost
	// SourceLinkUp: there is a link to the target again. What was asked is asked again.
	SourceLinkUp
	// SourceTargetGone: the target's process is over.
	SourceTargetGone
	// SourceCommitted: the target says that it owns the unit.
	SourceCommitted
	// SourceGivenUp: the target says that it has dropped the unit, or knows nothing of it.
	SourceGivenUp
	// SourceDoubt: somebody saw reason to look at the row.
	SourceDoubt
	// SourceRow: Row if Found, or Err.
	SourceRow
	// SourceAborted: Change, or Err.
	SourceAborted
	// SourceConfirmed: Row is the row as it is written; or it cannot be, for Failure, and Row,
	// if Found, is what the Store has.
	SourceConfirmed
	// SourceStopping: the node has begun to stop.
	SourceStopping
)

// SourceEvent is something that happened.
type SourceEvent struct {
	Is                    SourceFact
	MayAct, Reject, Bound bool
	Found                 bool
	Reply                 Reply
	ChunkBytes            uint32
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
	// SourceMoved: it is the target's. What is held, and comes, goes there.
	SourceMoved
	// SourceLost: it is not known to be anywhere. It stays sealed here: requests end
	// Unavailable, sends are counted.
	SourceLost
)

// SourceEnded is the one end of a Source.
type SourceEnded struct {
	Outcome SourceOutcome
	Failure *Failure // of SourceFailed and SourceLost
	Reply   Reply    // of SourceRejected
	Row     store.Authority
	Found   bool // Row is the row as the Store showed it last

	// What there is to undo, in this order, if the unit goes on here: the target's preparation,
	// by moveAbort; the capture, by which state, timers and queue go back; the Session's seal.
	Prepared, Captured, Sealed bool
	// Doubt: a reservation whose answer was lost may be applied yet. The row is read before
	// its next change.
	Doubt bool
}

// Source is the owner's half of a move.
type Source struct{}

// NewSource returns a Source whose first effect is due.
func NewSource(m SourceMove, t Timing) *Source { return &Source{} }

// Effect returns what is to be done next, and forgets it. ok is false while the Source
// waits for an event, or for time to pass.
func (s *Source) Effect() (e SourceEffect, ok bool) { return e, false }

// NextDeadline returns when Step is to be called with SourceTick if nothing happens.
func (s *Source) NextDeadline() (clock.Mono, bool) { return clock.Never, false }

// Step takes what happened.
func (s *Source) Step(now clock.Mono, e SourceEvent) {}
