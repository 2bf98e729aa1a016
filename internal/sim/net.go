package sim

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/creation"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// link is one connection of two processes. A later one of the same two is another link,
// and what is under way on this one never comes on that.
type link struct {
	ends [2]*process
	ways [2]way // to the process of that number
	cut  bool
}

// way is one direction: first in, first out.
type way struct {
	last  time.Duration // when what was sent last arrives
	still bool          // it carries nothing now
	held  []func()      // what waits meanwhile
}

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

// dial sees to it that there is a link to each process that the list names. Of two the
// smaller one dials.
func (p *process) dial() {
	p.after(dialEvery, p.dial)
	for _, d := range p.nodes {
		other := p.w.find(d.RID, d.Lifecycle)
		if other == nil || other.slot <= p.slot || p.links[other.slot] != nil || other.links[p.slot] != nil || !other.serving ||
			p.w.now < p.w.apart[p.slot][other.slot] {
			continue
		}
		l := &link{ends: [2]*process{p, other}}
		p.links[other.slot], other.links[p.slot] = l, l
		p.w.links = append(p.w.links, l)
		p.w.note(p, "links to", other.name(), "", 0)
		if p.host != nil {
			p.host.linked(l)
			other.host.linked(l)
		}
	}
}

// linkTo returns the link to that very process, or nil.
func (p *process) linkTo(rid string, lifecycle store.LeaseGen) *link {
	for _, l := range p.links {
		if l == nil {
			continue
		}
		if o := l.other(p); o.rid == rid && o.lease.Gen == lifecycle {
			return l
		}
	}
	return nil
}

func (l *link) other(p *process) *process {
	if l.ends[0] == p {
		return l.ends[1]
	}
	return l.ends[0]
}

// send has deliver run at the other end, unless the link is lost before.
func (p *process) send(l *link, deliver func()) {
	w, to := p.w, l.other(p)
	side := 0
	if l.ends[1] == to {
		side = 1
	}
	way := &l.ways[side]
	arrived := func() {
		if !l.cut {
			deliver()
		}
	}
	if way.still {
		way.held = append(way.held, arrived)
		return
	}
	delay := [...]time.Duration{50, 100, 200, 500}[w.choose(4)] * time.Microsecond
	if w.chance(w.SlowNet) {
		delay = [...]time.Duration{5, 50, 400, 2_500}[w.choose(4)] * time.Millisecond
	}
	way.last = max(way.last+1, w.now+delay)
	w.post(way.last-w.now, to, arrived)
	if w.chance(w.Cut) {
		w.cut(l)
	}
}

// cut ends the link: nothing arrives any more, and each end notices in its own time.
func (w *World) cut(l *link) {
	if l == nil || l.cut {
		return
	}
	l.cut = true
	w.Cover.Mark("cut")
	for i, p := range l.ends {
		w.note(p, "link is cut to", l.ends[1-i].name(), "", 0)
		for _, m := range p.machines {
			if m.peer == l {
				w.Cover.Hit(m.doing, "cut")
			}
		}
		w.post(w.storeWay(), p, func() { p.unlink(l) })
	}
	for i, o := range w.links {
		if o == l {
			w.links = append(w.links[:i], w.links[i+1:]...)
			break
		}
	}
}

// unlink ends what hangs on a link that is lost.
func (p *process) unlink(l *link) {
	if p.links[l.other(p).slot] == l {
		p.links[l.other(p).slot] = nil
		if p.host != nil {
			p.host.unlinked(l)
		}
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

// disturb draws what happens to links in this round.
func (w *World) disturb() {
	for _, l := range append([]*link(nil), w.links...) {
		switch {
		case w.chance(w.Cut / 4):
			w.cut(l)
		case w.chance(w.Stall):
			w.stall(l, w.choose(2), w.choosePause())
		}
	}
	for a := range w.slots {
		for b := a + 1; b < len(w.slots); b++ {
			if w.chance(w.Partition) {
				w.Cover.Mark("partition")
				w.apart[a][b] = w.now + w.choosePause()
				for _, p := range w.living {
					if p.slot == a {
						w.cut(p.links[b])
					}
				}
			}
		}
	}
}

// stall has one direction stand still for a while. What waits arrives late then, or is
// lost with the link if that was longer than its ends bear.
func (w *World) stall(l *link, side int, d time.Duration) {
	way := &l.ways[side]
	if way.still {
		return
	}
	w.Cover.Mark("stall")
	w.note(l.ends[side], "hears nothing of", l.ends[1-side].name(), d.String(), 0)
	way.still = true
	w.post(min(d, 5*time.Second), nil, func() {
		if d > 5*time.Second {
			w.cut(l)
		}
		way.still = false
		for _, run := range way.held {
			way.last = max(way.last+1, w.now)
			w.post(way.last-w.now, l.ends[side], run)
		}
		way.held = nil
	})
}
