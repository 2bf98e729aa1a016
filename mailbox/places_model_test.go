package mailbox

import (
	"strings"
	"testing"
)

// The exploration of places.go and ready.go: 2 goroutines put 3
// mailboxes; 2 workers share 1 or 2 places and may wait inside a turn. The steps restate the
// code, one atomic action each; what the mutex encloses is one step.

const (
	parkPutters = 2
	parkWorkers = 2
)

// parkState is what the pool's words say and where everyone is.
type parkState struct {
	linked, counted int8 // mailboxes in the shard's queue; shard.n
	taking          bool
	vacant          int8
	searching       int8
	free            int8
	taken           int8 // mailboxes that were run
	put             [parkPutters]parker
	worker          [parkWorkers]parker
}

// parker is one goroutine.
type parker struct {
	pc, then  parkPC // then: where help returns to
	left      int8   // puts to do; turns in which a worker still may wait
	place     bool
	searching bool
	parked    bool // in the list of those whom help may hire
	woken     bool
}

type parkPC int8

const (
	pcGone  parkPC = iota // a worker that does not exist; a putter that is done
	pcLink                // shard.put
	pcCount               //
	pcPutVacant
	pcPutSearching

	pcHelpVacant // help
	pcHelpSearching
	pcHelpHire

	pcNext // a worker's loop: has a place or tries to get one
	pcTakeLook
	pcTakeLock
	pcTakePop
	pcTakeUnlock
	pcTakeUnlockNone
	pcTakeCount
	pcNothing  // found none: searches once more, or parks
	pcFound    // stops searching
	pcFoundAny // and looks
	pcTurn     // runs a mailbox
	pcLent     // waits inside the turn
	pcLentAny
	pcRegain
	pcStop // park: stops searching
	pcStopAny
	pcPark
	pcParkAny
	pcParked
	pcLeaveAny
)

// parkMutant names what a wrong version does.
type parkMutant int

const (
	parkRight         parkMutant = iota
	putReadsFirst                // a put reads vacant before it counts the mailbox
	parkDoesNotLook              // park does not look at the ready set afterwards
	lendDoesNotLook              // lend does not
	foundDoesNotLook             // the end of a search does not
	hireClearsOutside            // help that hires nobody clears searching outside the mutex
)

const pcHelpClear parkPC = 100 // of hireClearsOutside

func parkSystem(places int8, m parkMutant) system[parkState] {
	start := parkState{vacant: places, free: places}
	for i := range start.put {
		start.put[i] = parker{pc: pcLink, left: int8(2 - i)}
		if m == putReadsFirst {
			start.put[i].pc = pcPutVacant
		}
	}
	return system[parkState]{
		start: start,
		steps: func(s parkState) (out []step[parkState]) {
			for i := range s.put {
				n := s
				if what := n.putterStep(&n.put[i], m); what != "" {
					out = append(out, step[parkState]{[]string{"putter 0: ", "putter 1: "}[i] + what, n})
				}
			}
			for i := range s.worker {
				for choice := range 2 {
					n := s
					if what := n.workerStep(&n.worker[i], places, choice, m); what != "" {
						out = append(out, step[parkState]{[]string{"worker 0: ", "worker 1: "}[i] + what, n})
					}
				}
			}
			return out
		},
		always: func(s parkState) string {
			if s.vacant != s.free || s.searching < 0 || s.searching > 1 {
				return "the counts are wrong"
			}
			// Turns may last for ever.
			if s.counted > 0 && s.free > 0 && s.hireable() && s.quiet() {
				return "a mailbox waits and nobody looks"
			}
			return ""
		},
		atRest: func(s parkState) string {
			switch {
			case s.linked != 0 || s.counted != 0:
				return "a mailbox waits and nobody looks"
			case s.taken != 3:
				return "a mailbox was not run once"
			case s.searching != 0 || s.vacant != places:
				return "a search or a place is not given back"
			}
			return ""
		},
	}
}

