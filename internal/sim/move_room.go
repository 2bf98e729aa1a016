package sim

import (
	"slices"

	"github.com/zlnode/zlnode/store"
)

// room is a User Spot at a process.
type room struct {
	cell
	wide    bool
	members int // and those to come; < 0: it is being closed

	to      place        // where it went
	found   bool         // it was stranded here, and is there: its members may follow, or leave
	closed  bool         // it came, and nothing of it runs yet
	claimed bool         // it moves, or is about to: nobody enters or leaves
	away    []memberAway // of a PerActor room that came, those that have yet to follow
	calm    func()       // waits for a moment at which no member has a turn; none begins meanwhile
}

// memberAway is a member that is still at the process from which its room came.
type memberAway struct {
	id  string
	gen store.ObjectGen
}

func (r *room) enter() bool {
	if r.members < 0 || r.gone || r.claimed || r.stuck != "" {
		return false
	}
	r.members++
	return true
}

func (r *room) leave() {
	r.members--
	if r.tenure == departed && r.stuck == "" && r.members == 0 { // the last that was still here
		r.end()
	}
}

// end ends the room at this process.
func (r *room) end() {
	r.gone = true
	if r.h.rooms[r.ref.id] == r {
		delete(r.h.rooms, r.ref.id)
	}
}

// here returns those of the members that are at this process.
func (r *room) here() (all []*actor) {
	for _, a := range r.h.cells() {
		if a.room == r && !a.gone {
			all = append(all, a)
		}
	}
	return all
}

// orphaned reports whether the room has gone to a process that is over, so that its members
// here cannot follow. They may leave it then.
func (r *room) orphaned() bool {
	return r.tenure == departed && r.stuck == "" && r.h.newest[r.to.RID] > r.to.Lifecycle
}

// visited reports whether somebody is about to enter or to leave.
func (r *room) visited() bool {
	here := r.here()
	return r.members != len(here)+len(r.away) || slices.ContainsFunc(here, func(a *actor) bool { return a.join != nil || a.rowRoom != r })
}

// takesPlace makes one that was away a member here, if it is one.
func (r *room) takesPlace(a *actor) bool {
	n := len(r.away)
	r.away = slices.DeleteFunc(r.away, func(m memberAway) bool { return m == memberAway{a.ref.id, a.ref.gen} })
	return len(r.away) < n
}

// recount has the Store asked about those that have yet to follow: one that was freed by hand
// never does.
func (r *room) recount() {
	for _, m := range r.away {
		r.h.read(nil, m.id, storeCallMax, func(row store.Authority, found bool, err error) {
			if err != nil || found && row.ObjectGen == m.gen && row.InUserSpot && row.SpotID == r.ref.id || r.gone {
				return
			}
			if n := len(r.away); n > 0 {
				r.away = slices.DeleteFunc(r.away, func(other memberAway) bool { return other == m })
				if len(r.away) < n {
					r.h.w.Cover.Mark("a member that never followed was counted out")
					r.leave()
				}
			}
		})
	}
}

// whenCalm runs f in one step in which no member has a turn.
func (r *room) whenCalm(f func()) {
	r.calm = f
	r.settle()
}

// settle is called when a turn of a member has ended.
func (r *room) settle() {
	if r.calm == nil || slices.ContainsFunc(r.here(), func(a *actor) bool { return a.busy || a.next != nil }) {
		return
	}
	f := r.calm
	r.calm = nil
	f()
	for _, a := range r.here() {
		a.wake()
	}
}
