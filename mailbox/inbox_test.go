package mailbox

import (
	"strings"
	"testing"
)

// The exploration of inbox: 2 producers push 3 messages (two and one), 2 workers
// claim, consume, rest, and may put the mailbox back after any turn. Each step is
// one atomic action; those on the word are done by inbox's own functions.

const (
	wordItems = 3
	wordIdle  = -1 // in wordState.head and .next: the state idle
	wordNone  = -2 // no node
)

// wordState is what producers and workers share and where each of them is. Nodes
// are named by the number of the message they carry.
type wordState struct {
	head  int8
	next  [wordItems]int8
	list  int8 // the mailbox's list, as links of next
	ready int8 // how often the mailbox is in the ready set
	done  [wordItems]int8
	order [2]int8 // the last message of each producer that was consumed

	producer [2]struct{ pc, item, old int8 }
	worker   [2]struct{ pc int8 }
}

// The pcs of producers and workers.
const (
	pushLooks = iota
	pushSwaps
	pushWakes
	pushed
)

const (
	workerOutside = iota
	workerRests   // take: tries to rest
	workerTakes   // take: something was there
	workerConsumes
	workerTurned // after a turn: goes on, or goes back
	workerBack   // back: nothing in the list, tries to rest
	workerPuts   // back: puts the mailbox into the ready set
)

// messages of each producer
var wordPlan = [2][]int8{{0, 1}, {2}}

// word lets f run on a real inbox in the state that s describes, and takes the
// outcome over into s.
func (s *wordState) word(f func(b *inbox[int8], node func(int8) *Slot[int8])) {
	var idle Slot[int8]
	var nodes [wordItems]Slot[int8]
	at := func(i int8) *Slot[int8] {
		switch i {
		case wordIdle:
			return &idle
		case wordNone:
			return nil
		}
		return &nodes[i]
	}
	name := func(n *Slot[int8]) int8 {
		if n == nil {
			return wordNone
		}
		if n == &idle {
			return wordIdle
		}
		return n.V
	}
	for i := range nodes {
		nodes[i].V = int8(i)
		nodes[i].next = at(s.next[i])
	}
	var b inbox[int8]
	b.head.Store(at(s.head))
	f(&b, at)
	s.head = name(b.head.Load())
	for i := range nodes {
		s.next[i] = name(nodes[i].next)
	}
}

// wordSystem is the system with rest as the last step of a claim.
func wordSystem(rest func(b *inbox[int8], idle *Slot[int8]) bool) system[wordState] {
	start := wordState{head: wordIdle, list: wordNone, order: [2]int8{-1, -1}}
	for i := range start.next {
		start.next[i] = wordNone
	}
	for p := range start.producer {
		start.producer[p].old = wordNone
	}
	return system[wordState]{
		start: start,
		steps: func(s wordState) (out []step[wordState]) {
			for p := range s.producer {
				out = append(out, s.produce(p)...)
			}
			for w := range s.worker {
				out = append(out, s.work(w, rest)...)
			}
			return out
		},
		always: wordState.always,
		atRest: wordState.atRest,
	}
}

func (s wordState) produce(who int) (out []step[wordState]) {
	p := &s.producer[who]
	name := []string{"producer 0 ", "producer 1 "}[who]
	switch p.pc {
	case pushLooks:
		if int(p.item) == len(wordPlan[who]) {
			return nil
		}
		p.old, p.pc = s.head, pushSwaps
		return []step[wordState]{{name + "looks", s}}
	case pushSwaps:
		item, old := wordPlan[who][p.item], p.old
		ok := false
		s.word(func(b *inbox[int8], node func(int8) *Slot[int8]) {
			ok = b.tryPush(node(old), node(item), node(wordIdle))
		})
		switch {
		case !ok:
			p.pc = pushLooks
		case old == wordIdle:
			p.pc = pushWakes
		default:
			p.pc = pushed
		}
		name += "swaps"
	case pushWakes:
		s.ready++
		p.pc = pushed
		name += "puts into the ready set"
	}
	if p.pc == pushed {
		p.pc, p.old = pushLooks, wordNone
		p.item++
	}
	return []step[wordState]{{name, s}}
}

