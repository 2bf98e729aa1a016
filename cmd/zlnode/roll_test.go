package main

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// exampleRolls is of one node that is updated and of the spare one that leaves.
func exampleRolls() *rollEvidence {
	ms := time.Millisecond
	units := []zlnode.UnitProgress{
		{Kind: zlnode.UnitActor, Total: 40, Left: 40},
		{Kind: zlnode.UnitPerActorSpot, Total: 1, Left: 1},
		{Kind: zlnode.UnitSpotWideSpot, Total: 2, Left: 2},
		{Kind: zlnode.UnitInstanceSpot},
	}
	e := &rollEvidence{wanted: 2, homeless: map[string]uint64{}, steps: []rollStep{
		{
			rid: "objects-1", version: "1.0.0", next: "1.1.0", mode: zlnode.RollingUpdate, answer: &relocatedAnswer{Units: units},
			moved: 40 * ms, safe: 6 * time.Second, ended: 10 * ms, start: 50 * ms,
		},
		{
			rid: "objects-2", version: "1.1.0", mode: zlnode.PlannedMaintenance, answer: &relocatedAnswer{Units: units},
			moved: 30 * ms, safe: 6 * time.Second, ended: 9 * ms,
		},
	}}
	for i, kind := range stoodKinds {
		e.stood = append(e.stood, stoodPath{kind, path{uint64(10 * (i + 1)), 4 * ms, 9 * ms, 12 * ms}})
	}
	return e
}

func rollVerdict(change func(e *evidence)) verdict {
	return judge(evidenceOf(func(e *evidence) {
		e.rolls = exampleRolls()
		e.outcomes = append(e.outcomes, outcome{}, outcome{})
		for i := range e.outcomes {
			e.outcomes[i].roams, e.outcomes[i].crossed = true, true
		}
		change(e)
	}))
}

func TestAVerdictAboutRelocations(t *testing.T) {
	gone := errors.New("unavailable now")
	for _, c := range []struct {
		name        string
		change      func(e *evidence)
		ok          bool
		errors      uint64
		unavailable uint64
	}{
		{name: "all well", change: func(*evidence) {}, ok: true},
		{name: "a relocation that is blocked", change: func(e *evidence) {
			e.rolls.steps[1].answer = &relocatedAnswer{Outcome: zlnode.RelocateBlocked, Reason: zlnode.ReasonTargetUnavailable}
		}, errors: 2},
		{name: "one that did not come", change: func(e *evidence) { e.rolls.steps = e.rolls.steps[:1] }, errors: 1},
		{name: "one that is not known of", change: func(e *evidence) { e.rolls.steps[1].answer, e.rolls.failure = nil, gone }, errors: 1},
		{name: "one that failed", change: func(e *evidence) { e.rolls.failure = gone }, errors: 1},
		{name: "connections dropped", change: func(e *evidence) { e.rolls.dropped = 2 }, errors: 1},
		{name: "players that do not come to their rooms", change: func(e *evidence) { e.rolls.homeless["Unavailable"] = 2 }, errors: 1},
		{name: "a kind that did not move", change: func(e *evidence) { e.rolls.stood[2].Count = 0 }, errors: 1},
		{name: "a kind that there is not", change: func(e *evidence) {
			e.rolls.stood[4].Count = 0
			e.outcomes = e.outcomes[:3]
		}, ok: true},
		{name: "a message lost", change: func(e *evidence) { e.outcomes[0].tally.Lost = 1 }},
		{name: "a message of a node lost", change: func(e *evidence) { e.outcomes[3].nodes.Lost = 1 }},
		{name: "a message of a node overtaken", change: func(e *evidence) { e.outcomes[0].overtaken = 1 }, ok: true},
		{name: "a player that is gone", change: func(e *evidence) { e.outcomes[0].cause = gone }, errors: 1},
		{name: "an arena that is gone", change: func(e *evidence) { e.outcomes[0].arenaLost = true }, errors: 1},
		{name: "a node killed by hand", change: func(e *evidence) {
			e.nodes[2].fate = fateKilled
			e.outcomes[0].cause, e.outcomes[0].needs = gone, nil
			e.outcomes[1].arenaLost = true
			e.rolls.steps, e.rolls.failure = e.rolls.steps[:1], gone
		}, ok: true, unavailable: 2},
		{name: "the same, and connections dropped", change: func(e *evidence) {
			e.nodes[2].fate = fateKilled
			e.rolls.dropped = 1
		}, errors: 1},
		{name: "a gateway killed by hand", change: func(e *evidence) {
			e.nodes[0].fate = fateKilled
			e.outcomes[0].cause = gone
			e.rolls.dropped = 1
		}, ok: true, unavailable: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := rollVerdict(c.change)
			if v.OK != c.ok || v.Errors != c.errors || v.Unavailable != c.unavailable {
				t.Errorf("ok %v, %d errors %q, %d unavailable; want %v, %d, %d", v.OK, v.Errors, v.failures, v.Unavailable, c.ok, c.errors, c.unavailable)
			}
		})
	}
}

func TestAVerdictNamesWhatBlocksARelocation(t *testing.T) {
	v := rollVerdict(func(e *evidence) {
		e.rolls.steps[0].answer = &relocatedAnswer{
			Outcome: zlnode.RelocateBlocked, Reason: zlnode.ReasonStateIncompatible, Text: "1 of 3 units did not leave", Blocked: []string{"Actor player-1: StateIncompatible"},
		}
	})
	const want = "node objects-1 was not relocated: Blocked, StateIncompatible: 1 of 3 units did not leave; Actor player-1: StateIncompatible"
	if len(v.failures) == 0 || v.failures[0] != want {
		t.Errorf("%q, want %q", v.failures, want)
	}
}

