package node

import (
	"context"
	"encoding/hex"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/session"
	"github.com/zlnode/zlnode/store"
)

// This file is the node's spans. Without Config.Tracer none is made, and what a peer says of
// its spans goes on as it came. With one a message says which span has sent it, in the place
// that its flow has (flow.go), and that is the parent of the receiver's span. Names and
// attributes are the program's own; what clients and peers choose is in none of them, but for
// ids if Config.TraceIDs is set.

const (
	attrPacket     = attribute.Key("zlnode.packet")
	attrType       = attribute.Key("zlnode.type")
	attrObject     = attribute.Key("zlnode.object")
	attrSession    = attribute.Key("zlnode.session")
	attrFlow       = attribute.Key("zlnode.flow")
	attrRelocation = attribute.Key("zlnode.relocation")
	attrOperation  = attribute.Key("zlnode.operation")
	attrKind       = attribute.Key("zlnode.error")
)

// startSpan begins a span of the node, which has a Tracer.
func (n *Node) startSpan(ctx context.Context, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	return n.cfg.Tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
}

// endSpan ends a span, if there is one, as err says.
func endSpan(span trace.Span, err *Error) {
	if span == nil {
		return
	}
	failSpan(span, err)
	span.End()
}

// failSpan has a span say that what it is about failed. The error's text may have ids.
func failSpan(span trace.Span, err *Error) {
	if span != nil && err != nil {
		span.SetStatus(codes.Error, err.Kind.String())
		span.SetAttributes(attrKind.String(err.Kind.Code()))
	}
}

// under returns a context whose spans are children of the one that t names.
func under(t flow.Trace) context.Context {
	if t == (flow.Trace{}) {
		return context.Background()
	}
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: t.ID, SpanID: t.Span, TraceFlags: trace.TraceFlags(t.Flags), Remote: true,
	}))
}

// traceOf names a span for a message; a Tracer that does nothing leaves what there was.
func traceOf(span trace.Span, before flow.Trace) flow.Trace {
	c := span.SpanContext()
	if !c.IsValid() {
		return before
	}
	return flow.Trace{ID: c.TraceID(), Span: c.SpanID(), Flags: byte(c.TraceFlags())}
}

// ids adds attributes that tell objects, Sessions and flows apart, if they are wanted.
func (n *Node) ids(span trace.Span, f *flow.Context, more attribute.KeyValue) {
	if !n.cfg.TraceIDs {
		return
	}
	span.SetAttributes(more)
	if f.Origin != 0 {
		span.SetAttributes(attrFlow.String(f.ID.String()))
	}
}

// leave returns the metadata of a message that is sent with ctx, which has what that belongs
// to, and the buffer and span of it, which are nil if there is nothing of the sort: the buffer
// is to be freed once the message is copied, the span ends as the sending does. op, id and
// packet say what is sent to whom.
func (n *Node) leave(ctx context.Context, kind trace.SpanKind, op, id, packet string, meta []byte) ([]byte, *buf.Buf, trace.Span) {
	of := flowOf(ctx)
	if n.cfg.Tracer == nil {
		if of == nil {
			return meta, nil, nil
		}
		with, b := withFlow(of, meta)
		return with, b, nil
	}
	var f flow.Context
	if of != nil {
		f = *of
	}
	_, span := n.startSpan(ctx, op+" "+packet, kind, attrPacket.String(packet))
	n.ids(span, &f, attrObject.String(id))
	f.Trace = traceOf(span, f.Trace)
	with, b := withFlow(&f, meta)
	return with, b, span
}

// belongs reports whether what is sent with ctx needs leave.
func (n *Node) belongs(ctx context.Context) bool { return n.cfg.Tracer != nil || flowOf(ctx) != nil }

// traceTurn begins the span of a turn, which ends with it. The turn's context has it.
func (t *turnContext) traceTurn(name string, kind trace.SpanKind, id attribute.KeyValue, attributes ...attribute.KeyValue) {
	t.traced, t.span = t.node.startSpan(under(t.flow.Trace), name, kind, attributes...)
	t.node.ids(t.span, &t.flow, id)
	t.flow.Trace = traceOf(t.span, t.flow.Trace)
}

// inSpan is traceTurn for a span that has begun before.
func (t *turnContext) inSpan(span trace.Span) {
	t.traced, t.span = trace.ContextWithSpan(context.Background(), span), span
	t.flow.Trace = traceOf(span, t.flow.Trace)
}

// traceMessage is traceTurn for a message to a node or a channel.
func (c *NodeCall) traceMessage() {
	kind := trace.SpanKindConsumer
	if c.served.asks() {
		kind = trace.SpanKindServer
	}
	name, packet := c.service.typ.what(), c.served.packet.name
	c.traceTurn(name+" "+packet, kind, attrObject.String(name), attrType.String(name), attrPacket.String(packet))
}

// traceMessage is traceTurn for a message of a topic, whose names are anybody's word.
func (c *TopicCall) traceMessage() {
	c.traceTurn("subscription", trace.SpanKindConsumer, attrObject.String(c.message.packet.topic))
}

