package node

import (
	"context"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// This file is the way of a message to an Instance Spot, which comes into being with it if
// there is none. As long as the Spot is known to be Ready the message goes straight there;
// else an Intent finds the node that gets it.

// InstanceTarget returns the target of messages that bring an Instance Spot of that type
// into being if there is none. With typ "" only a Spot that exists gets them.
func (n *Node) InstanceTarget(id, typ string) Target {
	t := n.Target(id, true)
	t.instance, t.typ = true, typ
	return t
}

// InMesh returns the target in that mesh: a node or channel of it, or an Instance Spot that is
// to be new there.
func (t Target) InMesh(mesh string) Target {
	t.mesh = mesh
	return t
}

// instanceKind returns the kind of a message to an Instance Spot. typed says that it names
// a type, asks that its sender wants a reply, waits that the sender of a one-way message
// waits until a queue has taken it.
func instanceKind(typed, asks, waits bool) messageKind {
	switch {
	case typed && asks:
		return msgIntentRequest
	case asks:
		return msgRequest
	case waits:
		return msgOffer
	case typed:
		return msgIntentSend
	}
	return msgSend
}

func (n *Node) sendInstance(ctx context.Context, to *Target, o *Outgoing) *Error {
	if err := n.checkInstance(opSend, to, o); err != nil {
		return err
	}
	if cell := n.here(to); cell != nil {
		err := n.pushInstance(cell, to.typ, sender{kind: instanceKind(to.typ != "", false, false)}, o, clock.Never)
		if err == nil || !err.stale {
			return err
		}
	} else if r, l := n.instanceRoute(to); l != nil {
		return l.send(ctx, n.encodeInstance(to, r, o, 0, false, 0))
	}
	deadline := min(clock.Now().Add(n.cfg.CreateTimeout), deadlineOf(ctx))
	r := n.intend(ctx, to, o, deadline, false)
	r.owner.Free()
	return r.err
}

func (n *Node) requestInstance(ctx context.Context, to *Target, o *Outgoing, deadline clock.Mono) result {
	if err := n.checkInstance(opRequest, to, o); err != nil {
		return result{err: err}
	}
	if cell := n.here(to); cell != nil {
		r := n.askHere(ctx, instanceKind(to.typ != "", true, true), deadline, func(s sender) *Error {
			return n.pushInstance(cell, to.typ, s, o, deadline)
		})
		if r.err == nil || !r.err.stale {
			return r
		}
	} else if route, l := n.instanceRoute(to); l != nil {
		r, sent := n.askInstance(ctx, l, to, route, o, deadline, true)
		if sent && (r.err == nil || !r.err.stale) {
			return r
		}
		n.routes.forget(to.ID, route)
	}
	return n.intend(ctx, to, o, deadline, true)
}

func (n *Node) checkInstance(op string, to *Target, o *Outgoing) *Error {
	switch {
	case n.store == nil:
		return errNoStore(op, to.ID)
	case !wire.ValidID(to.ID):
		return fail(errkind.InvalidOperation, op, to.ID, "an id has 1 to %d bytes of UTF-8", idBytesMax)
	case n.stopping.Load():
		return errStopping
	}
	return checkContent(op, to.ID, o.Name, o.Metadata, o.Payload)
}

// instanceRoute returns a fresh route to a Ready Spot that fits the target, with the link
// that it names; else nil.
func (n *Node) instanceRoute(to *Target) (*route, *linkConn) {
	r := n.routes.cached(to.ID, clock.Now())
	if r == nil || r.kind != store.InstanceSpot || to.typ != "" && r.typ != to.typ {
		return nil, nil
	}
	return r, r.link()
}

// pushInstance admits a message for a Spot of this node from this node.
func (n *Node) pushInstance(cell *objectCell, typ string, s sender, o *Outgoing, deadline clock.Mono) *Error {
	if !n.mayAct(n.lately()) {
		return errNotOwner
	}
	return cell.offer(typ, s, o, deadline, nil)
}

// intend takes a message to the node that has the Spot or that is to have it. ctx and
// deadline end the search, and the wait for the end of what asks or is offered.
func (n *Node) intend(ctx context.Context, to *Target, o *Outgoing, deadline clock.Mono, asks bool) result {
	switch {
	case entryIDForm.MatchString(to.ID):
		return result{err: fail(errkind.InvalidOperation, "", to.ID, "ids of this form are reserved for Entry Spots")}
	case to.typ != "" && !stableType.MatchString(to.typ):
		return result{err: fail(errkind.InvalidOperation, "", to.ID, "%q is no stable type", to.typ)}
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Time())
	defer cancel()
	i := creation.NewIntent(creation.IntentCall{ID: to.ID, Type: to.typ, Deadline: deadline}, createTiming)
	var answer result
	for {
		e, ok := i.Effect()
		ev := creation.IntentEvent{Is: creation.IntentTick}
		switch {
		case !ok:
			at, _ := i.NextDeadline()
			if blocking(ctx, func() { pause(ctx, at.Sub(clock.Now())) }); ctx.Err() != nil {
				ev.Is = creation.IntentAbandoned
			}
		case e.Do == creation.IntentRead:
			ev = n.intentRow(ctx, to.ID)
		case e.Do == creation.IntentChoose:
			ev = n.intentNode(to, e.Excluded)
		case e.Do == creation.IntentSubmit:
			if answer.err = fenced(ctx); answer.err != nil { // the Store was asked meanwhile
				return answer
			}
			answer, ev = n.submit(ctx, &e, to, o, deadline, asks)
		case e.Do == creation.IntentCancel:
			blocking(ctx, func() {
				_, _ = n.store.CancelCreation(ctx, to.ID, e.Row.ObjectGen, e.Row.Version) // the row tells
			})
			n.routes.drop(to.ID)
			ev.Is = creation.IntentCancelled
		case e.Do == creation.IntentEnd:
			if e.Failure != nil {
				return result{err: failed(e.Failure, to.ID)}
			}
			return answer
		}
		i.Step(clock.Now(), ev)
	}
}

// failed makes an error of what a core says.
func failed(f *creation.Failure, id string) *Error {
	if f.Err != nil {
		return fromStore(f.Err, "", id)
	}
	return fail(f.Kind, "", id, "%s", f.Text)
}

func (n *Node) intentRow(ctx context.Context, id string) (ev creation.IntentEvent) {
	ev.Is = creation.IntentRow
	blocking(ctx, func() {
		got, err := n.routes.share(ctx, "", id)
		switch {
		case err != nil:
			ev.Is = creation.IntentAbandoned
		case got.Err != nil:
			ev.Err = got.Err
		default:
			if row := got.Val.(snapshot).row; row != nil {
				ev.Row, ev.Found = *row, true
			}
		}
	})
	return ev
}

func (n *Node) intentNode(to *Target, excluded map[string]bool) creation.IntentEvent {
	m, err := n.chooseMesh("", "", to.mesh)
	if err != nil {
		return creation.IntentEvent{Is: creation.IntentChosen, Failure: failureOf(err)}
	}
	d, err := n.chooseTarget(m.cfg.Name, typeKey{store.InstanceSpot, to.typ}, excluded, "")
	if err != nil {
		return creation.IntentEvent{Is: creation.IntentChosen, Failure: failureOf(err)}
	}
	return creation.IntentEvent{Is: creation.IntentChosen, To: creation.IntentNode{RID: d.RID, Mesh: d.Mesh, Lifecycle: d.Lifecycle}}
}

// submit gives the message to a node, and waits for the end of it there, if it is not a
// one-way message to a Spot that is Ready.
func (n *Node) submit(
	ctx context.Context, e *creation.IntentEffect, to *Target, o *Outgoing, deadline clock.Mono, asks bool,
) (r result, ev creation.IntentEvent) {
	sent := true
	l, away := n.linkTo(e.To.Mesh, e.To.RID, uint64(e.To.Lifecycle))
	switch {
	case e.To.RID == n.cfg.RID && e.To.Lifecycle == n.lifecycle():
		r = n.askHere(ctx, instanceKind(to.typ != "", asks, true), deadline, func(s sender) *Error {
			cell, _ := n.actors.Load(to.ID)
			return n.offerHere(cell, to.ID, to.typ, s, o, deadline, nil)
		})
	case away != nil:
		r.err, sent = away, false
	case e.Ready && !asks:
		r.err = l.send(ctx, n.encodeInstance(to, nil, o, 0, false, 0))
		sent = r.err == nil
	default:
		r, sent = n.askInstance(ctx, l, to, nil, o, deadline, asks)
	}
	switch {
	case !sent:
		return r, creation.IntentEvent{Is: creation.IntentUnreached, Failure: failureOf(r.err)}
	case r.err != nil && r.err.stale:
		return r, creation.IntentEvent{
			Is: creation.IntentRefused, Failure: failureOf(r.err),
			Full: r.err.Kind == errkind.CapacityExceeded, Elsewhere: r.err.Kind == errkind.AlreadyExists,
		}
	}
	return r, creation.IntentEvent{Is: creation.IntentTaken}
}

// askHere pushes a message of this node and waits for its end.
func (n *Node) askHere(ctx context.Context, kind messageKind, deadline clock.Mono, push func(sender) *Error) (r result) {
	w := waiters.Get().(*waiter)
	round, err := n.local.begin(w)
	if err == nil {
		if err = push(sender{kind: kind, to: w, corr: round}); err != nil {
			n.local.end(w, round)
		}
	}
	if err != nil {
		waiters.Put(w)
		return result{err: err}
	}
	blocking(ctx, func() { r = n.local.awaitRound(ctx, w, round, deadline) })
	return r
}

// askInstance sends a message to another node and waits for its end. sent is false if it
// certainly never left.
func (n *Node) askInstance(
	ctx context.Context, l *linkConn, to *Target, by *route, o *Outgoing, deadline clock.Mono, asks bool,
) (r result, sent bool) {
	w, corr, err := l.pending.addWaiter()
	if err != nil {
		return result{err: err}, false
	}
	if err = l.send(ctx, n.encodeInstance(to, by, o, corr, asks, deadline)); err != nil {
		return l.pending.abandon(w, corr, err), false
	}
	blocking(ctx, func() { r = l.pending.await(ctx, w, corr, deadline) })
	return r, true
}

// encodeInstance makes the record of a message; by is the route it takes, if any.
func (n *Node) encodeInstance(to *Target, by *route, o *Outgoing, corr uint64, asks bool, deadline clock.Mono) *buf.Buf {
	m := wire.InstanceMessage{
		ID: []byte(to.ID), Type: []byte(to.typ), Op: n.operations.Add(1), Correlation: corr, Asks: asks,
		Name: []byte(o.Name), Codec: o.Codec, Metadata: o.Metadata, Payload: o.Payload,
	}
	if by != nil {
		m.OwnerGen = by.ref.OwnerGen
	}
	if corr != 0 {
		m.DeadlineMS = wire.DeadlineMS(deadline.Sub(clock.Now()))
	}
	b := buf.Get(m.Size())
	m.AppendTo(b.Bytes()[:0])
	return b
}

// instanceMessage admits a message with Instance intent of a peer, or refuses it.
func (l *linkConn) instanceMessage(m *wire.InstanceMessage, owner *buf.Buf, paid uint32) {
	n, waits := l.node, m.Correlation != 0
	s := sender{kind: instanceKind(len(m.Type) > 0, m.Asks, waits), link: l, paid: paid, corr: m.Correlation}
	o := Outgoing{Name: buf.View(m.Name), Codec: m.Codec, Metadata: m.Metadata, Payload: m.Payload}
	err := errNotHere
	if l.mesh == n.home {
		cell, _ := n.actors.LoadBytes(m.ID)
		err = n.offerHere(cell, buf.View(m.ID), buf.View(m.Type), s, &o, deadlineAfter(m.DeadlineMS), &arrival{owner: owner})
	}
	if err == nil {
		return
	}
	if !waits && err.stale {
		l.sendControl(&wire.RouteStale{ID: m.ID, OwnerGen: m.OwnerGen})
	}
	s.refuse(n, err)
	s.giveBack()
}
