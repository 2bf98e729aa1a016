// Package wire is the format of the records that two nodes exchange on a link:
// encoding, decoding and the table of commands. It does no I/O and keeps no
// state; everything in it is safe for concurrent use.
//
// A record is
//
//	u32 length   bytes that follow, so 2 at least
//	u8  command  see the table in command.go
//	u8  flags    bits that the command knows; all others are 0
//	    fields   fixed per command, in the order of the struct
//	    payload  the rest, for commands that have one
//
// Integers are big-endian. A field written s8 is a u8 length and that many
// bytes, s16 has a u16 length. There is one encoding of every value: what
// decodes without error encodes to the same bytes again.
//
// # Encoding
//
// Each record is a struct with AppendTo, which appends the whole record, length
// prefix included, and Size, the number of bytes that AppendTo will append.
// What no peer would accept has to be refused with a proper error where it
// enters the node; ValidID, ValidRID and the Max constants are for that. A
// length over its limit that gets this far is a bug and panics; a wrong value
// (an empty id, a correlation of 0) panics in builds with the tag invariants,
// and in others makes the peer close the link.
//
// AppendTo copies each byte once. StateChunk and MoveState, which are long, have an
// AppendHead too, for a caller that sends the rest from where it lies.
//
// AppendTo only reads the struct's slices. A []byte(s) conversion in the
// literal of a record that is encoded at once does not allocate.
//
// # Decoding
//
// RecordSize says how many bytes the next record of a stream has, Header splits
// one record, and the Decode function of its command reads the body:
//
//	n, err := wire.RecordSize(in, wire.MaxRecord) // 0: read more first
//	cmd, flags, body, err := wire.Header(in[:n])
//	switch cmd {
//	case wire.CmdActorSend:
//		m, err := wire.DecodeActorSend(body)
//
// Decoding is total: any input gives a record or a *FormatError, never a panic;
// with an error the struct means nothing. Decoded structs hold views of the
// input, which are valid as long as the input is and must not be modified.
// Nothing is allocated unless there is an error.
package wire
