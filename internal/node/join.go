package node

import (
	"bytes"
	"sync"
	"time"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

const opJoin = "join"

var (
	errJoinLate        = &Error{Kind: errkind.InvalidOperation, Text: "the handler is over; register joins before it returns"}
	errJoinNotHere     = &Error{Kind: errkind.InvalidOperation, Text: "joins are registered in a packet handler of an actor, and for a member in a packet or timer handler of a user spot or the entry spot; an actor's timer or callback sends the actor a message whose handler does it"}
	errJoinTwice       = &Error{Kind: errkind.InvalidOperation, Text: "this call was used already; one call registers one join"}
	errJoinWithoutGate = &Error{Kind: errkind.InvalidOperation, Text: "the turn has given up its gate; register joins before or after"}
	errJoinPending     = &Error{Kind: errkind.Unavailable, Text: "another change of the actor's membership is pending"}
	errJoinFirst       = &Error{Kind: errkind.InvalidOperation, Text: "this handler has registered a join of the actor, which waits for the handler's end; ask in another turn"}
	errJoinDeadline    = &Error{Kind: errkind.DeadlineExceeded, Text: "the join was not decided by its deadline; JoinCall.Timeout gives it more time"}
)

// Join says which Actor goes to which Spot.
type Join struct {
	Actor   string // a local member, for a Spot's handler; "" is the Actor whose handler it is
	Spot    string // the User Spot
	Entry   bool   // or the Entry Spot
	Codec   uint8
	Request []byte        // for the Spot's decision
	Timeout time.Duration // of the Join with its move; 0: 5 s
}

// check refuses what names no Spot, and what is over a limit.
func (j *Join) check() *Error {
	switch {
	case j.Entry && j.Spot != "":
		return fail(errkind.InvalidOperation, "", "", "it names a spot and the entry spot")
	case !j.Entry && !wire.ValidID(j.Spot):
		return fail(errkind.InvalidOperation, "", "", "a spot's id has 1 to %d bytes of UTF-8", idBytesMax)
	case j.Timeout != 0 && (j.Timeout < joinTimeoutMin || j.Timeout > joinTimeoutMax):
		return fail(errkind.InvalidOperation, "", "", "a timeout of %v is not in %v to %v", j.Timeout, joinTimeoutMin, joinTimeoutMax)
	case len(j.Request) > requestBytesMax:
		return fail(errkind.InvalidOperation, "", "", "a request of %d bytes is over the limit of %d", len(j.Request), requestBytesMax)
	}
	return nil
}

// Registration is what one call of a handler has to register one Join. A late use is
// recognised, also after the Call has become another turn's.
type Registration struct {
	scope   *joinScope // nil: nothing may be registered here
	blocked *Error     // why
	used    bool       // scope.mu guards it
}

// Registration returns a new one. It may be kept: after the handler it is refused.
func (c *Call) Registration() *Registration {
	switch {
	case c.joins != nil:
	case c.message == nil:
		return &Registration{blocked: errJoinLate.of(opJoin, "")}
	case !c.registers:
		return &Registration{blocked: errJoinNotHere.of(opJoin, c.cell.ref.ID)}
	default:
		c.joins = &joinScope{call: c}
	}
	return &Registration{scope: c.joins}
}

// Defer registers the Join, with a copy of its request and a deadline from now on, and
// looks nothing up outside of this node: it begins when the handler has ended normally
// and its reply, if it has one, was encoded (JN-02, JN-04). On error nothing is
// registered: InvalidOperation: here and now, or twice, or by this handler, or so large,
// it cannot be; NotFound: there is no such Actor at this node; Unavailable: another change
// of the Actor's membership is pending; CapacityExceeded: the handler has registered
// too much.
func (r *Registration) Defer(to Join) error {
	if r.scope == nil {
		return r.blocked
	}
	if err := r.scope.register(r, to); err != nil {
		return err.of(opJoin, r.scope.call.cell.ref.ID)
	}
	return nil
}

// joinScope is what one handler has registered. It is open while the handler runs, which
// includes its waits. mu orders a registration by a goroutine that the handler does not
// wait for, which breaks the contract, and the end: it is taken or refused.
type joinScope struct {
	call *Call // not used again by another turn; only the handler's goroutine looks into it

	mu     sync.Mutex
	closed bool
	joins  []*PendingJoin
	bytes  int // of their requests
}

func (s *joinScope) register(r *Registration, to Join) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errJoinLate
	case r.used:
		return errJoinTwice
	}
	r.used = true
	if err := s.call.fenced(); err != nil {
		return err
	}
	if s.call.gate == nil { // whose member an Actor is, is sure under the gate only
		return errJoinWithoutGate
	}
	if err := to.check(); err != nil {
		return err
	}
	switch {
	case len(s.joins) >= joinsMax:
		return fail(errkind.CapacityExceeded, "", "", "a handler registers at most %d joins", joinsMax)
	case s.bytes+len(to.Request) > joinsBytesMax:
		return fail(errkind.CapacityExceeded, "", "", "the requests of a handler's joins have at most %d bytes in sum", joinsBytesMax)
	}
	j, err := s.call.cell.reserve(to)
	if err != nil {
		return err
	}
	j.flow = s.call.flow
	j.flow.Correlation = bytes.Clone(j.flow.Correlation) // which is a view of the turn's message
	s.joins = append(s.joins, j)
	s.bytes += len(j.Request)
	return nil
}

