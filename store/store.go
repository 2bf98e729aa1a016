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
)

// OpID identifies one operation in its record, so that a caller whose answer
// was lost recognises its own earlier success. It must be random and non-zero.
type OpID [16]byte

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

// Reason is the closed set of outcomes of a change.
type Reason uint8

const (
	Applied            Reason = iota + 1 // the change is in force
	AlreadyApplied                       // an earlier try with the same OpID applied it
	Missing                              // there is no such row
	Exists                               // the row is there (see Change.Record for its state)
	TypeMismatch                         // the row is of another stable type
	VersionConflict                      // StoreVersion differs
	GenerationConflict                   // ObjectGeneration differs
	OwnerConflict                        // the recorded owner differs
	LeaseExpired                         // the caller's lease ended by the Store's clock
	LeaseSuperseded                      // the caller's lease was issued anew to another process
	LeaseHeld                            // the RID's lease belongs to another live process
	TargetUnavailable                    // the target's descriptor or lease is not that of the lifecycle asked for
	TargetIncompatible                   // role, stable type or weight do not allow the placement
	CapacityExceeded                     // the target has no free capacity of that kind
	Exhausted                            // a generation reached 2^63-1 (ID-08)
)

// Lease is one process's right to own objects.
type Lease struct {
	RID     string
	OwnerID string   // random per process start
	Gen     LeaseGen // lifecycle generation
	// Remaining is what was left by the Store's clock when it answered.
	Remaining time.Duration
}

// LeaseResult answers AcquireLease and RenewLease. On LeaseHeld, Lease is the
// other process's.
type LeaseResult struct {
	Reason Reason
	Lease  Lease
}

// Role says what a node does with objects.
type Role uint8

const (
	RoleNone   Role = iota // no objects; needs no Store
	RoleClient             // uses objects, hosts none
	RoleServer             // hosts objects
)

// HostState is the state that a node publishes (reference: 0 Preparing, 1 Serving, …).
type HostState uint8

const (
	Preparing  HostState = 0
	Serving    HostState = 1
	Relocating HostState = 2
	Relocated  HostState = 3
	Draining   HostState = 4
	Stopped    HostState = 5
	HostError  HostState = 6
)

// Descriptor is what a node publishes about itself. At most 1 MiB encoded.
type Descriptor struct {
	RID         string        `json:"rid"`
	Lifecycle   LeaseGen      `json:"lifecycle,string"`
	Mesh        string        `json:"mesh"`
	Endpoint    string        `json:"endpoint"` // host:port of the link listener; empty: dials only
	Role        Role          `json:"role"`
	State       HostState     `json:"state"`
	Weight      int           `json:"weight"`                // 0–10,000; 0 takes no new objects
	MaxActors   int           `json:"maxActors"`             // 0: no limit
	ActorTypes  []string      `json:"actorTypes,omitempty"`  // stable types, sorted
	EntrySpotID string        `json:"entrySpotId,omitempty"` // empty until initialised (CR-16)
	AppVersion  string        `json:"appVersion,omitempty"`
	Revision    uint64        `json:"revision,string"` // grows with each update by its owner
	Actors      int           `json:"-"`               // capacity in use, reserved and active, as the Store counts it
	LeaseLeft   time.Duration `json:"-"`               // of its lease by the Store's clock; ≤ 0: expired
}

// NodeList is a complete list of descriptors; Change is the namespace's change
// number, the same before and after the list was read.
type NodeList struct {
	Nodes  []Descriptor
	Change uint64
}

// State of an authority row.
type State uint8

const (
	Creating State = iota + 1
	Ready
)

// Authority is the row that decides who owns an Actor.
type Authority struct {
	ID        string
	Type      string // stable type
	State     State
	ObjectGen ObjectGen
	OwnerGen  OwnerGen
	Version   Version
	Mesh      string
	RID       string   // owner; while Creating, the target of the reservation
	OwnerID   string   // of the owner's process
	LeaseGen  LeaseGen // of the owner's process: its lifecycle generation
	SpotID    string   // membership; while Creating, the Entry Spot it will enter
	// LeaseLeft is what is left of the owner's lease by the Store's clock; ≤ 0
	// if it expired, was released or now belongs to another process.
	LeaseLeft time.Duration
	// Create is set while Creating.
	Create *Creation
}

// Creation is the pending creation of a Creating row. It has no time to live.
type Creation struct {
	Op OperationKey
	// Request is immutable and at most 1 MiB. ReadActor gives it; the record of
	// a Change leaves it out (nil), so that losers of a race do not fetch it.
	Request  []byte
	Hash     [32]byte  // SHA-256 of the request
	Deadline time.Time // original deadline by the Store's clock; bounds the terminal record's life
}

