package wire

// The records between the source and the target of a move. A move is named by its
// relocation and the attempt; both are the same in all of its records, and what names
// another attempt than the present one is dropped by its receiver.

// Unit says what moves, and why.
type Unit uint8

// The units.
const (
	UnitJoin     Unit = 0 // an Actor, by its own Join
	UnitActor    Unit = 1 // an Actor, as its node is relocated
	UnitShell    Unit = 2 // a PerActor Spot, whose members follow it one by one
	UnitWide     Unit = 3 // a SpotWide Spot with its members
	UnitInstance Unit = 4 // an Instance Spot
)

// IsSpot reports whether what moves is a Spot.
func (u Unit) IsSpot() bool { return u >= UnitShell }

func (d *decoder) unit() Unit { return Unit(d.u8max("unit", uint8(UnitInstance))) }

// spotOf reads the Spot that an Actor is in; of a Spot it is empty.
func (d *decoder) spotOf(u Unit, field string) []byte {
	if !u.IsSpot() {
		return d.id(field)
	}
	b := d.s8(field)
	if len(b) > 0 {
		d.fail(field, ErrValue)
	}
	return b
}

// JoinAdmit asks the node of a User Spot whether an Actor of the sender may move into it, or a
// node whether a Spot of the sender may move to it. The answer is a Reply that holds an
// AdmitResult, or an error.
type JoinAdmit struct {
	Correlation  uint64   // not 0
	Relocation   [16]byte // not zero
	Attempt      uint32   // ≥ 1
	Unit         Unit     // never UnitActor
	Op           [16]byte // OperationId of the Join or of the relocation, not zero
	Ref          Ref      // the object at the sender
	StoreVersion uint64   // of the object's row that the sender knows, ≥ 1
	SpotID       []byte   // that it wants to join; of a Spot empty
	DeadlineMS   uint32   // what is left of the Join or the relocation, ≥ 1
	Codec        uint8    // of Request
	Request      []byte   // for OnActorJoin, at most MaxPayload
}

// Size returns the size of the record.
func (j *JoinAdmit) Size() int {
	return HeaderSize + 8 + 16 + 4 + 1 + 16 + j.Ref.size() + 8 + 1 + len(j.SpotID) + 4 + 1 + len(j.Request)
}

// AppendTo appends the record to dst.
func (j *JoinAdmit) AppendTo(dst []byte) []byte {
	size := j.Size()
	dst = begin(dst, size, CmdJoinAdmit, 0)
	dst = appendU64(dst, j.Correlation)
	dst = appendAttempt(dst, &j.Relocation, j.Attempt)
	dst = append(dst, byte(j.Unit))
	dst = append(dst, j.Op[:]...)
	dst = j.Ref.appendTo(dst)
	dst = appendU64(dst, j.StoreVersion)
	dst = appendS8(dst, j.SpotID)
	dst = appendU32(dst, j.DeadlineMS)
	dst = append(dst, j.Codec)
	dst = appendPayload(dst, j.Request, MaxPayload)
	return end(dst, size)
}

// DecodeJoinAdmit reads the body of a CmdJoinAdmit.
func DecodeJoinAdmit(body []byte) (j JoinAdmit, err error) {
	d := decoder{b: body, cmd: CmdJoinAdmit}
	j.Correlation = d.nonZero("correlation")
	j.Relocation, j.Attempt = d.attempt()
	if j.Unit = d.unit(); j.Unit == UnitActor {
		d.fail("unit", ErrValue)
	}
	j.Op = d.op("op")
	j.Ref = d.ref()
	j.StoreVersion = d.someGen("storeVersion")
	j.SpotID = d.spotOf(j.Unit, "spotId")
	j.DeadlineMS = d.deadline(true)
	j.Codec = d.u8max("codec", MaxCodec)
	j.Request = d.payload(MaxPayload)
	return j, d.result()
}

// ProgressState is how far a move is at its target.
type ProgressState uint8

