package sim

import (
	"slices"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	lifecycle "github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// This file takes a room over, with its members if it is SpotWide: all of them are restored
// before relay-ready, and open in one step behind the one commit.

// expects registers what a Restore says will come, which is the members of a SpotWide room. It is
// false if another move of one of them has yet to end here, or if a member's room is not here.
func (i *arriving) expects(want *relay.Restore, p *payload) bool {
	h := i.h
	if i.as == lifecycle.Actor && want.InUserSpot && i.room == nil {
		r := h.rooms[want.Move.MoveSpotID]
		if r == nil || r.gone || !slices.Contains(r.away, memberAway{i.a.ref.id, i.a.ref.gen}) {
			h.w.Cover.Mark("a member came, and its room was not there")
			i.tell(relay.TargetEvent{Is: relay.TargetAborted})
			return false
		}
		i.room = r
	}
	if i.r == nil || i.members != nil {
		return true
	}
	free := true
	for _, m := range p.whole.members {
		if before := h.preparing[m.ref.id]; before != nil {
			h.w.Cover.Mark("a member's earlier move had not ended")
			before.tell(relay.TargetEvent{Is: relay.TargetAborted})
			free = false
		}
	}
	if !free {
		return false
	}
	for _, m := range p.whole.members {
		c := &arriving{h: h, as: i.as, id: m.id, from: i.from, until: clock.Never, whole: i, room: i.r, epoch: m.epoch}
		c.register(m.ref)
		i.members = append(i.members, c)
	}
	return true
}

// cutOver is told of each cutover: the room's has come when those of all members have.
func (i *arriving) cutOver() {
	if i.whole != nil {
		i = i.whole
	}
	if i.r != nil && (!i.cut || slices.ContainsFunc(i.members, func(m *arriving) bool { return !m.q.cut })) {
		return
	}
	i.tell(relay.TargetEvent{Is: relay.TargetCutover, MayAct: true})
}

// askNode sees whether this node can take the room: no application is asked.
func (i *arriving) askNode() {
	h := i.h
	h.after(h.w.moves.drawTurn(), func() {
		e := relay.TargetEvent{Is: relay.TargetDecided, MayAct: h.mayAct()}
		switch {
		case !h.mayAct():
			e.Failure = errNotOwner.relay()
		case h.stopping:
			e.Failure = errStopping.relay()
		}
		i.done(e)
	})
}

// stageRoom restores all, or nothing.
func (i *arriving) stageRoom() {
	h := i.h
	i.staging++
	n, whole := i.staging, i.payload.whole
	over := false
	end := func(e relay.TargetEvent) {
		if !over {
			over = true
			i.done(e)
		}
	}
	if at, ok := i.target.NextDeadline(); ok {
		h.at(at, func() { end(relay.TargetEvent{Is: relay.TargetTick}) })
	}
	failing := -1
	if h.w.chance(h.w.moves.breaks) {
		failing = h.w.choose(1 + len(i.members))
	}
	h.after(h.w.moves.drawFactory(), func() {
		if over || n != i.staging {
			return
		}
		e := relay.TargetEvent{Is: relay.TargetStaged, MayAct: h.mayAct() && h.known <= i.epoch}
		for k, m := range i.members {
			p := whole.members[k]
			b, gone, f := h.adopt(p.bound)
			if f != nil {
				e.Failure = f.relay()
			}
			m.a.state = slices.Clone(p.state)
			m.a.version, m.a.epoch = p.version, p.epoch
			if m.bound, m.lost = b, p.lost; gone {
				m.lost = bindingKey{session: p.bound.session, gen: p.bound.gen}
			}
			for _, c := range p.queue {
				m.q.saved = append(m.q.saved, item{l: h.arrived(c, place{})})
			}
		}
		if failing >= 0 {
			h.w.Cover.Mark("the restore of one of a room failed")
			e.Failure = &relay.Failure{Kind: errkind.InternalFailure, Text: "the factory failed"}
		}
		end(e)
	})
}

// confirmRoom is confirm for the room, and then for its members.
func (i *arriving) confirmRoom(row *store.Authority) {
	h, r := i.h, i.r
	i.takeRow(func() {
		r.written(row)
		for _, m := range i.members {
			m.a.rowRoom = r
		}
		h.confirmRoom(r, func(f *failure) {
			e := relay.TargetEvent{Is: relay.TargetConfirmed, Row: *row}
			e.Row.Version, e.Row.Epoch = r.version, r.epoch
			if f != nil {
				e.Failure = f.relay()
				i.done(e)
				return
			}
			i.confirmMembers(i.members, func() { i.done(e) })
		})
	})
}

// confirmMembers has the members' rows written again, too. One whose row is another's is dropped
// when the others open.
func (i *arriving) confirmMembers(rest []*arriving, done func()) {
	if len(rest) == 0 {
		done()
		return
	}
	m := rest[0]
	m.a.takeRow(clock.Never, func(bool) {
		i.h.confirm(m.a, i.machine, func(f *failure) {
			m.a.leaveRow()
			if f != nil {
				i.h.w.Cover.Mark("a member's row was another's behind the commit")
				m.astray = true
			}
			i.confirmMembers(rest[1:], done)
		})
	})
}

// confirmRoom returns once the room's row is written in the epoch that this process knows. It is
// for the holder of takeRow.
func (h *host) confirmRoom(r *room, done func(*failure)) {
	known := h.known
	if !r.behind(known) {
		done(nil)
		return
	}
	h.w.Cover.Mark("a room was confirmed in a later epoch")
	h.reassertRoom(r, known, func(end rowEnd) {
		switch end {
		case rowIsWritten:
			h.confirmRoom(r, done)
		case rowIsOver:
			done(&failure{errkind.Unavailable, "its past is lost, and its row cannot be written again", false})
		case rowInDoubt:
			h.after(again, func() { h.confirmRoom(r, done) })
		}
	})
}

// mergeRoom makes the room and its members this process's, with dispatch closed.
func (i *arriving) mergeRoom() {
	h, r := i.h, i.r
	whole := i.payload.whole
	if before := h.rooms[r.ref.id]; before != nil && before != r {
		h.w.Cover.Mark("a room came back")
		before.end()
	}
	h.rooms[r.ref.id] = r
	r.tenure, r.away = owned, slices.Clone(whole.away)
	r.members = len(i.members) + len(r.away)
	left := len(i.members) + 1
	one := func() {
		if left--; left > 0 {
			return
		}
		if l := h.linkOf(i.from); l != nil {
			i.answer(l)
		}
		i.leaveRow()
		i.done(relay.TargetEvent{Is: relay.TargetMerged})
	}
	for _, m := range i.members {
		m.mergeActor(one)
	}
	h.w.moves.book.mergedRoom(i)
	one()
}

// endRoom opens all, or drops all that was prepared.
func (i *arriving) endRoom(e *relay.TargetEffect) {
	h, r := i.h, i.r
	until := h.clock().Add(h.w.moves.relayedFor())
	for _, m := range i.members {
		m.over, m.until = true, until
		if h.preparing[m.a.ref.id] == m {
			delete(h.preparing, m.a.ref.id)
		}
	}
	switch e.Outcome {
	case relay.TargetOpened:
		r.claimed, r.closed = false, false
		for _, m := range i.members {
			if m.astray {
				h.drop(m.a, errGone)
				continue
			}
			m.open()
		}
		h.w.acts(h.process)
		if r.wide {
			h.completeMove(r, i.id, 3)
		}
	case relay.TargetStuck:
		r.stuck, r.claimed = e.Failure.Text, false // nobody enters it; its members may leave it
		for _, m := range i.members {
			m.a.stuck = r.stuck
			m.a.seal(func() { m.a.cur = sealed{m.q} })
		}
	case relay.TargetDropped:
		for _, m := range i.members {
			m.unregister()
		}
		h.in = slices.DeleteFunc(h.in, func(other *arriving) bool { return other.whole == i })
		if h.rooms[r.ref.id] == r {
			delete(h.rooms, r.ref.id)
		}
		i.drop(e.Failure)
	}
}

// open lets the member run, in the step in which the others of its room do.
func (i *arriving) open() {
	a := i.a
	if a.gone {
		a.end(errGone)
		return
	}
	a.cur = open{}
	a.unread(i.q.unread())
	a.wake()
	if l := i.h.linkOf(i.from); l != nil {
		i.q.acknowledge(l)
	}
	if i.lost.gen != 0 {
		i.h.w.Cover.Mark("a client was lost during a move")
		i.h.w.moves.book.disconnected(a, i.lost)
	}
}

// completeMove has the Store drop the inventory. If it does not answer, the next move does.
func (h *host) completeMove(r *room, id store.RelocationID, tries int) {
	h.change("complete move", nil, false, func() (store.Change, error) { return h.w.store.CompleteMove(background, r.fence(), id) },
		func(c store.Change, err error) {
			if err != nil && tries > 1 {
				h.after(again, func() { h.completeMove(r, id, tries-1) })
			}
		})
}
