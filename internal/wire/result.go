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

// Verdict is what a User Spot says to an Actor that wants to join it.
type Verdict uint8

// The verdicts. 0 is none.
const (
	VerdictAccepted Verdict = 1
	VerdictRejected Verdict = 2
)

// admitHasReply is the flag bit of an AdmitResult that carries a reply.
const admitHasReply = 0x01

// AdmitResult is the payload of the Reply to a JoinAdmit.
type AdmitResult struct {
	Verdict    Verdict
	ChunkBytes uint32 // largest chunk that the target takes, MinChunk–MaxChunk, if Accepted; else not encoded
	HasReply   bool   // OnActorJoin gave a reply
	Codec      uint8  // of Reply
	Reply      []byte // at most MaxPayload; may be empty with HasReply
}

// Size returns the number of bytes that AppendTo appends.
func (a *AdmitResult) Size() int {
	n := 2
	if a.Verdict == VerdictAccepted {
		n += 4
	}
	if a.HasReply {
		n += 1 + len(a.Reply)
	}
	return n
}

// AppendTo appends the payload (no record header) to dst.
func (a *AdmitResult) AppendTo(dst []byte) []byte {
	var flags byte
	if a.HasReply {
		flags = admitHasReply
	}
	dst = append(dst, byte(a.Verdict), flags)
	if a.Verdict == VerdictAccepted {
		dst = appendU32(dst, a.ChunkBytes)
	}
	if a.HasReply {
		dst = append(dst, a.Codec)
		dst = appendPayload(dst, a.Reply, MaxPayload)
	}
	return dst
}

// DecodeAdmitResult reads the payload of the Reply to a JoinAdmit.
func DecodeAdmitResult(payload []byte) (a AdmitResult, err error) {
	d := decoder{b: payload, cmd: CmdReply}
	a.Verdict = Verdict(d.u8max("verdict", uint8(VerdictRejected)))
	if a.Verdict == 0 {
		d.fail("verdict", ErrEmpty)
	}
	a.HasReply = d.flags(admitHasReply) != 0
	if a.Verdict == VerdictAccepted {
		a.ChunkBytes = d.chunkBytes("chunkBytes")
	}
	if a.HasReply {
		a.Codec = d.u8max("codec", MaxCodec)
		a.Reply = d.payload(MaxPayload)
	}
	return a, d.done()
}
