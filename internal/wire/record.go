package wire

import "encoding/binary"

// RecordSize returns the size of the record at the start of b, prefix included,
// or 0 if b is too short to tell. max is MaxRecord, or PreAdmitMax as long as
// the sender is not admitted. The size is decided by the prefix alone, so that
// nothing needs to be allocated for a length that is refused.
//
// It returns a *FormatError that wraps ErrLength or ErrTooLarge.
func RecordSize(b []byte, max int) (int, error) {
	if len(b) < prefixSize {
		return 0, nil
	}
	n := uint64(binary.BigEndian.Uint32(b)) + prefixSize
	if n < HeaderSize {
		return 0, &FormatError{Field: "length", Err: ErrLength}
	}
	if n > uint64(max) {
		return 0, &FormatError{Field: "length", Err: ErrTooLarge}
	}
	return int(n), nil
}

// Header splits record, which is exactly one record with its prefix. body is
// the part behind the flags, a view of record, for the command's Decode
// function.
//
// It returns a *FormatError that wraps ErrLength, ErrCommand or ErrFlags.
func Header(record []byte) (cmd Command, flags uint8, body []byte, err error) {
	if len(record) < HeaderSize || uint64(binary.BigEndian.Uint32(record))+prefixSize != uint64(len(record)) {
		return 0, 0, nil, &FormatError{Field: "length", Err: ErrLength}
	}
	cmd, flags = Command(record[4]), record[5]
	info := &table[cmd]
	if info.Form == 0 {
		return cmd, flags, nil, &FormatError{Command: cmd, Field: "command", Err: ErrCommand}
	}
	if flags&^info.Flags != 0 {
		return cmd, flags, nil, &FormatError{Command: cmd, Field: "flags", Err: ErrFlags}
	}
	return cmd, flags, record[HeaderSize:], nil
}
