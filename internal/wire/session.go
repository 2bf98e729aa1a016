package wire

// The records between a Session's owner and the owner of an Actor that is bound
// to it. The RID and lifecycle of the Session's owner are those of the link's
// peer (or of this node, for a Push that it sends), so they are not repeated.

// BindingName names a binding in what its two ends tell each other of it.
type BindingName struct {
	ID         []byte // of the Actor
	ObjGen     uint64 // ≥ 1
	Session    uint64 // not 0
	BindingGen uint64 // ≥ 1
}

func (b *BindingName) size() int { return 1 + len(b.ID) + 8 + 8 + 8 }

func (b *BindingName) appendTo(dst []byte) []byte {
	dst = appendS8(dst, b.ID)
	dst = appendU64(dst, b.ObjGen)
	dst = appendU64(dst, b.Session)
	return appendU64(dst, b.BindingGen)
}

func (d *decoder) bindingName() BindingName {
	return BindingName{ID: d.id("id"), ObjGen: d.someGen("objGen"), Session: d.nonZero("session"), BindingGen: d.someGen("bindingGen")}
}

// Bind asks the Actor's owner to register a binding. The answer is a Reply with the Actor's
// stable type, or an error.
type Bind struct {
	Again       bool   // FlagAgain: it stands, as far as the sender knows, and is refused else
	Correlation uint64 // not 0
	Ref         Ref    // exact
	Session     uint64 // id of the Session at its owner, not 0
	BindingGen  uint64 // generation of the binding at the Session's owner, ≥ 1
}

// Size returns the size of the record.
func (b *Bind) Size() int { return HeaderSize + 8 + b.Ref.size() + 8 + 8 }

// AppendTo appends the record to dst.
func (b *Bind) AppendTo(dst []byte) []byte {
	size, flags := b.Size(), uint8(0)
	if b.Again {
		flags = FlagAgain
	}
	dst = begin(dst, size, CmdBind, flags)
	dst = appendU64(dst, b.Correlation)
	dst = b.Ref.appendTo(dst)
	dst = appendU64(dst, b.Session)
	dst = appendU64(dst, b.BindingGen)
	return end(dst, size)
}

// DecodeBind reads the body of a CmdBind with its flags.
func DecodeBind(flags uint8, body []byte) (b Bind, err error) {
	d := decoder{b: body, cmd: CmdBind}
	b.Again = flags&FlagAgain != 0
	b.Correlation = d.nonZero("correlation")
	b.Ref = d.ref()
	b.Session = d.nonZero("session")
	b.BindingGen = d.someGen("bindingGen")
	return b, d.done()
}

// UnbindReason says why a binding ended.
type UnbindReason uint8

// The reasons.
const (
	UnbindClosed       UnbindReason = 1 // the Session closed or its client went away
	UnbindDisconnected UnbindReason = 2 // the Session's application said so; it goes on
	unbindReasonMax                 = UnbindDisconnected
)

// Unbind tells the Actor's owner that a binding ended. With a correlation, which
// FlagRequest shows on the wire, it is a request: an empty Reply comes when the Actor's Spot
// has been told.
type Unbind struct {
	Correlation uint64 // 0: nobody waits
	BindingName
	Reason UnbindReason
}

// Size returns the size of the record.
func (u *Unbind) Size() int {
	n := HeaderSize + u.BindingName.size() + 1
	if u.Correlation != 0 {
		n += 8
	}
	return n
}

// AppendTo appends the record to dst.
func (u *Unbind) AppendTo(dst []byte) []byte {
	size, flags := u.Size(), uint8(0)
	if u.Correlation != 0 {
		flags = FlagRequest
	}
	dst = begin(dst, size, CmdUnbind, flags)
	if u.Correlation != 0 {
		dst = appendU64(dst, u.Correlation)
	}
	dst = u.BindingName.appendTo(dst)
	dst = append(dst, byte(u.Reason))
	return end(dst, size)
}

