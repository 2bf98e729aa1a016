package sim

import (
	"errors"
	"slices"

	"github.com/zlnode/zlnode/internal/errkind"
	lifecycle "github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// This file moves a room from a process: a PerActor one without its members, a SpotWide one with
// all of them as one aggregate. The aggregate has the one Source; each member has a mover, a
// relay stream and a follow of its own, and the aggregate's fate.

// wholePayload is what travels of a room.
type wholePayload struct {
	wide    bool
	members []memberPayload // of a SpotWide one
	away    []memberAway    // of a PerActor one, who follow
}

// memberPayload is what travels of a member.
type memberPayload struct {
	*payload
	id      store.RelocationID // of its relay stream
	ref     ref
	version store.Version
	epoch   store.Epoch
}

// prepare stores the inventory and fixes it.
func (o *leaving) prepare(e *relay.SourceEffect) {
	h, r := o.h, o.r
	all := []store.Participant{{
		Kind: store.UserSpot, ID: r.ref.id, Type: spotType, ObjectGen: r.ref.gen, OwnerGen: r.ref.owner, Version: r.version,
	}}
	for _, m := range o.members {
		a := m.a
		all = append(all, store.Participant{
			Kind: store.Actor, ID: a.ref.id, Type: actorTypes[0], ObjectGen: a.ref.gen, OwnerGen: a.ref.owner, Version: a.version, SpotVersion: r.version,
		})
	}
	chunks, inv, err := store.BuildInventory(all)
	if err != nil {
		h.w.fail("AG-03", "no inventory of %s: %v", r.ref.id, err)
		return
	}
	e.Prepare.Inventory = inv
	if o.stored { // the row may have a later version already, for which no chunk is taken
		chunks = nil
	}
	o.put(e, chunks)
}

func (o *leaving) put(e *relay.SourceEffect, chunks [][]byte) {
	h := o.h
	if len(chunks) == 0 {
		h.change("prepare aggregate", o.machine, false, func() (store.Change, error) { return h.w.store.PrepareAggregate(background, e.Prepare) },
			func(c store.Change, err error) {
				o.done(relay.SourceEvent{Is: relay.SourcePrepared, Change: c, Err: err})
			})
		return
	}
	ask(h.process, asking{"put inventory", o.machine, storeCallMax}, func() (store.Reason, error) {
		return h.w.store.PutInventory(background, store.MoveOf(&e.Row), chunks[0])
	}, func(reason store.Reason, err error) {
		switch {
		case err != nil && !errors.Is(err, store.ErrUnknown):
			o.done(relay.SourceEvent{Is: relay.SourcePrepared, Err: err})
		case err != nil:
			h.w.Cover.Mark("the answer to a chunk of an inventory was lost")
			o.put(e, chunks)
		case reason != store.Applied && reason != store.AlreadyApplied:
			o.done(relay.SourceEvent{Is: relay.SourcePrepared, Failure: unclear(reason.String()).relay()})
		default:
			o.stored = len(chunks) == 1
			o.put(e, chunks[1:])
		}
	})
}

// sealSessions has the owners of all members' Sessions seal.
func (o *leaving) sealSessions() {
	h := o.h
	all := relay.SourceEvent{Is: relay.SourceSessionSealed, SealedAt: h.clock()}
	end := o.bounded(func() relay.SourceEvent {
		for _, m := range o.members {
			all.Bound = all.Bound || m.bound.stands(h)
		}
		all.Failure = errNoReply.relay()
		return all
	})
	left := 1
	one := func() {
		if left--; left == 0 {
			end(all)
		}
	}
	for _, m := range o.members {
		left++
		m.a.inTurn(func(refused *failure) {
			if refused != nil {
				all.Failure = refused.relay()
				one()
				return
			}
			m.bound, m.a.sealing = m.a.binding, true
			h.sealBinding(m.a, m.bound, m.id, o.limit(), func(bound bool, f *failure) {
				if all.Bound = all.Bound || bound; f != nil {
					all.Failure = f.relay()
				} else if !bound {
					m.bound = binding{}
				}
				one()
			})
		})
	}
	h.soon(one)
}

// captureAll seals all in one step in which nothing of them runs, and captures them.
func (o *leaving) captureAll() {
	h, r := o.h, o.r
	for _, m := range o.members {
		m.mover = &mover{o: m, a: m.a, back: open{}}
	}
	o.sealed = true
	seal := func() {
		e := relay.SourceEvent{Is: relay.SourceCaptured}
		whole := &wholePayload{wide: r.wide}
		for _, m := range o.members {
			a := m.a
			switch _, runs := a.cur.(open); {
			case a.gone:
				e.Failure = errGone.relay()
				continue
			case !runs:
				e.Failure = unclear("a member is sealed").relay()
				m.mover = nil
				continue
			}
			a.cur = m.mover
			for items := a.queue; len(items) > 0; items = a.queue {
				a.queue = items[1:]
				a.cur.consume(a, items[0])
			}
			whole.members = append(whole.members, memberPayload{m.mover.capture(), m.id, a.ref, a.version, a.epoch})
		}
		if !r.wide {
			for _, a := range r.here() {
				whole.away = append(whole.away, memberAway{a.ref.id, a.ref.gen})
			}
			whole.away = append(whole.away, r.away...)
		}
		if h.w.chance(h.w.moves.breaks) {
			h.w.Cover.Mark("the capture of a room failed")
			e.Failure = &relay.Failure{Kind: errkind.InternalFailure, Text: "the adapter failed"}
		}
		o.payload = &payload{whole: whole, chunks: 1 + h.w.choose(4)}
		h.soon(func() { o.done(e) })
	}
	if r.wide {
		r.whenCalm(seal)
	} else {
		seal()
	}
}

// relayAll begins to relay behind the boundary, each member by its own stream.
func (o *leaving) relayAll(l *link) {
	o.relays = true
	for _, m := range o.members {
		m.a.tenure = departed
		m.a.step(func(refused *failure) {
			if refused == nil {
				m.mover.relay(l)
			}
		})
	}
	o.cutOverRoom(l)
}

func (o *leaving) cutOverRoom(l *link) {
	if l != nil && !o.h.lost(l) {
		o.h.tell(l, func(to *host) { to.cutover(l, o.id, 0, 0) })
	}
}

// endRoom is end for a room: it and all its members, or none.
func (o *leaving) endRoom(e *relay.SourceEnded) {
	h, r, u := o.h, o.r, o.unit
	switch e.Outcome {
	case relay.SourceMoved:
		o.movedRoom(e)
		o.leaveRow()
		u.end(lifecycle.Left, nil)
		return
	case relay.SourceLost:
		if !o.sealed || !e.Found || e.Row.ObjectGen != r.ref.gen {
			o.abandonRoom()
		} else {
			o.strandRoom(e)
		}
		o.leaveRow()
		u.end(lifecycle.Lost, failureOf(e.Failure))
		return
	case relay.SourceRejected, relay.SourceFailed:
	}
	if l := h.linkOf(o.to); e.Prepared && l != nil {
		h.tell(l, func(to *host) { to.moveAbort(l, o.id) })
	}
	back := func() {
		r.calm = nil
		for _, m := range o.members {
			if e.Captured && m.mover != nil && m.a.cur == consumer(m.mover) {
				m.a.seal(m.mover.handBack)
			}
			if e.Sealed {
				h.endSeal(m.bound, m.id, m.a.ref, false)
			}
			m.a.wake()
		}
		o.leaveRow()
		o.forgetOut()
		u.end(lifecycle.Stayed, failureOf(e.Failure))
	}
	if e.Found && h.owns(&e.Row) {
		r.written(&e.Row)
	} else if e.Doubt {
		o.readAgain(back)
		return
	}
	back()
}

// forgetOut removes the move, with its members', from those that leave.
func (o *leaving) forgetOut() {
	o.h.out = slices.DeleteFunc(o.h.out, func(other *leaving) bool { return other == o || other.whole == o })
}

func (o *leaving) movedRoom(e *relay.SourceEnded) {
	h, r := o.h, o.r
	grown := max(e.OwnerGen, r.ref.owner+1) - r.ref.owner
	if now := refOf(&e.Row); now.at == o.to && e.Found && now.gen == r.ref.gen {
		grown = now.owner - r.ref.owner
	}
	r.tenure, r.to = departed, o.to
	until := h.clock().Add(h.w.moves.follow)
	o.until = until
	for _, m := range o.members {
		a := m.a
		a.tenure = departed
		now := a.ref
		now.at, now.owner = o.to, a.ref.owner+grown
		a.inTurn(func(refused *failure) {
			if refused == nil {
				m.mover.left(now)
			}
		})
		delete(h.routes, a.ref.id)
		m.until = until
	}
	if r.members == 0 {
		r.end()
	}
}

// abandonRoom ends a room whose row is gone.
func (o *leaving) abandonRoom() {
	h := o.h
	h.w.Cover.Mark("a room on its way was freed")
	o.forgetOut()
	for _, m := range o.members {
		h.drop(m.a, errGone)
	}
	o.r.tenure = departed
	o.r.end()
}

// strandRoom leaves it sealed with its members.
func (o *leaving) strandRoom(e *relay.SourceEnded) {
	h, r := o.h, o.r
	h.w.Cover.Mark("a room is stranded")
	r.stuck, r.tenure = e.Failure.Text, departed
	o.stranded = true
	for _, m := range o.members {
		a := m.a
		a.stuck, a.tenure, m.stranded = e.Failure.Text, departed, true
		a.inTurn(func(refused *failure) {
			if refused == nil && m.mover != nil {
				m.mover.end(errStranded)
			}
		})
	}
	if h.stopping && !e.Elsewhere {
		h.freeStuckRoom(r, func(bool, *failure) {})
	}
}

// foundRoom ends a room that was stranded here, and of which its target says that it has it.
func (o *leaving) foundRoom() {
	if !o.stranded {
		return
	}
	o.stranded = false
	o.h.w.Cover.Mark("a stranded room was found")
	o.forgetOut()
	if r := o.r; !r.wide { // its members follow
		r.stuck, r.to, r.found = "", o.to, true
		if r.members == 0 {
			r.end()
		}
		return
	}
	for _, m := range o.members {
		o.h.drop(m.a, errNotHere)
	}
	o.r.end()
}

// freeStuckRoom frees its members, and then it.
func (h *host) freeStuckRoom(r *room, done func(bool, *failure)) {
	for _, a := range h.cells() {
		if (a.room == r || a.rowRoom == r) && a.stuck != "" {
			h.freeStuck(a, func(gone bool, f *failure) {
				if f != nil {
					done(false, f)
					return
				}
				h.freeStuckRoom(r, done)
			})
			return
		}
	}
	r.takeRow(h.clock().Add(destroyTime), func(ok bool) {
		if !ok {
			done(false, errNoReply)
			return
		}
		h.read(nil, r.ref.id, storeCallMax, func(row store.Authority, found bool, err error) {
			finish := func(gone bool, f *failure) {
				r.leaveRow()
				done(gone, f)
			}
			switch {
			case err != nil:
				finish(false, errNoWay)
				return
			case !found || row.ObjectGen != r.ref.gen || !h.owns(&row):
				r.end()
				finish(false, nil)
				return
			}
			f := store.FreeOf(&row, h.newOp())
			f.By = h.lease
			h.untilKnown(func(answer func(store.Change, error)) {
				h.change("free", nil, false, func() (store.Change, error) { return h.w.store.Free(background, f) }, answer)
			}, func(c store.Change, doubt bool, err error) {
				if gone := err == nil && isGone(c.Reason); gone || err != nil && doubt {
					h.w.Cover.Mark("a stuck room was freed")
					r.end()
					finish(gone, nil)
					return
				}
				finish(false, errNoWay)
			})
		})
	})
}
