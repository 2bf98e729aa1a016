package sim

import (
	"slices"

	"github.com/zlnode/zlnode/internal/clock"
)

// This file is what is kept of a Session for a client that comes back, and how a Session is
// reserved whose connection is lost. internal/node has no core for that: its rules are
// repeated here by hand, name by name, without the locks. Every push must be delivered, and
// counts as one of the budget.

// keep is what a Session has that can be resumed. Its token is the Session's number, which the
// client gets when it has logged in.
//
// Invariant: the Session ends once. finish, by whoever calls it first, says why, and the later
// one of it and the connection's end does it.
type keep struct {
	s *conn

	last    uint64 // the latest push's number
	lost    uint64 // that of the latest push that is not kept any more
	pushes  []keptPush
	holding bool // the Session resumes another one: its pushes wait in held
	choked  bool // more came than may wait there
	held    []pushed

	cut      bool       // nothing goes into the connection any more
	taken    bool       // another Session resumes this one
	reserved bool       // its client is away, and nobody resumes it yet
	closed   bool       // the connection's end was told
	finished bool       // it is decided
	until    clock.Mono // when it ends, if it is reserved
	why      string     // that it ends, and is not resumed any more
}

// pushed is what an Actor has shown.
type pushed struct {
	of       ref
	gen      uint64 // of the binding
	position int
}

type keptPush struct {
	pushed
	number uint64
	unsent bool // it certainly did not go out
}

// push sends a push to the client, or keeps it for when that is back.
func (k *keep) push(e pushed) {
	cover := k.s.h.w.Cover
	switch {
	case k.why != "":
		cover.Mark("a push to a session that ends was refused")
		return
	case k.choked:
		return
	case k.holding && len(k.held) > 0 && len(k.held) >= k.s.h.w.moves.keepMax:
		cover.Mark("too much came during a resumption")
		k.choked = true // whoever resumes sees it and closes the Session
		return
	}
	k.s.taken = append(k.s.taken, e)
	if k.holding {
		cover.Mark("a push came during a resumption")
		k.held = append(k.held, e)
		return
	}
	k.send(e)
}

// send numbers a push, keeps it and sends it, unless the client is away.
func (k *keep) send(e pushed) {
	k.last++
	p := keptPush{e, k.last, k.cut}
	if k.cut {
		k.s.h.w.Cover.Mark("a push was kept for a client that is away")
	} else {
		k.s.write(frame{p.pushed, p.number})
	}
	k.pushes = append(k.pushes, p)
	for len(k.pushes) > max(k.s.h.w.moves.keepMax, 1) {
		oldest := k.pushes[0]
		k.pushes = k.pushes[1:]
		if k.lost = oldest.number; oldest.unsent {
			k.s.h.w.Cover.Mark("a reserved session lost a push")
			k.overdue("more was pushed than is kept")
		}
	}
}

// overdue has the sweeper end a reserved Session, or whoever resumes it give up.
func (k *keep) overdue(why string) {
	if k.why == "" {
		k.why, k.until = why, 0
	}
}

// reserves takes the connection's end, and reports whether the Session goes on without it.
func (k *keep) reserves() bool {
	s, h := k.s, k.s.h
	k.closed = true
	switch {
	case k.finished:
		return false
	case k.taken:
		return true
	}
	may := !k.holding && !k.choked && !s.final && !h.stopping && !s.replaced
	if may && h.reserved() >= h.w.moves.reservedMax {
		h.w.Cover.Mark("a session found no room to be reserved")
		may = false
	}
	if !may {
		k.finished = true // by the caller, who ends the Session
		return false
	}
	k.cut, k.reserved, k.until = true, true, h.clock().Add(h.w.moves.grace)
	h.w.note(h.process, "reserves the session", "", "", s.n)
	s.mark("is away")
	return true
}

// reserved counts the Sessions whose client is away.
func (h *host) reserved() (n int) {
	for _, s := range h.sessions {
		if s.keep != nil && s.keep.reserved {
			n++
		}
	}
	return n
}

// replaced takes the news that another Session has an Actor of this one, and reports whether
// that is no reason to tell its application.
func (k *keep) replaced() bool {
	if k.cut && !k.taken {
		k.s.mark("is replaced while it is away")
		k.overdue("another session has its actor")
	}
	return k.cut
}

// finish ends the Session as soon as the connection's end is told.
func (k *keep) finish(why string) {
	if k.finishes(why) {
		k.s.over()
	}
}

// finishDue ends a reserved Session whose time is over.
func (k *keep) finishDue(now clock.Mono) {
	if !k.reserved || !now.Reached(k.until) {
		return
	}
	if k.why == "" {
		k.s.mark("does not come back in time")
	}
	k.finish("the client did not come back in time")
}

// finishes reports whether the caller has to end the Session.
func (k *keep) finishes(why string) bool {
	if k.why == "" {
		k.why = why
	}
	ends := k.closed && !k.finished
	k.finished = true
	return ends
}

// end is for the Session's end.
func (k *keep) end() {
	k.s.h.w.note(k.s.h.process, "ends the session", "", k.why, k.s.n)
	k.pushes, k.held, k.reserved = nil, nil, false
}

// frame is what goes to the client by its connection: a push with its number, or, without
// one, the answer that brings the token.
type frame struct {
	pushed
	number uint64
}

// underWay is how many of the latest frames a connection takes along when it is lost.
const underWay = 2

func (s *conn) write(f frame) {
	if s.broken {
		return
	}
	s.sent = append(s.sent, f)
	for len(s.sent) > underWay {
		s.deliver(1)
	}
}

// deliver has the client get what was sent first.
func (s *conn) deliver(n int) {
	for _, f := range s.sent[:n] {
		s.client.receive(s, f)
	}
	s.sent = s.sent[n:]
}

// breaks ends the connection at the client's side. Some of what is on its way still arrives.
func (s *conn) breaks() {
	s.deliver(len(s.sent) - s.h.w.choose(len(s.sent)+1))
	s.broken, s.sent = true, nil
}

// dropped is told that the connection is lost: the Session ends, unless its client may come
// back.
func (s *conn) dropped() {
	switch k := s.keep; {
	case k == nil:
		s.over()
	case k.closed:
	case !k.reserves():
		s.over()
	}
}

// close ends the Session by somebody's will; its client begins another one.
func (s *conn) close() {
	s.final = true
	switch k := s.keep; {
	case k == nil:
		s.over()
	case k.cut: // and not if it is closed, which changes nothing any more
		k.overdue("it is closed")
	default:
		s.deliver(len(s.sent))
		s.dropped()
	}
}

// endReserved is told that the node has begun to stop.
func (h *host) endReserved() {
	for _, s := range slices.Clone(h.sessions) {
		if k := s.keep; k != nil && k.cut {
			s.final = true
			k.overdue("the node stops")
		}
	}
}
