package node

import (
	"sync/atomic"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/failpoint"
	"github.com/zlnode/zlnode/internal/invariant"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// incoming is an Actor's temporary queue: the consumer of its mailbox at the target from
// the registration on, until the move is decided. It keeps apart what travelled in the
// payload, what was relayed before the cutover, and the rest (RL-08). Steps run.
//
// The numbering of relayed messages goes on after the object has opened, for as long as
// the source may still send: see relayed.
type incoming struct {
	cell atomic.Pointer[objectCell] // another one, with the same mailbox, once its type is known
	id   moveID
	from process // the source
	// ownerGen is that of the Actor once it is here.
	ownerGen uint64

	// Owned by the cell's claim.
	saved   []message
	relayed []heldMessage
	rest    []heldMessage
	in      relay.In
	cut     bool
	known   bool      // the commit is
	upTo    relay.Seq // what had come by then, which is acknowledged; with known
}

// Begin implements mailbox.Consumer.
func (i *incoming) Begin(*mailbox.Claim[message]) {}

// Consume implements mailbox.Consumer.
func (i *incoming) Consume(claim *mailbox.Claim[message], m *message) {
	if m.packet == stepPacket || m.packet == relayPacket {
		m.control(&turn{node: i.cell.Load().node, cell: i.cell.Load(), claim: claim})
		m.done()
		return
	}
	kept := claim.Keep()
	i.rest = append(i.rest, heldMessage{message: m.take(), kept: kept})
}

// take puts a relayed message into the Actor's mailbox, outside its budget: the source
// keeps the original in its own until the commit, and then the link's credit bounds what
// is under way. body is of its record. Called by the link's loop.
func (i *incoming) take(l *linkConn, r *wire.Relay, body []byte, paid uint32, owner *buf.Buf) {
	m, seq, carried := i.cell.Load().arrived(&r.Message, clock.Now(), i.from, l, paid, owner), relay.Seq(r.Seq), body[wire.RelayHead-wire.HeaderSize:]
	looped := r.Message.OwnerGen > i.ownerGen // the route from there led back
	owner.Ref()
	c := controlMessage(func(t *turn) {
		defer owner.Free()
		if t.refused != nil {
			refused := t.refused
			if m.intends() && refused == errGone {
				refused = errNotHere // it was not taken, and may be for the next incarnation
			}
			m.refuse(i.cell.Load().node, refused)
			return
		}
		switch i.in.Accept(seq, carried) {
		case relay.Fresh:
			if looped {
				m.refuse(i.cell.Load().node, errTooFar)
				return
			}
			i.relayOne(t, l, &m)
		case relay.Duplicate:
			m.done()
		case relay.Gap:
			m.done() // the source sends it again, behind what is missing
			l.conn.Abort(engine.CloseReason{Code: engine.ProtocolError, Text: "a relayed message is missing, or is not what was sent"})
		}
	})
	c.packet = relayPacket
	i.cell.Load().box.PushControl(c)
}

// waits reports whether what comes waits here.
func (i *incoming) waits() bool { return i.cell.Load().current == mailbox.Consumer[message](i) }

// relayOne is the turn of a relayed message.
func (i *incoming) relayOne(t *turn, l *linkConn, m *message) {
	failpoint.Hit("R09.T.before")
	temporary := i.waits()
	if temporary { // what waits here must not keep others from the link
		m.giveBack()
	}
	switch {
	case temporary && !i.cut:
		i.relayed = append(i.relayed, heldMessage{message: *m})
	case temporary:
		i.rest = append(i.rest, heldMessage{message: *m, copied: true})
	default:
		t.cell.current.Consume(t.claim, m)
	}
	if i.known && !temporary {
		i.acknowledge(l)
	}
	failpoint.Hit("R09.T.after")
}

// acknowledge tells the source what is here for good. What comes between the commit and the
// opening is not, as nothing here bounds it: the source keeps the originals in the budget of
// its own queue until the object opens, and sends them again over a new link.
func (i *incoming) acknowledge(l *linkConn) {
	if l == nil || l.gone.Load() {
		return // on its next link the source asks
	}
	p := wire.MoveProgress{Relocation: i.id.relocation, Attempt: i.id.attempt, State: wire.ProgressReady, Seq: uint64(i.in.Last())}
	if i.known {
		p.State, p.OwnerGen = wire.ProgressCommitted, i.cell.Load().ref.OwnerGen
		if i.waits() {
			p.Seq = uint64(i.upTo)
		}
	}
	l.sendControl(&p)
}

// cutover is told that nothing more comes before the boundary.
func (i *incoming) cutover(l *linkConn, c *wire.Cutover) (taken bool) {
	failpoint.Hit("R10.T.before")
	switch i.in.Cutover(relay.Seq(c.Seq), c.CRC) {
	case relay.Fresh:
		i.cut = true
		failpoint.Hit("R10.T.after")
		return true
	case relay.Gap:
		l.conn.Abort(engine.CloseReason{Code: engine.ProtocolError, Text: "the cutover does not tell of what was relayed"})
	case relay.Duplicate:
	}
	return false
}

// drop is for a move that was given up. What was saved and relayed are copies: nobody is
// answered for them. What came straight here is forwarded to the Actor's owner, or answered.
func (i *incoming) drop(claim *mailbox.Claim[message], err *Error) {
	n := i.cell.Load().node
	for k := range i.saved {
		i.saved[k].done()
	}
	for k := range i.relayed {
		i.relayed[k].done()
	}
	l, away := n.linkOf(i.from), i.cell.Load().turnsAway(err)
	for k := range i.rest {
		m := &i.rest[k]
		claim.Release(m.kept)
		switch {
		case m.copied:
			m.done()
		case m.kind == msgSend && l != nil && n.forward(l, i.cell.Load(), &m.message):
			m.done()
		default:
			away.Consume(claim, &m.message)
		}
	}
	i.saved, i.relayed, i.rest = nil, nil, nil
	i.cell.Load().become(claim, away)
	i.cell.Load().vacate()
}

// forward sends a one-way message on to the owner that has stayed, if the link takes it now.
func (n *Node) forward(l *linkConn, c *objectCell, m *message) bool {
	if m.hops() >= wire.MaxHops {
		return false
	}
	w := wire.ActorMessage{
		ID: []byte(c.ref.ID), Spot: c.typ.Kind != store.Actor, Op: n.operations.Add(1), Hops: m.hops() + 1,
		Name: []byte(m.packet.name), Codec: m.codec, Metadata: m.metadata(), Payload: m.body(),
	}
	record := buf.Get(w.Size())
	w.AppendTo(record.Bytes()[:0])
	taken, err := l.sendNow(record)
	if !taken {
		record.Free()
	}
	return taken && err == nil
}

// accept tells the senders of offers that an open Spot has them.
func (i *incoming) accept() {
	n, now := i.cell.Load().node, clock.Now()
	accept := func(m *message) {
		if m.kind == msgOffer && !now.Reached(m.deadline) {
			m.accept(n)
		}
	}
	for k := range i.saved {
		accept(&i.saved[k])
	}
	for _, held := range [][]heldMessage{i.relayed, i.rest} {
		for k := range held {
			accept(&held[k].message)
		}
	}
}

// unread puts everything in front of what is queued, in order: what was saved, what was
// relayed before the cutover, the rest (RL-08).
func (i *incoming) unread(claim *mailbox.Claim[message]) {
	unread(claim, i.rest)
	unread(claim, i.relayed)
	for k := len(i.saved) - 1; k >= 0; k-- {
		claim.Unread(&i.saved[k], mailbox.Kept{})
	}
	i.rest, i.relayed, i.saved = nil, nil, nil
}

// merging makes the Actor the consumer of its own mailbox, with all in front of it.
type merging struct{ from *incoming }

// Begin implements mailbox.Consumer.
func (o *merging) Begin(claim *mailbox.Claim[message]) {
	i := o.from
	if c := i.cell.Load(); c.gone.Load() { // it was ended while this was on its way
		(&ending{cell: c, err: errGone}).Begin(claim)
		return
	}
	i.cell.Load().sawCallback(GateOpened, "", nil)
	i.cell.Load().become(claim, i.cell.Load())
	i.accept()
	i.unread(claim)
	if i.cell.Load().timers != nil {
		i.cell.Load().armTimers()
	}
	i.acknowledge(i.cell.Load().node.linkOf(i.from))
}

// Consume implements mailbox.Consumer.
func (o *merging) Consume(*mailbox.Claim[message], *message) {
	invariant.Check(false, "a merging got a message; its Begin gives the mailbox on")
}
