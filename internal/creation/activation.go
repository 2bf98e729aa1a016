package creation

import (
	"errors"
	"fmt"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// ActivationCall is the first message of an Instance Spot, as far as the activation needs
// it.
type ActivationCall struct {
	ID       string
	Deadline clock.Mono  // of the message, and so of the activation for it
	Self     store.Lease // of this process
}

// ActivationStep is what an Activation wants done.
type ActivationStep uint8

const (
	// ActivationEnter: take a place among the activations that run at once, and find an
	// operation id that was never used. Ends with ActivationEntered.
	ActivationEnter ActivationStep = iota + 1
	// ActivationReserve: reserve the id here for Op, and store the message with it. Ends
	// with ActivationReserved.
	ActivationReserve
	// ActivationRemove: Finish a reservation at this process that nobody runs. Ends with
	// ActivationRemoved.
	ActivationRemove
	// ActivationStage: run factory and initialise of the incarnation in Row, until the
	// deadline at most. Ends with ActivationStaged.
	ActivationStage
	// ActivationFinish: end the creation in the Store by Finish. Ends with
	// ActivationFinished.
	ActivationFinish
	// ActivationAdvance: tell the Store by Fence and Op that the message is back at the
	// head of its queue. Ends with ActivationAdvanced.
	ActivationAdvance
	// ActivationConfirm: see to it that the row, which is Row, is written in the epoch that
	// this node knows. Ends with ActivationConfirmed.
	ActivationConfirm
	// ActivationOpen: the first message, and behind it all that waits, may run.
	ActivationOpen
	// ActivationEnd: the Spot is not. Failure and Return say what becomes of the messages.
	ActivationEnd
)

// ActivationReturn says which messages of an activation that ended go on their way again.
// They certainly did not run. Those that do not get the Failure.
type ActivationReturn uint8

const (
	// ReturnNone: what ended the activation would end each further one.
	ReturnNone ActivationReturn = iota + 1
	// ReturnRest: the first message was taken and has failed; the others compete again.
	ReturnRest
	// ReturnAll: nothing was taken. This node cannot have the Spot, another one may.
	ReturnAll
)

// ActivationEffect is what an Activation wants done next.
type ActivationEffect struct {
	Do              ActivationStep
	Op              store.OperationKey
	Row             store.Authority
	Finish          store.Finish
	Fence           store.Fence
	Failure         *Failure
	Return          ActivationReturn
	Full, Elsewhere bool // with ReturnAll: no room, or the id is at another node
}

// ActivationFact says what happened.
type ActivationFact uint8

const (
	// ActivationTick: time has passed.
	ActivationTick ActivationFact = iota + 1
	// ActivationEntered: with a place and Op; or without a place, for Failure. Full says
	// that too many run and wait.
	ActivationEntered
	// ActivationReserved: Change, or Err.
	ActivationReserved
	// ActivationRemoved: Change, or Err. Op is a new one.
	ActivationRemoved
	// ActivationStaged: the Spot is made and initialised, or Failure.
	ActivationStaged
	// ActivationFinished: Change, or Err. Op is a new one.
	ActivationFinished
	// ActivationAdvanced: Change, or Err.
	ActivationAdvanced
	// ActivationConfirmed: Row is the row as it is written, or Failure.
	ActivationConfirmed
	// ActivationStopped: the node has stopped.
	ActivationStopped
)

// ActivationEvent is something that happened.
type ActivationEvent struct {
	Is      ActivationFact
	Op      store.OperationKey
	Change  store.Change
	Row     store.Authority
	Full    bool
	Failure *Failure
	Err     error
}

type activationState uint8

const (
	activationEntering activationState = iota + 1
	activationReserving
	activationReserveLost // waits; the reservation may have been applied
	activationHeld        // waits: the Store holds creations back
	activationRemoving
	activationRemoveLost // waits
	activationStaging
	activationFinishing
	activationFinishLost // waits
	activationAdvancing
	activationAdvanceLost // waits
	activationRecovering  // waits for the node to hear of the epoch that lost the row
	activationReasserting // the row was lost; then the message is to be advanced again
	activationConfirming  // the message is back
	activationOver
)

// Activation is the target's half: it brings an Instance Spot into being for the message
// that is the first in the Spot's queue. Whoever runs it holds all that the queue gets, in
// order, until ActivationOpen (CR-18). The reservation and the message are stored together,
// and only this process goes on with them (FO-13): while its lease is valid nobody else
// ends the creation, so it goes on until the Store has answered. When the lease was over,
// somebody may have cancelled; then nothing of the Spot runs.
//
// Nothing runs before the Store knows that the first message is back: so a row that says
// it is not is one of a Spot that has never run anything.
type Activation struct {
	call   ActivationCall
	timing Timing
	state  activationState
	effect ActivationEffect // Do is 0: none
	wake   clock.Mono
	waits  backoff

	op      store.OperationKey // of the reservation
	advance store.OperationKey
	doubt   bool // a try to reserve may have been applied
	row     store.Authority
	finish  store.Finish
	failure *Failure // why it is finished as Failed
}

// NewActivation returns an Activation whose first effect is due.
func NewActivation(c ActivationCall, t Timing) *Activation {
	a := &Activation{call: c, timing: t, wake: clock.Never}
	a.do(activationEntering, ActivationEffect{Do: ActivationEnter})
	return a
}

// Effect returns what is to be done next, and forgets it. ok is false while the Activation
// waits for an event, or for time to pass.
func (a *Activation) Effect() (e ActivationEffect, ok bool) {
	e, a.effect = a.effect, ActivationEffect{}
	return e, e.Do != 0
}

// NextDeadline returns when Step is to be called with ActivationTick if nothing happens.
func (a *Activation) NextDeadline() (clock.Mono, bool) { return a.wake, a.wake != clock.Never }

// Step takes what happened.
func (a *Activation) Step(now clock.Mono, e ActivationEvent) {
	if a.state == activationOver {
		return
	}
	switch e.Is {
	case ActivationTick:
		a.tick(now)
	case ActivationEntered:
		a.entered(&e)
	case ActivationReserved:
		a.reserved(now, &e)
	case ActivationRemoved:
		a.removed(now, &e)
	case ActivationStaged:
		a.staged(&e)
	case ActivationFinished:
		a.finished(now, &e)
	case ActivationAdvanced:
		a.advanced(now, &e)
	case ActivationConfirmed:
		a.confirmed(&e)
	case ActivationStopped:
		a.end(ReturnNone, &Failure{Kind: errkind.ShuttingDown, Text: "the node has stopped"})
	}
}

func (a *Activation) do(state activationState, e ActivationEffect) {
	a.state, a.effect, a.wake = state, e, clock.Never
}

func (a *Activation) sleep(state activationState, until clock.Mono) { a.state, a.wake = state, until }

func (a *Activation) settle(now clock.Mono, state activationState) {
	a.sleep(state, a.waits.wait(now, a.timing, a.timing.Settle))
}

func (a *Activation) end(r ActivationReturn, f *Failure) {
	a.do(activationOver, ActivationEffect{Do: ActivationEnd, Return: r, Failure: f})
}

// gone is for a creation that somebody else has ended while this process's lease was over.
func (a *Activation) gone(why store.Reason) {
	a.end(ReturnRest, &Failure{
		Kind: errkind.Unavailable,
		Text: fmt.Sprintf("the Store had ended the spot's creation otherwise (%v); the message did not run", why),
	})
}

func (a *Activation) tick(now clock.Mono) {
	if !now.Reached(a.wake) {
		return
	}
	a.wake = clock.Never
	switch a.state {
	case activationReserveLost:
		a.reserve()
	case activationHeld:
		if a.late(now) {
			a.end(ReturnRest, &Failure{
				Kind: errkind.DeadlineExceeded,
				Text: "the Store has just come back or is new, and holds creations back",
			})
			return
		}
		a.reserve()
	case activationRemoveLost:
		a.remove()
	case activationFinishLost:
		a.send()
	case activationAdvanceLost:
		a.restore()
	case activationRecovering:
		a.do(activationReasserting, ActivationEffect{Do: ActivationConfirm, Row: a.row})
	default: // nothing else waits for time
	}
}

func (a *Activation) late(now clock.Mono) bool { return now.Reached(a.call.Deadline) }

func (a *Activation) entered(e *ActivationEvent) {
	switch {
	case a.state != activationEntering:
	case e.Failure != nil:
		a.end(ReturnAll, e.Failure)
		a.effect.Full = e.Full
	default:
		a.op = e.Op
		a.reserve()
	}
}

func (a *Activation) reserve() {
	a.do(activationReserving, ActivationEffect{Do: ActivationReserve, Op: a.op})
}

func (a *Activation) reserved(now clock.Mono, e *ActivationEvent) {
	if a.state != activationReserving {
		return
	}
	if errors.Is(e.Err, store.ErrInvalid) { // such as a message that is too large, of which the others know nothing
		a.end(ReturnRest, &Failure{Err: e.Err})
		return
	}
	if e.Err != nil {
		// A later try that did not reach the Store says nothing of one whose answer was lost.
		if a.doubt = a.doubt || errors.Is(e.Err, store.ErrUnknown); a.doubt {
			a.settle(now, activationReserveLost)
			return
		}
		a.end(ReturnNone, &Failure{Err: e.Err})
		return
	}
	a.doubt, a.waits = false, backoff{}
	c := &e.Change
	switch c.Reason {
	case store.Applied:
		a.stage(now, &c.Record)
	case store.AlreadyApplied: // by a try whose answer was lost
		if c.Found && c.Record.Create != nil && c.Record.Create.Op == a.op {
			a.stage(now, &c.Record)
			return
		}
		a.gone(c.Reason)
	case store.Exists:
		a.exists(c)
	case store.TypeMismatch:
		a.end(ReturnNone, &Failure{Kind: errkind.TypeMismatch, Text: "the id is of another type or kind of object"})
	case store.CapacityExceeded:
		a.end(ReturnAll, &Failure{Kind: errkind.CapacityExceeded, Text: "the node has no room for a spot of the type"})
		a.effect.Full = true
	case store.TargetUnavailable, store.TargetIncompatible:
		a.end(ReturnAll, &Failure{Kind: errkind.Unavailable, Text: "the Store does not let the node have a spot of the type now"})
	case store.Recovering:
		a.sleep(activationHeld, min(now.Add(a.timing.WaitMax), a.call.Deadline))
	case store.Exhausted:
		a.end(ReturnNone, exhausted())
	default:
		a.end(ReturnNone, &Failure{Kind: errkind.InternalFailure, Text: fmt.Sprintf("the Store refused the reservation for reason %d", c.Reason)})
	}
}

func exhausted() *Failure {
	return &Failure{Kind: errkind.InternalFailure, Text: "the namespace has no generation left"}
}

// exists is for an id that is there already. A reservation at this process that nobody
// runs is one whose try was taken for lost: its message went elsewhere, so it is removed
// and never continued.
func (a *Activation) exists(c *store.Change) {
	row := &c.Record
	if c.Found && row.State == store.Creating && row.Create != nil && row.OwnerID == a.call.Self.OwnerID && row.LeaseGen == a.call.Self.Gen {
		a.finish = store.Finish{
			Fence: store.FenceOf(row), Op: row.Create.Op, Result: store.Failed, FailKind: uint8(errkind.Unavailable),
		}
		a.remove()
		return
	}
	a.end(ReturnAll, &Failure{Kind: errkind.Unavailable, Text: "the id came into being somewhere else"})
	a.effect.Elsewhere = true
}

func (a *Activation) remove() {
	a.do(activationRemoving, ActivationEffect{Do: ActivationRemove, Finish: a.finish})
}

func (a *Activation) removed(now clock.Mono, e *ActivationEvent) {
	switch {
	case a.state != activationRemoving:
	case errors.Is(e.Err, store.ErrInvalid):
		a.end(ReturnNone, &Failure{Err: e.Err})
	case e.Err != nil, e.Change.Reason == store.LeaseExpired:
		a.settle(now, activationRemoveLost)
	default: // whatever became of it, the next reservation tells
		a.op, a.waits = e.Op, backoff{}
		a.reserve()
	}
}

func (a *Activation) stage(now clock.Mono, row *store.Authority) {
	a.row = *row
	if a.late(now) {
		a.fail(&Failure{Kind: errkind.DeadlineExceeded, Text: "the message's deadline passed before its spot was created"})
		return
	}
	a.do(activationStaging, ActivationEffect{Do: ActivationStage, Row: a.row})
}

func (a *Activation) staged(e *ActivationEvent) {
	switch {
	case a.state != activationStaging:
	case e.Failure != nil:
		a.fail(e.Failure)
	default:
		a.conclude(store.Finish{Result: store.Created})
	}
}

// fail ends the creation in the Store before anybody is told, so that the next call works.
func (a *Activation) fail(f *Failure) {
	a.failure = f
	a.conclude(store.Finish{Result: store.Failed, FailKind: uint8(f.Kind)})
}

func (a *Activation) conclude(f store.Finish) {
	a.finish, a.waits = f, backoff{}
	a.finish.Fence, a.finish.Op = store.FenceOf(&a.row), a.op
	a.send()
}

func (a *Activation) send() {
	a.do(activationFinishing, ActivationEffect{Do: ActivationFinish, Finish: a.finish})
}

func (a *Activation) finished(now clock.Mono, e *ActivationEvent) {
	if a.state != activationFinishing {
		return
	}
	c := &e.Change
	switch {
	case errors.Is(e.Err, store.ErrInvalid):
		a.end(ReturnRest, &Failure{Err: e.Err})
	case e.Err != nil, c.Reason == store.LeaseExpired:
		a.settle(now, activationFinishLost)
	case a.failure != nil: // the row is gone, by this or otherwise
		a.end(ReturnRest, a.failure)
	case c.Reason == store.Exhausted:
		a.fail(exhausted())
	case c.Reason != store.Applied && c.Reason != store.AlreadyApplied, !a.ours(c) || c.Record.State != store.Ready:
		a.gone(c.Reason)
	default:
		a.row, a.advance, a.waits = c.Record, e.Op, backoff{}
		a.restore()
	}
}

// ours reports whether the row is that of this incarnation at this process.
func (a *Activation) ours(c *store.Change) bool {
	r := &c.Record
	return c.Found && r.ObjectGen == a.row.ObjectGen && r.OwnerID == a.call.Self.OwnerID && r.LeaseGen == a.call.Self.Gen
}

func (a *Activation) restore() {
	a.do(activationAdvancing, ActivationEffect{Do: ActivationAdvance, Fence: store.FenceOf(&a.row), Op: a.advance})
}

func (a *Activation) advanced(now clock.Mono, e *ActivationEvent) {
	if a.state != activationAdvancing {
		return
	}
	c := &e.Change
	switch {
	case errors.Is(e.Err, store.ErrInvalid):
		a.end(ReturnRest, &Failure{Err: e.Err})
	case e.Err != nil, c.Reason == store.LeaseExpired:
		a.settle(now, activationAdvanceLost)
	case c.Reason == store.Exhausted:
		a.end(ReturnRest, exhausted())
	case a.ours(c) && c.Record.State == store.Ready && !c.Record.FirstPending:
		a.row = c.Record
		a.confirm()
	case a.ours(c) && c.Record.State == store.Ready: // it was written again meanwhile
		a.row = c.Record
		a.settle(now, activationAdvanceLost)
	case c.Epoch > a.row.Epoch: // the Store has lost it
		a.settle(now, activationRecovering)
	default:
		a.gone(c.Reason)
	}
}

func (a *Activation) confirm() {
	a.do(activationConfirming, ActivationEffect{Do: ActivationConfirm, Row: a.row})
}

func (a *Activation) confirmed(e *ActivationEvent) {
	switch {
	case a.state != activationConfirming && a.state != activationReasserting:
	case e.Failure != nil:
		a.end(ReturnRest, e.Failure)
	case a.state == activationReasserting:
		a.row = e.Row
		a.restore()
	default:
		a.row = e.Row
		a.do(activationOver, ActivationEffect{Do: ActivationOpen, Row: a.row})
	}
}
