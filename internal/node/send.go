package node

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

const (
	opSend    = "send"
	opRequest = "request"
)

// Target is an object's id, a node or a channel, as seen from a node.
type Target struct {
	ID       string
	spot     bool      // the id is meant as a User or Instance Spot's
	instance bool      // the message has Instance intent, for the type
	to       addressee // what ID names
	typ      string
	mesh     string      // of a node, a channel, or an Instance Spot that is to be new; "": the only one
	near     *objectCell // the object, if it was here when the Target was made: it saves a look-up until its end
}

// Target returns that of an Actor, or of a Spot.
func (n *Node) Target(id string, spot bool) Target {
	near, _ := n.actors.Load(id)
	return Target{ID: id, spot: spot, near: near}
}

// here returns the object if it is at this node, or was and is followed from here.
func (n *Node) here(to *Target) *objectCell {
	if to.near != nil && !to.near.gone.Load() {
		return to.near
	}
	cell, _ := n.actors.Load(to.ID)
	return cell
}

// Outgoing is a message on its way to an object. The bytes are copied before the
// call returns.
type Outgoing struct {
	Name     string
	Codec    uint8
	Metadata []byte
	Payload  []byte
}

// Incoming is the reply to a request. Its payload is valid until Release.
type Incoming struct {
	Codec   uint8
	Payload []byte
	owner   *buf.Buf
}

// Release gives the payload's memory back. It may be called once, or not at all
// (the memory is then left to the collector).
func (i *Incoming) Release() {
	i.owner.Free()
	i.owner, i.Payload = nil, nil
}

// Send sends a one-way message. It is done when the Actor's queue here, or the
// queue of the link to its node, has taken the message; a later failure there
// does not change that.
func (n *Node) Send(ctx context.Context, to *Target, o *Outgoing) error {
	var err *Error
	if n.belongs(ctx) {
		err = n.sendIn(ctx, to, o)
	} else {
		err = n.sendTo(ctx, to, o)
	}
	if err != nil {
		return err.of(opSend, to.ID)
	}
	return nil
}

// sendIn is sendTo for a message that belongs to a flow, or has a span.
func (n *Node) sendIn(ctx context.Context, to *Target, o *Outgoing) *Error {
	with := *o
	meta, b, span := n.leave(ctx, trace.SpanKindProducer, opSend, to.ID, o.Name, o.Metadata)
	defer b.Free()
	with.Metadata = meta
	err := n.sendTo(ctx, to, &with)
	endSpan(span, err)
	return err
}

func (n *Node) sendTo(ctx context.Context, to *Target, o *Outgoing) *Error {
	if to.to != toObject {
		return n.sendToNode(ctx, to, o)
	}
	if err := fenced(ctx); err != nil {
		return err
	}
	if to.instance {
		keptTo, kept := *to, *o // on the heap, which the other way does without
		return n.sendInstance(ctx, &keptTo, &kept)
	}
	if cell := n.here(to); cell != nil { // where the object checks the rest
		if err := checkSizes(opSend, to.ID, o.Metadata, o.Payload); err != nil {
			return err
		}
		return n.pushHere(ctx, cell, to.spot, sender{kind: msgSend}, o, clock.Never)
	}
	if err := checkContent(opSend, to.ID, o.Name, o.Metadata, o.Payload); err != nil {
		return err
	}
	w, err := n.wayTo(ctx, opSend, to)
	if err == nil {
		err = fenced(ctx) // the Store may have been asked
	}
	switch {
	case err != nil:
		return err
	case w.cell == nil:
		return w.link.send(ctx, n.encode(w.route, to.spot, o, 0, 0))
	}
	return n.pushHere(ctx, w.cell, to.spot, sender{kind: msgSend}, o, clock.Never)
}

// encode makes the record of a message on route r; correlation and deadline are
// those of a request.
func (n *Node) encode(r *route, toSpot bool, o *Outgoing, corr uint64, left time.Duration) *buf.Buf {
	m := wire.ActorMessage{
		ID: []byte(r.ref.ID), Spot: toSpot, OwnerGen: r.ref.OwnerGen, Op: n.operations.Add(1), Correlation: corr,
		Name: []byte(o.Name), Codec: o.Codec, Metadata: o.Metadata, Payload: o.Payload,
	}
	if corr != 0 {
		m.DeadlineMS = wire.DeadlineMS(left)
	}
	b := buf.Get(m.Size())
	m.AppendTo(b.Bytes()[:0])
	return b
}

