package zlnode

import (
	"fmt"

	"github.com/zlnode/zlnode/internal/codec"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/session"
)

// Codec says how a payload is encoded. A typed handler takes what the message has and
// replies in the same; senders use JSON unless they ask for another (Addr.As).
type Codec uint8

// The codecs and their wire numbers.
const (
	// Raw: bytes as they are. A typed handler takes them as a []byte.
	Raw = Codec(session.CodecRaw)
	// JSON: integers of 64 bits (int64, uint64 and types of them; not int) are decimal
	// strings, []byte is base64; integers are taken as numbers and as strings. Names
	// of members are case-sensitive, a member that comes twice is an error.
	JSON = Codec(session.CodecJSON)
	// MessagePack: structs are maps by the names that JSON has.
	MessagePack = Codec(session.CodecMessagePack)
	// Protobuf: for types that implement proto.Message, such as *pb.Move.
	Protobuf = Codec(session.CodecProtobuf)
)

// String returns the codec's name.
func (c Codec) String() string { return session.Codec(c).String() }

// encode encodes what typed calls carry.
func encode(c Codec, v any) ([]byte, error) {
	b, err := codec.Encode(uint8(c), v)
	if err != nil {
		return nil, &Error{Kind: InvalidOperation, Text: fmt.Sprintf("%T cannot be encoded as %v", v, c), Err: err}
	}
	return b, nil
}

// decode decodes a payload that must be one value of v's form. An empty one leaves v
// at its zero value.
func decode(c Codec, payload []byte, v any) error {
	if err := codec.Decode(uint8(c), payload, v); err != nil { // its text names Go types, which is nothing for clients
		return &Error{Kind: ProtocolError, Text: fmt.Sprintf("the payload is not the %v that is wanted", c), Err: err}
	}
	return nil
}

// reply encodes a handler's result as its request was, and for one without a codec as
// JSON.
func reply(c Codec, v any, err error) (node.Reply, error) {
	if err != nil {
		return node.Reply{}, err
	}
	if _, bytes := v.([]byte); c == Raw && !bytes {
		c = JSON
	}
	b, err := encode(c, v)
	return node.Reply{Codec: uint8(c), Payload: b}, err
}