func (s *parkState) putterStep(p *parker, m parkMutant) string {
	done := func() {
		p.left--
		switch {
		case p.left == 0:
			p.pc = pcGone
		case m == putReadsFirst:
			p.pc = pcPutVacant
		default:
			p.pc = pcLink
		}
	}
	switch p.pc {
	case pcLink:
		s.linked++
		p.pc = pcCount
		return "links"
	case pcCount:
		s.counted++
		if p.pc = pcPutVacant; m == putReadsFirst {
			if p.pc = pcPutSearching; !p.place { // place: it saw a vacancy
				done()
			}
		}
		return "counts"
	case pcPutVacant:
		switch {
		case m == putReadsFirst:
			p.place = s.vacant > 0
			p.pc = pcLink
		case s.vacant > 0:
			p.pc = pcPutSearching
		default:
			done()
		}
		return "reads vacant"
	case pcPutSearching:
		if s.searching == 0 {
			p.pc, p.then = pcHelpVacant, pcGone
		} else {
			done()
		}
		return "reads searching"
	case pcGone:
		return ""
	}
	what := s.helpStep(p, m)
	if p.pc == pcGone {
		done()
	}
	return what
}

// helpStep is help; it goes on at p.then.
func (s *parkState) helpStep(p *parker, m parkMutant) string {
	back := func() { p.pc, p.then = p.then, pcGone }
	switch p.pc {
	case pcHelpVacant:
		if p.pc = pcHelpSearching; s.vacant == 0 {
			back()
		}
		return "help reads vacant"
	case pcHelpSearching:
		if p.pc = pcHelpHire; s.searching == 1 {
			back()
		} else {
			s.searching = 1
		}
		return "help begins a search"
	case pcHelpHire:
		w := s.hire()
		if w == nil && m == hireClearsOutside {
			p.pc = pcHelpClear
			return "help finds nobody"
		}
		back()
		switch {
		case w != nil:
			w.searching, w.place, w.woken = true, true, true
			s.free--
			s.vacant--
			return "help wakes a worker"
		default:
			s.searching = 0
		}
		return "help finds nobody"
	case pcHelpClear:
		s.searching = 0
		back()
		return "help clears searching"
	}
	return ""
}

func (s *parkState) hire() *parker {
	if s.free == 0 {
		return nil
	}
	for i := range s.worker {
		if w := &s.worker[i]; w.parked {
			w.parked = false
			return w
		}
	}
	for i := range s.worker {
		if w := &s.worker[i]; w.pc == pcGone {
			w.pc, w.left = pcParked, int8(1-i) // the first one waits in one of its turns
			return w
		}
	}
	return nil
}

func (s *parkState) hireable() bool {
	for _, w := range s.worker {
		if w.parked || w.pc == pcGone {
			return true
		}
	}
	return false
}

// quiet reports whether nothing happens any more unless a turn ends.
func (s *parkState) quiet() bool {
	for _, p := range s.put {
		if p.pc != pcGone {
			return false
		}
	}
	for _, w := range s.worker {
		asleep := w.pc == pcGone || w.pc == pcParked && !w.woken
		if !asleep && w.pc != pcTurn && w.pc != pcRegain {
			return false
		}
	}
	return true
}

func (s *parkState) parked() (n int8) {
	for _, w := range s.worker {
		if w.parked {
			n++
		}
	}
	return n
}

