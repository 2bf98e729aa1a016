package wire

import "errors"

// What can be wrong with a record. A *FormatError wraps one of these.
var (
	// ErrTruncated: the record ends inside a field.
	ErrTruncated = errors.New("the record ends inside it")
	// ErrTrailing: bytes follow the last field of a record without payload.
	ErrTrailing = errors.New("bytes follow the last field")
	// ErrTooLarge: a length goes over its limit.
	ErrTooLarge = errors.New("longer than its limit")
	// ErrEmpty: a field that must have a value is empty or zero.
	ErrEmpty = errors.New("empty or zero where a value is required")
	// ErrValue: a field has a value outside its closed set or character set.
	ErrValue = errors.New("value out of range")
	// ErrCommand: the command number is unknown.
	ErrCommand = errors.New("unknown command")
	// ErrFlags: a flag bit is set that the command does not know.
	ErrFlags = errors.New("unknown flag bit")
	// ErrLength: the length prefix does not fit the record.
	ErrLength = errors.New("wrong length")
)

// FormatError says which part of which record breaks the format. Whoever meets
// one closes the link: a stream that is wrong once cannot be trusted again.
type FormatError struct {
	Command Command // 0 if the record is not known yet
	Field   string
	Err     error // one of the sentinels above
}

func (e *FormatError) Error() string {
	record := "record"
	if e.Command != 0 {
		record = e.Command.String()
	}
	return "wire: " + record + " refused: " + e.Field + ": " + e.Err.Error()
}

// Unwrap returns the sentinel.
func (e *FormatError) Unwrap() error { return e.Err }
