package store

import "time"

// Kind is the kind of an object. All kinds share one set of ids (ID-01).
type Kind uint8

const (
	Actor        Kind = iota + 1
	EntrySpot         // claimed with its node's descriptor; it has no row
	UserSpot          // has members
	InstanceSpot      // comes with its first message
)

// State of an authority row.
type State uint8

const (
	Creating State = iota + 1
	Ready
)

// Authority is the row that decides who owns an object.
type Authority struct {
	ID        string
	Kind      Kind
	Type      string // stable type
	State     State
	ObjectGen ObjectGen
	Version   Version

	// The owner. That of an Actor in a SpotWide Spot is its Spot's, and OwnerGen the
	// sum of what its row and the Spot's say, so it never falls (AG-04).
	OwnerGen OwnerGen
	Mesh     string
	RID      string   // while Creating, the target of the reservation
	OwnerID  string   // of the owner's process
	LeaseGen LeaseGen // of the owner's process: its lifecycle generation
	// LeaseLeft is what is left of the owner's lease by the Store's clock; ≤ 0
	// if it expired, was released or now belongs to another process.
	LeaseLeft time.Duration

	// SpotID is an Actor's membership; while Creating, the Entry Spot it will enter.
	SpotID     string
	InUserSpot bool // SpotID is a User Spot
	// SpotVersion is the version of the SpotWide Spot whose owner the Actor shares;
	// 0 for all others. It belongs to the Actor's fence.
	SpotVersion Version
	// Wide is set for a User Spot whose members share its owner.
	Wide bool

	Create *Creation // set while Creating
	Move   *Move     // set while a move is reserved
	// FirstPending: the Instance Spot's first message is not back in its queue yet.
	FirstPending bool
	// Aggregate is the inventory by which a SpotWide Spot came to its owner.
	Aggregate *Aggregate
	// MembersLeft counts members that are still at the owner before, after a PerActor
	// Spot's own move.
	MembersLeft int

	// Epoch is the one in which the row was last written. An owner change needs the
	// present one: see Reassert.
	Epoch Epoch
}

// Creation is the pending creation of a Creating row. It has no time to live.
type Creation struct {
	Op OperationKey
	// Request is immutable and at most 1 MiB. Read gives it; the record of a
	// Change leaves it out (nil), so that losers of a race do not fetch it.
	Request  []byte
	Hash     Digest    // SHA-256 of the request
	Deadline time.Time // original deadline by the Store's clock; bounds the terminal record's life
}

// Move is a reserved move of a Ready row.
type Move struct {
	ID              RelocationID
	Attempt         uint32
	TargetRID       string
	TargetOwnerID   string
	TargetLifecycle LeaseGen
	SpotID          string // an Actor's membership after it
	InUserSpot      bool
	ValidUntil      time.Time // by the Store's clock; after it, it may be swept or freed by hand
	Members         int       // of a SpotWide Spot, booked at the target too
	// Prepared is set once an aggregate's inventory is fixed.
	Prepared *Inventory
}

// Aggregate names the inventory of a committed aggregate.
type Aggregate struct {
	ID RelocationID
	Inventory
}

// Digest is a SHA-256.
type Digest [32]byte

// Inventory names an immutable tree of chunks.
type Inventory struct {
	Root  Digest // of the root chunk
	Count int    // participants: the Spot and its members
}

// OperationKey names an operation across the mesh (CR-15).
type OperationKey struct {
	SourceRID       string
	SourceLifecycle LeaseGen
	Op              OpID
}

// Result of a creation, published with its transaction.
type Result uint8

const (
	Created  Result = iota + 1 // the row is Ready
	Rejected                   // the callback refused; the row is gone
	Failed                     // the callback failed; the row is gone
)

// Terminal is the kept result of an operation.
type Terminal struct {
	Result    Result
	ID        string
	ObjectGen ObjectGen
	Reply     []byte
	FailKind  uint8
	Hash      Digest // SHA-256 of Reply
}

// FirstMessage is the recovery data of an Instance Spot's activation (FO-13).
type FirstMessage struct {
	Message []byte
	Cursor  uint64
}

// Change answers every change of an authority row. Record is the row as it is
// after the call, whatever the Reason; Found says whether there is one. With
// AlreadyApplied it need not be the operation's own row: that one may have been
// finished, removed or replaced since. ReadTerminal tells a creation's result.
//
// The Record of a refusal may be of a moment after it (for an Actor whose Spot's owner
// had to be read, too): do not conclude Found from Exists.
type Change struct {
	Reason Reason
	Record Authority
	Found  bool
	Epoch  Epoch // the Store's, when it answered
}

// Filter of List. Zero fields match everything; Type needs a Kind.
type Filter struct {
	Kind Kind
	Type string
	Mesh string
}

// Page of a List.
type Page struct {
	Objects []Authority // without creation requests
	Next    string      // "" after the last page
}

// Reservation is an id for which capacity is reserved at a process.
type Reservation struct {
	ID        string
	RID       string
	Lifecycle LeaseGen
}

// Holding says what of a process Held lists.
type Holding uint8

const (
	HeldOwned Holding = iota + 1
	HeldReserved
)
