package sim

import (
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// This file is what the oracle is told of Joins and moves.

func (b *book) registered(j *join) {
	f := b.of[j.a.ref.gen]
	if m := b.moves[b.lastMove(f)]; m != nil && m.quiet && m.o.h == j.h && !m.o.unit.over {
		b.w.fail("JN-13", "%s begins a join while its node moves it", j.a.ref.id)
	}
	b.joins = append(b.joins, &joinRecord{j: j, life: f})
	b.w.note(j.h.process, "registers a join of", j.a.ref.id, j.spot, uint64(j.n))
}

func (b *book) askedRoom(r *room, j *join, id store.RelocationID) {
	b.w.note(r.h.process, "is asked about", j.a.ref.id, r.ref.id, uint64(j.n))
	if j.phase == joinClaim {
		b.w.fail("MB-08", "room %s is asked about %s, which its node moves", r.ref.id, j.a.ref.id)
	}
	if m := b.moves[id]; m != nil {
		if m.asked++; m.asked > 1 {
			b.w.fail("I13", "room %s was asked twice about one attempt", r.ref.id)
		}
		if m.captured != nil {
			b.w.fail("I13", "room %s was asked about %s behind the capture", r.ref.id, j.a.ref.id)
		}
	}
}

func (b *book) changedSpot(j *join) { b.joins[j.n-1].changed = true }

func (b *book) leaves(o *leaving) {
	if o.unit != nil {
		b.moves[o.id] = &moveRecord{o: o, life: b.of[o.a.ref.gen], quiet: true, from: o.h.self(), to: o.to}
		return
	}
	r := b.joins[o.join.n-1]
	r.movement = &moveRecord{o: o, life: r.life, join: r, from: o.h.self(), to: o.to}
	b.moves[o.id] = r.movement
}

// leavesWhole is told of the move of a room, and of those of its members.
func (b *book) leavesWhole(o *leaving) {
	b.wholes[o.id] = &wholeRecord{o: o}
	for _, m := range o.members {
		b.leaves(m)
	}
}

// recordsOf are those of what moves: of an Actor, or of all members of a room.
func (b *book) recordsOf(o *leaving) (all []*moveRecord) {
	if o.r == nil {
		return []*moveRecord{b.moves[o.id]}
	}
	for _, m := range o.members {
		all = append(all, b.moves[m.id])
	}
	return all
}

func (b *book) captured(o *leaving, state []int) {
	m := b.moves[o.id]
	m.captured = append([]int{-1}, state...)
	if m.life.running != nil {
		b.w.fail("I14", "%s is captured during a turn", o.a.ref.id)
	}
}

func (b *book) ready() {
	b.w.Cover.Mark("relay-ready")
	if s := b.w.script; s != nil && s.ready == 0 {
		s.ready = s.steps
	}
}

func (b *book) boundary(o *leaving) {
	for _, m := range b.recordsOf(o) {
		m.boundary = true
	}
	if r := b.wholes[o.id]; r != nil {
		r.boundary = true
	}
	b.w.Cover.Mark("relay-ready accepted")
}

// merged is of no account at a process that may not act any more: nothing runs there.
func (b *book) merged(i *arriving) {
	if s := b.w.script; s != nil && s.known == 0 {
		s.known = s.steps
	}
	if !i.h.mayAct() {
		return
	}
	m := b.moves[i.id]
	if f := m.life; !m.committed || f.owner != i.h.self() || f.as != i.a.ref.owner {
		b.w.fail("I5", "%s takes %s as owner %d, which is %s's as %d", i.h.name(), i.a.ref.id, i.a.ref.owner, f.owner.RID, f.as)
	}
	if len(i.a.state) != len(m.life.history) {
		b.w.fail("I14", "%s takes %s after %d operations, and %d were executed", i.h.name(), i.a.ref.id, len(i.a.state), len(m.life.history))
	}
}

func (b *book) joinedSpot(i *arriving) {
	m := b.moves[i.id]
	if m.quiet {
		b.w.fail("MB-08", "OnJoinedActor runs of %s, which its node moves", i.a.ref.id)
	}
	if m.joined++; m.joined > 1 || !m.committed {
		b.w.fail("I13", "OnJoinedActor of %s runs %d times, committed %v", i.a.ref.id, m.joined, m.committed)
	}
}

func (b *book) leftSpot(h *host, actor ref, id store.RelocationID) {
	m := b.moves[id]
	if m.quiet {
		b.w.fail("MB-08", "OnLeaveActor runs of %s, which its node moves", actor.id)
	}
	if m.left++; m.left > 1 || !m.committed {
		b.w.fail("I13", "OnLeaveActor of %s runs at %s %d times, committed %v", actor.id, h.name(), m.left, m.committed)
	}
}

// completed is told when a completion callback has run.
func (b *book) completed(h *host, j *join, o outcome) {
	r := b.joins[j.n-1]
	r.ended++
	b.w.note(h.process, "join ends", j.a.ref.id, o.String(), uint64(j.n))
	m := r.movement
	switch {
	case r.ended > 1:
		b.w.fail("I6", "join %d has ended twice, as %v and %v", j.n, &r.how, &o)
	case o.accepted && m != nil && !m.committed:
		b.w.fail("I6", "join %d was accepted, and its move is not committed", j.n)
	case !o.accepted && m != nil && m.committed && r.life.owner == m.to:
		b.w.fail("I6", "join %d ended as %v, and its move is committed", j.n, &o)
	case m != nil && m.joined == 0 && o.accepted:
		b.w.fail("I13", "join %d was completed before OnJoinedActor", j.n)
	}
	r.how, r.endedAt = o, h
	switch {
	case m != nil && o.accepted:
		b.w.Cover.Mark("moved")
	case m != nil:
		b.w.Cover.Mark("not moved")
		if o.fail != nil {
			b.w.Cover.Mark("not moved: " + o.fail.kind.String())
		}
	case o.accepted:
		b.w.Cover.Mark("joined at its node")
	}
}

func (b *book) sourceEnds(o *leaving, e *relay.SourceEnded) {
	if r := b.wholes[o.id]; r != nil {
		if back := e.Outcome == relay.SourceFailed || e.Outcome == relay.SourceRejected; back && r.boundary {
			b.w.fail("I4", "%s gives room %s back behind the boundary", o.h.name(), o.r.ref.id)
		}
	}
	for _, m := range b.recordsOf(o) {
		b.sourceEnd(m, m.o, e)
	}
}

func (b *book) sourceEnd(m *moveRecord, o *leaving, e *relay.SourceEnded) {
	back := e.Outcome == relay.SourceFailed || e.Outcome == relay.SourceRejected
	if back && m.boundary {
		b.w.fail("I4", "%s gives %s back behind the boundary", o.h.name(), o.a.ref.id)
	}
	if back && m.committed && m.life.owner == m.to && !m.life.gone {
		b.w.fail("I1", "%s gives %s back, which is committed at %s", o.h.name(), o.a.ref.id, m.to.RID)
	}
	m.nowhere = e.Outcome == relay.SourceLost && !e.Elsewhere
	if m.nowhere && m.committed && !m.dropped && m.life.owner == m.to && !m.life.gone && (!m.life.doubt || b.w.has(m.life)) {
		b.w.fail("I6", "%s says that %s is nowhere, which is committed at %s", o.h.name(), o.a.ref.id, m.to.RID)
	}
	if e.Outcome == relay.SourceMoved && !m.boundary {
		b.w.Cover.Mark("moved without a boundary")
	}
}

// has reports whether the owner of that incarnation has it.
func (w *World) has(f *life) bool {
	p := w.find(f.owner.RID, f.owner.Lifecycle)
	if p == nil {
		return false
	}
	a := p.host.actors[f.id]
	return a != nil && a.ref.gen == f.gen && !a.gone
}

func (b *book) targetEnds(i *arriving, how relay.TargetOutcome) {
	for _, m := range i.members {
		b.targetEnds(m, how)
	}
	if i.r != nil {
		return
	}
	m := b.moves[i.id]
	if how == relay.TargetDropped && m.committed && m.life.owner == i.h.self() && !m.life.gone && !i.h.stopping {
		if row, found, _ := b.w.store.Read(background, i.a.ref.id); found && row.ObjectGen == i.a.ref.gen && i.h.owns(&row) {
			b.w.fail("I5", "%s drops %s, which is its own", i.h.name(), i.a.ref.id)
		}
	}
	if how == relay.TargetDropped {
		m.dropped = true
		m.asked = 0 // one that comes late begins anew (RL-23)
	}
}
