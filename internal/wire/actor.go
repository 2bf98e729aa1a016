package wire

// ActorMessage is a message to an Actor or a Spot: CmdActorSend, or CmdActorRequest if
// Correlation is not 0.
type ActorMessage struct {
	ID          []byte // of the object
	Spot        bool   // FlagSpot: it is meant for a User or Instance Spot, else for an Actor
	ObjGen      uint64 // ObjectGeneration; 0: whatever is Ready
	OwnerGen    uint64 // AuthorityOwnerGeneration of the route used; 0: not known
	Op          uint64 // number of the operation within the source's lifecycle, not 0
	Correlation uint64 // 0: a send; else names the request on this link
	DeadlineMS  uint32 // what is left; a request has 1 at least, 0 in a send: none
	Hops        uint8  // how often it was forwarded, at most MaxHops
	Name        []byte // of the packet
	Codec       uint8  // of the payload
	Metadata    []byte // encoded as in the STREAM header, or empty
	Payload     []byte
}

const actorMessageFixed = HeaderSize + 1 + 8 + 8 + 8 + 4 + 1 + 1 + 1 + 2

// Size returns the size of the record.
func (m *ActorMessage) Size() int {
	n := actorMessageFixed + len(m.ID) + len(m.Name) + len(m.Metadata) + len(m.Payload)
	if m.Correlation != 0 {
		n += 8
	}
	return n
}

// AppendTo appends the record to dst.
func (m *ActorMessage) AppendTo(dst []byte) []byte {
	size, cmd, flags := m.Size(), CmdActorSend, uint8(0)
	if m.Correlation != 0 {
		cmd = CmdActorRequest
	}
	if m.Spot {
		flags = FlagSpot
	}
	dst = begin(dst, size, cmd, flags)
	dst = appendS8(dst, m.ID)
	dst = appendU64(dst, m.ObjGen)
	dst = appendU64(dst, m.OwnerGen)
	dst = appendU64(dst, m.Op)
	if m.Correlation != 0 {
		dst = appendU64(dst, m.Correlation)
	}
	dst = appendU32(dst, m.DeadlineMS)
	dst = append(dst, m.Hops)
	dst = appendS8(dst, m.Name)
	dst = append(dst, m.Codec)
	dst = appendMetadata(dst, m.Metadata)
	dst = appendPayload(dst, m.Payload, MaxPayload)
	return end(dst, size)
}

// DecodeActorSend reads the body of a CmdActorSend with its flags.
func DecodeActorSend(flags uint8, body []byte) (ActorMessage, error) {
	return decodeActorMessage(flags, body, CmdActorSend)
}

// DecodeActorRequest reads the body of a CmdActorRequest with its flags.
func DecodeActorRequest(flags uint8, body []byte) (ActorMessage, error) {
	return decodeActorMessage(flags, body, CmdActorRequest)
}

func decodeActorMessage(flags uint8, body []byte, cmd Command) (m ActorMessage, err error) {
	d := decoder{b: body, cmd: cmd}
	m.Spot = flags&FlagSpot != 0
	m.ID = d.id("id")
	m.ObjGen = d.gen("objGen")
	m.OwnerGen = d.gen("ownerGen")
	m.Op = d.nonZero("op")
	if cmd == CmdActorRequest {
		m.Correlation = d.nonZero("correlation")
	}
	m.DeadlineMS = d.deadline(cmd == CmdActorRequest)
	m.Hops = d.u8max("hops", MaxHops)
	d.message(&m.Name, &m.Codec, &m.Metadata, &m.Payload)
	return m, d.result()
}

// Reply ends a request with success. Results of the framework (DestroyResult,
// CreateResult, the empty answer of a bind) have codec Raw.
type Reply struct {
	Correlation uint64 // of the request
	Codec       uint8
	Payload     []byte // at most MaxReplyPayload
}

// Size returns the size of the record.
func (r *Reply) Size() int { return HeaderSize + 8 + 1 + len(r.Payload) }

// AppendTo appends the record to dst.
func (r *Reply) AppendTo(dst []byte) []byte {
	size := r.Size()
	dst = begin(dst, size, CmdReply, 0)
	dst = appendU64(dst, r.Correlation)
	dst = append(dst, r.Codec)
	dst = appendPayload(dst, r.Payload, MaxReplyPayload)
	return end(dst, size)
}

// DecodeReply reads the body of a CmdReply.
func DecodeReply(body []byte) (r Reply, err error) {
	d := decoder{b: body, cmd: CmdReply}
	r.Correlation = d.nonZero("correlation")
	r.Codec = d.u8max("codec", MaxCodec)
	r.Payload = d.payload(MaxReplyPayload)
	return r, d.result()
}

// ErrorReply ends a request with a failure (CmdError).
type ErrorReply struct {
	Correlation uint64 // of the request
	Kind        uint8  // number of an error kind, at most MaxErrorKind
	Text        []byte
	Stale       bool // FlagStale
	Application bool // FlagApplication
}

// Size returns the size of the record.
func (e *ErrorReply) Size() int { return HeaderSize + 8 + 1 + 2 + len(clip(e.Text)) }

// AppendTo appends the record to dst.
func (e *ErrorReply) AppendTo(dst []byte) []byte {
	size, flags := e.Size(), uint8(0)
	if e.Stale {
		flags |= FlagStale
	}
	if e.Application {
		flags |= FlagApplication
	}
	dst = begin(dst, size, CmdError, flags)
	dst = appendU64(dst, e.Correlation)
	dst = append(dst, e.Kind)
	dst = appendS16(dst, clip(e.Text))
	return end(dst, size)
}

// DecodeErrorReply reads the body of a CmdError with its flags.
func DecodeErrorReply(flags uint8, body []byte) (e ErrorReply, err error) {
	e.Stale, e.Application = flags&FlagStale != 0, flags&FlagApplication != 0
	d := decoder{b: body, cmd: CmdError}
	e.Correlation = d.nonZero("correlation")
	e.Kind = d.u8max("kind", MaxErrorKind)
	e.Text = d.s16("text")
	return e, d.done()
}

// deadline reads remaining milliseconds, which a request must have.
func (d *decoder) deadline(required bool) uint32 {
	v := d.u32("deadlineMs")
	if required && v == 0 {
		d.fail("deadlineMs", ErrEmpty)
	}
	return v
}

// message reads what all application messages end with.
func (d *decoder) message(name *[]byte, codec *uint8, metadata, payload *[]byte) {
	*name = d.id("name")
	*codec = d.u8max("codec", MaxCodec)
	*metadata = d.s16("metadata")
	*payload = d.payload(MaxPayload)
}
