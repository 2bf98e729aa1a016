package sim

import (
	"errors"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	lifecycle "github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/store"
)

// This file relocates a whole node: what internal/host decides, in the shell that internal/node
// has, by hand.

// drain is one call of Relocate.
type drain struct {
	h      *host
	op     uint64
	began  clock.Mono
	wants  time.Duration
	ended  bool
	result lifecycle.Result
	units  []lifecycle.Unit
	gone   map[int]bool // units that have left, or whose cutover was submitted
}

// settleEvery is how often a node looks whether what was under way has ended.
const settleEvery = 20 * time.Millisecond

func newLife(p *process) *lifecycle.Host {
	return lifecycle.New(lifecycle.Self{RID: p.rid, Mesh: meshName},
		lifecycle.Timing{Wait: timing.Wait, WaitMax: timing.WaitMax, Shun: 500 * time.Millisecond})
}

// relocates reports whether the node takes nothing new, as it is being relocated or has been.
func (h *host) relocates() bool {
	return h.life != nil && (h.life.State() == store.Relocating || h.life.State() == store.Relocated)
}

// drain has all that lives here go to other nodes, and ends the process if it has.
func (h *host) drain(timeout time.Duration) {
	w := h.w
	answer := h.life.Ask(h.clock(), lifecycle.Request{Timeout: timeout})
	w.note(h.process, "is to be relocated", "", answer.Result.Text, answer.Op)
	if answer.Op == 0 {
		w.Cover.Mark("relocate: " + answer.Result.Reason.String())
		h.live()
		return
	}
	w.Cover.Mark("relocate")
	w.moves.book.drains = append(w.moves.book.drains, &drain{h: h, op: answer.Op, began: h.clock(), wants: timeout, gone: map[int]bool{}})
	h.live()
}

func (h *host) lives(e lifecycle.Event) {
	if h.life != nil {
		h.life.Step(h.clock(), e)
		h.live()
	}
}

// live does what the node's core wants.
func (h *host) live() {
	if h.life == nil {
		return
	}
	for _, e := range h.life.Effects(nil) {
		h.does(e)
	}
	at, ok := h.life.NextDeadline()
	h.lifeTick.set(h.process, at, ok, func() { h.lives(lifecycle.Event{Is: lifecycle.Tick}) })
}

func (h *host) does(e lifecycle.Effect) {
	tell := func(ev lifecycle.Event) {
		ev.Op = e.Op
		h.lives(ev)
	}
	switch e.Do {
	case lifecycle.DoLook:
		h.look(tell)
	case lifecycle.DoPublish:
		h.publishOnce(func(err error) {
			ev := lifecycle.Event{Is: lifecycle.Published}
			if err != nil {
				ev.Failure = err.Error()
			}
			tell(ev)
		})
	case lifecycle.DoSettle:
		h.settle(e.Op, tell)
	case lifecycle.DoTake:
		h.soon(func() {
			units := h.inventory()
			h.w.moves.book.drain(h, e.Op).units = units
			tell(lifecycle.Event{Is: lifecycle.Taken, Units: units})
		})
	case lifecycle.DoPermit:
		h.enterPermit(clock.Never, func(bool) { tell(lifecycle.Event{Is: lifecycle.Permitted}) })
	case lifecycle.DoRelease:
		h.leavePermit()
	case lifecycle.DoMove:
		h.moves(&e, tell)
	case lifecycle.DoEnd:
		h.relocationEnds(e.Op, e.Result)
	}
}

func (h *host) look(tell func(lifecycle.Event)) {
	ask(h.process, asking{"look", nil, storeCallMax}, func() (store.NodeList, error) {
		return h.w.store.ListNodes(background, 0)
	}, func(l store.NodeList, err error) {
		e := lifecycle.Event{Is: lifecycle.Looked, Nodes: h.linkedNodes(l.Nodes)}
		switch {
		case err != nil:
			e.Failure = err.Error()
		case !h.mayAct():
			e.Failure = errNotOwner.text
		}
		actors, spots := 0, 0
		for _, u := range h.inventory() {
			for _, n := range u.Needs {
				if n.Kind == store.Actor && u.Kind != lifecycle.Shell {
					actors += n.Count
				} else if n.Kind != store.Actor {
					spots += n.Count
				}
			}
		}
		e.Loads = append(e.Loads, lifecycle.Load{Part: actorPart, Count: actors}, lifecycle.Load{Part: roomPart, Count: spots})
		tell(e)
	})
}

var (
	actorPart = lifecycle.Part{Kind: store.Actor, Type: actorTypes[0]}
	roomPart  = lifecycle.Part{Kind: store.UserSpot, Type: spotType}
)

func (h *host) linkedNodes(nodes []store.Descriptor) (all []lifecycle.Node) {
	for _, d := range nodes {
		all = append(all, lifecycle.Node{Descriptor: d, Linked: h.linkTo(d.RID, d.Lifecycle) != nil})
	}
	return all
}

