package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// Error is how every failed operation ends. errors.Is(err, kind) is true for
// its kind. It carries no advice to retry (FO-04): what a caller does next
// follows from the kind and from what the operation is.
type Error struct {
	Kind   errkind.Kind
	Op     string // such as "request" or "create actor"
	Object string // the actor, node or address that it was about; may be empty
	Text   string // what happened and, where it helps, what to do
	Err    error  // cause; may be nil

	// application: the text is the application's own and may be shown to clients.
	application bool
	// stale: the node asked does not have the object, so the route is wrong
	// and the message was certainly not taken.
	stale bool
	// defect: the node itself found that the handler is wrong, or who asked.
	defect bool
}

// Error says what happened, to which object, and why.
func (e *Error) Error() string {
	s := "zlnode: " + e.about() + e.Kind.String()
	if e.Text != "" {
		s += ": " + e.Text
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// about says which operation on which object failed.
func (e *Error) about() string {
	switch {
	case e.Op == "" && e.Object == "":
		return ""
	case e.Object == "":
		return e.Op + ": "
	case e.Op == "":
		return fmt.Sprintf("%q: ", e.Object)
	}
	return fmt.Sprintf("%s %q: ", e.Op, e.Object)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, errkind.X) work.
func (e *Error) Is(target error) bool {
	k, ok := target.(errkind.Kind)
	return ok && k == e.Kind
}

func fail(kind errkind.Kind, op, object, format string, args ...any) *Error {
	return &Error{Kind: kind, Op: op, Object: object, Text: fmt.Sprintf(format, args...)}
}

// KindOf returns the kind of an error: that of the *Error in its chain, of the
// context's end, or InternalFailure.
func KindOf(err error) errkind.Kind {
	var e *Error
	var k errkind.Kind
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.As(err, &k) && k.Valid():
		return k
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return errkind.DeadlineExceeded
	}
	return errkind.InternalFailure
}

// fromContext turns the end of a context into an error of the operation.
func fromContext(ctx context.Context, op, object string) *Error {
	err := ctx.Err()
	text := "the deadline passed; the operation may still take effect"
	if errors.Is(err, context.Canceled) {
		text = "the caller gave up; the operation may still take effect"
	}
	return &Error{Kind: errkind.DeadlineExceeded, Op: op, Object: object, Text: text, Err: err}
}

// fromStore turns a Store error into one of the operation. An unknown outcome
// that the caller cannot settle is Unavailable, never success or refusal.
func fromStore(err error, op, object string) *Error {
	e := &Error{Kind: errkind.Unavailable, Op: op, Object: object, Err: err}
	switch {
	case errors.Is(err, store.ErrUnknown):
		e.Text = "the Store's answer was lost; read the object again before deciding"
	case errors.Is(err, store.ErrUnavailable):
		e.Text = "the Store does not answer"
	case errors.Is(err, store.ErrInvalid):
		e.Kind = errkind.InvalidOperation
	case errors.Is(err, store.ErrCorrupt):
		e.Kind = errkind.DataLost
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e.Kind = errkind.DeadlineExceeded
	default:
		e.Kind = errkind.InternalFailure
	}
	return e
}

// tellsOfDefect reports whether something is wrong with a program: with a handler, or with
// who asked. Then the handler's node logs it, as a client is told the kind alone. What the
// application says by its own error, or what may be otherwise soon, is none.
func (e *Error) tellsOfDefect() bool {
	switch e.Kind {
	case errkind.InternalFailure:
		return true
	case errkind.ProtocolError, errkind.InvalidOperation, errkind.NotConfigured, errkind.DataLost:
		return !e.application
	default:
		return e.defect
	}
}

// isSenders reports whether the sender of a packet alone has caused the error, whoever it is:
// there is no such handler, or the payload is not of its form.
func (e *Error) isSenders() bool {
	return e.Kind == errkind.ProtocolError && !e.application || e.Kind == errkind.NotFound && e.defect
}

// ofDefect returns a new error with that mark.
func (e *Error) ofDefect() *Error {
	e.defect = true
	return e
}

var errFenced = &Error{
	Kind: errkind.Unavailable,
	Text: "the object whose handler this is has ended at this node; return, and leave what is to be done to its present owner",
}

// Errorf makes an error of application code, whose kind and text reach the
// caller, a client included.
func Errorf(kind errkind.Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Text: fmt.Sprintf(format, args...), application: true}
}

// clientTexts is what a client is told of failures that are not the
// application's: nothing about the inside of the server.
var clientTexts = [errkind.Count]string{
	errkind.NotFound:         "not found",
	errkind.AlreadyExists:    "it exists already",
	errkind.TypeMismatch:     "it is of another type",
	errkind.NotConfigured:    "the server does not offer this",
	errkind.Rejected:         "rejected",
	errkind.Unavailable:      "unavailable now",
	errkind.CapacityExceeded: "too much at once",
	errkind.DeadlineExceeded: "no answer in time",
	errkind.ShuttingDown:     "the server is shutting down",
	errkind.ProtocolError:    "malformed request",
	errkind.InvalidOperation: "not allowed now",
	errkind.DataLost:         "data lost",
	errkind.InternalFailure:  "internal failure",
}

// clientText returns what a client may read of the error.
func (e *Error) clientText() string {
	if e.application && e.Text != "" {
		return e.Text
	}
	return clientTexts[e.Kind]
}

// onWire is what another node is told beside the kind.
func (e *Error) onWire() string {
	switch {
	case e.Err == nil:
		return e.Text
	case e.Text == "":
		return e.Err.Error()
	default:
		return e.Text + ": " + e.Err.Error()
	}
}

// clip bounds what user data may put into one log field.
func clip(s string) string {
	const most = 256
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// storeFailure names a Store error by the operation's deadline if that ended it.
func (n *Node) storeFailure(ctx context.Context, err error, id string) *Error {
	if ctx.Err() != nil {
		return fromContext(ctx, opCreate, id)
	}
	return fromStore(err, opCreate, id)
}
