package main

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// tally counts messages that did not arrive exactly once and in order.
type tally struct{ Lost, Duplicated, Reordered uint64 }

func (t *tally) add(o tally) {
	t.Lost += o.Lost
	t.Duplicated += o.Duplicated
	t.Reordered += o.Reordered
}

// gapsMax bounds the gaps that a sequence remembers. A number of a forgotten gap
// stays lost, and is a duplicate if it comes after all.
const gapsMax = 1024

// sequence judges a stream of numbers that should come as 1, 2, 3, …, each once.
// The zero value has seen nothing. Not safe for concurrent use.
//
// Invariant: gaps are the numbers below highest that have not come, ascending,
// without those of forgotten gaps.
type sequence struct {
	highest    uint64
	gaps       []gap
	forgotten  uint64
	duplicated uint64
	reordered  uint64
}

// gap is the numbers from first to last, both included.
type gap struct{ first, last uint64 }

// saw takes the next number of the stream.
func (s *sequence) saw(n uint64) {
	switch {
	case n == s.highest+1:
		s.highest = n
	case n > s.highest:
		s.skip(gap{s.highest + 1, n - 1})
		s.highest = n
	case s.fill(n):
		s.reordered++
	default:
		s.duplicated++
	}
}

func (s *sequence) skip(g gap) {
	if len(s.gaps) == gapsMax {
		s.forgotten += s.gaps[0].size()
		s.gaps = s.gaps[1:]
	}
	s.gaps = append(s.gaps, g)
}

// forgive takes all numbers up to n as seen.
func (s *sequence) forgive(n uint64) {
	s.gaps, s.forgotten, s.highest = nil, 0, max(s.highest, n)
}

// fill takes n out of the gap that it is in, or reports false.
func (s *sequence) fill(n uint64) bool {
	for i, g := range s.gaps {
		if n < g.first || n > g.last {
			continue
		}
		var rest []gap
		if n > g.first {
			rest = append(rest, gap{g.first, n - 1})
		}
		if n < g.last {
			rest = append(rest, gap{n + 1, g.last})
		}
		s.gaps = append(s.gaps[:i:i], append(rest, s.gaps[i+1:]...)...)
		return true
	}
	return false
}

func (g gap) size() uint64 { return g.last - g.first + 1 }

// seen returns what the stream looked like so far.
func (s *sequence) seen() seen {
	missing := s.forgotten
	for _, g := range s.gaps {
		missing += g.size()
	}
	return seen{Highest: s.highest, Missing: missing, Duplicated: s.duplicated, Reordered: s.reordered}
}

// seen is how a stream arrived. It travels as JSON, where 64-bit integers are
// decimal strings.
type seen struct {
	Highest    uint64 `json:"highest,string"`
	Missing    uint64 `json:"missing,string"`
	Duplicated uint64 `json:"duplicated,string"`
	Reordered  uint64 `json:"reordered,string"`
}

// sequenceState is a sequence on its way between two nodes.
type sequenceState struct {
	Seen seen        `json:"seen"`
	Gaps [][2]uint64 `json:"gaps"` // first and last of each
}

func (s *sequence) state() *sequenceState {
	t := &sequenceState{Seen: s.seen()}
	for _, g := range s.gaps {
		t.Gaps = append(t.Gaps, [2]uint64{g.first, g.last})
	}
	return t
}

func (t *sequenceState) sequence() sequence {
	s := sequence{highest: t.Seen.Highest, forgotten: t.Seen.Missing, duplicated: t.Seen.Duplicated, reordered: t.Seen.Reordered}
	for _, g := range t.Gaps {
		s.gaps = append(s.gaps, gap{g[0], g[1]})
		s.forgotten -= s.gaps[len(s.gaps)-1].size()
	}
	return s
}

// of judges the stream against the number of messages that were sent. One that
// nobody sent counts as a duplicate.
func (s seen) of(sent uint64) tally {
	t := tally{Lost: s.Missing, Duplicated: s.Duplicated, Reordered: s.Reordered}
	if s.Highest < sent {
		t.Lost += sent - s.Highest
	} else {
		t.Duplicated += s.Highest - sent
	}
	return t
}

// extend appends one operation to the hash chain of executed operations: equal
// chains mean the same operations in the same order.
func extend(chain, op uint64) uint64 {
	x := (chain ^ op) * 0x9e3779b97f4a7c15
	return x ^ x>>29
}

// ledger is everything that one bot knows of its messages. Operations, requests
// and one-way ones alike, are numbered from 1 in the order of sending, and the
// Actor must execute them in that order. The ledger does no I/O and reads no
// clock. Not safe for concurrent use.
type ledger struct {
	ops   uint64 // sent
	chain uint64 // the Actor's, once it has executed them all
	acts  uint64 // requests among the ops

	rid     string           // the node that ops are sent to, as far as is known
	open    map[uint64]entry // ops that wait for their answer, by number
	hop     *hopping         // that waits for its answer; nil: none
	replies sequence         // of acts
	refused uint64           // acts that ended with an error, or whose reply was lost with a gateway
	pushes  sequence

	// diverged is the first answer that does not fit what was sent.
	diverged error
}

// entry is an op that waits for its answer: a reply or a push.
type entry struct {
	sent
	chain uint64 // the Actor's when it has executed the op
	act   uint64 // its number among the requests; 0: one-way
	prior uint64 // the chain before it
}

// sent says when an op was sent, and to which node.
type sent struct {
	at  time.Time
	rid string
	hop *hopping // the Actor's, if it was asked for and not over; nil: none
}

// hopping is an op that has the Actor go somewhere else.
type hopping struct {
	op      uint64
	room    string // to go to; "": the Entry Spot
	crossed bool   // it has changed its node, once it is over
}

