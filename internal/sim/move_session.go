package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/session"
)

// bindingKey identifies a binding at the Actor's owner.
type bindingKey struct {
	link    *link // to the Session's owner; nil: this process
	session uint64
	gen     uint64
}

func (k *bindingKey) owner(h *host) place {
	if k.link == nil {
		return h.self()
	}
	return h.peer(k.link)
}

// binding is what an Actor's owner knows of the bound Session.
type binding struct {
	key   bindingKey
	local *conn
}

func (b *binding) stands(h *host) bool {
	return b.key.gen != 0 && (b.key.link == nil || !h.lost(b.key.link))
}

type movedBinding struct {
	owner        place
	session, gen uint64
}

func (a *actor) bind(b binding) { a.binding = b }

// take makes b the Actor's binding in place of another Session's, which is told.
func (a *actor) take(b binding) {
	h, before := a.h, a.binding
	if before.key == b.key {
		return
	}
	a.bind(b)
	h.w.moves.book.registers(a, b.key)
	switch {
	case before.key.gen == 0:
	case !before.stands(h):
		h.w.moves.book.disconnected(a, before.key)
	case before.key.link != b.key.link || before.key.session != b.key.session:
		h.tellReplaced(before, a.ref, b.key)
	default:
		h.w.moves.book.renewed(before.key)
	}
}

func (a *actor) unregister(key bindingKey) {
	if a.binding.key == key {
		a.binding = binding{}
		a.h.w.moves.book.disconnected(a, key)
	}
}

// push2client shows the client the Actor's position.
func (a *actor) push2client(position int) {
	h, key, id := a.h, a.binding.key, a.ref.id
	switch {
	case !a.binding.stands(h):
	case a.binding.local != nil:
		h.w.moves.book.arrives(id, key)
		a.binding.local.push(id, key, position)
	default:
		l := key.link
		h.tell(l, func(to *host) {
			by := bindingKey{l, key.session, key.gen}
			to.w.moves.book.arrives(id, by)
			if s := to.session(key.session); s != nil {
				s.push(id, by, position)
			}
		})
	}
}

// conn is a client's Session at its owner. It is bound to each Actor of its client.
type conn struct {
	h        *host
	n        uint64
	client   *client
	closed   bool
	replaced bool // it takes no input, and will be closed
	bounds   []*bound

	keep   *keep   // nil: its client does not come back to it
	final  bool    // closed by somebody's will: it is not reserved
	broken bool    // the client has lost the connection
	sent   []frame // on their way to the client
	got    uint64  // the number of the latest push that the client has got
	stream         // of the oracle
}

// resumes reports whether the Session is about to resume another one.
func (s *conn) resumes() bool { return s.keep != nil && s.keep.holding }

// to returns the binding to the Actor, or nil.
func (s *conn) to(id string) *bound {
	for _, b := range s.bounds {
		if b.ref.id == id {
			return b
		}
	}
	return nil
}

// put makes b the binding to its Actor; nil ends that.
func (s *conn) put(id string, b *bound) {
	at := slices.IndexFunc(s.bounds, func(b *bound) bool { return b.ref.id == id })
	switch {
	case b == nil && at >= 0:
		s.bounds = slices.Delete(s.bounds, at, at+1)
	case b == nil:
	case at < 0:
		s.bounds = append(s.bounds, b)
	default:
		s.bounds[at] = b
	}
}

// bound is a binding at the Session's owner.
type bound struct {
	ref  ref
	gen  uint64
	link *link    // nil: the Actor is here
	cell *actor   // if it is
	way  *passage // nil: it has never moved while it was bound

	ended bool // the Actor is gone, as its owner has said
}

func (b *bound) lost(h *host) bool { return b.link != nil && h.lost(b.link) }

// moves reports whether the Actor is moving, or its move is not over for the Session.
func (b *bound) moves() bool { return b != nil && b.way != nil && b.way.moving }

// over reports whether nothing can come of the binding any more.
func (b *bound) over(h *host) bool {
	return b.ended || !b.moves() && (b.lost(h) || b.cell != nil && b.cell.gone)
}

func (h *host) session(n uint64) *conn {
	for _, s := range h.sessions {
		if s.n == n {
			return s
		}
	}
	return nil
}

// passage is what there is between a Session and an Actor that moves or has moved.
type passage struct {
	*machine
	s       *conn
	id      string // of the Actor
	route   session.Route
	left    *link // of the owner before
	held    []packet
	kept    []int
	confirm func(*failure)
	moving  bool
	over    bool // its binding is, while the Session goes on
}

// packet waits for the end of a move.
type packet struct {
	o    *op
	corr uint64
}

var routeLimits = session.RouteLimits{Packets: 12, Bytes: 1 << 20, Shows: 64, ShowBytes: 1 << 20, Seal: sealTimeout}

const sealTimeout = 3 * time.Second

