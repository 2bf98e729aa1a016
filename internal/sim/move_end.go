package sim

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// This file ends Actors and rooms. Whoever asks names the incarnation exactly.

const destroyTime = 5 * time.Second

var errMember = &failure{errkind.InvalidOperation, "it is a member of a user spot", false}

// destroy ends what at names, at its owner. That of a dead owner is freed.
func (h *host) destroy(id string, gen store.ObjectGen, done func(gone bool, f *failure)) {
	over := false
	end := func(gone bool, f *failure) {
		if !over {
			over = true
			done(gone, f)
		}
	}
	h.after(destroyTime, func() { end(false, errNoReply) })
	h.read(nil, id, storeCallMax, func(row store.Authority, found bool, err error) {
		switch {
		case err != nil:
			end(false, errNoWay)
		case !found || row.ObjectGen != gen:
			end(false, nil)
		case row.LeaseLeft <= 0:
			h.free(&row, end)
		case h.owns(&row):
			h.endHere(refOf(&row), row.Kind, row.Version, end)
		default:
			l := h.linkOf(refOf(&row).at)
			if l == nil {
				end(false, errNoWay)
				return
			}
			corr := h.await(l, h.clock().Add(destroyTime), func(r reply) { end(r.v == true, r.fail) })
			h.tell(l, func(to *host) {
				to.endHere(refOf(&row), row.Kind, row.Version, func(gone bool, f *failure) { to.answer(l, corr, reply{fail: f, v: gone}) })
			})
		}
	})
}

func (h *host) free(row *store.Authority, done func(bool, *failure)) {
	f := store.FreeOf(row, h.newOp())
	h.untilKnown(func(answer func(store.Change, error)) {
		h.change("free", nil, false, func() (store.Change, error) { return h.w.store.Free(background, f) }, answer)
	}, func(c store.Change, doubt bool, err error) {
		if doubt || err != nil || !isGone(c.Reason) {
			done(false, errNoWay)
			return
		}
		done(true, nil)
	})
}

func (h *host) endHere(at ref, kind store.Kind, version store.Version, done func(bool, *failure)) {
	if kind == store.UserSpot {
		h.closeRoom(at, version, done)
		return
	}
	a := h.actors[at.id]
	switch {
	case a == nil:
		h.removeOrphan(at, done)
		return
	case a.ref.gen != at.gen:
		done(false, errNotHere)
		return
	case a.stuck != "" && a.ref == at:
		h.freeStuck(a, done)
		return
	case a.join != nil && a.join.phase == joinClaim:
		h.w.Cover.Mark("a destroy was refused as its node relocates")
		done(false, errClaimed)
		return
	}
	a.control(func(refused *failure) {
		if refused != nil {
			if refused == errGone {
				refused = nil
			}
			done(false, refused)
			return
		}
		held := &hold{}
		a.cur = held
		h.endCell(a, held, done)
	})
}

// removeOrphan removes a row of this process of which it has no object.
func (h *host) removeOrphan(at ref, done func(bool, *failure)) {
	h.read(nil, at.id, storeCallMax, func(row store.Authority, found bool, err error) {
		switch {
		case err != nil:
			done(false, errNoWay)
		case !found || row.ObjectGen != at.gen:
			done(false, nil)
		case !h.owns(&row) || h.has(at.id):
			done(false, errNotHere)
		default:
			h.w.Cover.Mark("orphan destroyed")
			h.deleteOrphan(&row, done)
		}
	})
}