func TestTheTextOfARunWithRelocations(t *testing.T) {
	v := rollVerdict(func(e *evidence) { e.outcomes[0].overtaken = 3 })
	golden(t, v.Rolling.text(), `
  node         mode                 version          outcome     units     moved      safe     ended   started     total
  objects-1    RollingUpdate        1.0.0 > 1.1.0    Relocated      43      40ms        6s      10ms      50ms      6.1s
  objects-2    PlannedMaintenance   1.1.0 > gone     Relocated      43      30ms        6s       9ms         -     6.04s

  interruption of       count        p50        p99        max   from its capture to the turn behind all that had waited
  actor                    10        4ms        9ms       12ms
  per-actor member         20        4ms        9ms       12ms
  spot-wide room           30        4ms        9ms       12ms
  spot-wide member         40        4ms        9ms       12ms
  instance                 50        4ms        9ms       12ms

  connections dropped 0
  messages of nodes to players that had moved, which came behind later ones, as they may: 3

`)
	n := v.Rolling.Nodes[0]
	if n.Units["Actor"] != 40 || n.TotalUS != 6_100_000 || n.MovedUS != 40_000 || v.Rolling.Interruption["instance"] != (stoodSpan{50, span{4000, 9000, 12000}}) {
		t.Errorf("%+v, %+v", n, v.Rolling.Interruption)
	}
}

func TestARunWithRelocationsShowsHowFarTheyAre(t *testing.T) {
	s := exampleSnapshot()
	s.Rolling, s.Rolled, s.ToRoll = true, 2, 5
	if line := s.line(); !strings.Contains(line, "  relocated 2 of 5 nodes  ") {
		t.Error(line)
	}
	golden(t, strings.Join(s.table()[4:6], "\n"), `
  messages/s    3,012        unavailable   23
  relocated     2 of 5 nodes`)
}

// heard are the packets that an object has sent itself.
type heard chan string

func (h heard) SendRaw(_ context.Context, packet string, _ []byte) error {
	h <- packet
	return nil
}

// What stood still is told once, also if it was restored twice, and adds up over processes.
func TestStandstillsOfAllProcessesAddUp(t *testing.T) {
	a, b := newStand(), newStand()
	for _, s := range []*stand{a, b} {
		for _, kind := range stoodKinds {
			still := captureNow(kind)
			still.ended(s)
			still.ended(s)
		}
		(&standstill{}).ended(s)
	}
	sent, err := b.export()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.merge(sent); err != nil {
		t.Fatal(err)
	}
	for _, kind := range stoodKinds {
		if p := a.of(kind).path(); p.Count != 2 || p.P50 <= 0 {
			t.Errorf("%s: %+v", kind, p)
		}
	}
	if a.merge(sent[1:]) == nil || a.merge(make([][]byte, len(sent))) == nil {
		t.Error("what no process exports was merged")
	}
}

func TestAnArenaTakesAllAlong(t *testing.T) {
	a := newArenaAt(nil)
	p := &inArena{cheers: 2, failure: "unavailable"}
	for _, n := range []uint64{1, 4, 2, 2} {
		p.reports.saw(n)
	}
	a.players["player-1"] = p
	state, err := arenaMover{stoodInstance}.Capture(a)
	if err != nil {
		t.Fatal(err)
	}
	told := make(heard, 1)
	b := newArenaAt(told)
	if err := (arenaMover{}).Restore(b, state); err != nil {
		t.Fatal(err)
	}
	if packet := <-told; packet != packetOpened {
		t.Errorf("it sent itself %q", packet)
	}
	if b.still.Kind != stoodInstance || b.still.Captured == 0 {
		t.Errorf("%+v", b.still)
	}
	if !reflect.DeepEqual(b.players, a.players) {
		t.Errorf("%+v, want %+v", b.received("player-1"), a.received("player-1"))
	}
}

// Bots of one arena are of one kind, and of each kind there are as many.
func TestPartiesHaveTheirArenas(t *testing.T) {
	const groups = 3
	kinds, players := map[string]partyKind{}, map[string]int{}
	for n := 1; n <= groups*partyKinds*playersPerArena; n++ {
		kind, arena := partyOf(n)
		if known, ok := kinds[arena]; ok && known != kind {
			t.Errorf("%s is of kinds %d and %d", arena, known, kind)
		}
		kinds[arena] = kind
		players[arena]++
	}
	if len(kinds) != groups*partyKinds {
		t.Errorf("arenas %v", kinds)
	}
	for arena, n := range players {
		if n != playersPerArena {
			t.Errorf("%s has %d players", arena, n)
		}
	}
}

// The orders of one process are answered one after the other, and what goes wrong is told.
func TestANodeProcessAnswersOrders(t *testing.T) {
	p := startFake(t, "obedient")
	if err := p.awaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	a, err := p.order(within(t), nodeOrder{Relocate: &relocateOrder{Version: "2.0.0"}})
	if err != nil || a.Relocated == nil || a.Relocated.Text != "2.0.0" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := p.order(within(t), nodeOrder{}); err == nil || !strings.Contains(err.Error(), "node obedient did not do what it was to: not today") {
		t.Errorf("the error is %v", err)
	}
	p.kill()
	if _, err := p.order(within(t), nodeOrder{}); err == nil {
		t.Error("a process that is gone answers")
	}
}
