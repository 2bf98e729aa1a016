package node

import (
	"slices"
	"sync"

	"github.com/zlnode/zlnode/internal/balance"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// typeKey names a stable type: those of Actors, of User and of Instance Spots are apart.
type typeKey struct {
	kind store.Kind
	name string
}

// mayHost reports whether d can be asked to host an object of the stable type
// (CR-03). The Store checks it again in the reservation.
func mayHost(d *store.Descriptor, mesh string, typ typeKey) bool {
	return d.Weight > 0 && serves(d, mesh, typ)
}

// serves is mayHost for an object that is let in whatever the weight is.
func serves(d *store.Descriptor, mesh string, typ typeKey) bool {
	if d.Mesh != mesh || d.Role != store.RoleServer || d.State != store.Serving || d.LeaseLeft <= 0 {
		return false
	}
	if typ.kind == store.Actor {
		return slices.Contains(d.ActorTypes, typ.name)
	}
	return spotTypeOf(d, typ) != nil
}

// spotTypeOf returns what d publishes of a type of Spots, or nil.
func spotTypeOf(d *store.Descriptor, typ typeKey) *store.SpotType {
	for i := range d.SpotTypes {
		if t := &d.SpotTypes[i]; t.Kind == typ.kind && t.Type == typ.name {
			return t
		}
	}
	return nil
}

// hasRoom reports whether the Store counted a free slot for an object of that kind when
// the list was read. What is left for one type of Spots only the Store knows.
func hasRoom(d *store.Descriptor, kind store.Kind) bool {
	if kind == store.Actor {
		return d.MaxActors == 0 || d.Actors < d.MaxActors
	}
	return d.MaxSpots == 0 || d.Spots < d.MaxSpots
}

type choosers struct {
	mu sync.Mutex
	by map[chooserKey]*balance.Chooser
}

type chooserKey struct {
	mesh string
	typeKey
}

// chooseTarget picks a node of the mesh for a stable type: of those that may host it, have
// room, and are this node or linked to it, by smooth weighted round robin. Nodes whose Cordon
// has the pass, a digest, go before them, in turn. Where none has room the list may be old, as it
// is read again only now and then for the room alone: then one is picked all the same, and the
// Store says whether it is full.
func (n *Node) chooseTarget(mesh string, typ typeKey, refused map[string]bool, pass string) (store.Descriptor, *Error) {
	if d, there := n.chooseAdmitting(mesh, typ, refused, pass); there {
		return d, nil
	}
	var candidates, full []store.Descriptor
	hosts := 0
	for _, d := range n.discovery.nodes() {
		if !mayHost(&d, mesh, typ) || refused[d.RID] || d.RID == n.cfg.RID && n.relocates() {
			continue
		}
		hosts++
		switch {
		case !n.reaches(&d):
		case hasRoom(&d, typ.kind):
			candidates = append(candidates, d)
		default:
			full = append(full, d)
		}
	}
	if len(candidates) == 0 {
		candidates = full
	}
	offered := make([]balance.Candidate, len(candidates))
	for i := range candidates {
		offered[i] = balance.Candidate{Name: candidates[i].RID, Weight: candidates[i].Weight}
	}
	n.choosers.mu.Lock()
	defer n.choosers.mu.Unlock()
	key := chooserKey{mesh, typ}
	c := balance.New(offered, n.choosers.by[key])
	if i := c.Next(); i >= 0 {
		n.choosers.by[key] = c
		return candidates[i], nil
	}
	delete(n.choosers.by, key)
	if hosts == 0 {
		return store.Descriptor{}, fail(errkind.Unavailable, opCreate, "", "no serving node hosts a type %q of kind %v", typ.name, typ.kind)
	}
	return store.Descriptor{}, fail(errkind.Unavailable, opCreate, "", "no node that hosts type %q is linked yet", typ.name)
}

// reaches reports whether the node is this one or linked to it.
func (n *Node) reaches(d *store.Descriptor) bool {
	if d.RID == n.cfg.RID {
		return true
	}
	l, _ := n.linkTo(d.Mesh, d.RID, uint64(d.Lifecycle))
	return l != nil
}

// chooseAdmitting picks one of the nodes that are cordoned and admit who has the pass.
func (n *Node) chooseAdmitting(mesh string, typ typeKey, refused map[string]bool, pass string) (store.Descriptor, bool) {
	var candidates []store.Descriptor
	if pass != "" {
		for _, d := range n.discovery.nodes() {
			if d.Admits(pass) && serves(&d, mesh, typ) && !refused[d.RID] && hasRoom(&d, typ.kind) && n.reaches(&d) {
				candidates = append(candidates, d)
			}
		}
	}
	if len(candidates) == 0 {
		return store.Descriptor{}, false
	}
	return candidates[n.admitted.Add(1)%uint64(len(candidates))], true
}
