package client

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/zlnode/zlnode/internal/codec"
	"github.com/zlnode/zlnode/session"
)

// State is what OnState tells.
type State uint8

// The states of a client.
const (
	StateConnected State = iota + 1
	StateDisconnected
	StateEnded // with Reconnect: no further attempt is made
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case StateConnected:
		return "Connected"
	case StateDisconnected:
		return "Disconnected"
	case StateEnded:
		return "Ended"
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// FrameInfo is a frame as it was received. The packet's slices are views.
type FrameInfo struct {
	session.Packet     // the payload as it stands in the frame, see session.DecodePayload
	Size           int // of the whole frame, in bytes
}

// Message is what the server sent: a push, or the reply to a request. The
// result of Request belongs to the caller for good. A message given to a
// callback is valid, with all its slices, until the callback returns.
type Message struct {
	Name        string // of a push; empty in replies
	Codec       session.Codec
	Metadata    session.Metadata
	Correlation []byte
	Flow        []byte // id of the flow that it belongs to, 36 bytes; nil: none
	FlowOrigin  uint8  // where that began: 1 a client, 2 its session, 3 an object, 4 a node
	Payload     []byte // decompressed
}

// PushNumber returns the number that a push carries whose session can be resumed: 1 for the
// first, one more for each. 0: none. See Client.LastPush.
func (m *Message) PushNumber() uint64 { return m.Metadata.PushNumber() }

// Clone returns a copy that shares no memory with m.
func (m *Message) Clone() *Message {
	c := *m
	c.Metadata = slices.Clone(m.Metadata)
	c.Correlation = slices.Clone(m.Correlation)
	c.Flow = slices.Clone(m.Flow)
	c.Payload = slices.Clone(m.Payload)
	return &c
}

// Decode decodes the payload into v by its codec.
func (m *Message) Decode(v any) error {
	if err := codec.Decode(uint8(m.Codec), m.Payload, v); err != nil {
		return fmt.Errorf("client: %v payload of %q does not fit %T: %w", m.Codec, m.Name, v, err)
	}
	return nil
}

// JSON is Decode of a payload that must be JSON.
func (m *Message) JSON(v any) error {
	if m.Codec != session.CodecJSON {
		return fmt.Errorf("client: payload of %q is %v, not JSON; use Decode", m.Name, m.Codec)
	}
	return m.Decode(v)
}

// Call is one packet to send. The client copies what it needs before the method
// that takes it returns; it modifies nothing.
type Call struct {
	Name        string           // 1 to 255 bytes of UTF-8
	Codec       session.Codec    // of the payload, which has that form: session.CodecJSON and so on; default Raw
	Metadata    session.Metadata // nil: none; see session.NewMetadata
	Correlation []byte           // nil: none; the server sends it back in the reply
	Flow        []byte           // nil: none; else from NewFlow, and the server sends it back in the reply, and with what it pushes in that flow
	Payload     []byte
	// Timeout ends a request. 0 means Options.RequestTimeout. A context with an
	// earlier deadline ends it earlier. Unused by sends.
	Timeout time.Duration
}
