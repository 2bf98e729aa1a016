package node

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/session"
)

// This file is how a flow goes from message to message. A turn has that of its message, and
// is the context of what its handler sends; between nodes, in queues and on moves it is an
// entry of the message's metadata (internal/flow). Whatever sends metadata calls leave, and
// whatever begins a turn for a message calls enter.

type flowKey struct{}

// flowOf returns what ctx belongs to, or nil.
func flowOf(ctx context.Context) *flow.Context {
	f, _ := ctx.Value(flowKey{}).(*flow.Context)
	return f
}

// withFlow returns the application's metadata with what f says, as far as that has room. The
// buffer, nil if nothing is added, holds it and is the caller's to free.
func withFlow(f *flow.Context, meta []byte) ([]byte, *buf.Buf) {
	fits := f.Fit(meta)
	if fits.Empty() {
		return meta, nil
	}
	b := buf.Get(flow.Size(&fits, meta))
	flow.Append(b.Bytes()[:0], &fits, meta)
	return b.Bytes(), b
}

// ContextWithFlow returns ctx as one of another flow.
func ContextWithFlow(ctx context.Context, id flow.ID, origin flow.Origin) context.Context {
	var next flow.Context
	if f := flowOf(ctx); f != nil {
		next = *f
		next.Correlation = append([]byte(nil), f.Correlation...) // it may be a view of the turn's message
	}
	next.ID, next.Origin = id, origin
	return context.WithValue(ctx, flowKey{}, &next)
}

// FlowOf returns the flow that ctx belongs to; an origin of 0: none.
func FlowOf(ctx context.Context) (flow.ID, flow.Origin) {
	if f := flowOf(ctx); f != nil {
		return f.ID, f.Origin
	}
	return flow.ID{}, 0
}

// NewFlow makes the id of a flow that begins in ctx.
func NewFlow(ctx context.Context) (flow.ID, flow.Origin) {
	origin := flow.OfNode
	switch t := turnFrom(ctx); {
	case t == nil:
	case t.cell != nil:
		origin = flow.OfObject
	case t.session:
		origin = flow.OfSession
	}
	return newFlowID(), origin
}

// newFlowID makes an id that nobody else makes. It is no secret.
func newFlowID() flow.ID { return flow.New(time.Now().UnixMilli(), rand.Uint64(), rand.Uint64()) }

// enter has the turn belong to what its message's metadata says, and returns the
// application's.
func (t *turnContext) enter(meta []byte) []byte {
	if flow.In(meta) {
		t.flow, meta = flow.Split(meta)
	}
	return meta
}

// Flow returns the flow of the turn's message; an origin of 0: none.
func (t *turnContext) Flow() (flow.ID, flow.Origin) { return t.flow.ID, t.flow.Origin }

// Correlation returns the correlation id of the client's packet by which the turn has come;
// "": none.
func (t *turnContext) Correlation() string { return string(t.flow.Correlation) }

// messageFlow is what a message belongs to. Its Correlation is a view.
func messageFlow(m *message) (f flow.Context) {
	if meta := m.metadata(); flow.In(meta) {
		f, _ = flow.Split(meta)
	}
	return f
}

// applicationMetadata is the metadata of a message without that. It is a view.
func applicationMetadata(m *message) []byte {
	meta := m.metadata()
	if flow.In(meta) {
		_, meta = flow.Split(meta)
	}
	return meta
}

// packetFlow is what a client's packet belongs to. Its Correlation is a view.
func packetFlow(p *session.Packet) (f flow.Context) {
	if p.Flow != nil {
		if id, err := flow.Parse(p.Flow); err == nil { // as its decoder has seen to
			f.ID, f.Origin = id, flow.Origin(p.Origin)
		}
	}
	f.Correlation = p.Correlation
	return f
}

// ownPacket moves a client's packet into a block of its own, without what of its metadata is
// not the application's, and with a flow if it has none and starts is set.
func ownPacket(p *session.Packet, starts bool) *buf.Buf {
	if p.Meta.Reserved() {
		p.Meta = p.Meta.Application()
	}
	if starts = starts && p.Flow == nil; starts {
		p.Flow, p.Origin = noFlow[:], uint8(flow.OfSession)
	}
	b := buf.Get(len(p.Name) + len(p.Meta) + len(p.Correlation) + len(p.Flow) + len(p.Payload))
	ownParts(p, b.Bytes())
	if starts {
		newFlowID().AppendText(p.Flow[:0])
	}
	return b
}

// noFlow has the size of a flow id.
var noFlow [flow.TextSize]byte

// ownParts moves the parts of a packet, but for its payload if that is compressed, into room,
// and returns what is left of it.
func ownParts(p *session.Packet, room []byte) (rest []byte) {
	rest = room
	own := func(part *[]byte) {
		if *part != nil {
			k := copy(rest, *part)
			*part, rest = rest[:k:k], rest[k:]
		}
	}
	own(&p.Name)
	own((*[]byte)(&p.Meta))
	own(&p.Correlation)
	own(&p.Flow)
	if !p.Compressed {
		own(&p.Payload)
	}
	return rest
}

// logFlow adds to a line what it is about.
func logFlow(line *zerolog.Event, f *flow.Context) *zerolog.Event {
	if f == nil {
		return line
	}
	if f.Origin != 0 {
		line.Stringer("flow", f.ID)
	}
	if len(f.Correlation) > 0 {
		line.Str("correlation", clip(string(f.Correlation)))
	}
	return line
}
