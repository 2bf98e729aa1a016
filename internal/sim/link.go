package sim

import (
	"slices"
	"time"

	links "github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/store"
)

// link is one connection of two processes. A later one of the same two is another link with a
// larger number, and what is under way on this one never comes on that. Each end learns in its
// own time that it is over, so one may have opened the next while the other still believes in
// this one, or has records of it to read.
type link struct {
	n    int // counts up
	ends [2]linkEnd
	cut  bool // nothing arrives any more
}

// linkEnd is one end: that of who dialled is the first.
//
// Invariant: it goes from open to stopped to gone, the latter once.
type linkEnd struct {
	*process
	way     way  // to here
	mute    bool // what comes this way is lost, and nobody is told
	open    bool // it was its process's link
	turn    int  // and the how manieth
	stopped bool // nothing is sent, and nothing handled that arrives
	gone    bool // what hung on it has ended
	live    *links.Liveness
	tick    alarm
	corrs   uint64 // the latest correlation of a request from here
	corrsAt uint64 // the first is behind this
}

// way is one direction: first in, first out.
type way struct {
	last  time.Duration // when what was sent last arrives
	still bool          // it carries nothing now
	held  []func()      // what waits meanwhile
}

const (
	shakeMax   = 5 * time.Second // of a handshake
	closeGrace = time.Second     // of a close that the other end does not answer
)

// liveness of a link is only watched once it is hurt: else each probe is acknowledged.
var liveness = links.LivenessConfig{ProbeEvery: 2 * time.Second, SilentAfter: 5 * time.Second}

func (l *link) end(p *process) *linkEnd {
	if l.ends[1].process == p {
		return &l.ends[1]
	}
	return &l.ends[0]
}

func (l *link) other(p *process) *process {
	if l.ends[0].process == p {
		return l.ends[1].process
	}
	return l.ends[0].process
}

// over reports whether an end of it is over, or will be.
func (l *link) over() bool { return l.cut || l.ends[0].stopped || l.ends[1].stopped }

func (l *link) joins(p *process) bool { return l.ends[0].process == p || l.ends[1].process == p }

// carry has something arrive at that end in order behind what was sent there before.
func (l *link) carry(w *World, to *process, arrived func()) {
	way := &l.end(to).way
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
}

// dial sees to it that there is a link to each process that the list names. A process opens no
// two to one at a time.
func (p *process) dial() {
	p.after(dialEvery, p.dial)
	p.dialAll()
}

func (p *process) dialAll() {
	w := p.w
	for _, d := range p.nodes {
		other := w.find(d.RID, d.Lifecycle)
		if other == nil || other.rid == p.rid || !links.ShouldDial(p.rid, d.RID, w.manual) || p.links[other.slot] != nil || !other.serving ||
			w.now < w.apart[min(p.slot, other.slot)][max(p.slot, other.slot)] {
			continue
		}
		if before := p.dialled[other.slot]; before != nil && before.other(p) == other {
			continue
		}
		w.dials++
		l := &link{n: w.dials, ends: [2]linkEnd{{process: p}, {process: other}}}
		for i := range l.ends { // no other link's correlations are the same
			l.ends[i].corrsAt = uint64(2*w.dials+i) << correlationBits
			l.ends[i].corrs = l.ends[i].corrsAt
		}
		p.dialled[other.slot] = l
		w.links = append(w.links, l)
		p.send(l, func() { other.accept(l) })
		p.after(shakeMax, func() {
			if !l.end(p).open {
				p.quit(l)
			}
		})
	}
}

// correlationBits leave room for the requests of one end.
const correlationBits = 32

// accept judges a connection whose dialler has proved itself, and lets it in.
func (p *process) accept(l *link) {
	dialler := l.other(p)
	if !p.judge(l) {
		p.send(l, func() { dialler.closed(l) })
		p.closed(l)
		return
	}
	p.send(l, func() {
		if dialler.judge(l) {
			dialler.opened(l)
		} else {
			dialler.quit(l)
		}
	})
	p.opened(l)
}

