// Package store defines the Location Store: the one place that decides which
// node owns which object.
//
// Every change is a compare-and-set that checks version, generations, the
// owner's lease by the Store's own clock, and capacity, then applies all or
// nothing. A refused change is a value (Change.Reason), not an error; errors
// say only that the Store was not reached or that the outcome is unknown.
package store

import (
	"context"
	"errors"
	"time"
)

// Generations and versions are positive and below 2^63; the Store never wraps
// them. At the limit the next issue is refused with Exhausted.
type (
	// ObjectGen tells incarnations of one id apart (ID-03).
	ObjectGen uint64
	// OwnerGen grows at each owner change of one incarnation (ID-04).
	OwnerGen uint64
	// Version grows at each change of one authority row (StoreVersion).
	Version uint64
	// LeaseGen grows with every lease issued in a namespace. It is also the
	// lifecycle generation of the process that holds the lease.
	LeaseGen uint64
	// Epoch numbers the histories of a Store. It grows when a failover or a loss of
	// data may have undone changes that were answered, or when an operator says so.
	Epoch uint64
)

// OpID identifies one operation in its record, so that a caller whose answer
// was lost recognises its own earlier success. It must be random and non-zero.
type OpID [16]byte

// RelocationID identifies one move, of an object or of a Spot with its members
// (then it is the AggregateId). It must be random and non-zero.
type RelocationID [16]byte

var (
	// ErrUnavailable: the Store was not reached; nothing was changed.
	ErrUnavailable = errors.New("store: unavailable")
	// ErrUnknown: the request may have reached the Store and the answer was
	// lost. The caller re-reads and decides; it never guesses.
	ErrUnknown = errors.New("store: outcome unknown")
	// ErrCorrupt: the Store answered with something that no version of zlnode writes.
	ErrCorrupt = errors.New("store: unreadable record")
	// ErrInvalid: the argument breaks a documented limit; nothing was sent.
	ErrInvalid = errors.New("store: invalid argument")
)

// Store is the Location Store. All methods are safe for concurrent use; each
// honours its context, and returns ErrUnknown if the context ended after the
// request may have been sent. Arguments are not kept after a call's return, but
// for the bytes of a call that ended with an error: leave those alone.
type Store interface {
	Leases
	Nodes
	Creations
	Authorities
	Aggregates
	Views

	// Ping checks that the Store answers. Its error names the address.
	Ping(ctx context.Context) error
	// RaiseEpoch starts a new epoch, for an operator who put an older state of the
	// Store back.
	RaiseEpoch(ctx context.Context) (Epoch, error)
	// Close ends all connections; calls under way end with ErrUnknown.
	Close() error
}

// Leases say which process acts for an RID.
type Leases interface {
	// AcquireLease takes the RID's lease for ownerID, with a new generation, and
	// removes the descriptor of the process before it. It is refused with
	// LeaseHeld while another process's lease is valid, and answers
	// AlreadyApplied, changing nothing, for an ownerID that holds it already.
	// Also: Exhausted.
	AcquireLease(ctx context.Context, rid, ownerID string, ttl time.Duration) (LeaseResult, error)
	// RenewLease extends a lease that nobody superseded, even an expired one:
	// Applied, LeaseSuperseded (with the lease that did), or Missing if there is
	// none, because it was released or ended a day ago. known is the epoch that the
	// last answer to AcquireLease or RenewLease told, and no other call's. If the
	// present one differs, the Store may have lost the lease since: one that is not
	// there is written again (Applied), because no other process has the RID's.
	RenewLease(ctx context.Context, l Lease, known Epoch, ttl time.Duration) (LeaseResult, error)
	// ReleaseLease ends the lease and removes the process's descriptor: Applied,
	// or Missing. A lease of another process is left alone: LeaseSuperseded.
	ReleaseLease(ctx context.Context, l Lease) (Reason, error)
}

