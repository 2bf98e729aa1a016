package sim

import (
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	lifecycle "github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// arriving is a move to a process: it does what its Target wants.
type arriving struct {
	*machine
	h      *host
	as     lifecycle.UnitKind // 0: by a Join
	id     store.RelocationID
	from   place
	target *relay.Target
	fence  relay.Fence // as the source told it last
	epoch  store.Epoch // of the reservation
	cell   *cell       // what comes
	a      *actor
	r      *room // instead of an Actor
	q      *incoming
	join   *join
	spot   string
	room   *room
	member bool

	entered   bool
	busy      bool
	over      bool
	assembles bool // it waits for the payload
	queue     []relay.TargetEvent
	tick      alarm
	onOver    []func()
	asked     waiting
	restores  waiting
	payload   *payload
	received  int
	bound     binding
	lost      bindingKey // of the client that the Actor's Spot is to be told of as gone
	locked    bool
	left      bool
	broken    bool // the payload is
	until     clock.Mono
	staging   int // number of the restore that is under way

	members []*arriving // of a SpotWide room: without a Target
	whole   *arriving   // of a member: the room's
	cut     bool        // the room's own cutover has come
	astray  bool        // the member's row turned out to be another's
}

// waiting is a request of the source that is to be answered.
type waiting struct {
	link *link
	corr uint64
}

// relayedFor is how long a target knows a move that came.
func (m *moves) relayedFor() time.Duration { return m.timing.Validity + time.Minute }

// run does what there is to be done, until something has to end.
func (i *arriving) run() {
	h := i.h
	for !i.busy && !i.over {
		e, due := i.target.Effect()
		var happened relay.TargetEvent
		switch {
		case due:
			if i.doing = targetSteps[e.Do]; i.target.Progress() == relay.ProgressReady && e.Do == relay.TargetReady {
				h.w.moves.book.ready()
			}
			h.w.note(h.process, i.doing, i.cell.ref.id, targetWhats[e.Do], uint64(i.cell.ref.gen))
			h.waitsFor(i.machine, i.from)
			i.busy, i.assembles = true, e.Do == relay.TargetAssemble
			i.perform(&e)
			continue
		case len(i.queue) > 0:
			happened = i.queue[0]
			i.queue = i.queue[1:]
		case i.assembles && i.payload != nil && i.received == i.payload.chunks:
			i.assembles = false
			happened = relay.TargetEvent{Is: relay.TargetAssembled, MayAct: h.mayAct()}
			if i.broken {
				h.w.Cover.Mark("a payload was broken")
				happened = relay.TargetEvent{Is: relay.TargetBroken, Failure: &relay.Failure{Kind: errkind.DataLost, Text: "checksum"}}
			}
		default:
			h.waitsFor(i.machine, i.from)
			at, ok := i.target.NextDeadline()
			i.tick.set(h.process, at, ok, func() {
				if !i.busy && !i.over {
					i.target.Step(h.clock(), relay.TargetEvent{Is: relay.TargetTick})
					i.run()
				}
			})
			return
		}
		i.target.Step(h.clock(), happened)
		if happened.Is == relay.TargetRestoring {
			i.fence = i.target.Fence()
		}
	}
}

func (i *arriving) done(e relay.TargetEvent) {
	i.busy = false
	if e.Is != 0 {
		i.target.Step(i.h.clock(), e)
	}
	i.run()
}

func (i *arriving) perform(e *relay.TargetEffect) {
	h := i.h
	switch e.Do {
	case relay.TargetRead:
		h.read(i.machine, i.cell.ref.id, storeCallMax, func(row store.Authority, found bool, err error) {
			i.done(relay.TargetEvent{Is: relay.TargetRow, Row: row, Found: found, Err: err})
		})
	case relay.TargetAsk:
		i.askSpot(e)
	case relay.TargetAnswer:
		i.answerAsk(e)
		i.done(relay.TargetEvent{})
	case relay.TargetAssemble:
		i.done(relay.TargetEvent{})
	case relay.TargetStage:
		if i.r != nil {
			i.stageRoom()
			return
		}
		i.stage()
	case relay.TargetReady:
		i.respond(&i.restores, reply{})
		i.done(relay.TargetEvent{})
	case relay.TargetRefuse:
		if e.Unstage {
			i.unstage()
		}
		i.respond(&i.restores, reply{fail: failureOf(e.Failure)})
		i.done(relay.TargetEvent{})
	case relay.TargetCommit:
		if e.Fallback {
			h.w.Cover.Mark("committed without a cutover")
		}
		i.takeRow(func() {
			h.change("commit move", i.machine, true, func() (store.Change, error) { return h.w.store.CommitMove(background, e.Commit) },
				func(c store.Change, err error) {
					i.done(relay.TargetEvent{Is: relay.TargetCommitted, Change: c, Err: err})
				})
		})
	case relay.TargetGiveUp:
		h.change("give up move", i.machine, true, func() (store.Change, error) { return h.w.store.EndMove(background, e.GiveUp) },
			func(c store.Change, err error) {
				i.done(relay.TargetEvent{Is: relay.TargetGaveUp, Change: c, Err: err})
			})
	case relay.TargetConfirm:
		if i.r != nil {
			i.confirmRoom(&e.Row)
			return
		}
		i.confirm(&e.Row)
	case relay.TargetMerge:
		if i.r != nil {
			i.mergeRoom()
			return
		}
		i.merge()
	case relay.TargetJoined:
		i.callback(relay.TargetJoinedDone)
	case relay.TargetComplete:
		i.callback(relay.TargetCompleted)
	case relay.TargetEnd:
		i.end(e)
	}
}

func (i *arriving) respond(w *waiting, r reply) {
	to := *w
	*w = waiting{}
	if to.link != nil && !i.h.lost(to.link) {
		i.h.answer(to.link, to.corr, r)
	}
}

func (i *arriving) takeRow(then func()) {
	if i.locked {
		then()
		return
	}
	i.cell.takeRow(clock.Never, func(bool) {
		i.locked = true
		then()
	})
}

func (i *arriving) leaveRow() {
	if i.locked {
		i.locked = false
		i.cell.leaveRow()
	}
}

func (i *arriving) askSpot(e *relay.TargetEffect) {
	h := i.h
	if i.r != nil {
		i.askNode()
		return
	}
	r := h.rooms[i.spot]
	no := func(f *failure) {
		i.done(relay.TargetEvent{Is: relay.TargetDecided, Failure: f.relay()})
	}
	switch {
	case r == nil || r.gone:
		h.soon(func() { no(errGone) })
		return
	case !r.enter():
		h.soon(func() { no(&failure{errkind.Unavailable, "it is being closed", false}) })
		return
	}
	i.room, i.entered = r, true
	h.askRoom(r, i.join, i.id, e.Deadline, func(rejects bool, f *failure) {
		d := relay.TargetEvent{Is: relay.TargetDecided, Reject: rejects, MayAct: h.mayAct()}
		if f != nil {
			d.Failure = f.relay()
		}
		i.done(d)
	})
}

func (i *arriving) answerAsk(e *relay.TargetEffect) {
	if e.Failure != nil || e.Reject {
		i.unregister()
	}
	i.respond(&i.asked, reply{fail: failureOf(e.Failure), v: e.Reject})
}

func (i *arriving) stage() {
	h := i.h
	i.staging++
	n, p, a := i.staging, i.payload, i.a
	over := false
	end := func(e relay.TargetEvent) {
		if !over {
			over = true
			i.done(e)
		}
	}
	takes := h.w.moves.drawFactory()
	if at, ok := i.target.NextDeadline(); ok {
		h.at(at, func() {
			if !over {
				i.payload = nil
			}
			end(relay.TargetEvent{Is: relay.TargetTick})
		})
	}
	fails := h.w.chance(h.w.moves.breaks)
	h.after(takes, func() {
		if over || n != i.staging {
			return
		}
		e := relay.TargetEvent{Is: relay.TargetStaged, MayAct: h.mayAct() && h.known <= i.epoch}
		b, gone, f := h.adopt(p.bound)
		switch {
		case fails:
			h.w.Cover.Mark("a restore failed")
			e.Failure = &relay.Failure{Kind: errkind.InternalFailure, Text: "the factory failed"}
		case f != nil:
			e.Failure = f.relay()
		default:
			a.state = slices.Clone(p.state)
			i.bound, i.lost = b, p.lost
			if gone {
				i.lost = bindingKey{session: p.bound.session, gen: p.bound.gen}
			}
			var saved []item
			for _, c := range p.queue {
				saved = append(saved, item{l: h.arrived(c, place{})})
			}
			a.inTurn(func(refused *failure) {
				if refused != nil {
					e.Failure = refused.relay()
				} else {
					i.q.saved = saved
				}
				end(e)
			})
			return
		}
		end(e)
	})
}

func (i *arriving) unstage() {
	i.payload, i.broken = nil, false
	for _, m := range i.members {
		m.unstage()
	}
	if i.a == nil {
		return
	}
	i.a.state, i.bound = nil, binding{}
	i.a.inTurn(func(refused *failure) {
		if refused == nil {
			i.q.saved = nil
		}
	})
}

func (i *arriving) confirm(row *store.Authority) {
	h, a := i.h, i.a
	i.takeRow(func() {
		a.written(row)
		a.rowRoom = i.room
		h.confirm(a, i.machine, func(f *failure) {
			e := relay.TargetEvent{Is: relay.TargetConfirmed, Row: *row}
			if f != nil {
				e.Failure = f.relay()
			}
			e.Row.Version, e.Row.Epoch = a.version, a.epoch
			i.done(e)
		})
	})
}

// merge makes the Actor this process's, with dispatch closed.
func (i *arriving) merge() {
	i.mergeActor(func() {
		i.leaveRow() // which may have to be written again before a callback may run
		i.done(relay.TargetEvent{Is: relay.TargetMerged})
	})
}

func (i *arriving) mergeActor(merged func()) {
	h, a := i.h, i.a
	a.inTurn(func(refused *failure) {
		if refused == nil {
			i.q.known, i.q.upTo = true, i.q.in.Last()
			if i.room != nil {
				if a.room = i.room; !i.entered && i.whole == nil && !i.room.takesPlace(a) {
					h.w.fail("I11", "%s comes to %s, where no place is kept for it", a.ref.id, i.room.ref.id)
				}
				i.entered = false
			}
			a.told = a.told || i.as != 0
			if a.bind(i.bound); i.bound.key.gen != 0 && !i.bound.stands(h) { // its link was lost since it was adopted
				a.bind(binding{})
				i.lost = i.bound.key
			}
			a.tenure = owned
			h.w.moves.book.merged(i)
		}
		i.takePlace()
		delete(h.routes, a.ref.id)
		if l := h.linkOf(i.from); l != nil {
			i.answer(l)
		}
		if i.bound.stands(h) {
			h.endSeal(i.bound, i.id, a.ref, true)
		}
		merged()
	})
}

// takePlace puts the Actor into the table in place of what follows it from here.
func (i *arriving) takePlace() {
	h, a := i.h, i.a
	before := h.actors[a.ref.id]
	h.actors[a.ref.id] = a
	if before == nil || before == a {
		return
	}
	h.w.Cover.Mark("an actor came back")
	before.gone = true
	before.step(func(refused *failure) {
		if v, ok := before.cur.(*mover); ok && refused == nil {
			v.home = a
		}
	})
}

func (i *arriving) callback(is relay.TargetFact) {
	h := i.h
	fails := h.w.chance(h.w.moves.breaks)
	h.callback(func(ok bool) {
		e := relay.TargetEvent{Is: is}
		switch {
		case !ok && !h.stopping: // such times do not count
			h.w.Cover.Mark("a callback waited until the process might act")
			h.after(again, func() { i.callback(is) })
			return
		case !ok:
			e.Failure = errNotOwner.relay()
		case fails:
			h.w.Cover.Mark("a callback failed")
			e.Failure = &relay.Failure{Kind: errkind.InternalFailure, Text: "the callback failed"}
		case i.r != nil: // OnInitialize, or OnRelocationReadyCompleted
			h.w.Cover.Mark("a room that came was initialized")
			i.done(e)
			return
		case is == relay.TargetCompleted:
			i.a.told = true
			h.w.moves.book.completed(h, i.join, outcome{accepted: true})
		default:
			h.w.moves.book.joinedSpot(i)
		}
		if i.r != nil {
			i.done(e)
			return
		}
		if l := h.linkOf(i.from); is == relay.TargetJoinedDone && !i.left {
			if i.left = true; l != nil {
				h.tell(l, func(to *host) { to.actorLeft(l, i.id) })
			}
		}
		i.done(e)
	})
}

// end opens the Actor, or drops what was prepared.
func (i *arriving) end(e *relay.TargetEffect) {
	h, a := i.h, i.a
	i.over, i.busy = true, false
	h.ends(i.machine)
	h.w.Cover.Mark("target ended " + targetEnds[e.Outcome])
	h.w.note(h.process, "move ends", i.cell.ref.id, targetEnds[e.Outcome], uint64(i.cell.ref.gen))
	switch {
	case i.r != nil:
		i.endRoom(e)
	case e.Outcome == relay.TargetOpened:
		a.seal(func() {
			if a.gone {
				a.end(errGone)
				return
			}
			a.cur = open{}
			a.unread(i.q.unread())
			if l := h.linkOf(i.from); l != nil {
				i.q.acknowledge(l)
			}
			h.w.acts(h.process)
		})
		if i.lost.gen != 0 {
			h.w.Cover.Mark("a client was lost during a move")
			h.w.moves.book.disconnected(a, i.lost)
		}
	case e.Outcome == relay.TargetStuck:
		a.stuck = e.Failure.Text
		a.seal(func() { a.cur = sealed{i.q} })
	case e.Outcome == relay.TargetDropped:
		i.drop(e.Failure)
	}
	i.payload = nil
	i.leaveRow()
	i.until = h.clock().Add(h.w.moves.relayedFor())
	if e.Outcome == relay.TargetDropped {
		h.in = slices.DeleteFunc(h.in, func(other *arriving) bool { return other == i })
		if l := h.linkOf(i.from); l != nil {
			i.say(l, relay.ProgressGone, 0, 0)
		}
	}
	if h.preparing[i.cell.ref.id] == i {
		delete(h.preparing, i.cell.ref.id)
	}
	for _, f := range i.onOver {
		h.soon(f)
	}
	i.answerLate()
	h.w.moves.book.targetEnds(i, e.Outcome)
}

// answerLate answers a source that asks once more to restore what has ended.
func (i *arriving) answerLate() {
	var f *failure
	if i.target.Progress() != relay.ProgressCommitted {
		f = errNotHere
	}
	i.respond(&i.restores, reply{fail: f})
}

// unregister removes the temporary queue, with the place in the Spot.
func (i *arriving) unregister() {
	if i.r != nil {
		return
	}
	i.h.leaveTable(i.a)
	if i.entered {
		i.entered = false
		i.room.leave()
	}
	i.a.inTurn(func(refused *failure) {
		if refused == nil {
			i.q.drop(errNotHere)
		}
	})
}

func (i *arriving) drop(f *relay.Failure) {
	i.unregister()
	if f == nil {
		f = &relay.Failure{Kind: errkind.Unavailable, Text: "the move was given up"}
	}
	i.respond(&i.asked, reply{fail: failureOf(f)})
	i.respond(&i.restores, reply{fail: failureOf(f)})
}

// sealed is the consumer of a stuck Actor.
type sealed struct{ held keeper }

func (c sealed) consume(a *actor, it item) {
	if it.kind == isRelay {
		it.step(nil)
		return
	}
	a.refuse(it, errStuck)
}

func (c sealed) unread() []item { return c.held.unread() }

var targetSteps = [...]string{
	relay.TargetRead: "T R01", relay.TargetAsk: "T R01", relay.TargetAnswer: "T R02", relay.TargetAssemble: "T R06", relay.TargetStage: "T R07",
	relay.TargetReady: "T R08-R10", relay.TargetRefuse: "T R07", relay.TargetCommit: "T R11", relay.TargetGiveUp: "T give up",
	relay.TargetConfirm: "T R11 confirm", relay.TargetMerge: "T R12", relay.TargetJoined: "T R13", relay.TargetComplete: "T R13",
	relay.TargetEnd: "T end",
}

var targetWhats = [...]string{
	relay.TargetRead: "read", relay.TargetAsk: "ask", relay.TargetAnswer: "answer", relay.TargetAssemble: "assemble", relay.TargetStage: "stage",
	relay.TargetReady: "ready", relay.TargetRefuse: "refuse", relay.TargetCommit: "commit", relay.TargetGiveUp: "give up",
	relay.TargetConfirm: "confirm", relay.TargetMerge: "merge", relay.TargetJoined: "joined", relay.TargetComplete: "complete",
	relay.TargetEnd: "end",
}

var targetEnds = [...]string{relay.TargetDropped: "dropped", relay.TargetOpened: "opened", relay.TargetStuck: "stuck"}
