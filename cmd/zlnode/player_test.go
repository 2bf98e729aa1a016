package main

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// What a player has seen is judged as if it had stayed.
func TestASequenceGoesOnAtAnotherNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := rapid.SliceOfN(rapid.Uint64Range(0, 3000), 0, 60).Draw(t, "stream")
		if rapid.Bool().Draw(t, "gaps") {
			for n := uint64(2); n <= 2*(gapsMax+2); n += 2 { // more than it remembers
				stream = append(stream, n)
			}
		}
		at := rapid.IntRange(0, len(stream)).Draw(t, "move")
		p := &player{hop: &hop{}}
		var stayed sequence
		for i, n := range stream {
			if i == at {
				p = moved(t, p)
			}
			p.ops.saw(n)
			stayed.saw(n)
		}
		if got, want := p.ops.seen(), stayed.seen(); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

func moved(t interface{ Fatal(...any) }, p *player) *player {
	state, err := playerMover{}.Capture(p)
	if err != nil {
		t.Fatal(err)
	}
	q := &player{}
	if err := (playerMover{}).Restore(q, state); err != nil {
		t.Fatal(err)
	}
	return q
}

func TestAPlayerTakesAllAlong(t *testing.T) {
	p := &player{
		arena: "arena-1", position: 1, chain: 1<<64 - 1, pushes: 3, reports: 4, arenaLost: true, crossed: 5,
		hop: &hop{Op: 6, Position: 7, Chain: 8, Asked: 9},
	}
	p.ops.saw(2)
	p.cheers.saw(3)
	p.visits.saw(4)
	q := moved(t, p)
	if q.hop == nil || q.hop.Captured == 0 || q.crossed != 6 {
		t.Fatalf("%+v, its hop %+v", q, q.hop)
	}
	q.hop.Captured, q.crossed = 0, 5
	if !reflect.DeepEqual(q, p) {
		t.Errorf("%+v, want %+v", q, p)
	}
}

func TestAPlayerIsNotMovedUnasked(t *testing.T) {
	if _, err := (playerMover{}).Capture(&player{}); err == nil {
		t.Error("it was captured")
	}
	if err := (playerMover{}).Restore(&player{}, []byte("{")); err == nil {
		t.Error("a broken state was restored")
	}
}

func TestAPlayerIsMovedUnaskedWhereNodesAreRelocated(t *testing.T) {
	mover := playerMover{unasked: true}
	state, err := mover.Capture(&player{kind: partyShared, position: 3})
	if err != nil {
		t.Fatal(err)
	}
	told := make(heard, 1)
	p := &player{self: told}
	if err := mover.Restore(p, state); err != nil {
		t.Fatal(err)
	}
	if packet := <-told; packet != packetOpened {
		t.Errorf("it sent itself %q", packet)
	}
	if p.still.Kind != stoodMember || p.still.Captured == 0 || p.position != 3 || p.crossed != 1 || p.hop != nil {
		t.Errorf("%+v", p)
	}
	hopping, err := mover.Capture(&player{hop: &hop{Op: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := mover.Restore(p, hopping); err != nil || p.still != (standstill{}) || p.hop.Captured == 0 {
		t.Errorf("%v, %+v, its hop %+v", err, p, p.hop)
	}
}
