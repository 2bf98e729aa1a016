package store

import "fmt"

// Reason is the closed set of outcomes of a change.
type Reason uint8

const (
	Applied            Reason = iota + 1 // the change is in force
	AlreadyApplied                       // an earlier try of the same operation applied it
	Missing                              // there is no such row
	Exists                               // the row is there (see Change.Record for its state)
	TypeMismatch                         // the row is of another kind or stable type
	VersionConflict                      // StoreVersion differs
	GenerationConflict                   // ObjectGeneration differs
	OwnerConflict                        // the recorded owner, or the move's target, differs
	OwnerAlive                           // it is not over: the owner's lease, or the move's validity
	LeaseExpired                         // the caller's lease ended by the Store's clock
	LeaseSuperseded                      // the caller's lease was issued anew to another process
	LeaseHeld                            // the RID's lease belongs to another live process
	TargetUnavailable                    // the target's descriptor or lease is not that of the lifecycle asked for
	TargetIncompatible                   // role, stable type or weight do not allow the placement
	CapacityExceeded                     // the target has no free capacity of that kind
	SpotUnavailable                      // the Spot to enter is not there, or not at that process
	Moving                               // the object moves, or its Spot with it
	MoveConflict                         // the row has another move, or none
	InventoryConflict                    // the aggregate's inventory is not stored, not fixed, another one, or not its members any more
	Pending                              // members of the Spot are on their way, or its first message is
	IsMember                             // the Actor must leave its User Spot first
	NotEmpty                             // the Spot has members, or some on their way
	EpochChanged                         // the caller acts under an older epoch
	Unasserted                           // the owner has not written the row in this epoch yet
	Recovering                           // the epoch is young: nothing new is created yet
	Exhausted                            // a generation reached 2^63-1 (ID-08)
)

// reasonNames are also the words in which scripts answer.
var reasonNames = [...]string{
	Applied:            "Applied",
	AlreadyApplied:     "AlreadyApplied",
	Missing:            "Missing",
	Exists:             "Exists",
	TypeMismatch:       "TypeMismatch",
	VersionConflict:    "VersionConflict",
	GenerationConflict: "GenerationConflict",
	OwnerConflict:      "OwnerConflict",
	OwnerAlive:         "OwnerAlive",
	LeaseExpired:       "LeaseExpired",
	LeaseSuperseded:    "LeaseSuperseded",
	LeaseHeld:          "LeaseHeld",
	TargetUnavailable:  "TargetUnavailable",
	TargetIncompatible: "TargetIncompatible",
	CapacityExceeded:   "CapacityExceeded",
	SpotUnavailable:    "SpotUnavailable",
	Moving:             "Moving",
	MoveConflict:       "MoveConflict",
	InventoryConflict:  "InventoryConflict",
	Pending:            "Pending",
	IsMember:           "IsMember",
	NotEmpty:           "NotEmpty",
	EpochChanged:       "EpochChanged",
	Unasserted:         "Unasserted",
	Recovering:         "Recovering",
	Exhausted:          "Exhausted",
}

// String returns the constant's name.
func (r Reason) String() string {
	if r >= Applied && int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// ParseReason is the inverse of String for the reasons of the closed set.
func ParseReason(name string) (Reason, bool) {
	for r := Applied; int(r) < len(reasonNames); r++ {
		if reasonNames[r] == name {
			return r, true
		}
	}
	return 0, false
}

// String returns the constant's name.
func (s State) String() string {
	switch s {
	case Creating:
		return "Creating"
	case Ready:
		return "Ready"
	default:
		return fmt.Sprintf("State(%d)", uint8(s))
	}
}

// String returns the constant's name.
func (r Result) String() string {
	switch r {
	case Created:
		return "Created"
	case Rejected:
		return "Rejected"
	case Failed:
		return "Failed"
	default:
		return fmt.Sprintf("Result(%d)", uint8(r))
	}
}

// String returns the constant's name.
func (k Kind) String() string {
	switch k {
	case Actor:
		return "Actor"
	case EntrySpot:
		return "EntrySpot"
	case UserSpot:
		return "UserSpot"
	case InstanceSpot:
		return "InstanceSpot"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}
