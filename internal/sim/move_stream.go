package sim

import "slices"

// This file is the oracle of clients that come back: what a Session has taken for its client is
// got once and in order, by that Session's client or by the one that resumes it.

// stream is what the oracle knows of the pushes to one Session.
type stream struct {
	before *stream  // of the Session that this one has resumed, whose pushes come first
	taken  []pushed // in the order in which they came
	read   int      // how many of them the client has got
	went   []uint64 // bindings that another Session has taken over
}

// next returns what the client is to get next, if there is something.
func (t *stream) next() *pushed {
	if t.before != nil {
		if e := t.before.next(); e != nil {
			return e
		}
		t.before = nil
	}
	if t.read == len(t.taken) {
		return nil
	}
	t.read++
	return &t.taken[t.read-1]
}

// arrives is told of each push that comes to the Session's owner, also if it has no such
// Session any more: nothing may come for a binding that another Session has taken over.
func (b *book) arrives(id string, key bindingKey) {
	if s := b.sessions[key.session]; slices.Contains(s.went, key.gen) {
		b.w.fail("I16", "a push of %s to session %d by %d is lost: it comes behind the resumption", id, key.session, key.gen)
	}
}

// rebound is told that a Session which is being resumed has given a binding away. It knows, unless
// it had bound its Actor once more, and what came of that did not reach it any more, or the
// binding hangs on a link that is over.
func (b *book) rebound(old *conn, to *bound) {
	old.went = append(old.went, to.gen)
	t := b.tale(bindingKey{session: old.n, gen: to.gen})
	now := old.to(to.ref.id)
	if now != nil && now.gen == to.gen && !now.ended && !t.renewed && (now.link == nil || !now.link.over()) {
		b.w.fail("I9", "session %d does not know that its binding %d to %s was taken over", old.n, to.gen, to.ref.id)
	}
}

// dropsKept is told that pushes are dropped which wait for the end of a move.
func (b *book) dropsKept(s *conn, to *bound, n int) {
	by := b.sessions[b.tale(bindingKey{session: s.n, gen: to.gen}).by]
	if n > 0 && by != nil && by.client == s.client && s.keep != nil && s.keep.taken {
		b.w.fail("I16", "%d pushes of %s to session %d are lost: they waited when it was resumed", n, to.ref.id, s.n)
	}
}

// resumed is told that one Session goes on where the other one was.
func (b *book) resumed(s, old *conn) {
	b.w.Cover.Mark("a client resumed")
	if len(old.went) > 1 {
		b.w.Cover.Mark("a client resumed with several actors")
	}
	s.before = &old.stream
}

// received is told what a client gets of a Session that can be resumed.
func (b *book) received(s *conn, f frame) {
	if f.number != s.got+1 {
		b.w.fail("I16", "the client of session %d gets push %d behind %d", s.n, f.number, s.got)
	}
	if e := s.next(); e == nil || *e != f.pushed {
		b.w.fail("I16", "the client of session %d gets position %d of %s by %d, and is to get %v", s.n, f.position, f.of.id, f.gen, e)
	}
	b.shown(s, f.pushed)
}

// phase says how far a move of a bound Actor is for its Session; empty: none is under way. A bind waits
// from the first of them to the last, so nothing is resumed between.
func (b *book) phase(to *bound) string {
	f := b.of[to.ref.gen]
	m := b.moves[b.lastMove(f)]
	sealed := to.way != nil && to.way.route.Sealed()
	switch {
	case to.ended || m == nil:
		return ""
	case m.committed && sealed:
		return "committed"
	case m.committed && to.moves():
		return "swapped"
	case m.committed || m.aborted || m.dropped || m.o.over:
		return ""
	case !sealed:
		return "before the seal"
	case m.captured == nil:
		return "sealed"
	case !m.boundary:
		return "captured"
	}
	return "relay-ready"
}

// expectReceived checks that each client which is connected has got all.
func (m *moves) expectReceived(when string) {
	for _, c := range m.clients {
		s := c.conn
		if s == nil || s.closed || s.h.dead || s.broken || s.keep == nil {
			continue
		}
		s.deliver(len(s.sent))
		if e := s.next(); e != nil {
			m.w.fail("I16", "%s the client of session %d has not got position %d of %s", when, s.n, e.position, e.of.id)
		}
	}
}
