package store

import "time"

// Reserve asks for a new object at a target.
type Reserve struct {
	ID              string
	Kind            Kind // Actor, UserSpot or InstanceSpot
	Type            string
	Wide            bool // of a UserSpot: its members share its owner
	Op              OperationKey
	TargetRID       string
	TargetLifecycle LeaseGen
	Pass            string        // a PassDigest, by which a cordoned target may have it all the same; "": none
	Request         []byte        // at most 1 MiB
	First           []byte        // an InstanceSpot's first message, at most 1 MiB; nil for none
	Timeout         time.Duration // of the operation; its deadline is the Store's time plus this
}

// Fence names the row that a change expects and the process that asks. FenceOf
// makes one of a row that was read.
type Fence struct {
	ID        string
	ObjectGen ObjectGen
	Version   Version
	OwnerID   string
	LeaseGen  LeaseGen
	// SpotID of an Actor. SpotVersion only if it shares its Spot's owner.
	SpotID      string
	SpotVersion Version
}

// FenceOf returns the fence of a row for its owner.
func FenceOf(a *Authority) Fence {
	return Fence{
		ID: a.ID, ObjectGen: a.ObjectGen, Version: a.Version, OwnerID: a.OwnerID, LeaseGen: a.LeaseGen,
		SpotID: a.SpotID, SpotVersion: a.SpotVersion,
	}
}

// Finish ends a creation: Created makes the row Ready and turns its capacity from
// reserved to active; Rejected and Failed remove the row and free it. All publish
// the terminal record, kept until 5 minutes after the deadline.
type Finish struct {
	Fence
	Op       OperationKey
	Result   Result
	Reply    []byte // optional reply of the callback, at most 1 MiB
	FailKind uint8  // error kind of Failed
}

// Free names a row to remove by hand, by what was read of it.
type Free struct {
	ID         string
	ObjectGen  ObjectGen
	Version    Version
	SpotID     string // an Actor's
	MoveSpotID string // of its move, if it has one
	Op         OpID
	// By is the owner itself, for an object that it cannot go on with; else zero.
	By Lease
}

// FreeOf makes a Free of a row that was read.
func FreeOf(a *Authority, op OpID) Free {
	f := Free{ID: a.ID, ObjectGen: a.ObjectGen, Version: a.Version, SpotID: a.SpotID, Op: op}
	if a.Move != nil {
		f.MoveSpotID = a.Move.SpotID
	}
	return f
}

// ChangeSpot names an Actor's new Spot at the same process.
type ChangeSpot struct {
	Fence
	Op         OpID
	SpotID     string
	InUserSpot bool // SpotID is a User Spot, not the Entry Spot
}

// ReserveMove asks for a move to another process.
type ReserveMove struct {
	Fence
	Op              OpID
	Epoch           Epoch // under which the owner holds the object
	Relocation      RelocationID
	Attempt         uint32        // 1 and up
	Validity        time.Duration // from now; longer than anything that the attempt waits for
	TargetRID       string
	TargetLifecycle LeaseGen
	SpotID          string // an Actor's membership after it
	InUserSpot      bool
}

// MoveRef names a reserved move: what the source carries to the target. It is never
// taken from a later read (but for a sweep).
type MoveRef struct {
	ID         string
	ObjectGen  ObjectGen
	Version    Version // of the row when the move was reserved or, for an aggregate, prepared
	Relocation RelocationID
	Attempt    uint32
	Epoch      Epoch
	SpotID     string // an Actor's membership before and after
	MoveSpotID string
}

// MoveOf names the move of a row, as ReserveMove or PrepareAggregate answered it.
func MoveOf(a *Authority) MoveRef {
	return MoveRef{
		ID: a.ID, ObjectGen: a.ObjectGen, Version: a.Version, Relocation: a.Move.ID, Attempt: a.Move.Attempt,
		Epoch: a.Epoch, SpotID: a.SpotID, MoveSpotID: a.Move.SpotID,
	}
}

// CommitMove is the target's one commit.
type CommitMove struct {
	MoveRef
	Op            OpID
	SourceOwnerID string // as recorded when the move was reserved
	SourceLease   LeaseGen
	Target        Lease  // the asking process
	Root          Digest // of the inventory of an aggregate, else zero
}

// CommitOf is the commit of the row's move, as ReserveMove or PrepareAggregate answered it.
func CommitOf(a *Authority, target Lease, op OpID) CommitMove {
	c := CommitMove{MoveRef: MoveOf(a), Op: op, SourceOwnerID: a.OwnerID, SourceLease: a.LeaseGen, Target: target}
	if a.Move.Prepared != nil {
		c.Root = a.Move.Prepared.Root
	}
	return c
}

// MoveParty says as who a process ends a move.
type MoveParty uint8

const (
	Source MoveParty = iota + 1 // Aborted (decision of the object's owner)
	Target                      // given up
	Sweep                       // given up by a target that does not know it, past its validity
)

// EndMove ends a move without a commit.
type EndMove struct {
	MoveRef
	Op OpID
	By MoveParty
	// Asker is the process that asks: the owner for Source, the move's target else.
	Asker Lease
}

// EndOf is the end of the row's move, as ReserveMove or PrepareAggregate answered it.
func EndOf(a *Authority, by MoveParty, asker Lease, op OpID) EndMove {
	return EndMove{MoveRef: MoveOf(a), Op: op, By: by, Asker: asker}
}

// PrepareAggregate fixes an aggregate's inventory, for its source.
type PrepareAggregate struct {
	MoveRef
	Op        OpID
	Asker     Lease
	Inventory Inventory
}

// Reassert is a row as its owner knows it.
type Reassert struct {
	Op    OpID
	Epoch Epoch // the present one
	Owner Lease
	// The row's facts. OwnerGen is the row's own: that of an Actor that shares its
	// Spot's owner is what the Actor has as a whole.
	ID         string
	Kind       Kind
	Type       string
	Wide       bool
	ObjectGen  ObjectGen
	OwnerGen   OwnerGen
	Version    Version
	Mesh       string
	SpotID     string
	InUserSpot bool
	Shares     bool // an Actor in a SpotWide Spot: its owner is the Spot's
}
