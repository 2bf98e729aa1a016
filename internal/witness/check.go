package witness

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Log is what one process has written.
type Log struct {
	Process string
	Records []Record
	Died    time.Duration // no sooner than it did; 0: it ended in order, or lives
}

// Rules say what the faults of a run allow.
type Rules struct {
	// Lossy: links were lost, or a process without its lease: one-way messages on their way
	// may be gone.
	Lossy bool
	// Faultless: nothing may fail.
	Faultless bool
	// JoinsFail: but Joins may, also if it is Faultless: nodes were relocated, and what is about
	// to be moved by its node, or would come to one, is refused.
	JoinsFail bool
	// Freed has the objects that were at no node in the end, and were freed by hand: what they
	// had is lost, and their last Join has no end.
	Freed []string
}

// Violation is a promise that was broken.
type Violation struct{ Invariant, Text string }

// String returns both.
func (v Violation) String() string { return v.Invariant + ": " + v.Text }

// object is one incarnation.
type object struct {
	id  string
	gen uint64
}

func (o object) String() string { return fmt.Sprintf("%s (incarnation %d)", o.id, o.gen) }

// tenure is an incarnation at one owner.
type tenure struct {
	object
	owner uint64
}

func (t tenure) String() string { return fmt.Sprintf("%v at owner generation %d", t.object, t.owner) }

// event is a record with its process. One without a kind is the process's death.
type event struct {
	Record
	process int
}

func (e *event) object() object { return object{e.Object, e.ObjGen} }
func (e *event) tenure() tenure { return tenure{e.object(), e.OwnerGen} }

// message says whether the turn is that of a message.
func (e *event) message() bool { return e.Op != Op{} }

// history is all that happened, in order.
type history struct {
	logs   []Log
	rules  Rules
	events []event
	// touched has the objects of which a process that died has a record, and those that were
	// freed: what is lost of them may be lost with it.
	touched map[string]bool
	found   []Violation
}

// Check merges the logs and returns what is broken, no more than some hundred.
func Check(logs []Log, rules Rules) []Violation {
	h := merge(logs)
	h.rules = rules
	for _, id := range rules.Freed {
		h.touched[id] = true
	}
	h.oneExecutor()
	h.boundOrder()
	h.messages()
	h.boundary()
	h.joins()
	h.callbacks()
	h.state()
	h.vacated()
	return h.found
}

// Story returns how an object went in the end, for people.
func Story(logs []Log, object string) string {
	h := merge(logs)
	return h.story(object, Op{0xff})
}

func merge(logs []Log) *history {
	h := &history{logs: logs, touched: map[string]bool{}}
	for p, l := range logs {
		for _, r := range l.Records {
			h.events = append(h.events, event{r, p})
			if l.Died != 0 {
				h.touched[r.Object] = true
			}
		}
		if l.Died != 0 {
			h.events = append(h.events, event{Record{At: l.Died}, p})
		}
	}
	slices.SortStableFunc(h.events, func(a, b event) int { return cmp.Compare(a.At, b.At) })
	return h
}

const violationsMax = 200

func (h *history) broken(invariant, format string, args ...any) {
	if len(h.found) < violationsMax {
		h.found = append(h.found, Violation{invariant, fmt.Sprintf(format, args...)})
	}
}

func (h *history) by(e *event) string {
	return fmt.Sprintf("%s (at %v)", h.logs[e.process].Process, e.At)
}

// oneExecutor is I1.
func (h *history) oneExecutor() {
	open, running := map[object]*event{}, map[object]*event{}
	end := func(of map[object]*event, process int) {
		for o, e := range of {
			if e.process == process {
				delete(of, o)
			}
		}
	}
	for i := range h.events {
		e := &h.events[i]
		o := e.object()
		switch e.Kind {
		case 0:
			end(open, e.process)
			end(running, e.process)
		case GateOpened:
			if was := open[o]; was != nil && was.process != e.process {
				h.broken("I1", "%v is opened by %s while it is open at %s", o, h.by(e), h.by(was))
			}
			open[o] = e
		case GateClosed:
			if was := open[o]; was != nil && was.process == e.process {
				delete(open, o)
			}
		case TurnBegan:
			if was := running[o]; was != nil {
				h.broken("I1", "a turn of %v begins at %s while one runs at %s", o, h.by(e), h.by(was))
			}
			running[o] = e
		case TurnEnded:
			if was := running[o]; was != nil && was.process == e.process {
				delete(running, o)
			}
		default:
		}
	}
}

// boundOrder is I2.
func (h *history) boundOrder() {
	last := map[object]map[uint64]*event{}
	for i := range h.events {
		e := &h.events[i]
		if e.Kind != TurnBegan || e.Op.Sender()&BoundSender == 0 {
			continue
		}
		o := e.object()
		if last[o] == nil {
			last[o] = map[uint64]*event{}
		}
		if was := last[o][e.Op.Sender()]; was != nil && was.Op.Seq() >= e.Op.Seq() {
			h.broken("I2", "%v executes message %d of client %x at %s behind message %d at %s",
				o, e.Op.Seq(), e.Op.Sender(), h.by(e), was.Op.Seq(), h.by(was))
		}
		last[o][e.Op.Sender()] = e
	}
}

// boundary is I4.
func (h *history) boundary() {
	type place struct {
		tenure
		process int
	}
	crossed := map[place]*event{}
	for i := range h.events {
		e := &h.events[i]
		at := place{e.tenure(), e.process}
		switch e.Kind {
		case Boundary:
			crossed[at] = e
		case TurnBegan, GateOpened:
			if was := crossed[at]; was != nil {
				h.broken("I4", "%v of %v at %s, which has crossed the boundary at %v", e.Kind, at.tenure, h.by(e), was.At)
			}
		default:
		}
	}
}

// state is I14.
func (h *history) state() {
	count := map[object]uint32{}
	for i := range h.events {
		e := &h.events[i]
		if e.Kind != Executed || e.Count == 0 {
			continue
		}
		o := e.object()
		if e.Count != count[o]+1 {
			h.broken("I14", "%v has executed %d messages at %s, and %d before", o, e.Count, h.by(e), count[o])
		}
		count[o] = e.Count
	}
}

// vacated is I16.
func (h *history) vacated() {
	left := map[int]*event{}
	for i := range h.events {
		e := &h.events[i]
		switch e.Kind {
		case Vacated:
			left[e.process] = e
		case TurnBegan, GateOpened:
			was := left[e.process]
			if was != nil && (e.Kind != TurnBegan || e.message()) {
				h.broken("I16", "%v of %v at %s, which all had left at %v", e.Kind, e.tenure(), h.by(e), was.At)
			}
		default:
		}
	}
}
