package sim

import (
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	lifecycle "github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/store"
)

// This file moves a unit for its node: an Actor, a PerActor room, or a SpotWide room with its
// members. No Join concerns it meanwhile (JN-13).

// unit is what a node moves by its own will, with a permit.
type unit struct {
	h        *host
	kind     lifecycle.UnitKind
	id       string
	to       place
	deadline clock.Mono
	cut      func() // called once, when its cutover was submitted
	ended    func(unitEnd)
	over     bool
	sent     bool    // something of it was
	claimed  []*join // of Actors
	room     *room   // that is claimed
}

// unitEnd is how the move of a unit ended.
type unitEnd struct {
	result lifecycle.UnitResult
	fail   *failure
	sent   bool // something of it was
}

var (
	errClaimed   = &failure{errkind.Unavailable, "its node is being relocated, and the object moves", false}
	errOrphan    = &failure{errkind.Unavailable, "the node that has its room is dead", false}
	errUnitStuck = &failure{errkind.InternalFailure, "it is sealed by a callback that keeps failing", false}
)

// as is as what it travels; 0 is a Join's move.
func (u *unit) as() lifecycle.UnitKind {
	if u == nil {
		return 0
	}
	return u.kind
}

// isCutOver is told that the cutover of the unit, if it is one, was submitted.
func (u *unit) isCutOver() {
	if u != nil && u.cut != nil {
		cut := u.cut
		u.cut = nil
		cut()
	}
}

// end gives back what is claimed and tells how it ended.
func (u *unit) end(result lifecycle.UnitResult, f *failure) {
	if u.over {
		return
	}
	u.over = true
	u.release()
	if result == lifecycle.Left {
		u.isCutOver()
	}
	h := u.h
	text := ""
	if f != nil {
		text = f.text
	}
	h.w.note(h.process, "unit "+result.String(), u.id, text, 0)
	h.w.Cover.Mark(u.kind.String() + " " + result.String())
	h.soon(func() { u.ended(unitEnd{result, f, u.sent}) })
}

func (u *unit) release() {
	for _, j := range u.claimed {
		if j.a.join == j {
			j.a.join, j.a.sealing = nil, false
		}
	}
	if r := u.room; r != nil {
		r.claimed = r.tenure == departed && r.stuck == "" // its members follow
	}
	u.claimed, u.room = nil, nil
}

// claimEvery is how often a unit that something else has looks again.
const claimEvery = 5 * time.Millisecond

// moveUnit moves the unit, for which the caller has a permit.
func (h *host) moveUnit(u *unit) {
	h.w.note(h.process, "moves "+u.kind.String(), u.id, u.to.RID, 0)
	if a := h.actors[u.id]; a != nil && a.room != nil && a.room.orphaned() {
		h.w.Cover.Mark("a room's new owner died before its members had followed")
		a.room.claimed = false
		h.leavePermit()
		u.end(lifecycle.Lost, errOrphan)
		return
	}
	if a := h.actors[u.id]; u.kind == lifecycle.Actor && a != nil && a.room != nil && a.room.tenure == owned {
		h.w.Cover.Mark("a member had joined another room before it followed its own")
		u.isGone()
		return
	}
	if h.linkOf(u.to) == nil {
		h.leavePermit()
		u.end(lifecycle.Stayed, errNoWay)
		return
	}
	if u.kind == lifecycle.Actor {
		u.claimActor(u.h.actors[u.id], func(j *join) { u.moveActor(j) })
		return
	}
	u.claimRoom()
}

// fails ends a unit of which nothing has begun.
func (u *unit) fails(f *failure) {
	u.h.leavePermit()
	u.end(lifecycle.Stayed, f)
}

// isGone ends one that is no object of this process any more.
func (u *unit) isGone() {
	u.h.leavePermit()
	u.end(lifecycle.Left, nil)
}

// claimActor takes the place of a Join in a turn of the Actor. A Join that is there comes first.
func (u *unit) claimActor(a *actor, then func(*join)) {
	h := u.h
	switch {
	case a == nil || a.gone || a.tenure != owned && a.stuck == "":
		u.isGone()
		return
	case a.stuck != "":
		u.fails(errUnitStuck)
		return
	case h.stopping:
		u.fails(errStopping)
		return
	case h.clock().Reached(u.deadline):
		u.fails(errNoReply)
		return
	}
	over := false
	again := func() {
		if !over {
			over = true
			h.after(claimEvery, func() { u.claimActor(a, then) })
		}
	}
	h.at(u.deadline, again)
	a.control(func(refused *failure) {
		switch {
		case over:
		case refused != nil, a.join != nil, a.cur != consumer(open{}):
			h.w.Cover.Mark("a unit waited for a join")
			again()
		default:
			over = true
			j := &join{h: h, a: a, phase: joinClaim, deadline: u.deadline}
			a.join, u.claimed = j, append(u.claimed, j)
			then(j)
		}
	})
}

