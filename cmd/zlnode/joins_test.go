package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func exampleJoins() *joinEvidence {
	ms := func(count uint64, p50, p99, longest int) path {
		return path{count, time.Duration(p50) * time.Millisecond, time.Duration(p99) * time.Millisecond, time.Duration(longest) * time.Millisecond}
	}
	of := func(p path) span { return p.span() }
	return &joinEvidence{
		within: 40, crossed: 1200, failed: map[string]uint64{},
		sealed: ms(1200, 2, 9, 11), took: ms(1200, 5, 20, 30), seen: ms(1200, 6, 21, 31), during: ms(900, 7, 22, 31), apart: ms(99000, 1, 2, 3),
		census: []roomCensus{
			{ID: "room-1", RID: "objects-2", MovedOut: 599, MovedIn: 600, SourceStop: of(ms(0, 1, 3, 4)), TargetResume: of(ms(0, 2, 4, 5))},
			{ID: "room-2", RID: "objects-1", MovedOut: 601, MovedIn: 600, SourceStop: of(ms(0, 1, 2, 3)), TargetResume: of(ms(0, 3, 5, 6))},
			{ID: "room-3", RID: "objects-2", MovedOut: 600, MovedIn: 600},
		},
	}
}

func joinVerdict(change func(e *evidence)) verdict {
	return judge(evidenceOf(func(e *evidence) {
		e.joins = exampleJoins()
		change(e)
	}))
}

func TestAVerdictAboutHops(t *testing.T) {
	gone := errors.New("unavailable now")
	for _, c := range []struct {
		name        string
		change      func(e *evidence)
		ok          bool
		errors      uint64
		unavailable uint64
	}{
		{name: "all well", change: func(*evidence) {}, ok: true},
		{name: "hops that failed", change: func(e *evidence) { e.joins.failed["Unavailable"] = 3 }, ok: true},
		{name: "as many moves as bots", change: func(e *evidence) { e.joins.crossed = 2 }, ok: true},
		{name: "fewer moves than bots", change: func(e *evidence) { e.joins.crossed = 1 }, errors: 1},
		{name: "members that are not there", change: func(e *evidence) { e.joins.astray = errors.New("room-1") }, errors: 1},
		{name: "a message of a node lost", change: func(e *evidence) { e.outcomes[0].nodes.Lost, e.outcomes[0].crossed = 1, true }},
		{name: "a message of a node doubled", change: func(e *evidence) { e.outcomes[0].nodes.Duplicated = 1 }},
		{name: "a message of a node overtaken", change: func(e *evidence) { e.outcomes[0].overtaken = 1 }, ok: true},
		{name: "a visit that failed", change: func(e *evidence) { e.outcomes[0].visited = gone }, errors: 1},
		{name: "an arena that cannot send", change: func(e *evidence) { e.outcomes[0].unsent = "unavailable" }, errors: 1},

		{name: "a node killed that the player was on its way to, or had just left", change: func(e *evidence) {
			e.nodes[2].fate = fateKilled
			e.outcomes[0].cause, e.outcomes[0].needs = gone, []string{"objects-1", "objects-2"}
		}, ok: true, unavailable: 1},
		{name: "a message lost with a node that the player had been at", change: func(e *evidence) {
			e.nodes[2].fate = fateKilled
			e.outcomes[0].crossed, e.outcomes[0].nodes.Lost, e.outcomes[0].visited, e.outcomes[0].unsent = true, 1, gone, "unavailable"
		}, ok: true},
		{name: "a message doubled, and a node killed", change: func(e *evidence) {
			e.nodes[2].fate = fateKilled
			e.outcomes[0].crossed, e.outcomes[0].nodes.Duplicated = true, 1
		}},
		{name: "a packet of the client lost, and a node killed", change: func(e *evidence) {
			e.nodes[2].fate = fateKilled
			e.outcomes[0].crossed, e.outcomes[0].tally.Lost = true, 1
		}},
		{name: "a message lost, a node killed that the player was never at", change: func(e *evidence) {
			e.nodes[2].fate = fateKilled
			e.outcomes[0].nodes.Lost = 1
		}},
		{name: "a node that does not stop in order, and the other one killed", change: func(e *evidence) {
			e.nodes[1].fate, e.nodes[2].fate = fateDisorder, fateKilled
		}, errors: 1},
		{name: "few moves and wrong members, and a node killed", change: func(e *evidence) {
			e.nodes[2].fate = fateKilled
			e.joins.crossed, e.joins.astray = 0, errors.New("room-1")
		}, ok: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := joinVerdict(c.change)
			if v.OK != c.ok || v.Errors != c.errors || v.Unavailable != c.unavailable {
				t.Errorf("ok %v, %d errors %q, %d unavailable; want %v, %d, %d", v.OK, v.Errors, v.failures, v.Unavailable, c.ok, c.errors, c.unavailable)
			}
		})
	}
}

