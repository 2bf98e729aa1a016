package main

import (
	"errors"
	"time"

	"github.com/zlnode/zlnode"
)

// raceOp is what a call asks for.
type raceOp uint8

const (
	opGetOrCreate raceOp = iota
	opCreate
	opFind
	opDestroy // of what was seen there
	opFree    // the same, of an object whose owner is dead
	raceOps
)

func (o raceOp) String() string {
	return [raceOps]string{"GetOrCreate", "Create", "Find", "Destroy", "Free"}[o]
}

// creates reports whether the call may bring an object into being.
func (o raceOp) creates() bool { return o == opGetOrCreate || o == opCreate }

// raceEnd is how a call ended.
type raceEnd uint8

const (
	endNever       raceEnd = iota // it has not returned
	endCreated                    // see ref
	endExisting                   // see ref
	endRejected                   // by OnCreateActor
	endFailed                     // as its order said
	endAlready                    // Create found something
	endFound                      // see ref
	endMissing                    // Find found nothing
	endDestroyed                  // by this call
	endGone                       // Destroy found nothing, or another incarnation
	endUnavailable                // with the ref that is dead, if Find says so
	endDeadline
	endWrong // in no way that is allowed
	raceEnds
)

func (e raceEnd) String() string {
	return [raceEnds]string{
		"never", "Created", "Existing", "Rejected", "failed as ordered", "AlreadyExists", "found", "not there",
		"destroyed", "gone already", "Unavailable", "DeadlineExceeded", "wrong",
	}[e]
}

// seen reports whether the end says that the object of ref was Ready during the call.
func (e raceEnd) seen() bool { return e == endCreated || e == endExisting || e == endFound }

// raceRef is what of a ref tells incarnations and processes apart.
type raceRef struct {
	Gen, Lifecycle uint64
	RID            string
}

func raceRefOf(r zlnode.ActorRef) raceRef { return raceRef{r.ObjectGen, r.Lifecycle, r.RID} }

// raceCall is one call of a client and its end.
type raceCall struct {
	number       uint64 // from 1; of no other call
	object       uint32
	op           raceOp
	order        orderedEnd
	end          raceEnd
	began, ended time.Duration // by sharedClock
	limit        time.Duration // its deadline
	ref          raceRef       // that it got, or was to destroy
	replied      uint64        // the call whose reply it got
	text         string        // of endWrong
}

// hangSlack is how long after its deadline a call may return: the machine has other
// work, too.
const hangSlack = 10 * time.Second

// finish notes how the call ended at this time.
func (c *raceCall) finish(at time.Duration, end raceEnd, err error) {
	c.ended, c.end = at, end
	if err != nil {
		c.failed(err)
	}
}

// failed notes an error.
func (c *raceCall) failed(err error) {
	kind := zlnode.KindOf(err)
	switch {
	case kind == zlnode.Unavailable:
		c.end = endUnavailable
	case kind == zlnode.DeadlineExceeded:
		c.end = endDeadline
	case kind == zlnode.AlreadyExists && c.op == opCreate:
		c.end = endAlready
	case kind == zlnode.InvalidOperation && (c.op == opDestroy || c.op == opFree):
		c.end = endGone // the id is another incarnation's
	case kind == orderedFailure && c.op.creates() && c.order == orderFail:
		c.end = endFailed
	default:
		c.end, c.text = endWrong, err.Error()
	}
}

// creation notes a creation's end.
func (c *raceCall) creation(at time.Duration, r zlnode.Creation, err error) {
	c.finish(at, endWrong, err)
	if err != nil {
		return
	}
	c.ref, c.replied = raceRefOf(r.Ref), repliedCall(r.Reply)
	switch r.Outcome {
	case zlnode.OutcomeCreated:
		c.end = endCreated
	case zlnode.OutcomeExisting:
		c.end = endExisting
	case zlnode.OutcomeRejected:
		c.end = endRejected
	}
	if c.end == endExisting && c.op == opCreate {
		c.end, c.text = endWrong, errExistingOfCreate.Error()
	}
}

var errExistingOfCreate = errors.New("a Create ended as Existing")

// found notes a Find's end.
func (c *raceCall) found(at time.Duration, ref zlnode.ActorRef, found bool, err error) {
	end := endMissing
	if found {
		end = endFound
	}
	c.finish(at, end, err)
	c.ref = raceRefOf(ref)
}

// destroyed notes a Destroy's end.
func (c *raceCall) destroyed(at time.Duration, done bool, err error) {
	end := endGone
	if done {
		end = endDestroyed
	}
	c.finish(at, end, err)
}
