package store

import "fmt"

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
	LeaseExpired:       "LeaseExpired",
	LeaseSuperseded:    "LeaseSuperseded",
	LeaseHeld:          "LeaseHeld",
	TargetUnavailable:  "TargetUnavailable",
	TargetIncompatible: "TargetIncompatible",
	CapacityExceeded:   "CapacityExceeded",
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
