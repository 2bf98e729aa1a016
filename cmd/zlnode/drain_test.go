package main

import (
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

func exampleDrain() drainMeasure {
	m := drainMeasure{Store: "redis://127.0.0.1:6379, namespace drain-12ab34cd", Limits: drainLimits{Moves: 8, LinkBytes: 1 << 20, ChunkBytes: 32 << 10}}
	m.take(&drainOptions{actors: 40, rooms: 2, members: 5, stateBytes: 4 << 10}, &relocatedAnswer{
		Units:   []zlnode.UnitProgress{{Kind: zlnode.UnitActor, Left: 40}, {Kind: zlnode.UnitSpotWideSpot, Left: 2}},
		MovedNS: (500 * time.Millisecond).Nanoseconds(),
	})
	m.takeMemory(true, memoryUse{Base: 10 << 20, Peak: 12 << 20, Now: 9 << 20})
	m.takeMemory(false, memoryUse{Base: 1 << 20, Peak: 6 << 20, Now: 5 << 20})
	m.takeMemory(false, memoryUse{Base: 1 << 20, Peak: 7 << 20, Now: 4 << 20})
	s := newStand()
	s.of(stoodActor).record(3 * time.Millisecond)
	s.of(stoodWide).record(4 * time.Millisecond)
	m.takeStood(s)
	return m
}

func TestADrainIsReported(t *testing.T) {
	r := drainReport{Actors: 40, Rooms: 2, Members: 5, StateBytes: 4 << 10, Drains: []drainMeasure{exampleDrain()}}
	if m := r.Drains[0]; !r.ok() || m.Units != 42 || m.Objects != 52 || m.Permitted != 2*8*5*4<<10 {
		t.Errorf("%v, %+v", r.ok(), m)
	}
	var b strings.Builder
	if err := r.writeText(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, b.String(), `

40 actors and 2 rooms with 5 each, state of 4KiB, from one node to 2

  limits                           outcome      seconds   units/s objects/s   actor p50/p99   room p50/p99    member p50/p99     source      left    target permitted
  moves 8, link 1MiB, chunk 32KiB  Relocated       0.50        84       104   3ms/3ms         4ms/4ms         -/-                2.0MiB   -1.0MiB    3.0MiB    0.3MiB
`)
	for what, change := range map[string]func(*drainMeasure){
		"that is blocked":         func(m *drainMeasure) { m.Outcome = zlnode.RelocateBlocked.String() },
		"without a unit":          func(m *drainMeasure) { m.Units-- },
		"without a room's member": func(m *drainMeasure) { m.Objects-- },
	} {
		bad := r
		bad.Drains = []drainMeasure{exampleDrain()}
		if change(&bad.Drains[0]); bad.ok() {
			t.Errorf("a drain %s is ok", what)
		}
	}
}

func TestADrainsOptions(t *testing.T) {
	o := drainOptions{actors: 10, members: 1, state: "4KiB", moves: []string{"1", "64"}, links: []string{"1MiB"}, chunks: []string{"32KiB"}}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range o.variations {
		names = append(names, o.variations[i].String())
	}
	if got, want := strings.Join(names, "; "), "moves 1; moves 64; link 1MiB; chunk 32KiB"; got != want || o.stateBytes != 4<<10 {
		t.Errorf("%q of %d bytes, want %q", got, o.stateBytes, want)
	}
	for line, want := range map[string]string{
		"bench drain --actors -1":           "--actors -1 is not in 0 to 1000000",
		"bench drain --actors 0 --rooms 0":  "0 Actors",
		"bench drain --state much":          `--state "much" is no size`,
		"bench drain --state 65MiB":         `--state "65MiB" is no size`,
		"bench drain --state 1MiB":          "are not 1 Actor to 8 GiB",
		"bench drain --moves 0":             `--moves "0" is not more than 0`,
		"bench drain --links -1":            `--links "-1" is not more than 0`,
		"bench drain --profile /no/such/at": "--profile",
	} {
		status, out, errs := runHere(strings.Fields(line)...)
		if status != 1 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("zlnode %s: status %d, output %q, error %q, want %q", line, status, out, errs, want)
		}
	}
}

// A state that is a standstill and bytes comes back as it was.
func TestHoldersAndHallsTakeAllAlong(t *testing.T) {
	told := make(heard, 3)
	h := &holder{state: []byte("state"), inHall: true}
	b, err := holderMover{}.Capture(h)
	if err != nil {
		t.Fatal(err)
	}
	got := &holder{self: told}
	if err := (holderMover{}).Restore(got, b); err != nil || string(got.state) != "state" || !got.inHall || got.still.Kind != stoodInRoom {
		t.Errorf("%v, %+v", err, got)
	}
	b, err = hallMover{}.Capture(&hall{})
	if err != nil {
		t.Fatal(err)
	}
	room := &hall{self: told}
	if err := (hallMover{}).Restore(room, b); err != nil || room.still.Kind != stoodWide || room.still.Captured == 0 {
		t.Errorf("%v, %+v", err, room)
	}
	for range 2 {
		<-told
	}
	if (hallMover{}).Restore(room, b[:3]) == nil {
		t.Error("half a standstill was restored")
	}
}

func TestMemoryIsWatched(t *testing.T) {
	w := watchMemory()
	held := make([]byte, 8<<20)
	for heapInUse() < w.base+uint64(len(held)) {
		held = append(held, held...) // another collection may have ended meanwhile
	}
	if u := w.stop(); u.Peak < u.Base+8<<20 || u.Now == 0 {
		t.Errorf("%+v", u)
	}
	if held[0] != 0 {
		t.Error("it was written")
	}
	if u := (*memoryWatch)(nil).stop(); u != (memoryUse{}) {
		t.Errorf("nothing was watched: %+v", u)
	}
}
