package node

import (
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
)

type messageKind uint8

const (
	msgSend messageKind = iota + 1
	msgRequest
	msgSessionSend    // from the client of a bound Session
	msgSessionRequest // the same, with a reply
	msgControl        // framework work in the Actor's turn
	msgTopic          // published to a topic to which a Spot or a reader subscribes

	// With Instance intent: what such a message finds not to be comes into being.
	msgOffer         // one-way, and the sender waits until the queue of an open Spot has it
	msgIntentSend    // one-way
	msgIntentRequest // with a reply
)

// inlineBytes is what of a message's metadata and payload is kept in the queue itself.
// With it a place in the queue has 256 bytes.
const inlineBytes = 88

// elsewhere is the dataLen of a message whose content is not inline.
const elsewhere = 255

// message is one entry of an Actor's mailbox. It is made in its place in the queue by
// fill, and whoever ends it calls done once, which leaves the place as fill expects it.
// What crosses from the sender's processor to the Actor's is most of its cost: so a send
// with up to 64 bytes fits into the first two cache lines of its place, and what its kind
// and dataLen do not ask for is not looked at.
type message struct {
	sender
	packet   *packetType
	deadline clock.Mono // clock.Never if the sender set none
	inline   [inlineBytes]byte

	// Of messages that need them; else zero.
	owner   *buf.Buf // keeps meta and payload valid
	meta    []byte
	payload []byte
	session bindingKey // of session packets
	control func(*turn)
}

// fill writes a message. What o's bytes say is copied, or referenced where a keeps it
// valid. a is nil for a message of this node's own.
func (m *message) fill(p *packetType, s sender, o *Outgoing, deadline clock.Mono, a *arrival) {
	m.sender, m.packet, m.deadline = s, p, deadline
	m.codec = o.Codec
	switch n := len(o.Metadata); {
	case n+len(o.Payload) <= inlineBytes:
		m.metaLen, m.dataLen = uint8(n), uint8(len(o.Payload))
		copy(m.inline[:], o.Metadata)
		copy(m.inline[n:], o.Payload)
	case a != nil && a.owner != nil:
		m.dataLen = elsewhere
		m.owner, m.meta, m.payload = a.owner.Ref(), o.Metadata, o.Payload
	default:
		m.dataLen = elsewhere
		m.owner = buf.Get(n + len(o.Payload))
		b := m.owner.Bytes()
		copy(b, o.Metadata)
		copy(b[n:], o.Payload)
		m.meta, m.payload = b[:n:n], b[n:]
	}
	if a != nil && m.fromSession() {
		m.session = a.session
	}
}

func (m *message) isControl() bool { return m.kind == msgControl }

// intends reports whether the message may bring an Instance Spot into being.
func (m *message) intends() bool { return m.kind >= msgOffer }

// accept tells the sender of an offer that the queue of an open Spot has it.
func (m *message) accept(n *Node) {
	m.reply(n, 0, nil)
	m.kind, m.corr, m.to, m.deadline = msgIntentSend, 0, nil, clock.Never
}

// bury refuses a message that is held and leaves nothing of it but its place.
func (m *message) bury(n *Node, err *Error) {
	m.refuse(n, err)
	*m = controlMessage(func(*turn) {})
}

func (m *message) fromSession() bool {
	return m.kind == msgSessionSend || m.kind == msgSessionRequest
}

// metadata and body are views that are valid until done.
func (m *message) metadata() []byte {
	if m.dataLen == elsewhere {
		return m.meta
	}
	return m.inline[:m.metaLen:m.metaLen]
}

func (m *message) body() []byte {
	if m.dataLen == elsewhere {
		return m.payload
	}
	end := int(m.metaLen) + int(m.dataLen)
	return m.inline[m.metaLen:end:end]
}

// take moves the message out of its place.
func (m *message) take() message {
	taken := *m
	*m = message{}
	return taken
}

// done gives back what the message held. It comes after the turn, so that a
// sender's credits return only when its message was worked off.
func (m *message) done() {
	m.giveBack()
	switch {
	case m.isControl():
		m.control = nil
	case m.fromSession():
		m.session = bindingKey{}
	}
	if m.dataLen == elsewhere {
		m.owner.Free()
		m.owner, m.meta, m.payload = nil, nil, nil
	}
	m.sender = sender{}
}

