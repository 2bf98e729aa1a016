package main

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestASequenceCountsWhatIsLostDoubledAndOutOfOrder(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream []uint64
		sent   uint64
		want   tally
	}{
		{"nothing sent", nil, 0, tally{}},
		{"all in order", []uint64{1, 2, 3}, 3, tally{}},
		{"none came", nil, 3, tally{Lost: 3}},
		{"the first is lost", []uint64{2, 3}, 3, tally{Lost: 1}},
		{"the middle is lost", []uint64{1, 4, 5}, 5, tally{Lost: 2}},
		{"the end is lost", []uint64{1, 2}, 4, tally{Lost: 2}},
		{"one doubled", []uint64{1, 2, 2, 3}, 3, tally{Duplicated: 1}},
		{"an old one again", []uint64{1, 2, 3, 1}, 3, tally{Duplicated: 1}},
		{"two swapped", []uint64{1, 3, 2, 4}, 4, tally{Reordered: 1}},
		{"two late ones of a gap", []uint64{1, 5, 3, 2}, 5, tally{Lost: 1, Reordered: 2}},
		{"a late one doubled", []uint64{2, 1, 1}, 2, tally{Reordered: 1, Duplicated: 1}},
		{"more than was sent", []uint64{1, 2, 3}, 2, tally{Duplicated: 1}},
		{"a number that does not exist", []uint64{0, 1}, 1, tally{Duplicated: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s sequence
			for _, n := range c.stream {
				s.saw(n)
			}
			if got := s.seen().of(c.sent); got != c.want {
				t.Errorf("%v of %d sent: %+v, want %+v", c.stream, c.sent, got, c.want)
			}
		})
	}
}

func TestASequenceAgreesWithASlowCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const sent = 12
		stream := rapid.SliceOfN(rapid.Uint64Range(1, sent), 0, 40).Draw(t, "stream")
		var s sequence
		var want tally
		came := map[uint64]bool{}
		var highest uint64
		for _, n := range stream {
			s.saw(n)
			switch {
			case came[n]:
				want.Duplicated++
			case n < highest:
				want.Reordered++
			}
			came[n] = true
			highest = max(highest, n)
		}
		want.Lost = sent - uint64(len(came))
		if got := s.seen().of(sent); got != want {
			t.Fatalf("%v: %+v, want %+v", stream, got, want)
		}
	})
}

