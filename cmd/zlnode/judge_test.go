package main

import (
	"errors"
	"testing"
	"time"
)

// run of two bots, one on each object node, in the arena of objects-1.
func evidenceOf(change func(e *evidence)) evidence {
	e := evidence{
		outcomes: []outcome{
			{needs: []string{"objects-1"}, arena: "objects-1"},
			{needs: []string{"objects-2"}, arena: "objects-1"},
		},
		nodes: []nodeEnd{
			{"gateway", roleGateway, fateStopped, "stopped"},
			{"objects-1", roleObjects, fateStopped, "stopped"},
			{"objects-2", roleObjects, fateStopped, "stopped"},
		},
		requests: path{Count: 100, P50: 250 * time.Microsecond, P99: 2 * time.Millisecond},
		pushes:   path{Count: 200},
		played:   3 * time.Second,
	}
	change(&e)
	return e
}

func TestAVerdictIsOKOnlyIfNothingWentWrong(t *testing.T) {
	gone := errors.New("unavailable now")
	for _, c := range []struct {
		name        string
		change      func(e *evidence)
		ok          bool
		errors      uint64
		unavailable uint64
	}{
		{name: "all well", change: func(*evidence) {}, ok: true},
		{name: "a message lost", change: func(e *evidence) { e.outcomes[0].tally.Lost = 1 }},
		{name: "a message doubled", change: func(e *evidence) { e.outcomes[0].tally.Duplicated = 1 }},
		{name: "a message out of order", change: func(e *evidence) { e.outcomes[1].tally.Reordered = 1 }},
		{name: "a chain that differs", change: func(e *evidence) { e.outcomes[1].wrong = errors.New("chain") }, errors: 1},
		{name: "an error during the run", change: func(e *evidence) { e.errors = 2 }, errors: 2},
		{name: "no request answered", change: func(e *evidence) { e.requests = path{} }, errors: 1},
		{name: "a node that fails", change: func(e *evidence) { e.nodes[1].fate = fateFailed }, errors: 1},
		{name: "a node that does not stop in order, and the other one killed", change: func(e *evidence) {
			e.nodes[1].fate, e.nodes[2].fate = fateDisorder, fateKilled
		}, errors: 1},
		{name: "unavailable while all nodes are up", change: func(e *evidence) { e.outcomes[0].cause = gone }, errors: 1},
		{name: "an arena lost while all nodes are up", change: func(e *evidence) { e.outcomes[1].arenaLost = true }, errors: 1},

		{name: "the player's node killed", change: func(e *evidence) {
			e.nodes[1].fate = fateKilled
			e.outcomes[0].cause, e.outcomes[0].arenaLost = gone, true
		}, ok: true, unavailable: 1},
		{name: "the arena's node killed", change: func(e *evidence) {
			e.nodes[1].fate = fateKilled
			e.outcomes[1].arenaLost = true
		}, ok: true, unavailable: 1},
		{name: "another node killed than the player's", change: func(e *evidence) {
			e.nodes[1].fate = fateKilled
			e.outcomes[1].cause = gone
		}, errors: 1},
		{name: "another node killed than the arena's", change: func(e *evidence) {
			e.nodes[2].fate = fateKilled
			e.outcomes[1].arenaLost = true
		}, errors: 1},
		{name: "killed before the log-in", change: func(e *evidence) {
			e.nodes[1].fate = fateKilled
			e.outcomes[0] = outcome{cause: gone}
		}, ok: true, unavailable: 1},
		{name: "the gateway killed", change: func(e *evidence) {
			e.nodes[0].fate = fateKilled
			e.outcomes[0].cause, e.outcomes[1].cause = gone, gone
		}, ok: true, unavailable: 2},
		{name: "a message doubled before a kill", change: func(e *evidence) {
			e.nodes[1].fate = fateKilled
			e.outcomes[0].cause, e.outcomes[0].tally.Duplicated = gone, 1
		}, unavailable: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := judge(evidenceOf(c.change))
			if v.OK != c.ok || v.Errors != c.errors || v.Unavailable != c.unavailable {
				t.Errorf("ok %v, %d errors %q, %d unavailable; want %v, %d, %d", v.OK, v.Errors, v.failures, v.Unavailable, c.ok, c.errors, c.unavailable)
			}
		})
	}
}

func TestAVerdictSumsUpAllBots(t *testing.T) {
	v := judge(evidenceOf(func(e *evidence) {
		e.outcomes[0].tally = tally{Lost: 1, Duplicated: 2, Reordered: 3}
		e.outcomes[1].tally = tally{Lost: 10, Duplicated: 20, Reordered: 30}
	}))
	if v.Lost != 11 || v.Duplicated != 22 || v.Reordered != 33 {
		t.Errorf("lost %d, duplicated %d, reordered %d", v.Lost, v.Duplicated, v.Reordered)
	}
	if v.Requests != 100 || v.Pushes != 200 || v.RPS != 33.3 || v.P50US != 250 || v.P99US != 2000 {
		t.Errorf("%+v", v)
	}
}

func TestTheFirstDifferentFailuresAreKept(t *testing.T) {
	m := newMeter()
	for _, text := range []string{"a", "b", "a", "c", "d", "e", "f"} {
		m.fail(errors.New(text))
	}
	if got := m.told(); len(got) != failuresKept || got[0] != "a" || got[1] != "b" || got[4] != "e" {
		t.Errorf("kept %q", got)
	}
	if n := m.errors.Load(); n != 7 {
		t.Errorf("%d errors counted, want 7", n)
	}
}