func (s wordState) work(who int, rest func(*inbox[int8], *Slot[int8]) bool) (out []step[wordState]) {
	name := []string{"worker 0 ", "worker 1 "}[who]
	to := func(what string, pc int8) step[wordState] {
		n := s
		n.worker[who].pc = pc
		return step[wordState]{name + what, n}
	}
	tryRest := func() (ok bool) {
		s.word(func(b *inbox[int8], node func(int8) *Slot[int8]) { ok = rest(b, node(wordIdle)) })
		return ok
	}
	switch s.worker[who].pc {
	case workerOutside:
		if s.ready > 0 {
			s.ready--
			if s.list != wordNone {
				return append(out, to("claims", workerConsumes))
			}
			return append(out, to("claims", workerRests))
		}
	case workerRests:
		if tryRest() {
			return append(out, to("rests", workerOutside))
		}
		return append(out, to("cannot rest", workerTakes))
	case workerTakes:
		s.word(func(b *inbox[int8], _ func(int8) *Slot[int8]) {
			first := oldestFirst(b.takeAll())
			if s.list = wordNone; first != nil {
				s.list = first.V
			}
		})
		return append(out, to("takes all", workerConsumes))
	case workerConsumes:
		item := s.list
		if item < 0 {
			s.done[0] = 100 // took nothing, though it had seen something
			return append(out, to("has nothing", workerOutside))
		}
		s.list = s.next[item]
		s.next[item] = wordNone
		s.done[item]++
		from := 0
		if item == wordPlan[1][0] {
			from = 1
		}
		if item <= s.order[from] {
			s.done[item] = 100
		}
		s.order[from] = item
		return append(out, to("consumes", workerTurned))
	case workerTurned:
		if s.list != wordNone {
			return append(out, to("goes on", workerConsumes), to("stops", workerPuts))
		}
		return append(out, to("goes on", workerRests), to("stops", workerBack))
	case workerBack:
		if tryRest() {
			return append(out, to("rests", workerOutside))
		}
		return append(out, to("cannot rest", workerPuts))
	case workerPuts:
		s.ready++
		return append(out, to("puts back", workerOutside))
	}
	return out
}

func (s wordState) always() string {
	holders := s.ready
	for _, w := range s.worker {
		if w.pc != workerOutside {
			holders++
		}
	}
	for _, p := range s.producer {
		if p.pc == pushWakes {
			holders++
		}
	}
	for _, d := range s.done {
		if d > 1 {
			return "a message is consumed twice or out of order"
		}
	}
	if holders > 1 {
		return "two hold the mailbox"
	}
	return ""
}

func (s wordState) atRest() string {
	for _, d := range s.done {
		if d != 1 {
			return "asleep with messages"
		}
	}
	if s.head != wordIdle || s.list != wordNone {
		return "not idle at the end"
	}
	return ""
}

func TestWakeUpHoldsInEveryInterleaving(t *testing.T) {
	states, wrong := wordSystem((*inbox[int8]).tryRest).explore()
	if wrong != "" {
		t.Fatal(wrong)
	}
	if states < 500 {
		t.Errorf("only %d states: the system does not do what it should", states)
	}
	t.Logf("%d states", states)
}

func TestExplorationFindsARestWithoutTheReCheck(t *testing.T) {
	_, wrong := wordSystem(func(b *inbox[int8], idle *Slot[int8]) bool {
		b.head.Store(idle)
		return true
	}).explore()
	if !strings.Contains(wrong, "asleep with messages") && !strings.Contains(wrong, "two hold") {
		t.Errorf("found %q", wrong)
	}
}

func TestExplorationFindsAClaimThatDoesNotEnd(t *testing.T) {
	_, wrong := wordSystem(func(b *inbox[int8], _ *Slot[int8]) bool {
		return b.head.Load() == nil // ends the claim, but leaves the word as it is
	}).explore()
	if !strings.Contains(wrong, "asleep with messages") && !strings.Contains(wrong, "not idle") {
		t.Errorf("found %q", wrong)
	}
}