func TestAForgottenGapStaysLost(t *testing.T) {
	var s sequence
	for n := uint64(2); n <= 2*(gapsMax+1); n += 2 {
		s.saw(n)
	}
	const sent = 2 * (gapsMax + 1)
	if got, want := s.seen().of(sent), (tally{Lost: gapsMax + 1}); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	s.saw(1) // of the gap that was forgotten
	s.saw(3)
	if got, want := s.seen().of(sent), (tally{Lost: gapsMax, Duplicated: 1, Reordered: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// match is one bot's ledger against a model of its Actor: what the ledger sends
// waits in ops, what the Actor sends waits in replies and pushes, and a test does
// to these queues what a bad network would do.
type match struct {
	ledger  *ledger
	ops     []modelOp
	replies []answer
	pushes  []modelPush

	seen     sequence
	position uint64
	chain    uint64
	pushed   uint64
	arena    sequence
	reports  uint64
}

type modelOp struct {
	number  uint64
	request bool
}

type modelPush struct {
	answer
	number uint64
}

func newMatch() *match { return &match{ledger: newLedger()} }

// send sends that many rounds of one one-way message and one request.
func (m *match) send(rounds int) *match {
	for range rounds {
		for _, request := range []bool{false, true} {
			m.ops = append(m.ops, modelOp{m.ledger.begin(request, time.Time{}), request})
		}
	}
	return m
}

// execute lets the Actor execute what came.
func (m *match) execute() *match {
	for _, op := range m.ops {
		m.seen.saw(op.number)
		m.position++
		m.chain = extend(m.chain, op.number)
		a := answer{op.number, m.position, m.chain}
		if op.request {
			m.replies = append(m.replies, a)
			m.reports++
			m.arena.saw(m.reports)
		} else {
			m.pushed++
			m.pushes = append(m.pushes, modelPush{a, m.pushed})
		}
	}
	m.ops = nil
	return m
}

// receive gives the ledger what the Actor sent.
func (m *match) receive() *match {
	for _, a := range m.replies {
		m.ledger.replied(a.op, a)
	}
	for _, p := range m.pushes {
		m.ledger.pushed(p.number, p.answer)
	}
	m.replies, m.pushes = nil, nil
	return m
}

func (m *match) settle() (tally, error) {
	t := totals{Ops: m.seen.seen(), Chain: m.chain, Pushes: m.pushed, Reports: m.reports, Arena: received{Reports: m.arena.seen()}}
	sum, err := m.ledger.settle(t)
	nodes, _ := t.ofNodes(visited{})
	sum.add(nodes)
	return sum, err
}

func drop[T any](queue []T, i int) []T  { return append(queue[:i:i], queue[i+1:]...) }
func twice[T any](queue []T, i int) []T { return append(queue[:i+1:i+1], queue[i:]...) }
func swap[T any](queue []T, i int)      { queue[i], queue[i+1] = queue[i+1], queue[i] }

func TestALedgerFindsNoFaultWhereThereIsNone(t *testing.T) {
	m := newMatch()
	for range 3 {
		m.send(4).execute().receive()
	}
	if got, err := m.settle(); got != (tally{}) || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if n := len(m.ledger.open); n != 0 {
		t.Errorf("%d ops are open", n)
	}
}

func TestALedgerCountsEachFaultOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		way     func(m *match) // what happens to messages for the Actor
		back    func(m *match) // and to its own
		want    tally
		diverge bool // the Actor's chain must differ too
	}{
		{name: "a one-way message lost", way: func(m *match) { m.ops = drop(m.ops, 2) }, want: tally{Lost: 1}, diverge: true},
		{name: "a request lost, and given up", way: func(m *match) {
			m.ledger.failed(m.ops[7].number)
			m.ops = drop(m.ops, 7)
		}, want: tally{Lost: 1}, diverge: true},
		{name: "a one-way message doubled", way: func(m *match) { m.ops = twice(m.ops, 2) }, want: tally{Duplicated: 1}, diverge: true},
		{name: "two one-way messages swapped", way: func(m *match) { m.ops[2], m.ops[4] = m.ops[4], m.ops[2] }, want: tally{Reordered: 2}, diverge: true},
		{name: "a push lost", back: func(m *match) { m.pushes = drop(m.pushes, 1) }, want: tally{Lost: 1}},
		{name: "a push doubled", back: func(m *match) { m.pushes = twice(m.pushes, 1) }, want: tally{Duplicated: 1}},
		{name: "two pushes swapped", back: func(m *match) { swap(m.pushes, 1) }, want: tally{Reordered: 1}},
		{name: "a reply lost", back: func(m *match) { m.replies = drop(m.replies, 3) }, want: tally{Lost: 1}},
		{name: "two replies swapped", back: func(m *match) { swap(m.replies, 0) }, want: tally{Reordered: 1}},
		{name: "a report lost", back: func(m *match) { m.reports++ }, want: tally{Lost: 1}},
		{name: "a report doubled", back: func(m *match) { m.arena.saw(2) }, want: tally{Duplicated: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMatch().send(4)
			if c.way != nil {
				c.way(m)
			}
			m.execute()
			if c.back != nil {
				c.back(m)
			}
			m.receive()
			got, err := m.settle()
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if (err != nil) != c.diverge {
				t.Errorf("divergence: %v, want one: %v", err, c.diverge)
			}
		})
	}
}

func TestALedgerSeesAReplyToAnotherRequest(t *testing.T) {
	m := newMatch().send(2).execute()
	first, second := m.replies[0], m.replies[1]
	m.ledger.replied(first.op, second)
	if _, err := m.settle(); err == nil {
		t.Error("the reply to another request was accepted")
	}
}

func TestALedgerSeesAChainThatDiffersOnlyAtTheEnd(t *testing.T) {
	m := newMatch().send(2).execute().receive()
	m.chain++
	if _, err := m.settle(); err == nil {
		t.Error("a chain that differs was accepted")
	}
}

func TestAnOpThatWasNotSentLeavesNoTrace(t *testing.T) {
	m := newMatch().send(2)
	m.ledger.begin(false, time.Time{})
	m.ledger.cancel()
	m.ledger.begin(true, time.Time{})
	m.ledger.cancel()
	m.send(1).execute().receive()
	if got, err := m.settle(); got != (tally{}) || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestARefusedRequestIsNeitherLostNorOutOfOrder(t *testing.T) {
	m := newMatch().send(3)
	refused := m.ops[5]
	m.ops = m.ops[:5]
	m.ledger.failed(refused.number) // before the replies to earlier ones
	m.execute().receive()
	if got := m.ledger.answers(); got != (tally{}) {
		t.Errorf("%+v", got)
	}
}

func TestWhatWasOnItsWayToADeadActorIsNotLost(t *testing.T) {
	m := newMatch().send(4).execute()
	m.pushes = twice(m.pushes[:2], 1)
	m.replies = m.replies[:1]
	m.receive()
	got, err := m.ledger.abandon()
	if want := (tally{Duplicated: 1}); got != want || err != nil {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestAnArenaOnADeadNodeIsNotCompared(t *testing.T) {
	m := newMatch().send(2).execute().receive()
	total := totals{Ops: m.seen.seen(), Chain: m.chain, Pushes: m.pushed, Reports: 9, ArenaLost: true}
	got, err := m.ledger.settle(total)
	nodes, _ := total.ofNodes(visited{})
	if got != (tally{}) || nodes != (tally{}) || err != nil {
		t.Errorf("%+v, %+v, %v", got, nodes, err)
	}
}

func TestMessagesOfNodesMustComeOnceAndMayOvertakeOnAMove(t *testing.T) {
	well := func(change func(t *totals, v *visited)) (totals, visited) {
		t := totals{
			Reports: 5, Arena: received{Reports: seen{Highest: 5}, Cheers: 4},
			Cheers: seen{Highest: 4}, Visits: seen{Highest: 7}, Crossed: 1,
		}
		v := visited{sent: 7}
		change(&t, &v)
		return t, v
	}
	for _, c := range []struct {
		name      string
		change    func(t *totals, v *visited)
		want      tally
		overtaken uint64
	}{
		{name: "all well", change: func(*totals, *visited) {}},
		{name: "a report lost", change: func(t *totals, _ *visited) { t.Arena.Reports.Missing = 1 }, want: tally{Lost: 1}},
		{name: "a report doubled", change: func(t *totals, _ *visited) { t.Arena.Reports.Duplicated = 1 }, want: tally{Duplicated: 1}},
		{name: "a cheer lost", change: func(t *totals, _ *visited) { t.Arena.Cheers++ }, want: tally{Lost: 1}},
		{name: "a cheer doubled", change: func(t *totals, _ *visited) { t.Cheers.Duplicated = 2 }, want: tally{Duplicated: 2}},
		{name: "a visit lost", change: func(_ *totals, v *visited) { v.sent++ }, want: tally{Lost: 1}},
		{name: "a visit doubled", change: func(t *totals, _ *visited) { t.Visits.Duplicated = 1 }, want: tally{Duplicated: 1}},
		{name: "a failed visit that did not come", change: func(_ *totals, v *visited) { v.sent, v.unsure = 8, 1 }},
		{name: "a failed visit that came", change: func(t *totals, v *visited) { t.Visits.Highest, v.sent, v.unsure = 8, 8, 1 }},
		{name: "of two lost ones one failed", change: func(_ *totals, v *visited) { v.sent, v.unsure = 9, 1 }, want: tally{Lost: 1}},
		{name: "one overtaken on a move", change: func(t *totals, _ *visited) { t.Cheers.Reordered = 1 }, overtaken: 1},
		{name: "one overtaken without a move", change: func(t *totals, _ *visited) { t.Cheers.Reordered, t.Crossed = 1, 0 }, want: tally{Reordered: 1}},
		{name: "the arena is gone", change: func(t *totals, _ *visited) { t.ArenaLost, t.Arena = true, received{} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			total, v := well(c.change)
			if got, overtaken := total.ofNodes(v); got != c.want || overtaken != c.overtaken {
				t.Errorf("%+v and %d overtaken, want %+v and %d", got, overtaken, c.want, c.overtaken)
			}
		})
	}
}

func TestALedgerTellsWhenAnAnsweredOpWasSent(t *testing.T) {
	l := newLedger()
	at := time.Unix(7, 0)
	move, act := l.begin(false, at), l.begin(true, at.Add(time.Second))
	if got := l.replied(act, answer{op: act}); !got.at.Equal(at.Add(time.Second)) {
		t.Errorf("the request was sent at %v", got)
	}
	if got, ok := l.pushed(1, answer{op: move}); !ok || !got.at.Equal(at) {
		t.Errorf("the one-way message was sent at %v, %v", got, ok)
	}
	if _, ok := l.pushed(2, answer{op: move}); ok {
		t.Error("a second push for the same op has a time")
	}
}

func TestChainsDifferWhereTheOrderDiffers(t *testing.T) {
	chains := map[uint64]string{}
	for _, order := range [][]uint64{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}, {1, 2}, {1, 2, 2, 3}, {}} {
		var chain uint64
		for _, op := range order {
			chain = extend(chain, op)
		}
		name := fmt.Sprint(order)
		if other, ok := chains[chain]; ok {
			t.Errorf("%s and %s have one chain", name, other)
		}
		chains[chain] = name
	}
}

func BenchmarkLedgerChecksAnOp(b *testing.B) {
	b.ReportAllocs()
	m := newMatch()
	for b.Loop() {
		op := m.ledger.begin(true, time.Time{})
		m.position++
		m.chain = extend(m.chain, op)
		m.ledger.replied(op, answer{op, m.position, m.chain})
	}
	if got, err := m.ledger.answers(), m.ledger.diverged; got != (tally{}) || err != nil {
		b.Fatal(got, err)
	}
}
