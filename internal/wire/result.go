package wire

// Outcome is the terminal result of a creation at its target.
type Outcome uint8

// The outcomes.
const (
	OutcomeCreated  Outcome = 1 // the object is Ready at CreateResult.Ref
	OutcomeRejected Outcome = 2 // the application refused it
	OutcomeFailed   Outcome = 3 // the creation ended with an error of CreateResult.Kind
)

// createHasReply is the flag bit of a CreateResult that carries a reply.
const createHasReply = 0x01

// CreateResult is the payload of the Reply to an ActorCreate. It is the result
// as it was recorded, so a repeated creation gets the same one.
type CreateResult struct {
	Outcome  Outcome
	Kind     uint8  // error kind if Failed, else 0
	Ref      Ref    // set if Created, else not encoded
	HasReply bool   // the application gave a reply; never if Failed
	Codec    uint8  // of Reply
	Reply    []byte // at most MaxPayload; may be empty with HasReply
}

// Size returns the number of bytes that AppendTo appends.
func (c *CreateResult) Size() int {
	n := 3
	if c.Outcome == OutcomeCreated {
		n += c.Ref.size()
	}
	if c.HasReply {
		n += 1 + len(c.Reply)
	}
	return n
}

// AppendTo appends the payload (no record header) to dst.
func (c *CreateResult) AppendTo(dst []byte) []byte {
	var flags byte
	if c.HasReply {
		flags = createHasReply
	}
	dst = append(dst, byte(c.Outcome), c.Kind, flags)
	if c.Outcome == OutcomeCreated {
		dst = c.Ref.appendTo(dst)
	}
	if c.HasReply {
		dst = append(dst, c.Codec)
		dst = appendPayload(dst, c.Reply, MaxPayload)
	}
	return dst
}

// DecodeCreateResult reads the payload of the Reply to an ActorCreate.
func DecodeCreateResult(payload []byte) (c CreateResult, err error) {
	d := decoder{b: payload, cmd: CmdReply}
	c.Outcome = Outcome(d.u8max("outcome", uint8(OutcomeFailed)))
	if c.Outcome == 0 {
		d.fail("outcome", ErrEmpty)
	}
	c.Kind = d.u8max("kind", MaxErrorKind)
	if c.Kind != 0 && c.Outcome != OutcomeFailed {
		d.fail("kind", ErrValue)
	}
	flags := d.u8max("flags", createHasReply)
	c.HasReply = flags == createHasReply
	if c.HasReply && c.Outcome == OutcomeFailed {
		d.fail("flags", ErrValue)
	}
	if c.Outcome == OutcomeCreated {
		c.Ref = d.ref()
	}
	if c.HasReply {
		c.Codec = d.u8max("codec", MaxCodec)
		c.Reply = d.payload(MaxPayload)
	}
	return c, d.done()
}
