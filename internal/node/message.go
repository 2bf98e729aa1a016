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
	msgEnd            // the same, for the end of something: never refused for want of room
)

// message is one entry of an Actor's mailbox. name, meta and payload are views
// that owner keeps valid; whoever ends the message calls done once.
type message struct {
	kind     messageKind
	codec    uint8
	toSpot   bool
	name     []byte
	meta     []byte
	payload  []byte
	owner    *buf.Buf
	from     replyTo
	deadline clock.Mono // clock.Never if the sender set none
	objGen   uint64     // 0: whatever incarnation is there
	session  bindingKey // of session packets
	credit   credit
	control  func(*turn)
}

// bytes is what the message counts in its mailbox's budget.
func (m *message) bytes() int { return len(m.name) + len(m.meta) + len(m.payload) }

// done gives back what the message held. It comes after the turn, so that a
// sender's credits return only when its message was worked off.
func (m *message) done() {
	m.owner.Free()
	m.credit.giveBack()
}

// refuse ends a message that is not executed: a request with err, anything else
// as a counted drop.
func (m *message) refuse(n *Node, err *Error) {
	switch m.kind {
	case msgRequest, msgSessionRequest:
		if err == errQueueFull && m.from.link != nil {
			err = errQueueFullThere // a full queue of another node, for who asked
		}
		m.from.fail(err)
	case msgSend, msgSessionSend:
		n.counters.dropped.Add(1)
	case msgControl, msgEnd:
		m.control(&turn{node: n, refused: err})
	}
	m.done()
}

// replyTo is the way back of a request: to a peer, or to a waiter of this node.
type replyTo struct {
	link *linkConn // nil: this node
	node *Node
	corr uint64
}

// reply sends the reply, whose bytes it copies.
func (r replyTo) reply(codec uint8, payload []byte) {
	switch {
	case len(payload) > payloadBytesMax:
		r.fail(fail(errkind.CapacityExceeded, "reply", "", "a reply of %d bytes is over the limit of %d", len(payload), payloadBytesMax))
	case r.link != nil:
		r.link.sendReply(r.corr, codec, payload)
	default:
		b := buf.Copy(payload)
		r.node.local.complete(r.corr, result{codec: codec, payload: b.Bytes(), owner: b})
	}
}

// fail ends the request with err.
func (r replyTo) fail(err *Error) {
	if r.link != nil {
		r.link.sendError(r.corr, err)
		return
	}
	r.node.local.complete(r.corr, result{err: err})
}

// credit is what a message took from its sender's window.
type credit struct {
	link *linkConn
	n    int
}

func (c credit) giveBack() {
	if c.link != nil {
		c.link.consumed(c.n)
	}
}

// pack copies name, meta and payload into one buffer and returns views of it.
func pack(name string, meta, payload []byte) (nameView, metaView, payloadView []byte, owner *buf.Buf) {
	owner = buf.Get(len(name) + len(meta) + len(payload))
	b := owner.Bytes()
	copy(b, name)
	copy(b[len(name):], meta)
	copy(b[len(name)+len(meta):], payload)
	return b[:len(name):len(name)], b[len(name) : len(name)+len(meta) : len(name)+len(meta)], b[len(name)+len(meta):], owner
}

// checkMessage refuses what no peer would accept, before anything is sent.
func checkMessage(op, id, name string, meta, payload []byte) *Error {
	switch {
	case !wire.ValidID(id):
		return fail(errkind.InvalidOperation, op, id, "an id has 1 to %d bytes of UTF-8", idBytesMax)
	case !wire.ValidID(name):
		return fail(errkind.InvalidOperation, op, id, "a packet name has 1 to %d bytes of UTF-8", nameBytesMax)
	}
	return checkSizes(op, id, meta, payload)
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

func newMessage(kind messageKind, o *Outgoing) message {
	m := message{kind: kind, codec: o.Codec, deadline: clock.Never, toSpot: o.ToSpot}
	m.name, m.meta, m.payload, m.owner = pack(o.Name, o.Metadata, o.Payload)
	return m
}
