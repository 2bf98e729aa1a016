package model

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/zlnode/zlnode/store"
)

// state is all that a failover may put back to what it was.
type state struct {
	epoch     store.Epoch
	since     time.Time // when the epoch began
	change    uint64    // of the list of nodes
	leases    map[string]lease
	nodes     map[string]node
	rows      map[string]*row
	terminals map[store.OperationKey]terminal
	removals  map[string]removal
}

// lease is an RID's.
type lease struct {
	process
	ends  time.Time
	freed uint64 // rows of the process that were freed by hand
}

// process names one process.
type process struct {
	rid, owner string
	gen        store.LeaseGen
}

func processOf(l store.Lease) process { return process{l.RID, l.OwnerID, l.Gen} }

// node is an RID's descriptor and whose it is.
type node struct {
	process
	store.Descriptor
}

type terminal struct {
	store.Terminal
	keptUntil time.Time
}

// removal is what was removed last under an id.
type removal struct {
	gen       store.ObjectGen
	version   store.Version
	op        store.OpID // none of a creation that was cancelled
	keptUntil time.Time
}

// row is an authority row. Authority holds its owner, whether or not it is its Spot's,
// and its creation request. What is computed stays zero in it: see record.
type row struct {
	store.Authority
	shares    bool // an Actor in a SpotWide Spot
	lastOp    any  // the operation that wrote it: store.OpID, or the OperationKey of a creation
	first     *store.FirstMessage
	toMesh    string // of the move's target
	inventory map[store.Digest][]byte
}

func newState() *state {
	return &state{
		leases: map[string]lease{}, nodes: map[string]node{}, rows: map[string]*row{},
		terminals: map[store.OperationKey]terminal{}, removals: map[string]removal{},
	}
}

func (s *state) clone() *state {
	c := *s
	c.leases, c.nodes = maps.Clone(s.leases), maps.Clone(s.nodes)
	c.terminals, c.removals = maps.Clone(s.terminals), maps.Clone(s.removals)
	c.rows = make(map[string]*row, len(s.rows))
	for id, r := range s.rows {
		c.rows[id] = r.clone()
	}
	return &c
}

// clone copies all that a later change may write to; payloads never change.
func (r *row) clone() *row {
	c := *r
	c.Create, c.Move, c.Aggregate, c.first = copied(r.Create), copied(r.Move), copied(r.Aggregate), copied(r.first)
	c.inventory = maps.Clone(r.inventory)
	return &c
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

func (r *row) owner() process { return process{r.RID, r.OwnerID, r.LeaseGen} }

func (r *row) setOwner(p process, mesh string) {
	r.RID, r.OwnerID, r.LeaseGen, r.Mesh = p.rid, p.owner, p.gen, mesh
}

// target is the process that the row's move goes to.
func (r *row) target() process {
	return process{r.Move.TargetRID, r.Move.TargetOwnerID, r.Move.TargetLifecycle}
}

// issued are the counters. No failover sets them back: what they issue is larger than
// whatever was issued before.
type issued struct {
	epochs, leaseGens, objectGens, versions, changes counter
}

type counter uint64

// spent says that nothing is issued any more (ID-08).
func (c counter) spent() bool { return c == store.GenMax }

func (c *counter) next() uint64 {
	*c++
	return uint64(*c)
}

// record is the row as the interface shows it, with what follows from other rows and
// leases.
func (v view) record(id string) (store.Authority, bool) {
	r := v.rows[id]
	if r == nil {
		return store.Authority{}, false
	}
	a := r.clone().Authority
	a.LeaseLeft = v.left(r.owner())
	a.FirstPending = r.first != nil
	a.MembersLeft = len(v.elsewhere(r))
	if r.shares {
		a.SpotVersion = v.rows[r.SpotID].Version
	}
	if a.Create != nil {
		a.Create.Request = bytes.Clone(a.Create.Request)
	}
	if a.Move != nil {
		a.Move.Prepared = copied(a.Move.Prepared)
	}
	return a, true
}

// each returns the ids of rows that match, in byte order.
func (s *state) each(match func(r *row) bool) (ids []string) {
	for id, r := range s.rows {
		if match(r) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// members are the Actors in a User Spot.
func (s *state) members(spot string) []string {
	return s.each(func(r *row) bool { return r.State == store.Ready && r.InUserSpot && r.SpotID == spot })
}

// elsewhere are the members of a PerActor Spot that another process owns.
func (s *state) elsewhere(spot *row) []string {
	if spot.Kind != store.UserSpot || spot.Wide {
		return nil
	}
	return s.each(func(r *row) bool { return r.InUserSpot && r.SpotID == spot.ID && r.owner() != spot.owner() })
}

// pending are the Actors on their way into or out of a User Spot.
func (s *state) pending(spot string) []string {
	return s.each(func(r *row) bool {
		return r.Move != nil && (r.InUserSpot && r.SpotID == spot || r.Move.InUserSpot && r.Move.SpotID == spot)
	})
}

// reserved says whether the row takes slots at the process that it does not own it with.
func (r *row) reserved(rid string, gen store.LeaseGen) bool {
	if r.State == store.Creating {
		return r.RID == rid && r.LeaseGen == gen
	}
	return r.Move != nil && r.Move.TargetRID == rid && r.Move.TargetLifecycle == gen
}

func (r *row) active(rid string, gen store.LeaseGen) bool {
	return r.State == store.Ready && r.RID == rid && r.LeaseGen == gen
}

// used counts what is in use at a process: Actors, Spots, and Spots of that kind and type.
func (s *state) used(rid string, gen store.LeaseGen, kind store.Kind, typ string) (actors, spots, ofType int) {
	take := func(r *row, members int) {
		if r.Kind == store.Actor {
			actors++
			return
		}
		spots++
		actors += members
		if r.Kind == kind && r.Type == typ {
			ofType++
		}
	}
	for _, r := range s.rows {
		if r.active(rid, gen) {
			take(r, 0) // its members are rows of their own
		}
		switch {
		case !r.reserved(rid, gen):
		case r.Move != nil:
			take(r, r.Move.Members)
		default:
			take(r, 0)
		}
	}
	return actors, spots, ofType
}