// reserve makes the Join, whose Actor has no other pending change of its membership from
// then on.
func (a *objectCell) reserve(to Join) (*PendingJoin, *Error) {
	actor, err := a.joinable(to.Actor)
	if err != nil {
		return nil, err
	}
	if to.Timeout == 0 {
		to.Timeout = joinTimeout
	}
	to.Actor, to.Request = actor.ref.ID, bytes.Clone(to.Request)
	j := newPendingJoin(to, actor)
	j.counted = true
	a.node.host.joins.Add(1)
	if !actor.joining.CompareAndSwap(nil, j) {
		a.node.host.joins.Add(-1)
		return nil, errJoinPending
	}
	_, err = a.joinable(to.Actor) // a change that was pending may have ended meanwhile
	// These are looked at after the Join is counted: a relocation waits for it, or finds none.
	if spot := actor.spot.Load(); err == nil && spot != nil && spot.fate.claimed() && !spot.lost() {
		err = errSpotMoves
	}
	if err == nil && a.node.relocates() {
		err = errTakesNothing
	}
	if err != nil {
		j.uncount()
		return nil, err
	}
	return j, nil
}

// joinable returns the Actor that a handler of a may have join a Spot: itself, or a member
// that is here.
func (a *objectCell) joinable(id string) (*objectCell, *Error) {
	if a.typ.Kind == store.Actor {
		if id != "" && id != a.ref.ID {
			return nil, fail(errkind.InvalidOperation, "", "", "an actor's handler registers joins of its own, not of %q", clip(id))
		}
		return a, nil
	}
	actor := a.node.cellOf(id, store.Actor)
	switch {
	case actor == nil || actor.gone.Load():
		return nil, fail(errkind.NotFound, "", "", "there is no actor %q at this node", clip(id))
	case !a.hasMember(actor):
		return nil, fail(errkind.InvalidOperation, "", "", "actor %q is no member of this spot", clip(id))
	}
	return actor, nil
}

// close ends the registrations and returns what there was. A nil scope has none.
func (s *joinScope) close() []*PendingJoin {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	joins := s.joins
	s.closed, s.joins = true, nil
	return joins
}

// holds reports whether a Join of the Actor is registered.
func (s *joinScope) holds(id string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.joins {
		if j.Actor == id {
			return true
		}
	}
	return false
}

// raise is for a handler that has ended normally: all its barriers are due, before its
// caller hears of it. The result is what is to be activated then.
func (s *joinScope) raise() []*PendingJoin {
	joins := s.close()
	for _, j := range joins {
		j.raise()
	}
	return joins
}

func activate(joins []*PendingJoin) {
	for _, j := range joins {
		j.activate()
	}
}

// drop ends what was registered and not activated.
func (s *joinScope) drop() {
	for _, j := range s.close() {
		j.end(JoinOutcome{})
	}
}