// Request sends a request and waits for its one end: reply, error, deadline,
// cancellation or shutdown, whichever comes first (FO-03). Without a deadline in
// ctx the node's request timeout holds.
func (n *Node) Request(ctx context.Context, to *Target, o *Outgoing) (Incoming, error) {
	if err := checkContent(opRequest, to.ID, o.Name, o.Metadata, o.Payload); err != nil {
		return Incoming{}, err
	}
	if t := turnFrom(ctx); t != nil && t.cell != nil && to.to == toObject {
		switch {
		case t.cell.gone.Load():
			return Incoming{}, errFenced.of(opRequest, to.ID)
		case t.cell.ref.ID == to.ID:
			return Incoming{}, errSelfRequest.of(opRequest, to.ID)
		case t.joins.holds(to.ID):
			return Incoming{}, errJoinFirst.of(opRequest, to.ID)
		}
	}
	deadline := min(clock.Now().Add(n.cfg.RequestTimeout), deadlineOf(ctx))
	var r result
	if n.belongs(ctx) {
		r = n.requestIn(ctx, to, o, deadline)
	} else {
		r = n.requestFrom(ctx, to, o, deadline)
	}
	if r.err != nil {
		return Incoming{}, r.err.of(opRequest, to.ID)
	}
	return Incoming{Codec: r.codec, Payload: r.payload, owner: r.owner}, nil
}

// requestIn is requestFrom for a request that belongs to a flow, or has a span.
func (n *Node) requestIn(ctx context.Context, to *Target, o *Outgoing, deadline clock.Mono) result {
	with := *o
	meta, b, span := n.leave(ctx, trace.SpanKindClient, opRequest, to.ID, o.Name, o.Metadata)
	defer b.Free()
	with.Metadata = meta
	r := n.requestFrom(ctx, to, &with, deadline)
	endSpan(span, r.err)
	return r
}

func (n *Node) requestFrom(ctx context.Context, to *Target, o *Outgoing, deadline clock.Mono) result {
	if ctx.Value(yieldKey{}) == nil {
		return n.requestTo(ctx, to, o, deadline)
	}
	keptTo, kept := *to, *o // on the heap, which the other way does without
	return n.requestYielding(ctx, &keptTo, &kept, deadline)
}

// requestYielding is requestTo that gives up the turn's gate meanwhile, or sends nothing.
func (n *Node) requestYielding(ctx context.Context, to *Target, o *Outgoing, deadline clock.Mono) (r result) {
	if err := suspend(ctx, func() { r = n.requestTo(ctx, to, o, deadline) }); err != nil {
		return result{err: err}
	}
	return r
}

func (n *Node) requestTo(ctx context.Context, to *Target, o *Outgoing, deadline clock.Mono) result {
	if to.to != toObject {
		return n.requestToNode(ctx, to, o, deadline)
	}
	if to.instance {
		keptTo, kept := *to, *o // see sendTo
		return n.requestInstance(ctx, &keptTo, &kept, deadline)
	}
	w, err := n.wayTo(ctx, opRequest, to)
	if err == nil {
		err = fenced(ctx) // the Store may have been asked
	}
	if err != nil {
		return result{err: err}
	}
	r := n.requestBy(ctx, w, to.spot, o, deadline)
	if r.err == nil || !r.err.stale || w.cell != nil && r.err != errMoved && r.err != errNotHere {
		return r
	}
	// The node asked does not have the Actor, or no longer follows it, so the message was
	// certainly not taken: the route was old, and the present one may be tried (FO-01).
	if w.cell == nil {
		n.routes.forget(to.ID, w.route)
		w, err = n.wayTo(ctx, opRequest, to)
	} else { // what does not follow is in the table for a moment more
		w, err = n.askWay(ctx, opRequest, to)
	}
	if err != nil {
		return result{err: err}
	}
	return n.requestBy(ctx, w, to.spot, o, deadline)
}

func (n *Node) requestBy(ctx context.Context, w way, toSpot bool, o *Outgoing, deadline clock.Mono) result {
	if w.cell != nil {
		return n.requestHere(ctx, w.cell, toSpot, o, deadline)
	}
	return n.requestThere(ctx, w, toSpot, o, deadline)
}

func (n *Node) requestHere(ctx context.Context, cell *objectCell, toSpot bool, o *Outgoing, deadline clock.Mono) result {
	t := turnFrom(ctx)
	if t != nil && t.gate != nil && t.cell != nil && t.cell.sharesGate(cell) {
		return result{err: errSameGate}
	}
	w := waiters.Get().(*waiter)
	round, err := n.local.begin(w)
	if err == nil {
		if err = n.pushHere(ctx, cell, toSpot, sender{kind: msgRequest, to: w, corr: round}, o, deadline); err != nil {
			n.local.end(w, round)
		}
	}
	switch {
	case err != nil:
		waiters.Put(w)
		return result{err: err}
	case t == nil || t.gate == nil:
		return n.local.awaitRound(ctx, w, round, deadline)
	}
	return n.awaitHereInTurn(ctx, w, round, deadline)
}

func (n *Node) awaitHereInTurn(ctx context.Context, w *waiter, round uint64, deadline clock.Mono) (r result) {
	blocking(ctx, func() { r = n.local.awaitRound(ctx, w, round, deadline) })
	return r
}

