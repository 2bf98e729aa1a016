package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/lease"
	"github.com/zlnode/zlnode/store"
)

// This file is about a Store whose past differs from what a process was told.

// cells returns the Actors of the table in order.
func (h *host) cells() (all []*actor) {
	for _, id := range h.w.moves.ids {
		if a := h.actors[id]; a != nil {
			all = append(all, a)
		}
	}
	return all
}

func (h *host) roomCells() (all []*room) {
	for _, id := range h.w.moves.rooms {
		if r := h.rooms[id]; r != nil {
			all = append(all, r)
		}
	}
	return all
}

// heardFreed takes what a renewal says of rows that others took away.
func (h *host) heardFreed(r *store.LeaseResult, renewed lease.Answered) {
	p := h.process
	news := uint64(r.Epoch) != p.keeper.Epoch()
	switch {
	case !p.unread && r.Freed == p.freed:
	case !p.unread && news && (r.Freed < p.freed || p.mayAct()):
		p.freed = r.Freed
	default:
		p.unread = true
		p.w.Cover.Mark("freed rows noticed")
		epoch := store.Epoch(p.keeper.Epoch())
		h.dropFreedRooms(h.roomCells(), epoch, func(read bool) {
			if !read {
				p.keep(lease.Failed{})
				return
			}
			h.dropFreed(h.cells(), epoch, func(read bool) {
				if !read {
					p.keep(lease.Failed{})
					return
				}
				p.freed, p.unread = r.Freed, false
				p.keep(renewed)
			})
		})
		return
	}
	p.keep(renewed)
}

// dropFreedRooms ends the rooms whose rows are gone or another's.
func (h *host) dropFreedRooms(rest []*room, epoch store.Epoch, done func(read bool)) {
	if len(rest) == 0 {
		done(true)
		return
	}
	r := rest[0]
	if r.tenure != owned {
		h.dropFreedRooms(rest[1:], epoch, done)
		return
	}
	behind := r.epoch < epoch
	h.read(nil, r.ref.id, storeCallMax, func(row store.Authority, found bool, err error) {
		switch {
		case err != nil:
			done(false)
			return
		case behind && (!found || row.Epoch < epoch):
		case !found, !h.owns(&row), row.ObjectGen != r.ref.gen:
			r.end()
		}
		h.dropFreedRooms(rest[1:], epoch, done)
	})
}

// dropFreed ends the Actors whose rows are gone or another's.
func (h *host) dropFreed(rest []*actor, epoch store.Epoch, done func(read bool)) {
	if len(rest) == 0 {
		done(true)
		return
	}
	a := rest[0]
	if a.tenure != owned {
		h.dropFreed(rest[1:], epoch, done)
		return
	}
	behind := a.behind(epoch)
	h.read(nil, a.ref.id, storeCallMax, func(row store.Authority, found bool, err error) {
		switch {
		case err != nil:
			done(false)
			return
		case behind && (!found || row.Epoch < epoch):
		case !found, !h.owns(&row), row.ObjectGen != a.ref.gen:
			h.w.Cover.Mark("freed object dropped")
			h.drop(a, errGone)
		}
		h.dropFreed(rest[1:], epoch, done)
	})
}

// beginReassertion writes all rows again in the epoch.
func (h *host) beginReassertion(epoch store.Epoch) {
	h.known = epoch
	h.w.Cover.Mark("rows are written again")
	h.w.note(h.process, "hears of epoch", "", "", uint64(epoch))
	clear(h.routes)
	h.round++
	h.publish()
	h.reassert(h.round, epoch, timing.Wait)
}

func (h *host) reassert(round int, epoch store.Epoch, wait time.Duration) {
	if round != h.round {
		return
	}
	h.reassertRooms(h.roomCells(), epoch, func(rooms bool) {
		h.reassertActors(h.cells(), epoch, func(actors bool) {
			if round != h.round {
				return
			}
			if !rooms || !actors {
				h.after(wait, func() { h.reassert(round, epoch, min(2*wait, settleWait)) })
				return
			}
			h.keep(lease.Reasserted{Epoch: uint64(epoch)})
			h.deleteUnknown(round)
		})
	})
}

