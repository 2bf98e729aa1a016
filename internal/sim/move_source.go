package sim

import (
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// leaving is a move from a process: it does what its Source wants.
type leaving struct {
	*machine
	h        *host
	unit     *unit // that its node moves; nil: a Join does
	join     *join // that, or the claim of the Actor
	cell     *cell // what moves
	a        *actor
	r        *room // instead of an Actor
	deadline clock.Mono
	id       store.RelocationID
	to       place
	spot     string
	member   bool
	src      *relay.Source
	mover    *mover
	from     *room

	members []*leaving // of an aggregate: without a Source, each with a stream of its own
	whole   *leaving   // of a member: the aggregate
	stored  bool       // the inventory's chunks are
	sealed  bool       // so are the members of a room, or about to be
	relays  bool       // a room's boundary is behind

	busy  bool // an effect is under way
	over  bool
	queue []relay.SourceEvent
	tick  alarm
	onEnd func() // ends the wait for what is under way as interrupted

	told, gone, linkLost bool // what the Source knows: that the node stops, that the target's process is over
	permitted, locked    bool
	bound                binding
	row                  store.Authority
	payload              *payload
	sending              *link
	resumes              bool
	try                  uint32
	until                clock.Mono // of the follow
	stranded             bool       // the Actor is at no node, as far as this one knows
}

// payload is what travels in chunks.
type payload struct {
	whole  *wholePayload // of a room; nil: an Actor's
	state  []int
	queue  []carried
	bound  *movedBinding
	lost   bindingKey // of a client that is gone, which nobody has told the Actor's Spot
	chunks int

	next, acked int
}

// chunkWindow is how many chunks are under way at once.
const chunkWindow = 2

// moveActor has the Actor, whose barrier stands, go to a Spot of another process.
func (h *host) moveActor(j *join, to place, spot string, member bool) {
	o := &leaving{
		h: h, join: j, cell: &j.a.cell, a: j.a, deadline: j.deadline, to: to, spot: spot, member: member, from: j.a.room, until: clock.Never,
		id: h.w.moves.newRelocation(),
	}
	o.a.takeRow(j.deadline, func(ok bool) {
		if !ok {
			j.decide(outcome{fail: errNoReply})
			return
		}
		o.locked = true
		if !j.commits() {
			o.leaveRow()
			return
		}
		h.w.moves.book.leaves(o)
		o.begin(o.a.fence(), member, store.OpID{})
	})
}

func (m *moves) newRelocation() store.RelocationID {
	m.relocations++
	return store.RelocationID{byte(m.relocations >> 8), byte(m.relocations), 1}
}

// begin is for the holder of takeRow.
func (o *leaving) begin(fence store.Fence, asks bool, prepare store.OpID) {
	h := o.h
	h.out = append(h.out, o)
	o.machine = h.begins("S R01")
	o.src = relay.NewSource(h.clock(), relay.SourceMove{
		Unit: fence, OwnerGen: o.cell.ref.owner, Epoch: h.known, Self: h.lease, To: o.to, SpotID: o.spot, InUserSpot: o.member, Asks: asks,
		Wide: o.r != nil && o.r.wide, Relocation: o.id, Attempt: 1, ReserveOp: h.newOp(), PrepareOp: prepare, AbortOp: h.newOp(), Deadline: o.deadline,
	}, h.w.moves.timing)
	o.soon()
}

func (o *leaving) takeRow(do func()) {
	if o.locked {
		do()
		return
	}
	o.cell.takeRow(clock.Never, func(bool) {
		o.locked = true
		do()
	})
}

func (o *leaving) leaveRow() {
	if o.locked {
		o.locked = false
		o.cell.leaveRow()
	}
}

func (o *leaving) leavePermit() {
	if o.permitted {
		o.permitted = false
		o.h.leavePermit()
	}
}

func (o *leaving) tell(e relay.SourceEvent) {
	if o.whole != nil { // whose fate is the member's
		o = o.whole
	}
	if !o.over {
		o.queue = append(o.queue, e)
		o.soon()
	}
}

func (o *leaving) soon() {
	if !o.over && o.src != nil {
		o.h.soon(o.run)
	}
}

// run does what there is to be done, until something has to end.
func (o *leaving) run() {
	h := o.h
	for !o.busy && !o.over {
		e, due := o.src.Effect()
		var happened relay.SourceEvent
		switch {
		case due:
			o.doing = sourceSteps[e.Do]
			h.w.note(h.process, o.doing, o.cell.ref.id, sourceWhats[e.Do], uint64(o.cell.ref.gen))
			h.waitsFor(o.machine, o.to)
			o.busy = true
			o.perform(&e)
			continue
		case len(o.queue) > 0:
			happened = o.queue[0]
			o.queue = o.queue[1:]
		case o.linkLost && h.linkOf(o.to) != nil:
			o.linkLost = false
			happened.Is = relay.SourceLinkUp
		case !o.gone && h.newest[o.to.RID] > o.to.Lifecycle:
			o.gone = true
			happened.Is = relay.SourceTargetGone
		case h.stopping && !o.told:
			o.told = true
			happened.Is = relay.SourceStopping
		default:
			h.waitsFor(o.machine, o.to)
			at, ok := o.src.NextDeadline()
			o.tick.set(h.process, at, ok, func() {
				if !o.busy && !o.over {
					o.src.Step(h.clock(), relay.SourceEvent{Is: relay.SourceTick})
					o.run()
				}
			})
			return
		}
		o.src.Step(h.clock(), happened)
	}
}

// done ends the effect that is under way.
func (o *leaving) done(e relay.SourceEvent) {
	o.busy, o.onEnd = false, nil
	if e.Is != 0 {
		o.src.Step(o.h.clock(), e)
	}
	o.run()
}

// interrupt ends the wait for what is under way, if it need not be waited for.
func (o *leaving) interrupt() {
	if o.over || o.onEnd == nil {
		o.soon()
		return
	}
	end := o.onEnd
	o.onEnd = nil
	end()
}

// interrupted is the event in place of that of an effect that did not end by its time.
func (o *leaving) interrupted() relay.SourceEvent {
	if o.h.stopping && !o.told {
		o.told = true
		return relay.SourceEvent{Is: relay.SourceStopping}
	}
	return relay.SourceEvent{Is: relay.SourceTick}
}

// until is when the effect under way need not be waited for any longer.
func (o *leaving) limit() clock.Mono {
	at, ok := o.src.NextDeadline()
	if !ok {
		return clock.Never
	}
	return at
}

// bounded returns a function that ends the effect once, if that comes before its time.
func (o *leaving) bounded(late func() relay.SourceEvent) func(relay.SourceEvent) {
	over := false
	end := func(e relay.SourceEvent) {
		if !over {
			over = true
			o.done(e)
		}
	}
	o.onEnd = func() { end(late()) }
	if at := o.limit(); at != clock.Never {
		o.h.at(at, func() {
			if !over {
				o.h.w.Cover.Hit(o.doing, "deadline")
				end(late())
			}
		})
	}
	return end
}

// ask sends the target a request.
func (o *leaving) ask(deliver func(to *host, l *link, corr uint64), sent func(*link), ended func(reply) relay.SourceEvent) {
	h := o.h
	l := h.linkOf(o.to)
	if l == nil {
		o.linkLost = true
		h.soon(func() { o.done(relay.SourceEvent{Is: relay.SourceLinkLost}) })
		return
	}
	end := o.bounded(o.interrupted)
	corr := h.await(l, o.limit(), func(r reply) {
		switch {
		case r.lost:
			o.linkLost = true
			end(relay.SourceEvent{Is: relay.SourceLinkLost})
		case r.late:
			end(o.interrupted())
		default:
			end(ended(r))
		}
	})
	h.tell(l, func(to *host) { deliver(to, l, corr) })
	if sent != nil {
		sent(l)
	}
}

func (o *leaving) perform(e *relay.SourceEffect) {
	h := o.h
	switch e.Do {
	case relay.SourceAdmit:
		o.admit()
	case relay.SourceReserve:
		h.change("reserve move", o.machine, false, func() (store.Change, error) { return h.w.store.ReserveMove(background, e.Reserve) },
			func(c store.Change, err error) {
				o.done(relay.SourceEvent{Is: relay.SourceReserved, Change: c, Err: err})
			})
	case relay.SourcePrepare:
		o.prepare(e)
	case relay.SourcePermit:
		if o.permitted { // a unit has it from the beginning
			h.soon(func() { o.done(relay.SourceEvent{Is: relay.SourcePermitted}) })
			return
		}
		end := o.bounded(func() relay.SourceEvent {
			return relay.SourceEvent{Is: relay.SourcePermitted, Failure: errNoReply.relay()}
		})
		h.enterPermit(o.limit(), func(ok bool) {
			if !ok {
				end(relay.SourceEvent{Is: relay.SourcePermitted, Failure: errNoReply.relay()})
				return
			}
			if o.over || o.permitted || o.doing != sourceSteps[relay.SourcePermit] {
				h.leavePermit()
				return
			}
			o.permitted = true
			end(relay.SourceEvent{Is: relay.SourcePermitted})
		})
	case relay.SourceSealSession:
		if o.r != nil {
			o.sealSessions()
			return
		}
		o.sealSession()
	case relay.SourceCapture:
		if o.r != nil {
			o.captureAll()
			return
		}
		o.capture()
	case relay.SourceRestore:
		o.row = e.Row
		o.restore(e)
	case relay.SourceRelay:
		o.relay()
		o.done(relay.SourceEvent{})
	case relay.SourceRead:
		h.read(o.machine, o.cell.ref.id, storeCallMax, func(row store.Authority, found bool, err error) {
			o.done(relay.SourceEvent{Is: relay.SourceRow, Row: row, Found: found, Err: err})
		})
	case relay.SourceAbort:
		o.takeRow(func() {
			h.change("abort move", o.machine, true, func() (store.Change, error) { return h.w.store.EndMove(background, e.Abort) },
				func(c store.Change, err error) {
					o.done(relay.SourceEvent{Is: relay.SourceAborted, Change: c, Err: err})
				})
		})
	case relay.SourceSettle:
		if l := h.linkOf(o.to); l != nil {
			h.tell(l, func(to *host) { to.moveAbort(l, o.id) })
			h.tell(l, func(to *host) { to.moveAsk(l, o.id) })
		}
		o.linkLost = h.linkOf(o.to) == nil
		o.done(relay.SourceEvent{})
	case relay.SourceConfirm:
		o.confirm()
	case relay.SourceEnd:
		o.end(&e.End)
	}
}

func (o *leaving) admit() {
	h, j := o.h, o.join
	version, from := o.cell.version, o.cell.ref
	left := o.deadline.Sub(h.clock())
	o.ask(func(to *host, l *link, corr uint64) {
		to.joinAdmit(l, corr, o.unit.as(), from, relay.Fence{
			ID: from.id, ObjectGen: from.gen, OwnerGen: from.owner, Version: version, Relocation: o.id, Attempt: 1,
		}, o.spot, j, left)
	}, nil, func(r reply) relay.SourceEvent {
		e := relay.SourceEvent{Is: relay.SourceAdmitted}
		if r.fail != nil {
			e.Failure = r.fail.relay()
			return e
		}
		e.ChunkBytes, e.Reject = 1024, r.v.(bool)
		return e
	})
}

func (o *leaving) sealSession() {
	h, a := o.h, o.a
	end := o.bounded(func() relay.SourceEvent {
		return relay.SourceEvent{Is: relay.SourceSessionSealed, Bound: o.bound.stands(h), SealedAt: h.clock(), Failure: errNoReply.relay()}
	})
	a.inTurn(func(refused *failure) {
		if refused != nil {
			end(relay.SourceEvent{Is: relay.SourceSessionSealed, Failure: refused.relay()})
			return
		}
		o.bound, a.sealing = a.binding, o.unit != nil
		at := h.clock()
		h.sealBinding(a, o.bound, o.id, o.limit(), func(bound bool, f *failure) {
			e := relay.SourceEvent{Is: relay.SourceSessionSealed, Bound: bound, SealedAt: at}
			if f != nil {
				e.Failure = f.relay()
			}
			if !e.Bound && f == nil {
				o.bound = binding{}
			}
			end(e)
		})
	})
}

func (o *leaving) capture() {
	a := o.a
	end := o.done
	o.mover = &mover{o: o, a: a, back: open{}}
	if o.join.held != nil {
		o.mover.back = o.join.held
	}
	a.seal(func() {
		if a.gone {
			a.end(errGone)
			return
		}
		a.cur = o.mover
		if k, ok := o.mover.back.(keeper); ok {
			a.unread(k.unread())
		}
	})
	a.inTurn(func(refused *failure) {
		e := relay.SourceEvent{Is: relay.SourceCaptured}
		switch {
		case refused != nil:
			e.Failure = refused.relay()
		case o.h.w.chance(o.h.w.moves.breaks):
			o.h.w.Cover.Mark("a capture failed")
			e.Failure = &relay.Failure{Kind: errkind.InternalFailure, Text: "the adapter failed"}
			o.mover.phase = moverHolding
		default:
			o.payload = o.mover.capture()
		}
		end(e)
	})
}

// restore sends what was captured and waits until the target is ready.
func (o *leaving) restore(e *relay.SourceEffect) {
	h, p := o.h, o.payload
	if o.unit != nil {
		o.unit.sent = true
	}
	row, from := o.row, o.cell.ref
	left := o.deadline.Sub(h.clock())
	want := relay.Restore{
		Move: store.MoveOf(&row), OwnerGen: from.owner, SourceOwnerID: h.lease.OwnerID, SourceLease: h.lease.Gen, InUserSpot: o.member, Asked: o.r != nil || o.unit == nil && o.member,
		Quiet: o.unit != nil && o.r == nil, Payload: relay.Payload{Bytes: uint64(len(p.state) + 1), Chunks: uint32(p.chunks)},
	}
	if m := row.Move; m.Prepared != nil {
		want.Root = m.Prepared.Root
	}
	o.ask(func(to *host, l *link, corr uint64) { to.restore(l, corr, o.unit.as(), from, want, o.join, p, left) }, func(l *link) {
		again := o.try == e.Try
		o.sending, o.resumes, o.try = l, again, e.Try
		if !again {
			p.next, p.acked = 0, 0
			o.sendChunks(l)
		}
	}, func(r reply) relay.SourceEvent {
		if r.fail != nil {
			return relay.SourceEvent{Is: relay.SourceRefused, Failure: r.fail.relay()}
		}
		return relay.SourceEvent{Is: relay.SourceReady, MayAct: h.mayAct() && h.known <= o.row.Epoch}
	})
}

func (o *leaving) sendChunks(l *link) {
	h, p := o.h, o.payload
	for ; p.next < p.chunks && p.next < p.acked+chunkWindow; p.next++ {
		n := p.next
		h.w.Cover.Mark("chunk")
		h.tell(l, func(to *host) { to.chunk(l, o.id, n) })
	}
}

func (o *leaving) received(l *link, chunks int) {
	if o.sending != l || o.payload == nil {
		return
	}
	if o.resumes {
		o.resumes = false
		o.h.w.Cover.Mark("chunks went on behind a lost link")
		o.payload.next = chunks
	}
	o.payload.acked = chunks
	o.sendChunks(l)
}

// relay crosses the boundary.
func (o *leaving) relay() {
	h := o.h
	l := h.linkOf(o.to)
	h.w.moves.book.boundary(o)
	o.cell.tenure = departed
	if o.r != nil {
		o.relayAll(l)
	} else {
		o.a.step(func(refused *failure) {
			if refused == nil {
				o.mover.relay(l)
			}
		})
	}
	o.unit.isCutOver()
	o.sending, o.payload = nil, nil
	o.leavePermit()
	o.leaveRow()
}
