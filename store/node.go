package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
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
	// Epoch is the Store's. When it differs from the last answer's, what was open
	// goes on under its lease, and each row is re-asserted before its owner changes.
	Epoch Epoch
	// Freed counts the rows of this process that others took away: Free, CancelCreation,
	// Reassert (a SpotWide Spot counts once, with its members). When it grows, the process
	// reads its rows again before anything runs.
	Freed uint64
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

// String returns the state's name.
func (s HostState) String() string {
	names := [...]string{"Preparing", "Serving", "Relocating", "Relocated", "Draining", "Stopped", "Error"}
	if int(s) >= len(names) {
		return fmt.Sprintf("HostState(%d)", uint8(s))
	}
	return names[s]
}

// Descriptor is what a node publishes about itself. At most 1 MiB encoded.
type Descriptor struct {
	RID        string      `json:"rid"`
	Lifecycle  LeaseGen    `json:"lifecycle,string"`
	Mesh       string      `json:"mesh"`             // that its objects live in, if it hosts any
	Endpoint   string      `json:"endpoint"`         // host:port of the link listener; empty: dials only
	Role       Role        `json:"role"`             // in that mesh; in the others it hosts nothing
	Meshes     []MeshEntry `json:"meshes,omitempty"` // it is in besides that one
	State      HostState   `json:"state"`
	Weight     int         `json:"weight"`               // 0–10,000; 0 takes no new objects
	MaxActors  int         `json:"maxActors"`            // 0: no limit
	MaxSpots   int         `json:"maxSpots,omitempty"`   // User and Instance Spots; 0: no limit
	ActorTypes []string    `json:"actorTypes,omitempty"` // stable types, sorted
	// ActorPolicies are those types' policies of relocation, as the node names them; no entry: it
	// is not known, as of nodes before there was this field, and then nothing moves there.
	ActorPolicies map[string]uint8 `json:"actorPolicies,omitempty"`
	SpotTypes     []SpotType       `json:"spotTypes,omitempty"`   // of User and Instance Spots, sorted by type
	EntrySpotID   string           `json:"entrySpotId,omitempty"` // empty until initialised (CR-16)
	AppVersion    string           `json:"appVersion,omitempty"`
	Channels      bool             `json:"channels,omitempty"`     // it serves channels in that mesh, so all nodes of it link to it
	Ports         []ChannelPort    `json:"channelPorts,omitempty"` // of channels that it serves by connections of their own
	Wave          string           `json:"wave,omitempty"`         // of maintenance
	Cordoned      bool             `json:"cordoned,omitempty"`     // then Weight is 0
	Passes        []string         `json:"passes,omitempty"`       // PassDigests with which a cordoned node takes new objects all the same
	Revision      uint64           `json:"revision,string"`        // grows with each update by its owner
	Actors        int              `json:"-"`                      // capacity in use, reserved and active, as the Store counts it
	Spots         int              `json:"-"`                      // the same of Spots
	LeaseLeft     time.Duration    `json:"-"`                      // of its lease by the Store's clock; ≤ 0: expired
}

// PassDigest returns what the Store has of a pass through a Cordon: a name for it that does
// not tell it. "" is the name of no pass.
func PassDigest(pass string) string {
	if pass == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("zlnode pass\x00" + pass))
	return hex.EncodeToString(sum[:])
}

// Admits reports whether the node is cordoned and has that PassDigest.
func (d *Descriptor) Admits(pass string) bool {
	return d.Cordoned && pass != "" && slices.Contains(d.Passes, pass)
}

// MeshEntry is what a node is in one mesh.
type MeshEntry struct {
	Name     string `json:"name"`
	Endpoint string `json:"endpoint,omitempty"` // as Descriptor's
	Role     Role   `json:"role"`
	Channels bool   `json:"channels,omitempty"` // as Descriptor's
}

// In returns what the node is in the mesh of that name; false: it is not in it.
func (d *Descriptor) In(mesh string) (MeshEntry, bool) {
	if d.Mesh == mesh {
		return MeshEntry{Name: d.Mesh, Endpoint: d.Endpoint, Role: d.Role, Channels: d.Channels}, true
	}
	for _, m := range d.Meshes {
		if m.Name == mesh {
			return m, true
		}
	}
	return MeshEntry{}, false
}

// ChannelPort says where the clients of a channel dial one of its servers.
type ChannelPort struct {
	Channel  string `json:"channel"`
	Endpoint string `json:"endpoint"` // host:port
}

// Port returns where clients of a channel dial the node; false: it has no port for it.
func (d *Descriptor) Port(channel string) (endpoint string, has bool) {
	for _, p := range d.Ports {
		if p.Channel == channel {
			return p.Endpoint, true
		}
	}
	return "", false
}

// SpotType is a type of Spots that a node hosts.
type SpotType struct {
	Type   string `json:"type"`
	Kind   Kind   `json:"kind"`             // UserSpot or InstanceSpot
	Max    int    `json:"max,omitempty"`    // 0: no limit of its own
	Wide   bool   `json:"wide,omitempty"`   // of a UserSpot: its members share its owner
	Policy uint8  `json:"policy,omitempty"` // of relocation, as in ActorPolicies; 0: not known
}

// NodeList is a complete list of descriptors; Change is the namespace's change
// number, the same before and after the list was read.
type NodeList struct {
	Nodes  []Descriptor
	Change uint64
}
