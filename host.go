package zlnode

import (
	"context"
	"fmt"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/node"
)

// HostState is the state of a node, as the others see it.
type HostState uint8

// The states. Only a node that is Serving is chosen for new objects and for messages to channels.
const (
	// HostPreparing: Start has not returned.
	HostPreparing HostState = 0
	// HostServing: it takes whatever comes.
	HostServing HostState = 1
	// HostRelocating: its objects are leaving (Relocate). Nothing new is created here, joins or
	// comes here; objects that have not left yet work on, and so do Sessions.
	HostRelocating HostState = 2
	// HostRelocated: nothing lives here any more. Links, ports and Sessions stay, until Shutdown.
	HostRelocated HostState = 3
	// HostDraining: its shutdown has begun.
	HostDraining HostState = 4
	// HostStopped: its shutdown is over.
	HostStopped HostState = 5
	// HostError: its owner lease is lost, and it can do nothing more; see Node.Err.
	HostError HostState = 6
)

// String returns the state's name, without "Host".
func (s HostState) String() string { return node.HostState(s).String() }

// State returns the node's present state.
func (n *Node) State() HostState { return HostState(n.inner.State()) }

// RelocateMode says to which nodes a node's objects go.
type RelocateMode uint8

// The modes.
const (
	// PlannedMaintenance: to nodes of the same Config.AppVersion.
	PlannedMaintenance RelocateMode = 0
	// RollingUpdate: to nodes of one higher version, Relocate.TargetVersion.
	RollingUpdate RelocateMode = 1
)

// String returns the mode's name.
func (m RelocateMode) String() string { return node.RelocateMode(m).String() }

// Relocate says how a node's objects are to leave it.
type Relocate struct {
	// Mode is PlannedMaintenance or RollingUpdate.
	Mode RelocateMode
	// TargetVersion is of RollingUpdate: the Config.AppVersion that targets have, letter by
	// letter, a semantic version ("1.4.0", "v1.4.0-rc.1") higher than this node's.
	TargetVersion string
	// Timeout is how long it may take, default 30 s (0); a negative one is InvalidOperation. Who asks for what is under way already has
	// the deadline of who asked first.
	Timeout time.Duration
}

// RelocateOutcome is how a relocation ended.
type RelocateOutcome uint8

// The outcomes.
const (
	// RelocateRelocated: all that lived at the node has left it; the node is HostRelocated.
	RelocateRelocated RelocateOutcome = 0
	// RelocateBlocked: it has not, for the Reason; the node is HostServing again, with what is
	// still here.
	RelocateBlocked RelocateOutcome = 1
)

// String returns the outcome's name, without "Relocate".
func (o RelocateOutcome) String() string { return node.RelocateOutcome(o).String() }

// RelocateReason says why a relocation is Blocked, or why one object did not leave.
type RelocateReason uint8

// The reasons.
const (
	// ReasonNone: it is not Blocked.
	ReasonNone RelocateReason = 0
	// ReasonTargetUnavailable: there was no node for some object up to the deadline: of the version
	// that the mode wants, Serving, linked, in another MaintenanceWave, with its type under the
	// same policy, and with room.
	ReasonTargetUnavailable RelocateReason = 1
	// ReasonStoreUnavailable: the Store did not answer up to the deadline.
	ReasonStoreUnavailable RelocateReason = 2
	// ReasonRelocationDisabled: an object's type has DisableRelocation.
	ReasonRelocationDisabled RelocateReason = 3
	// ReasonStateIncompatible: an adapter failed to capture a state, or to restore it.
	ReasonStateIncompatible RelocateReason = 4
	// ReasonDeadlineExceeded: not all had left at the deadline.
	ReasonDeadlineExceeded RelocateReason = 5
	// ReasonRelocationFailed: the move of an object failed for another reason, or nobody knows
	// where the object is (Node.StuckObjects).
	ReasonRelocationFailed RelocateReason = 6
	// ReasonRuntimeNotReady: the node is HostPreparing, HostError or HostStopped.
	ReasonRuntimeNotReady RelocateReason = 7
	// ReasonManualTopologyUnsupported: the mesh of the node's objects has Peers in the
	// configuration, so the Store does not know all of it.
	ReasonManualTopologyUnsupported RelocateReason = 8
	// ReasonShutdownRequested: the node's Shutdown has begun.
	ReasonShutdownRequested RelocateReason = 9
	// ReasonOperationInProgress: the node is being relocated in another mode or to another version.
	ReasonOperationInProgress RelocateReason = 10
)

