package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/zlnode/zlnode/store"
)

// PublishNode implements store.Store.
func (s *Store) PublishNode(ctx context.Context, l store.Lease, d store.Descriptor) (reason store.Reason, err error) {
	d, err = travelled(d, cmp.Or(l.Check(), d.Check(l)))
	err = s.call(ctx, err, func(v view) { reason = v.publish(processOf(l), d) })
	return reason, err
}

// travelled is the descriptor as it comes out of its encoding.
func travelled(d store.Descriptor, err error) (out store.Descriptor, _ error) {
	if err != nil {
		return out, err
	}
	encoded, err := json.Marshal(d)
	if err != nil {
		return out, fmt.Errorf("%w: descriptor of node %q: %w", store.ErrInvalid, d.RID, err)
	}
	if len(encoded) > store.DescriptorBytesMax {
		return out, fmt.Errorf("%w: descriptor of node %q has %d bytes encoded", store.ErrInvalid, d.RID, len(encoded))
	}
	return out, json.Unmarshal(encoded, &out)
}

func (v view) publish(p process, d store.Descriptor) store.Reason {
	if reason := v.refused(p); reason != 0 {
		return reason
	}
	if stored, there := v.nodes[p.rid]; there && stored.process == p {
		switch {
		case d.Revision < stored.Revision:
			return store.VersionConflict
		case same(d, stored.Descriptor):
			return store.AlreadyApplied
		}
	}
	if d.EntrySpotID != "" {
		claimer, claimed := v.claimer(d.EntrySpotID)
		if claimed && claimer != p || v.rows[d.EntrySpotID] != nil {
			return store.Exists
		}
	}
	v.nodes[p.rid] = node{p, d}
	v.change = v.changes.next()
	return store.Applied
}

func same(a, b store.Descriptor) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

// claimer is the process whose Entry Spot has the id.
func (v view) claimer(spot string) (process, bool) {
	for _, n := range v.nodes {
		if n.EntrySpotID == spot {
			return n.process, true
		}
	}
	return process{}, false
}

// RemoveNode implements store.Store.
func (s *Store) RemoveNode(ctx context.Context, l store.Lease) (reason store.Reason, err error) {
	err = s.call(ctx, l.Check(), func(v view) {
		n, there := v.nodes[l.RID]
		switch {
		case !there:
			reason = store.Missing
		case n.process != processOf(l):
			reason = store.LeaseSuperseded
		default:
			v.dropNode(l.RID)
			reason = store.Applied
		}
	})
	return reason, err
}

func (v view) dropNode(rid string) {
	if _, there := v.nodes[rid]; there {
		delete(v.nodes, rid)
		v.change = v.changes.next()
	}
}

// ListNodes implements store.Store.
func (s *Store) ListNodes(ctx context.Context, since uint64) (list store.NodeList, err error) {
	err = s.call(ctx, nil, func(v view) {
		list.Change = v.change
		if since == list.Change && since != 0 {
			return
		}
		list.Nodes = []store.Descriptor{}
		for _, rid := range slices.Sorted(maps.Keys(v.nodes)) {
			n := v.nodes[rid]
			d := n.Descriptor
			d.Passes = slices.Clone(d.Passes)
			d.ActorTypes, d.SpotTypes = slices.Clone(d.ActorTypes), slices.Clone(d.SpotTypes)
			d.Actors, d.Spots, _ = v.used(rid, n.gen, 0, "")
			d.LeaseLeft = v.left(n.process)
			list.Nodes = append(list.Nodes, d)
		}
	})
	return list, err
}

// placement is what a process would have to take.
type placement struct {
	kind    store.Kind
	typ     string
	members int  // that come with it
	created bool // it is new
	pass    string
}

// unplaceable says why the process cannot take it, else 0 and its descriptor.
func (v view) unplaceable(rid string, gen store.LeaseGen, p placement) (store.Reason, node) {
	n, there := v.nodes[rid]
	switch {
	case !there || n.gen != gen || n.State != store.Serving || v.refused(n.process) != 0,
		p.kind == store.Actor && n.EntrySpotID == "":
		return store.TargetUnavailable, n
	case n.Role != store.RoleServer || !n.hosts(p.kind, p.typ) || p.created && n.Weight == 0 && !n.Admits(p.pass):
		return store.TargetIncompatible, n
	case v.full(n, p):
		return store.CapacityExceeded, n
	}
	return 0, n
}

func (n node) hosts(kind store.Kind, typ string) bool {
	if kind == store.Actor {
		return slices.Contains(n.ActorTypes, typ)
	}
	return slices.ContainsFunc(n.SpotTypes, func(t store.SpotType) bool { return t.Kind == kind && t.Type == typ })
}

func (v view) full(n node, p placement) bool {
	over := func(limit, used, more int) bool { return limit > 0 && more > 0 && used+more > limit }
	actors, spots, ofType := v.used(n.rid, n.gen, p.kind, p.typ)
	if p.kind == store.Actor {
		return over(n.MaxActors, actors, 1)
	}
	for _, t := range n.SpotTypes {
		if t.Kind == p.kind && t.Type == p.typ && over(t.Max, ofType, 1) {
			return true
		}
	}
	return over(n.MaxSpots, spots, 1) || over(n.MaxActors, actors, p.members)
}