// refuse ends a message that is not executed: a request with err, anything else
// as a counted drop.
func (m *message) refuse(n *Node, err *Error) {
	if m.isControl() {
		m.control(&turn{node: n, refused: err})
	} else {
		n.sawRefused(m, err)
		m.sender.refuse(n, err)
	}
	m.done()
}

// arrival is what a message that came over a connection has beside its content.
type arrival struct {
	owner   *buf.Buf // of the content; nil: the message copies it
	toSpot  bool     // it is meant for a Spot, else for an Actor
	objGen  uint64   // of the incarnation that is meant; 0: whichever is there
	session bindingKey
}

// sender is where a message came from and the way back, and in the room that this leaves
// the codec and the lengths of the message.
type sender struct {
	kind                    messageKind
	codec, metaLen, dataLen uint8
	paid                    uint32    // bytes of the link's credit; above hopsShift the hops
	link                    *linkConn // nil: this node
	to                      *waiter   // of a request of a goroutine of this node
	corr                    uint64    // of requests; of a message to a topic, the Spot's subscription
}

// hopsShift leaves 28 bits for the credit of a record, which has 23 at most, and 4 for
// how often the message was carried from one node to another.
const hopsShift = 28

func (s *sender) hops() uint8 { return uint8(s.paid >> hopsShift) }

// carried sets how often the message was carried; it is new.
func (s *sender) carried(hops uint8) { s.paid |= uint32(hops) << hopsShift }

// credit is what the message has of the link's credit.
func (s *sender) credit() uint32 { return s.paid & (1<<hopsShift - 1) }

// handOn returns the sender with its credit, of which the message has none any more.
func (s *sender) handOn() sender {
	from := *s
	s.paid -= s.credit()
	return from
}

// asks reports whether the sender waits for an answer.
func (s *sender) asks() bool {
	switch s.kind {
	case msgRequest, msgSessionRequest, msgOffer, msgIntentRequest:
		return true
	default:
		return false
	}
}

// refuse tells the sender, if it waits, or counts a drop.
func (s *sender) refuse(n *Node, err *Error) {
	switch {
	case !s.asks():
		n.counters.dropped.Add(1)
	case err == errQueueFull && s.link != nil:
		s.fail(n, errQueueFullThere) // a full queue of another node, for who asked
	default:
		s.fail(n, err)
	}
}

// reply sends the reply, whose bytes it copies.
func (s *sender) reply(n *Node, codec uint8, payload []byte) {
	switch {
	case s.to != nil && s.to.away != nil:
		s.to.away.reply(n, codec, payload)
		return
	case s.link != nil:
		s.link.sendReplyTo(s.credit(), s.corr, codec, payload)
		return
	}
	b := buf.Copy(payload)
	s.complete(n, result{codec: codec, payload: b.Bytes(), owner: b})
}

// complete ends a request of this node.
func (s *sender) complete(n *Node, r result) {
	if s.to != nil {
		n.local.completeRound(s.to, s.corr, r)
		return
	}
	n.local.complete(s.corr, r)
}

// fail ends the request with err.
func (s *sender) fail(n *Node, err *Error) {
	switch {
	case s.to != nil && s.to.away != nil:
		s.to.away.fail(n, err)
	case s.link != nil:
		s.link.sendError(s.corr, err)
	default:
		s.complete(n, result{err: err})
	}
}

// giveBack returns the credit that the message took, and has no more.
func (s *sender) giveBack() {
	if credit := s.credit(); credit != 0 {
		s.paid -= credit
		s.link.consumed(int(credit))
	}
}

// checkContent refuses what no peer would accept, before anything is sent.
func checkContent(op, id, name string, meta, payload []byte) *Error {
	if err := checkName(op, id, name); err != nil {
		return err
	}
	return checkSizes(op, id, meta, payload)
}

func checkName(op, id, name string) *Error {
	if !wire.ValidID(name) {
		return fail(errkind.InvalidOperation, op, id, "a packet name has 1 to %d bytes of UTF-8", nameBytesMax)
	}
	return nil
}

// checkSizes refuses payload and metadata that no peer would accept.
func checkSizes(op, id string, meta, payload []byte) *Error {
	switch {
	case len(meta) > metadataBytesMax:
		return fail(errkind.InvalidOperation, op, id, "metadata of %d bytes is over the limit of %d", len(meta), metadataBytesMax)
	case len(payload) > payloadBytesMax:
		return fail(errkind.InvalidOperation, op, id, "a payload of %d bytes is over the limit of %d", len(payload), payloadBytesMax)
	}
	return nil
}