func newLedger() *ledger { return &ledger{open: map[uint64]entry{}} }

// begin numbers an op that is about to be sent.
func (l *ledger) begin(request bool, now time.Time) (op uint64) {
	l.ops++
	e := entry{prior: l.chain, sent: sent{now, l.rid, l.hop}}
	l.chain = extend(l.chain, l.ops)
	e.chain = l.chain
	if request {
		l.acts++
		e.act = l.acts
	}
	l.open[l.ops] = e
	return l.ops
}

// beginHop numbers an op that is to have the Actor go to a room. There is one at a time.
func (l *ledger) beginHop(room string, now time.Time) (op uint64) {
	op = l.begin(false, now)
	l.hop = &hopping{op: op, room: room}
	return op
}

// hopped takes the end of a hop, as pushed.
func (l *ledger) hopped(push uint64, a answer, crossed bool) (sent, bool) {
	if l.hop != nil && l.hop.op == a.op {
		l.hop.crossed = crossed
		l.hop = nil
	}
	return l.pushed(push, a)
}

// cancel takes back the newest op, which was not sent.
func (l *ledger) cancel() {
	e := l.open[l.ops]
	delete(l.open, l.ops)
	if l.hop != nil && l.hop.op == l.ops {
		l.hop = nil
	}
	l.chain = e.prior
	l.ops--
	if e.act != 0 {
		l.acts--
	}
}

// failed ends a request that has no reply, and will have none. An error may come
// before replies to earlier requests: what a node refuses has no turn to wait for.
func (l *ledger) failed(op uint64) sent {
	e := l.open[op]
	l.refused++
	delete(l.open, op)
	return e.sent
}

// replied takes the reply to the request that was sent as op, and returns when
// that was.
func (l *ledger) replied(op uint64, a answer) sent {
	e := l.open[op]
	delete(l.open, op)
	l.replies.saw(e.act)
	if a.op != op {
		l.diverge(fmt.Errorf("the reply to op %d is about op %d", op, a.op))
	}
	l.compare(op, e, a)
	return e.sent
}

// pushed takes a push, and returns when the op that caused it was sent; false if
// no op is waiting for it.
func (l *ledger) pushed(push uint64, a answer) (sent, bool) {
	l.pushes.saw(push)
	e, ok := l.open[a.op]
	if !ok || e.act != 0 {
		return sent{}, false
	}
	delete(l.open, a.op)
	l.compare(a.op, e, a)
	return e.sent, true
}

// compare checks what the Actor had executed up to op.
func (l *ledger) compare(op uint64, e entry, a answer) {
	if a.position != op || a.chain != e.chain {
		l.diverge(fmt.Errorf("op %d was executed at position %d with chain %016x, want position %d with chain %016x",
			op, a.position, a.chain, op, e.chain))
	}
}

func (l *ledger) diverge(err error) {
	if l.diverged == nil {
		l.diverged = err
	}
}

// settle compares what went between client and Actor with the Actor's own totals. An error
// is a difference that no single message accounts for.
func (l *ledger) settle(t totals) (tally, error) {
	sum := t.Ops.of(l.ops)
	sum.add(l.answers())
	sum.add(l.pushes.seen().of(t.Pushes))
	if l.diverged == nil && t.Chain != l.chain {
		l.diverge(fmt.Errorf("after %d ops the actor's chain is %016x, want %016x", l.ops, t.Chain, l.chain))
	}
	return sum, l.diverged
}

// answers judges the replies. An act that ended with an error is not lost: it has
// been counted as that.
func (l *ledger) answers() tally {
	t := l.replies.seen().of(l.acts)
	t.Lost -= min(t.Lost, l.refused)
	return t
}

// order is an op that is to be sent again.
type order struct {
	op      uint64
	request bool
	hop     *hopping // nil: it is none
}

// resume settles what was under way by a gateway that is lost. t is what the Actor said of
// itself when nothing was under way any more: answers to what it has executed are lost, and
// what it has not is returned, in the order in which it is to be sent again.
func (l *ledger) resume(t totals) (again []order) {
	l.pushes.forgive(t.Pushes)
	for _, op := range slices.Sorted(maps.Keys(l.open)) {
		e := l.open[op]
		switch {
		case op > t.Ops.Highest:
			o := order{op: op, request: e.act != 0}
			if l.hop != nil && l.hop.op == op {
				o.hop = l.hop
			}
			again = append(again, o)
		case op == t.Hop: // its answer comes when it is over
		default:
			delete(l.open, op)
			if e.act != 0 {
				l.refused++
			}
		}
	}
	if l.hop != nil && l.hop.op <= t.Ops.Highest && l.hop.op != t.Hop {
		l.hop = nil
	}
	return again
}

// abandon judges what can be judged of an Actor that is gone: what was on its way
// is not lost, but nothing may have come twice or out of order.
func (l *ledger) abandon() (tally, error) {
	sum := l.answers()
	pushes := l.pushes.seen()
	sum.add(pushes.of(pushes.Highest))
	sum.Lost = 0
	return sum, l.diverged
}

// ofNodes judges the messages of nodes to the Actor, and of the Actor to its arena. Each
// must come once. Those of one sender come in order as long as the route stays: overtaken
// counts those of an Actor which has moved that did not.
func (t *totals) ofNodes(v visited) (sum tally, overtaken uint64) {
	sum = t.Visits.of(v.sent)
	sum.Lost -= min(sum.Lost, v.unsure) // nobody was told that they arrived
	if !t.ArenaLost {
		sum.add(t.Arena.Reports.of(t.Reports))
		sum.add(t.Cheers.of(t.Arena.Cheers))
	}
	if t.Crossed > 0 {
		sum.Reordered, overtaken = 0, sum.Reordered
	}
	return sum, overtaken
}