// The states. 0 is none.
const (
	ProgressAssembling ProgressState = 1 // it takes chunks
	ProgressReady      ProgressState = 2 // restored; it takes relayed messages and may commit
	ProgressCommitted  ProgressState = 3 // the Store says that the target owns the object
	ProgressGone       ProgressState = 4 // the target does not have this attempt, or no more
)

// MoveProgress tells the source what its target has received.
type MoveProgress struct {
	Relocation [16]byte // not zero
	Attempt    uint32   // ≥ 1
	State      ProgressState
	Chunks     uint32 // of Assembling: received, without a gap, from the first on
	Seq        uint64 // of the last relayed record received; all before it came too
	OwnerGen   uint64 // AuthorityOwnerGeneration at the target, ≥ 1, if Committed; else 0
}

// Size returns the size of the record.
func (*MoveProgress) Size() int { return HeaderSize + 16 + 4 + 1 + 4 + 8 + 8 }

// AppendTo appends the record to dst.
func (p *MoveProgress) AppendTo(dst []byte) []byte {
	size := p.Size()
	dst = begin(dst, size, CmdMoveProgress, 0)
	dst = appendAttempt(dst, &p.Relocation, p.Attempt)
	dst = append(dst, byte(p.State))
	dst = appendU32(dst, p.Chunks)
	dst = appendU64(dst, p.Seq)
	return end(appendU64(dst, p.OwnerGen), size)
}

// DecodeMoveProgress reads the body of a CmdMoveProgress.
func DecodeMoveProgress(body []byte) (p MoveProgress, err error) {
	d := decoder{b: body, cmd: CmdMoveProgress}
	p.Relocation, p.Attempt = d.attempt()
	p.State = ProgressState(d.u8max("state", uint8(ProgressGone)))
	if p.State == 0 {
		d.fail("state", ErrEmpty)
	}
	p.Chunks = d.u32("chunks")
	p.Seq = d.u64("seq")
	p.OwnerGen = d.gen("ownerGen")
	switch committed := p.State == ProgressCommitted; {
	case committed && p.OwnerGen == 0:
		d.fail("ownerGen", ErrEmpty)
	case !committed && p.OwnerGen != 0:
		d.fail("ownerGen", ErrValue)
	}
	return p, d.done()
}

// MoveAsk asks the target for a MoveProgress, on a link that is newer than the move.
type MoveAsk struct {
	Relocation [16]byte // not zero
	Attempt    uint32   // ≥ 1
}

// Size returns the size of the record.
func (*MoveAsk) Size() int { return HeaderSize + 16 + 4 }

// AppendTo appends the record to dst.
func (m *MoveAsk) AppendTo(dst []byte) []byte { return m.appendAs(CmdMoveAsk, dst) }

func (m *MoveAsk) appendAs(cmd Command, dst []byte) []byte {
	size := m.Size()
	return end(appendAttempt(begin(dst, size, cmd, 0), &m.Relocation, m.Attempt), size)
}

// DecodeMoveAsk reads the body of a CmdMoveAsk.
func DecodeMoveAsk(body []byte) (MoveAsk, error) { return decodeMoveName(body, CmdMoveAsk) }

func decodeMoveName(body []byte, cmd Command) (m MoveAsk, err error) {
	d := decoder{b: body, cmd: cmd}
	m.Relocation, m.Attempt = d.attempt()
	return m, d.done()
}

// MoveAbort tells the target that the source keeps the object: what was prepared for the
// attempt goes.
type MoveAbort MoveAsk

// Size returns the size of the record.
func (m *MoveAbort) Size() int { return (*MoveAsk)(m).Size() }

// AppendTo appends the record to dst.
func (m *MoveAbort) AppendTo(dst []byte) []byte { return (*MoveAsk)(m).appendAs(CmdMoveAbort, dst) }

// DecodeMoveAbort reads the body of a CmdMoveAbort.
func DecodeMoveAbort(body []byte) (MoveAbort, error) {
	m, err := decodeMoveName(body, CmdMoveAbort)
	return MoveAbort(m), err
}

