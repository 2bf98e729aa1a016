package wire

// UserSpotCreate is ActorCreate for a User Spot.
type UserSpotCreate ActorCreate

// Size returns the size of the record.
func (u *UserSpotCreate) Size() int { return (*ActorCreate)(u).Size() }

// AppendTo appends the record to dst.
func (u *UserSpotCreate) AppendTo(dst []byte) []byte {
	return (*ActorCreate)(u).appendAs(CmdUserSpotCreate, dst)
}

// DecodeUserSpotCreate reads the body of a CmdUserSpotCreate.
func DecodeUserSpotCreate(body []byte) (UserSpotCreate, error) {
	a, err := decodeCreate(body, CmdUserSpotCreate)
	return UserSpotCreate(a), err
}

// UserSpotClose asks the owner to close a User Spot. The answer is a Reply with a destroy
// result, false also for a Spot with members, or an error; a stale one says that the Ref
// or the version are not the present ones.
type UserSpotClose struct {
	Correlation  uint64 // not 0
	Ref          Ref
	StoreVersion uint64   // of the row that was read, ≥ 1
	Op           [16]byte // operation id in the Store, not zero
	DeadlineMS   uint32   // what is left, ≥ 1
}

// Size returns the size of the record.
func (u *UserSpotClose) Size() int { return HeaderSize + 8 + u.Ref.size() + 8 + 16 + 4 }

// AppendTo appends the record to dst.
func (u *UserSpotClose) AppendTo(dst []byte) []byte {
	size := u.Size()
	dst = begin(dst, size, CmdUserSpotClose, 0)
	dst = appendU64(dst, u.Correlation)
	dst = u.Ref.appendTo(dst)
	dst = appendU64(dst, u.StoreVersion)
	dst = append(dst, u.Op[:]...)
	return end(appendU32(dst, u.DeadlineMS), size)
}

// DecodeUserSpotClose reads the body of a CmdUserSpotClose.
func DecodeUserSpotClose(body []byte) (u UserSpotClose, err error) {
	d := decoder{b: body, cmd: CmdUserSpotClose}
	u.Correlation = d.nonZero("correlation")
	u.Ref = d.ref()
	u.StoreVersion = d.someGen("storeVersion")
	u.Op = d.op("op")
	u.DeadlineMS = d.deadline(true)
	return u, d.done()
}
