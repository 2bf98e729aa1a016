package session

import "unicode/utf8"

// check applies the rules that hold between the fields of a packet, whichever
// way it goes: Decode runs it on what it took apart, Append on what it is about
// to write, so that neither can know a frame that the other refuses. A result of
// 0 means that all hold.
func (p *Packet) check() Reason {
	if p.Codec > CodecProtobuf {
		return ReasonCodec
	}
	switch p.Kind {
	case KindSend:
		if len(p.Name) == 0 {
			return ReasonName
		}
	case KindRequest:
		if p.Seq == 0 {
			return ReasonSequence
		}
		if len(p.Name) == 0 {
			return ReasonName
		}
	case KindResponse, KindError:
		if p.Seq == 0 {
			return ReasonSequence
		}
		if len(p.Name) != 0 {
			return ReasonName
		}
	case KindControl:
		if r := p.checkControl(); r != 0 {
			return r
		}
	default:
		return ReasonKind
	}
	if len(p.Name) > NameMax || !utf8.Valid(p.Name) {
		return ReasonName
	}
	if p.Meta != nil && !p.Meta.valid() {
		return ReasonMetadata
	}
	if len(p.Correlation) > CorrelationMax {
		return ReasonCorrelation
	}
	if p.Flow != nil && (!isFlowID(p.Flow) || p.Origin == 0 || p.Origin > originMax) {
		return ReasonFlow
	}
	return 0
}

// isFlowID reports whether b is a lowercase UUID of version 7 in text form.
func isFlowID(b []byte) bool {
	if len(b) != FlowSize {
		return false
	}
	for i, c := range b {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	variant := b[19]
	return b[14] == '7' && (variant == '8' || variant == '9' || variant == 'a' || variant == 'b')
}
