package sim

import (
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/session"
	"github.com/zlnode/zlnode/store"
)

// This file is what a bound Actor's owners and the Session's owner tell each other of a move.

// sealing says which binding an Actor's owner wants sealed, or has drained.
type sealing struct {
	key   bindingKey
	id    string
	gen   store.ObjectGen
	owner store.OwnerGen
	move  store.RelocationID
}

func (m *sealing) event(kind session.RouteEventKind) session.RouteEvent {
	return session.RouteEvent{Kind: kind, Relocation: session.Relocation(m.move), ObjGen: uint64(m.gen), BindingGen: m.key.gen, OwnerGen: uint64(m.owner)}
}

// sealBinding has the Session's owner hold back what its client sends to the Actor.
func (h *host) sealBinding(a *actor, b binding, id store.RelocationID, until clock.Mono, done func(bound bool, f *failure)) {
	if !b.stands(h) {
		done(false, nil)
		return
	}
	ended := func(f *failure) {
		switch {
		case f == nil:
			done(b.stands(h), nil)
		case !b.stands(h) || f == errUnbound:
			done(false, nil)
		default:
			done(true, f)
		}
	}
	m := sealing{b.key, a.ref.id, a.ref.gen, a.ref.owner, id}
	l := b.key.link
	if l == nil {
		h.seal(m, ended)
		return
	}
	corr := h.await(l, until, func(r reply) { ended(r.fail) })
	h.tell(l, func(to *host) {
		m.key.link = l
		to.seal(m, func(f *failure) { to.answer(l, corr, reply{fail: f}) })
	})
}

func (h *host) seal(m sealing, confirm func(*failure)) {
	s := h.session(m.key.session)
	if s == nil || s.closed {
		confirm(errUnbound)
		return
	}
	b := s.to(m.id)
	if b == nil || b.ended || b.gen != m.key.gen || b.link != m.key.link || b.ref.gen != m.gen {
		confirm(errUnbound)
		return
	}
	if b.way == nil {
		b.way = &passage{s: s, id: m.id, route: session.NewRoute(&routeLimits, uint64(m.gen), b.gen, uint64(b.ref.owner))}
	}
	w := b.way
	earlier := w.confirm
	w.confirm = confirm
	if e := w.step(m.event(session.RouteSeal), nil); e.Kind == session.RouteSealRefused {
		w.confirm = earlier
		h.w.Cover.Mark("a seal was refused: " + e.Why.String())
		confirm(unclear(e.Why.String()))
	}
}

// drained tells the Session's owner that nothing more is pushed from here.
func (h *host) drained(b binding, id store.RelocationID, at ref) {
	m := sealing{b.key, at.id, at.gen, at.owner, id}
	if l := b.key.link; l != nil {
		m.key.link = l
		h.tell(l, func(to *host) { to.sourceDrained(m) })
		return
	}
	h.sourceDrained(m)
}

func (h *host) sourceDrained(m sealing) {
	s := h.session(m.key.session)
	if s == nil || s.closed {
		return
	}
	b := s.to(m.id)
	ok := b != nil && b.way != nil && b.gen == m.key.gen
	if ok {
		by := b.link
		if b.way.route.Leaving() && b.way.route.Left() == session.Relocation(m.move) {
			by = b.way.left
		}
		ok = by == m.key.link
	}
	if ok {
		b.way.step(m.event(session.RouteDrained), nil)
	}
}

// adopt makes the binding of an Actor that comes with it. gone: the Session is over.
func (h *host) adopt(m *movedBinding) (_ binding, gone bool, _ *failure) {
	if m == nil {
		return binding{}, false, nil
	}
	b := binding{key: bindingKey{session: m.session, gen: m.gen}}
	if m.owner == h.self() {
		if b.local = h.session(m.session); b.local == nil {
			return binding{}, true, nil
		}
		return b, false, nil
	}
	if b.key.link = h.linkOf(m.owner); b.key.link == nil {
		return binding{}, false, errNoWay
	}
	return b, false, nil
}

// endSeal tells the Session's owner where the Actor is after its move.
func (h *host) endSeal(b binding, id store.RelocationID, at ref, commit bool) {
	if !b.stands(h) {
		return
	}
	m := sealing{bindingKey{nil, b.key.session, b.key.gen}, at.id, at.gen, at.owner, id}
	l := b.key.link
	if l == nil {
		if cell := h.actors[at.id]; cell != nil {
			h.moveEnded(m, at, commit, nil, cell)
		}
		return
	}
	h.tell(l, func(to *host) { to.moveEnded(m, at, commit, l, nil) })
}

func (h *host) moveEnded(m sealing, at ref, commit bool, l *link, cell *actor) {
	next := &bound{ref: at, gen: m.key.gen, link: l, cell: cell}
	s := h.session(m.key.session)
	if s == nil || s.closed {
		if commit {
			h.w.Cover.Mark("a route update found no session")
			next.unbind(h, m.key.session)
		}
		return
	}
	b := s.to(at.id)
	if b != nil && b.ended && b.gen == m.key.gen && commit {
		next.unbind(h, m.key.session)
		return
	}
	if b == nil || b.way == nil || b.gen != m.key.gen || !commit && b.link != l {
		h.w.Cover.Mark("a route update found another binding")
		return
	}
	next.way = b.way
	ev := m.event(session.RouteAbort)
	if commit {
		ev.Kind = session.RouteCommit
	}
	b.way.step(ev, next)
}
