// Package errkind is the closed table of error kinds.
//
// A kind travels between nodes as its number and to clients as its snake-case
// code; both are part of the wire contract and never change their meaning.
package errkind

import "strconv"

// Kind says what sort of failure an operation ended with. The zero value is
// NotFound, so a Kind alone cannot say "no error".
type Kind uint8

// The kinds and their wire numbers.
const (
	NotFound         Kind = 0  // the object, name or place does not exist
	AlreadyExists    Kind = 1  // it exists and the operation wanted it not to
	TypeMismatch     Kind = 2  // it exists as another type or kind of object
	NotConfigured    Kind = 3  // the operation needs something the node was not given
	Rejected         Kind = 4  // application code said no
	Unavailable      Kind = 5  // it cannot be reached or may not act now
	CapacityExceeded Kind = 6  // a bound of this process, or a placement limit, is reached
	DeadlineExceeded Kind = 7  // the time allowed is over; the effect may still happen
	ShuttingDown     Kind = 8  // the node takes no new work
	ProtocolError    Kind = 9  // the bytes received break the wire contract
	InvalidOperation Kind = 10 // the caller may not do this, or not here
	DataLost         Kind = 11 // state that should exist is gone
	InternalFailure  Kind = 12 // application code or the engine failed
)

// Count is the number of kinds; every number below it is one.
const Count = 13

var table = [Count]struct{ name, code string }{
	NotFound:         {"NotFound", "not_found"},
	AlreadyExists:    {"AlreadyExists", "already_exists"},
	TypeMismatch:     {"TypeMismatch", "type_mismatch"},
	NotConfigured:    {"NotConfigured", "not_configured"},
	Rejected:         {"Rejected", "rejected"},
	Unavailable:      {"Unavailable", "unavailable"},
	CapacityExceeded: {"CapacityExceeded", "capacity_exceeded"},
	DeadlineExceeded: {"DeadlineExceeded", "deadline_exceeded"},
	ShuttingDown:     {"ShuttingDown", "shutting_down"},
	ProtocolError:    {"ProtocolError", "protocol_error"},
	InvalidOperation: {"InvalidOperation", "invalid_operation"},
	DataLost:         {"DataLost", "data_lost"},
	InternalFailure:  {"InternalFailure", "internal_failure"},
}

// Valid reports whether k is a number of the table.
func (k Kind) Valid() bool { return k < Count }

// String returns the kind's name, such as "NotFound".
func (k Kind) String() string {
	if !k.Valid() {
		return "Kind(" + strconv.Itoa(int(k)) + ")"
	}
	return table[k].name
}

// Error makes a Kind usable as the target of errors.Is.
func (k Kind) Error() string { return k.String() }

// Code returns the kind's code for clients, such as "not_found". A number that
// is not in the table gives the code of InternalFailure, so that a client never
// sees a code outside the closed set.
func (k Kind) Code() string {
	if !k.Valid() {
		k = InternalFailure
	}
	return table[k].code
}

// ParseCode returns the kind whose Code is code, and whether there is one.
func ParseCode(code string) (Kind, bool) {
	for k := range table {
		if table[k].code == code {
			return Kind(k), true
		}
	}
	return InternalFailure, false
}
