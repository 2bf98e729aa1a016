package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// targets chooses where units go. What a node hosts is looked at once for each part and list;
// how much room it has, for each unit.
type targets struct {
	self    Self
	version string // that targets have
	nodes   []Node
	hurdles map[Part][]hurdle // for each node why it cannot have the part
	sent    map[Process]*sent
	shunned map[Process]clock.Mono // until when; of those that did not take a unit
}

// sent is what of an operation went to one node.
type sent struct {
	slots  room // of all that was sent
	flying room // of what is under way
	before int  // objects that it had before
}

// room is a number of places, or how many are taken.
type room struct{ actors, spots int }

func (r room) sum() int { return r.actors + r.spots }

func (r room) plus(o room, sign int) room {
	return room{r.actors + sign*o.actors, r.spots + sign*o.spots}
}

// hurdle is why a node is no target; the first that is found in this order.
type hurdle uint8

const (
	noHurdle hurdle = iota
	otherVersion
	notServing
	otherTypes
	sameWave
	notLinked
	isFull // and those before it are looked at first, as they do not depend on the unit
	didNotTake
	hurdleCount
)

var hurdleNames = [hurdleCount]string{
	otherVersion: "have another application version",
	notServing:   "do not serve, or take nothing new",
	otherTypes:   "do not host the types with the same policy",
	sameWave:     "are of the same maintenance wave",
	notLinked:    "are not linked",
	isFull:       "are full",
	didNotTake:   "did not take it a moment ago",
}

func newTargets(self Self, r Request) *targets {
	t := &targets{self: self, version: self.Version, sent: map[Process]*sent{}, shunned: map[Process]clock.Mono{}}
	if r.Mode == RollingUpdate {
		t.version = r.Version
	}
	return t
}

// list takes a newer list of nodes.
func (t *targets) list(nodes []Node) {
	t.nodes, t.hurdles = nodes, map[Part][]hurdle{}
}

func processOf(d *store.Descriptor) Process { return Process{d.RID, d.Lifecycle} }

// hurdle says why the node cannot have objects of the part.
func (t *targets) hurdle(d *Node, p *Part) hurdle {
	switch {
	case d.AppVersion != t.version:
		return otherVersion
	case d.State != store.Serving, d.Role != store.RoleServer, d.Mesh != t.self.Mesh, d.Weight <= 0, d.LeaseLeft <= 0:
		return notServing
	case !hosts(&d.Descriptor, p):
		return otherTypes
	case t.self.Wave != "" && d.Wave == t.self.Wave:
		return sameWave
	case !d.Linked:
		return notLinked
	}
	return noHurdle
}

// hosts reports whether the node makes objects of just that part.
func hosts(d *store.Descriptor, p *Part) bool {
	if p.Kind == store.Actor {
		return slices.Contains(d.ActorTypes, p.Type) && d.ActorPolicies[p.Type] == p.Policy
	}
	return slices.ContainsFunc(d.SpotTypes, func(s store.SpotType) bool {
		return s.Type == p.Type && s.Kind == p.Kind && s.Wide == p.Wide && s.Policy == p.Policy
	})
}

// ofPart returns the hurdles of all nodes.
func (t *targets) ofPart(p *Part) []hurdle {
	all, known := t.hurdles[*p]
	if !known {
		all = make([]hurdle, len(t.nodes))
		for i := range t.nodes {
			all[i] = t.hurdle(&t.nodes[i], p)
		}
		t.hurdles[*p] = all
	}
	return all
}

// placesOf is what a unit takes.
func placesOf(needs []Load) (r room) {
	for i := range needs {
		if needs[i].Kind == store.Actor {
			r.actors += needs[i].Count
		} else {
			r.spots += needs[i].Count
		}
	}
	return r
}

// free is how much more the node has room for, as far as is known; a negative number is none.
func (t *targets) free(d *Node) room {
	used := room{d.Actors, d.Spots}
	if s := t.sent[processOf(&d.Descriptor)]; s != nil {
		used = used.plus(s.flying, 1)
	}
	left := func(most, used int) int {
		if most == 0 {
			return store.SlotsMax
		}
		return most - used
	}
	return room{left(d.MaxActors, used.actors), left(d.MaxSpots, used.spots)}
}

