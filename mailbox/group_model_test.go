package mailbox

import (
	"slices"
	"strings"
	"testing"
)

// The exploration of group.go: a producer makes 3 members ready and 3 workers run them.
// The first turn of each of two workers may yield; the third is left to run the others,
// as Pool sees to. Such a turn gives the claim up and comes back, by claiming an idle
// group or as a member of it. The steps restate the code, one atomic action each; which
// of the waiting members runs is left open.

const (
	groupIdle  = -1 // groupState.word: nobody holds the claim, nothing waits
	groupItems = 3  // bits 0 to 2 are members, 3 and 4 the turns of workers 0 and 1
)

type groupState struct {
	word  int8 // groupIdle, or the items pushed
	list  int8 // the items taken
	ready int8 // how often the group is in the ready set
	ran   [groupItems]int8

	push struct {
		item int8
		pc   groupPC
	}
	worker [3]struct {
		pc      groupPC
		yielded bool // it has had its Yield
	}
}

type groupPC int8

const (
	groupOutside groupPC = iota
	groupTakes           // holds the claim, looks for an item
	groupTurned          // after a turn: goes on or goes back
	groupBack            // back: tries to rest
	groupPuts            // puts the group into the ready set
	groupYields          // back, in the middle of a turn
	groupYieldPuts
	groupEnters // after its wait
	groupWakes  // its push made the group ready
	groupWaits  // as a member, for the claim
)

func groupSystem(claim func(*groupState) bool) system[groupState] {
	return system[groupState]{
		start: groupState{word: groupIdle},
		steps: func(s groupState) (out []step[groupState]) {
			out = append(out, s.produce()...)
			for w := range s.worker {
				out = append(out, s.work(w, claim)...)
			}
			return out
		},
		always: groupState.always,
		atRest: groupState.atRest,
	}
}

// add pushes an item and reports whether the group has become ready by it.
func (s *groupState) add(item int8) (wake bool) {
	if wake = s.word == groupIdle; wake {
		s.word = 0
	}
	s.word |= 1 << item
	return wake
}

func (s groupState) produce() []step[groupState] {
	switch {
	case s.push.pc == groupPuts:
		s.ready++
		s.push.pc = groupOutside
		return []step[groupState]{{"producer puts", s}}
	case s.push.item < groupItems:
		if s.add(s.push.item) {
			s.push.pc = groupPuts
		}
		s.push.item++
		return []step[groupState]{{"producer pushes", s}}
	}
	return nil
}

func (s groupState) work(who int, claim func(*groupState) bool) (out []step[groupState]) {
	w := &s.worker[who]
	to := func(what string, pc groupPC) {
		n := s
		n.worker[who].pc = pc
		out = append(out, step[groupState]{[]string{"worker 0 ", "worker 1 ", "worker 2 "}[who] + what, n})
	}
	rest := func() bool {
		if s.list == 0 && s.word == 0 {
			s.word = groupIdle
			return true
		}
		return false
	}
	switch w.pc {
	case groupOutside:
		if s.ready > 0 {
			s.ready--
			to("claims", groupTakes)
		}
	case groupTakes:
		if s.list == 0 {
			if rest() {
				to("rests", groupOutside)
				return out
			}
			s.list, s.word = s.word, 0
		}
		for item := range int8(groupItems + 2) {
			if s.list&(1<<item) == 0 {
				continue
			}
			before := s
			s.list &^= 1 << item
			if item < groupItems {
				s.ran[item]++
				to("runs a member", groupTurned)
				if !w.yielded && who < 2 {
					w.yielded = true
					to("runs a member, which yields", groupYields)
				}
			} else {
				s.worker[item-groupItems].pc = groupTurned
				to("hands the claim on", groupOutside)
			}
			s = before
		}
	case groupTurned:
		to("goes on", groupTakes)
		to("stops", groupBack)
	case groupBack, groupYields:
		rests, puts := groupOutside, groupPuts
		if w.pc == groupYields {
			rests, puts = groupEnters, groupYieldPuts
		}
		if rest() {
			to("rests", rests)
		} else {
			to("cannot rest", puts)
		}
	case groupPuts:
		s.ready++
		to("puts back", groupOutside)
	case groupYieldPuts:
		s.ready++
		to("puts back", groupEnters)
	case groupEnters:
		if claim(&s) {
			to("claims the idle group", groupTurned)
		} else if s.add(int8(groupItems + who)) {
			to("wants the claim", groupWakes)
		} else {
			to("wants the claim", groupWaits)
		}
	case groupWakes:
		s.ready++
		to("puts the group", groupWaits)
	}
	return out
}

// claimsIdle is inbox.claim.
func claimsIdle(s *groupState) bool {
	if s.word != groupIdle {
		return false
	}
	s.word = 0
	return true
}

func (s groupState) always() string {
	holders := s.ready
	for _, w := range s.worker {
		switch w.pc {
		case groupTakes, groupTurned, groupBack, groupPuts, groupYields, groupYieldPuts, groupWakes:
			holders++
		}
	}
	if s.push.pc == groupPuts {
		holders++
	}
	switch {
	case holders > 1:
		return "two hold the group"
	case holders == 0 && s.word != groupIdle:
		return "asleep with members that wait"
	case slices.Max(s.ran[:]) > 1:
		return "a member ran twice"
	}
	return ""
}

func (s groupState) atRest() string {
	for _, w := range s.worker {
		if w.pc != groupOutside {
			return "a turn never gets the gate again"
		}
	}
	if s.ran != [groupItems]int8{1, 1, 1} {
		return "a member never ran"
	}
	return ""
}

func TestYieldHoldsInEveryInterleaving(t *testing.T) {
	states, wrong := groupSystem(claimsIdle).explore()
	if wrong != "" {
		t.Fatal(wrong)
	}
	if states < 500 {
		t.Errorf("only %d states: the system does not do what it should", states)
	}
	t.Logf("%d states", states)
}

func TestExplorationFindsAClaimOfAGroupThatIsHeld(t *testing.T) {
	_, wrong := groupSystem(func(s *groupState) bool {
		if s.word > 0 { // members wait, and somebody is on the way to them
			return false
		}
		s.word = 0
		return true
	}).explore()
	if !strings.Contains(wrong, "two hold") {
		t.Errorf("found %q", wrong)
	}
}
