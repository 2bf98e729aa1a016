package node

import (
	"context"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
	"github.com/zlnode/zlnode/store"
)

const (
	opBind       = "bind"
	opDisconnect = "notify disconnected"
	opPush       = "push"
)

// bindingKey identifies a binding at the Actor's owner: the way to the Session's
// owner, the Session, and the generation that its owner gave. A link is part of
// it, so that nothing of a connection that was lost is used again (FO-08).
type bindingKey struct {
	link    *linkConn // nil: the Session is at this node
	session uint64
	gen     uint64 // never 0 in a binding
}

// wire is how the Actor's owner names the binding to the Session's.
func (k *bindingKey) wire(ref *ActorRef) wire.BindingName {
	return wire.BindingName{ID: []byte(ref.ID), ObjGen: ref.ObjectGen, Session: k.session, BindingGen: k.gen}
}

// bindingKey is that of the binding that the peer names.
func (l *linkConn) bindingKey(b *wire.BindingName) bindingKey {
	return bindingKey{link: l, session: b.Session, gen: b.BindingGen}
}

// binding is what an Actor's owner knows of the bound Session: all that a push
// needs. The Actor's turn owns it.
type binding struct {
	key   bindingKey
	local *sessionConn // if the Session is at this node
	asked bool         // the Actor has asked for the Session's end
	away  bool         // the client has lost its connection and may come back; see clientAway
	// pending is what waits for the client of a Session at another node, as it told last.
	pending int64
}

// stands reports whether there is a binding. One whose link was lost is over.
func (b *binding) stands() bool {
	return b.key.gen != 0 && (b.key.link == nil || !b.key.link.gone.Load())
}

// register makes b the Actor's binding, in its turn; see registrable and take.
func (t *turn) register(ref *ActorRef, b binding, again bool) *Error {
	if err := t.registrable(ref, b.key, again); err != nil {
		return err
	}
	t.take(b)
	return nil
}

// take makes b the Actor's binding. That of another Session is over with it: nothing that
// comes from there fits its generation any more, and its owner is told, once, without
// waiting. So no generation is ever registered again after another one: see registrable.
func (t *turn) take(b binding) {
	before := t.cell.binding
	if before.key == b.key {
		return
	}
	t.cell.bind(b)
	switch {
	case before.key.gen == 0:
	case !before.stands(): // its link was lost, and the turn that would say so is behind this one
		t.node.tellSpot(clientGone, t.cell.spotNow(), t.cell.ref, nil)
	case before.key.link != b.key.link || before.key.session != b.key.session:
		t.node.tellReplaced(before, &t.cell.ref)
		if before.away {
			t.node.tellSpot(clientBack, t.cell.spotNow(), t.cell.ref, nil)
		}
	}
}

// registrable says why the Actor that ref names cannot be bound. again is for a binding that
// its Session believes to stand, and that is refused if it does not.
func (t *turn) registrable(ref *ActorRef, key bindingKey, again bool) *Error {
	switch {
	case t.refused != nil:
		return t.refused
	case t.cell.typ.Kind != store.Actor:
		return errKind(opBind, ref.ID, t.cell.typ.Kind)
	case ref.ObjectGen != t.cell.ref.ObjectGen:
		return errIncarnation(opBind, ref.ID, ref.ObjectGen, t.cell.ref.ObjectGen)
	case ref.Lifecycle != t.cell.ref.Lifecycle || ref.OwnerGen != t.cell.ref.OwnerGen:
		return errNotHere
	case t.cell.sealing:
		return errRelocating
	case again && t.cell.binding.key != key:
		return errReplaced
	case t.node.disconnects.Load() >= disconnectsMax:
		return errDisconnectsFull
	}
	return nil
}

// bind makes b the Actor's binding. The link that it comes by knows the Actor, for the
// case that it is lost. Under the claim.
func (a *objectCell) bind(b binding) {
	if l := a.binding.key.link; l != nil && l != b.key.link {
		l.bound.Update(a.ref.ID, func(now *objectCell, there bool) (*objectCell, bool) {
			return now, there && now != a // else it is a later incarnation's
		})
	}
	a.binding = b
	if l := b.key.link; l != nil {
		l.bound.Store(a.ref.ID, a)
	}
}

