package wire

// InstanceMessage is a message to an Instance Spot with the intent to bring it into being
// if there is none: a node that gets it and does not have the Spot activates it, for Type.
// The record is the creation's input too, and what the Store keeps of the first message.
//
// With a Correlation it ends with one Reply or error. Of a request (Asks) that is the
// handler's; else an empty Reply says that the queue of a Spot that is Ready has taken the
// message. An error with FlagStale says that it was certainly not taken, and may go to
// another node.
type InstanceMessage struct {
	ID          []byte // of the Spot
	Type        []byte // stable type; empty: it activates nothing
	OwnerGen    uint64 // AuthorityOwnerGeneration of the route used; 0: not known
	Op          uint64 // number of the operation within the source's lifecycle, not 0
	Correlation uint64 // 0: nobody waits; with it FlagRequest
	Asks        bool   // FlagAsks, only with a Correlation
	DeadlineMS  uint32 // what is left; with a Correlation 1 at least, else 0 means none
	Name        []byte // of the packet
	Codec       uint8  // of the payload
	Metadata    []byte // encoded as in the STREAM header, or empty
	Payload     []byte
}

const instanceMessageFixed = HeaderSize + 1 + 1 + 8 + 8 + 4 + 1 + 1 + 2

// MaxInstanceMessage is the size of the largest record of an InstanceMessage.
const MaxInstanceMessage = instanceMessageFixed + 8 + 3*MaxID + MaxMetadata + MaxPayload

// Size returns the size of the record.
func (m *InstanceMessage) Size() int {
	n := instanceMessageFixed + len(m.ID) + len(m.Type) + len(m.Name) + len(m.Metadata) + len(m.Payload)
	if m.Correlation != 0 {
		n += 8
	}
	return n
}

// AppendTo appends the record to dst.
func (m *InstanceMessage) AppendTo(dst []byte) []byte {
	size, flags := m.Size(), uint8(0)
	if m.Correlation != 0 {
		flags |= FlagRequest
	}
	if m.Asks {
		flags |= FlagAsks
	}
	dst = begin(dst, size, CmdInstance, flags)
	dst = appendS8(dst, m.ID)
	dst = appendS8(dst, m.Type)
	dst = appendU64(dst, m.OwnerGen)
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

// DecodeInstanceMessage reads the body of a CmdInstance with its flags.
func DecodeInstanceMessage(flags uint8, body []byte) (m InstanceMessage, err error) {
	d := decoder{b: body, cmd: CmdInstance}
	m.Asks = flags&FlagAsks != 0
	if m.Asks && flags&FlagRequest == 0 {
		d.fail("flags", ErrFlags)
	}
	m.ID = d.id("id")
	m.Type = d.optionalID("type")
	m.OwnerGen = d.gen("ownerGen")
	m.Op = d.nonZero("op")
	if flags&FlagRequest != 0 {
		m.Correlation = d.nonZero("correlation")
	}
	m.DeadlineMS = d.deadline(flags&FlagRequest != 0)
	d.message(&m.Name, &m.Codec, &m.Metadata, &m.Payload)
	return m, d.result()
}

// optionalID is id, or nothing.
func (d *decoder) optionalID(field string) []byte {
	if len(d.b) > 0 && d.b[0] == 0 {
		d.b = d.b[1:]
		return nil
	}
	return d.id(field)
}