// Nodes are what processes publish about themselves.
type Nodes interface {
	// PublishNode writes the descriptor of the lease's process and claims its Entry
	// Spot's id, if the lease is valid (else LeaseExpired or LeaseSuperseded),
	// d.Revision is not below the stored one of the same lifecycle (else
	// VersionConflict), and the id is not another's (else Exists). Publishing what
	// is stored is AlreadyApplied and no change.
	PublishNode(ctx context.Context, l Lease, d Descriptor) (Reason, error)
	// RemoveNode removes the descriptor if it is that of the lease's process,
	// else answers Missing or LeaseSuperseded. An expired lease is no obstacle:
	// the process only takes its own offer back.
	RemoveNode(ctx context.Context, l Lease) (Reason, error)
	// ListNodes reads all descriptors of the namespace, ordered by RID. If none
	// changed since the change number given, it returns that number with Nodes
	// nil; 0 always lists. Renewals and used capacity do not move the change
	// number: who needs them fresh lists with 0.
	ListNodes(ctx context.Context, since uint64) (NodeList, error)
	// WatchNodes calls changed after each change of the node list that it hears of,
	// and once whenever it begins or begins again to hear, until ctx ends. Notices
	// may be lost with a connection: it spares polls, it does not replace them.
	// changed runs on the caller's goroutine.
	WatchNodes(ctx context.Context, changed func()) error
}

// Creations bring objects into being exactly once.
type Creations interface {
	// Reserve moves an id from Missing to Creating and books its capacity at the
	// target: Applied, or AlreadyApplied for an operation that reserved before,
	// whatever became of it; Exists or TypeMismatch (see Record); TargetUnavailable,
	// TargetIncompatible, CapacityExceeded; Recovering; Exhausted.
	Reserve(ctx context.Context, r Reserve) (Change, error)
	// Finish is for the reservation's target only (CR-06 to CR-08), with the
	// operation of the reservation: Applied or AlreadyApplied; Missing,
	// GenerationConflict; VersionConflict, also for a row that is Ready or was
	// reserved by another operation; OwnerConflict; LeaseExpired (renew and try
	// again), LeaseSuperseded; Exhausted.
	Finish(ctx context.Context, f Finish) (Change, error)
	// CancelCreation removes a Creating row whose target's lease is over by the
	// Store's clock, or an Instance Spot's row whose first message was not restored
	// before its owner's lease was over: Applied (no row is left), Missing,
	// GenerationConflict, VersionConflict, OwnerAlive. It keeps no terminal record
	// (CR-08); a repeat finds Missing.
	CancelCreation(ctx context.Context, id string, gen ObjectGen, v Version) (Change, error)
	// ReadFirst reads what is kept of an Instance Spot's first message.
	ReadFirst(ctx context.Context, id string, gen ObjectGen) (f FirstMessage, found bool, err error)
	// AdvanceFirst moves the replay cursor of the first message, and with done drops
	// what is kept of it. For the owner: Applied or AlreadyApplied, or as Delete.
	AdvanceFirst(ctx context.Context, f Fence, op OpID, cursor uint64, done bool) (Change, error)
	// ReadTerminal reads the kept result of a creation.
	ReadTerminal(ctx context.Context, op OperationKey) (t Terminal, found bool, err error)
}

