package session

import (
	"encoding/binary"
	"math"

	"github.com/pierrec/lz4/v4"
)

// A compressed payload is in the "pickle" form of the K4os LZ4 library: one byte
// CC000000 in binary, where CC says how wide the following size difference is,
// the difference (plain length minus block length, little-endian), then one LZ4
// block. Without a difference the rest is stored as it is.
const (
	pickleWidthShift = 6
	pickleReserved   = 1<<pickleWidthShift - 1 // bits that must be zero
	pickleHeaderMax  = 1 + 4
)

// lz4RatioMax bounds what an LZ4 block can inflate to, per byte of the block: a
// further length byte stands for at most 255 bytes of output and every other
// byte for less. A larger claim is a lie and is refused before memory is taken,
// so a receiver never reserves more than this times what it was sent.
const lz4RatioMax = 255

// pickleWidths gives the bytes of the size difference by CC.
var pickleWidths = [4]int{0, 1, 2, 4}

// PayloadSize returns the length of p's payload in plain form without inflating
// it. plainMax caps it in bytes, 0 for no cap; a payload over it is refused with
// ReasonPayloadSize, a malformed one with ReasonPayload.
func PayloadSize(p *Packet, plainMax int) (int, error) {
	if !p.Compressed {
		return capSize(int64(len(p.Payload)), plainMax)
	}
	plain, block, _, r := openPickle(p.Payload)
	if r != 0 {
		return 0, refuse(r)
	}
	if n, err := capSize(plain, plainMax); err != nil {
		return n, err
	}
	if plain > int64(len(block))*lz4RatioMax {
		return 0, refuse(ReasonPayload)
	}
	return int(plain), nil
}

// DecodePayload returns p's payload in plain form, under the rules of
// PayloadSize. A payload that is not compressed is returned as it is, a view; a
// compressed one is inflated into memory of its own.
func DecodePayload(p *Packet, plainMax int) ([]byte, error) {
	n, err := PayloadSize(p, plainMax)
	if err != nil {
		return nil, err
	}
	if !p.Compressed {
		return p.Payload, nil
	}
	plain := make([]byte, n)
	if err := InflatePayload(plain, p); err != nil {
		return nil, err
	}
	return plain, nil
}

// InflatePayload writes p's payload in plain form to dst, whose length must be
// what PayloadSize returned. It allocates nothing and never writes past dst; a
// payload that does not fill it exactly is refused with ReasonPayload.
func InflatePayload(dst []byte, p *Packet) error {
	block, stored := p.Payload, true
	if p.Compressed {
		var r Reason
		if _, block, stored, r = openPickle(p.Payload); r != 0 {
			return refuse(r)
		}
	}
	if stored {
		if len(block) != len(dst) {
			return refuse(ReasonPayload)
		}
		copy(dst, block)
		return nil
	}
	if n, err := lz4.UncompressBlock(block, dst); err != nil || n != len(dst) {
		return refuse(ReasonPayload)
	}
	return nil
}

// CompressPayload writes plain in its compressed form into dst, whose length must be
// that of plain at least, and returns the part of dst that holds it: the payload of
// a Packet with Compressed set. It reports false if that would not save an eighth of
// plain; then dst holds nothing of use. plain is only read and must not overlap dst.
// The tables that the work takes, 136 KiB, come from a pool of the process.
func CompressPayload(dst, plain []byte) ([]byte, bool) {
	room := len(plain) - len(plain)/8
	if room <= pickleHeaderMax || int64(len(plain)) > lengthsMax {
		return nil, false
	}
	n, err := lz4.CompressBlock(plain, dst[pickleHeaderMax:room], nil)
	if err != nil || n == 0 { // it does not fit
		return nil, false
	}
	// The header ends where the block begins.
	var header [pickleHeaderMax]byte
	diff := len(plain) - n
	binary.LittleEndian.PutUint32(header[1:], uint32(diff))
	cc := 3
	switch {
	case diff < 1<<8:
		cc = 1
	case diff < 1<<16:
		cc = 2
	}
	header[0] = byte(cc << pickleWidthShift)
	size := 1 + pickleWidths[cc]
	start := pickleHeaderMax - size
	copy(dst[start:], header[:size])
	return dst[start : pickleHeaderMax+n], true
}

// openPickle takes the header of a compressed payload off: the plain length it
// claims, the bytes behind it and whether those are stored as they are.
func openPickle(b []byte) (plain int64, block []byte, stored bool, r Reason) {
	if len(b) == 0 || b[0]&pickleReserved != 0 {
		return 0, nil, false, ReasonPayload
	}
	width := pickleWidths[b[0]>>pickleWidthShift]
	if len(b) < 1+width {
		return 0, nil, false, ReasonPayload
	}
	field, block := b[1:1+width], b[1+width:]
	var diff int64
	switch width {
	case 0:
		return int64(len(block)), block, true, 0
	case 1:
		diff = int64(field[0])
	case 2:
		diff = int64(binary.LittleEndian.Uint16(field))
	default:
		diff = int64(binary.LittleEndian.Uint32(field))
	}
	return int64(len(block)) + diff, block, false, 0
}

func capSize(n int64, plainMax int) (int, error) {
	if plainMax > 0 && n > int64(plainMax) || n > math.MaxInt {
		return 0, refuse(ReasonPayloadSize)
	}
	return int(n), nil
}