func (n *Node) requestThere(ctx context.Context, by way, toSpot bool, o *Outgoing, deadline clock.Mono) result {
	l := by.link
	w, corr, err := l.pending.addWaiter()
	if err != nil {
		return result{err: err}
	}
	err = l.sendRequest(ctx, n.encode(by.route, toSpot, o, corr, deadline.Sub(clock.Now())))
	if err != nil {
		return l.pending.abandon(w, corr, err)
	}
	return l.awaitReply(ctx, w, corr, deadline)
}

func (l *linkConn) awaitInTurn(ctx context.Context, w *waiter, corr uint64, deadline clock.Mono) (r result) {
	blocking(ctx, func() { r = l.pending.await(ctx, w, corr, deadline) })
	return r
}

// way is how a message reaches an object: its cell here, or a route and the link
// that it names.
type way struct {
	cell  *objectCell
	route *route
	link  *linkConn
}

// wayTo finds the way to an object. A link that is not there is Unavailable at
// once: nobody else may be asked (FO-02). But an old route may name a node that
// the object has left, or be of an earlier object of another kind, so the Store is
// asked again then.
func (n *Node) wayTo(ctx context.Context, op string, to *Target) (way, *Error) {
	if cell := n.here(to); cell != nil {
		return way{cell: cell}, nil
	}
	if n.stopping.Load() {
		return way{}, errStopping
	}
	// To read the clock would cost as much as the rest: the sweeper's next look is late enough.
	id := to.ID
	if r := n.routes.cached(id, n.lately().Add(sweepEvery)); r != nil && to.fits(r.kind) {
		if l := r.link(); l != nil {
			return way{route: r, link: l}, nil
		}
		if clock.Now().Sub(r.asked) < routeRecheck && !n.isHere(&r.ref) {
			return way{}, r.noLink(op)
		}
	}
	if !wire.ValidID(id) { // it has no route either
		return way{}, fail(errkind.InvalidOperation, op, id, "an id has 1 to %d bytes of UTF-8", idBytesMax)
	}
	return n.askWay(ctx, op, to)
}

// fits reports whether the id is meant as that of an object of such a kind.
func (to *Target) fits(kind store.Kind) bool { return to.spot == (kind != store.Actor) }

// askWay is wayTo by the Store.
func (n *Node) askWay(ctx context.Context, op string, to *Target) (way, *Error) {
	var r *route
	var err *Error
	id := to.ID // what is waited for here keeps no hold of to
	blocking(ctx, func() { r, err = n.routes.read(ctx, op, id) })
	if err != nil {
		return way{}, err
	}
	if !to.fits(r.kind) {
		return way{}, errKind(op, id, r.kind)
	}
	if n.isHere(&r.ref) {
		if cell, ok := n.actors.Load(id); ok { // it was created while the Store was asked
			return way{cell: cell}, nil
		}
		return way{}, errNotFoundHere
	}
	if l := r.link(); l != nil {
		return way{route: r, link: l}, nil
	}
	return way{}, r.noLink(op)
}

// isHere reports whether ref is at this process.
func (n *Node) isHere(ref *ActorRef) bool {
	return ref.RID == n.cfg.RID && ref.Lifecycle == n.id.Lifecycle
}

// pushHere admits a message for an object of this node. When the node stops, only a Spot's
// OnClosing still has its members do something, as they have no such callback themselves.
func (n *Node) pushHere(ctx context.Context, cell *objectCell, toSpot bool, s sender, o *Outgoing, deadline clock.Mono) *Error {
	switch {
	case n.stopping.Load() && !turnFrom(ctx).closes(cell):
		return errStopping
	case !n.mayAct(n.lately()):
		return errNotOwner
	}
	if toSpot == (cell.typ.Kind == store.Actor) {
		return errKind("message", cell.ref.ID, cell.typ.Kind)
	}
	return cell.push(s, o, deadline, nil)
}

// askPeer sends a control request to a peer of the mesh and waits for its end.
func (n *Node) askPeer(ctx context.Context, mesh, rid string, lifecycle uint64, deadline clock.Mono, record func(corr uint64) wire.Record) result {
	l, away := n.linkTo(mesh, rid, lifecycle)
	if away != nil {
		return result{err: away}
	}
	w, corr, err := l.pending.addWaiter()
	if err != nil {
		return result{err: err}
	}
	l.sendControl(record(corr))
	return l.pending.await(ctx, w, corr, deadline)
}

// deadlineOf returns the deadline of a context that has one.
func deadlineOf(ctx context.Context) clock.Mono {
	at, ok := ctx.Deadline()
	if !ok {
		return clock.Never
	}
	return clock.At(at)
}

// remaining returns what is left of the deadline of a context that has one.
func remaining(ctx context.Context) time.Duration {
	return max(deadlineOf(ctx).Sub(clock.Now()), time.Millisecond)
}
