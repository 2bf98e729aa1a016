package creation

import (
	"errors"
	"fmt"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// Job is a reserved creation as its target is told of it.
type Job struct {
	Op       store.OperationKey
	ID, Type string
	Kind     store.Kind
	ObjGen   store.ObjectGen
	Version  store.Version
	Deadline clock.Mono
	// Row is the reservation if this process made it itself just now; nil: it is read.
	Row *store.Authority
}

// Self is the process that a Target acts for.
type Self struct {
	RID, Mesh, OwnerID string
	LeaseGen           store.LeaseGen
	EntryID            string // of its Entry Spot, which Actors enter
}

// TargetStep is what a Target wants done.
type TargetStep uint8

const (
	// TargetEnter: wait for a place among the creations that run. Ends with TargetEntered.
	TargetEnter TargetStep = iota + 1
	// TargetRead: read the id's row, with its request. Ends with TargetRow.
	TargetRead
	// TargetStage: run the application's part for Row. Ends with TargetStaged.
	TargetStage
	// TargetPublish: make the staged object findable, with its messages held: whoever
	// reads Ready finds it. Ends with TargetPublished.
	TargetPublish
	// TargetFinish: send Finish to the Store, if the lease allows. Ends with
	// TargetFinished.
	TargetFinish
	// TargetConfirm: see to it that Row is written in the epoch that this process knows.
	// Ends with TargetConfirmed.
	TargetConfirm
	// TargetRecall: read the kept result of Op. Ends with TargetRecalled.
	TargetRecall
	// TargetEnd: the object of Row is opened if Open, else what was published is dropped
	// for Failure; who asked gets Result, or Failure.
	TargetEnd
)

// TargetEffect is what a Target wants done next.
type TargetEffect struct {
	Do      TargetStep
	Row     store.Authority
	Finish  store.Finish
	Op      store.OperationKey
	Result  Result
	Failure *Failure
	Open    bool
}

// TargetFact says what happened.
type TargetFact uint8

const (
	// TargetTick: time has passed.
	TargetTick TargetFact = iota + 1
	// TargetBegun: somebody asks for the creation. MayAct says whether this process may
	// act, Here whether it has the object already, Failure why it takes nothing new.
	TargetBegun
	// TargetEntered: it has its place, or none for Failure.
	TargetEntered
	// TargetRow: Row if Found, or Err.
	TargetRow
	// TargetStaged: the application accepted, or refused if Reject, with Reply; or it
	// failed with Failure.
	TargetStaged
	// TargetPublished: Done is false if the incarnation, or a later one, is there.
	TargetPublished
	// TargetFinished: Change, or Err.
	TargetFinished
	// TargetConfirmed: it is, or cannot be for Failure.
	TargetConfirmed
	// TargetRecalled: Terminal if Found, or Err.
	TargetRecalled
)

// TargetEvent is something that happened.
type TargetEvent struct {
	Is                          TargetFact
	MayAct, Here, Found, Reject bool
	Done                        bool
	Reply                       []byte
	Row                         store.Authority
	Change                      store.Change
	Terminal                    store.Terminal
	Failure                     *Failure
	Err                         error
}

type targetState uint8

const (
	targetIdle targetState = iota + 1
	targetEntering
	targetReading
	targetReadLost // waits
	targetStaging
	targetPublishing
	targetFinishing
	targetFinishLost // waits
	targetConfirming
	targetRecalling
	targetOver
)

// Target is the half of a creation at the process that its reservation names. Whatever
// goes wrong, it ends the reservation in the Store, so it may take longer than the
// creation's deadline; who waits for it watches its own.
type Target struct {
	job    Job
	self   Self
	timing Timing
	state  targetState
	effect TargetEffect // Do is 0: none
	wake   clock.Mono
	waits  backoff
	finish store.Finish
	row    store.Authority // that Finish left
}

// NewTarget returns a Target that waits for TargetBegun.
func NewTarget(j Job, self Self, t Timing) *Target {
	return &Target{job: j, self: self, timing: t, state: targetIdle, wake: clock.Never}
}

// Effect returns what is to be done next, and forgets it. ok is false while the Target
// waits for an event, or for time to pass.
func (t *Target) Effect() (e TargetEffect, ok bool) {
	e, t.effect = t.effect, TargetEffect{}
	return e, e.Do != 0
}

// NextDeadline returns when Step is to be called with TargetTick if nothing happens.
func (t *Target) NextDeadline() (clock.Mono, bool) {
	switch t.state {
	case targetOver:
		return clock.Never, false
	case targetStaging, targetReading, targetReadLost:
		return min(t.wake, t.job.Deadline), true
	default:
		return t.wake, t.wake != clock.Never
	}
}

// Step takes what happened.
func (t *Target) Step(now clock.Mono, e TargetEvent) {
	switch e.Is {
	case TargetTick:
		t.tick(now)
	case TargetBegun:
		t.begun(&e)
	case TargetEntered:
		t.entered(&e)
	case TargetRow:
		t.read(now, &e)
	case TargetStaged:
		t.staged(&e)
	case TargetPublished:
		t.published(&e)
	case TargetFinished:
		t.finished(now, &e)
	case TargetConfirmed:
		t.confirmed(&e)
	case TargetRecalled:
		t.recalled(&e)
	}
}

func (t *Target) do(state targetState, e TargetEffect) { t.state, t.effect = state, e }

func (t *Target) refuse(f *Failure) { t.do(targetOver, TargetEffect{Do: TargetEnd, Failure: f}) }

func unavailable(text string) *Failure { return &Failure{Kind: errkind.Unavailable, Text: text} }

// tick also ends the application's part at the deadline: what it still does concerns an
// object that nobody will see.
func (t *Target) tick(now clock.Mono) {
	switch late := now.Reached(t.job.Deadline); {
	case late && (t.state == targetStaging || t.state == targetReading || t.state == targetReadLost):
		t.wake = clock.Never
		t.fail(errkind.DeadlineExceeded)
	case !now.Reached(t.wake):
	case t.state == targetReadLost:
		t.wake = clock.Never
		t.do(targetReading, TargetEffect{Do: TargetRead})
	case t.state == targetFinishLost:
		t.wake = clock.Never
		t.send()
	}
}

func (t *Target) begun(e *TargetEvent) {
	switch {
	case t.state != targetIdle:
	case !e.MayAct: // nothing may be committed; somebody will ask again
		t.refuse(unavailable("the node may not act: its lease is in doubt"))
	case e.Here: // it is over; a Store that forgot that may show it as Creating
		t.recall()
	case e.Failure != nil:
		t.fail(e.Failure.Kind)
	default:
		t.do(targetEntering, TargetEffect{Do: TargetEnter})
	}
}

func (t *Target) entered(e *TargetEvent) {
	switch {
	case t.state != targetEntering:
	case e.Failure != nil:
		t.fail(e.Failure.Kind)
	case t.job.Row != nil:
		t.stage(t.job.Row)
	default:
		t.do(targetReading, TargetEffect{Do: TargetRead})
	}
}

// read checks that the row is the creation that is asked for and meant for this process.
func (t *Target) read(now clock.Mono, e *TargetEvent) {
	row := &e.Row
	switch {
	case t.state != targetReading:
	case errors.Is(e.Err, store.ErrUnknown):
		t.state, t.wake = targetReadLost, t.waits.wait(now, t.timing, t.timing.WaitMax)
	case e.Err != nil:
		t.fail(errkind.Unavailable)
	case !e.Found, row.ObjectGen != t.job.ObjGen, row.State == store.Ready, row.Create == nil,
		row.Create.Op.Op != t.job.Op.Op, row.Version != t.job.Version, row.Type != t.job.Type, row.Kind != t.job.Kind:
		t.recall() // this operation has ended before: the same answer again
	case row.RID != t.self.RID || row.LeaseGen != t.self.LeaseGen:
		t.refuse(unavailable("it is reserved for another process of node " + t.self.RID))
	default:
		t.stage(row)
	}
}

// stage takes the operation's key from the row: somebody else than its coordinator may
// have asked, and known half of it.
func (t *Target) stage(row *store.Authority) {
	t.job.Op = row.Create.Op
	t.do(targetStaging, TargetEffect{Do: TargetStage, Row: *row})
}

func (t *Target) staged(e *TargetEvent) {
	switch {
	case t.state != targetStaging:
	case e.Failure != nil:
		t.fail(e.Failure.Kind)
	case e.Reject:
		t.finish = store.Finish{Result: store.Rejected, Reply: e.Reply}
		t.conclude()
	default:
		t.finish = store.Finish{Result: store.Created, Reply: e.Reply}
		t.do(targetPublishing, TargetEffect{Do: TargetPublish})
	}
}

func (t *Target) published(e *TargetEvent) {
	switch {
	case t.state != targetPublishing:
	case e.Done:
		t.conclude()
	default:
		t.refuse(unavailable("the same creation is already running"))
	}
}

// fail ends the reservation as Failed.
func (t *Target) fail(kind errkind.Kind) {
	t.finish = store.Finish{Result: store.Failed, FailKind: uint8(kind)}
	t.conclude()
}

// conclude tells the Store how the creation ended, until it has answered.
func (t *Target) conclude() {
	t.waits = backoff{}
	t.finish.Op = t.job.Op
	t.finish.Fence = store.Fence{
		ID: t.job.ID, ObjectGen: t.job.ObjGen, Version: t.job.Version, OwnerID: t.self.OwnerID, LeaseGen: t.self.LeaseGen,
	}
	if t.job.Kind == store.Actor {
		t.finish.SpotID = t.self.EntryID
	}
	t.send()
}

func (t *Target) send() { t.do(targetFinishing, TargetEffect{Do: TargetFinish, Finish: t.finish}) }

func (t *Target) finished(now clock.Mono, e *TargetEvent) {
	c := &e.Change
	made := t.finish.Result == store.Created
	switch {
	case t.state != targetFinishing:
	case errors.Is(e.Err, store.ErrInvalid):
		t.over(&Failure{Err: e.Err})
	case e.Err != nil, c.Reason == store.LeaseExpired:
		t.state, t.wake = targetFinishLost, t.waits.wait(now, t.timing, t.timing.Settle)
	case c.Record.Create != nil && c.Record.Create.Op.Op == t.finish.Op.Op && c.Record.Create.Op != t.finish.Op:
		t.finish.Op = c.Record.Create.Op // see stage: the row was not read before
		t.send()
	case c.Reason != store.Applied && c.Reason != store.AlreadyApplied,
		made && (!c.Found || c.Record.State != store.Ready || c.Record.ObjectGen != t.job.ObjGen):
		t.over(unavailable(fmt.Sprintf("the Store had ended its creation otherwise (%v)", c.Reason)))
	case !made && c.Reason == store.AlreadyApplied:
		t.recall() // by a lost try, or by a run before this one, which may have ended otherwise
	case made:
		t.row = c.Record
		t.do(targetConfirming, TargetEffect{Do: TargetConfirm, Row: t.row})
	default:
		t.over(nil)
	}
}

func (t *Target) confirmed(e *TargetEvent) {
	if t.state == targetConfirming {
		t.over(e.Failure)
	}
}

// over ends the Target: with what the creation gave, or with a failure that says that this
// process does not know or that it was undone.
func (t *Target) over(f *Failure) {
	e := TargetEffect{Do: TargetEnd, Failure: f}
	if f == nil {
		e.Result = t.result(store.Terminal{
			Result: t.finish.Result, ID: t.job.ID, ObjectGen: t.job.ObjGen, Reply: t.finish.Reply, FailKind: t.finish.FailKind,
		})
		if e.Open = t.finish.Result == store.Created; e.Open {
			e.Row, e.Result.Owner = t.row, t.row
		}
	}
	t.do(targetOver, e)
}

// recall answers a repeated operation from its kept record (CR-15).
func (t *Target) recall() { t.do(targetRecalling, TargetEffect{Do: TargetRecall, Op: t.job.Op}) }

func (t *Target) recalled(e *TargetEvent) {
	switch {
	case t.state != targetRecalling:
	case e.Err != nil:
		t.refuse(&Failure{Err: e.Err})
	case !e.Found:
		t.refuse(unavailable("its reservation is gone"))
	default:
		t.do(targetOver, TargetEffect{Do: TargetEnd, Result: t.result(e.Terminal)})
	}
}

func (t *Target) result(kept store.Terminal) Result {
	return Result{kept, store.Authority{
		ID: t.job.ID, ObjectGen: kept.ObjectGen, Mesh: t.self.Mesh, RID: t.self.RID, LeaseGen: t.self.LeaseGen, OwnerGen: 1,
	}}
}
