package wire

import "iter"

// The records of topics. Which node subscribes to what is told by each link for itself, and
// forgotten with it.

// Interest tells that the sender has subscribers to topics, or, with Withdraw, has none any
// more. It tells changes: a topic is added that the receiver does not know of this link, and
// withdrawn if it does.
type Interest struct {
	Withdraw bool   // FlagWithdraw
	Topics   []byte // what AppendTopic made: at least one, MaxInterest at most
}

// AppendTopic appends a topic, which is a ValidID, to those of an Interest.
func AppendTopic(dst []byte, topic string) []byte {
	checkLen("topic", len(topic), MaxID)
	return append(append(dst, byte(len(topic))), topic...)
}

// All returns the topics of an Interest that was decoded, in order, as views.
func (i *Interest) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for d := (decoder{b: i.Topics}); len(d.b) > 0; {
			if !yield(d.s8("topic")) {
				return
			}
		}
	}
}

// Size returns the size of the record.
func (i *Interest) Size() int { return HeaderSize + len(i.Topics) }

// AppendTo appends the record to dst.
func (i *Interest) AppendTo(dst []byte) []byte {
	size, flags := i.Size(), uint8(0)
	if i.Withdraw {
		flags = FlagWithdraw
	}
	dst = begin(dst, size, CmdInterest, flags)
	return end(appendPayload(dst, i.Topics, MaxInterest), size)
}

// DecodeInterest reads the body of a CmdInterest with its flags.
func DecodeInterest(flags uint8, body []byte) (i Interest, err error) {
	d := decoder{b: body, cmd: CmdInterest}
	i.Withdraw = flags&FlagWithdraw != 0
	i.Topics = body[:len(body):len(body)]
	switch {
	case len(body) == 0:
		d.fail("topics", ErrEmpty)
	case len(body) > MaxInterest:
		d.fail("topics", ErrTooLarge)
	}
	for len(d.b) > 0 {
		d.id("topic")
	}
	if d.err != nil {
		i.Topics = nil
	}
	return i, d.result()
}

// Publish is a message to all of the receiver's subscribers to a topic.
type Publish struct {
	Topic    []byte // a ValidID
	Name     []byte // of the packet
	Codec    uint8
	Metadata []byte // encoded as in the STREAM header, or empty
	Payload  []byte
}

const publishFixed = HeaderSize + 1 + 1 + 1 + 2

// Size returns the size of the record. Its last bytes are the metadata and the payload.
func (p *Publish) Size() int {
	return publishFixed + len(p.Topic) + len(p.Name) + len(p.Metadata) + len(p.Payload)
}

// AppendTo appends the record to dst.
func (p *Publish) AppendTo(dst []byte) []byte {
	size := p.Size()
	dst = begin(dst, size, CmdPublish, 0)
	dst = appendS8(dst, p.Topic)
	dst = appendS8(dst, p.Name)
	dst = append(dst, p.Codec)
	dst = appendMetadata(dst, p.Metadata)
	dst = appendPayload(dst, p.Payload, MaxPayload)
	return end(dst, size)
}

// DecodePublish reads the body of a CmdPublish.
func DecodePublish(body []byte) (p Publish, err error) {
	d := decoder{b: body, cmd: CmdPublish}
	p.Topic = d.id("topic")
	d.message(&p.Name, &p.Codec, &p.Metadata, &p.Payload)
	return p, d.result()
}
