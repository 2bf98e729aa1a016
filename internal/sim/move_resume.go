package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
)

// This file is how a Session goes on where another one was, as internal/node's
// sessionresume.go has it, by hand.

// resumption is a Session that resumes another one: it binds the Actors of that one, one after
// the other, and then sends what its client has not got.
type resumption struct {
	s, old *conn
	last   uint64 // the latest push that the client has got of the other Session
	until  clock.Mono
	rest   []*bound
	wait   time.Duration
	over   bool
}

// resumeTime is how long a resumption may take.
const resumeTime = 5 * time.Second

// resume has the Session, which holds its pushes back, go on where that one was.
func (s *conn) resume(old *conn) {
	h, last := s.h, old.got
	h.w.note(h.process, "resumes the session", "", "", old.n)
	switch {
	case s.closed:
		return
	case h.session(old.n) != old || !old.seize():
		h.w.Cover.Mark("a token was not known")
		s.begins(nil, 0)
		return
	case !old.keep.covers(last):
		h.w.Cover.Mark("a resumption came too late for a push")
		old.keep.finish("pushes are lost")
		s.begins(nil, 0)
		return
	}
	old.mark("is back")
	r := &resumption{s: s, old: old, last: last, until: h.clock().Add(resumeTime), rest: slices.Clone(old.bounds), wait: timing.Wait}
	slices.SortFunc(r.rest, func(a, b *bound) int { return cmp.Compare(a.gen, b.gen) })
	h.at(r.until, func() { r.fail("it took too long") })
	r.next()
}

// seize takes a Session for one that resumes it: once, and only if it is not over. One whose
// client was faster than the news that its connection is lost is closed.
func (s *conn) seize() bool {
	k := s.keep
	if k.holding || k.taken || k.finished || k.why != "" || s.final || s.replaced {
		return false
	}
	half := !k.cut
	k.taken, k.cut, k.reserved = true, true, false
	if half {
		s.h.w.Cover.Mark("a half-open connection was resumed")
		s.h.after([...]time.Duration{0, time.Millisecond, 500 * time.Millisecond}[s.h.w.choose(3)], s.dropped)
	}
	return true
}

// covers reports whether all pushes behind that one are kept.
func (k *keep) covers(last uint64) bool { return last <= k.last && last >= k.lost }

// next binds the next Actor of the other Session, once it does not move any more.
func (r *resumption) next() {
	if r.over {
		return
	}
	h := r.s.h
	for ; len(r.rest) > 0; r.rest = r.rest[1:] {
		b := r.rest[0]
		switch now := r.old.to(b.ref.id); {
		case now == nil || now.gen != b.gen || now.over(h):
			h.w.Cover.Mark("a resumption found an actor gone")
		case now.moves():
			h.w.Cover.Mark("a resumption waited for a move")
			r.again()
			return
		default:
			r.s.bindTo(now.ref, nil, func(f *failure) { r.bound(now, f) })
			return
		}
	}
	r.end()
}

func (r *resumption) again() {
	r.s.h.after(r.wait, r.next)
	r.wait = min(2*r.wait, timing.WaitMax)
}

// bound is told what became of a bind. An Actor that is not there as it was is left out.
func (r *resumption) bound(b *bound, f *failure) {
	switch {
	case r.over:
		return
	case f == nil:
		r.s.h.w.moves.book.rebound(r.old, b)
	case f.kind == errkind.InvalidOperation || f.kind == errkind.NotFound:
		r.s.h.w.Cover.Mark("a resumption found another incarnation")
	case f.kind != errkind.Unavailable && f.kind != errkind.CapacityExceeded || r.s.closed:
		r.fail(f.text)
		return
	default:
		r.s.h.w.Cover.Mark("a resumption bound once more")
		r.again()
		return
	}
	r.rest, r.wait = r.rest[1:], timing.Wait
	r.next()
}

// end has the client get what it has not got of the other Session, and then what came
// meanwhile.
func (r *resumption) end() {
	s, old := r.s, r.old
	pushes, why := old.keep.yield()
	switch {
	case why != "":
		r.fail(why)
		return
	case !old.keep.covers(r.last):
		r.fail("pushes are lost")
		return
	case s.closed || s.keep.cut:
		r.fail("the session is closed")
		return
	case s.keep.choked:
		r.fail("too much was pushed")
		return
	}
	r.over = true
	s.h.w.moves.book.resumed(s, old)
	s.begins(pushes, r.last)
	old.mark("has resumed")
	old.keep.finish("it was resumed")
}

// yield returns the kept pushes. Nothing is kept any more. why is not empty if the Session ends
// otherwise than by being resumed.
func (k *keep) yield() (pushes []keptPush, why string) {
	pushes, why = k.pushes, k.why
	k.overdue("it was resumed")
	k.pushes = nil
	return pushes, why
}

// fail ends both Sessions.
func (r *resumption) fail(why string) {
	if r.over {
		return
	}
	r.over = true
	h, k := r.s.h, r.s.keep
	h.w.note(h.process, "does not resume the session", "", why, r.old.n)
	h.w.Cover.Mark("a resumption failed")
	r.old.keep.finish("it was not resumed")
	k.holding, k.choked, k.held = false, true, nil
	r.s.close()
}

// begins sends the pushes behind that number, then what waited, and the answer to who has
// logged in.
func (s *conn) begins(pushes []keptPush, last uint64) {
	k := s.keep
	held := k.held
	k.holding, k.held = false, nil
	for _, e := range pushes {
		if e.number > last {
			s.h.w.Cover.Mark("a push was sent again")
			k.send(e.pushed)
		}
	}
	for _, e := range held {
		k.send(e)
	}
	s.write(frame{})
	s.client.connect()
}