// send sends a client's packet to its Actor.
func (s *conn) send(o *op) {
	h, b := s.h, s.to(o.id)
	o.deadline = clock.Never
	if o.asks {
		o.deadline = h.clock().Add(o.timeout)
	}
	h.w.moves.book.sent(o)
	switch {
	case s.closed || s.replaced || b == nil || b.ended:
		h.w.moves.book.ended(o, reply{fail: errUnbound})
	case b.moves() && b.way.admits(o):
	case b.lost(h):
		h.w.moves.book.ended(o, reply{fail: errLinkLost})
	default:
		s.forward(b, o)
	}
}

func (s *conn) letter(b *bound, o *op, l *link) *letter {
	return &letter{
		op: o, gen: b.ref.gen, asks: o.asks, deadline: o.deadline, session: &bindingKey{l, s.n, b.gen},
		path: path{writer: fmt.Sprint("client ", s.n), gen: b.gen},
	}
}

// forward sends a packet to the owner now.
func (s *conn) forward(b *bound, o *op) {
	h := s.h
	l := b.link
	var corr uint64
	if o.asks {
		corr = h.await(l, o.deadline, func(r reply) { s.replied(b, o, r) })
	}
	if l == nil {
		m := s.letter(b, o, nil)
		if o.asks {
			m.away = &wayBack{to: h.self(), corr: corr}
		}
		if f := b.cell.push(m); f != nil {
			delete(h.pending, correlation{n: corr})
			h.w.moves.book.ended(o, reply{fail: f})
		}
		return
	}
	left := o.deadline.Sub(h.clock())
	m := s.letter(b, o, l)
	h.tell(l, func(to *host) {
		m.link, m.corr, m.deadline = l, corr, to.deadlineAfter(o.asks, left)
		to.admit(b.ref.id, 0, m)
	})
}

// replied shows the client a reply, behind what the owner before has shown.
func (s *conn) replied(b *bound, o *op, r reply) {
	now := s.to(b.ref.id)
	if w := wayOf(now); w != nil && w.moving && now.gen == b.gen && w.route.Leaving() && r.from == now.link && r.fail == nil {
		s.h.w.Cover.Mark("a reply was kept")
		w.step(session.RouteEvent{Kind: session.RouteShown, Size: 1}, nil)
	}
	s.h.w.moves.book.ended(o, r)
}

func wayOf(b *bound) *passage {
	if b == nil {
		return nil
	}
	return b.way
}

// push takes what an Actor shows its client.
func (s *conn) push(id string, key bindingKey, position int) {
	b := s.to(id)
	if s.closed || b == nil || b.ended || b.gen != key.gen {
		return
	}
	w := b.way
	ev := session.RouteEvent{Kind: session.RouteShown, Size: 1}
	switch {
	case w == nil && b.link == key.link:
		s.show(b, position)
		return
	case w == nil:
		return
	case b.link == key.link:
	case w.route.Leaving() && w.left == key.link:
		ev.Kind = session.RouteShownLate
	default:
		s.h.w.Cover.Mark("a push of no owner was dropped")
		return
	}
	switch w.step(ev, nil).Kind {
	case session.RouteShow:
		s.show(b, position)
	case session.RouteKeep:
		s.h.w.Cover.Mark("a push was kept")
		w.kept = append(w.kept, position)
	default:
	}
}

// show sends what an Actor shows to the client.
func (s *conn) show(b *bound, position int) {
	e := pushed{b.ref, b.gen, position}
	if s.keep != nil {
		s.keep.push(e)
		return
	}
	if !s.broken {
		s.h.w.moves.book.shown(s, e)
	}
}

// step gives the event to the core and does what it says. next is the binding that a commit
// brings.
func (w *passage) step(ev session.RouteEvent, next *bound) (answer session.RouteEffect) {
	s, h := w.s, w.s.h
	was := w.route.Sealed()
	w.route.Step(h.clock(), ev)
	w.markAway(ev.Kind, was)
	for _, e := range w.route.Effects(nil) {
		switch e.Kind {
		case session.RouteSwap:
			w.left = s.to(w.id).link
			s.put(w.id, next)
		case session.RouteSubmit:
			if ev.Kind != session.RouteSubmitted {
				w.submit()
			}
		case session.RouteShowKept:
			kept := w.kept
			w.kept = nil
			for _, position := range kept {
				s.show(s.to(w.id), position)
			}
		case session.RouteClose:
			h.w.Cover.Mark("a session was closed: " + e.Why.String())
			w.drop()
			s.close()
		case session.RouteIgnored:
			h.w.Cover.Mark("route update ignored: " + e.Why.String())
		case session.RouteGone:
			next.unbind(h, s.n)
		case session.RouteSealed:
			w.answer(nil)
		default:
			answer = e
		}
	}
	w.count()
	return answer
}

