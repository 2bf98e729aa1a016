package zlnode

import (
	"fmt"

	"github.com/zlnode/zlnode/internal/node"
)

// Compression is how the state of a moving object is encoded on its way.
type Compression uint8

// The compressions.
const (
	CompressNone = Compression(node.CompressNone)
	CompressS2   = Compression(node.CompressS2)   // fast
	CompressZstd = Compression(node.CompressZstd) // smaller, and slower
)

// RelocationPolicy says what of an object goes along when it moves to another node. Each
// type has one, the same at all nodes, and it never changes after Start. A move within a
// node needs none: the value stays what it is.
//
// Actors move by a Join to a Spot of another node, and all objects when their node is relocated
// (Node.Relocate).
type RelocationPolicy struct {
	inner   node.Policy
	capture func(value any) ([]byte, error)
	restore func(value any, state []byte) error
	fits    func(value any) bool // the type of its adapter; nil: any
	wrong   string               // what its maker got wrong
}

// The policies without an adapter.
var (
	// DisableRelocation keeps objects of the type where they were created: a Join to another node
	// is Rejected, and Node.Relocate is Blocked while such an object lives at the node.
	DisableRelocation = RelocationPolicy{inner: node.Disable}
	// RecreateOnRelocation has the factory make the value anew at the other node. Queue and
	// timers go along, and nothing of the value does.
	RecreateOnRelocation = RelocationPolicy{inner: node.Recreate}
)

// StateAdapter carries the state of a value from one node to another. The bytes are the
// application's own affair: their form, their version, and what an older program does with
// them.
type StateAdapter[T any] interface {
	// Capture returns the state between two turns. An empty slice is a state, nil is none
	// and fails the move. The bytes must not be changed afterwards.
	Capture(value *T) ([]byte, error)
	// Restore gives it to a value that the factory has just made. The bytes are valid
	// during the call and must not be modified. It may run more than once for one move,
	// each time on a fresh value.
	Restore(value *T, state []byte) error
}

// PreserveStateWith has queue, timers and what the adapter captures go along.
func PreserveStateWith[T any](adapter StateAdapter[T]) RelocationPolicy {
	if adapter == nil {
		return RelocationPolicy{wrong: "PreserveStateWith got no adapter, but nil; without a state the policy is RecreateOnRelocation"}
	}
	return RelocationPolicy{
		inner: node.PreserveState,
		capture: func(value any) ([]byte, error) {
			state, err := adapter.Capture(value.(*T))
			if err == nil && state == nil {
				return nil, Errorf(InternalFailure, "Capture returned neither a state nor an error; an empty state is a slice that is not nil")
			}
			return state, err
		},
		restore: func(value any, state []byte) error { return adapter.Restore(value.(*T), state) },
		fits:    func(value any) bool { _, ok := value.(*T); return ok },
	}
}

// apply makes p the policy of the type, whose values are of value's type.
func (p RelocationPolicy) apply(app *App, t *node.ObjectType, what string, value any) {
	switch {
	case p.wrong != "":
		app.app.Fail("%s %q: %s", what, t.Name, p.wrong)
	case p.inner == 0:
		app.app.Fail("%s %q has no relocation policy; give it DisableRelocation, RecreateOnRelocation or PreserveStateWith", what, t.Name)
	case p.fits != nil && !p.fits(value):
		app.app.Fail("%s %q: the adapter of its relocation policy is one of another type than %s", what, t.Name, fmt.Sprintf("%T", value))
	}
	t.Policy, t.Capture, t.Restore = p.inner, p.capture, p.restore
}
