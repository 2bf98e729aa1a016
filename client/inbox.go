package client

import (
	"github.com/zlnode/zlnode/internal/invariant"
	"github.com/zlnode/zlnode/session"
)

const (
	inboxMin  = 4 << 10  // what a connection starts with
	inboxKeep = 32 << 10 // a busy one reads this much at once; more is given up when it is empty
)

// inbox cuts a stream of bytes into frames, in place: a frame is a view into the
// buffer and valid until the next call of space. It belongs to the reader.
//
// The buffer grows with the bytes received, never with a length that a frame
// only claims, and not beyond one frame of frameMax.
type inbox struct {
	frameMax   int // header plus payload; see session.FrameSize
	buf        []byte
	start, end int  // of the bytes not yet taken
	full       bool // the last read filled the buffer
}

// space returns where the next bytes go; at least one byte.
func (b *inbox) space() []byte {
	switch {
	case b.start == b.end:
		b.start, b.end = 0, 0
		switch {
		case len(b.buf) == 0 || len(b.buf) > inboxKeep:
			b.buf = make([]byte, inboxMin)
		case b.full && len(b.buf) < inboxKeep:
			b.buf = make([]byte, 2*len(b.buf))
		}
	case b.end == len(b.buf) && b.start > 0:
		b.end = copy(b.buf, b.buf[b.start:b.end])
		b.start = 0
	case b.end == len(b.buf):
		grown := make([]byte, min(2*len(b.buf), b.frameMax+session.PrefixSize))
		copy(grown, b.buf)
		b.buf = grown
	}
	return b.buf[b.end:]
}

// received says that n bytes were put where space told.
func (b *inbox) received(n int) {
	b.end += n
	b.full = b.end == len(b.buf)
}

// next takes one whole frame, or returns nil if none is complete.
func (b *inbox) next() ([]byte, error) {
	size, err := session.FrameSize(b.buf[b.start:b.end], b.frameMax)
	if err != nil || size == 0 || size > b.end-b.start {
		return nil, err
	}
	frame := b.buf[b.start : b.start+size : b.start+size]
	b.start += size
	return frame, nil
}

// spoil overwrites a frame that was dealt with, in builds with the tag
// `invariants`, to show a view that is used after its time.
func (b *inbox) spoil(frame []byte) {
	if invariant.Enabled {
		for i := range frame {
			frame[i] = 0xff
		}
	}
}