// unregister ends the binding if it is still the current one, because its client is gone or
// the Session says so. ended, if not nil, is called once with why not, or when the Actor's
// Spot has been told.
func (t *turn) unregister(key bindingKey, ended func(*Error)) {
	var err *Error
	switch {
	case t.refused != nil:
		err = t.refused
	case t.cell.binding.key != key:
		err = errBindingOver
	default:
		t.cell.bind(binding{})
		t.node.tellSpot(clientGone, t.cell.spotNow(), t.cell.ref, ended)
		return
	}
	if ended != nil {
		ended(err)
	}
}

// spotNow returns the Spot here that the Actor is in; nil: the Entry Spot, which has no value.
func (a *objectCell) spotNow() *objectCell {
	if spot := a.spot.Load(); spot != nil {
		return spot
	}
	return a.node.entry
}

// unbindAll ends the bindings that came by the link, which is lost: their clients cannot
// reach the Actors any more.
func (l *linkConn) unbindAll() {
	l.bound.Range(func(_ string, a *objectCell) bool {
		a.ended(func(t *turn) {
			if t.refused == nil && a.binding.key.link == l {
				t.unregister(a.binding.key, nil)
			}
		})
		return true
	})
}

// bind registers a binding for a Session of the peer. The reply carries the
// Actor's stable type.
func (l *linkConn) bind(b *wire.Bind) {
	ref, corr, again := refFromWire(&b.Ref), b.Correlation, b.Again
	key := bindingKey{link: l, session: b.Session, gen: b.BindingGen}
	cell, ok := l.node.actors.LoadBytes(b.Ref.ID)
	if !ok || l.mesh != l.node.home {
		l.sendError(corr, errNotHere)
		return
	}
	full := cell.control(func(t *turn) {
		if l.gone.Load() {
			return // nobody waits for it any more, and it must not end another's binding
		}
		if err := t.register(&ref, binding{key: key}, again); err != nil {
			l.sendError(corr, err)
			return
		}
		if l.gone.Load() { // after the link's bindings were ended, perhaps
			t.unregister(key, nil)
			return
		}
		l.sendControl(&wire.Reply{Correlation: corr, Payload: []byte(t.cell.typ.Name)})
	})
	if full != nil {
		l.sendError(corr, errQueueFullThere)
	}
}

// unbind ends a binding that its Session's owner has ended.
func (l *linkConn) unbind(u *wire.Unbind) {
	var ended func(*Error)
	if corr := u.Correlation; corr != 0 {
		ended = func(err *Error) {
			if err != nil {
				l.sendError(corr, err)
				return
			}
			l.sendControl(&wire.Reply{Correlation: corr})
		}
	}
	key := l.bindingKey(&u.BindingName)
	if cell, ok := l.node.actors.LoadBytes(u.ID); ok && cell.ref.ObjectGen == u.ObjGen {
		cell.ended(func(t *turn) { t.unregister(key, ended) })
	} else if ended != nil {
		ended(errNotHere)
	}
}

// sessionBinding is what a Session's owner knows of a bound Actor: all that a
// relay needs. It never changes.
type sessionBinding struct {
	ref  ActorRef
	typ  string
	gen  uint64
	link *linkConn   // nil: the Actor is at this node
	cell *objectCell // if it is

	again bool // it is asked for under the generation of one that is published
	ended bool // the Actor is gone, as its owner has said

	way *sessionWay // nil: the Actor has never moved while it was bound
}

// name is how the Session of that id names the binding to the Actor's owner.
func (b *sessionBinding) name(session uint64) wire.BindingName {
	return wire.BindingName{ID: []byte(b.ref.ID), ObjGen: b.ref.ObjectGen, Session: session, BindingGen: b.gen}
}

// lost reports whether the way to the Actor is gone for good.
func (b *sessionBinding) lost() bool { return b.link != nil && b.link.gone.Load() }

// over reports whether nothing can come of the binding any more. The Session's mu is held.
func (b *sessionBinding) over() bool {
	return b.ended || !b.moves() && (b.lost() || b.cell != nil && b.cell.gone.Load())
}

// moves reports whether the Actor is moving, or its move is not over for the Session. The
// Session's mu is held.
func (b *sessionBinding) moves() bool { return b.way != nil && b.way.moving }

// sessionRoutes is an immutable table of a Session's bindings.
type sessionRoutes struct {
	byActor map[string]*sessionBinding
	byType  map[string]*sessionBinding // the latest of each type
}

var noRoutes = &sessionRoutes{}

