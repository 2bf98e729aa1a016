package node

import (
	"hash/crc32"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/invariant"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/relay"
)

var (
	errMoving   = &Error{Kind: errkind.Unavailable, Text: "the object is moving to another node", stale: true}
	errMoved    = &Error{Kind: errkind.Unavailable, Text: "the object has moved to another node", stale: true}
	errStranded = &Error{Kind: errkind.Unavailable, Text: "the object's move did not end in time, and it is at no node; see the node's stuck objects"}
	errTooFar   = &Error{Kind: errkind.Unavailable, Text: "the message was carried after the object too often"}
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

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
	back *hold   // of the Join's barrier, which gets all back if the move is given up

	phase moverPhase
	saved []heldMessage
	held  []heldMessage
	out   relay.Out[handed]
	sum   uint32 // CRC-32C of what was relayed before the cutover
	cut   bool   // the cutover was sent, behind cutSeq
	cutAt uint64
	link  *linkConn
	// unsure says that what was sent last may be lost. Nothing is sent before the target
	// has said what it has.
	unsure bool
	follow *relay.Follow // once the commit is known
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
	v.cell.current = v
	v.back.unread(claim)
}

// Consume implements mailbox.Consumer.
func (v *mover) Consume(claim *mailbox.Claim[message], m *message) {
	switch {
	case m.packet == stepPacket || m.packet == relayPacket:
		m.control(&turn{node: v.cell.node, cell: v.cell, claim: claim})
		m.done()
	case v.phase == moverSaving:
		kept := claim.Keep()
		v.saved = append(v.saved, heldMessage{message: m.take(), kept: kept})
	case v.phase == moverHolding:
		kept := claim.Keep()
		v.held = append(v.held, heldMessage{message: m.take(), kept: kept})
	case m.isControl():
		m.refuse(v.cell.node, errMoving)
	default:
		v.pass(claim, m)
	}
}

// handBack gives everything back to the Join's barrier, in order: the move was given up.
type handBack struct{ from *mover }

// Begin implements mailbox.Consumer.
func (b *handBack) Begin(claim *mailbox.Claim[message]) {
	v := b.from
	v.cell.become(claim, v.back)
	unread(claim, v.held)
	unread(claim, v.saved)
	v.held, v.saved = nil, nil
}

// Consume implements mailbox.Consumer.
func (b *handBack) Consume(*mailbox.Claim[message], *message) {
	invariant.Check(false, "a hand-back got a message; its Begin gives the mailbox on")
}

// relay begins behind the boundary: what was held goes to the target, then the cutover.
func (v *mover) relay(claim *mailbox.Claim[message], l *linkConn) {
	v.phase, v.link = moverRelaying, l
	claim.Join(nil) // a Spot's gate does not wait for links
	v.cell.group.Store(nil)
	held := v.held
	v.held = nil
	for i := range held {
		h := &held[i]
		if h.isControl() {
			claim.Release(h.kept)
			h.refuse(v.cell.node, errMoving)
			continue
		}
		v.passKept(claim, &h.message, h.kept)
	}
	v.cut, v.cutAt = true, v.out.Last()
	v.sendCutover()
}

// pass relays one message of the mailbox.
func (v *mover) pass(claim *mailbox.Claim[message], m *message) {
	v.notify(m)
	kept := claim.Keep()
	v.passKept(claim, m, kept)
}

// passKept relays a message whose share of the budgets is kept, or refuses it.
func (v *mover) passKept(claim *mailbox.Claim[message], m *message, kept mailbox.Kept) {
	n, now := v.cell.node, claim.Now()
	err := v.passable(now, m)
	if err == nil {
		err = n.carriable(m)
	}
	if err != nil {
		claim.Release(kept)
		m.refuse(n, err)
		return
	}
	r := wire.Relay{
		Relocation: v.id.relocation, Attempt: v.id.attempt, Seq: v.out.Last() + 1, Message: n.carried(v.cell, m, now),
	}
	record := buf.Get(r.Size())
	r.AppendTo(record.Bytes()[:0])
	if !v.cut {
		v.sum = crc32.Update(v.sum, crcTable, record.Bytes()[wire.RelayHead:])
	}
	from := m.sender
	m.sender = sender{} // its credit and its answer stay with what is handed on
	m.done()
	v.out.Add(handed{record, from, kept})
	v.send(claim, record)
}

// passable says why a message cannot go on.
func (v *mover) passable(now clock.Mono, m *message) *Error {
	switch {
	case now.Reached(m.deadline):
		return errNoReply
	case m.hops() >= wire.MaxHops:
		return errTooFar
	case v.follow != nil && v.follow.Over(now):
		return errMoved
	}
	return nil
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
	if v.unsure || v.link == nil {
		v.unsure = true
		return
	}
	v.link.sendControl(&wire.Cutover{Relocation: v.id.relocation, Attempt: v.id.attempt, Seq: v.cutAt, CRC: v.sum})
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
	if p.State == wire.ProgressCommitted {
		v.acknowledged(claim, p.Seq)
	}
	if !v.unsure || p.State == wire.ProgressGone {
		return
	}
	v.link, v.unsure = l, false
	cut := p.State == wire.ProgressCommitted
	for seq, h := range v.out.After(p.Seq) {
		if v.cut && !cut && seq > v.cutAt {
			cut = true
			v.sendCutover()
		}
		v.send(claim, h.record)
	}
	if v.cut && !cut {
		v.sendCutover()
	}
}

func (v *mover) acknowledged(claim *mailbox.Claim[message], seq uint64) {
	for _, h := range v.out.Acked(seq) {
		claim.Release(h.kept)
		h.record.Free()
		h.sender.giveBack()
	}
}

// left is told that the target owns the object: what is at this node is over (RL-17). The
// originals of what travelled in the payload go.
func (v *mover) left(claim *mailbox.Claim[message], f *relay.Follow) {
	if v.phase == moverFollowing {
		return
	}
	v.phase, v.follow = moverFollowing, f
	for i := range v.saved {
		m := &v.saved[i]
		claim.Release(m.kept)
		if m.isControl() {
			m.refuse(v.cell.node, errMoved)
		} else {
			m.done()
		}
	}
	v.saved = nil
	v.cell.vacate()
}

// end refuses all that is left here, and all that comes: the follow is over, or the move
// is stranded.
func (v *mover) end(claim *mailbox.Claim[message], err *Error) {
	for i := range v.saved {
		claim.Release(v.saved[i].kept)
		v.saved[i].refuse(v.cell.node, err)
	}
	for i := range v.held {
		claim.Release(v.held[i].kept)
		v.held[i].refuse(v.cell.node, err)
	}
	v.saved, v.held = nil, nil
	for _, h := range v.out.Acked(v.out.Last()) {
		claim.Release(h.kept)
		h.record.Free()
		h.sender.refuse(v.cell.node, err)
		h.sender.giveBack()
	}
	v.cell.become(claim, &refusal{node: v.cell.node, err: err})
}

// notify tells the sender of a message that took an old route (MF-01).
func (v *mover) notify(m *message) {
	if v.follow != nil && m.link != nil && (m.kind == msgSend || m.kind == msgRequest) {
		m.link.sendControl(&wire.FollowNotice{Ref: wireRef(v.follow.Ref()), StoreVersion: v.follow.Version()})
	}
}