// DecodeUnbind reads the body of a CmdUnbind with its flags.
func DecodeUnbind(flags uint8, body []byte) (u Unbind, err error) {
	d := decoder{b: body, cmd: CmdUnbind}
	if flags&FlagRequest != 0 {
		u.Correlation = d.nonZero("correlation")
	}
	u.BindingName = d.bindingName()
	u.Reason = UnbindReason(d.reason(uint8(unbindReasonMax)))
	return u, d.done()
}

// SessionPacket is a client's packet on its way to a bound Actor: a request if
// Correlation is not 0, which FlagRequest shows on the wire.
type SessionPacket struct {
	ID          []byte // of the Actor
	ObjGen      uint64 // ≥ 1
	Session     uint64 // not 0
	BindingGen  uint64 // ≥ 1
	Correlation uint64 // 0: a send; else names the request on this link
	DeadlineMS  uint32 // what is left; a request has 1 at least, 0 in a send: none
	Name        []byte // of the packet
	Codec       uint8
	Metadata    []byte // encoded as in the STREAM header, or empty
	Payload     []byte
}

const sessionPacketFixed = HeaderSize + 1 + 8 + 8 + 8 + 4 + 1 + 1 + 2

// Size returns the size of the record.
func (p *SessionPacket) Size() int {
	n := sessionPacketFixed + len(p.ID) + len(p.Name) + len(p.Metadata) + len(p.Payload)
	if p.Correlation != 0 {
		n += 8
	}
	return n
}

// AppendTo appends the record to dst.
func (p *SessionPacket) AppendTo(dst []byte) []byte {
	size, flags := p.Size(), uint8(0)
	if p.Correlation != 0 {
		flags = FlagRequest
	}
	dst = begin(dst, size, CmdSessionPacket, flags)
	dst = appendS8(dst, p.ID)
	dst = appendU64(dst, p.ObjGen)
	dst = appendU64(dst, p.Session)
	dst = appendU64(dst, p.BindingGen)
	if p.Correlation != 0 {
		dst = appendU64(dst, p.Correlation)
	}
	dst = appendU32(dst, p.DeadlineMS)
	dst = appendS8(dst, p.Name)
	dst = append(dst, p.Codec)
	dst = appendMetadata(dst, p.Metadata)
	dst = appendPayload(dst, p.Payload, MaxPayload)
	return end(dst, size)
}

// DecodeSessionPacket reads the body of a CmdSessionPacket with its flags.
func DecodeSessionPacket(flags uint8, body []byte) (p SessionPacket, err error) {
	d := decoder{b: body, cmd: CmdSessionPacket}
	request := flags&FlagRequest != 0
	p.ID = d.id("id")
	p.ObjGen = d.someGen("objGen")
	p.Session = d.nonZero("session")
	p.BindingGen = d.someGen("bindingGen")
	if request {
		p.Correlation = d.nonZero("correlation")
	}
	p.DeadlineMS = d.deadline(request)
	d.message(&p.Name, &p.Codec, &p.Metadata, &p.Payload)
	return p, d.result()
}

// Push is an Actor's message to the client of the Session that it is bound to. Its class
// shows on the wire by FlagClass.
type Push struct {
	Session    uint64 // not 0
	BindingGen uint64 // ≥ 1
	ID         []byte // of the Actor
	ObjGen     uint64 // ≥ 1
	Class      uint8  // at most MaxPushClass; 0: it must be delivered
	Key        []byte // with PushNewestPerKey only: 1 to MaxPushKey bytes
	Name       []byte // of the packet
	Codec      uint8
	Metadata   []byte // encoded as in the STREAM header, or empty
	Payload    []byte
}

const pushFixed = HeaderSize + 8 + 8 + 1 + 8 + 1 + 1 + 2

// Size returns the size of the record.
func (p *Push) Size() int {
	n := pushFixed + len(p.ID) + len(p.Name) + len(p.Metadata) + len(p.Payload)
	if p.Class != 0 {
		n++
	}
	if p.Class == PushNewestPerKey {
		n += 1 + len(p.Key)
	}
	return n
}

