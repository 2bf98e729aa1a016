package session

import "strconv"

// Reason says which rule of the wire contract a frame breaks.
type Reason uint8

// The reasons, in the order in which a decoder can meet them.
const (
	ReasonTooLarge     Reason = iota + 1 // header plus payload exceed the receive cap
	ReasonHeaderLength                   // the header cannot hold its fixed fields
	ReasonTruncated                      // the frame ends before its lengths say
	ReasonTrailing                       // bytes follow the last field or the payload
	ReasonMarker                         // the first header byte is not 0xF2
	ReasonKind                           // unknown kind
	ReasonCodec                          // unknown codec
	ReasonFlags                          // an unknown flag bit is set
	ReasonSequence                       // request sequence missing, zero or not allowed for the kind
	ReasonName                           // name missing, not allowed for the kind, too long or not UTF-8
	ReasonMetadata                       // metadata block malformed, key empty or given twice, or not UTF-8
	ReasonMetadataSize                   // metadata over MetadataMax, when sending
	ReasonCorrelation                    // correlation id cut short or too long
	ReasonFlow                           // flow id is no lowercase UUIDv7, or its origin is not 1 to 4
	ReasonControl                        // a control frame carries what its name does not allow
	ReasonPayload                        // compressed payload malformed
	ReasonPayloadSize                    // decompressed payload exceeds the receive cap
	ReasonErrorBody                      // payload of an Error is not {"code","message"}
	reasonEnd
)

var reasonText = [reasonEnd]string{
	ReasonTooLarge:     "frame exceeds the receive cap; send smaller messages or raise the cap",
	ReasonHeaderLength: "header length is below its fixed fields; the peer does not speak STREAM",
	ReasonTruncated:    "frame ends before its lengths say; the peer's encoder is broken",
	ReasonTrailing:     "frame has bytes after its last field; the peer's encoder is broken",
	ReasonMarker:       "format marker is not 0xF2; the peer does not speak this version of STREAM",
	ReasonKind:         "kind is unknown; use Send, Request, Response, Error or Control",
	ReasonCodec:        "codec is unknown; use Raw, JSON, MessagePack or Protobuf",
	ReasonFlags:        "unknown flag bit is set; the peer speaks a newer version",
	ReasonSequence:     "request sequence is missing, zero or not allowed; only Request, Response and Error need one",
	ReasonName:         "name is missing, not allowed, over 255 bytes or not UTF-8; Send, Request and Control need one",
	ReasonMetadata:     "metadata is malformed; keys must be non-empty and unique, keys and values UTF-8",
	ReasonMetadataSize: "metadata exceeds 1024 bytes encoded; send less",
	ReasonCorrelation:  "correlation id is cut short or over 255 bytes",
	ReasonFlow:         "flow must be a 36-byte lowercase UUIDv7 with an origin of 1 to 4",
	ReasonControl:      "control frame carries what its name does not allow; the peer's encoder is broken",
	ReasonPayload:      "compressed payload is malformed; the peer's encoder is broken",
	ReasonPayloadSize:  "decompressed payload exceeds the receive cap; send smaller messages or raise the cap",
	ReasonErrorBody:    `error payload is not {"code","message"}; the peer's encoder is broken`,
}

// String returns what is wrong and what to do about it.
func (r Reason) String() string {
	if r == 0 || r >= reasonEnd {
		return "reason " + strconv.Itoa(int(r))
	}
	return reasonText[r]
}

// DecodeError says why a frame is refused: by Decode, which closes the
// connection it came from, or by Append, which writes nothing.
type DecodeError struct{ Reason Reason }

// Error implements error.
func (e *DecodeError) Error() string { return "session: " + e.Reason.String() }

// decodeErrors holds the one error of each reason, so that a flood of malformed
// frames costs no memory.
var decodeErrors = func() (t [reasonEnd]DecodeError) {
	for r := range t {
		t[r].Reason = Reason(r)
	}
	return t
}()

func refuse(r Reason) error { return &decodeErrors[r] }
