package engine

import (
	"fmt"

	"github.com/gobwas/ws"
)

// Transport is what carries the frames of a listener's connections.
type Transport uint8

// The transports.
const (
	// TCP: the frames, one behind the other.
	TCP Transport = iota
	// WS: each frame is a binary message of a WebSocket.
	WS
	// TLS: as TCP, encrypted.
	TLS
	// WSS: as WS, encrypted.
	WSS
	transportCount = iota
)

var transportNames = [transportCount]string{TCP: "tcp", WS: "ws", TLS: "tls", WSS: "wss"}

// String returns the name as it is written in an address: tcp, ws, tls or wss.
func (t Transport) String() string {
	if int(t) < len(transportNames) {
		return transportNames[t]
	}
	return fmt.Sprintf("transport %d", uint8(t))
}

// Messages reports whether a frame is a message of a WebSocket.
func (t Transport) Messages() bool { return t == WS || t == WSS }

// Encrypted reports whether TLS is below the frames.
func (t Transport) Encrypted() bool { return t == TLS || t == WSS }

// closeStatus is what a WebSocket's close frame says of a reason.
func closeStatus(code CloseCode) ws.StatusCode {
	switch code {
	case Draining, EngineClosed:
		return ws.StatusGoingAway
	case ProtocolError:
		return ws.StatusProtocolError
	case FrameTooLarge:
		return ws.StatusMessageTooBig
	case Rejected, RateExceeded:
		return ws.StatusPolicyViolation
	default:
		return ws.StatusNormalClosure
	}
}
