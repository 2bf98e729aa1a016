package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zlnode/zlnode/store"
)

var inventoryCases = []testCase{
	{"TargetReadsWhoComesAndTheyCome", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		wide := w.room("wide", p, true)
		for i := range 5 {
			w.member(fmt.Sprint("player-", i), p, wide.ID)
		}
		moving := w.reserveMove(moveOf(wide, q, "", false), store.Applied)
		ids, err := w.s.Members(w.ctx(), wide.ID, "", store.PageMax)
		if err != nil {
			w.t.Fatal(err)
		}
		participants := []store.Participant{participantOf(moving)}
		for _, id := range ids {
			participants = append(participants, participantOf(w.must(id)))
		}
		inv := w.putInventory(moving, participants)
		prepared := w.prepare(prepareOf(moving, p, inv), store.Applied)

		coming := w.wantInventory(wide.ID, *prepared.Move.Prepared, participants)
		w.commit(commitOf(prepared, q), store.Applied)
		for _, c := range coming {
			if a := w.must(c.ID); a.OwnerID != q.OwnerID || a.OwnerGen != c.OwnerGen+1 || a.ObjectGen != c.ObjectGen || a.Type != c.Type {
				w.t.Errorf("%+v came as %+v", c, a)
			}
		}
		came := w.must(wide.ID)
		w.wantInventory(wide.ID, came.Aggregate.Inventory, participants)
		if c, err := w.s.CompleteMove(w.ctx(), fence(came), came.Aggregate.ID); err != nil || c.Reason != store.Applied {
			w.t.Fatalf("CompleteMove = %+v, %v", c, err)
		}
		for _, err := range inv.Participants(w.chunksOf(wide.ID)) {
			if !errors.Is(err, store.ErrCorrupt) {
				w.t.Errorf("what was dropped is read with %v; want ErrCorrupt", err)
			}
		}
	}},
	{"TenThousandParticipantsFitTheChunks", func(w *world) {
		p, q := w.server("node-a"), w.server("node-b")
		moving := w.reserveMove(moveOf(w.room("wide", p, true), q, "", false), store.Applied)
		participants := []store.Participant{participantOf(moving)}
		for i := range 9_999 {
			participants = append(participants, store.Participant{
				Kind: store.Actor, ID: fmt.Sprintf("%s%04d", strings.Repeat("\x00\n{}é", 41)+"-----", i), Type: strings.Repeat("p", store.IDBytesMax),
				ObjectGen: store.GenMax, OwnerGen: store.GenMax, Version: store.GenMax, SpotVersion: moving.Version, Policy: 255,
			})
		}
		w.wantInventory("wide", w.putInventory(moving, participants), participants)
	}},
}

func participantOf(a store.Authority) store.Participant {
	return store.Participant{
		Kind: a.Kind, ID: a.ID, Type: a.Type, ObjectGen: a.ObjectGen, OwnerGen: a.OwnerGen, Version: a.Version, SpotVersion: a.SpotVersion,
	}
}

// putInventory stores the inventory of a reserved aggregate.
func (w *world) putInventory(moving store.Authority, participants []store.Participant) store.Inventory {
	w.t.Helper()
	chunks, inv, err := store.BuildInventory(participants)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range chunks {
		w.putChunk(store.MoveOf(&moving), c, store.Applied)
	}
	return inv
}

// wantInventory reads an inventory and fails unless it has the participants, in order.
func (w *world) wantInventory(spot string, inv store.Inventory, want []store.Participant) []store.Participant {
	w.t.Helper()
	var got []store.Participant
	for p, err := range inv.Participants(w.chunksOf(spot)) {
		if err != nil {
			w.t.Fatal(err)
		}
		got = append(got, p)
	}
	sorted := slices.SortedFunc(slices.Values(want), func(a, b store.Participant) int {
		if a.Kind != b.Kind {
			return int(a.Kind) - int(b.Kind)
		}
		return strings.Compare(a.ID, b.ID)
	})
	if !slices.Equal(got, sorted) {
		w.t.Fatalf("%d participants are read, not the %d that were stored", len(got), len(want))
	}
	return got
}

// chunksOf fetches chunks of the Spot's inventory.
func (w *world) chunksOf(spot string) func(store.Digest) ([]byte, error) {
	return func(d store.Digest) ([]byte, error) {
		chunk, _, err := w.s.ReadInventory(w.ctx(), spot, d)
		return chunk, err
	}
}