// traceMessage is traceTurn for a message of an object.
func (c *Call) traceMessage() {
	m, kind := c.message, trace.SpanKindConsumer
	if m.asks() {
		kind = trace.SpanKindServer
	}
	name, packet := c.cell.typ.Name, ""
	if c.cell.typ.packets[m.packet.name] != nil { // else it is anybody's word
		packet = m.packet.name
		name += " " + packet
	}
	c.traceTurn(name, kind, attrObject.String(c.cell.ref.ID), attrType.String(c.cell.typ.Name), attrPacket.String(packet))
}

// traceCallback is traceTurn for a callback of an object, which no message asks for.
func (c *Call) traceCallback(what string) {
	t := c.cell.typ.Name
	c.traceTurn(t+" "+what, trace.SpanKindInternal, attrObject.String(c.cell.ref.ID), attrType.String(t))
}

// tracePacket is traceTurn for a client's packet that the Session's handler gets, or that
// waits for its turn to be relayed behind others.
func (c *SessionCall) tracePacket() {
	t, packet := c.conn.port.typ, string(c.packet.Name)
	if !t.knows(packet) {
		packet = ""
	}
	c.traceTurn(t.Name+" "+packet, trace.SpanKindServer, attrSession.Int64(int64(c.conn.id)), attrType.String(t.Name), attrPacket.String(packet))
}

// knows reports whether the type has something for a packet of that name.
func (t *SessionType) knows(packet string) bool {
	_, relayed := t.Relays[packet]
	return relayed || t.Sends[packet] != nil || t.Requests[packet] != nil || t.Auth != nil && packet == t.AuthPacket
}

// relayed is what a packet belongs to that goes to its Actor without a turn of the Session,
// and the span of that, which ends with the packet's answer; nil: none.
func (s *sessionConn) relayed(p *session.Packet) (flow.Context, trace.Span) {
	f, n := packetFlow(p), s.node
	if n.cfg.Tracer == nil {
		return f, nil
	}
	t, packet := s.port.typ, string(p.Name)
	_, span := n.startSpan(context.Background(), t.Name+" "+packet, trace.SpanKindServer, attrType.String(t.Name), attrPacket.String(packet))
	n.ids(span, &f, attrSession.Int64(int64(s.id)))
	f.Trace = traceOf(span, f.Trace)
	return f, span
}

// operationOf names a creation, at the node that asks for it and at the one that runs it.
func operationOf(op store.OpID) attribute.KeyValue {
	return attrOperation.String(hex.EncodeToString(op[:]))
}

// traceCreation begins the span of a creation's part at its target, where the application makes
// the object and decides about it; nil: none. The context has it.
func (n *Node) traceCreation(ctx context.Context, op store.OpID, c *objectCell) (context.Context, trace.Span) {
	if n.cfg.Tracer == nil {
		return ctx, nil
	}
	ctx, span := n.startSpan(ctx, "creation "+c.typ.Name, trace.SpanKindInternal, attrType.String(c.typ.Name), operationOf(op))
	if n.cfg.TraceIDs {
		span.SetAttributes(attrObject.String(c.ref.ID))
	}
	return ctx, span
}

// endOfStaging is why an object did not come to be; nil: it may.
func endOfStaging(e *creation.TargetEvent) *Error {
	switch {
	case e.Failure != nil:
		return &Error{Kind: e.Failure.Kind, Text: e.Failure.Text}
	case e.Reject:
		return &Error{Kind: errkind.Rejected}
	}
	return nil
}

// endOfMove is why a move did not come about; nil: it did.
func endOfMove(e *relay.SourceEnded, known bool) *Error {
	switch {
	case !known:
		return errStopping
	case e.Outcome == relay.SourceMoved:
		return nil
	case e.Failure != nil:
		return &Error{Kind: e.Failure.Kind, Text: e.Failure.Text}
	case e.Outcome == relay.SourceRejected:
		return &Error{Kind: errkind.Rejected}
	}
	return &Error{Kind: errkind.Unavailable}
}

// endOfArrival is endOfMove at the target.
func endOfArrival(e *relay.TargetEffect) *Error {
	switch {
	case e.Outcome == relay.TargetOpened:
		return nil
	case e.Failure != nil:
		return &Error{Kind: e.Failure.Kind, Text: e.Failure.Text}
	}
	return &Error{Kind: errkind.Unavailable}
}

// traceMove begins the span of a move's part at this node; nil: none.
func (n *Node) traceMove(parent flow.Trace, name string, id *moveID, actor, actorType string) trace.Span {
	if n.cfg.Tracer == nil {
		return nil
	}
	_, span := n.startSpan(under(parent), name, trace.SpanKindInternal, attrRelocation.String(hex.EncodeToString(id.relocation[:])), attrType.String(actorType))
	if n.cfg.TraceIDs {
		span.SetAttributes(attrObject.String(actor))
	}
	return span
}