func TestRoomsMustCountThePlayersThatAreThere(t *testing.T) {
	players := []outcome{{room: "room-1"}, {room: "room-1"}, {room: "room-2"}, {}}
	rooms := []roomCensus{{ID: "room-1", RID: "objects-1", Joined: 5, Left: 3}, {ID: "room-2", Joined: 1}, {ID: "room-3", Joined: 4, Left: 4}}
	if err := astray(rooms, players); err != nil {
		t.Error(err)
	}
	rooms[0].Left++
	if err := astray(rooms, players); err == nil || !strings.Contains(err.Error(), "room-1 on objects-1: 5 came and 4 went, and 2 players are there") {
		t.Errorf("%v", err)
	}
}

func TestTheTextOfHops(t *testing.T) {
	v := joinVerdict(func(e *evidence) {
		e.joins.failed = map[string]uint64{"Unavailable": 1, "DeadlineExceeded": 2}
		e.outcomes[1].overtaken = 5
	})
	golden(t, v.Joins.text(), `
  hops to another node 1,200   within a node 40   rejected 0   failed 3 (DeadlineExceeded 2, Unavailable 1)

  move              count        p50        p99        max
  stop                601        1ms        2ms        3ms   sealed at objects-1, until all it held was relayed
  resume              600        3ms        5ms        6ms   opened at objects-1, from the commit on
  stop                599        1ms        3ms        4ms   sealed at objects-2, until all it held was relayed
  resume              600        2ms        4ms        5ms   opened at objects-2, from the commit on
  sealed            1,200        2ms        9ms       11ms   from the capture to the first turn at the other node
  hop               1,200        5ms       20ms       30ms   from the end of the handler that asked for it
  seen              1,200        6ms       21ms       31ms   from the packet that asked for it to its answer, at the client
  during              900        7ms       22ms       31ms   packets that were sent meanwhile, to their answers
  apart            99,000        1ms        2ms        3ms   packets that were sent while no hop was open

  messages of nodes to players that had moved, which came behind later ones, as they may: 5

`)
	if text := textOf(t, v); !strings.Contains(text, v.Joins.text()) {
		t.Errorf("not in the text of the verdict:\n%s", text)
	}
	v = joinVerdict(func(*evidence) {})
	if text := v.Joins.text(); !strings.Contains(text, "   failed 0\n") || strings.Contains(text, "messages of nodes") {
		t.Errorf("of a run without failures:\n%s", text)
	}
}

func TestTheJSONTellsOfHops(t *testing.T) {
	v := joinVerdict(func(e *evidence) {
		e.joins.failed["Unavailable"] = 3
		e.joins.census = e.joins.census[:1]
	})
	var b strings.Builder
	if err := v.writeJSON(&b); err != nil {
		t.Fatal(err)
	}
	const want = `"joins":{"cross_node":1200,"within_node":40,"rejected":0,"failed":{"Unavailable":3},"overtaken":0,` +
		`"sealed":{"p50_us":2000,"p99_us":9000,"max_us":11000},"took":{"p50_us":5000,"p99_us":20000,"max_us":30000},` +
		`"seen":{"p50_us":6000,"p99_us":21000,"max_us":31000},"during":{"p50_us":7000,"p99_us":22000,"max_us":31000},` +
		`"apart":{"p50_us":1000,"p99_us":2000,"max_us":3000},` +
		`"nodes":[{"rid":"objects-2","moved_out":599,"moved_in":600,"source_stop":{"p50_us":1000,"p99_us":3000,"max_us":4000},` +
		`"target_resume":{"p50_us":2000,"p99_us":4000,"max_us":5000}}]}`
	if got := b.String(); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant in it\n%s", got, want)
	}
}