// bind binds the Actor that ref names to the Session. When it returns without
// error, the Actor can push and packets are relayed.
//
// Binding the same incarnation again asks its owner under the same generation: that changes
// nothing, and fails if the Actor was bound to another Session meanwhile.
func (s *sessionConn) bind(ctx context.Context, ref ActorRef) *Error {
	n := s.node
	if !exact(&ref) {
		return fail(errkind.InvalidOperation, opBind, ref.ID, "the ref is not exact; take one from Create, Find or the actor itself")
	}
	b := &sessionBinding{ref: ref}
	bound := s.routes.Load().byActor
	switch known := bound[ref.ID]; {
	case known != nil && known.ref == ref && !known.ended && !known.lost():
		b.gen, b.again = known.gen, true
	default:
		b.gen = n.bindings.Add(1)
	}
	if err := s.place(b); err != nil {
		return err.of(opBind, ref.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.RequestTimeout)
	defer cancel()
	done := make(chan *Error, 1)
	if n.isHere(&ref) {
		s.bindHere(b, done)
	} else {
		s.bindThere(ctx, b, done)
	}
	var err *Error
	blocking(ctx, func() {
		select {
		case err = <-done:
		case <-ctx.Done():
			err = fromContext(ctx, opBind, ref.ID)
		}
	})
	if err != nil {
		return err.of(opBind, ref.ID)
	}
	return nil
}

// bindHere registers at an Actor of this node. The Session's side is published
// in the same turn, so that a push right behind it finds it.
func (s *sessionConn) bindHere(b *sessionBinding, done chan<- *Error) {
	cell, ok := s.node.actors.Load(b.ref.ID)
	if !ok {
		s.leave()
		done <- errNotHere
		return
	}
	full := cell.control(func(t *turn) {
		key := bindingKey{session: s.id, gen: b.gen}
		err := t.registrable(&b.ref, key, b.again)
		if err == nil {
			b.typ, b.cell = cell.typ.Name, cell
			err = s.publish(b)
		} else {
			s.leave()
		}
		if err == nil {
			t.take(binding{key: key, local: s})
		}
		done <- err
	})
	if full != nil {
		s.leave()
		done <- full
	}
}

// bindThere asks the Actor's owner. The Session's side is published by the loop
// that reads the reply, before it can read a push behind it.
func (s *sessionConn) bindThere(ctx context.Context, b *sessionBinding, done chan<- *Error) {
	l, away := s.node.linkTo(b.ref.Mesh, b.ref.RID, b.ref.Lifecycle)
	if away != nil {
		s.leave()
		done <- away.of(opBind, b.ref.ID)
		return
	}
	b.link = l
	corr, err := l.pending.add(completeFunc(func(r result) {
		switch {
		case r.err == nil:
			b.typ = string(r.payload)
			r.owner.Free()
			if r.err = s.publish(b); r.err != nil && !b.again { // else whoever ended it has said so
				b.unbind(s.id)
			}
		case r.err.Kind == errkind.DeadlineExceeded && !b.again:
			b.unbind(s.id) // it may have been registered all the same
			fallthrough
		default:
			s.leave()
		}
		done <- r.err
	}), deadlineOf(ctx))
	if err != nil {
		s.leave()
		done <- err
		return
	}
	l.sendControl(&wire.Bind{Correlation: corr, Ref: wireRef(b.ref), Session: s.id, BindingGen: b.gen, Again: b.again})
}

// place takes a place for b among the Session's bindings, before the Actor is asked: a
// bind that failed afterwards would have ended the binding that the Actor had. Each place
// is given back by publish or leave.
func (s *sessionConn) place(b *sessionBinding) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.bars(); err != nil {
		return err
	}
	bound := s.routes.Load().byActor
	if known := bound[b.ref.ID]; known != nil && known.moves() {
		return errBindingMoves
	}
	others := s.asked
	for id, known := range bound {
		if id != b.ref.ID && !known.over() {
			others++
		}
	}
	if others >= bindingsMax {
		return errBindingsFull
	}
	s.asked++
	return nil
}

// bars says why the Session is bound to nothing more. mu is held.
func (s *sessionConn) bars() *Error {
	switch {
	case s.closed:
		return errSessionClosed
	case s.replacement.Load() != nil:
		return errSessionTaken
	}
	return nil
}

// leave gives the place of a bind that failed back.
func (s *sessionConn) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked--
}

