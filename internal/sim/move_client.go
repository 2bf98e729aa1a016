package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/zlnode/zlnode/session"
	"github.com/zlnode/zlnode/store"
)

// client is somebody who is connected to a node and bound to some Actors, each of which it
// may share with others: who binds it takes it from them.
type client struct {
	m     *moves
	ids   []string
	slot  int
	conn  *conn
	seq   int
	busy  []string // Actors that its Session is being bound to
	count uint64
	gone  bool  // another one has its place, for good
	due   bool  // it is about to connect
	away  bool  // it has lost its connection and is not back yet
	token *conn // the latest Session of which it has the token
	talks map[showing]bool
}

// beginClients connects those who begin. The first has half of the Actors that have one, or all,
// so that there are Sessions with several.
func (m *moves) beginClients() {
	w := m.w
	all := w.script != nil || m.grace > 0 && w.choose(2) == 1
	for n, id := range m.ids {
		if !m.bound[n] {
			continue
		}
		if len(m.clients) > 0 && (n%2 == 0 || all) {
			m.clients[0].ids = append(m.clients[0].ids, id)
			continue
		}
		for r := range max(m.rivals, 1) {
			c := &client{m: m, ids: []string{id}, slot: (n + r + 2) % w.nodes, talks: map[showing]bool{}}
			m.clients = append(m.clients, c)
			w.post(time.Duration(r)*3*time.Second, nil, c.connect)
		}
	}
	if w.script != nil && len(m.clients) > 0 { // the Actor that moves is bound last
		slices.Reverse(m.clients[0].ids)
	}
	if m.restless > 0 {
		for _, c := range m.clients {
			w.post(2*time.Second, nil, c.act)
		}
	}
}

// connect begins a Session, if there is none, and binds it to what it is not bound to.
func (c *client) connect() {
	w := c.m.w
	p := w.slots[c.slot].process
	if p == nil || p.dead || !p.serving || c.gone || c.away {
		return
	}
	h := p.host
	if s := c.conn; s != nil && (s.closed || s.h != h) {
		if !s.closed { // of a process that is dead or sleeps, and cannot be told
			s.breaks()
			s.h.after(silence, s.dropped)
		}
		c.conn, c.busy = nil, nil
	}
	if c.conn == nil {
		c.open(h)
	}
	s := c.conn
	if s.replaced || s.resumes() {
		return
	}
	for _, id := range c.ids {
		b := s.to(id)
		if b != nil && !b.ended && (!b.lost(h) || b.moves()) || slices.Contains(c.busy, id) {
			continue
		}
		c.busy = append(c.busy, id)
		c.bind(s, id, func(ok bool) {
			if c.conn == s {
				c.busy = slices.DeleteFunc(c.busy, func(other string) bool { return other == id })
			}
			if !ok {
				c.later()
				return
			}
			w.Cover.Mark("bound")
			if len(s.bounds) > 1 {
				w.Cover.Mark("a session with several bindings")
			}
			c.begin(s, id)
		})
	}
}

// lost is told that a binding or the Session is over.
func (c *client) lost() { c.later() }

// later has the client connect soon, once however often it is asked for.
func (c *client) later() {
	if c.due {
		return
	}
	c.due = true
	c.m.w.post(time.Second, nil, func() {
		c.due = false
		c.connect()
	})
}

// replaced is told that another client has an Actor of this one. It comes back, but for
// when all is to come to rest.
func (c *client) replaced() {
	if c.m.w.healed {
		c.gone = true
	}
}

// act does something to the client's bindings, at any moment of a move.
func (c *client) act() {
	w := c.m.w
	if w.healed {
		return
	}
	w.post([...]time.Duration{700, 90, 20, 4_000}[w.choose(4)]*time.Millisecond, nil, c.act)
	s := c.conn
	if w.choose(256) >= c.m.restless || s == nil || s.closed || s.h.dead || s.h.process.paused || s.resumes() {
		return
	}
	id := c.ids[w.choose(len(c.ids))]
	switch w.choose(6) {
	case 0: // and comes back, at another node perhaps
		c.markMove("leaves")
		if w.choose(2) == 0 {
			c.slot = w.choose(w.nodes)
		}
		c.leave()
	case 1:
		c.part(s, id)
	case 2, 3:
		c.stumble()
	default: // it binds what it has, or has not
		c.markMove("binds")
		c.bind(s, id, func(ok bool) {
			if ok {
				c.begin(s, id)
			}
		})
	}
}

