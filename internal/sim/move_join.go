package sim

import (
	"errors"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// plan is a Join that a message asks its Actor for.
type plan struct {
	spot    string // the room; "": an Entry Spot
	slot    int    // of the node whose Entry Spot it is; < 0: that of its own
	timeout time.Duration
}

// join is one Join from its registration on.
type join struct {
	plan
	h         *host
	a         *actor
	n         int
	deadline  clock.Mono
	phase     joinPhase
	held      *hold // while the barrier stands
	known     bool
	committed bool // the deadline decides no more
	out       outcome
}

type joinPhase uint8

const (
	joinRegistered joinPhase = iota
	joinActive
	joinStanding
	joinOver
	joinClaim // no Join: the Actor's node moves it, and keeps the place
)

// outcome is how a Join ended.
type outcome struct {
	accepted, rejected bool
	fail               *failure
}

func (o *outcome) String() string {
	switch {
	case o.accepted:
		return "Accepted"
	case o.rejected:
		return "Rejected"
	case o.fail != nil:
		return "Failed " + o.fail.kind.String() + ": " + o.fail.text
	}
	return "none"
}

// register begins a Join, if the Actor has none and may have one: while its node moves it, or its
// room, it may not (JN-13).
func (a *actor) register(p *plan) {
	w := a.h.w
	switch {
	case a.join != nil && a.join.phase == joinClaim, a.room != nil && a.room.claimed, a.h.relocates():
		w.Cover.Mark("a join was refused as its node relocates")
		return
	case a.join != nil:
		return
	}
	w.moves.joins++
	j := &join{plan: *p, h: a.h, a: a, n: w.moves.joins, deadline: a.h.clock().Add(p.timeout)}
	a.join = j
	w.moves.book.registered(j)
}

// activate begins the Join, after the reply.
func (j *join) activate() {
	j.phase = joinActive
	if j.h.stopping {
		j.cancel(errStopping)
	}
	j.h.at(j.deadline, func() { j.cancel(errNoReply) })
	j.a.control(func(refused *failure) {
		if refused != nil && refused != errMoving {
			j.end(outcome{fail: refused})
		}
	})
}

// stand makes the barrier the Actor's consumer.
func (j *join) stand() {
	j.phase, j.held = joinStanding, &hold{steps: true}
	j.a.cur = j.held
	j.h.soon(j.run)
}

func (j *join) run() {
	h := j.h
	switch {
	case j.phase == joinOver:
	case j.known:
		j.finish()
	case !h.mayAct():
		j.decide(outcome{fail: errNotOwner})
	default:
		h.runJoin(j)
	}
}

func (j *join) cancel(f *failure) {
	if !j.committed {
		j.decide(outcome{fail: f})
	}
}

// commits is asked before the Store is changed: from here on only that decides.
func (j *join) commits() bool {
	if j.h.clock().Reached(j.deadline) {
		j.decide(outcome{fail: errNoReply})
	}
	j.committed = !j.known
	return j.committed
}

func (j *join) decide(o outcome) {
	if j.known {
		return
	}
	j.known, j.out = true, o
	j.h.w.note(j.h.process, "join decided", j.a.ref.id, o.String(), uint64(j.n))
	if j.phase == joinStanding {
		j.h.soon(j.finish)
	}
}

// finish tells the Actor how its Join ended, and lets it go on.
func (j *join) finish() {
	h, a := j.h, j.a
	if j.phase == joinOver || a.stuck != "" {
		return
	}
	a.step(func(refused *failure) {
		if refused != nil || j.phase == joinOver {
			return
		}
		h.callback(func(ok bool) {
			if !ok {
				h.after(again, j.finish)
				return
			}
			if j.phase != joinOver && !a.gone {
				a.told = true
				h.w.moves.book.completed(h, j, j.out)
				j.end(j.out)
			}
		})
	})
}

func (j *join) end(o outcome) {
	if j.phase == joinOver {
		return
	}
	stood := j.phase == joinStanding
	j.phase = joinOver
	j.decide(o)
	j.a.join = nil
	if stood && !j.a.gone {
		j.a.release(j.held)
	}
}

// leave makes the Join over at this process, as the Actor is another's now.
func (j *join) leave() {
	j.phase = joinOver
	if j.a.join == j {
		j.a.join = nil
	}
}

// runJoin decides the Join, or has the Actor move.
func (h *host) runJoin(j *join) {
	a := j.a
	no := func(f *failure) { j.decide(outcome{fail: f}) }
	switch {
	case j.spot == "" && (j.slot < 0 || h.w.slots[j.slot].process == h.process):
		if a.room == nil {
			j.decide(outcome{accepted: true})
			return
		}
		h.joinHere(j, nil)
	case j.spot == "":
		p := h.w.slots[j.slot].process
		if p == nil || p.host == nil || p.lease.Gen == 0 {
			no(errNoWay)
			return
		}
		h.moveActor(j, p.host.self(), p.entryID(), false)
	case a.room != nil && a.room.ref.id == j.spot && !a.room.gone:
		j.decide(outcome{accepted: true})
	case h.rooms[j.spot] != nil:
		h.joinHere(j, h.rooms[j.spot])
	default:
		h.read(nil, j.spot, storeCallMax, func(row store.Authority, found bool, err error) {
			switch {
			case j.known:
			case err != nil:
				no(errNoWay)
			case !found || row.State != store.Ready || row.Kind != store.UserSpot:
				no(errGone)
			case row.LeaseLeft <= 0:
				no(errNoWay)
			case h.owns(&row):
				if r := h.rooms[j.spot]; r != nil {
					h.joinHere(j, r)
					return
				}
				no(errNotHere)
			default:
				h.moveActor(j, refOf(&row).at, j.spot, true)
			}
		})
	}
}

// askRoom has a room decide about an Actor, in a turn that begins by the deadline.
func (h *host) askRoom(r *room, j *join, id store.RelocationID, deadline clock.Mono, done func(rejects bool, f *failure)) {
	w := h.w
	rejects, fails := w.chance(w.moves.rejects), w.chance(w.moves.breaks)
	h.after(w.moves.drawTurn(), func() {
		switch {
		case h.clock().Reached(deadline):
			done(false, errNoReply)
			return
		case !h.mayAct():
			done(false, errNotOwner)
			return
		}
		w.moves.book.askedRoom(r, j, id)
		h.after(w.moves.drawFactory(), func() {
			switch {
			case h.clock().Reached(deadline):
				done(false, errNoReply)
			case fails:
				done(false, &failure{errkind.InternalFailure, "OnActorJoin failed", false})
			default:
				done(rejects, nil)
			}
		})
	})
}

// joinHere makes the Actor a member of a room of this process, or, if r is nil, of the
// Entry Spot.
func (h *host) joinHere(j *join, r *room) {
	if r == nil {
		h.changeSpot(j, nil, timing.Wait)
		return
	}
	if !r.enter() {
		j.decide(outcome{fail: errNoWay})
		return
	}
	h.askRoom(r, j, store.RelocationID{}, j.deadline, func(rejects bool, f *failure) {
		if f != nil || rejects {
			r.leave()
			j.decide(outcome{rejected: f == nil, fail: f})
			return
		}
		h.changeSpot(j, r, timing.Wait)
	})
}

// changeSpot has the Actor's row name the room.
func (h *host) changeSpot(j *join, r *room, wait time.Duration) {
	a := j.a
	op := h.newOp()
	refused := func(f *failure) {
		if r != nil {
			r.leave()
		}
		j.decide(outcome{fail: f})
	}
	var try func()
	try = func() {
		a.takeRow(j.deadline, func(ok bool) {
			if !ok {
				refused(errNoReply)
				return
			}
			if !j.commits() {
				a.leaveRow()
				refused(errNoReply)
				return
			}
			h.tryChange(a, r, op, func(again bool, f *failure) {
				a.leaveRow()
				switch {
				case f == nil && !again:
					h.joined(j, r)
				case !again:
					refused(f)
				case h.stopping:
					refused(errStopping)
				case h.clock().Reached(j.deadline):
					refused(errNoReply)
				default:
					h.after(wait, try)
					wait = min(2*wait, timing.WaitMax)
				}
			})
		})
	}
	try()
}

// tryChange is for the holder of takeRow.
func (h *host) tryChange(a *actor, r *room, op store.OpID, done func(again bool, f *failure)) {
	if a.gone {
		done(false, errGone)
		return
	}
	to := store.ChangeSpot{Fence: a.fence(), Op: op, SpotID: h.entryID()}
	if r != nil {
		to.SpotID, to.InUserSpot = r.ref.id, true
	}
	h.untilKnown(func(answer func(store.Change, error)) {
		h.change("change spot", nil, false, func() (store.Change, error) { return h.w.store.ChangeSpot(background, to) }, answer)
	}, func(c store.Change, doubt bool, err error) {
		switch {
		case err != nil && doubt:
			h.drop(a, errGone)
			done(false, errNoWay)
			return
		case err != nil:
			done(errors.Is(err, store.ErrUnavailable), errNoWay)
			return
		}
		switch c.Reason {
		case store.Applied, store.AlreadyApplied:
			a.rowRoom = r
			a.written(&c.Record)
			h.confirm(a, nil, func(f *failure) {
				if f != nil {
					h.drop(a, errGone)
				}
				done(false, f)
			})
			return
		case store.LeaseExpired:
			done(true, errNotOwner)
			return
		case store.GenerationConflict:
			done(a.behind(c.Epoch), errGone)
			return
		default:
		}
		again := c.Reason == store.VersionConflict && (a.caughtUp(&c.Record) || to.SpotVersion != 0)
		again = again || a.behind(c.Epoch) || r != nil && r.epoch < c.Epoch && !r.gone
		done(again, unclear(c.Reason.String()))
	})
}

// joined is for a Join that the Store has: it can only go on.
func (h *host) joined(j *join, r *room) {
	a := j.a
	a.step(func(refused *failure) {
		if refused != nil || a.gone {
			if r != nil {
				r.leave()
			}
			return
		}
		left := a.room
		a.room = r
		h.w.moves.book.changedSpot(j)
		var tell func()
		tell = func() {
			h.callback(func(ok bool) {
				if !ok {
					h.after(again, tell)
					return
				}
				if left != nil {
					left.leave()
				}
				j.decide(outcome{accepted: true})
			})
		}
		tell()
	})
}
