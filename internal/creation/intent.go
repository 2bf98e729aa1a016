package creation

import (
	"errors"
	"fmt"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// IntentCall is a message to an Instance Spot that may bring the Spot into being.
type IntentCall struct {
	ID   string
	Type string // stable type; "": only what exists already takes it
	// Deadline is that of choosing, of waiting and of the message's own end (CR-13).
	Deadline clock.Mono
}

// IntentNode is a process that a message may go to.
type IntentNode struct {
	RID, Mesh string
	Lifecycle store.LeaseGen
}

// IntentStep is what an Intent wants done.
type IntentStep uint8

const (
	// IntentRead: read the id's row. Ends with IntentRow.
	IntentRead IntentStep = iota + 1
	// IntentChoose: choose a node that hosts the type and is not in Excluded. Ends with
	// IntentChosen.
	IntentChoose
	// IntentSubmit: submit the message, with what is needed to create the Spot, to To. If To
	// owns it and it is Ready, this is ordinary delivery, in which nobody waits for the end of
	// a one-way message. Ends with IntentTaken, IntentRefused or IntentUnreached.
	IntentSubmit
	// IntentCancel: cancel the creation in Row, whose lifecycle is over. Ends with
	// IntentCancelled.
	IntentCancel
	// IntentEnd: the caller gets Failure or, if that is nil, what the node answered that
	// took the message.
	IntentEnd
)

// IntentEffect is what an Intent wants done next.
type IntentEffect struct {
	Do       IntentStep
	Excluded map[string]bool // RIDs; valid until the next Step
	To       IntentNode
	Ready    bool // of IntentSubmit
	Row      store.Authority
	Failure  *Failure
}

// IntentFact says what happened.
type IntentFact uint8

const (
	// IntentTick: time has passed.
	IntentTick IntentFact = iota + 1
	// IntentRow: Row if Found, or Err.
	IntentRow
	// IntentChosen: the node is To; or there is none, for Failure.
	IntentChosen
	// IntentTaken: the node took the message, or it is not known whether it did. How it
	// ended is the caller's to have: the message is submitted nowhere else (FO-01).
	IntentTaken
	// IntentRefused: the node certainly did not take the message, for Failure. Full says
	// that it had no room for the Spot, Elsewhere that the id is somewhere else.
	IntentRefused
	// IntentUnreached: there is no way to the node, so it certainly did not get the message.
	IntentUnreached
	// IntentCancelled: the Store was asked to cancel. What it said does not matter.
	IntentCancelled
	// IntentAbandoned: the caller does not wait any longer.
	IntentAbandoned
)

// IntentEvent is something that happened.
type IntentEvent struct {
	Is              IntentFact
	Row             store.Authority
	Found           bool
	To              IntentNode
	Full, Elsewhere bool
	Failure         *Failure
	Err             error
}

type intentState uint8

const (
	intentReading intentState = iota + 1
	intentChoosing
	intentSubmitting
	intentCancelling
	intentWaiting // until the row is read again
	intentOver
)

// Intent is the source's half of an activation: one message on its way to an Instance Spot
// that may be missing. It finds the node that the message goes to. By the row (FO-12):
//
//	Missing                                → a node that is chosen
//	Creating, or Ready with its first      → the node of that lifecycle, which lets the
//	message pending, of a living lifecycle   message wait behind the first
//	the same, of a lifecycle that is over  → cancelled, never continued; then as Missing
//	Ready, of a living owner               → the owner
//	Ready, of a dead owner                 → Unavailable; the row stays (FO-10)
//
// A node that certainly did not take the message may be followed by another, within the
// one deadline. Once a node took it, or that is unclear, the Intent is over.
type Intent struct {
	call   IntentCall
	timing Timing
	state  intentState
	effect IntentEffect // Do is 0: none
	wake   clock.Mono
	waits  backoff

	row      store.Authority // the last one seen; of Missing the zero value
	to       IntentNode
	excluded map[string]bool
	full     bool // a node had no room
	refusal  *Failure
}

// NewIntent returns an Intent whose first effect is due.
func NewIntent(c IntentCall, t Timing) *Intent {
	i := &Intent{call: c, timing: t, excluded: map[string]bool{}, wake: clock.Never}
	i.read()
	return i
}

// Effect returns what is to be done next, and forgets it. ok is false while the Intent
// waits for an event, or for time to pass.
func (i *Intent) Effect() (e IntentEffect, ok bool) {
	e, i.effect = i.effect, IntentEffect{}
	return e, e.Do != 0
}

// NextDeadline returns when Step is to be called with IntentTick if nothing happens. While
// the message is submitted there is none: whoever submits it minds its deadline.
func (i *Intent) NextDeadline() (clock.Mono, bool) {
	if i.state == intentOver || i.state == intentSubmitting {
		return clock.Never, false
	}
	return min(i.wake, i.call.Deadline), true
}

// Step takes what happened.
func (i *Intent) Step(now clock.Mono, e IntentEvent) {
	switch {
	case i.state == intentOver:
		return
	case e.Is == IntentTaken:
		if i.state == intentSubmitting {
			i.do(intentOver, IntentEffect{Do: IntentEnd})
		}
		return
	case e.Is == IntentAbandoned, now.Reached(i.call.Deadline) && i.state != intentSubmitting:
		i.timeOut()
		return
	}
	switch e.Is {
	case IntentTick:
		if i.state == intentWaiting && now.Reached(i.wake) {
			i.read()
		}
	case IntentRow:
		i.seen(now, &e)
	case IntentChosen:
		i.chosen(&e)
	case IntentRefused:
		i.refused(now, &e)
	case IntentUnreached:
		i.unreached(now, &e)
	case IntentCancelled:
		if i.state == intentCancelling {
			i.wait(now)
		}
	case IntentTaken, IntentAbandoned: // above
	}
}

func (i *Intent) do(state intentState, e IntentEffect) { i.state, i.effect = state, e }

func (i *Intent) read() {
	i.wake = clock.Never
	i.do(intentReading, IntentEffect{Do: IntentRead})
}

func (i *Intent) wait(now clock.Mono) {
	i.state, i.wake = intentWaiting, i.waits.wait(now, i.timing, i.timing.WaitMax)
}

func (i *Intent) end(f *Failure) { i.do(intentOver, IntentEffect{Do: IntentEnd, Failure: f}) }

func (i *Intent) fail(kind errkind.Kind, format string, args ...any) {
	i.end(&Failure{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

func (i *Intent) timeOut() {
	text := "no node has taken the message in time"
	if i.refusal != nil {
		text += "; the last one: " + i.refusal.Text
	}
	i.fail(errkind.DeadlineExceeded, "%s", text)
}

// seen decides by the row.
func (i *Intent) seen(now clock.Mono, e *IntentEvent) {
	if i.state != intentReading {
		return
	}
	row := &e.Row
	switch {
	case errors.Is(e.Err, store.ErrUnknown): // a read that was lost is read again
		i.wait(now)
		return
	case e.Err != nil:
		i.end(&Failure{Err: e.Err})
		return
	case !e.Found:
		row = &store.Authority{}
	}
	i.row = *row
	unborn := row.State == store.Creating || row.FirstPending
	dead := row.LeaseLeft <= 0
	switch {
	case i.call.Type == "" && (!e.Found || unborn && dead):
		i.fail(errkind.NotFound, "there is no spot with that id, and the message names no type to create it with")
	case !e.Found:
		i.do(intentChoosing, IntentEffect{Do: IntentChoose, Excluded: i.excluded})
	case unborn && dead:
		i.do(intentCancelling, IntentEffect{Do: IntentCancel, Row: *row})
	case row.Kind != store.InstanceSpot:
		i.fail(errkind.TypeMismatch, "the id is of an object that is no instance spot")
	case i.call.Type != "" && row.Type != i.call.Type:
		i.fail(errkind.TypeMismatch, "it is of type %q, not %q", row.Type, i.call.Type)
	case dead:
		i.fail(errkind.Unavailable, "its node %s is dead; its row stays until it is freed by hand", row.RID)
	default:
		i.submit(IntentNode{row.RID, row.Mesh, row.LeaseGen})
	}
}

func (i *Intent) submit(to IntentNode) {
	i.to = to
	i.do(intentSubmitting, IntentEffect{Do: IntentSubmit, To: to, Ready: i.ready()})
}

func (i *Intent) chosen(e *IntentEvent) {
	switch {
	case i.state != intentChoosing:
	case e.Failure != nil && i.full:
		i.fail(errkind.CapacityExceeded, "every node that hosts type %q is full", i.call.Type)
	case e.Failure != nil && i.refusal != nil:
		i.end(i.refusal) // which says more than that nobody is left
	case e.Failure != nil:
		i.end(e.Failure)
	default:
		i.submit(e.To)
	}
}

// refused goes on after a node that certainly did not take the message. The row is read
// before another one is chosen, as it may be there by now.
func (i *Intent) refused(now clock.Mono, e *IntentEvent) {
	if i.state != intentSubmitting {
		return
	}
	i.refusal = e.Failure
	if !i.chose() || e.Elsewhere {
		i.wait(now)
		return
	}
	i.full = i.full || e.Full
	i.excluded[i.to.RID] = true
	i.read()
}

// chose reports whether the node was chosen, and not named by the row.
func (i *Intent) chose() bool { return i.row.State == 0 }

// ready reports whether the row is that of a Spot which takes messages.
func (i *Intent) ready() bool { return i.row.State == store.Ready && !i.row.FirstPending }

// unreached goes on after a node to which there is no way. An owner is not replaced, but
// the lease of a lifecycle that creates the Spot may end while the caller waits.
func (i *Intent) unreached(now clock.Mono, e *IntentEvent) {
	switch {
	case i.state != intentSubmitting:
	case i.chose():
		i.refused(now, e)
	case i.ready():
		i.end(e.Failure)
	default:
		i.refusal = e.Failure
		i.wait(now)
	}
}
