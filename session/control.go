package session

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Names of the control frames that exist. ReservedPrefix begins the names that
// belong to the protocol: an application must not use them.
const (
	PingName       = "$zlink.heartbeat.ping"
	PongName       = "$zlink.heartbeat.pong"
	ClosingName    = "session-closing"
	ReservedPrefix = "$zlink."
)

const (
	closingVersion = 1
	closingFixed   = 4 // version, reason, text length
)

// CloseReason is why a session ends, as a session-closing frame carries it.
type CloseReason uint8

// The reasons and their wire numbers.
const (
	ClientClose      CloseReason = 1 // the client asked for it
	IdleTimeout      CloseReason = 2 // no application input for too long
	HeartbeatTimeout CloseReason = 3 // nothing at all was heard for too long
	ServerDrain      CloseReason = 4 // the server is going down
	ProtocolError    CloseReason = 5 // the client broke the wire contract or a limit
	TransportError   CloseReason = 6 // the connection failed
)

// The words with which the text of a session-closing frame begins, alone or followed by
// ": ", if its reason is ServerDrain and the client must not come back by itself.
const (
	WordReplaced = "replaced" // another session has taken its place
	WordKicked   = "kicked"   // the application wants it away
)

// ClosingWord returns the word with which the text of a session-closing frame begins, or
// "" if it is none of those above.
func ClosingWord(diag string) string {
	switch word, _, _ := strings.Cut(diag, ": "); word {
	case WordReplaced, WordKicked:
		return word
	}
	return ""
}

// String returns the reason's name.
func (r CloseReason) String() string {
	switch r {
	case ClientClose:
		return "ClientClose"
	case IdleTimeout:
		return "IdleTimeout"
	case HeartbeatTimeout:
		return "HeartbeatTimeout"
	case ServerDrain:
		return "ServerDrain"
	case ProtocolError:
		return "ProtocolError"
	case TransportError:
		return "TransportError"
	}
	return "CloseReason(" + strconv.Itoa(int(r)) + ")"
}

// Valid reports whether r is one of the reasons above.
func (r CloseReason) Valid() bool { return r >= ClientClose && r <= TransportError }

var pingFrame, pongFrame = heartbeat(PingName), heartbeat(PongName)

func heartbeat(name string) []byte {
	frame, err := Append(nil, &Packet{Kind: KindControl, Name: []byte(name)})
	if err != nil {
		panic("session: heartbeat frame refused: " + err.Error())
	}
	return frame
}

// PingFrame returns the heartbeat ping as a whole frame. It is shared by all
// callers and must not be modified.
func PingFrame() []byte { return pingFrame }

// PongFrame returns the heartbeat pong as a whole frame. It is shared by all
// callers and must not be modified.
func PongFrame() []byte { return pongFrame }

// AppendClosing appends a whole session-closing frame to dst. diag is a short
// text for the other side's log; it is cut at a rune boundary to DiagMax bytes,
// and bytes that are not UTF-8 are replaced. An unknown reason is sent as
// TransportError.
func AppendClosing(dst []byte, reason CloseReason, diag string) []byte {
	if !reason.Valid() {
		reason = TransportError
	}
	diag = cutText(diag, DiagMax)
	header := headerMin + len(ClosingName)
	dst = binary.BigEndian.AppendUint16(dst, uint16(header))
	dst = binary.BigEndian.AppendUint32(dst, uint32(closingFixed+len(diag)))
	dst = append(dst, marker, byte(KindControl), byte(CodecRaw), 0, byte(len(ClosingName)))
	dst = append(dst, ClosingName...)
	dst = append(dst, closingVersion, byte(reason))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(diag)))
	return append(dst, diag...)
}

// ParseClosing takes a session-closing packet apart. Text that is not UTF-8 is
// mended. Any other packet is refused with ReasonControl.
func ParseClosing(p *Packet) (reason CloseReason, diag string, err error) {
	if p.Kind != KindControl || string(p.Name) != ClosingName || !validClosing(p.Payload) {
		return 0, "", refuse(ReasonControl)
	}
	return CloseReason(p.Payload[1]), strings.ToValidUTF8(string(p.Payload[closingFixed:]), "\uFFFD"), nil
}

// checkControl applies the rules of control frames: codec Raw, no sequence, no
// metadata, no flow, not compressed, a name; and the payload that the name asks
// for. Names that are not known pass: CheckInbound judges them.
func (p *Packet) checkControl() Reason {
	if p.Seq != 0 {
		return ReasonSequence
	}
	if p.Codec != CodecRaw || p.Meta != nil || p.Flow != nil || p.Compressed {
		return ReasonControl
	}
	switch string(p.Name) {
	case "":
		return ReasonName
	case PingName, PongName:
		if len(p.Payload) != 0 {
			return ReasonControl
		}
	case ClosingName:
		if !validClosing(p.Payload) {
			return ReasonControl
		}
	}
	return 0
}

// validClosing reports whether b is the payload of a session-closing frame.
func validClosing(b []byte) bool {
	if len(b) < closingFixed || b[0] != closingVersion || !CloseReason(b[1]).Valid() {
		return false
	}
	n := int(binary.BigEndian.Uint16(b[2:]))
	return n <= DiagMax && n == len(b)-closingFixed
}

// isReserved reports whether name belongs to the protocol.
func isReserved(name []byte) bool { return bytes.HasPrefix(name, []byte(ReservedPrefix)) }

// cutText returns s as UTF-8 of at most limit bytes, cut at a rune boundary.
func cutText(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
