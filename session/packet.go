package session

import "strconv"

// Kind is the kind of a packet.
type Kind uint8

// The kinds and their wire numbers.
const (
	KindSend     Kind = 1 // one-way message, in either direction
	KindRequest  Kind = 2 // wants one Response or Error
	KindResponse Kind = 3
	KindError    Kind = 4
	KindControl  Kind = 5 // of the protocol itself, never of the application
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindSend:
		return "Send"
	case KindRequest:
		return "Request"
	case KindResponse:
		return "Response"
	case KindError:
		return "Error"
	case KindControl:
		return "Control"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Codec says how a payload is encoded. The protocol carries it and does not
// look inside.
type Codec uint8

// The codecs and their wire numbers.
const (
	CodecRaw         Codec = 0
	CodecJSON        Codec = 1
	CodecMessagePack Codec = 2
	CodecProtobuf    Codec = 3
)

// String returns the codec's name.
func (c Codec) String() string {
	switch c {
	case CodecRaw:
		return "Raw"
	case CodecJSON:
		return "JSON"
	case CodecMessagePack:
		return "MessagePack"
	case CodecProtobuf:
		return "Protobuf"
	}
	return "Codec(" + strconv.Itoa(int(c)) + ")"
}

// Limits of the wire format, in bytes.
const (
	PrefixSize     = 6    // the two lengths before the header
	NameMax        = 255  // of a packet name
	MetadataMax    = 1024 // of an encoded metadata block, when sent
	CorrelationMax = 255  // of a correlation id
	FlowSize       = 36   // of a flow id
	DiagMax        = 512  // of the text in a session-closing frame
)

// Fixed parts of a header.
const (
	marker     = 0xF2
	headerMin  = 5 // marker, kind, codec, flags, name length
	originMax  = 4
	lengthsMax = 1<<32 - 1 // largest payload length
)

// Flags of a header.
const (
	flagSequence    = 0x01
	flagMetadata    = 0x02
	flagCompressed  = 0x04
	flagCorrelation = 0x08
	flagFlow        = 0x10
	flagsKnown      = flagSequence | flagMetadata | flagCompressed | flagCorrelation | flagFlow
)

// Packet is one frame in its parts.
//
// For the optional fields nil means absent; an empty slice that is not nil means
// present with length zero, which is another frame. After Decode all slices are
// views into the frame: they may be read as long as its memory lives and must
// not be written. Append reads them and keeps nothing.
type Packet struct {
	Kind        Kind
	Codec       Codec
	Compressed  bool     // Payload is in its compressed form; see DecodePayload
	Origin      uint8    // of the flow, 1 to 4; 0 without one
	Seq         uint64   // request sequence; 0: absent
	Name        []byte   // UTF-8; empty in Response and Error
	Meta        Metadata // encoded block, valid after Decode; nil: absent
	Correlation []byte   // nil: absent
	Flow        []byte   // lowercase UUIDv7, FlowSize bytes; nil: absent
	Payload     []byte   // as it stands in the frame
}

// ResponseTo returns the header of the answer to req: kind Response, its
// sequence, its flow, and its correlation id unless that is empty (not every
// client takes an empty one). The caller sets codec and payload. The slices are
// views of req's.
func ResponseTo(req *Packet) Packet {
	p := Packet{Kind: KindResponse, Seq: req.Seq, Flow: req.Flow, Origin: req.Origin}
	if len(req.Correlation) > 0 {
		p.Correlation = req.Correlation
	}
	return p
}

// flags returns the flag byte that says which optional fields p has.
func (p *Packet) flags() byte {
	var f byte
	if p.Seq != 0 {
		f |= flagSequence
	}
	if p.Meta != nil {
		f |= flagMetadata
	}
	if p.Compressed {
		f |= flagCompressed
	}
	if p.Correlation != nil {
		f |= flagCorrelation
	}
	if p.Flow != nil {
		f |= flagFlow
	}
	return f
}