// judge reports whether the link may be the one to its peer. If so, the one before ends.
func (p *process) judge(l *link) bool {
	other := l.other(p)
	id := func(l *link) links.LinkID {
		return links.LinkID{Peer: other.rid, Lifecycle: uint64(l.other(p).lease.Gen), Dialled: l.ends[0].process == p}
	}
	if other.lease.Gen < p.newest[other.rid] {
		p.w.Cover.Mark("a link to an older process was refused")
		return false
	}
	if before := p.links[other.slot]; before != nil {
		switch links.Prefer(id(before), id(l), p.rid) {
		case links.RefuseDuplicate:
			p.w.Cover.Mark("a second link was refused")
			return false
		case links.RefuseStale:
			return false
		case links.Replace:
			p.w.Cover.Mark("a link was replaced")
			p.links[other.slot] = nil
			p.quit(before)
		}
	}
	return true
}

// opened makes the link the one to its peer.
func (p *process) opened(l *link) {
	other := l.other(p)
	for _, m := range p.machines {
		if m.with == (place{RID: other.rid, Lifecycle: other.lease.Gen}) {
			p.w.Cover.Hit(m.doing, "new link")
		}
	}
	p.opens++
	l.end(p).open, l.end(p).turn = true, p.opens
	p.links[other.slot] = l
	p.newest[other.rid] = max(p.newest[other.rid], other.lease.Gen)
	p.w.note(p, "links to", other.name(), "", uint64(l.n))
	if p.host != nil {
		p.host.linked(l)
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

// quit closes this end in order: the other one is told behind what was sent before. What hangs
// on it ends when the other has answered, or does not.
func (p *process) quit(l *link) {
	here, other := l.end(p), l.other(p)
	if here.stopped {
		return
	}
	here.stopped = true
	p.tellsEnd(l, func() { other.tellsEnd(l, func() { p.closed(l) }) })
	p.after(closeGrace, func() { p.closed(l) })
}

// tellsEnd has the other end learn that this one is over.
func (p *process) tellsEnd(l *link, told func()) {
	other := l.other(p)
	l.carry(p.w, other, func() {
		if !l.cut && !l.end(other).mute {
			other.closed(l)
			told()
		}
	})
}

// closed ends what hangs on a link of which this end is over.
func (p *process) closed(l *link) {
	here, other := l.end(p), l.other(p)
	if here.gone {
		return
	}
	here.stopped, here.gone = true, true
	if p.links[other.slot] == l {
		p.links[other.slot] = nil
	}
	if p.dialled[other.slot] == l {
		p.dialled[other.slot] = nil
	}
	if l.ends[0].gone && l.ends[1].gone {
		p.w.forget(l)
	}
	if here.open {
		p.w.note(p, "link is over to", other.name(), "", uint64(l.n))
		p.unlinked(l)
		p.expectEnded(l)
	}
}

func (w *World) forget(l *link) {
	w.links = slices.DeleteFunc(w.links, func(o *link) bool { return o == l })
}

// watch has both ends find out whether they hear of each other.
func (l *link) watch() {
	for i := range l.ends {
		here := &l.ends[i]
		if here.live != nil || here.dead || here.gone {
			continue
		}
		here.live = links.NewLiveness(liveness, here.clock())
		here.process.alive(l, links.LiveEvent{})
	}
}

// alive gives an event to what watches the link here.
func (p *process) alive(l *link, e links.LiveEvent) {
	here, other := l.end(p), l.other(p)
	if here.live == nil || here.stopped {
		return
	}
	here.live.Step(p.clock(), e)
	for _, e := range here.live.Effects(nil) {
		switch e.Kind {
		case links.LiveSendProbe:
			p.send(l, func() { other.alive(l, links.LiveEvent{Kind: links.LiveProbed, ID: e.ID}) })
		case links.LivePeerSilent:
			p.w.Cover.Mark("a silent peer was given up")
			p.closed(l)
			p.tellsEnd(l, func() {})
			return
		case links.LiveSendAck:
			p.send(l, func() { other.alive(l, links.LiveEvent{Kind: links.LiveAcked, ID: e.ID}) })
		}
	}
	at, ok := here.live.NextDeadline()
	here.tick.set(p, at, ok, func() { p.alive(l, links.LiveEvent{Kind: links.LiveTick}) })
}

// cut ends the link: nothing arrives any more, and each end notices in its own time.
func (w *World) cut(l *link) {
	if l == nil || l.cut {
		return
	}
	l.cut = true
	w.hurt(l, "cut")
	for i := range l.ends {
		p := l.ends[i].process
		w.post(w.storeWay(), p, func() { p.closed(l) })
	}
	w.forget(l)
}

// mute has all be lost that comes to that process by the link. Nobody is told: the ends
// find out that they do not hear of each other.
func (w *World) mute(l *link, to *process) {
	if l == nil || l.cut || l.end(to).mute || l.end(to).gone {
		return
	}
	w.hurt(l, "one way")
	w.note(to, "hears no more of", l.other(to).name(), "", uint64(l.n))
	l.end(to).mute = true
	l.watch()
}

// shut ends the link at that process, and the other is not told: it gets what was sent before,
// and believes in the link until it finds that nobody answers, or is dialled anew.
func (w *World) shut(l *link, at *process) {
	if l == nil || l.cut || l.end(at).gone {
		return
	}
	w.hurt(l, "half-open")
	l.watch()
	w.post(0, at, func() { at.closed(l) })
}

// hurt counts a fault of a link for each machine that waits on it.
func (w *World) hurt(l *link, fault string) {
	w.Cover.Mark(fault)
	for i := range l.ends {
		p := l.ends[i].process
		w.note(p, "link to", l.other(p).name(), fault, uint64(l.n))
		for _, m := range p.machines {
			if m.peer == l {
				w.Cover.Hit(m.doing, fault)
			}
		}
	}
}

// disturb draws what happens to links in this round.
func (w *World) disturb() {
	for _, l := range slices.Clone(w.links) {
		switch {
		case w.chance(w.Cut / 4):
			w.cut(l)
		case w.chance(w.OneWay / 4):
			w.mute(l, l.ends[w.choose(2)].process)
		case w.chance(w.HalfOpen / 4):
			w.shut(l, l.ends[w.choose(2)].process)
		case w.chance(w.Stall):
			w.stall(l, l.ends[w.choose(2)].process, w.choosePause())
		}
	}
	for a := range w.slots {
		for b := a + 1; b < len(w.slots); b++ {
			if w.chance(w.Partition) {
				w.Cover.Mark("partition")
				w.part(a, b, w.choosePause())
			}
		}
	}
}

// part has two nodes not reach each other for a while.
func (w *World) part(a, b int, d time.Duration) {
	w.apart[a][b] = w.now + d
	for _, l := range slices.Clone(w.links) {
		if x, y := l.ends[0].slot, l.ends[1].slot; min(x, y) == a && max(x, y) == b {
			w.cut(l)
		}
	}
}

// stall has one direction stand still for a while. What waits arrives late then, or is
// lost with the link if that was longer than its ends bear.
func (w *World) stall(l *link, at *process, d time.Duration) {
	way := &l.end(at).way
	if way.still {
		return
	}
	w.Cover.Mark("stall")
	w.note(at, "hears nothing of", l.other(at).name(), d.String(), 0)
	way.still = true
	w.post(min(d, liveness.SilentAfter), nil, func() {
		if d > liveness.SilentAfter {
			w.cut(l)
		}
		way.still = false
		for _, run := range way.held {
			way.last = max(way.last+1, w.now)
			w.post(way.last-w.now, at, run)
		}
		way.held = nil
	})
}

// expectEnded checks that nothing waits any more for an answer by a link that is over.
func (p *process) expectEnded(l *link) {
	waits := 0
	for _, r := range p.requests {
		if r.link == l {
			waits++
		}
	}
	if p.host != nil {
		for is := range p.host.pending {
			if is.link == l {
				waits++
			}
		}
	}
	if waits > 0 {
		p.w.fail("FO-07", "%s waits for %d answers by link %d, which is over", p.name(), waits, l.n)
	}
}

// expectLinks checks that the two ends of each pair have the same link, and no other.
func (w *World) expectLinks(when string) {
	for _, p := range w.living {
		for _, other := range w.living {
			if p.slot >= other.slot {
				continue
			}
			if l := p.links[other.slot]; l == nil || l != other.links[p.slot] {
				w.fail("I12", "%s %s and %s are not linked, or by different links", when, p.name(), other.name())
			}
		}
	}
	for _, l := range w.links {
		for i := range l.ends {
			if here := &l.ends[i]; here.links[l.ends[1-i].slot] != l {
				w.fail("I11", "%s link %d of %s is not over", when, l.n, here.name())
			}
		}
	}
}