// leave ends the client's Session, and begins another at once.
func (c *client) leave() {
	if s := c.conn; s != nil && !s.closed && !s.h.dead && !s.h.process.paused {
		c.m.w.note(s.h.process, "loses its client", "", "", s.n)
		c.m.w.Cover.Mark("a client left")
		s.close()
		c.connect()
	}
}

// rival has another client bind the Actor of the first one, at that node.
func (m *moves) rival(slot int) {
	if len(m.clients) > 0 {
		c := &client{m: m, ids: m.clients[0].ids, slot: slot, talks: map[showing]bool{}}
		m.clients = append(m.clients, c)
		c.connect()
	}
}

// firstClient does something to the first client, if there is one.
func (m *moves) firstClient(do func(c *client)) {
	if len(m.clients) > 0 {
		do(m.clients[0])
	}
}

// markMove notes in which states of the Actor's move the client does that.
func (c *client) markMove(what string) {
	w := c.m.w
	for _, p := range w.living {
		for _, m := range p.machines {
			w.Cover.Hit(m.doing, "client "+what)
		}
	}
}

// part ends one binding by the word of the Session.
func (c *client) part(s *conn, id string) {
	b := s.to(id)
	if b == nil || b.ended || b.moves() || b.lost(s.h) || s.replaced {
		return
	}
	c.m.w.note(s.h.process, "parts with", id, "", b.gen)
	c.m.w.Cover.Mark("a client parted with an actor")
	c.markMove("parts")
	s.put(id, nil)
	b.unbind(s.h, s.n)
	c.later()
}

func (c *client) partFirst() {
	if c.conn != nil && !c.conn.closed && !c.conn.h.dead {
		c.part(c.conn, c.ids[0])
	}
}

// bind binds the Session to that Actor. One that has it already asks for the same binding.
func (c *client) bind(s *conn, id string, done func(ok bool)) {
	h := s.h
	h.read(nil, id, storeCallMax, func(row store.Authority, found bool, err error) {
		known := s.to(id)
		switch {
		case err != nil || !found || row.State != store.Ready || row.LeaseLeft <= 0 || known.moves():
			done(false)
			return
		}
		s.bindTo(refOf(&row), known, func(f *failure) { done(f == nil) })
	})
}

// bindTo binds the Session to that Actor, for which it may have a binding already.
func (s *conn) bindTo(at ref, known *bound, done func(*failure)) {
	h, c := s.h, s.client
	if f := s.bars(); f != nil {
		done(f)
		return
	}
	c.count++
	b := &bound{ref: at, gen: c.count}
	again := known != nil && known.ref == at && !known.ended && !known.lost(h)
	if again {
		b.gen = known.gen
	}
	// publish makes it the Session's, unless that is over or has it.
	publish := func() *failure {
		f := s.bars()
		switch now := s.to(at.id); {
		case f != nil:
		case !again:
			s.put(at.id, b)
		case now == nil || now.gen != b.gen || now.ended:
			f = errUnbound
		}
		return f
	}
	if at.at == h.self() {
		a := h.actors[at.id]
		if a == nil {
			done(errNotHere)
			return
		}
		a.control(func(refused *failure) {
			key := bindingKey{nil, s.n, b.gen}
			f := a.registrable(refused, at, key, again)
			if f == nil {
				b.cell = a
				f = publish()
			}
			if f == nil {
				a.take(binding{key: key, local: s})
			}
			done(f)
		})
		return
	}
	l := h.linkOf(at.at)
	if l == nil {
		done(errNoWay)
		return
	}
	b.link = l
	corr := h.await(l, h.clock().Add(5*time.Second), func(r reply) {
		f := r.fail
		if f == nil {
			f = publish()
		}
		if f != nil && !again && (r.fail == nil || r.late) {
			b.unbind(h, s.n)
		}
		done(f)
	})
	key := bindingKey{l, s.n, b.gen}
	h.tell(l, func(to *host) { to.bindHere(l, corr, at, key, again) })
}

// bars says why the Session is bound to nothing more.
func (s *conn) bars() *failure {
	if s.closed || s.replaced {
		return errSessionOver
	}
	return nil
}

// registrable says why that Actor is not bound.
func (a *actor) registrable(refused *failure, at ref, key bindingKey, again bool) *failure {
	switch {
	case refused != nil:
		return refused
	case a.ref.gen != at.gen:
		return errIncarnation
	case a.ref != at:
		return errNotHere
	case a.sealing:
		a.h.w.Cover.Mark("a bind came while a binding was sealed")
		return errMoving
	case again && a.binding.key != key:
		a.h.w.Cover.Mark("a bind of what another session has was refused")
		return errTaken
	}
	return nil
}

