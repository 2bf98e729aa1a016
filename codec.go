package zlnode

import (
	"bytes"
	"encoding/json"
	"io"
)

// Codec says how a payload is encoded.
type Codec uint8

// The codecs and their wire numbers.
const (
	Raw  Codec = 0
	JSON Codec = 1
)

// encodeJSON encodes what typed calls carry.
func encodeJSON(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, Errorf(InvalidOperation, "%T cannot be encoded as JSON: %v", v, err)
	}
	return b, nil
}

// decodeJSON decodes a payload that must be one JSON value of that form. An
// empty one leaves v at its zero value.
func decodeJSON(codec Codec, payload []byte, v any) error {
	if len(payload) == 0 {
		return nil
	}
	if codec != JSON {
		return Errorf(ProtocolError, "the payload has codec %d, JSON is wanted", codec)
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	if err := d.Decode(v); err != nil { // its text names Go types, which is nothing for clients
		return &Error{Kind: ProtocolError, Text: "the payload is not the JSON that is wanted", Err: err}
	}
	if _, err := d.Token(); err != io.EOF {
		return Errorf(ProtocolError, "bytes follow the JSON value")
	}
	return nil
}