// Authorities are the rows that decide who owns what, once it is Ready.
type Authorities interface {
	// Read reads an authority row; found is false for a Missing one.
	Read(ctx context.Context, id string) (a Authority, found bool, err error)
	// Delete removes a Ready row and frees its capacity, for its owner only:
	// Applied, or AlreadyApplied for 5 minutes; Missing, GenerationConflict;
	// VersionConflict, also for a row that is Creating; OwnerConflict; Moving;
	// IsMember for an Actor in a User Spot; NotEmpty for a Spot with members, or
	// with some on their way; LeaseExpired, LeaseSuperseded.
	Delete(ctx context.Context, f Fence, op OpID) (Change, error)
	// Free removes a row by hand (decision of a person, never of the engine): one
	// whose owner's lease is over by the Store's clock, or asks itself, or whose move
	// is past its validity. It raises the Freed counter of the owner's lease. Applied, or
	// AlreadyApplied for 5 minutes; Missing, GenerationConflict, VersionConflict,
	// NotEmpty; OwnerAlive.
	Free(ctx context.Context, f Free) (Change, error)
	// ChangeSpot moves an Actor's membership to another Spot of the same process.
	// Neither generation changes (JN-11). As Delete, and SpotUnavailable.
	ChangeSpot(ctx context.Context, c ChangeSpot) (Change, error)
	// ReserveMove writes a move into the row of its source and books the capacity at
	// the target: for an Actor also its place among the target Spot's members, for a
	// SpotWide Spot the capacity of all members. For the owner, before it seals. As
	// Delete, and Pending (the Spot's members are on their way), SpotUnavailable,
	// TargetUnavailable, TargetIncompatible, CapacityExceeded, EpochChanged,
	// Unasserted.
	ReserveMove(ctx context.Context, r ReserveMove) (Change, error)
	// CommitMove gives the object to the move's target, which asks: owner,
	// membership, capacity and owner generation change together. Applied or
	// AlreadyApplied; Missing, GenerationConflict, VersionConflict, MoveConflict
	// (the row has another move, or none: see Record), OwnerConflict; LeaseExpired,
	// LeaseSuperseded; EpochChanged, InventoryConflict, Exhausted.
	CommitMove(ctx context.Context, c CommitMove) (Change, error)
	// EndMove ends a move that was not committed: Aborted by its source, given up by
	// its target. As CommitMove; OwnerAlive for a sweep before the validity's end.
	EndMove(ctx context.Context, e EndMove) (Change, error)
	// Reassert writes the row as its owner knows it, after the epoch has changed. Another
	// owner, of an earlier version that it replaces, sees its Freed counter grow. Applied
	// or AlreadyApplied; OwnerConflict or GenerationConflict if the row knows of a later
	// owner or incarnation (see Record), Missing if it was removed in that version or a later
	// one no longer than TerminalRetention ago, TypeMismatch if the id is a node's Entry Spot
	// now: the caller's is over; VersionConflict if it knows a later change of the same owner;
	// LeaseExpired, LeaseSuperseded; EpochChanged; SpotUnavailable, Moving, NotEmpty;
	// Exhausted.
	Reassert(ctx context.Context, r Reassert) (Change, error)
}

// Aggregates move SpotWide Spots with all their members by one commit.
type Aggregates interface {
	// PutInventory stores a chunk of an aggregate's inventory under its SHA-256. Chunks
	// never change. They go with the end of the move, or with CompleteMove.
	PutInventory(ctx context.Context, m MoveRef, chunk []byte) (Reason, error)
	// ReadInventory reads a chunk; found is false if it is not there.
	ReadInventory(ctx context.Context, spotID string, digest Digest) (chunk []byte, found bool, err error)
	// PrepareAggregate fixes the inventory of a reserved aggregate: Applied,
	// AlreadyApplied; as EndMove for its source, and InventoryConflict if the root is
	// not stored or the count is not that of the Spot's members and itself.
	PrepareAggregate(ctx context.Context, p PrepareAggregate) (Change, error)
	// CompleteMove drops the inventory of a committed aggregate. For the owner; the
	// aggregate keeps id and root. As Delete, and MoveConflict.
	CompleteMove(ctx context.Context, f Fence, id RelocationID) (Change, error)
}

// Views read many rows, page by page. What changes meanwhile may or may not show.
type Views interface {
	// List reads rows by kind, type and mesh; limit is 1 to 1,000. The cursor is
	// opaque, "" at first and after the last page. A page may be short or empty
	// before the last one.
	List(ctx context.Context, f Filter, cursor string, limit int) (Page, error)
	// Members reads the ids of a User Spot's members in byte order, behind after.
	Members(ctx context.Context, spotID, after string, limit int) ([]string, error)
	// Held reads the ids of which a process owns the row, or for which capacity is
	// reserved at it (creations and moves that come), in byte order behind after.
	// Members that share a Spot's owner are found through the Spot.
	Held(ctx context.Context, rid string, lifecycle LeaseGen, h Holding, after string, limit int) ([]string, error)
	// Reservations reads what Held tells of reservations, of all processes, for who looks for
	// those of dead ones. Cursor and pages are as those of List.
	Reservations(ctx context.Context, cursor string, limit int) (all []Reservation, next string, err error)
	// Audit computes capacity, lists and membership from the rows and returns what
	// differs from what is stored, at most 1,000 lines. On a Store at rest there is
	// none; on a busy one each difference is looked at twice.
	Audit(ctx context.Context) ([]string, error)
}