// settle waits until nothing is under way that may add to what lives here, or changes a membership.
func (h *host) settle(op uint64, tell func(lifecycle.Event)) {
	if d := h.w.moves.book.drain(h, op); d == nil || d.ended || h.dead {
		return
	}
	again := func(what string) {
		tell(lifecycle.Event{Is: lifecycle.Waits, Failure: what})
		h.after(settleEvery, func() { h.settle(op, tell) })
	}
	for _, a := range h.cells() {
		if a.join != nil && a.join.phase != joinClaim {
			again("joins")
			return
		}
	}
	if len(h.preparing) > 0 {
		again("moves to here")
		return
	}
	ask(h.process, asking{"held", nil, storeCallMax}, func() ([]string, error) {
		return h.w.store.Held(background, h.rid, h.lease.Gen, store.HeldReserved, "", store.PageMax)
	}, func(ids []string, err error) {
		if err != nil || len(ids) > 0 || len(h.preparing) > 0 {
			again("reservations")
			return
		}
		tell(lifecycle.Event{Is: lifecycle.Settled})
	})
}

// inventory returns all units, each object in one.
func (h *host) inventory() (units []lifecycle.Unit) {
	at := map[*room]int{}
	for _, r := range h.roomCells() {
		if r.gone || r.tenure != owned {
			continue
		}
		at[r] = len(units)
		kind := lifecycle.Shell
		if r.wide {
			kind = lifecycle.Wide
		}
		units = append(units, lifecycle.Unit{Kind: kind, ID: r.ref.id, Needs: []lifecycle.Load{{Part: roomPart, Count: 1}}, Shell: lifecycle.NoShell})
	}
	for _, a := range h.cells() {
		if a.gone || a.tenure != owned {
			continue
		}
		u := lifecycle.Unit{Kind: lifecycle.Actor, ID: a.ref.id, Needs: []lifecycle.Load{{Part: actorPart, Count: 1}}, Shell: lifecycle.NoShell}
		if n, ok := at[a.room]; ok {
			s := &units[n]
			if len(s.Needs) == 1 {
				s.Needs = append(s.Needs, lifecycle.Load{Part: actorPart})
			}
			s.Needs[1].Count++
			if s.Kind == lifecycle.Wide {
				continue
			}
			u.Shell = n
		}
		units = append(units, u)
	}
	return units
}

func (h *host) moves(e *lifecycle.Effect, tell func(lifecycle.Event)) {
	n, d := e.Unit, h.w.moves.book.drain(h, e.Op)
	h.w.moves.book.begun(d, n)
	h.moveUnit(&unit{
		h: h, kind: e.Moves.Kind, id: e.Moves.ID, to: place(e.To), deadline: e.Until,
		cut: func() {
			d.gone[n] = true
			tell(lifecycle.Event{Is: lifecycle.CutOver, Unit: n})
		},
		ended: func(end unitEnd) {
			ev := lifecycle.Event{Is: lifecycle.UnitEnded, Unit: n, Ended: end.result}
			if end.result != lifecycle.Left {
				ev.Reason, ev.Failure = h.whyStayed(&end), end.fail.text
			}
			tell(ev)
		},
	})
}

func (h *host) whyStayed(e *unitEnd) lifecycle.Reason {
	switch kind := e.fail.kind; {
	case h.stopping:
		return lifecycle.ShutdownRequested
	case e.result == lifecycle.Lost, e.fail == errUnitStuck:
		return lifecycle.RelocationFailed
	case kind == errkind.DeadlineExceeded:
		return lifecycle.DeadlineExceeded
	case kind == errkind.InternalFailure:
		return lifecycle.StateIncompatible
	case !e.sent && (kind == errkind.Unavailable || kind == errkind.CapacityExceeded || kind == errkind.ShuttingDown):
		return lifecycle.TargetUnavailable
	}
	return lifecycle.RelocationFailed
}

// relocationEnds takes the result of an operation. A node with nothing left is shut down soon.
func (h *host) relocationEnds(op uint64, r lifecycle.Result) {
	w := h.w
	w.note(h.process, "relocation ends", r.Outcome.String()+" "+r.Reason.String(), r.Text, op)
	w.Cover.Mark("relocation: " + r.Outcome.String() + " " + r.Reason.String())
	w.moves.book.relocated(h, op, r)
	if r.Outcome != lifecycle.Relocated {
		return
	}
	h.after([...]time.Duration{1, 200, 3_000}[w.choose(3)]*time.Millisecond, func() {
		if !h.stopping && !w.healed {
			w.note(h.process, "stops", "", "", 0)
			h.stopping = true
			h.host.stop()
			h.after(haltTime, func() { h.die("ends") })
		}
	})
}

