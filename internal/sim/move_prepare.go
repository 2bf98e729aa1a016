package sim

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	lifecycle "github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// This file is how the requests and records of a source reach the move that they are about.

// preparation returns the move that a request of the source is about, which begins with it if it is
// new. Neither: it was refused, or comes again when the one before has ended.
func (h *host) preparation(l *link, corr uint64, as lifecycle.UnitKind, from ref, fence relay.Fence, then func(*arriving)) {
	f := errStopping
	switch {
	case h.stopping:
	case !h.mayAct():
		f = errNotOwner
	default:
		f = nil
	}
	if f != nil {
		h.answer(l, corr, reply{fail: f})
		return
	}
	if have := h.preparing[from.id]; have != nil && have.whole != nil {
		h.w.Cover.Mark("a move met that of the room")
		h.answer(l, corr, reply{fail: errMoving})
		return
	}
	if have := h.preparing[from.id]; have != nil {
		switch relay.Judge(have.fence, fence, have.target.Committing()) {
		case relay.Same:
			then(have)
		case relay.Replace:
			h.w.Cover.Mark("a later attempt replaced a preparation")
			have.onOver = append(have.onOver, func() { h.preparation(l, corr, as, from, fence, then) })
			have.tell(relay.TargetEvent{Is: relay.TargetAborted})
		case relay.Forged:
			h.w.fail("I6", "the same attempt with other contents at %s", h.name())
		default:
			h.w.Cover.Mark("an earlier attempt was refused")
			h.answer(l, corr, reply{fail: errMoving})
		}
		return
	}
	if came := h.arrivingFrom(l, fence.Relocation); came != nil {
		h.w.Cover.Mark("a restore was asked for again when it had ended")
		then(came)
		return
	}
	if h.relocates() {
		h.w.Cover.Mark("a move was refused as its target relocates")
		h.answer(l, corr, reply{fail: errClaimed})
		return
	}
	then(h.prepare(l, as, from, fence))
}

// prepare registers the temporary queue of a new attempt.
func (h *host) prepare(l *link, as lifecycle.UnitKind, from ref, fence relay.Fence) *arriving {
	i := &arriving{machine: h.begins("T R02"), h: h, as: as, id: fence.Relocation, from: h.peer(l), until: clock.Never, fence: fence}
	i.target = relay.NewTarget(relay.TargetJob{Self: h.lease, From: i.from, CommitOp: h.newOp(), GiveUpOp: h.newOp()}, h.w.moves.timing)
	if as == lifecycle.Shell || as == lifecycle.Wide {
		i.r = &room{cell: cell{h: h, ref: ref{from.id, from.gen, h.self(), from.owner + 1}, tenure: expected}, wide: as == lifecycle.Wide, claimed: true, closed: true}
		i.cell = &i.r.cell
		h.in = append(h.in, i)
		h.preparing[from.id] = i
		return i
	}
	i.register(from)
	return i
}

// register makes the temporary queue of an Actor that comes, by itself or with its room.
func (i *arriving) register(from ref) {
	h := i.h
	i.a = &actor{cell: cell{h: h, ref: ref{from.id, from.gen, h.self(), from.owner + 1}, tenure: expected}, came: true}
	i.cell = &i.a.cell
	i.q = &incoming{i: i, a: i.a}
	i.a.cur = i.q
	h.in = append(h.in, i)
	h.preparing[from.id] = i
	if h.actors[from.id] == nil { // else it was here before, and what comes for it follows it
		h.actors[from.id] = i.a
	}
}

func (h *host) joinAdmit(l *link, corr uint64, as lifecycle.UnitKind, from ref, fence relay.Fence, spot string, j *join, left time.Duration) {
	deadline := h.clock().Add(left)
	h.preparation(l, corr, as, from, fence, func(i *arriving) {
		i.asked, i.join, i.spot, i.member = waiting{l, corr}, j, spot, spot != ""
		i.tell(relay.TargetEvent{Is: relay.TargetAsked, Ask: relay.Ask{Fence: fence, SpotID: spot}, Deadline: deadline, MayAct: true})
	})
}

func (h *host) restore(l *link, corr uint64, as lifecycle.UnitKind, from ref, want relay.Restore, j *join, p *payload, left time.Duration) {
	deadline := h.clock().Add(left)
	h.preparation(l, corr, as, from, want.Fence(), func(i *arriving) {
		if !i.over && !i.expects(&want, p) {
			h.answer(l, corr, reply{fail: errMoving})
			return
		}
		i.restores, i.join, i.spot, i.member = waiting{l, corr}, j, want.Move.MoveSpotID, want.InUserSpot
		i.epoch = want.Move.Epoch
		if i.payload == nil && i.target.Progress() == relay.ProgressAssembling {
			i.payload, i.received, i.broken = p, 0, h.w.chance(h.w.moves.breaks/2)
		}
		i.tell(relay.TargetEvent{Is: relay.TargetRestoring, Restore: want, Deadline: deadline, MayAct: true})
		i.answer(l)
		if i.over {
			i.answerLate()
		}
	})
}

func (h *host) arrivingFrom(l *link, id store.RelocationID) *arriving {
	for _, i := range h.in {
		if i.id == id && i.from == h.peer(l) {
			return i
		}
	}
	return nil
}

func (h *host) chunk(l *link, id store.RelocationID, n int) {
	i := h.arrivingFrom(l, id)
	if i == nil || i.payload == nil {
		return
	}
	switch {
	case n > i.received:
		h.w.fail("I10", "chunk %d came to %s, which has %d", n, h.name(), i.received)
	case n == i.received:
		i.received++
	default:
		h.w.Cover.Mark("a chunk came twice")
	}
	i.acknowledge(l)
	i.soon()
}

func (i *arriving) say(l *link, state relay.Progress, chunks int, seq relay.Seq) {
	if !i.h.lost(l) {
		i.h.tell(l, func(to *host) { to.moveProgress(l, i.id, state, chunks, seq) })
	}
}

func (i *arriving) acknowledge(l *link) { i.say(l, relay.ProgressAssembling, i.received, 0) }

// progress is how far the move is; a member's is its room's.
func (i *arriving) progress() relay.Progress {
	if i.whole != nil {
		i = i.whole
	}
	return i.target.Progress()
}

// answer tells the source how far the move is.
func (i *arriving) answer(l *link) {
	switch p := i.progress(); {
	case p == relay.ProgressAssembling:
		i.acknowledge(l)
	case p == relay.ProgressGone, i.r != nil:
		i.say(l, p, 0, 0)
	default:
		i.a.step(func(refused *failure) {
			if refused == nil {
				i.q.acknowledge(l)
			}
		})
	}
}

func (h *host) moveAsk(l *link, id store.RelocationID) {
	if i := h.arrivingFrom(l, id); i != nil {
		i.answer(l)
		return
	}
	h.tell(l, func(to *host) { to.moveProgress(l, id, relay.ProgressGone, 0, 0) })
}

func (h *host) moveAbort(l *link, id store.RelocationID) {
	if i := h.arrivingFrom(l, id); i != nil {
		i.tell(relay.TargetEvent{Is: relay.TargetAborted})
	}
}

func (i *arriving) tell(e relay.TargetEvent) {
	if i.whole != nil {
		i = i.whole
	}
	if !i.over {
		i.queue = append(i.queue, e)
		i.soon()
	}
}

func (i *arriving) soon() {
	if !i.over {
		i.h.soon(i.run)
	}
}