const settleWait = 500 * time.Millisecond

func (h *host) reassertRooms(rest []*room, epoch store.Epoch, done func(all bool)) {
	if len(rest) == 0 {
		done(true)
		return
	}
	r := rest[0]
	next := func(ok bool) { h.reassertRooms(rest[1:], epoch, func(all bool) { done(all && ok) }) }
	if r.gone || r.tenure != owned || r.epoch >= epoch {
		next(true)
		return
	}
	if r.taken {
		next(false)
		return
	}
	r.taken = true
	h.reassertRoom(r, epoch, func(end rowEnd) {
		r.leaveRow()
		if end == rowIsOver {
			r.end()
		}
		next(end != rowInDoubt)
	})
}

// reassertRoom is for the holder of takeRow.
func (h *host) reassertRoom(r *room, epoch store.Epoch, done func(rowEnd)) {
	re := store.Reassert{
		Op: h.newOp(), Epoch: epoch, Owner: h.lease, ID: r.ref.id, Kind: store.UserSpot, Type: spotType, Wide: r.wide, ObjectGen: r.ref.gen,
		OwnerGen: r.ref.owner, Version: r.version, Mesh: meshName,
	}
	h.reassertRow(re, func(c store.Change, end rowEnd) {
		switch end {
		case rowIsWritten:
			r.version, r.epoch = c.Record.Version, epoch
		case rowInDoubt:
			if h.owns(&c.Record) && c.Record.ObjectGen == r.ref.gen {
				r.version = max(r.version, c.Record.Version)
			}
		case rowIsOver:
		}
		done(end)
	})
}

func (h *host) reassertActors(rest []*actor, epoch store.Epoch, done func(all bool)) {
	if len(rest) == 0 {
		done(true)
		return
	}
	a := rest[0]
	next := func(ok bool) { h.reassertActors(rest[1:], epoch, func(all bool) { done(all && ok) }) }
	if a.tenure != owned || !a.behind(epoch) {
		next(true)
		return
	}
	a.takeRow(h.clock().Add(again), func(ok bool) {
		if !ok {
			next(false)
			return
		}
		if !a.behind(epoch) {
			a.leaveRow()
			next(true)
			return
		}
		h.reassertActor(a, epoch, func(end rowEnd) {
			a.leaveRow()
			if end == rowIsOver {
				h.drop(a, errGone)
			}
			next(end != rowInDoubt)
		})
	})
}

// rowEnd is what a try to write a row again has shown.
type rowEnd uint8

const (
	rowIsWritten rowEnd = iota
	rowInDoubt
	rowIsOver
)

// reassertActor is for the holder of takeRow.
func (h *host) reassertActor(a *actor, epoch store.Epoch, done func(rowEnd)) {
	if r := a.rowRoom; r != nil && (r.gone || r.orphaned() || r.stuck != "" && !r.wide) { // nobody will write its row again
		if r.wide {
			h.soon(func() { done(rowIsOver) })
			return
		}
		a.rowRoom = nil
		a.control(func(refused *failure) {
			if refused == nil && a.room == r {
				a.room = nil
				r.leave()
			}
		})
	}
	re := store.Reassert{
		Op: h.newOp(), Epoch: epoch, Owner: h.lease, ID: a.ref.id, Kind: store.Actor, Type: actorTypes[0], ObjectGen: a.ref.gen,
		OwnerGen: a.ref.owner, Version: a.version, Mesh: meshName, SpotID: h.entryID(),
	}
	if r := a.rowRoom; r != nil {
		re.SpotID, re.InUserSpot, re.Shares = r.ref.id, true, r.wide
	}
	h.reassertRow(re, func(c store.Change, end rowEnd) {
		switch end {
		case rowIsWritten:
			a.version, a.epoch = c.Record.Version, epoch
		case rowInDoubt:
			if h.owns(&c.Record) && c.Record.ObjectGen == a.ref.gen {
				a.version = max(a.version, c.Record.Version)
			}
		case rowIsOver:
		}
		done(end)
	})
}