func (h *host) bindHere(l *link, corr uint64, at ref, key bindingKey, again bool) {
	a := h.actors[at.id]
	if a == nil {
		h.answer(l, corr, reply{fail: errNotHere})
		return
	}
	a.control(func(refused *failure) {
		if h.lost(l) {
			return
		}
		f := a.registrable(refused, at, key, again)
		if f == nil {
			a.take(binding{key: key})
		}
		h.answer(l, corr, reply{fail: f})
	})
}

// begin has the client talk by a binding, once.
func (c *client) begin(s *conn, id string) {
	if b := s.to(id); b != nil && !c.talks[showing{s.n, b.gen}] {
		c.talks[showing{s.n, b.gen}] = true
		c.talk(s, id, b.gen)
	}
}

// talk sends packets to the Actor as long as the binding stands.
func (c *client) talk(s *conn, id string, gen uint64) {
	w := c.m.w
	b := s.to(id)
	if w.healed && c.seq > 0 || s.closed || s.broken || s.h.dead || b == nil || b.gen != gen || b.ended || b.lost(s.h) && !b.moves() {
		return
	}
	c.say(s, id)
	w.post([...]time.Duration{700, 150, 40, 2_500}[w.choose(4)]*time.Millisecond, nil, func() { c.talk(s, id, gen) })
}

// say sends one packet to the Actor.
func (c *client) say(s *conn, id string) {
	w := c.m.w
	c.m.book.ops++
	o := &op{
		n: c.m.book.ops, id: id, asks: w.choose(3) == 0, origin: s.h, writer: fmt.Sprint("client ", s.n), conn: s, client: true,
		timeout: 5 * time.Second,
	}
	w.post(0, s.h.process, func() {
		if s.broken {
			return
		}
		c.seq++
		o.seq = c.seq
		s.send(o)
	})
}

// What an Actor's owner tells the Session's owner.

func (h *host) tellReplaced(b binding, at ref, by bindingKey) {
	h.w.moves.book.replaced(at, b.key, by)
	h.tellOf(b, at, (*host).bindingReplaced)
}

func (h *host) tellEnded(b binding, at ref) { h.tellOf(b, at, (*host).bindingEnded) }

func (h *host) tellOf(b binding, at ref, take func(*host, bindingKey, ref)) {
	if l := b.key.link; l != nil {
		h.tell(l, func(to *host) { take(to, bindingKey{l, b.key.session, b.key.gen}, at) })
		return
	}
	take(h, b.key, at)
}

// inForce returns the binding that is meant, if it is in force and the sender is the owner.
func (h *host) inForce(key bindingKey, at ref) (*conn, *bound) {
	s := h.session(key.session)
	if s == nil || s.closed {
		return nil, nil
	}
	b := s.to(at.id)
	if b == nil || b.ended || b.gen != key.gen || b.ref.gen != at.gen {
		return nil, nil
	}
	if w := b.way; b.link != key.link && !(w != nil && w.route.Leaving() && w.left == key.link) {
		h.w.Cover.Mark("word of a binding came of no owner")
		return nil, nil
	}
	return s, b
}

func (h *host) bindingReplaced(key bindingKey, at ref) {
	s, b := h.inForce(key, at)
	switch {
	case s == nil:
		return
	case s.keep != nil && s.keep.replaced():
		s.loses(b)
		return
	case s.replaced:
		return
	}
	h.w.note(h.process, "is told that another has", at.id, "", key.gen)
	s.replaced = true
	s.client.replaced()
	callback := [...]time.Duration{0, 0, 2 * time.Second, 30 * time.Second}[h.w.choose(4)]
	h.after(callback+100*time.Millisecond, s.close)
}

func (h *host) bindingEnded(key bindingKey, at ref) {
	s, b := h.inForce(key, at)
	if s == nil {
		return
	}
	h.w.Cover.Mark("a binding ended with its actor")
	s.loses(b)
	s.client.lost()
}

// loses notes that the binding has ended at the Actor's owner.
func (s *conn) loses(b *bound) {
	if w := b.way; w != nil {
		s.h.w.moves.book.dropsKept(s, b, len(w.kept))
		w.over = true
		w.step(session.RouteEvent{Kind: session.RouteClosed}, nil)
		w.drop()
	}
	next := *b
	next.ended, next.way = true, nil
	s.put(b.ref.id, &next)
}
