package session

import (
	"encoding/binary"
	"math"
)

// FrameSize returns the length of the frame that starts with b, its prefix
// included, or 0 if b is too short to tell. frameMax caps header plus payload in
// bytes, 0 for no cap; a frame over it is refused with ReasonTooLarge, so that
// the caller can decide before it takes any memory.
func FrameSize(b []byte, frameMax int) (int, error) {
	if len(b) < PrefixSize {
		return 0, nil
	}
	header := int64(binary.BigEndian.Uint16(b))
	if header < headerMin {
		return 0, refuse(ReasonHeaderLength)
	}
	body := header + int64(binary.BigEndian.Uint32(b[2:]))
	if frameMax > 0 && body > int64(frameMax) || body > math.MaxInt-PrefixSize {
		return 0, refuse(ReasonTooLarge)
	}
	return PrefixSize + int(body), nil
}

// Decode takes a whole frame, its prefix included, apart. The packet's slices
// are views into frame. It allocates nothing and does not look into payloads,
// except those of control frames; the error is a *DecodeError.
func Decode(frame []byte) (Packet, error) {
	size, err := FrameSize(frame, 0)
	if err != nil {
		return Packet{}, err
	}
	if size == 0 || size > len(frame) {
		return Packet{}, refuse(ReasonTruncated)
	}
	if size < len(frame) {
		return Packet{}, refuse(ReasonTrailing)
	}
	headerEnd := PrefixSize + int(binary.BigEndian.Uint16(frame))
	header := frame[PrefixSize:headerEnd:headerEnd]

	if header[0] != marker {
		return Packet{}, refuse(ReasonMarker)
	}
	p := Packet{
		Kind:    Kind(header[1]),
		Codec:   Codec(header[2]),
		Payload: frame[headerEnd:size:size],
	}
	flags := header[3]
	if flags&^byte(flagsKnown) != 0 {
		return Packet{}, refuse(ReasonFlags)
	}
	p.Compressed = flags&flagCompressed != 0
	if r := p.takeFields(header[4:], flags); r != 0 {
		return Packet{}, refuse(r)
	}
	if r := p.check(); r != 0 {
		return Packet{}, refuse(r)
	}
	return p, nil
}

// takeFields takes the variable fields of a header from rest, which holds at
// least one byte. Nothing may be left over. A result of 0 means success.
func (p *Packet) takeFields(rest []byte, flags byte) Reason {
	if flags&flagSequence != 0 {
		if len(rest) < 8 {
			return ReasonSequence
		}
		p.Seq = binary.BigEndian.Uint64(rest)
		if p.Seq == 0 {
			return ReasonSequence
		}
		rest = rest[8:]
	}
	var ok bool
	if p.Name, rest, ok = takeShort(rest); !ok {
		return ReasonName
	}
	if flags&flagMetadata != 0 {
		if len(rest) < 2 {
			return ReasonMetadata
		}
		n := int(binary.BigEndian.Uint16(rest))
		if n > len(rest)-2 {
			return ReasonMetadata
		}
		p.Meta, rest = Metadata(rest[2:2+n:2+n]), rest[2+n:]
	}
	if flags&flagCorrelation != 0 {
		if p.Correlation, rest, ok = takeShort(rest); !ok {
			return ReasonCorrelation
		}
	}
	if flags&flagFlow != 0 {
		if len(rest) < FlowSize+1 {
			return ReasonFlow
		}
		p.Flow, p.Origin, rest = rest[:FlowSize:FlowSize], rest[FlowSize], rest[FlowSize+1:]
	}
	if len(rest) != 0 {
		return ReasonTrailing
	}
	return 0
}

// takeShort takes a field with a one-byte length. The field is never nil.
func takeShort(b []byte) (field, rest []byte, ok bool) {
	if len(b) == 0 || int(b[0]) > len(b)-1 {
		return nil, nil, false
	}
	end := 1 + int(b[0])
	return b[1:end:end], b[end:], true
}
