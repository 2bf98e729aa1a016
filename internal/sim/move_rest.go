package sim

import (
	"fmt"
	"time"

	"github.com/zlnode/zlnode/internal/errkind"
)

// This file is what must hold when the faults are over.

// expectRest checks that nothing is under way, and that nothing was lost.
func (m *moves) expectRest(when string) {
	w := m.w
	if w.failed != nil {
		return
	}
	for _, s := range w.slots {
		if s.process == nil || !s.process.mayAct() || !s.process.serving {
			w.fail("I12", "%s node %s does not serve", when, s.rid)
			return
		}
	}
	for _, p := range w.living {
		if left := p.host.left(); left != "" {
			w.fail("I11", "%s %s has %s", when, p.name(), left)
		}
	}
	w.expectLinks(when)
	m.expectDrained(when)
	for _, id := range m.ids {
		m.expectAtPlace(when, id)
	}
	for _, p := range w.living {
		for _, a := range p.host.cells() {
			if a.stuck != "" { // it keeps what it has until it is freed
				m.book.held(a.cur, func(it item) {
					if it.l != nil {
						it.l.op.excused = true
					}
				})
			}
		}
	}
	for _, o := range m.book.said {
		switch {
		case o.excused:
		case o.accepted && o.ran == 0 && o.refused == 0:
			w.fail("I3", "%s %v was accepted, and neither executed nor refused", when, o)
		case o.asks && o.ended == 0:
			w.fail("I12", "%s %v has not ended", when, o)
		}
	}
	for _, p := range w.living {
		for _, s := range p.host.sessions {
			if k := s.keep; k != nil && (k.cut || k.holding) {
				w.fail("I11", "%s session %d is reserved or resumes another one", when, s.n)
			}
			for _, b := range s.bounds {
				m.expectRoute(when, s, b)
			}
		}
		for _, a := range p.host.cells() {
			m.expectBound(when, a)
		}
	}
	m.expectReceived(when)
	m.expectTold(when)
}

// expectBound checks that the Session that an Actor is bound to knows of it (I9).
func (m *moves) expectBound(when string, a *actor) {
	h, key := a.h, a.binding.key
	if !a.binding.stands(h) || a.tenure != owned || a.gone || a.stuck != "" { // one that is stuck has not looked yet
		return
	}
	owner := h
	if key.link != nil {
		p := m.w.find(h.peer(key.link).RID, h.peer(key.link).Lifecycle)
		if p == nil {
			return
		}
		owner = p.host
	}
	s := owner.session(key.session)
	if s == nil || s.closed || s.to(a.ref.id) == nil || s.to(a.ref.id).gen != key.gen || s.to(a.ref.id).ended {
		m.w.fail("I9", "%s %s is bound to session %d by %d, which has no such binding", when, a.ref.id, key.session, key.gen)
	}
}

// left says what of a process's registries is not empty although it should be.
func (h *host) left() string {
	for _, a := range h.cells() {
		switch _, runs := a.cur.(open); {
		case a.stuck != "":
		case a.load != 0 || len(a.queue) != 0 || a.busy:
			return fmt.Sprintf("%d letters of %s in the budget, %d in the queue, busy %v", a.load, a.ref.id, len(a.queue), a.busy)
		case !runs, a.join != nil:
			return fmt.Sprintf("%s with the consumer %T, join %v", a.ref.id, a.cur, a.join != nil)
		case a.taken:
			return "the row of " + a.ref.id + " taken"
		}
	}
	for _, r := range h.roomCells() {
		members := 0
		for _, a := range h.cells() {
			if a.room == r && !a.gone {
				members++
			}
		}
		if r.stuck != "" {
			continue
		}
		if r.claimed || r.calm != nil || r.tenure != owned && !r.orphaned() && !r.found {
			return fmt.Sprintf("room %s claimed %v, with %d members, tenure %d", r.ref.id, r.claimed, r.members, r.tenure)
		}
		members += len(r.away)
		if members != r.members || r.taken {
			return fmt.Sprintf("%d members of %s, and counts %d", members, r.ref.id, r.members)
		}
	}
	out := len(h.out)
	for _, o := range h.out {
		if o.stranded {
			out--
		}
	}
	if n := len(h.machines) + out + len(h.in) + len(h.preparing) + len(h.pending) + h.permits + len(h.late); n > 0 {
		return fmt.Sprintf("%d machines, %d moves from it, %d to it, %d prepared, %d requests, %d permits, %d late",
			len(h.machines), out, len(h.in), len(h.preparing), len(h.pending), h.permits, len(h.late))
	}
	return ""
}

