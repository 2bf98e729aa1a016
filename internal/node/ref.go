package node

import (
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// ActorRef names one incarnation of an Actor at one place.
type ActorRef struct {
	ID        string `json:"id"`
	ObjectGen uint64 `json:"objectGeneration,string"`
	Mesh      string `json:"mesh"`
	RID       string `json:"rid"`
	Lifecycle uint64 `json:"lifecycle,string"`       // of the node's process
	OwnerGen  uint64 `json:"ownerGeneration,string"` // AuthorityOwnerGeneration
}

// SpotRef names one incarnation of a User or Instance Spot at one place.
type SpotRef ActorRef

func refOf(row *store.Authority) ActorRef {
	return ActorRef{
		ID: row.ID, ObjectGen: uint64(row.ObjectGen), Mesh: row.Mesh, RID: row.RID,
		Lifecycle: uint64(row.LeaseGen), OwnerGen: uint64(row.OwnerGen),
	}
}

func wireRef(r ActorRef) wire.Ref {
	return wire.Ref{
		ID: []byte(r.ID), ObjGen: r.ObjectGen, Mesh: []byte(r.Mesh), RID: []byte(r.RID),
		Lifecycle: r.Lifecycle, OwnerGen: r.OwnerGen,
	}
}

func refFromWire(r *wire.Ref) ActorRef {
	return ActorRef{
		ID: string(r.ID), ObjectGen: r.ObjGen, Mesh: string(r.Mesh), RID: string(r.RID),
		Lifecycle: r.Lifecycle, OwnerGen: r.OwnerGen,
	}
}

// exact reports whether ref has all its parts, each one a value that a peer
// accepts: refs come from applications, and a record that breaks the format
// would cost the link.
func exact(ref *ActorRef) bool {
	for _, gen := range []uint64{ref.ObjectGen, ref.Lifecycle, ref.OwnerGen} {
		if gen == 0 || gen > wire.MaxGeneration {
			return false
		}
	}
	return wire.ValidID(ref.ID) && wire.ValidRID(ref.RID) && wire.ValidID(ref.Mesh)
}