// Cutover tells the target that everything up to Seq was held before the source accepted
// relay-ready, so that it may commit and knows where the rest begins.
type Cutover struct {
	Relocation [16]byte // not zero
	Attempt    uint32   // ≥ 1
	Seq        uint64   // of the last relayed record before it; 0: there was none
	CRC        uint32   // CRC-32C of the Carried of all those records in a row
}

// Size returns the size of the record.
func (*Cutover) Size() int { return HeaderSize + 16 + 4 + 8 + 4 }

// AppendTo appends the record to dst.
func (c *Cutover) AppendTo(dst []byte) []byte {
	size := c.Size()
	dst = begin(dst, size, CmdCutover, 0)
	dst = appendAttempt(dst, &c.Relocation, c.Attempt)
	dst = appendU64(dst, c.Seq)
	return end(appendU32(dst, c.CRC), size)
}

// DecodeCutover reads the body of a CmdCutover.
func DecodeCutover(body []byte) (c Cutover, err error) {
	d := decoder{b: body, cmd: CmdCutover}
	c.Relocation, c.Attempt = d.attempt()
	c.Seq = d.u64("seq")
	c.CRC = d.u32("crc")
	return c, d.done()
}

// ActorLeft tells the source that the Actor has arrived in its new Spot, so that the Spot
// that it left hears of it.
type ActorLeft struct {
	Relocation [16]byte // not zero
	Attempt    uint32   // ≥ 1
	Ref        Ref      // the Actor at the target
	SpotID     []byte   // that it left
}

// Size returns the size of the record.
func (a *ActorLeft) Size() int { return HeaderSize + 16 + 4 + a.Ref.size() + 1 + len(a.SpotID) }

// AppendTo appends the record to dst.
func (a *ActorLeft) AppendTo(dst []byte) []byte {
	size := a.Size()
	dst = begin(dst, size, CmdActorLeft, 0)
	dst = appendAttempt(dst, &a.Relocation, a.Attempt)
	dst = a.Ref.appendTo(dst)
	return end(appendS8(dst, a.SpotID), size)
}

// DecodeActorLeft reads the body of a CmdActorLeft.
func DecodeActorLeft(body []byte) (a ActorLeft, err error) {
	d := decoder{b: body, cmd: CmdActorLeft}
	a.Relocation, a.Attempt = d.attempt()
	a.Ref = d.ref()
	a.SpotID = d.id("spotId")
	return a, d.done()
}

// FollowNotice tells the sender of a message that its object has moved, and where to.
type FollowNotice struct {
	Ref          Ref    // the object as it is now
	StoreVersion uint64 // of its row, ≥ 1
}

// Size returns the size of the record.
func (f *FollowNotice) Size() int { return HeaderSize + f.Ref.size() + 8 }

// AppendTo appends the record to dst.
func (f *FollowNotice) AppendTo(dst []byte) []byte {
	size := f.Size()
	dst = f.Ref.appendTo(begin(dst, size, CmdFollowNotice, 0))
	return end(appendU64(dst, f.StoreVersion), size)
}

// DecodeFollowNotice reads the body of a CmdFollowNotice.
func DecodeFollowNotice(body []byte) (f FollowNotice, err error) {
	d := decoder{b: body, cmd: CmdFollowNotice}
	f.Ref = d.ref()
	f.StoreVersion = d.someGen("storeVersion")
	return f, d.done()
}

func appendAttempt(dst []byte, relocation *[16]byte, attempt uint32) []byte {
	return appendU32(append(dst, relocation[:]...), attempt)
}

// attempt reads what names a move.
func (d *decoder) attempt() (relocation [16]byte, attempt uint32) {
	relocation = d.op("relocation")
	if attempt = d.u32("attempt"); attempt == 0 {
		d.fail("attempt", ErrEmpty)
	}
	return relocation, attempt
}
