package session

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/invariant"
)

// Relocation names one move of one Actor.
type Relocation [16]byte

// RouteLimits are the bounds of a Route. One value is shared by many and must not
// change while they live.
type RouteLimits struct {
	// Packets and Bytes bound what waits for a sealed route. More is refused, packet by
	// packet: the ones behind it stay in order.
	Packets, Bytes int
	// Shows and ShowBytes bound what the new owner shows the client while the one before
	// may still show something. More closes the Session: what a client has missed is not
	// mended by missing more.
	Shows, ShowBytes int
	// Seal is how long a route stays sealed before the Session is closed.
	Seal time.Duration
}

// RouteEventKind is what happened to a Route.
type RouteEventKind uint8

// The events of a Route.
const (
	RoutePacket    RouteEventKind = iota + 1 // the client sent a packet for the Actor; Size
	RouteSubmitted                           // the packet of the last RouteSubmit was sent or refused; Size
	RouteSeal                                // the Actor's owner is about to move it; names all but Size
	RouteDrained                             // that owner shows the client nothing more; Relocation and the binding
	RouteLost                                // the connection to the owner was lost
	RouteLostLate                            // that to the owner before was
	RouteCommit                              // the Actor has moved; OwnerGen is the new owner's
	RouteAbort                               // the Actor stays; OwnerGen is that of the seal
	RouteShown                               // the owner shows the client something, a push or a reply; Size
	RouteShownLate                           // the owner before does
	RouteTick                                // the time NextDeadline named may have come
	RouteClosed                              // the Session is closed
)

// RouteEvent is one input of a Route.
type RouteEvent struct {
	Kind       RouteEventKind
	Relocation Relocation
	ObjGen     uint64 // with BindingGen the binding that is meant
	BindingGen uint64
	OwnerGen   uint64
	Size       int
}

// RouteEffectKind is what a shell is to do.
type RouteEffectKind uint8

// The effects of a Route.
const (
	// Of a RoutePacket, one of them:
	RouteForward RouteEffectKind = iota + 1 // send it to the owner now
	RouteHold                               // put it behind those that wait
	RouteRefuse                             // it is too much, or too late

	// Of a RouteSeal, one of them:
	RouteSealed      // confirm it, behind all that was sent to the owner; nothing more goes there
	RouteSealLater   // the same holds, but the confirmation waits for a RouteSealed of its own
	RouteSealRefused // Why

	// Of a RouteShown or RouteShownLate, one of them:
	RouteShow // send it to the client now
	RouteKeep // put it behind what is kept
	RouteDrop // it comes from who is not the owner

	RouteSwap     // the owner is now the one that the RouteCommit named
	RouteSubmit   // send the first packet that waits to the owner, before any other; RouteSubmitted ends it
	RouteShowKept // send all that is kept to the client
	RouteClose    // close the Session: Why
	RouteIgnored  // the event has changed nothing: Why
	RouteGone     // tell the owner that the RouteCommit named that the client is gone
)

// RouteEffect is one output of a Route.
type RouteEffect struct {
	Kind RouteEffectKind
	Why  RouteWhy
}

// RouteWhy says why something is refused, ignored or closed.
type RouteWhy uint8

// The reasons.
const (
	RouteSessionClosed RouteWhy = iota + 1
	RouteOtherBinding           // another incarnation or another binding
	RouteOtherMove              // the route is sealed for another move
	RouteFinished               // that move has ended the other way
	RouteNotSealed              // the route is not sealed
	RouteOldOwner               // the owner generation is behind
	RouteTimeout                // a seal lasted too long
	RouteTooMuch                // the new owner shows more than is kept
	routeWhyEnd
)

var routeWhyText = [routeWhyEnd]string{
	RouteSessionClosed: "the session is closed",
	RouteOtherBinding:  "another binding of the actor is in force",
	RouteOtherMove:     "another move of the actor is under way",
	RouteFinished:      "the move has ended in another way",
	RouteNotSealed:     "no move of the actor is under way",
	RouteOldOwner:      "a later owner of the actor is known",
	RouteTimeout:       "nothing was heard of the actor's move in time",
	RouteTooMuch:       "the actor sends too much while it moves",
}

// String returns the reason as a clause.
func (w RouteWhy) String() string {
	if w == 0 || w >= routeWhyEnd {
		return ""
	}
	return routeWhyText[w]
}

