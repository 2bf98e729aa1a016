package sim

import (
	"container/heap"
	"fmt"
	"strings"
	"time"
)

// event is something that happens to a process, or to the world if to is nil.
type event struct {
	at  time.Duration
	tie byte   // among those of one moment, from the tape
	seq uint64 // among those of one tie, as they were made
	to  *process
	run func()
}

type queue []event

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	a, b := &q[i], &q[j]
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.tie != b.tie:
		return a.tie < b.tie
	}
	return a.seq < b.seq
}

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(event)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}

// kernel is virtual time: what happens next, and what has happened.
type kernel struct {
	*Tape
	now    time.Duration
	events queue
	seq    uint64
	steps  int
	log    log
	failed *Violation // the first
}

// stepsMax is far beyond what a history takes: a machine that asks to be called again and
// again at one moment ends there.
const stepsMax = 400_000

// post has something happen after a while. A process that is dead by then gets nothing,
// one that is paused gets it when it goes on.
func (k *kernel) post(after time.Duration, to *process, run func()) {
	k.seq++
	heap.Push(&k.events, event{k.now + max(after, 0), byte(k.choose(4)), k.seq, to, run})
}

// pop takes the next event, if it is not later than until.
func (k *kernel) pop(until time.Duration) (event, bool) {
	if k.failed != nil || len(k.events) == 0 || k.events[0].at > until {
		return event{}, false
	}
	if k.steps++; k.steps > stepsMax {
		k.fail("I12", "no end after %d steps", k.steps)
		return event{}, false
	}
	e := heap.Pop(&k.events).(event)
	k.now = e.at
	return e, true
}

// Violation is an invariant that did not hold.
type Violation struct {
	ID   string // of the invariant
	Text string
}

func (v *Violation) String() string { return v.ID + ": " + v.Text }

// fail ends the run.
func (k *kernel) fail(id, format string, args ...any) {
	if k.failed == nil {
		k.failed = &Violation{id, fmt.Sprintf(format, args...)}
		k.note(nil, "VIOLATED", id, k.failed.Text, 0)
	}
}

// log is a hash of all transitions, and if keep is set their last lines.
type log struct {
	hash  uint64
	keep  int
	lines []string
}

// logColumn is the width of a node's column.
const logColumn = 30

// note tells of a transition at a process, or at the Store if it is nil.
func (k *kernel) note(p *process, what, object, detail string, n uint64) {
	node := 0
	if p != nil {
		node = p.slot + 1
	}
	h := k.log.hash ^ uint64(k.now) ^ uint64(node)<<56 ^ n<<32
	for _, s := range [...]string{what, object, detail} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
		h *= 1099511628211
	}
	if k.log.hash = h; k.log.keep == 0 {
		return
	}
	who := "store"
	if p != nil {
		who = p.name()
	}
	line := fmt.Sprintf("%12s %s%s: %s", k.now.Round(time.Microsecond), strings.Repeat(" ", node*logColumn), who, what)
	for _, s := range [...]string{object, detail} {
		if s != "" {
			line += " " + s
		}
	}
	if n != 0 {
		line += fmt.Sprintf(" #%d", n)
	}
	if k.log.lines = append(k.log.lines, line); len(k.log.lines) > 2*k.log.keep {
		k.log.lines = append(k.log.lines[:0], k.log.lines[k.log.keep:]...)
	}
}
