package engine

import (
	"errors"
	"io"
)

var (
	// ErrFull is returned by Send, SendControl and Post when the bound of that
	// queue is reached. The connection goes on; nothing was queued.
	ErrFull = errors.New("engine: the connection's queue is full; send less, wait, or close it")
	// ErrClosed is returned once a connection is closed or closing.
	ErrClosed = errors.New("engine: the connection is closed")
	// ErrEngineClosed is returned by Listen and Dial once Close was called.
	ErrEngineClosed = errors.New("engine: the engine is closed")
	// ErrFrameTooLarge is what a FrameSize function returns, or wraps, for a
	// length over its limit; any other error of it means ProtocolError.
	ErrFrameTooLarge = errors.New("engine: the frame's claimed length is over the limit")
)

// CloseCode says in one word why a connection ended. The set is closed.
type CloseCode uint8

// Codes that the owner of a connection gives, and codes that the engine gives.
// The numbers are internal to the process and may change.
const (
	Requested      CloseCode = iota // the owner closed it; the text says why
	Rejected                        // the peer did not pass the handshake
	Replaced                        // another connection took its place
	Idle                            // no application input for too long
	PeerSilent                      // no sign of life from the peer
	Draining                        // this node is stopping
	PeerClosed                      // orderly end by the peer
	TransportError                  // the socket failed: reset, broken pipe, …
	HelloTimeout                    // not admitted within HelloTimeout
	FrameTimeout                    // a frame did not arrive whole within FrameTimeout
	FrameTooLarge                   // a frame's prefix claims more than the limit
	ProtocolError                   // malformed or forbidden input
	RateExceeded                    // more input than Rate allows
	OutFull                         // control messages reached the bound of the out queue
	OutStalled                      // the peer took no byte for StallTimeout
	EngineClosed                    // Engine.Close
	closeCodeCount = iota
)

var closeCodeNames = [closeCodeCount]string{
	Requested:      "Requested",
	Rejected:       "Rejected",
	Replaced:       "Replaced",
	Idle:           "Idle",
	PeerSilent:     "PeerSilent",
	Draining:       "Draining",
	PeerClosed:     "PeerClosed",
	TransportError: "TransportError",
	HelloTimeout:   "HelloTimeout",
	FrameTimeout:   "FrameTimeout",
	FrameTooLarge:  "FrameTooLarge",
	ProtocolError:  "ProtocolError",
	RateExceeded:   "RateExceeded",
	OutFull:        "OutFull",
	OutStalled:     "OutStalled",
	EngineClosed:   "EngineClosed",
}

// String returns the code's name, fit for logs and metric labels.
func (c CloseCode) String() string {
	if int(c) < len(closeCodeNames) {
		return closeCodeNames[c]
	}
	return "Unknown"
}

// CloseReason tells why a connection ended. Text is for people and may be empty;
// Err is the underlying error, if there is one.
type CloseReason struct {
	Code CloseCode
	Text string
	Err  error
}

// String returns "Code", "Code: text", "Code: error" or "Code: text: error".
func (r CloseReason) String() string {
	s := r.Code.String()
	if r.Text != "" {
		s += ": " + r.Text
	}
	if r.Err != nil {
		s += ": " + r.Err.Error()
	}
	return s
}

// CloseError is an error that closes a connection with a reason of its own, when
// a Handler's OnFrame or a Protocol's FrameSize returns it.
type CloseError struct{ Reason CloseReason }

func (e *CloseError) Error() string { return "engine: connection closed: " + e.Reason.String() }

// Unwrap returns the reason's underlying error.
func (e *CloseError) Unwrap() error { return e.Reason.Err }

// inputReason turns an error of FrameSize or OnFrame into a reason.
func inputReason(err error) CloseReason {
	if ce, ok := errors.AsType[*CloseError](err); ok {
		return ce.Reason
	}
	if errors.Is(err, ErrFrameTooLarge) {
		return CloseReason{Code: FrameTooLarge, Err: err}
	}
	return CloseReason{Code: ProtocolError, Err: err}
}

// transportReason turns what the reactor or a write reports into a reason: end
// of file is the peer's orderly close.
func transportReason(err error) CloseReason {
	if err == nil || errors.Is(err, io.EOF) {
		return CloseReason{Code: PeerClosed}
	}
	return CloseReason{Code: TransportError, Err: err}
}
