// Package flow is what a message says of the work that it is part of: the flow and the
// correlation id of the client's packet that began it, and the span that it belongs to.
//
// Between nodes that is the first entry of the message's metadata, under a key that is not
// the application's, so it goes wherever the message goes. The value ends with the number of
// the entries behind it, and is thus followed by a whole block of metadata, the
// application's, which is read where it lies.
package flow

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
)

// Key is that of a Context. It is one of those that are not the application's.
const Key = "zl-flow"

// MetadataMax bounds a message's metadata, all entries together, in bytes.
const MetadataMax = 1024

// TextSize is the size of an ID as text.
const TextSize = 36

// Origin says where a flow began.
type Origin uint8

// The origins and their wire numbers.
const (
	OfClient  Origin = 1
	OfSession Origin = 2
	OfObject  Origin = 3 // an Actor or a Spot
	OfNode    Origin = 4
)

// ID is a UUID of version 7.
type ID [16]byte

// ErrID is why text is no ID.
var ErrID = errors.New("a flow id is a lower-case UUID of version 7")

// New makes the ID of a flow that begins at that time, in milliseconds since 1970, from 74
// random bits of a and b.
func New(ms int64, a, b uint64) (id ID) {
	binary.BigEndian.PutUint64(id[:], uint64(ms)<<16|0x7000|a&0xfff)
	binary.BigEndian.PutUint64(id[8:], b&(1<<62-1)|1<<63)
	return id
}

// Parse reads an ID in its one form of text.
func Parse[T string | []byte](text T) (id ID, err error) {
	if len(text) != TextSize || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return ID{}, ErrID
	}
	for i, from := range [len(id)]int{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34} {
		high, low := digit(text[from]), digit(text[from+1])
		if high > 15 || low > 15 {
			return ID{}, ErrID
		}
		id[i] = high<<4 | low
	}
	if !id.valid() {
		return ID{}, ErrID
	}
	return id, nil
}

// digit returns the value of a lower-case hexadecimal digit, or more than 15.
func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

func (id ID) valid() bool { return id[6]>>4 == 7 && id[8]>>6 == 2 }

// AppendText appends the ID as text.
func (id ID) AppendText(dst []byte) []byte {
	for i, part := range [...][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

// String returns the ID as text.
func (id ID) String() string { return string(id.AppendText(make([]byte, 0, TextSize))) }

// Trace names a span as W3C Trace Context does. The zero value names none.
type Trace struct {
	ID    [16]byte
	Span  [8]byte
	Flags byte
}

// Context is what a message says. The zero value says nothing.
type Context struct {
	ID          ID
	Origin      Origin // of ID; 0: there is no flow
	Trace       Trace
	Correlation []byte // at most 255 bytes; empty: none
}

// Empty reports whether c says nothing.
func (c *Context) Empty() bool {
	return c.Origin == 0 && len(c.Correlation) == 0 && c.Trace == Trace{}
}

// What of a Context an entry has.
const (
	hasFlow        = 0x01
	hasTrace       = 0x02
	hasCorrelation = 0x04
	hasKnown       = hasFlow | hasTrace | hasCorrelation
)

// head is the size of what comes before the value: the block's count, the key, the length.
const head = 1 + 1 + len(Key) + 2

const (
	flowSize       = 16 + 1
	traceSize      = 16 + 8 + 1
	entriesMax     = 255
	correlationMax = 255
)

// In reports whether a block of metadata has a Context.
func In(meta []byte) bool {
	return len(meta) > head && int(meta[1]) == len(Key) && string(meta[2:2+len(Key)]) == Key
}

// Split takes a block of metadata apart: what it says of its work, whose Correlation is a
// view, and the application's block, another view, nil if it has no entry. What is no
// Context says nothing, and is not the application's all the same.
func Split(meta []byte) (c Context, application []byte) {
	if !In(meta) {
		return Context{}, meta
	}
	size := int(binary.BigEndian.Uint16(meta[head-2:]))
	if size == 0 || size > len(meta)-head {
		return Context{}, nil
	}
	last := head + size - 1
	if meta[last] != meta[0]-1 {
		return Context{}, nil
	}
	if meta[last] > 0 {
		application = meta[last:]
	}
	c, ok := decode(meta[head:last])
	if !ok {
		return Context{}, application
	}
	return c, application
}

// decode reads a value but for its last byte.
func decode(b []byte) (c Context, ok bool) {
	if len(b) == 0 || b[0] == 0 || b[0]&^hasKnown != 0 {
		return Context{}, false
	}
	has, b := b[0], b[1:]
	if has&hasFlow != 0 {
		if len(b) < flowSize {
			return Context{}, false
		}
		c.ID, c.Origin, b = ID(b), Origin(b[16]), b[flowSize:]
		if !c.ID.valid() || c.Origin < OfClient || c.Origin > OfNode {
			return Context{}, false
		}
	}
	if has&hasTrace != 0 {
		if len(b) < traceSize {
			return Context{}, false
		}
		c.Trace, b = Trace{ID: [16]byte(b), Span: [8]byte(b[16:]), Flags: b[24]}, b[traceSize:]
	}
	if has&hasCorrelation != 0 {
		if len(b) < 2 || int(b[0]) != len(b)-1 {
			return Context{}, false
		}
		c.Correlation, b = b[1:], nil
	}
	return c, len(b) == 0
}

// Fit returns what of c has room beside the application's block: without its correlation id
// if that is too much, or nothing.
func (c *Context) Fit(application []byte) Context {
	fits := *c
	if len(fits.Correlation) > correlationMax {
		fits.Correlation = nil
	}
	if Size(&fits, application) > MetadataMax {
		fits.Correlation = nil
	}
	if Size(&fits, application) > MetadataMax || len(application) > 0 && application[0] == entriesMax {
		return Context{}
	}
	return fits
}

// Size returns the size of the block that Append makes.
func Size(c *Context, application []byte) int {
	if c.Empty() {
		return len(application)
	}
	n := head + 1 + max(len(application), 1)
	if c.Origin != 0 {
		n += flowSize
	}
	if c.Trace != (Trace{}) {
		n += traceSize
	}
	if len(c.Correlation) > 0 {
		n += 1 + len(c.Correlation)
	}
	return n
}

// Append appends to dst the block of what c says, which must fit, and the application's.
func Append(dst []byte, c *Context, application []byte) []byte {
	if c.Empty() {
		return append(dst, application...)
	}
	entries := byte(0)
	if len(application) > 0 {
		entries = application[0]
	}
	size := Size(c, application) - head - max(len(application), 1) + 1
	dst = append(dst, entries+1, byte(len(Key)))
	dst = append(dst, Key...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(size))
	at := len(dst)
	dst = append(dst, 0)
	if c.Origin != 0 {
		dst[at] |= hasFlow
		dst = append(dst, c.ID[:]...)
		dst = append(dst, byte(c.Origin))
	}
	if c.Trace != (Trace{}) {
		dst[at] |= hasTrace
		dst = append(dst, c.Trace.ID[:]...)
		dst = append(dst, c.Trace.Span[:]...)
		dst = append(dst, c.Trace.Flags)
	}
	if len(c.Correlation) > 0 {
		dst[at] |= hasCorrelation
		dst = append(dst, byte(len(c.Correlation)))
		dst = append(dst, c.Correlation...)
	}
	if entries == 0 {
		return append(dst, 0)
	}
	return append(dst, application...)
}
