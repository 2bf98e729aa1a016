package wire

// Ref names one incarnation of an Actor at one owner, exactly.
type Ref struct {
	ID        []byte
	ObjGen    uint64 // ObjectGeneration, ≥ 1
	Mesh      []byte
	RID       []byte // of the owner
	Lifecycle uint64 // of the owner's process, ≥ 1
	OwnerGen  uint64 // AuthorityOwnerGeneration, ≥ 1
}

func (r *Ref) size() int { return 1 + len(r.ID) + 8 + 1 + len(r.Mesh) + 1 + len(r.RID) + 8 + 8 }

func (r *Ref) appendTo(dst []byte) []byte {
	dst = appendS8(dst, r.ID)
	dst = appendU64(dst, r.ObjGen)
	dst = appendS8(dst, r.Mesh)
	dst = appendS8(dst, r.RID)
	dst = appendU64(dst, r.Lifecycle)
	return appendU64(dst, r.OwnerGen)
}

func (d *decoder) ref() (r Ref) {
	r.ID = d.id("ref.id")
	r.ObjGen = d.someGen("ref.objGen")
	r.Mesh = d.id("ref.mesh")
	r.RID = d.rid("ref.rid")
	r.Lifecycle = d.someGen("ref.lifecycle")
	r.OwnerGen = d.someGen("ref.ownerGen")
	return r
}

// ActorDestroy asks the owner to end an Actor. The answer is a Reply with a
// destroy result, or an error.
type ActorDestroy struct {
	Correlation uint64 // not 0
	Ref         Ref
	Op          [16]byte // operation id in the Store, not zero
}

// Size returns the size of the record.
func (a *ActorDestroy) Size() int { return HeaderSize + 8 + a.Ref.size() + 16 }

// AppendTo appends the record to dst.
func (a *ActorDestroy) AppendTo(dst []byte) []byte {
	size := a.Size()
	dst = begin(dst, size, CmdActorDestroy, 0)
	dst = appendU64(dst, a.Correlation)
	dst = a.Ref.appendTo(dst)
	dst = append(dst, a.Op[:]...)
	return end(dst, size)
}

// DecodeActorDestroy reads the body of a CmdActorDestroy.
func DecodeActorDestroy(body []byte) (a ActorDestroy, err error) {
	d := decoder{b: body, cmd: CmdActorDestroy}
	a.Correlation = d.nonZero("correlation")
	a.Ref = d.ref()
	a.Op = d.op("op")
	return a, d.done()
}

// AppendDestroyResult appends the payload of the Reply to an ActorDestroy:
// destroyed is false if the Actor was gone already.
func AppendDestroyResult(dst []byte, destroyed bool) []byte {
	if destroyed {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// DecodeDestroyResult reads the payload of the Reply to an ActorDestroy.
func DecodeDestroyResult(payload []byte) (destroyed bool, err error) {
	d := decoder{b: payload, cmd: CmdReply}
	v := d.u8max("destroyed", 1)
	return v == 1, d.done()
}

// ActorCreate tells the target that an Actor is reserved for it in the Store;
// the target reads the creation there, runs it and answers with a Reply that
// holds a CreateResult, or with an error. The source's RID is the link's.
type ActorCreate struct {
	Correlation     uint64   // not 0
	Op              [16]byte // operation id of the creation in the Store, not zero
	SourceLifecycle uint64   // ≥ 1
	ID              []byte
	Type            []byte // stable type
	ObjGen          uint64 // ObjectGeneration reserved, ≥ 1
	StoreVersion    uint64 // of the Creating row, ≥ 1
	TargetLifecycle uint64 // that the reservation is for, ≥ 1
	DeadlineMS      uint32 // what is left, ≥ 1
}

// Size returns the size of the record.
func (a *ActorCreate) Size() int {
	return HeaderSize + 8 + 16 + 8 + 1 + len(a.ID) + 1 + len(a.Type) + 8 + 8 + 8 + 4
}

// AppendTo appends the record to dst.
func (a *ActorCreate) AppendTo(dst []byte) []byte { return a.appendAs(CmdActorCreate, dst) }

func (a *ActorCreate) appendAs(cmd Command, dst []byte) []byte {
	size := a.Size()
	dst = begin(dst, size, cmd, 0)
	dst = appendU64(dst, a.Correlation)
	dst = append(dst, a.Op[:]...)
	dst = appendU64(dst, a.SourceLifecycle)
	dst = appendS8(dst, a.ID)
	dst = appendS8(dst, a.Type)
	dst = appendU64(dst, a.ObjGen)
	dst = appendU64(dst, a.StoreVersion)
	dst = appendU64(dst, a.TargetLifecycle)
	dst = appendU32(dst, a.DeadlineMS)
	return end(dst, size)
}

// DecodeActorCreate reads the body of a CmdActorCreate.
func DecodeActorCreate(body []byte) (ActorCreate, error) {
	return decodeCreate(body, CmdActorCreate)
}

func decodeCreate(body []byte, cmd Command) (a ActorCreate, err error) {
	d := decoder{b: body, cmd: cmd}
	a.Correlation = d.nonZero("correlation")
	a.Op = d.op("op")
	a.SourceLifecycle = d.someGen("sourceLifecycle")
	a.ID = d.id("id")
	a.Type = d.id("type")
	a.ObjGen = d.someGen("objGen")
	a.StoreVersion = d.someGen("storeVersion")
	a.TargetLifecycle = d.someGen("targetLifecycle")
	a.DeadlineMS = d.deadline(true)
	return a, d.done()
}

// RouteStale tells a sender that its one-way message reached a node that does
// not have the Actor: the message was dropped and the route is wrong.
type RouteStale struct {
	ID       []byte
	OwnerGen uint64 // of the route that the message took; 0: not known
}

// Size returns the size of the record.
func (r *RouteStale) Size() int { return HeaderSize + 1 + len(r.ID) + 8 }

// AppendTo appends the record to dst.
func (r *RouteStale) AppendTo(dst []byte) []byte {
	size := r.Size()
	dst = begin(dst, size, CmdRouteStale, 0)
	dst = appendS8(dst, r.ID)
	return end(appendU64(dst, r.OwnerGen), size)
}

// DecodeRouteStale reads the body of a CmdRouteStale.
func DecodeRouteStale(body []byte) (r RouteStale, err error) {
	d := decoder{b: body, cmd: CmdRouteStale}
	r.ID = d.id("id")
	r.OwnerGen = d.gen("ownerGen")
	return r, d.done()
}