// String returns the reason's name, without "Reason".
func (r RelocateReason) String() string { return node.RelocateReason(r).String() }

// RelocateResult is how a relocation ended.
type RelocateResult struct {
	Outcome RelocateOutcome
	Reason  RelocateReason
	Text    string // what happened, for people; "" if it is Relocated
}

// Relocate moves all that lives at the node to other nodes of its mesh, so that the process can
// be stopped, or replaced by one of another version, while clients stay connected and no message
// is lost. It waits for the end.
//
// Before anything changes it looks whether all may go: no type has DisableRelocation, no peer of
// the objects' mesh is configured by hand, the Store answers, and for each type there is a node;
// for one it waits up to the deadline. Then the node is HostRelocating: nothing new begins here,
// creations, joins and moves that are under way end, and all objects leave, up to MaxMoves at once: User Spots that
// are PerActor, then Actors (members of such a Spot behind it, to the same node), then SpotWide
// Spots with their members and Instance Spots. Each works on until its own turn to move has come.
// They are spread over the targets by weight and by what these have. The node is HostRelocated
// as soon as the last of them has been handed over.
//
// If one does not leave, nothing further begins, what is under way comes to its own end, and the
// node is HostServing again, without what has left by then. So it is behind the deadline; only a
// PerActor Spot that has moved is followed by its members also then, which Relocation shows
// (RunsOn). A result of Blocked is not kept: a later call starts over.
//
// Calls for the same mode and version while one is under way share its end and its deadline; others get
// OperationInProgress. A call at a node that is HostRelocated gets the first result. A Shutdown
// ends the wait with ShutdownRequested. A node that hosts no objects is relocated at once.
//
// The error is an InvalidOperation for wrong arguments, with which nothing changes, and for a call
// in the turn of an object, which could not move then; or it says that ctx has ended, with which only this wait has.
func (n *Node) Relocate(ctx context.Context, r Relocate) (RelocateResult, error) {
	res, err := n.inner.Relocate(ctx, node.RelocateRequest{Mode: node.RelocateMode(r.Mode), Version: r.TargetVersion, Timeout: r.Timeout})
	if err != nil {
		return RelocateResult{}, err
	}
	return relocateResult(res), nil
}

func relocateResult(r node.RelocateResult) RelocateResult {
	return RelocateResult{Outcome: RelocateOutcome(r.Outcome), Reason: RelocateReason(r.Reason), Text: r.Text}
}

// UnitKind is what a relocation moves in one go.
type UnitKind uint8

// The kinds of units.
const (
	// UnitActor is an Actor of the Entry Spot, or of a PerActor Spot, behind that.
	UnitActor UnitKind = 1
	// UnitPerActorSpot is a PerActor User Spot without its members.
	UnitPerActorSpot UnitKind = 2
	// UnitSpotWideSpot is a SpotWide User Spot with all its members.
	UnitSpotWideSpot UnitKind = 3
	// UnitInstanceSpot is an Instance Spot.
	UnitInstanceSpot UnitKind = 4
)

// String returns the kind's name, without "Unit".
func (k UnitKind) String() string { return node.UnitKind(k).String() }

// Relocation is how far the relocation is that runs, or how the last one ended.
type Relocation struct {
	// Running: its result is not known.
	Running bool
	// RunsOn: its result is known, and members of PerActor Spots have yet to follow these.
	RunsOn bool
	// Mode, TargetVersion, Began and Deadline are those of the first call.
	Mode            RelocateMode
	TargetVersion   string
	Began, Deadline time.Time
	// Units has each kind, once the inventory is taken; until then all counts are 0.
	Units []UnitProgress
	// Blocked names objects that did not leave, 100 at most.
	Blocked []BlockedUnit
	// EstimatedEnd is when the last unit will leave if they go on as they did; zero: not known.
	EstimatedEnd time.Time
	// SafeToShutdown: the node is HostRelocated, and no message is relayed to what has left any
	// more (MessageFollowDuration). Shutdown is allowed before, too: who has an old route then
	// finds that out by a failure.
	SafeToShutdown bool
	// Result is nil while Running.
	Result *RelocateResult
}