// endCell removes the row once no other change of it is under way.
func (h *host) endCell(a *actor, held *hold, done func(bool, *failure)) {
	a.takeRow(clock.Never, func(bool) {
		back := func(f *failure) {
			a.release(held)
			a.leaveRow()
			done(false, f)
		}
		switch {
		case a.gone:
			a.leaveRow()
			done(false, nil)
			return
		case a.rowRoom != nil:
			back(errMember)
			return
		}
		h.deleteRowOf(a, h.newOp(), true, func(c store.Change, doubt bool, err error) {
			switch kept := err != nil && !doubt || err == nil && !isGone(c.Reason) && h.owns(&c.Record); {
			case kept && !a.gone:
				back(errNoWay)
				return
			case err != nil || !isGone(c.Reason):
				h.drop(a, errNoWay)
				a.leaveRow()
				done(false, errNoWay)
			default:
				h.drop(a, errGone)
				a.leaveRow()
				done(true, nil)
			}
		})
	})
}

func (h *host) deleteRowOf(a *actor, op store.OpID, again bool, done func(store.Change, bool, error)) {
	fence := a.fence()
	h.untilKnown(func(answer func(store.Change, error)) {
		h.change("delete", nil, false, func() (store.Change, error) { return h.w.store.Delete(background, fence, op) }, answer)
	}, func(c store.Change, doubt bool, err error) {
		if again && err == nil && c.Reason == store.VersionConflict && a.caughtUp(&c.Record) {
			h.deleteRowOf(a, op, false, done)
			return
		}
		done(c, doubt, err)
	})
}

// freeStuck ends an Actor that does not go on.
func (h *host) freeStuck(a *actor, done func(bool, *failure)) {
	a.takeRow(clock.Never, func(bool) {
		finish := func(gone bool, f *failure) {
			a.leaveRow()
			done(gone, f)
		}
		if a.gone && a.tenure == owned {
			finish(false, nil)
			return
		}
		h.read(nil, a.ref.id, storeCallMax, func(row store.Authority, found bool, err error) {
			switch {
			case err != nil:
				finish(false, errNoWay)
				return
			case !found || row.ObjectGen != a.ref.gen || !h.owns(&row):
				h.drop(a, errGone)
				finish(false, nil)
				return
			}
			f := store.FreeOf(&row, h.newOp())
			f.By = h.lease
			h.untilKnown(func(answer func(store.Change, error)) {
				h.change("free", nil, false, func() (store.Change, error) { return h.w.store.Free(background, f) }, answer)
			}, func(c store.Change, doubt bool, err error) {
				switch {
				case err != nil:
					if doubt {
						h.drop(a, errGone)
					}
					finish(false, errNoWay)
				case !isGone(c.Reason):
					finish(false, errNoWay)
				default:
					h.w.Cover.Mark("a stuck actor was freed")
					h.drop(a, errGone)
					finish(true, nil)
				}
			})
		})
	})
}

// closeRoom ends a room that has no members.
func (h *host) closeRoom(at ref, version store.Version, done func(bool, *failure)) {
	r := h.rooms[at.id]
	switch {
	case r == nil:
		h.removeOrphan(at, done)
		return
	case r.ref.gen == at.gen && r.stuck != "":
		h.freeStuckRoom(r, done)
		return
	case r.ref.gen != at.gen || r.members != 0 || r.taken || r.version != version || r.claimed || r.tenure != owned:
		h.w.Cover.Mark("a room with members was not closed")
		done(false, nil)
		return
	}
	r.members, r.taken = -1, true
	fence, op := store.Fence{ID: at.id, ObjectGen: at.gen, Version: r.version, OwnerID: h.lease.OwnerID, LeaseGen: h.lease.Gen}, h.newOp()
	h.untilKnown(func(answer func(store.Change, error)) {
		h.change("close", nil, false, func() (store.Change, error) { return h.w.store.Delete(background, fence, op) }, answer)
	}, func(c store.Change, doubt bool, err error) {
		r.leaveRow()
		if kept := err != nil && !doubt || err == nil && !isGone(c.Reason) && h.owns(&c.Record); kept {
			if err == nil && c.Reason == store.NotEmpty {
				h.w.Cover.Mark("the Store knows of a member to come")
			}
			r.members = 0
			done(false, errNoWay)
			return
		}
		r.end()
		done(err == nil, nil)
	})
}