func (h *host) reassertRow(r store.Reassert, done func(store.Change, rowEnd)) {
	h.untilKnown(func(answer func(store.Change, error)) {
		h.change("reassert", nil, false, func() (store.Change, error) { return h.w.store.Reassert(background, r) }, answer)
	}, func(c store.Change, _ bool, err error) {
		row := &c.Record
		switch {
		case errors.Is(err, store.ErrInvalid):
			h.w.fail("I10", "%s asserts what cannot be: %v", h.name(), err)
		case err != nil:
			done(c, rowInDoubt)
		case c.Reason == store.Applied, c.Reason == store.AlreadyApplied:
			done(c, rowIsWritten)
		case c.Reason == store.VersionConflict && (h.owns(row) && row.ObjectGen == r.ObjectGen || row.Version <= r.Version):
			done(c, rowInDoubt)
		case c.Reason == store.Missing:
			h.w.Cover.Mark("a row that was removed is not written again")
			done(c, rowIsOver)
		case c.Reason == store.VersionConflict, c.Reason == store.OwnerConflict, c.Reason == store.GenerationConflict, c.Reason == store.TypeMismatch:
			h.w.Cover.Mark("a later owner is known")
			done(c, rowIsOver)
		default:
			done(c, rowInDoubt)
		}
	})
}

// confirm is for an Actor whose row is taken and was changed: it returns once the row is
// written in the epoch that this process knows.
func (h *host) confirm(a *actor, by *machine, done func(*failure)) {
	known := h.known
	if !a.behind(known) {
		done(nil)
		return
	}
	h.w.Cover.Mark("a change was confirmed in a later epoch")
	h.reassertActor(a, known, func(end rowEnd) {
		switch end {
		case rowIsWritten:
			h.confirm(a, by, done)
		case rowIsOver:
			done(&failure{errkind.Unavailable, "its past is lost, and its row cannot be written again", false})
		case rowInDoubt:
			h.after(again, func() { h.confirm(a, by, done) })
		}
	})
}

// deleteUnknown removes the rows that name this process and of which it has no object.
func (h *host) deleteUnknown(round int) {
	left, all := len(h.w.moves.ids)+len(h.w.moves.rooms), true
	read := func(ok bool) {
		all = all && ok
		if left--; left == 0 && !all && round == h.round {
			h.after(settleWait, func() { h.deleteUnknown(round) })
		}
	}
	for _, id := range slices.Concat(h.w.moves.ids, h.w.moves.rooms) {
		h.read(nil, id, storeCallMax, func(row store.Authority, found bool, err error) {
			if err == nil && found && row.State == store.Ready && h.owns(&row) && !h.has(id) && round == h.round {
				h.w.Cover.Mark("an unknown row was removed")
				h.deleteOrphan(&row, func(gone bool, _ *failure) { read(gone) })
				return
			}
			read(err == nil)
		})
	}
}

// has reports whether the object is here, or may be. One of which it is known that it has
// moved is not.
func (h *host) has(id string) bool {
	a := h.actors[id]
	return h.rooms[id] != nil || h.preparing[id] != nil || a != nil && !(a.tenure == departed && a.gone && a.stuck == "")
}

func (h *host) deleteOrphan(row *store.Authority, done func(bool, *failure)) {
	op, kept := h.newOp(), *row
	h.change("delete orphan", nil, false, func() (store.Change, error) {
		if !kept.InUserSpot && kept.Move == nil {
			return h.w.store.Delete(background, store.FenceOf(&kept), op)
		}
		f := store.FreeOf(&kept, op)
		f.By = h.lease
		return h.w.store.Free(background, f)
	}, func(c store.Change, err error) {
		if err != nil || !isGone(c.Reason) {
			done(false, errNoWay)
			return
		}
		done(true, nil)
	})
}
