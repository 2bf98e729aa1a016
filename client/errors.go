package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/gobwas/ws"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/session"
)

// Kind says what sort of failure an operation ended with.
type Kind = errkind.Kind

// The kinds.
const (
	NotFound         = errkind.NotFound
	AlreadyExists    = errkind.AlreadyExists
	TypeMismatch     = errkind.TypeMismatch
	NotConfigured    = errkind.NotConfigured
	Rejected         = errkind.Rejected
	Unavailable      = errkind.Unavailable
	CapacityExceeded = errkind.CapacityExceeded
	DeadlineExceeded = errkind.DeadlineExceeded
	ShuttingDown     = errkind.ShuttingDown
	ProtocolError    = errkind.ProtocolError
	InvalidOperation = errkind.InvalidOperation
	DataLost         = errkind.DataLost
	InternalFailure  = errkind.InternalFailure
)

// What an *Error wraps, for errors.Is.
var (
	// ErrDisconnected: there is no connection, or it was lost while the request
	// was under way. Kind Unavailable.
	ErrDisconnected = errors.New("not connected to the server")
	// ErrClosed: the client was closed. Kind ShuttingDown.
	ErrClosed = errors.New("the client is closed")
	// ErrRequestTimeout: no reply came in time. Kind DeadlineExceeded.
	ErrRequestTimeout = errors.New("no reply in time")
	// ErrSendTimeout: the out queue had no room in time. Kind DeadlineExceeded.
	ErrSendTimeout = errors.New("the server takes data too slowly and the out queue stayed full; send less or raise OutQueueBytes")
	// ErrQueueFull: the out queue has no room and the call does not wait. Kind
	// CapacityExceeded.
	ErrQueueFull = errors.New("the out queue is full; send less or raise OutQueueBytes")
	// ErrTooManyPending: MaxPending requests are under way. Kind CapacityExceeded.
	ErrTooManyPending = errors.New("too many requests under way; wait for replies or raise MaxPending")
	// ErrFrameTooLarge: the frame is larger than OutQueueBytes. Kind CapacityExceeded.
	ErrFrameTooLarge = errors.New("the frame is larger than the out queue; send less or raise OutQueueBytes")
	// ErrSilent: nothing was received for SilenceTimeout, or nothing could be
	// written for as long. Cause of a lost connection.
	ErrSilent = errors.New("the server fell silent")
	// ErrProtocol: the server sent what a server must not send. Cause of a lost
	// connection.
	ErrProtocol = errors.New("the server broke the protocol")
)

var errReservedName = errors.New("names that begin with " + session.ReservedPrefix + " belong to the protocol; choose another")

// Error is how a call failed on this side of the connection. errors.Is and
// errors.As reach the cause: one of the sentinels above, and with
// ErrDisconnected also what ended the connection, such as a *ClosedError.
type Error struct {
	Kind Kind
	Op   string // "dial", "send" or "request"
	Name string // of the packet, or the address
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("client: %s %q: %v", e.Op, e.Name, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, client.Unavailable) work.
func (e *Error) Is(target error) bool { return isKind(e.Kind, target) }

// RemoteError is an Error frame: the server's answer to a request that failed
// there.
type RemoteError struct {
	Kind    Kind
	Name    string // of the request's packet
	Message string
}

// Error implements error.
func (e *RemoteError) Error() string {
	return fmt.Sprintf("client: request %q: the server answered %s: %s", e.Name, e.Kind.Code(), e.Message)
}

// Is makes errors.Is(err, client.Rejected) work.
func (e *RemoteError) Is(target error) bool { return isKind(e.Kind, target) }

func isKind(k Kind, target error) bool { return target == error(k) } //nolint:errorlint // an Is method compares, it does not unwrap

// ClosedError is the reason that the server gave before it closed the session.
type ClosedError struct {
	Reason session.CloseReason
	Diag   string // for logs, but for a word that it may begin with: see session.ClosingWord
}

// Error implements error.
func (e *ClosedError) Error() string {
	if e.Diag == "" {
		return fmt.Sprintf("the server closed the session: %v", e.Reason)
	}
	return fmt.Sprintf("the server closed the session: %v (%s)", e.Reason, e.Diag)
}

// ShouldReconnect reports whether a new connection may do better than the one that
// cause ended. It may not if the server closed the session for a ProtocolError, which
// is also what a client is told that did not authenticate, or on purpose (ClientClose, or
// a text that begins with session.WordReplaced or WordKicked); if the server broke the
// protocol (ErrProtocol); and after the statuses of a WebSocket that say the same: 1002,
// 1003, 1007, 1008, 1009. See Options.ReconnectIf.
func ShouldReconnect(cause error) bool {
	if told, ok := errors.AsType[*ClosedError](cause); ok {
		return told.Reason != session.ProtocolError && told.Reason != session.ClientClose && session.ClosingWord(told.Diag) == ""
	}
	if status, ok := errors.AsType[*StatusError](cause); ok {
		switch ws.StatusCode(status.Code) {
		case ws.StatusProtocolError, ws.StatusUnsupportedData, ws.StatusInvalidFramePayloadData,
			ws.StatusPolicyViolation, ws.StatusMessageTooBig:
			return false
		default:
			return true
		}
	}
	return !errors.Is(cause, ErrProtocol)
}

// KindOf returns the kind of an error that this package returned, and whether it
// has one.
func KindOf(err error) (Kind, bool) {
	if remote, ok := errors.AsType[*RemoteError](err); ok {
		return remote.Kind, true
	}
	if local, ok := errors.AsType[*Error](err); ok {
		return local.Kind, true
	}
	return InternalFailure, false
}

// fail returns the *Error of a call that ended with cause.
func fail(op, name string, cause error) error {
	return &Error{Kind: kindOfCause(cause), Op: op, Name: name, Err: cause}
}

func kindOfCause(cause error) Kind {
	switch {
	case errors.Is(cause, ErrClosed):
		return ShuttingDown
	case errors.Is(cause, ErrDisconnected):
		return Unavailable
	case errors.Is(cause, ErrRequestTimeout), errors.Is(cause, ErrSendTimeout),
		errors.Is(cause, context.DeadlineExceeded), errors.Is(cause, context.Canceled):
		return DeadlineExceeded
	case errors.Is(cause, ErrTooManyPending), errors.Is(cause, ErrFrameTooLarge),
		errors.Is(cause, ErrQueueFull):
		return CapacityExceeded
	}
	return InvalidOperation
}

// disconnected returns ErrDisconnected together with what ended the connection.
func disconnected(cause error) error {
	if cause == nil || errors.Is(cause, ErrClosed) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrDisconnected, cause)
}