// expectAtPlace checks that an Actor with a row is at its owner, or that this is dead, or that
// it is listed as stuck.
func (m *moves) expectAtPlace(when, id string) {
	w := m.w
	row, found, _ := w.store.Read(background, id)
	if !found {
		return
	}
	p := w.find(row.RID, row.LeaseGen)
	if p == nil {
		w.Cover.Mark("unavailable with its dead owner")
		return
	}
	a := p.host.actors[id]
	switch {
	case a != nil && a.stuck != "" && a.ref.gen == row.ObjectGen:
		w.Cover.Mark("stuck")
	case row.Move != nil:
		w.fail("I12", "%s the move of %s to %s stands, and it is not stuck at its owner", when, id, row.Move.TargetRID)
	case a == nil || a.ref != refOf(&row):
		w.fail("I12", "%s %s is not at its owner %s", when, id, p.name())
	case a.version > row.Version: // a smaller one is found at the next change
		w.fail("I8", "%s %s has version %d of %s, whose row has %d", when, p.name(), a.version, id, row.Version)
	}
}

// expectRoute checks that a client's packets go to the Actor's owner (I9).
func (m *moves) expectRoute(when string, s *conn, b *bound) {
	if b.ended || b.lost(s.h) {
		return
	}
	f := m.book.of[b.ref.gen]
	a := s.h.actors[b.ref.id]
	switch p := m.w.find(f.owner.RID, f.owner.Lifecycle); {
	case f.gone || p == nil:
		return
	case b.ref.at != f.owner || b.ref.owner != f.as:
		m.w.fail("I9", "%s client %d is bound to %s at %s as owner %d, which is %s's as %d", when, s.n, b.ref.id, b.ref.at.RID, b.ref.owner, f.owner.RID, f.as)
	case b.link == nil && a != b.cell && a != nil && a.ref.gen == b.ref.gen:
		m.w.fail("I9", "%s client %d is bound to a cell of %s that is over", when, s.n, b.ref.id)
	case s.replaced:
		m.w.fail("I12", "%s session %d was replaced, and is open", when, s.n)
	case b.link == nil && a != nil && !a.gone && a.stuck == "" && a.binding.key != (bindingKey{nil, s.n, b.gen}):
		m.w.fail("I9", "%s client %d is bound to %s by %d, which is session %d's by %d", when, s.n, b.ref.id, b.gen, a.binding.key.session, a.binding.key.gen)
	case b.way != nil && b.way.moving:
		m.w.fail("I12", "%s client %d waits for a move", when, s.n)
	}
}

// expectAnswers has each Actor asked from each node, which must end well.
func (m *moves) expectAnswers() {
	w := m.w
	for _, id := range m.ids {
		for _, s := range w.slots {
			if w.failed != nil {
				return
			}
			m.book.ops++
			o := &op{n: m.book.ops, id: id, asks: true, timeout: 10 * time.Second}
			(&writer{h: s.process.host, name: "the last at " + s.rid}).write(o)
			w.advance(w.now + 12*time.Second)
			row, found, _ := w.store.Read(background, id)
			switch f := o.last.fail; {
			case o.ended != 1:
				w.fail("I12", "after the faults %v has not ended", o)
			case !found:
			case f == nil:
				w.Cover.Mark("answered after the faults")
			case f.kind == errkind.Unavailable && (row.LeaseLeft <= 0 || m.isStuck(&row)):
			default:
				w.fail("I12", "after the faults %v ended with %v: %s", o, f.kind, f.text)
			}
		}
	}
	m.expectRest("after each was asked")
}

// expectNothing has all destroyed, after which nothing may be left.
func (m *moves) expectNothing() {
	w := m.w
	for _, id := range m.ids {
		if row, found, _ := w.store.Read(background, id); found && row.InUserSpot && row.LeaseLeft > 0 && !m.isStuck(&row) && w.failed == nil {
			m.book.ops++
			(&writer{h: w.slots[0].process.host, name: "the end"}).write(&op{n: m.book.ops, id: id, join: &plan{slot: -1, timeout: 10 * time.Second}})
		}
	}
	w.advance(w.now + 12*time.Second)
	for _, all := range [][]string{m.ids, m.rooms} {
		for _, id := range all {
			h := w.slots[w.choose(w.nodes)].process.host
			if row, found, _ := w.store.Read(background, id); found && w.failed == nil {
				h.destroy(id, row.ObjectGen, func(gone bool, f *failure) { m.destroyed(h, id, row.ObjectGen, gone, f) })
			}
		}
		w.advance(w.now + 12*time.Second)
		for _, id := range all {
			if row, found, _ := w.store.Read(background, id); found && w.failed == nil {
				w.fail("I12", "%s could not be destroyed; move %v, member %v of %s", id, row.Move != nil, row.InUserSpot, row.SpotID)
			}
		}
	}
	list, _ := w.store.ListNodes(background, 0)
	for _, d := range list.Nodes {
		if d.Actors != 0 || d.Spots != 0 {
			w.fail("I8", "%s uses %d and %d slots when all is destroyed", d.RID, d.Actors, d.Spots)
		}
	}
}
