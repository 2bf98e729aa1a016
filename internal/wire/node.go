package wire

import (
	"bytes"
	"unicode/utf8"
)

// NodeMessage is a message to a node (CmdNodeMessage): to the handlers of a channel that it
// serves, or to those of the node itself. A request if Correlation is not 0, which ends with
// one Reply or error.
type NodeMessage struct {
	Channel     []byte // empty: to the node itself
	Op          uint64 // number of the operation within the source's lifecycle, not 0
	Correlation uint64 // 0: a send; else names the request on this link; with it FlagRequest
	DeadlineMS  uint32 // what is left; a request has 1 at least, 0 in a send: none
	Name        []byte // of the packet
	Codec       uint8  // of the payload
	Metadata    []byte // encoded as in the STREAM header, or empty
	Payload     []byte
}

const nodeMessageFixed = HeaderSize + 1 + 8 + 4 + 1 + 1 + 2

// Size returns the size of the record.
func (m *NodeMessage) Size() int {
	n := nodeMessageFixed + len(m.Channel) + len(m.Name) + len(m.Metadata) + len(m.Payload)
	if m.Correlation != 0 {
		n += 8
	}
	return n
}

// AppendTo appends the record to dst.
func (m *NodeMessage) AppendTo(dst []byte) []byte {
	size, flags := m.Size(), uint8(0)
	if m.Correlation != 0 {
		flags = FlagRequest
	}
	dst = begin(dst, size, CmdNodeMessage, flags)
	dst = appendS8(dst, m.Channel)
	dst = appendU64(dst, m.Op)
	if m.Correlation != 0 {
		dst = appendU64(dst, m.Correlation)
	}
	dst = appendU32(dst, m.DeadlineMS)
	dst = appendS8(dst, m.Name)
	dst = append(dst, m.Codec)
	dst = appendMetadata(dst, m.Metadata)
	dst = appendPayload(dst, m.Payload, MaxPayload)
	return end(dst, size)
}

// DecodeNodeMessage reads the body of a CmdNodeMessage with its flags.
func DecodeNodeMessage(flags uint8, body []byte) (m NodeMessage, err error) {
	d := decoder{b: body, cmd: CmdNodeMessage}
	m.Channel = d.s8("channel")
	if !ascii(m.Channel) && !utf8.Valid(m.Channel) {
		d.fail("channel", ErrValue)
	}
	m.Op = d.nonZero("op")
	asks := flags&FlagRequest != 0
	if asks {
		m.Correlation = d.nonZero("correlation")
	}
	m.DeadlineMS = d.deadline(asks)
	d.message(&m.Name, &m.Codec, &m.Metadata, &m.Payload)
	return m, d.result()
}

// Offer is the full list of the channels that its sender serves (CmdOffer). It replaces what
// an earlier one on the link said.
type Offer struct {
	// Channels has one AppendOffered behind the other, at most MaxOffered, in ascending byte
	// order of the names, each once.
	Channels []byte
}

// AppendOffered appends a channel of an Offer. Weight is at most MaxWeight; 0: the sender
// serves it and takes nothing new.
func AppendOffered(dst, name []byte, weight uint16) []byte {
	return appendU16(appendS8(dst, name), weight)
}

// Each calls f for each channel. The name is a view.
func (o *Offer) Each(f func(name []byte, weight uint16)) {
	d := decoder{b: o.Channels, cmd: CmdOffer}
	for len(d.b) > 0 {
		f(d.s8("channel"), d.u16("weight"))
	}
}

// Size returns the size of the record.
func (o *Offer) Size() int { return HeaderSize + len(o.Channels) }

// AppendTo appends the record to dst.
func (o *Offer) AppendTo(dst []byte) []byte {
	size := o.Size()
	dst = begin(dst, size, CmdOffer, 0)
	dst = append(dst, o.Channels...)
	return end(dst, size)
}

// DecodeOffer reads the body of a CmdOffer.
func DecodeOffer(body []byte) (o Offer, err error) {
	d := decoder{b: body, cmd: CmdOffer}
	var before []byte
	for n := 0; len(d.b) > 0; n++ {
		name := d.id("channel")
		if d.u16("weight") > MaxWeight {
			d.fail("weight", ErrValue)
		}
		switch {
		case n == MaxOffered:
			d.fail("channels", ErrTooLarge)
		case n > 0 && bytes.Compare(before, name) >= 0:
			d.fail("channel", ErrValue)
		}
		before = name
	}
	o.Channels = body
	return o, d.result()
}