// publishOnce tells the Store the node's state.
func (p *process) publishOnce(done func(error)) {
	d := p.descriptor()
	ask(p, asking{"publish", nil, storeCallMax}, func() (store.Reason, error) {
		return p.w.store.PublishNode(background, p.lease, d)
	}, func(r store.Reason, err error) {
		if err == nil && r != store.Applied && r != store.AlreadyApplied {
			err = errors.New(r.String())
		}
		done(err)
	})
}

// The oracle of drains.

func (b *book) drain(h *host, op uint64) *drain {
	for _, d := range b.drains {
		if d.h == h && d.op == op {
			return d
		}
	}
	return nil
}

// batchOf is the batch in which a unit moves (reference, host).
func batchOf(k lifecycle.UnitKind) int {
	switch k {
	case lifecycle.Shell:
		return 1
	case lifecycle.Actor:
		return 2
	default:
		return 3
	}
}

// begun is told when the move of a unit begins: all of the batches before have left, or this is a
// member whose room has.
func (b *book) begun(d *drain, n int) {
	u := &d.units[n]
	for m := range d.units {
		if before := &d.units[m]; batchOf(before.Kind) < batchOf(u.Kind) && !d.gone[m] && u.Shell == lifecycle.NoShell {
			b.w.fail("I16", "%s moves %v %s, and %v %s of a batch before is there", d.h.name(), u.Kind, u.ID, before.Kind, before.ID)
		}
	}
	if u.Shell != lifecycle.NoShell && !d.gone[u.Shell] {
		b.w.fail("I16", "%s moves %s before its room", d.h.name(), u.ID)
	}
}

// relocated is told of the one end of an operation (I16).
func (b *book) relocated(h *host, op uint64, r lifecycle.Result) {
	for _, d := range b.drains {
		if d.h != h || d.op != op {
			continue
		}
		if d.ended {
			b.w.fail("I16", "relocation %d of %s ends twice", op, h.name())
		}
		d.ended, d.result = true, r
	}
	switch state := h.life.State(); {
	case r.Outcome == lifecycle.Blocked && !h.stopping && state != store.Serving:
		b.w.fail("I16", "the relocation of %s was blocked, and it is %v", h.name(), state)
	case r.Outcome == lifecycle.Relocated:
		b.expectEmpty(h)
	}
}

// expectEmpty checks that nothing lives at a node that is relocated.
func (b *book) expectEmpty(h *host) {
	for _, u := range h.inventory() {
		b.w.fail("I16", "%s is relocated, and %v %s is there", h.name(), u.Kind, u.ID)
	}
}

// expectDrained checks that no drain is under way, or forgotten.
func (m *moves) expectDrained(when string) {
	for _, d := range m.book.drains {
		if !d.ended && !d.h.dead && !d.h.stopping {
			m.w.fail("I16", "%s the relocation of %s that began at %v for %v has not ended", when, d.h.name(), d.began, d.wants)
		}
	}
	for _, p := range m.w.living {
		if p.host.life != nil && p.host.life.Busy() {
			m.w.fail("I16", "%s %s is still being relocated", when, p.name())
		}
	}
}

// What a world of drains has happen.

func (m *moves) scheduleDrains() {
	w := m.w
	talk := func(at time.Duration) { // of which some comes while what moves is sealed
		for range 4 + w.choose(12) {
			id := m.ids[w.choose(len(m.ids))]
			w.post(at-w.now+time.Duration(w.choose(64))*100*time.Microsecond, nil, func() { m.say(id, nil) })
		}
	}
	for range 1 + w.choose(4) {
		at := movesStart + time.Duration(w.choose(256))*chaosTime/300
		talk(at)
		w.post(at-w.now, nil, func() {
			if h := m.somebody(); h != nil {
				h.drain([...]time.Duration{10_000, 30_000, 2_000, 300}[w.choose(4)] * time.Millisecond)
			}
		})
	}
	for range 2 + w.choose(8) {
		at := movesStart + time.Duration(w.choose(256))*chaosTime/300
		talk(at)
		w.post(at-w.now, nil, m.moveSomething)
	}
}

// moveSomething has a node move one of its units by itself.
func (m *moves) moveSomething() {
	w, h := m.w, m.somebody()
	to := m.somebody()
	if h == nil || to == nil || h == to || h.stopping {
		return
	}
	for _, u := range h.inventory() {
		if u.Kind != lifecycle.Shell && u.Shell == lifecycle.NoShell && w.choose(2) == 1 {
			timeout := [...]time.Duration{4_000, 1_000, 200}[w.choose(3)] * time.Millisecond
			until := h.clock().Add(timeout)
			h.enterPermit(until, func(ok bool) {
				if ok {
					h.moveUnit(&unit{h: h, kind: u.Kind, id: u.ID, to: to.self(), deadline: until, ended: func(unitEnd) {}})
				}
			})
			return
		}
	}
}