// OperationKey names an operation across the mesh (CR-15).
type OperationKey struct {
	SourceRID       string
	SourceLifecycle LeaseGen
	Op              OpID
}

// Change answers every change of an authority row. Record is the row as it is
// after the call, whatever the Reason; Found says whether there is one. With
// AlreadyApplied it need not be the operation's own row: that one may have been
// finished, removed or replaced since. ReadTerminal tells a creation's result.
type Change struct {
	Reason Reason
	Record Authority
	Found  bool
}

// Reserve moves an id from Missing to Creating and books one Actor slot of the
// target, in one transaction.
type Reserve struct {
	ID, Type        string
	Op              OperationKey
	TargetRID       string
	TargetLifecycle LeaseGen
	Request         []byte        // at most 1 MiB
	Timeout         time.Duration // of the operation; its deadline is the Store's time plus this
}

// Fence names the row that a change expects and the process that asks.
type Fence struct {
	ID        string
	ObjectGen ObjectGen
	Version   Version
	OwnerID   string
	LeaseGen  LeaseGen
}

// Result of a creation, published with its transaction.
type Result uint8

const (
	Created  Result = iota + 1 // the row is Ready
	Rejected                   // the callback refused; the row is gone
	Failed                     // the callback failed; the row is gone
)

// Finish ends a creation: Created makes the row Ready and turns the slot from
// reserved to active; Rejected and Failed remove the row and free the slot. All
// publish the terminal record, kept until 5 minutes after the deadline.
type Finish struct {
	Fence
	Op       OperationKey
	Result   Result
	Reply    []byte // optional reply of the callback, at most 1 MiB
	FailKind uint8  // error kind of Failed
}

// Terminal is the kept result of an operation.
type Terminal struct {
	Result    Result
	ID        string
	ObjectGen ObjectGen
	Reply     []byte
	FailKind  uint8
	Hash      [32]byte // SHA-256 of Reply
}

// Store is the Location Store. All methods are safe for concurrent use; each
// honours its context, and returns ErrUnknown if the context ended after the
// request may have been sent.
type Store interface {
	// Ping checks that the Store answers. Its error names the address.
	Ping(ctx context.Context) error

	// AcquireLease takes the RID's lease for ownerID, with a new generation, and
	// removes the descriptor of the process before it. It is refused with
	// LeaseHeld while another process's lease is valid, and answers
	// AlreadyApplied, changing nothing, for an ownerID that holds it already.
	// Also: Exhausted.
	AcquireLease(ctx context.Context, rid, ownerID string, ttl time.Duration) (LeaseResult, error)
	// RenewLease extends a lease that nobody superseded, even an expired one:
	// Applied, LeaseSuperseded (with the lease that did), or Missing if there is
	// none, because it was released, ended a day ago, or the Store lost it.
	RenewLease(ctx context.Context, l Lease, ttl time.Duration) (LeaseResult, error)
	// ReleaseLease ends the lease and removes the process's descriptor: Applied,
	// or Missing. A lease of another process is left alone: LeaseSuperseded.
	ReleaseLease(ctx context.Context, l Lease) (Reason, error)

	// PublishNode writes the descriptor of the lease's process, if the lease is
	// valid (else LeaseExpired or LeaseSuperseded) and d.Revision is not below
	// the stored one of the same lifecycle (else VersionConflict). Publishing
	// what is stored is AlreadyApplied and no change.
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

	// ReadActor reads an authority row; found is false for a Missing one.
	ReadActor(ctx context.Context, id string) (a Authority, found bool, err error)
	// ReserveActor: Applied, or AlreadyApplied for an operation that reserved
	// before, whatever became of it; Exists or TypeMismatch (see Record);
	// TargetUnavailable, TargetIncompatible, CapacityExceeded; Exhausted.
	ReserveActor(ctx context.Context, r Reserve) (Change, error)
	// FinishActor is for the reservation's target only (CR-06 to CR-08), with
	// the operation of the reservation: Applied or AlreadyApplied; Missing,
	// GenerationConflict; VersionConflict, also for a row that is Ready or was
	// reserved by another operation; OwnerConflict; LeaseExpired (renew and try
	// again), LeaseSuperseded; Exhausted.
	FinishActor(ctx context.Context, f Finish) (Change, error)
	// DeleteActor removes a Ready row and frees its slot, for its owner only:
	// Applied, or AlreadyApplied for 5 minutes; Missing, GenerationConflict;
	// VersionConflict, also for a row that is Creating; OwnerConflict;
	// LeaseExpired, LeaseSuperseded.
	DeleteActor(ctx context.Context, f Fence, op OpID) (Change, error)

	// ReadTerminal reads the kept result of an operation.
	ReadTerminal(ctx context.Context, op OperationKey) (t Terminal, found bool, err error)

	// Close ends all connections; calls under way end with ErrUnknown.
	Close() error
}