// moveActor moves the Actor to the Entry Spot of the target, or to its room there.
func (u *unit) moveActor(j *join) {
	h, a := u.h, j.a
	o := &leaving{
		h: h, unit: u, join: j, cell: &a.cell, a: a, deadline: u.deadline, to: u.to, from: a.room, until: clock.Never, permitted: true,
		id: h.w.moves.newRelocation(),
	}
	if r := a.room; r != nil {
		o.spot, o.member = r.ref.id, true
	} else if o.spot = h.entryOf(u.to); o.spot == "" {
		o.leavePermit()
		u.end(lifecycle.Stayed, errNoWay)
		return
	}
	a.takeRow(u.deadline, func(ok bool) {
		o.locked = ok
		switch {
		case !ok:
			o.leavePermit()
			u.end(lifecycle.Stayed, errNoReply)
		case a.gone:
			o.leavePermit()
			o.leaveRow()
			u.end(lifecycle.Left, nil)
		default:
			h.w.moves.book.leaves(o)
			o.begin(a.fence(), false, store.OpID{})
		}
	})
}

// entryOf returns the Entry Spot of a process that lives, or "".
func (h *host) entryOf(to place) string {
	if p := h.w.find(to.RID, to.Lifecycle); p != nil {
		return p.entryID()
	}
	return ""
}

// claimRoom excludes whoever would enter, leave or close the room, once none does.
func (u *unit) claimRoom() {
	h := u.h
	r := h.rooms[u.id]
	switch {
	case r == nil || r.gone || r.tenure != owned && r.stuck == "":
		u.isGone()
		return
	case r.stuck != "":
		u.fails(errUnitStuck)
		return
	case h.stopping:
		u.fails(errStopping)
		return
	case h.clock().Reached(u.deadline):
		u.fails(errNoReply)
		return
	case r.claimed || r.members < 0 || r.visited():
		h.w.Cover.Mark("a room waited for who enters or leaves")
		h.after(claimEvery, u.claimRoom)
		return
	}
	r.claimed, u.room = true, r
	if !r.wide {
		u.moveRoom(r, nil)
		return
	}
	u.claimMembers(r, r.here())
}

// claimMembers claims all members of a SpotWide room, one after the other.
func (u *unit) claimMembers(r *room, rest []*actor) {
	if len(rest) > 0 {
		u.claimActor(rest[0], func(*join) { u.claimMembers(r, rest[1:]) })
		return
	}
	u.moveRoom(r, slices.Clone(u.claimed))
}

// moveRoom moves a room, with those members.
func (u *unit) moveRoom(r *room, members []*join) {
	h := u.h
	o := &leaving{
		h: h, unit: u, cell: &r.cell, r: r, deadline: u.deadline, to: u.to, until: clock.Never, permitted: true,
		id: h.w.moves.newRelocation(),
	}
	for n, j := range members {
		o.members = append(o.members, &leaving{
			h: h, unit: u, join: j, cell: &j.a.cell, a: j.a, to: u.to, spot: r.ref.id, member: true, from: r, until: clock.Never, over: true,
			whole: o, id: memberMove(o.id, n),
		})
	}
	r.takeRow(u.deadline, func(ok bool) {
		o.locked = ok
		switch {
		case !ok:
			o.leavePermit()
			u.end(lifecycle.Stayed, errNoReply)
		case r.gone:
			o.leavePermit()
			o.leaveRow()
			u.end(lifecycle.Left, nil)
		default:
			h.w.moves.book.leavesWhole(o)
			h.out = append(h.out, o.members...)
			o.begin(r.fence(), true, h.newOp())
		}
	})
}

// memberMove is the id of a member's relay stream.
func memberMove(whole store.RelocationID, n int) store.RelocationID {
	whole[2] += byte(1 + n)
	return whole
}

// fence is for the holder of takeRow.
func (r *room) fence() store.Fence {
	return store.Fence{ID: r.ref.id, ObjectGen: r.ref.gen, Version: r.version, OwnerID: r.h.lease.OwnerID, LeaseGen: r.h.lease.Gen}
}