// Route is the way between one Session and one Actor that is bound to it, at the
// Session's owner, while the Actor moves from node to node. It decides which packets go
// to whom, and what the client is shown.
//
// Invariants: packets go to the owner in the order in which the client sent them, each
// once at most; none goes between RouteSealed and the end of that move. What the new
// owner shows comes after all that the one before has shown. The owner's generation
// never falls. After RouteClose there are no effects but refusals and RouteGone.
//
// It is a plain value and belongs to whoever steps it, who must make a step and all its
// effects one: no packet may overtake between them.
type Route struct {
	limits             *RouteLimits
	objGen, bindingGen uint64
	ownerGen           uint64 // of the owner, as far as it is known

	phase   routePhase
	seal    Relocation // of the seal, or of the last one
	until   clock.Mono // of the seal: when it has lasted too long
	waits   bool       // of the seal: it is not confirmed, since the owner before has not ended
	drained bool       // of the seal: the owner shows nothing more
	moved   bool       // the last move was committed
	leaving bool       // the owner before the last move may still show something
	left    Relocation // that move, or an earlier one
	closed  bool

	held, heldBytes int
	kept, keptBytes int

	due  [routeEffectsMax]RouteEffect
	dues int
}

// routeEffectsMax is the most that one step says.
const routeEffectsMax = 2

type routePhase uint8

const (
	routeOpen       routePhase = iota // packets go to the owner
	routeSealed                       // they wait for the end of the move
	routeSubmitting                   // they wait for those that waited before
)

// NewRoute returns the open Route of a binding to an Actor whose owner has ownerGen.
func NewRoute(limits *RouteLimits, objGen, bindingGen, ownerGen uint64) Route {
	return Route{limits: limits, objGen: objGen, bindingGen: bindingGen, ownerGen: ownerGen}
}

// Step takes one event in.
func (r *Route) Step(now clock.Mono, ev RouteEvent) {
	switch ev.Kind {
	case RoutePacket:
		r.packet(ev.Size)
	case RouteSubmitted:
		r.submitted(ev.Size)
	case RouteSeal:
		r.sealFor(now, &ev)
	case RouteDrained:
		r.drain(&ev)
	case RouteLost:
		r.drained = r.drained || r.phase == routeSealed
	case RouteLostLate:
		r.ownerLeft()
	case RouteCommit:
		r.commit(&ev)
	case RouteAbort:
		r.abort(&ev)
	case RouteShown:
		r.shown(ev.Size)
	case RouteShownLate:
		if r.leaving && !r.closed {
			r.say(RouteShow, 0)
		} else {
			r.say(RouteDrop, 0)
		}
	case RouteTick:
		if r.phase == routeSealed && !r.closed && now.Reached(r.until) {
			r.close(RouteTimeout)
		}
	case RouteClosed:
		r.end()
	default:
		invariant.Check(false, "session: route event %d", ev.Kind)
	}
}

func (r *Route) packet(size int) {
	switch {
	case r.closed:
		r.say(RouteRefuse, 0)
	case r.phase == routeOpen:
		r.say(RouteForward, 0)
	case r.held >= r.limits.Packets || r.heldBytes+size > r.limits.Bytes:
		r.say(RouteRefuse, 0)
	default:
		r.held++
		r.heldBytes += size
		r.say(RouteHold, 0)
	}
}

func (r *Route) submitted(size int) {
	invariant.Check(r.Submitting() && size <= r.heldBytes, "session: a packet of %d bytes was submitted, %d wait with %d bytes", size, r.held, r.heldBytes)
	r.held--
	r.heldBytes -= size
	r.submit()
}

// submit goes on with what waits.
func (r *Route) submit() {
	if r.held == 0 {
		r.phase = routeOpen
		return
	}
	r.phase = routeSubmitting
	r.say(RouteSubmit, 0)
}

// sealFor seals the route. One whose packets are still being submitted may be sealed
// too: the rest of them waits for the new owner. While the owner before may still show
// something, the confirmation waits: so there is never more than one such.
func (r *Route) sealFor(now clock.Mono, ev *RouteEvent) {
	why := r.concerns(ev)
	switch {
	case why != 0:
	case ev.Relocation == r.seal && r.phase == routeSealed && ev.OwnerGen == r.ownerGen:
		// again
	case r.phase == routeSealed:
		why = RouteOtherMove
	case ev.Relocation == r.seal || ev.Relocation == r.left:
		why = RouteFinished
	case ev.OwnerGen < r.ownerGen:
		why = RouteOldOwner
	default:
		r.phase, r.seal, r.until = routeSealed, ev.Relocation, now.Add(r.limits.Seal)
		r.drained, r.moved, r.ownerGen, r.waits = false, false, ev.OwnerGen, r.leaving
	}
	switch {
	case why != 0:
		r.say(RouteSealRefused, why)
	case r.waits:
		r.say(RouteSealLater, 0)
	default:
		r.say(RouteSealed, 0)
	}
}

// concerns says why the event is about another Session's or binding's business.
func (r *Route) concerns(ev *RouteEvent) RouteWhy {
	switch {
	case r.closed:
		return RouteSessionClosed
	case ev.ObjGen != r.objGen || ev.BindingGen != r.bindingGen:
		return RouteOtherBinding
	}
	return 0
}