// UnitProgress is how far the units of one kind are. Those that are in none of Left, Moving,
// Blocked and Lost have yet to begin.
type UnitProgress struct {
	Kind    UnitKind
	Total   int
	Left    int // handed over; or ended by others
	Moving  int // under way
	Blocked int // not moved, and working here
	Lost    int // at no node that is known; see Node.StuckObjects
}

// BlockedUnit is an object that did not leave.
type BlockedUnit struct {
	Kind   UnitKind
	ID     string
	Reason RelocateReason
	Text   string
}

// Relocation returns how far the relocation is that runs, or how the last one ended; false if
// there was none.
func (n *Node) Relocation() (Relocation, bool) {
	p, ok := n.inner.Relocation()
	if !ok {
		return Relocation{}, false
	}
	r := Relocation{
		Running: p.Running, RunsOn: p.RunsOn, Mode: RelocateMode(p.Request.Mode), TargetVersion: p.Request.Version,
		Began: p.Began.Time(), Deadline: p.Deadline.Time(), SafeToShutdown: p.SafeToShutdown,
	}
	for i, c := range p.Counts {
		r.Units = append(r.Units, UnitProgress{
			Kind: UnitKind(i + 1), Total: c.Total, Left: c.Left, Moving: c.Moving, Blocked: c.Blocked, Lost: c.Lost,
		})
	}
	for _, b := range p.Blocked {
		r.Blocked = append(r.Blocked, BlockedUnit{Kind: UnitKind(b.Kind), ID: b.ID, Reason: RelocateReason(b.Reason), Text: b.Text})
	}
	if p.End != clock.Never {
		r.EstimatedEnd = p.End.Time()
	}
	if !p.Running {
		result := relocateResult(p.Result)
		r.Result = &result
	}
	return r, true
}

// ShutdownOutcome is how a shutdown ended.
type ShutdownOutcome uint8

// The outcomes.
const (
	// ShutdownStopped: all has ended in order.
	ShutdownStopped ShutdownOutcome = 0
	// ShutdownForced: not all has, for the Reason.
	ShutdownForced ShutdownOutcome = 1
)

// String returns the outcome's name.
func (o ShutdownOutcome) String() string {
	switch o {
	case ShutdownStopped:
		return "Stopped"
	case ShutdownForced:
		return "ForceStopped"
	default:
		return fmt.Sprintf("ShutdownOutcome(%d)", uint8(o))
	}
}

// ShutdownReason says why a shutdown was forced.
type ShutdownReason uint8

// The reasons.
const (
	// ShutdownReasonNone: it was not.
	ShutdownReasonNone ShutdownReason = 0
	// ShutdownDeadlineExceeded: its time was over; what was left was cut short.
	ShutdownDeadlineExceeded ShutdownReason = 1
	// ShutdownTeardownFailed: an OnClosing failed, or the Store or a port; the rest has ended all the
	// same.
	ShutdownTeardownFailed ShutdownReason = 2
)

// String returns the reason's name, without "Shutdown".
func (r ShutdownReason) String() string {
	switch r {
	case ShutdownReasonNone:
		return "None"
	case ShutdownDeadlineExceeded:
		return "DeadlineExceeded"
	case ShutdownTeardownFailed:
		return "TeardownFailed"
	default:
		return fmt.Sprintf("ShutdownReason(%d)", uint8(r))
	}
}

// ShutdownResult is how a shutdown ended. Whatever it is, the process may end: nothing of the node
// runs any more, and nothing is relocated because of a failure.
type ShutdownResult struct {
	Outcome ShutdownOutcome
	Reason  ShutdownReason
}

// ShutdownResult returns how the node's shutdown ended; false if there was none, or it is not over.
// Shutdown's error says the same at length.
func (n *Node) ShutdownResult() (ShutdownResult, bool) {
	inner, over := n.inner.ShutdownResult()
	r := ShutdownResult{Reason: ShutdownReason(inner.Reason)}
	if r.Reason != ShutdownReasonNone {
		r.Outcome = ShutdownForced
	}
	return r, over
}
