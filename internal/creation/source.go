package creation

import (
	"errors"
	"fmt"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// Call is what a caller wants.
type Call struct {
	Kind     store.Kind // Actor or UserSpot
	ID, Type string
	Get      bool       // GetOrCreate: what is Ready will do
	Deadline clock.Mono // of all of it (CR-13)
}

// Place is a process that can host an object.
type Place struct {
	RID, Mesh string
	Lifecycle store.LeaseGen
}

// SourceStep is what a Source wants done.
type SourceStep uint8

const (
	// SourceChoose: choose a target that is not in Excluded, and an operation id that was
	// never used. Ends with SourceChosen.
	SourceChoose SourceStep = iota + 1
	// SourceReserve: reserve the id at Place for Op. Ends with SourceReserved.
	SourceReserve
	// SourceRead: read the id's row. Ends with SourceRow.
	SourceRead
	// SourceRecall: read the kept result of Op. Ends with SourceRecalled.
	SourceRecall
	// SourceRun: have the target of Row run the creation. Ends with SourceAnswered.
	SourceRun
	// SourceCancel: cancel the creation in Row, whose target is dead. Ends with
	// SourceCancelled.
	SourceCancel
	// SourceNudge: ask the target of Row to run its creation, in case it was never told.
	// Nothing is waited for.
	SourceNudge
	// SourceEnd: the caller gets End.
	SourceEnd
)

// SourceEffect is what a Source wants done next.
type SourceEffect struct {
	Do       SourceStep
	Excluded map[string]bool // RIDs; valid until the next Step
	Place    Place
	Op       store.OperationKey
	Row      store.Authority
	End      SourceResult
}

// SourceFact says what happened.
type SourceFact uint8

const (
	// SourceTick: time has passed.
	SourceTick SourceFact = iota + 1
	// SourceChosen: the target is Place and Op is new; or there is none, for Failure.
	SourceChosen
	// SourceReserved: Change, or Err.
	SourceReserved
	// SourceRow: Row if Found, or Err.
	SourceRow
	// SourceRecalled: Terminal if Found, or Err.
	SourceRecalled
	// SourceAnswered: Result, or Failure. Unavailable leaves open whether it ran.
	SourceAnswered
	// SourceCancelled: Err if the Store did not do it; what it answered does not matter.
	SourceCancelled
	// SourceAbandoned: the caller does not wait any longer.
	SourceAbandoned
)

// SourceEvent is something that happened.
type SourceEvent struct {
	Is       SourceFact
	Place    Place
	Op       store.OperationKey
	Change   store.Change
	Row      store.Authority
	Terminal store.Terminal
	Found    bool
	Result   Result
	Failure  *Failure
	Err      error
}

// SourceOutcome is how a Source ended.
type SourceOutcome uint8

// The outcomes.
const (
	Failed    SourceOutcome = iota // see Failure
	Created                        // by this call
	Existing                       // GetOrCreate found it Ready
	Rejected                       // the application refused
	TimedOut                       // the deadline or the caller ended it; the attempt may go on
	OutOfHold                      // the same while the Store held creations back
)

// SourceResult is the one end of a Source.
type SourceResult struct {
	Outcome SourceOutcome
	Result  Result // of Created, Rejected and Failed creations
	Row     store.Authority
	Failure *Failure // nil for a creation that its target ended as Failed
}

type sourceState uint8

const (
	sourceChoosing sourceState = iota + 1
	sourceReserving
	sourceReserveLost // waits
	sourcePaused      // waits before it competes again
	sourceLooking     // no target: whether the id is there already
	sourceRunning
	sourceSettling   // the target's answer was lost
	sourceRecalling  // the reservation is over
	sourceRecallLost // waits
	sourceReading
	sourceWaiting // waits for somebody else's creation
	sourceCancelling
	sourceOver
)

// Source is the caller's half of a creation.
type Source struct {
	call   Call
	timing Timing
	state  sourceState
	effect SourceEffect // Do is 0: none
	wake   clock.Mono
	waits  backoff

	place    Place
	op       store.OperationKey
	excluded map[string]bool
	full     bool // a target had no room
	lost     bool // a try to reserve for op may be applied yet, whatever later ones were told
	held     bool // the Store held creations when it was asked last
	failure  *Failure
	row      store.Authority // the last one seen, or reserved
	nudge    clock.Mono      // when the row's target is to be asked again
	follows  bool            // nudge belongs to the row
}

// NewSource returns a Source whose first effect is due.
func NewSource(c Call, t Timing) *Source {
	s := &Source{call: c, timing: t, excluded: map[string]bool{}, wake: clock.Never}
	s.choose()
	return s
}

// Effect returns what is to be done next, and forgets it. ok is false while the Source
// waits for an event, or for time to pass.
func (s *Source) Effect() (e SourceEffect, ok bool) {
	e, s.effect = s.effect, SourceEffect{}
	return e, e.Do != 0
}

// NextDeadline returns when Step is to be called with SourceTick if nothing happens.
func (s *Source) NextDeadline() (clock.Mono, bool) {
	if s.state == sourceOver {
		return clock.Never, false
	}
	return min(s.wake, s.call.Deadline), true
}

// Step takes what happened.
func (s *Source) Step(now clock.Mono, e SourceEvent) {
	switch {
	case s.state == sourceOver:
		return
	case e.Is == SourceAbandoned, now.Reached(s.call.Deadline) && !s.final(&e):
		s.timeOut()
		return
	}
	switch e.Is {
	case SourceTick:
		s.tick(now)
	case SourceChosen:
		s.chosen(&e)
	case SourceReserved:
		s.reserved(now, &e)
	case SourceRow:
		s.read(now, &e)
	case SourceRecalled:
		s.recalled(now, &e)
	case SourceAnswered:
		s.answered(&e)
	case SourceCancelled:
		s.cancelled(now, &e)
	case SourceAbandoned: // seen above
	}
}

// final reports whether the event is the creation's own end, which is told even if it
// comes at the deadline.
func (s *Source) final(e *SourceEvent) bool {
	return e.Is == SourceAnswered && e.Failure == nil || e.Is == SourceRecalled && e.Err == nil && e.Found
}

func (s *Source) do(state sourceState, e SourceEffect) { s.state, s.effect = state, e }

func (s *Source) sleep(state sourceState, until clock.Mono) { s.state, s.wake = state, until }

func (s *Source) end(r SourceResult) { s.do(sourceOver, SourceEffect{Do: SourceEnd, End: r}) }

func (s *Source) fail(f *Failure) { s.end(SourceResult{Failure: f}) }

func (s *Source) failed(kind errkind.Kind, format string, args ...any) {
	s.fail(&Failure{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

func (s *Source) timeOut() {
	if s.held {
		s.end(SourceResult{Outcome: OutOfHold})
		return
	}
	s.end(SourceResult{Outcome: TimedOut})
}

func (s *Source) tick(now clock.Mono) {
	if !now.Reached(s.wake) {
		return
	}
	s.wake = clock.Never
	switch s.state {
	case sourceReserveLost:
		s.reserve()
	case sourcePaused:
		s.choose()
	case sourceRecallLost:
		s.do(sourceRecalling, SourceEffect{Do: SourceRecall, Op: s.op})
	case sourceWaiting:
		s.do(sourceReading, SourceEffect{Do: SourceRead})
	default: // nothing else waits for time
	}
}

// choose begins to compete: it reserves without looking first, as the Store's refusal
// shows the row that is there.
func (s *Source) choose() {
	s.do(sourceChoosing, SourceEffect{Do: SourceChoose, Excluded: s.excluded})
}

func (s *Source) chosen(e *SourceEvent) {
	if s.state != sourceChoosing {
		return
	}
	if e.Failure != nil {
		if s.failure = e.Failure; s.full {
			s.failure = &Failure{Kind: errkind.CapacityExceeded, Text: fmt.Sprintf("every node that hosts type %q is full", s.call.Type)}
		}
		s.do(sourceLooking, SourceEffect{Do: SourceRead})
		return
	}
	// While a try may be applied yet, though a later one was refused, it must be known again
	// as this call's own: so what follows is the same operation.
	if !s.lost {
		s.op = e.Op
	}
	s.place, s.waits = e.Place, backoff{}
	s.reserve()
}

func (s *Source) reserve() {
	s.do(sourceReserving, SourceEffect{Do: SourceReserve, Place: s.place, Op: s.op})
}

func (s *Source) reserved(now clock.Mono, e *SourceEvent) {
	if s.state != sourceReserving {
		return
	}
	if e.Err != nil {
		// A later try that did not reach the Store says nothing of one whose answer was lost.
		if s.lost = s.lost || errors.Is(e.Err, store.ErrUnknown); s.lost {
			s.sleep(sourceReserveLost, s.waits.wait(now, s.timing, s.timing.WaitMax))
			return
		}
		s.fail(&Failure{Err: e.Err})
		return
	}
	c := &e.Change
	s.held = c.Reason == store.Recovering
	switch c.Reason {
	case store.Applied:
		s.run(&c.Record)
	case store.AlreadyApplied: // by a try whose answer was lost
		if s.row = c.Record; c.Found && c.Record.Create != nil && c.Record.Create.Op == s.op {
			s.run(&c.Record)
			return
		}
		if !c.Found {
			s.row = store.Authority{}
		}
		s.waits = backoff{}
		s.do(sourceRecalling, SourceEffect{Do: SourceRecall, Op: s.op})
	case store.Exists, store.TypeMismatch:
		if !c.Found { // it has gone again
			s.sleep(sourcePaused, now.Add(s.timing.Wait))
			return
		}
		s.waits = backoff{}
		s.follow(now, &c.Record)
	case store.Recovering:
		s.sleep(sourcePaused, now.Add(s.timing.WaitMax))
	case store.CapacityExceeded:
		s.full = true
		s.exclude()
	case store.TargetUnavailable, store.TargetIncompatible:
		s.exclude()
	case store.Exhausted:
		s.failed(errkind.InternalFailure, "the namespace has no ObjectGeneration left")
	default:
		s.failed(errkind.InternalFailure, "the Store refused the reservation for reason %d", c.Reason)
	}
}

// exclude leaves the target out for the rest of this call.
func (s *Source) exclude() {
	s.excluded[s.place.RID] = true
	s.choose()
}

func (s *Source) run(row *store.Authority) {
	s.row, s.lost = *row, false // what became of the operation is known
	s.do(sourceRunning, SourceEffect{Do: SourceRun, Row: s.row})
}

func (s *Source) answered(e *SourceEvent) {
	switch {
	case s.state != sourceRunning:
	case e.Failure == nil && e.Result.Terminal.Result == store.Failed && errkind.Kind(e.Result.FailKind) == errkind.ShuttingDown:
		s.exclude() // the target has begun to stop, and the reservation is gone: another may have it
	case e.Failure == nil:
		s.result(e.Result)
	case e.Failure.Kind == errkind.Unavailable:
		s.failure = e.Failure // it may have run: what is kept tells
		s.do(sourceSettling, SourceEffect{Do: SourceRecall, Op: s.op})
	default:
		s.fail(e.Failure)
	}
}

// recalled is for an operation that is over: the caller gets its own result (CR-15).
func (s *Source) recalled(now clock.Mono, e *SourceEvent) {
	switch {
	case s.state == sourceSettling && e.Err == nil && e.Found:
		s.result(Result{e.Terminal, s.row})
	case s.state == sourceSettling:
		s.fail(s.failure)
	case s.state != sourceRecalling:
	case errors.Is(e.Err, store.ErrUnknown):
		s.sleep(sourceRecallLost, s.waits.wait(now, s.timing, s.timing.WaitMax))
	case e.Err != nil:
		s.fail(&Failure{Err: e.Err})
	case !e.Found && s.row.State == store.Ready: // somebody else's
		s.follow(now, &s.row)
	case !e.Found: // it was cancelled, which keeps no record
		s.choose()
	default:
		owner := s.row
		if owner.State != store.Ready || owner.ObjectGen != e.Terminal.ObjectGen { // it is gone again
			owner = store.Authority{Mesh: s.place.Mesh, RID: s.place.RID, LeaseGen: s.place.Lifecycle, OwnerGen: 1}
		}
		s.result(Result{e.Terminal, owner})
	}
}

func (s *Source) result(r Result) {
	r.Owner.ID, r.Owner.ObjectGen = s.call.ID, r.ObjectGen
	out := SourceResult{Result: r}
	switch r.Terminal.Result {
	case store.Created:
		out.Outcome = Created
	case store.Rejected:
		out.Outcome = Rejected
	default:
		out.Outcome = Failed
	}
	s.end(out)
}

func (s *Source) read(now clock.Mono, e *SourceEvent) {
	switch {
	case s.state == sourceLooking && (e.Err != nil || !e.Found):
		s.fail(s.failure)
	case s.state == sourceLooking:
		s.waits = backoff{}
		s.see(now, &e.Row)
	case s.state != sourceReading:
	case errors.Is(e.Err, store.ErrUnknown), e.Err == nil && !e.Found:
		s.follows = false
		s.choose() // Missing: compete again; lost: the next reservation tells
	case e.Err != nil:
		s.fail(&Failure{Err: e.Err})
	default:
		s.see(now, &e.Row)
	}
}

// see takes a row that was read. It may be of a try of this call that was applied late.
func (s *Source) see(now clock.Mono, row *store.Authority) {
	switch {
	case s.lost && row.Create != nil && row.Create.Op == s.op:
		s.run(row)
	case s.lost && row.State == store.Ready: // the row does not say by whom
		s.row = *row
		s.do(sourceRecalling, SourceEffect{Do: SourceRecall, Op: s.op})
	default:
		s.follow(now, row)
	}
}

// follow decides what a row that is there means for the caller.
func (s *Source) follow(now clock.Mono, row *store.Authority) {
	if s.row.ObjectGen != row.ObjectGen {
		s.follows = false
	}
	s.row, s.held = *row, false
	switch {
	case row.State == store.Creating && row.LeaseLeft <= 0: // of a dead process: nobody continues it
		s.do(sourceCancelling, SourceEffect{Do: SourceCancel, Row: *row})
	case row.Kind != s.call.Kind:
		s.failed(errkind.TypeMismatch, "the id is of an object of kind %v", row.Kind)
	case row.Type != s.call.Type:
		s.failed(errkind.TypeMismatch, "it is of type %q, not %q", row.Type, s.call.Type)
	case !s.call.Get:
		s.failed(errkind.AlreadyExists, "it exists or is being created")
	case row.LeaseLeft <= 0:
		s.failed(errkind.Unavailable, "its owner %s is dead", row.RID)
	case row.State == store.Ready:
		s.end(SourceResult{Outcome: Existing, Row: *row})
	default:
		s.await(now)
	}
}

// await waits for somebody else's creation, whose target is asked to run it now and then.
func (s *Source) await(now clock.Mono) {
	s.sleep(sourceWaiting, s.waits.wait(now, s.timing, s.timing.WaitMax))
	switch {
	case !s.follows:
		s.follows, s.nudge = true, now.Add(s.timing.Nudge)
	case now.Reached(s.nudge) && s.row.Create != nil:
		s.nudge = now.Add(s.timing.Nudge)
		s.effect = SourceEffect{Do: SourceNudge, Row: s.row}
	}
}

// cancelled reads the row again, whatever was answered.
func (s *Source) cancelled(now clock.Mono, e *SourceEvent) {
	switch {
	case s.state != sourceCancelling:
	case e.Err != nil && !errors.Is(e.Err, store.ErrUnknown):
		s.fail(&Failure{Err: e.Err})
	default:
		s.sleep(sourceWaiting, now.Add(s.timing.Wait))
	}
}
