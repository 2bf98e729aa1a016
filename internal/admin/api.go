package admin

import (
	"context"
	"math"
	"time"
)

// Node is what is operated. Its methods are safe for concurrent use. Errors that are of a kind
// (package errkind) are told with it.
type Node interface {
	Status() Status
	// Relocate has a relocation begin, and waits for its result as long as ctx lets it. Of a
	// wait that has ended it returns nil, nil.
	Relocate(ctx context.Context, r RelocateRequest) (*Result, error)
	// Relocation is the one that runs, or the last one; nil: there was none.
	Relocation() *Relocation
	Cordon(ctx context.Context, passes []string) error
	Uncordon(ctx context.Context) error
	Limits() Limits
	SetLimits(l Limits) error
	// Shutdown ends the node, and returns when it has ended.
	Shutdown(ctx context.Context) error
}

// Status is a node at a glance.
type Status struct {
	RID         string      `json:"rid"`
	Lifecycle   uint64      `json:"lifecycle,string"`
	Version     string      `json:"version,omitempty"` // of the application
	State       string      `json:"state"`
	Ready       bool        `json:"ready"`
	Cordoned    bool        `json:"cordoned"`
	Passes      int         `json:"passes,omitempty"` // through the Cordon
	Actors      int         `json:"actors"`
	Spots       int         `json:"spots"`
	Sessions    int         `json:"sessions"`
	Links       int         `json:"links"`
	MovedOut    uint64      `json:"moved_out"` // objects, since the start
	MovedIn     uint64      `json:"moved_in"`
	Stuck       int         `json:"stuck"` // objects at which something does not succeed
	Limits      Limits      `json:"limits"`
	Relocation  *Relocation `json:"relocation,omitempty"`
	ShutdownEnd *Ended      `json:"shutdown,omitempty"` // once it is over
}

// Ended is how a shutdown ended.
type Ended struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
}

// Limits are the relocation limits; -1: none.
type Limits struct {
	LinkBytes   int64 `json:"link_bytes"`
	NodeBytes   int64 `json:"node_bytes"`
	ChunkBytes  int   `json:"chunk_bytes"`
	MaxMoves    int   `json:"max_moves"`
	MaxRestores int   `json:"max_restores"`
}

// The modes of a RelocateRequest.
const (
	ModeMaintenance = "maintenance"
	ModeRolling     = "rolling"
)

// RelocateRequest is the body of POST /v1/relocate.
type RelocateRequest struct {
	Mode          string `json:"mode,omitempty"` // "" is ModeMaintenance
	TargetVersion string `json:"target_version,omitempty"`
	TimeoutMS     int64  `json:"timeout_ms,omitempty"` // 0: the node's default
}

// Timeout is TimeoutMS.
func (r *RelocateRequest) Timeout() time.Duration { return millis(r.TimeoutMS) }

// Result is how a relocation ended.
type Result struct {
	Outcome string `json:"outcome"` // Relocated or Blocked
	Reason  string `json:"reason"`
	Text    string `json:"text,omitempty"`
}

// Relocated is the Outcome of a Result that is none of Blocked.
const Relocated = "Relocated"

// Relocation is how far a relocation is.
type Relocation struct {
	Running        bool          `json:"running"`
	RunsOn         bool          `json:"runs_on,omitempty"` // behind its result
	Mode           string        `json:"mode"`
	TargetVersion  string        `json:"target_version,omitempty"`
	Began          time.Time     `json:"began"`
	Deadline       time.Time     `json:"deadline"`
	EstimatedEnd   *time.Time    `json:"estimated_end,omitempty"`
	Units          []Units       `json:"units"`
	Blocked        []BlockedUnit `json:"blocked,omitempty"`
	SafeToShutdown bool          `json:"safe_to_shutdown"`
	Result         *Result       `json:"result,omitempty"` // nil: not known yet
	// Seen names all of that but the estimate: see GET /v1/relocation.
	Seen string `json:"seen"`
}

// Units is how far the units of one kind are.
type Units struct {
	Kind    string `json:"kind"`
	Total   int    `json:"total"`
	Left    int    `json:"left"`
	Moving  int    `json:"moving"`
	Blocked int    `json:"blocked"`
	Lost    int    `json:"lost"`
}

// BlockedUnit is an object that did not leave.
type BlockedUnit struct {
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Reason string `json:"reason"`
	Text   string `json:"text,omitempty"`
}

// RelocateReply answers POST /v1/relocate.
type RelocateReply struct {
	Result     *Result     `json:"result,omitempty"` // nil: not known within the wait
	Relocation *Relocation `json:"relocation,omitempty"`
}

// CordonRequest is the body of POST /v1/cordon.
type CordonRequest struct {
	Passes []string `json:"passes,omitempty"`
}

// ShutdownRequest is the body of POST /v1/shutdown.
type ShutdownRequest struct {
	TimeoutMS int64 `json:"timeout_ms,omitempty"` // 0: 30 s
}

// Error is the body of every answer that is no success.
type Error struct {
	Kind   string `json:"kind"` // of package errkind
	Text   string `json:"text"`
	Status int    `json:"-"` // of HTTP, at the client
}

// Error implements error.
func (e *Error) Error() string { return e.Kind + ": " + e.Text }

// millis is that many milliseconds, or the nearest that a Duration can be.
func millis(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}
