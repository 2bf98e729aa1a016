package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/store"
)

// This file is what a relocation sees of the node: what lives here, and what is under way.

// fixedNamed is how many objects that may not move are named before a relocation begins.
const fixedNamed = 100

// policyOf is a type's policy as descriptors have it.
func policyOf(t *ObjectType) uint8 { return uint8(t.Policy) }

func partOf(t *ObjectType) host.Part {
	return host.Part{Kind: t.Kind, Type: t.Name, Wide: t.Wide, Policy: policyOf(t)}
}

// resident reports whether the object is this node's, with a row.
func (c *objectCell) resident() bool {
	return c.stored && !c.dawn && !c.gone.Load() && c.tenure.Load() == owned
}

// lookAround is the look before a relocation changes anything.
func (n *Node) lookAround() host.Event {
	e := host.Event{Is: host.Looked}
	if n.store == nil || !n.hosts() {
		return e
	}
	e.Manual = len(n.home.cfg.Peers) > 0
	ctx, cancel := context.WithTimeout(n.life, storeCallMax)
	defer cancel()
	list, err := n.store.ListNodes(ctx, 0)
	switch {
	case err != nil:
		e.Failure = fromStore(err, opRelocate, n.cfg.RID).Error()
	case !n.mayAct(n.lately()):
		e.Failure = errNotOwner.Error()
	}
	e.Nodes = n.hostNodes(list.Nodes)
	counts := map[host.Part]int{}
	n.actors.Range(func(_ string, c *objectCell) bool {
		if !c.resident() {
			return true
		}
		counts[partOf(c.typ)]++
		if c.typ.Policy == Disable && len(e.Fixed) < fixedNamed {
			e.Fixed = append(e.Fixed, host.Unit{Kind: host.UnitKind(unitOf(c)), ID: c.ref.ID, Shell: host.NoShell})
		}
		return true
	})
	for part, count := range counts {
		e.Loads = append(e.Loads, host.Load{Part: part, Count: count})
	}
	return e
}

// takeInventory returns all units of the node, each object in one. Nothing new comes meanwhile.
func (n *Node) takeInventory() (units []host.Unit) {
	spots := map[*objectCell]int{}
	n.actors.Range(func(_ string, c *objectCell) bool {
		if c.resident() && c.typ.Kind != store.Actor {
			spots[c] = len(units)
			units = append(units, host.Unit{
				Kind: host.UnitKind(unitOf(c)), ID: c.ref.ID, Needs: []host.Load{{Part: partOf(c.typ), Count: 1}}, Shell: host.NoShell, Fixed: c.typ.Policy == Disable,
			})
		}
		return true
	})
	alone := map[*ObjectType][]host.Load{} // of an Actor, the same for all of a type
	n.actors.Range(func(_ string, c *objectCell) bool {
		if !c.resident() || c.typ.Kind != store.Actor {
			return true
		}
		u := host.Unit{Kind: host.Actor, ID: c.ref.ID, Shell: host.NoShell, Fixed: c.typ.Policy == Disable}
		if at, ok := spots[c.spot.Load()]; ok {
			s := &units[at]
			s.Needs = withOneMore(s.Needs, partOf(c.typ))
			s.Fixed = s.Fixed || u.Fixed
			if s.Kind == host.Wide {
				return true // it goes as a part of that
			}
			u.Shell = at
		}
		if u.Needs = alone[c.typ]; u.Needs == nil {
			u.Needs = []host.Load{{Part: partOf(c.typ), Count: 1}}
			alone[c.typ] = u.Needs
		}
		units = append(units, u)
		return true
	})
	return units
}

func withOneMore(loads []host.Load, p host.Part) []host.Load {
	for i := range loads {
		if loads[i].Part == p {
			loads[i].Count++
			return loads
		}
	}
	return append(loads, host.Load{Part: p, Count: 1})
}

// settleForRelocation returns when all that was under way here has ended, or ctx has. The Store
// knows that the node is Relocating, so it reserves nothing new here: once nothing is reserved and
// nothing of that runs, the table of objects is complete. A reservation of which the node was never
// told is run as one that it has been told of.
func (n *Node) settleForRelocation(ctx context.Context, tell func(host.Event)) {
	said, seen, looked := "", map[string]store.Version{}, time.Time{}
	for wait := createWaitMin; ; wait = min(2*wait, createWaitMax) {
		what, untold := n.underWay(ctx)
		if what == "" {
			tell(host.Event{Is: host.Settled})
			return
		}
		if what != said {
			said = what
			tell(host.Event{Is: host.Waits, Failure: what})
		}
		if untold && time.Since(looked) >= untoldEvery {
			seen, looked = n.continueReserved(seen), time.Now()
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// underWay says what of the node has not ended that may yet add to what lives here, or changes a
// membership; "" if nothing is. untold: some of that stands in the Store alone.
func (n *Node) underWay(ctx context.Context) (what string, untold bool) {
	var words []string
	count := func(what string, n int) {
		if n > 0 {
			words = append(words, fmt.Sprintf("%s: %d", what, n))
		}
	}
	count("joins", int(n.host.joins.Load()))
	count("creations", max(int(n.creations.inside.Load()), len(n.running.ids())))
	count("moves to here", n.moves.preparing.Len())
	if words == nil && n.store != nil && n.hosts() {
		reserved, err := n.held(ctx, store.HeldReserved)
		if err != nil {
			return "the Store does not answer", false
		}
		count("reservations", len(reserved))
		untold = len(reserved) > 0
	}
	if words == nil {
		dawns := 0
		n.actors.Range(func(_ string, c *objectCell) bool {
			if c.dawn {
				dawns++
			}
			return true
		})
		count("instance spots that come into being or end", dawns)
	}
	return strings.Join(words, ", "), untold
}
