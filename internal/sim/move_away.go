package sim

import "time"

// This file is a client that loses its connection and comes back.

// open begins a Session at that process. If the client has the token of another one there, it
// resumes that.
func (c *client) open(h *host) {
	c.m.book.conns++
	s := &conn{h: h, n: c.m.book.conns, client: c}
	c.m.book.sessions[s.n] = s
	c.conn = s
	h.sessions = append(h.sessions, s)
	if c.m.grace <= 0 {
		return
	}
	s.keep = &keep{s: s}
	if old := c.token; old != nil && old.h == h {
		s.keep.holding = true
		h.soon(func() { s.resume(old) })
		return
	}
	if c.token != nil {
		c.m.w.Cover.Mark("a client came back elsewhere")
	}
	s.write(frame{})
}

// receive takes what came by a connection: a push, or the token of its Session.
func (c *client) receive(s *conn, f frame) {
	if f.number == 0 {
		c.token = s
		return
	}
	c.m.book.received(s, f)
	s.got = f.number
}

// stumble has the client's connection be lost at any moment, and the client come back.
func (c *client) stumble() {
	w := c.m.w
	noticed := [...]time.Duration{0, 5, 400, 4_000}[w.choose(4)] * time.Millisecond
	back := [...]time.Duration{2, 50, 1_000, 12_000}[w.choose(4)] * time.Millisecond
	slot := c.slot
	if w.choose(8) == 7 {
		slot = w.choose(w.nodes)
	}
	c.drop(noticed, back, slot)
}

// silence is after what time a process takes a connection for lost of which it hears nothing.
const silence = 4 * time.Second

// drop has the client's connection be lost now. The node notices after a while, and the client
// comes back after another, to the node of that slot.
func (c *client) drop(noticed, back time.Duration, slot int) {
	w, s := c.m.w, c.conn
	if s == nil || s.closed || s.h.dead || s.h.process.paused || c.away {
		return
	}
	w.note(s.h.process, "is cut off from its client", "", "", s.n)
	w.Cover.Mark("a connection was lost")
	s.breaks()
	c.conn, c.busy, c.away = nil, nil, true
	s.h.after(noticed, s.dropped)
	w.post(back, nil, func() {
		c.away, c.slot = false, slot
		c.connect()
	})
}

// expire ends the grace of the Session before its time.
func (s *conn) expire() {
	if k := s.keep; k != nil && k.reserved {
		k.until = 0
		k.finishDue(s.h.clock())
	}
}

// mark notes what happens to a Session, and how far the moves of its Actors are.
func (s *conn) mark(what string) {
	w, still := s.h.w, true
	w.Cover.Mark("client " + what)
	for _, b := range s.bounds {
		if phase := w.moves.book.phase(b); phase != "" {
			still = false
			w.Cover.Hit(phase, "client "+what)
		}
	}
	if still {
		w.Cover.Hit("no move", "client "+what)
	}
}
