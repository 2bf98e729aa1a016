package zlnode

import (
	"context"

	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/internal/node"
)

// Flow names a piece of work that goes through several objects and nodes: a UUID of version
// 7 and where it began. A client's packet may bring one, with a correlation id, or
// SessionListener.StartFlows gives it one. It is that of the turn that handles the packet,
// and of all that the turn's handler sends, requests and pushes, and so of the turns that
// come of these, at whichever node and also if their object moves meanwhile. Log lines of the
// framework about such a message have "flow" and "correlation".
//
// It takes 30 bytes of the 1,024 that a message's metadata may have between nodes, the
// correlation id another 1 and its own. What has no room beside the application's metadata
// is left out, the correlation id first; the message goes all the same.
//
// The zero value is no flow. A Flow is comparable.
type Flow struct {
	id     flow.ID
	origin flow.Origin
}

// FlowOrigin says where a flow began.
type FlowOrigin = flow.Origin

// The origins.
const (
	FlowOfClient  = flow.OfClient
	FlowOfSession = flow.OfSession
	FlowOfObject  = flow.OfObject // an Actor or a Spot
	FlowOfNode    = flow.OfNode
)

// NewFlow returns a new flow that begins in ctx: of a turn of an object, of a Session's, or
// else of the node.
func NewFlow(ctx context.Context) Flow { return flowFrom(node.NewFlow(ctx)) }

// ParseFlow returns the flow of that id, a lower-case UUID of version 7. InvalidOperation: it
// is none, or there is no such origin.
func ParseFlow(id string, origin FlowOrigin) (Flow, error) {
	known, err := flow.Parse(id)
	if err != nil || origin < FlowOfClient || origin > FlowOfNode {
		return Flow{}, &Error{Kind: InvalidOperation, Op: "flow", Object: id, Text: "a flow has a lower-case UUID of version 7 and an origin of 1 to 4"}
	}
	return Flow{known, origin}, nil
}

// WithFlow returns ctx as one of flow f, or of none: what is sent and requested with it
// belongs to that. The correlation id of ctx stays. A context that is derived from a turn is
// over with the turn.
func WithFlow(ctx context.Context, f Flow) context.Context {
	return node.ContextWithFlow(ctx, f.id, f.origin)
}

// FlowOf returns the flow that ctx belongs to: that of WithFlow, or of the turn.
func FlowOf(ctx context.Context) Flow { return flowFrom(node.FlowOf(ctx)) }

func flowFrom(id flow.ID, origin flow.Origin) Flow { return Flow{id, origin} }

// IsZero reports whether f is no flow.
func (f Flow) IsZero() bool { return f.origin == 0 }

// Origin returns where the flow began; 0 if f is none.
func (f Flow) Origin() FlowOrigin { return f.origin }

// String returns the id, 36 bytes; "" if f is none.
func (f Flow) String() string {
	if f.IsZero() {
		return ""
	}
	return f.id.String()
}

// Flow returns the flow of the turn's message, the zero value if it has none.
func (t *Turn) Flow() Flow { return flowFrom(t.inner.Flow()) }

// Correlation returns the correlation id of the client's packet that has led to this turn;
// "": none.
func (t *Turn) Correlation() string { return t.inner.Correlation() }

// Flow returns the packet's flow, the zero value if it has none.
func (c *SessionCall) Flow() Flow { return flowFrom(c.inner.Flow()) }

// Correlation returns the packet's correlation id; "": none.
func (c *SessionCall) Correlation() string { return c.inner.Correlation() }

// Flow returns the flow that the message belongs to, as Turn's does.
func (c *NodeCall) Flow() Flow { return flowFrom(c.inner.Flow()) }

// Correlation is as Turn's.
func (c *NodeCall) Correlation() string { return c.inner.Correlation() }

// Flow returns the flow that the message belongs to, as Turn's does.
func (c *TopicCall) Flow() Flow { return flowFrom(c.inner.Flow()) }

// Correlation is as Turn's.
func (c *TopicCall) Correlation() string { return c.inner.Correlation() }
