package wire

import (
	"encoding/binary"
	"unicode/utf8"
)

// decoder reads the fields of one body from front to back. The first failure
// sticks: later reads return zero values and keep the error, so that a Decode
// function reads all its fields in a row and looks at the error once.
//
// Views that it returns have no spare capacity, so that an append to one cannot
// overwrite what follows it.
type decoder struct {
	b   []byte // what is left; nil after a failure
	cmd Command
	err *FormatError
}

func (d *decoder) fail(field string, why error) {
	if d.err == nil {
		d.err = &FormatError{Command: d.cmd, Field: field, Err: why}
	}
	d.b = nil
}

// done returns the error, and ErrTrailing if the body is not used up.
func (d *decoder) done() error {
	if len(d.b) > 0 {
		d.fail("end", ErrTrailing)
	}
	return d.result()
}

// result returns the error, as a nil interface if there is none.
func (d *decoder) result() error {
	if d.err == nil {
		return nil
	}
	return d.err
}

// bytes returns the next n bytes.
func (d *decoder) bytes(field string, n int) []byte {
	if len(d.b) < n {
		d.fail(field, ErrTruncated)
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) u8(field string) uint8 {
	if len(d.b) < 1 {
		d.fail(field, ErrTruncated)
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

// u8max reads a number that is at most limit.
func (d *decoder) u8max(field string, limit uint8) uint8 {
	v := d.u8(field)
	if v > limit {
		d.fail(field, ErrValue)
	}
	return v
}

// flags reads flag bits, of which only the known ones may be set.
func (d *decoder) flags(known uint8) uint8 {
	v := d.u8("flags")
	if v&^known != 0 {
		d.fail("flags", ErrFlags)
	}
	return v
}

func (d *decoder) u16(field string) uint16 {
	if len(d.b) < 2 {
		d.fail(field, ErrTruncated)
		return 0
	}
	v := binary.BigEndian.Uint16(d.b)
	d.b = d.b[2:]
	return v
}

func (d *decoder) u32(field string) uint32 {
	if len(d.b) < 4 {
		d.fail(field, ErrTruncated)
		return 0
	}
	v := binary.BigEndian.Uint32(d.b)
	d.b = d.b[4:]
	return v
}

func (d *decoder) u64(field string) uint64 {
	if len(d.b) < 8 {
		d.fail(field, ErrTruncated)
		return 0
	}
	v := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

// nonZero reads an identifier of any value but 0.
func (d *decoder) nonZero(field string) uint64 {
	v := d.u64(field)
	if v == 0 {
		d.fail(field, ErrEmpty)
	}
	return v
}

// gen reads a generation, lifecycle or version: 63 bits, 0 meaning none.
func (d *decoder) gen(field string) uint64 {
	v := d.u64(field)
	if v > MaxGeneration {
		d.fail(field, ErrValue)
	}
	return v
}

// someGen reads a generation that must be there.
func (d *decoder) someGen(field string) uint64 {
	v := d.gen(field)
	if v == 0 {
		d.fail(field, ErrEmpty)
	}
	return v
}

func (d *decoder) s8(field string) []byte {
	if len(d.b) < 1 || len(d.b) <= int(d.b[0]) {
		d.fail(field, ErrTruncated)
		return nil
	}
	end := 1 + int(d.b[0])
	v := d.b[1:end:end]
	d.b = d.b[end:]
	return v
}

// id reads an object id, mesh, stable type or name: 1–255 bytes of UTF-8.
func (d *decoder) id(field string) []byte {
	v := d.s8(field)
	if len(v) == 0 {
		d.fail(field, ErrEmpty)
	} else if !ascii(v) && !utf8.Valid(v) {
		d.fail(field, ErrValue)
	}
	return v
}

func (d *decoder) rid(field string) []byte {
	v := d.s8(field)
	if len(v) == 0 {
		d.fail(field, ErrEmpty)
	} else if !validRID(v) {
		d.fail(field, ErrValue)
	}
	return v
}

// s16 reads a string of at most maxS16 bytes.
func (d *decoder) s16(field string) []byte {
	n := int(d.u16(field))
	if n > maxS16 {
		d.fail(field, ErrTooLarge)
		return nil
	}
	return d.bytes(field, n)
}

// op reads a 128-bit operation id, which is never zero.
func (d *decoder) op(field string) (v [16]byte) {
	copy(v[:], d.bytes(field, len(v)))
	if v == ([16]byte{}) {
		d.fail(field, ErrEmpty)
	}
	return v
}

func (d *decoder) hash(field string) (v [32]byte) {
	copy(v[:], d.bytes(field, len(v)))
	return v
}

// payload takes the rest of the body.
func (d *decoder) payload(limit int) []byte {
	if len(d.b) > limit {
		d.fail("payload", ErrTooLarge)
		return nil
	}
	return d.bytes("payload", len(d.b))
}