func (s *parkState) workerStep(w *parker, places int8, choice int, m parkMutant) string {
	if choice == 1 && (w.pc != pcTurn || w.left == 0) {
		return ""
	}
	look := func(then parkPC, what string) string {
		if w.pc = then; s.counted > 0 {
			w.pc, w.then = pcHelpVacant, then
		}
		return what
	}
	switch w.pc {
	case pcGone:
		return ""
	case pcParked:
		if !w.woken {
			return ""
		}
		w.woken, w.pc = false, pcTakeLook
		return "wakes"
	case pcNext:
		if !w.place {
			if s.free == 0 {
				w.pc = pcStop
				return "finds no place"
			}
			w.place = true
			s.free--
			s.vacant--
		}
		w.pc = pcTakeLook
		return "has a place"
	case pcTakeLook:
		if w.pc = pcTakeLock; s.counted <= 0 {
			w.pc = pcNothing
		}
		return "looks at the shard"
	case pcTakeLock:
		if s.taking {
			w.pc = pcNothing
			return "meets another one"
		}
		s.taking, w.pc = true, pcTakePop
		return "locks the shard"
	case pcTakePop:
		if w.pc = pcTakeUnlockNone; s.linked > 0 {
			s.linked--
			w.pc = pcTakeUnlock
		}
		return "pops"
	case pcTakeUnlockNone:
		s.taking, w.pc = false, pcNothing
		return "unlocks"
	case pcTakeUnlock:
		s.taking, w.pc = false, pcTakeCount
		return "unlocks"
	case pcTakeCount:
		s.counted--
		w.pc = pcTurn
		if w.searching {
			w.pc = pcFound
		}
		return "counts down"
	case pcNothing:
		if !w.searching && s.searching == 0 {
			s.searching, w.searching = 1, true
			w.pc = pcTakeLook
			return "begins a search"
		}
		w.pc = pcStop
		return "gives up"
	case pcFound:
		w.searching, s.searching = false, 0
		if w.pc = pcFoundAny; m == foundDoesNotLook {
			w.pc = pcTurn
		}
		return "found one"
	case pcFoundAny:
		return look(pcTurn, "looks after the search")
	case pcTurn:
		if choice == 0 {
			s.taken++
			w.pc = pcNext
			return "runs a turn"
		}
		w.left--
		w.pc = pcLent
		return "waits in a turn"
	case pcLent:
		if w.place {
			w.place = false
			s.free++
			s.vacant++
		}
		if w.pc = pcLentAny; m == lendDoesNotLook {
			w.pc = pcRegain
		}
		return "lends its place"
	case pcLentAny:
		return look(pcRegain, "looks after lending")
	case pcRegain:
		if s.free > 0 {
			w.place = true
			s.free--
			s.vacant--
		}
		s.taken++
		w.pc = pcNext
		return "ends its wait"
	case pcStop:
		w.pc = pcPark
		if w.searching {
			w.searching, s.searching = false, 0
			w.pc = pcStopAny
		}
		return "stops searching"
	case pcStopAny:
		return look(pcPark, "looks after its search")
	case pcPark:
		stay := s.parked() < places
		if w.place {
			w.place = false
			s.free++
			s.vacant++
		}
		if stay {
			w.parked = true // so help may hire it before it has looked
			w.pc = pcParkAny
		} else {
			w.pc = pcLeaveAny
		}
		if m == parkDoesNotLook {
			if w.pc = pcParked; !stay {
				w.pc = pcGone
			}
		}
		return "parks or leaves"
	case pcParkAny:
		return look(pcParked, "looks after parking")
	case pcLeaveAny:
		return look(pcGone, "looks after leaving")
	}
	return s.helpStep(w, m)
}

func TestParkingHoldsInEveryInterleaving(t *testing.T) {
	for places := int8(1); places <= 2; places++ {
		states, wrong := parkSystem(places, parkRight).explore()
		if wrong != "" {
			t.Fatalf("%d places: %s", places, wrong)
		}
		t.Logf("%d places: %d states", places, states)
	}
}

func TestExplorationFindsEveryForgottenLook(t *testing.T) {
	for name, m := range map[string]parkMutant{
		"a put that reads first":      putReadsFirst,
		"a park that does not look":   parkDoesNotLook,
		"a lend that does not look":   lendDoesNotLook,
		"a find that does not look":   foundDoesNotLook,
		"a hire that clears too late": hireClearsOutside,
	} {
		_, wrong := parkSystem(1, m).explore()
		if wrong == "" {
			_, wrong = parkSystem(2, m).explore()
		}
		if !strings.Contains(wrong, "nobody looks") {
			t.Errorf("%s: found %q", name, wrong)
		}
	}
}
