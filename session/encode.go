package session

import "encoding/binary"

// Size returns the length of p's frame in bytes, so that a caller can take one
// buffer for it. It is exact for every packet that Append accepts.
func Size(p *Packet) int {
	n := PrefixSize + headerMin + len(p.Name) + len(p.Payload)
	if p.Seq != 0 {
		n += 8
	}
	if p.Meta != nil {
		n += 2 + len(p.Meta)
	}
	if p.Correlation != nil {
		n += 1 + len(p.Correlation)
	}
	if p.Flow != nil {
		n += FlowSize + 1
	}
	return n
}

// Append appends p's frame to dst and returns the extended slice. It refuses,
// with a *DecodeError, what Decode would refuse, and metadata over MetadataMax;
// dst is then returned unchanged. With room for Size(p) bytes it allocates
// nothing. It does not compress: if p.Compressed is set, p.Payload must be in
// compressed form already.
func Append(dst []byte, p *Packet) ([]byte, error) {
	if len(p.Meta) > MetadataMax {
		return dst, refuse(ReasonMetadataSize)
	}
	if r := p.check(); r != 0 {
		return dst, refuse(r)
	}
	if int64(len(p.Payload)) > lengthsMax {
		return dst, refuse(ReasonTooLarge)
	}
	header := Size(p) - PrefixSize - len(p.Payload)
	dst = binary.BigEndian.AppendUint16(dst, uint16(header))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(p.Payload)))
	dst = append(dst, marker, byte(p.Kind), byte(p.Codec), p.flags())
	if p.Seq != 0 {
		dst = binary.BigEndian.AppendUint64(dst, p.Seq)
	}
	dst = append(dst, byte(len(p.Name)))
	dst = append(dst, p.Name...)
	if p.Meta != nil {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(p.Meta)))
		dst = append(dst, p.Meta...)
	}
	if p.Correlation != nil {
		dst = append(dst, byte(len(p.Correlation)))
		dst = append(dst, p.Correlation...)
	}
	if p.Flow != nil {
		dst = append(dst, p.Flow...)
		dst = append(dst, p.Origin)
	}
	return append(dst, p.Payload...), nil
}
