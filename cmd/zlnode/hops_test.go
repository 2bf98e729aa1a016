package main

import (
	"math/rand/v2"
	"testing"
	"time"
)

func exampleTraveller() *traveller {
	return &traveller{
		every: time.Second, chance: rand.New(rand.NewPCG(1, 2)),
		rooms: []roomPlace{{"a", "objects-1"}, {"b", "objects-1"}, {"c", "objects-2"}},
	}
}

func TestATravellerGoesEverywhereAndNeverWhereItIs(t *testing.T) {
	tr := exampleTraveller()
	now := time.Unix(0, 0)
	came := map[string]int{}
	for range 1000 {
		before := tr.room
		room, ok := tr.next(now)
		if !ok || room == before {
			t.Fatalf("from %q to %q, %v", before, room, ok)
		}
		came[room]++
		if again, ok := tr.next(now); ok {
			t.Fatalf("it hops to %q at the same time", again)
		}
		if now = tr.due; room == "" {
			tr.arrived("objects-1", "the id of an Entry Spot")
		} else {
			tr.arrived("objects-1", room)
		}
		if tr.room != room {
			t.Fatalf("it is in %q and was told of %q", tr.room, room)
		}
	}
	for _, room := range []string{"a", "b", "c"} {
		if came[room] < 200 {
			t.Errorf("it went to %q %d times of 1000", room, came[room])
		}
	}
	if n := came[""]; n < 50 || n > 250 {
		t.Errorf("it went to the Entry Spot %d times of 1000", n)
	}
}

func TestHopsAreHalfToOneAndAHalfOfTheirTimeApart(t *testing.T) {
	tr := exampleTraveller()
	now := time.Unix(0, 0)
	for range 1000 {
		room, _ := tr.next(now)
		tr.arrived("objects-1", room)
		if d := tr.due.Sub(now); d < tr.every/2 || d >= tr.every/2*3 {
			t.Fatalf("the next hop is after %v", d)
		}
		if _, ok := tr.next(tr.due.Add(-1)); ok {
			t.Fatal("it hops early")
		}
		now = tr.due
	}
}

func TestATravellerKnowsTheNodeThatItIsOnTheWayTo(t *testing.T) {
	tr := exampleTraveller()
	tr.rooms = tr.rooms[2:]
	if room, _ := tr.next(time.Unix(0, 0)); room != "c" || tr.toward != "objects-2" {
		t.Errorf("to %q on %q", room, tr.toward)
	}
	if tr.arrived("objects-2", "c"); tr.rid != "objects-2" || tr.toward != "" {
		t.Errorf("at %q, on the way to %q", tr.rid, tr.toward)
	}
}

func TestWithoutAnotherRoomNobodyHopsToOne(t *testing.T) {
	tr := exampleTraveller()
	tr.rooms, tr.room = tr.rooms[:1], "a"
	for now := time.Unix(0, 0); now.Before(time.Unix(1000, 0)); now = tr.due {
		if room, ok := tr.next(now); ok && room != "" {
			t.Fatalf("it hops to %q", room)
		}
	}
	tr.rooms = nil
	if room, ok := tr.next(tr.due); ok {
		t.Errorf("without rooms it hops to %q", room)
	}
}

func TestHopsAreCountedByTheirEnd(t *testing.T) {
	m := newHopMeter()
	for range 2 {
		m.ended(&hopped{Outcome: "Accepted", Crossed: true, TookNS: 5e6, SealedNS: 2e6}, 7*time.Millisecond)
		m.ended(&hopped{Outcome: "Failed", Failure: "Unavailable"}, time.Second)
	}
	m.ended(&hopped{Outcome: "Accepted"}, time.Second)
	m.ended(&hopped{Outcome: outcomeRejected}, time.Second)
	m.ended(&hopped{Outcome: "Failed", Failure: "NotFound"}, time.Second)
	if c, w, r := m.crossed.Load(), m.within.Load(), m.rejected.Load(); c != 2 || w != 1 || r != 1 {
		t.Errorf("%d crossed, %d within a node, %d rejected", c, w, r)
	}
	if f := m.failures(); len(f) != 2 || f["Unavailable"] != 2 || f["NotFound"] != 1 {
		t.Errorf("failed %v", f)
	}
	for name, p := range map[string]struct {
		got  path
		want time.Duration
	}{"sealed": {m.sealed.path(), 2 * time.Millisecond}, "took": {m.took.path(), 5 * time.Millisecond}, "seen": {m.seen.path(), 7 * time.Millisecond}} {
		if off := p.got.Max - p.want; p.got.Count != 2 || off < 0 || off > p.want/100 {
			t.Errorf("%s: %+v, want 2 of %v", name, p.got, p.want)
		}
	}
}

func TestAPacketIsDuringAMoveIfItWasSentBeforeItsEnd(t *testing.T) {
	l, m, now := newLedger(), newHopMeter(), time.Unix(0, 0)
	position, chain := uint64(0), uint64(0)
	execute := func(op uint64) answer {
		position++
		chain = extend(chain, op)
		return answer{op, position, chain}
	}
	push := uint64(0)
	pushed := func(op uint64) {
		push++
		s, ok := l.pushed(push, execute(op))
		if !ok {
			t.Fatalf("op %d is not open", op)
		}
		m.answered(s, now)
	}
	hopTo := func(crossed bool) {
		before, hop, during := l.begin(false, now), l.beginHop("", now), l.begin(false, now)
		pushed(before)
		push++
		if _, ok := l.hopped(push, execute(hop), crossed); !ok || l.hop != nil {
			t.Fatal("the hop is not over")
		}
		after := l.begin(false, now)
		pushed(during)
		pushed(after)
	}
	hopTo(true)
	hopTo(false) // such a packet is of neither kind
	if d, a := m.during.count(), m.apart.count(); d != 1 || a != 4 {
		t.Errorf("%d during a move, %d apart from one; want 1 and 4", d, a)
	}
	if got, err := l.settle(totals{Ops: seen{Highest: 8}, Chain: chain, Pushes: push}); got != (tally{}) || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAHopThatWasNotSentIsNotOpen(t *testing.T) {
	l := newLedger()
	l.beginHop("", time.Time{})
	if l.cancel(); l.hop != nil || l.ops != 0 {
		t.Errorf("open %v of %d", l.hop, l.ops)
	}
}