func (r *Route) drain(ev *RouteEvent) {
	why := r.concerns(ev)
	switch {
	case r.closed:
	case why == 0 && r.leaving && ev.Relocation == r.left:
		r.ownerLeft()
	case why == 0 && (ev.Relocation == r.seal || ev.Relocation == r.left):
		r.drained = r.drained || r.phase == routeSealed && ev.Relocation == r.seal
	case why == 0:
		r.say(RouteIgnored, r.otherMove())
	default:
		r.say(RouteIgnored, why)
	}
}

// ownerLeft notes that nothing more comes of the owner before.
func (r *Route) ownerLeft() {
	r.leaving = false
	if r.kept > 0 {
		r.kept, r.keptBytes = 0, 0
		r.say(RouteShowKept, 0)
	}
	if r.waits {
		r.waits = false
		r.say(RouteSealed, 0)
	}
}

func (r *Route) commit(ev *RouteEvent) {
	repeat := ev.Relocation == r.seal && r.moved
	why := r.concerns(ev)
	switch {
	case repeat && (why == 0 || r.closed):
	case r.closed:
		r.say(RouteGone, 0)
	case why != 0:
		r.say(RouteIgnored, why)
	case ev.Relocation != r.seal:
		r.say(RouteIgnored, r.otherMove())
	case r.phase != routeSealed:
		r.say(RouteIgnored, RouteFinished)
	case r.waits:
		r.say(RouteIgnored, RouteNotSealed)
	case ev.OwnerGen <= r.ownerGen:
		r.say(RouteIgnored, RouteOldOwner)
	default:
		r.ownerGen, r.moved, r.leaving, r.left = ev.OwnerGen, true, !r.drained, r.seal
		r.say(RouteSwap, 0)
		r.submit()
	}
}

func (r *Route) abort(ev *RouteEvent) {
	why := r.concerns(ev)
	switch {
	case r.closed: // nobody is left who would mind
	case why != 0:
		r.say(RouteIgnored, why)
	case ev.Relocation != r.seal:
		r.say(RouteIgnored, r.otherMove())
	case r.moved:
		r.say(RouteIgnored, RouteFinished)
	case ev.OwnerGen != r.ownerGen:
		r.say(RouteIgnored, RouteOldOwner)
	case r.phase == routeSealed:
		r.waits = false
		r.submit()
	}
}

// otherMove says why a relocation that is not the seal's changes nothing.
func (r *Route) otherMove() RouteWhy {
	if r.phase == routeSealed {
		return RouteOtherMove
	}
	return RouteNotSealed
}

func (r *Route) shown(size int) {
	switch {
	case r.closed || r.phase == routeSealed && r.drained:
		r.say(RouteDrop, 0)
	case !r.leaving:
		r.say(RouteShow, 0)
	case r.kept >= r.limits.Shows || r.keptBytes+size > r.limits.ShowBytes:
		r.close(RouteTooMuch)
		r.say(RouteDrop, 0)
	default:
		r.kept++
		r.keptBytes += size
		r.say(RouteKeep, 0)
	}
}

func (r *Route) close(why RouteWhy) {
	r.end()
	r.say(RouteClose, why)
}

func (r *Route) end() {
	r.closed, r.leaving, r.waits = true, false, false
	r.held, r.heldBytes, r.kept, r.keptBytes = 0, 0, 0, 0
}

func (r *Route) say(kind RouteEffectKind, why RouteWhy) {
	r.due[r.dues] = RouteEffect{kind, why}
	r.dues++
}

// Effects appends what is to be done since the last call, in the order in which it is to
// be done, and forgets it. It comes after each Step.
func (r *Route) Effects(dst []RouteEffect) []RouteEffect {
	dst = append(dst, r.due[:r.dues]...)
	clear(r.due[:r.dues])
	r.dues = 0
	return dst
}

// NextDeadline returns the time of the next RouteTick, if there is one: while a move is
// under way.
func (r *Route) NextDeadline() (clock.Mono, bool) {
	if r.phase != routeSealed || r.closed {
		return clock.Never, false
	}
	return r.until, true
}

// Submitting reports whether the first packet that waits is to be sent: a RouteSubmit
// that could not be done at once may be done as long as it is.
func (r *Route) Submitting() bool { return r.phase == routeSubmitting && !r.closed }

// Sealed reports whether a move is under way, after which the owner may be another one.
func (r *Route) Sealed() bool { return r.phase == routeSealed }

// Leaving reports whether the owner before may still show something.
func (r *Route) Leaving() bool { return r.leaving }

// Left is the move with which that owner was left, if there is one.
func (r *Route) Left() Relocation { return r.left }

// Calm reports whether the Route is as if nothing had ever moved.
func (r *Route) Calm() bool { return r.phase == routeOpen && !r.leaving && !r.closed }