// choose returns the node for a unit: of those that can have it, the one that has the fewest
// objects for its weight, with those that were sent there. It is -1 and says why if there is none.
func (t *targets) choose(now clock.Mono, needs []Load) (best int, why string) {
	places := placesOf(needs)
	best = -1
	var bestLoad int
	var met [hurdleCount]int
	for i := range t.nodes {
		d := &t.nodes[i]
		if d.RID == t.self.RID {
			continue
		}
		h := t.ofUnit(i, needs)
		if h == noHurdle {
			switch free := t.free(d); {
			case free.actors < places.actors, free.spots < places.spots:
				h = isFull
			case !now.Reached(t.shunned[processOf(&d.Descriptor)]):
				h = didNotTake
			}
		}
		if h != noHurdle {
			met[h]++
			continue
		}
		load := t.load(d) + places.sum()
		if best < 0 || load*t.nodes[best].Weight < bestLoad*d.Weight ||
			load*t.nodes[best].Weight == bestLoad*d.Weight && d.RID < t.nodes[best].RID {
			best, bestLoad = i, load
		}
	}
	if best < 0 {
		why = told(met)
	}
	return best, why
}

// ofUnit is the first hurdle of any part.
func (t *targets) ofUnit(node int, needs []Load) hurdle {
	first := hurdleCount
	for i := range needs {
		if h := t.ofPart(&needs[i].Part)[node]; h != noHurdle {
			first = min(first, h)
		}
	}
	if first == hurdleCount {
		return noHurdle
	}
	return first
}

// load is how many objects the node has, as counted from what it had before and was sent, or by
// a later list if that has more.
func (t *targets) load(d *Node) int {
	has := d.Actors + d.Spots
	if s := t.sent[processOf(&d.Descriptor)]; s != nil {
		return max(has, s.before+s.slots.sum())
	}
	return has
}

// lacks says of which load there is no room anywhere, in all of it; "" if there is for each.
func (t *targets) lacks(loads []Load) string {
	for i := range loads {
		l := &loads[i]
		room := 0
		var met [hurdleCount]int
		for j, h := range t.ofPart(&l.Part) {
			d := &t.nodes[j]
			if d.RID == t.self.RID {
				continue
			}
			free := t.free(d)
			places := free.spots
			if l.Kind == store.Actor {
				places = free.actors
			}
			if h == noHurdle && places <= 0 {
				h = isFull
			}
			if met[h]++; h == noHurdle {
				room += places
			}
		}
		switch {
		case room == 0:
			return fmt.Sprintf("%v type %q: %s", l.Kind, l.Type, told(met))
		case room < l.Count:
			return fmt.Sprintf("%v type %q: there is room for %d, and %d are here", l.Kind, l.Type, room, l.Count)
		}
	}
	return ""
}

// told says what the nodes that are no targets are.
func told(met [hurdleCount]int) string {
	var words []string
	for h, n := range met {
		if name := hurdleNames[h]; n > 0 && name != "" {
			words = append(words, fmt.Sprintf("%d %s", n, name))
		}
	}
	if words == nil {
		return "there is no other node"
	}
	return "of the other nodes " + strings.Join(words, ", ")
}

// sendTo counts a unit that goes to the node, which is one of the list.
func (t *targets) sendTo(to Process, needs []Load) {
	s := t.sent[to]
	if s == nil {
		i := slices.IndexFunc(t.nodes, func(d Node) bool { return processOf(&d.Descriptor) == to })
		s = &sent{before: t.nodes[i].Actors + t.nodes[i].Spots}
		t.sent[to] = s
	}
	places := placesOf(needs)
	s.slots, s.flying = s.slots.plus(places, 1), s.flying.plus(places, 1)
}

// unshun returns when the first of those that did not take a unit may be asked again.
func (t *targets) unshun(now clock.Mono) (at clock.Mono, some bool) {
	at = clock.Never
	for to, until := range t.shunned { // order does not matter
		if now.Reached(until) {
			delete(t.shunned, to)
			continue
		}
		at = min(at, until)
	}
	return at, at != clock.Never
}

// landed counts one that is there, or has not come.
func (t *targets) landed(to Process, needs []Load, came bool) {
	s, places := t.sent[to], placesOf(needs)
	if s.flying = s.flying.plus(places, -1); !came {
		s.slots = s.slots.plus(places, -1)
	}
}