// publish makes b a route of the Session in the place that it has, unless the Session is
// closed. One that is bound again has its route and keeps it. Those whose Actor or link
// is gone are shed.
func (s *sessionConn) publish(b *sessionBinding) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked--
	if err := s.bars(); err != nil {
		return err
	}
	old := s.routes.Load()
	if b.again {
		if known := old.byActor[b.ref.ID]; known == nil || known.gen != b.gen || known.ended {
			return errBindingOver // it has ended while the Actor was asked
		}
		return nil
	}
	next := &sessionRoutes{byActor: map[string]*sessionBinding{}, byType: map[string]*sessionBinding{}}
	for id, b := range old.byActor {
		if !b.over() {
			next.byActor[id] = b
		}
	}
	for typ, b := range old.byType {
		if !b.over() {
			next.byType[typ] = b
		}
	}
	next.byActor[b.ref.ID] = b
	next.byType[b.typ] = b
	s.routes.Store(next)
	if s.away {
		b.tellAway(s.id)
	}
	return nil
}

// unbind tells the Actor's owner that the binding of that Session is over.
func (b *sessionBinding) unbind(session uint64) {
	if b.cell != nil {
		key := bindingKey{session: session, gen: b.gen}
		b.cell.ended(func(t *turn) { t.unregister(key, nil) })
		return
	}
	b.link.sendControl(&wire.Unbind{BindingName: b.name(session), Reason: wire.UnbindClosed})
}

// Push sends an Actor's message to the client of the bound Session. The bytes
// are copied.
func (c *Call) Push(name string, codec uint8, meta, payload []byte) error {
	return c.PushWith(PushOptions{}, name, codec, meta, payload)
}

// PushWith is Push that says what may become of it.
func (c *Call) PushWith(how PushOptions, name string, codec uint8, meta, payload []byte) error {
	mustBeInTurn(c.cell != nil)
	id := c.cell.ref.ID
	if err := c.fenced(); err != nil {
		return err.of(opPush, id)
	}
	if err := checkContent(opPush, id, name, meta, payload); err != nil {
		return err
	}
	if err := checkClientPayload(id, payload); err != nil {
		return err
	}
	if err := how.check(id); err != nil {
		return err
	}
	meta, with := how.inFlow(&c.flow, meta)
	defer with.Free()
	b := &c.cell.binding
	switch {
	case !b.stands():
		return errNotBound.of(opPush, id)
	case b.local != nil:
		if err := b.local.pushFrom(id, b.key, &how, name, codec, meta, payload); err != nil {
			return err.of(opPush, id)
		}
		return nil
	}
	p := wire.Push{
		Session: b.key.session, BindingGen: b.key.gen, ID: []byte(id), ObjGen: c.cell.ref.ObjectGen,
		Class: uint8(how.Class), Key: []byte(how.Key), Name: []byte(name), Codec: codec, Metadata: meta, Payload: payload,
	}
	record := buf.Get(p.Size())
	p.AppendTo(record.Bytes()[:0])
	if err := b.key.link.send(c, record); err != nil {
		return err.of(opPush, id)
	}
	return nil
}

// push delivers a peer's push to its Session. What is refused is counted, never
// silent.
func (l *linkConn) push(p *wire.Push) {
	s := l.node.session(p.Session)
	if s == nil {
		l.node.counters.pushesRefused.Add(1)
		return
	}
	key := bindingKey{link: l, session: p.Session, gen: p.BindingGen}
	how := PushOptions{Class: session.PushClass(p.Class), Key: string(p.Key)}
	if err := s.pushFrom(string(p.ID), key, &how, string(p.Name), p.Codec, p.Metadata, p.Payload); err != nil {
		l.node.counters.pushesRefused.Add(1)
	}
}

// pushFrom judges a push by the published binding alone and sends it. While a bound Actor
// moves, two nodes may push for it, one after the other. An owner's pushes come one by one,
// and in order with what it says of its move, so what this sees of that is true for it.
func (s *sessionConn) pushFrom(id string, key bindingKey, how *PushOptions, name string, codec uint8, meta, payload []byte) *Error {
	if s.moving.Load() == 0 {
		if b := s.routes.Load().byActor[id]; b != nil && b.gen == key.gen && b.link == key.link && !b.ended {
			return s.send(id, how, name, codec, meta, payload)
		}
	}
	p := pushPacket(name, codec, meta, payload)
	if flow.In(meta) {
		p = takeFlow(p)
	}
	return s.pushMoving(id, key, how, &p)
}
