package sim

import (
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
)

// request waits for its answer, for its deadline and for the end of its link.
type request struct {
	link *link
	done func(a answer, f *creation.Failure)
}

// answer of a creation or a destroy.
type answer struct {
	result    creation.Result
	destroyed bool
}

// send has deliver run at the other end, unless the link is lost or ends there before.
func (p *process) send(l *link, deliver func()) {
	w, to := p.w, l.other(p)
	if l.end(p).stopped {
		return
	}
	l.carry(w, to, func() { w.handle(l, to, deliver) })
	switch {
	case w.chance(w.Cut):
		w.cut(l)
	case w.chance(w.OneWay):
		w.mute(l, l.ends[w.choose(2)].process)
	case w.chance(w.HalfOpen):
		w.shut(l, l.ends[w.choose(2)].process)
	}
}

// handle has a record handled. A link that is ended here, be it because a later one has taken
// its place, drops what is left of it, as package engine does once a connection is closed: so
// nothing of it is handled behind the later one's first record.
func (w *World) handle(l *link, to *process, deliver func()) {
	here, from := l.end(to), l.other(to)
	if l.cut || here.mute {
		return
	}
	if here.stopped {
		w.Cover.Mark("a record of a link that is over was dropped")
		return
	}
	if here.open {
		if last := to.heard[from.slot]; last > here.turn {
			w.fail("FO-08", "%s handles a record of link %d from %s behind one of a later link", to.name(), l.n, from.name())
		}
		to.heard[from.slot] = here.turn
	}
	deliver()
}

// unlinked ends what hangs on a link that is over.
func (p *process) unlinked(l *link) {
	if p.host != nil {
		p.host.unlinked(l)
	}
	for n := uint64(1); n <= p.asked && len(p.requests) > 0; n++ {
		if r := p.requests[n]; r != nil && r.link == l {
			p.answered(n, answer{}, &creation.Failure{Kind: errkind.Unavailable, Text: "the link was lost"})
		}
	}
}

// request sends something that has an answer. done is called once.
func (p *process) request(l *link, deadline clock.Mono, deliver func(to *process, reply func(answer, *creation.Failure)), done func(answer, *creation.Failure)) {
	p.asked++
	n, to := p.asked, l.other(p)
	p.requests[n] = &request{l, done}
	p.at(deadline, func() {
		p.answered(n, answer{}, &creation.Failure{Kind: errkind.DeadlineExceeded, Text: "no reply came"})
	})
	p.send(l, func() {
		deliver(to, func(a answer, f *creation.Failure) {
			if f != nil && f.Err != nil { // errors travel as their kinds
				f = &creation.Failure{Kind: errkind.Unavailable, Text: f.Err.Error()}
			}
			to.send(l, func() { p.answered(n, a, f) })
		})
	})
}

func (p *process) answered(n uint64, a answer, f *creation.Failure) {
	if r := p.requests[n]; r != nil {
		delete(p.requests, n)
		r.done(a, f)
	}
}
