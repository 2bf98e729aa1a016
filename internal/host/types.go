package host

import (
	"fmt"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// Mode says where a relocation goes.
type Mode uint8

// The modes.
const (
	PlannedMaintenance Mode = iota // to nodes of the same application version
	RollingUpdate                  // to nodes of a certain higher one
)

// Outcome is how a relocation ended.
type Outcome uint8

// The outcomes.
const (
	Relocated Outcome = iota
	Blocked
)

// Reason says why a relocation is Blocked.
type Reason uint8

// The reasons.
const (
	None                      Reason = 0
	TargetUnavailable         Reason = 1
	StoreUnavailable          Reason = 2
	RelocationDisabled        Reason = 3
	StateIncompatible         Reason = 4
	DeadlineExceeded          Reason = 5
	RelocationFailed          Reason = 6
	RuntimeNotReady           Reason = 7
	ManualTopologyUnsupported Reason = 8
	ShutdownRequested         Reason = 9
	OperationInProgress       Reason = 10
)

var reasonNames = [...]string{
	"None", "TargetUnavailable", "StoreUnavailable", "RelocationDisabled", "StateIncompatible", "DeadlineExceeded", "RelocationFailed",
	"RuntimeNotReady", "ManualTopologyUnsupported", "ShutdownRequested", "OperationInProgress",
}

// String returns the reason's name.
func (r Reason) String() string { return nameOf(reasonNames[:], r, "Reason") }

// String returns the outcome's name.
func (o Outcome) String() string { return nameOf([]string{"Relocated", "Blocked"}, o, "Outcome") }

// String returns the mode's name.
func (m Mode) String() string {
	return nameOf([]string{"PlannedMaintenance", "RollingUpdate"}, m, "Mode")
}

// String returns the result's name.
func (r UnitResult) String() string {
	return nameOf([]string{"Left", "Stayed", "Lost"}, r, "UnitResult")
}

func nameOf[N ~uint8](names []string, n N, what string) string {
	if int(n) >= len(names) {
		return fmt.Sprintf("%s(%d)", what, uint8(n))
	}
	return names[n]
}

// DefaultTimeout is that of a Request that names none.
const DefaultTimeout = 30 * time.Second

// Request is what a caller of Relocate wants.
type Request struct {
	Mode    Mode
	Version string // of RollingUpdate: the application version that targets have
	Timeout time.Duration
}

// Result is the one end of a call.
type Result struct {
	Outcome Outcome
	Reason  Reason
	Text    string
}

func blocked(why Reason, text string) Result { return Result{Blocked, why, text} }

// Answer is what becomes of a call at once: it is wrong, it waits for the end of an operation, or
// it has its result.
type Answer struct {
	Wrong  string // what is wrong with its arguments; "": nothing
	Op     uint64 // the operation; 0: Result is the end
	Result Result
}

// Self is the node, as it does not change.
type Self struct {
	RID, Mesh     string
	Version, Wave string
}

// Timing is how long a Host waits.
type Timing struct {
	Wait, WaitMax time.Duration // before what the Store did not take is tried again; it doubles
	Shun          time.Duration // before a target that did not take a unit is asked again
}

// UnitKind is what a relocation moves in one go. The numbers are those of the wire's; 0 there is
// a Join's move.
type UnitKind uint8

// The kinds.
const (
	Actor    UnitKind = iota + 1 // of the Entry Spot, or of a PerActor Spot that has moved
	Shell                        // a PerActor User Spot without its members
	Wide                         // a SpotWide User Spot with all its members
	Instance                     // an Instance Spot
	kinds
)

// Kinds are all of them.
const Kinds = int(kinds) - 1

// String returns the kind's name.
func (k UnitKind) String() string {
	switch k {
	case Actor:
		return "Actor"
	case Shell:
		return "PerActorSpot"
	case Wide:
		return "SpotWideSpot"
	case Instance:
		return "InstanceSpot"
	default:
		return "Join"
	}
}

// Part is a type that a target must host just so.
type Part struct {
	Kind   store.Kind
	Type   string
	Wide   bool
	Policy uint8 // as descriptors have it
}

// Load is some objects of one type.
type Load struct {
	Part
	Count int
}

// Unit is one of the inventory.
type Unit struct {
	Kind  UnitKind
	ID    string
	Needs []Load // of its target: for itself, first, and for its members. Nobody changes it
	Shell int    // of a member of a PerActor Spot: the Spot's unit; else NoShell
	Fixed bool   // its policy, or a member's, forbids that it moves
}

// NoShell is of units that follow no other one.
const NoShell = -1

// Process is one lifecycle of a node.
type Process struct {
	RID       string
	Lifecycle store.LeaseGen
}

// Node is a node of the Store's list, and whether it is linked.
type Node struct {
	store.Descriptor
	Linked bool
}

// UnitResult is how the move of a unit ended.
type UnitResult uint8

// The results.
const (
	Left   UnitResult = iota // it is the target's
	Stayed                   // it goes on here
	Lost                     // it is at no node that is known
)

// Fact says what happened.
type Fact uint8

const (
	// Tick: time has passed.
	Tick Fact = iota + 1
	// Started: the node begins to serve.
	Started
	// Stopping: its shutdown has begun.
	Stopping
	// Halted: its shutdown is over.
	Halted
	// Broken: it may never act again.
	Broken
	// Nodes: the list of nodes, or their links, are as in Event.Nodes.
	Nodes
	// Looked: what lives here is Loads, of which Fixed may not move, some of them named; Manual says
	// that peers are configured by hand, and Failure that the Store does not answer. Nodes as above.
	Looked
	// Published: the Store has the state that the node had, or a later one; or not, for Failure.
	Published
	// Waits: what has not settled is Failure.
	Waits
	// Settled: what was under way here has ended.
	Settled
	// Taken: Units is all that lives here.
	Taken
	// Permitted: there is a permit; or none, for Failure.
	Permitted
	// CutOver: the cutover of Unit was submitted.
	CutOver
	// UnitEnded: the move of Unit is over with Ended, for Reason and Failure if it has not left.
	UnitEnded
)

// Event is something that happened. Op names the operation of those that are an effect's end.
type Event struct {
	Is      Fact
	Op      uint64
	Unit    int
	Ended   UnitResult
	Reason  Reason
	Failure string
	Manual  bool
	Fixed   []Unit
	Loads   []Load
	Nodes   []Node
	Units   []Unit
}

// Do says what is to be done.
type Do uint8

const (
	// DoLook: look at what lives here, at the nodes and at the Store. Ends with Looked.
	DoLook Do = iota + 1
	// DoPublish: tell the Store the present state. Ends with Published.
	DoPublish
	// DoSettle: wait until all that was under way here has ended, as nothing new begins. Ends with
	// Settled, and by itself with the operation; Waits may come before.
	DoSettle
	// DoTake: take the inventory. Ends with Taken.
	DoTake
	// DoPermit: get a permit for one unit. Ends with Permitted.
	DoPermit
	// DoRelease: give one back.
	DoRelease
	// DoMove: move Unit to To, up to its boundary by Until, with a permit. Ends with UnitEnded;
	// CutOver comes before if it gets there.
	DoMove
	// DoEnd: the operation is over, with Result.
	DoEnd
)

// Effect is something to be done.
type Effect struct {
	Do     Do
	Op     uint64
	Unit   int
	Moves  Unit // it
	To     Process
	Until  clock.Mono
	Result Result
}
