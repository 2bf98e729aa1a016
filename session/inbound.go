package session

// Inbound says what a server does with a packet that a client sent.
type Inbound uint8

// The verdicts of CheckInbound.
const (
	// InboundDeliver: a Send or Request for the application's handler.
	InboundDeliver Inbound = iota + 1
	// InboundPing: answer with PongFrame.
	InboundPing
	// InboundPong: it proves that the client lives, nothing else.
	InboundPong
	// InboundClosing: the client ends the session in an orderly way; close with
	// ClientClose, what was accepted before is still delivered.
	InboundClosing
	// InboundViolation: a client must not send this: a Response or an Error (a
	// server asks clients nothing), an unknown control, or a name that belongs
	// to the protocol. Close with ProtocolError; nothing reaches a handler.
	InboundViolation
)

// CheckInbound judges a decoded packet that came from a client. Only packets
// with the verdict InboundDeliver may reach a handler. An unknown control is
// refused and not ignored: a client that relies on one must learn at once that
// the server does not understand it, and clients treat servers the same way.
func CheckInbound(p *Packet) Inbound {
	switch p.Kind {
	case KindSend, KindRequest:
		if isReserved(p.Name) {
			return InboundViolation
		}
		return InboundDeliver
	case KindControl:
		switch string(p.Name) {
		case PingName:
			return InboundPing
		case PongName:
			return InboundPong
		case ClosingName:
			return InboundClosing
		}
	case KindResponse, KindError:
	}
	return InboundViolation
}

// Event returns what a packet with this verdict is to a Liveness. The last two
// verdicts ask it to close the session.
func (v Inbound) Event() Event {
	switch v {
	case InboundDeliver:
		return Event{Kind: EventInput}
	case InboundPing:
		return Event{Kind: EventPing}
	case InboundPong:
		return Event{Kind: EventPong}
	case InboundClosing:
		return Event{Kind: EventClose, Reason: ClientClose}
	case InboundViolation:
	}
	return Event{Kind: EventClose, Reason: ProtocolError}
}
