package node

import (
	"time"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/failpoint"
	"github.com/zlnode/zlnode/internal/invariant"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

var (
	errMoveGone = &Error{Kind: errkind.Unavailable, Text: "this move was given up here"}
	errMoving   = &Error{Kind: errkind.Unavailable, Text: "the object is moving to another node", stale: true}
	errMoved    = &Error{Kind: errkind.Unavailable, Text: "the object has moved to another node", stale: true}
	// errHanded is not stale: what was relayed and not acknowledged may have been executed.
	errHanded   = &Error{Kind: errkind.Unavailable, Text: "the object has moved to another node, of which it is not known whether the message came there"}
	errStranded = &Error{Kind: errkind.Unavailable, Text: "the object's move did not end in time, and it is at no node; see the node's stuck objects"}
	errTooFar   = &Error{Kind: errkind.Unavailable, Text: "the message was carried after the object too often"}
)

// moveID names one attempt of a move.
type moveID struct {
	relocation [16]byte
	attempt    uint32
}

// mover is the consumer of an Actor's mailbox from the seal of its move on (JN-17). What
// the barrier held and what is queued at the seal is saved: it travels in the payload.
// What comes later is held, and after the boundary relayed, in order and numbered; so is
// all that comes afterwards, which is Message Follow. Producers notice nothing.
//
// Until the commit is known the mover keeps the originals, in the mailbox's own budget:
// so what waits here is bounded by what senders may queue for one object. Afterwards each
// is gone when the target has acknowledged it.
//
// All fields but the first are the claim's. Others act on it by steps (objectCell.step).
type mover struct {
	cell *objectCell
	id   moveID
	to   process // the target
	back *hold   // of the Join's barrier, which gets all back if the move is given up; nil: the object itself does
	unit wire.Unit
	// sealed is when the Actor's gate was, cut when the cutover was submitted, and strayed when
	// the last message came here behind that, or the commit was known.
	sealed, cut, strayed clock.Mono

	// cutOver is told once of the cutover; nil: nobody is.
	cutOver func()

	phase moverPhase
	saved []heldMessage
	// savedNews are the turns among them in which a Spot would be told what waits longest.
	savedNews int
	held      []heldMessage
	out       relay.Out[handed]
	last      relay.Seq // that out has given
	link      *linkConn
	// unsure says that what was sent last may be lost. Nothing is sent before the target
	// has said what it has.
	unsure bool

	// Once the commit is known.
	follow  relay.Follow
	now     ActorRef
	version uint64
	// home is the Actor's cell here, once it has come back: what still comes goes there.
	home *objectCell
}

type moverPhase uint8

const (
	moverSaving moverPhase = iota
	moverHolding
	moverRelaying // the commit is not known
	moverFollowing
)

// handed is a message that was relayed and not acknowledged.
type handed struct {
	record *buf.Buf
	sender sender
	kept   mailbox.Kept
}

// Begin implements mailbox.Consumer: what the barrier holds is the first that is saved.
func (v *mover) Begin(claim *mailbox.Claim[message]) {
	v.cell.sawCallback(GateClosed, "", nil)
	v.cell.current = v
	if v.back != nil {
		v.back.unread(claim)
	}
}

// Consume implements mailbox.Consumer.
func (v *mover) Consume(claim *mailbox.Claim[message], m *message) {
	switch {
	case m.packet == stepPacket || m.packet == relayPacket:
		m.control(&turn{node: v.cell.node, cell: v.cell, claim: claim})
		m.done()
	case v.phase >= moverRelaying && m.kind == msgTopic:
		v.missed(m)
	case v.phase == moverSaving:
		kept := claim.Keep()
		v.saved = append(v.saved, heldMessage{message: m.take(), kept: kept})
	case v.phase == moverHolding:
		kept := claim.Keep()
		v.held = append(v.held, heldMessage{message: m.take(), kept: kept})
	case m.isControl() && !m.tellsNews():
		m.refuse(v.cell.node, errMoving)
	case v.home != nil && m.tellsNews():
		v.newsHome(m)
	case v.home != nil:
		v.home.box.PushControl(m.take()) // one turn's worth: what had come before the return
	default:
		v.pass(claim, m)
	}
}

// captured is what goes along: segments of the payload, none of them copied again.
type captured struct{ head, queue, state []byte }

func (c *captured) size() int { return len(c.head) + len(c.queue) + len(c.state) }

// capture ends what is saved and takes it, with state, timers and binding. In the Actor's
// turn, so that no handler runs.
func (v *mover) capture(bound *binding) (got captured, _ *Error) {
	c, n := v.cell, v.cell.node
	v.phase = moverHolding
	m := wire.MoveState{SpotID: []byte(c.context.SpotID()), Topics: c.subscriptions(), Began: c.began}
	if c.typ.Kind != store.Actor {
		m.SpotID = []byte(c.ref.ID)
	}
	if bound.stands() && c.binding.key == bound.key { // else they have parted since
		n.drained(*bound, v.id.relocation, c.ref)
		owner := bound.key.owner(n)
		m.HasBinding, m.Binding = true, wire.MovedBinding{
			Owner: owner.wire(), Session: bound.key.session, BindingGen: bound.key.gen,
			ClientAway: c.binding.away, // which bound, from before the seal, may not know
		}
	} else { // the end of a binding that is over waits behind the seal, where it will be refused
		m.ClientGone = c.binding.key.gen != 0
	}
	if c.typ.Policy == PreserveState {
		err := guard(n, "object", c.ref.ID, func() (e error) {
			got.state, e = c.typ.Capture(c.instance)
			if e == nil && got.state == nil {
				e = fail(errkind.InternalFailure, "capture", c.ref.ID, "the adapter of type %q captured nil; an empty state is an empty slice", c.typ.Name)
			}
			return e
		})
		if c.failed("Capture", err); err != nil {
			return got, fail(errkind.InternalFailure, opMove, c.ref.ID, "its adapter's Capture failed; the log of node %s says why", n.cfg.RID)
		}
		m.HasState = true
	}
	if c.timers != nil {
		timers := c.timers.set.Export(n.timerNow())
		m.Timers = timers.AppendTo(nil)
	}
	now := clock.Now()
	for i := range v.saved {
		h := &v.saved[i]
		var w wire.Carried
		switch {
		case h.tellsNews():
			w = n.carriedNews(v.capturedNews(&h.message, v.savedNews), 0)
			if h.packet == newsPacket {
				v.savedNews++
			}
		case h.isControl():
			continue
		default:
			if err := n.carriable(&h.message); err != nil {
				return got, err
			}
			w = n.carried(c, &h.message, now)
		}
		w.Hops = h.hops() // it goes where its object goes, however often
		got.queue = w.AppendTo(got.queue)
		m.Saved++
	}
	got.head = m.AppendHead(nil, len(got.queue), len(got.state))
	return got, nil
}

// handBack gives everything back to the Join's barrier, or to the object, in order: the move
// was given up.
type handBack struct{ from *mover }

// Begin implements mailbox.Consumer.
func (b *handBack) Begin(claim *mailbox.Claim[message]) {
	v := b.from
	if v.cell.gone.Load() { // it was ended while this was on its way
		(&ending{cell: v.cell, err: errGone}).Begin(claim)
		return
	}
	v.cell.sealing = false
	if v.back != nil {
		v.cell.become(claim, v.back)
	} else {
		v.cell.sawCallback(GateOpened, "", nil)
		v.cell.become(claim, v.cell)
	}
	unread(claim, v.held)
	unread(claim, v.saved)
	v.held, v.saved = nil, nil
}

// Consume implements mailbox.Consumer.
func (b *handBack) Consume(*mailbox.Claim[message], *message) {
	invariant.Check(false, "a hand-back got a message; its Begin gives the mailbox on")
}

// unread is for the Actor's end at this node, whatever became of the move. Behind the boundary the
// target may have executed what is saved, and what was relayed, so that is not refused as what is
// left here.
func (v *mover) unread(claim *mailbox.Claim[message]) {
	n := v.cell.node
	unread(claim, v.held)
	for i := range v.saved {
		if m := v.saved[i].message; v.phase >= moverRelaying && !m.isControl() {
			v.saved[i].message = controlMessage(func(*turn) { m.refuse(n, errHanded) })
		}
	}
	unread(claim, v.saved)
	v.held, v.saved = nil, nil
	v.out.Acked(v.last, func(h handed) { // each has a turn, which gives its share of the budgets back
		h.record.Free()
		m := controlMessage(func(*turn) {
			h.sender.refuse(n, errHanded)
			h.sender.giveBack()
		})
		claim.Unread(&m, h.kept)
	})
}

// relay begins behind the boundary: what was held goes to the target, then the cutover.
func (v *mover) relay(claim *mailbox.Claim[message], l *linkConn) {
	v.cell.sawCallback(BoundaryCrossed, "", nil)
	failpoint.Hit("R09.before")
	v.phase, v.link = moverRelaying, l
	claim.Join(nil) // a Spot's gate does not wait for links
	v.cell.group.Store(nil)
	held := v.held
	v.held = nil
	for i := range held {
		h := &held[i]
		if h.isControl() && !h.tellsNews() {
			claim.Release(h.kept)
			h.refuse(v.cell.node, errMoving)
			continue
		}
		v.passKept(claim, &h.message, h.kept)
	}
	v.cell.unsubscribe() // what comes of topics from here on is missed
	failpoint.Hit("R09.after")
	v.sendCutover()
	n := v.cell.node
	v.cut = clock.Now()
	n.stoodStill(&n.counters.moves[v.unit].sourceStop, v.unit, v.cell.ref.ID, "at its source, up to the cutover", v.cut.Sub(v.sealed))
	if v.cutOver != nil {
		v.cutOver()
	}
}

// pass relays one message of the mailbox.
func (v *mover) pass(claim *mailbox.Claim[message], m *message) {
	failpoint.Hit("R16.before")
	v.notify(m)
	kept := claim.Keep()
	v.passKept(claim, m, kept)
	v.strayed = claim.Now()
	failpoint.Hit("R16.after")
}

// passKept relays a message whose share of the budgets is kept, or refuses it.
func (v *mover) passKept(claim *mailbox.Claim[message], m *message, kept mailbox.Kept) {
	if m.isControl() {
		v.passNews(claim, m, kept)
		return
	}
	n, now := v.cell.node, claim.Now()
	gen, err := v.passable(now, m)
	if err == nil {
		err = n.carriable(m)
	}
	if err != nil {
		claim.Release(kept)
		m.refuse(n, err)
		return
	}
	w := n.carried(v.cell, m, now)
	w.OwnerGen = gen
	v.passCarried(claim, &w, m.handOn(), kept) // with its answer
	m.done()
}

// passCarried relays it, numbered. The record is the mover's until the target has it for good.
func (v *mover) passCarried(claim *mailbox.Claim[message], w *wire.Carried, from sender, kept mailbox.Kept) {
	v.last++
	r := wire.Relay{Relocation: v.id.relocation, Attempt: v.id.attempt, Seq: uint64(v.last), Message: *w}
	record := buf.Get(r.Size())
	r.AppendTo(record.Bytes()[:0])
	seq := v.out.Add(handed{record, from, kept}, record.Bytes()[wire.RelayHead:])
	invariant.Check(seq == v.last, "relayed message %d has the number %d", v.last, seq)
	v.send(claim, record)
}

// passable returns the owner generation of the route by which a message goes on, or says
// why it does not.
func (v *mover) passable(now clock.Mono, m *message) (uint64, *Error) {
	if v.phase == moverFollowing {
		if m.kind == msgSend && m.link == nil && m.hops() == 0 { // of this node, by no route: see forget
			now = min(now, v.follow.Until()-1)
		}
		on, refused := v.follow.Decide(now, relay.Stray{OwnerGen: store.OwnerGen(v.cell.ref.OwnerGen), Hops: m.hops(), Deadline: m.deadline})
		switch {
		case refused == nil:
		case refused.Kind == errkind.Unavailable && now.Reached(v.follow.Until()):
			return 0, errMoved // who asks may take the present route
		default:
			return 0, &Error{Kind: refused.Kind, Text: refused.Text}
		}
		return uint64(on.OwnerGen), nil
	}
	switch {
	case now.Reached(m.deadline):
		return 0, errNoReply
	case m.hops() >= wire.MaxHops:
		return 0, errTooFar
	}
	return v.cell.ref.OwnerGen + 1, nil // as the commit will make it
}

// send sends a record that stays the mover's, waiting for the link's credit.
func (v *mover) send(claim *mailbox.Claim[message], record *buf.Buf) {
	if v.unsure {
		return
	}
	l := v.link
	if l == nil || l.gone.Load() {
		v.unsure = true // the next link asks
		return
	}
	taken, err := l.sendNow(record.Ref())
	if !taken {
		claim.Blocking(func() { err = l.waitForCredit(v.cell.node.life, len(record.Bytes())) })
		if err == nil {
			err = l.sendPaid(record)
		} else {
			record.Free()
		}
	}
	if err != nil {
		v.unsure = true
		v.ask(l)
	}
}

// ask has the target say what it has.
func (v *mover) ask(l *linkConn) {
	if !l.gone.Load() {
		l.sendControl(&wire.MoveAsk{Relocation: v.id.relocation, Attempt: v.id.attempt})
	}
}

func (v *mover) sendCutover() {
	last, crc := v.out.Cutover()
	if v.link == nil || v.link.gone.Load() {
		v.unsure = true
	}
	if !v.unsure && !failpoint.Hit("R10.before") {
		v.link.sendControl(&wire.Cutover{Relocation: v.id.relocation, Attempt: v.id.attempt, Seq: uint64(last), CRC: crc})
	}
	failpoint.Hit("R10.after")
}

// reconnected is told of a new link to the target.
func (v *mover) reconnected(l *linkConn) {
	if v.phase >= moverRelaying {
		v.link, v.unsure = l, true
		v.ask(l)
	}
}

// progress takes what the target says that it has. Once it has committed, what it has is
// no longer here. If it was not sure, all that it has not goes to it again.
func (v *mover) progress(claim *mailbox.Claim[message], l *linkConn, p *wire.MoveProgress) {
	if v.phase < moverRelaying || l.gone.Load() {
		return
	}
	if p.State == wire.ProgressCommitted && !v.acknowledged(claim, p.Seq) {
		l.conn.Abort(engine.CloseReason{Code: engine.ProtocolError, Text: "it acknowledges messages that were not relayed"})
		return
	}
	if !v.unsure || p.State == wire.ProgressGone {
		return
	}
	v.link, v.unsure = l, false
	for again := range v.out.Again(relay.Seq(p.Seq)) {
		if !again.Cutover {
			v.send(claim, again.Item.record)
		} else if p.State != wire.ProgressCommitted {
			v.sendCutover()
		}
	}
}

// acknowledged reports false for a number that was never given.
func (v *mover) acknowledged(claim *mailbox.Claim[message], seq uint64) bool {
	return v.out.Acked(relay.Seq(seq), func(h handed) {
		claim.Release(h.kept)
		h.record.Free()
		h.sender.giveBack()
	})
}

// left is told that the target owns the object: what is at this node is over (RL-17). The
// originals of what travelled in the payload go. What was held goes to the target now, if
// nobody heard of its relay-ready. Messages follow for so long.
func (v *mover) left(claim *mailbox.Claim[message], l *linkConn, now ActorRef, version uint64, follows time.Duration) {
	if v.phase < moverRelaying {
		v.relay(claim, l)
	}
	v.phase, v.now, v.version, v.strayed = moverFollowing, now, version, clock.Now()
	v.begin(follows)
	for i := range v.saved {
		m := &v.saved[i]
		claim.Release(m.kept)
		if m.isControl() {
			m.refuse(v.cell.node, errMoving)
		} else {
			m.done()
		}
	}
	v.saved, v.savedNews = nil, 0
	v.cell.vacate()
}

// end ends what is at this node: the follow is over.
func (v *mover) end(claim *mailbox.Claim[message], err *Error) {
	v.cell.node.counters.moves[v.unit].routeConvergence.add(v.strayed.Sub(v.cut))
	v.refuseAll(claim, err, errHanded)
	v.cell.vacate()
}

// strand leaves the Actor as it is, which runs no more: it is at no node, or may be elsewhere.
func (v *mover) strand(claim *mailbox.Claim[message], err *Error, elsewhere bool) {
	handedOn := err // nobody has executed it
	if elsewhere {
		handedOn = errHanded
	}
	v.refuseAll(claim, err, handedOn)
	v.cell.fenceTimers()
	v.cell.bind(binding{})
}

// refuseAll refuses all that is left here, what the target may have, too, and all that comes.
func (v *mover) refuseAll(claim *mailbox.Claim[message], err, handedOn *Error) {
	for i := range v.saved {
		m := &v.saved[i]
		claim.Release(m.kept)
		if m.isControl() {
			m.refuse(v.cell.node, err)
		} else {
			m.refuse(v.cell.node, handedOn)
		}
	}
	for i := range v.held {
		claim.Release(v.held[i].kept)
		v.held[i].refuse(v.cell.node, err)
	}
	v.saved, v.held = nil, nil
	v.out.Acked(v.last, func(h handed) {
		claim.Release(h.kept)
		h.record.Free()
		h.sender.refuse(v.cell.node, handedOn)
		h.sender.giveBack()
	})
	v.cell.become(claim, v.cell.turnsAway(err))
}

// notify tells the sender of a message that took an old route (MF-01).
func (v *mover) notify(m *message) {
	if v.phase == moverFollowing && m.link != nil && m.hops() == 0 && !m.fromSession() {
		m.link.sendControl(&wire.FollowNotice{Ref: wireRef(v.now), StoreVersion: v.version})
	}
}