func (w *passage) answer(f *failure) {
	if w.confirm != nil {
		confirm := w.confirm
		w.confirm = nil
		confirm(f)
	}
}

func (w *passage) count() {
	moving := !w.route.Calm() && !w.s.closed && !w.over
	switch h := w.s.h; {
	case moving == w.moving:
		return
	case moving:
		w.machine = h.begins("O R03-R15")
	default:
		h.ends(w.machine)
	}
	w.moving = moving
}

// admits asks the core about a packet, and reports whether that is dealt with.
func (w *passage) admits(o *op) bool {
	h := w.s.h
	switch w.step(session.RouteEvent{Kind: session.RoutePacket, Size: 1}, nil).Kind {
	case session.RouteForward:
		return false
	case session.RouteHold:
		h.w.Cover.Mark("a packet waited for the end of a move")
		p := packet{o: o}
		if o.asks {
			p.corr = h.await(nil, o.deadline, func(r reply) { h.w.moves.book.ended(o, r) })
		}
		w.held = append(w.held, p)
	default:
		h.w.moves.book.ended(o, reply{fail: errBusy})
	}
	return true
}

func (w *passage) submit() {
	for w.route.Submitting() && len(w.held) > 0 {
		s, h, p := w.s, w.s.h, w.held[0]
		w.held = w.held[1:]
		b := s.to(w.id)
		switch {
		case p.o.asks && h.pending[correlation{n: p.corr}] == nil: // it has ended
		case b.lost(h):
			delete(h.pending, correlation{n: p.corr})
			h.w.moves.book.ended(p.o, reply{fail: errLinkLost})
		default:
			delete(h.pending, correlation{n: p.corr})
			s.forward(b, p.o)
		}
		w.step(session.RouteEvent{Kind: session.RouteSubmitted, Size: 1}, nil)
	}
}

func (w *passage) drop() {
	h := w.s.h
	w.answer(errUnbound)
	for _, p := range w.held {
		if !p.o.asks || h.pending[correlation{n: p.corr}] != nil {
			delete(h.pending, correlation{n: p.corr})
			h.w.moves.book.ended(p.o, reply{fail: errUnbound})
		}
	}
	w.held, w.kept = nil, nil
}

// over ends the Session; its client begins another one.
func (s *conn) over() {
	if s.closed {
		return
	}
	s.closed = true
	h := s.h
	h.sessions = slices.DeleteFunc(h.sessions, func(o *conn) bool { return o == s })
	for _, b := range s.bounds {
		if b.way != nil {
			b.way.step(session.RouteEvent{Kind: session.RouteClosed}, nil)
			b.way.drop()
		}
		if !b.ended {
			b.unbind(h, s.n)
		}
	}
	if s.keep != nil {
		s.keep.end()
	}
	s.client.lost()
}

// unbind tells the Actor's owner that the binding is over.
func (b *bound) unbind(h *host, n uint64) {
	end := func(a *actor, key bindingKey) {
		a.control(func(refused *failure) {
			if refused == nil {
				a.unregister(key)
			}
		})
	}
	if b.cell != nil {
		end(b.cell, bindingKey{nil, n, b.gen})
		return
	}
	l, id, gen := b.link, b.ref.id, b.ref.gen
	h.tell(l, func(to *host) {
		if a := to.actors[id]; a != nil && a.ref.gen == gen {
			end(a, bindingKey{l, n, b.gen})
		}
	})
}

func (s *conn) sweep(now clock.Mono) {
	if s.keep != nil {
		s.keep.finishDue(now)
	}
	for _, b := range slices.Clone(s.bounds) {
		w := b.way
		if !b.moves() || s.closed {
			continue
		}
		if at, ok := w.route.NextDeadline(); ok && now.Reached(at) {
			w.step(session.RouteEvent{Kind: session.RouteTick}, nil)
		}
	}
}

func (s *conn) unlinked(l *link) {
	for _, b := range slices.Clone(s.bounds) {
		if w := b.way; b.moves() {
			if b.link == l {
				w.step(session.RouteEvent{Kind: session.RouteLost}, nil)
			} else if w.left == l && w.route.Leaving() {
				w.step(session.RouteEvent{Kind: session.RouteLostLate}, nil)
			}
		}
		if b.link == l {
			s.client.lost()
		}
	}
}

// markAway notes how a move goes on while the client is away. was says that the route was sealed.
func (w *passage) markAway(ev session.RouteEventKind, was bool) {
	is := w.route.Sealed()
	if k := w.s.keep; k == nil || !k.reserved || was == is {
		return
	}
	cover := w.s.h.w.Cover
	switch ev {
	case session.RouteSeal:
		cover.Mark("an actor's move was sealed while its client was away")
	case session.RouteCommit:
		cover.Mark("an actor moved while its client was away")
	case session.RouteAbort:
		cover.Mark("an actor's move was given up while its client was away")
	default:
	}
}