// AppendTo appends the record to dst.
func (p *Push) AppendTo(dst []byte) []byte {
	size, flags := p.Size(), uint8(0)
	if p.Class != 0 {
		flags = FlagClass
	}
	dst = begin(dst, size, CmdPush, flags)
	dst = appendU64(dst, p.Session)
	dst = appendU64(dst, p.BindingGen)
	dst = appendS8(dst, p.ID)
	dst = appendU64(dst, p.ObjGen)
	if p.Class != 0 {
		dst = append(dst, p.Class)
	}
	if p.Class == PushNewestPerKey {
		dst = appendS8(dst, p.Key)
	}
	dst = appendS8(dst, p.Name)
	dst = append(dst, p.Codec)
	dst = appendMetadata(dst, p.Metadata)
	dst = appendPayload(dst, p.Payload, MaxPayload)
	return end(dst, size)
}

// DecodePush reads the body of a CmdPush with its flags.
func DecodePush(flags uint8, body []byte) (p Push, err error) {
	d := decoder{b: body, cmd: CmdPush}
	p.Session = d.nonZero("session")
	p.BindingGen = d.someGen("bindingGen")
	p.ID = d.id("id")
	p.ObjGen = d.someGen("objGen")
	if flags&FlagClass != 0 {
		p.Class, p.Key = d.pushClass()
	}
	d.message(&p.Name, &p.Codec, &p.Metadata, &p.Payload)
	return p, d.result()
}

// pushClass reads the class of a push that need not be delivered, and its key.
func (d *decoder) pushClass() (class uint8, key []byte) {
	class = d.u8max("class", MaxPushClass)
	if class == 0 {
		d.fail("class", ErrValue)
	}
	if class == PushNewestPerKey {
		switch key = d.s8("key"); {
		case len(key) == 0:
			d.fail("key", ErrEmpty)
		case len(key) > MaxPushKey:
			d.fail("key", ErrTooLarge)
		}
	}
	return class, key
}

// Pressure tells the owner of a bound Actor how much waits for the Session's client.
type Pressure struct {
	BindingName
	Pending uint64 // bytes, at most MaxWindow; 0: few or none
}

// Size returns the size of the record.
func (p *Pressure) Size() int { return HeaderSize + p.BindingName.size() + 8 }

// AppendTo appends the record to dst.
func (p *Pressure) AppendTo(dst []byte) []byte {
	size := p.Size()
	dst = begin(dst, size, CmdPressure, 0)
	dst = p.BindingName.appendTo(dst)
	return end(appendU64(dst, p.Pending), size)
}

// DecodePressure reads the body of a CmdPressure.
func DecodePressure(body []byte) (p Pressure, err error) {
	d := decoder{b: body, cmd: CmdPressure}
	p.BindingName = d.bindingName()
	if p.Pending = d.u64("pending"); p.Pending > MaxWindow {
		d.fail("pending", ErrValue)
	}
	return p, d.done()
}

// SessionReconnecting tells the owner of a bound Actor that the Session's client has lost its
// connection and may come back. There is no word of its return: it comes back to another
// Session, which binds the Actor anew, and else the binding ends.
type SessionReconnecting struct{ BindingName }

// Size returns the size of the record.
func (r *SessionReconnecting) Size() int { return HeaderSize + r.BindingName.size() }

// AppendTo appends the record to dst.
func (r *SessionReconnecting) AppendTo(dst []byte) []byte {
	size := r.Size()
	dst = begin(dst, size, CmdSessionReconnecting, 0)
	return end(r.BindingName.appendTo(dst), size)
}

// DecodeSessionReconnecting reads the body of a CmdSessionReconnecting.
func DecodeSessionReconnecting(body []byte) (r SessionReconnecting, err error) {
	d := decoder{b: body, cmd: CmdSessionReconnecting}
	r.BindingName = d.bindingName()
	return r, d.done()
}
