package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/zlnode/zlnode/store"
)

// The processes of a history, and how the ids of the Spots begin that Actors enter
// there: an Entry Spot, a PerActor one and a SpotWide one. The RID follows.
var (
	rids  = []string{"node-a", "node-b", "node-c"}
	spots = []string{"entry-of-", "shy-of-", "wide-of-"}
)

// scheduled: one call after another, so that a seed has the same history again. Of
// calls with an unknown outcome some are done while others are under way.
func scheduled(w *world) {
	m := newRowModel(w)
	met := map[string]bool{}
	for seed := range uint64(10) {
		h := newHistory(w, m, fmt.Sprintf("scheduled, seed %d", seed))
		callers := h.callers(6, seed)
		random := rand.New(rand.NewPCG(seed, 0))
		for range 300 {
			callers[random.IntN(len(callers))].turn()
		}
		if h.check(); w.t.Failed() {
			return
		}
		for _, events := range h.done {
			for _, e := range events {
				met[fmt.Sprintf("%T %v", e.call, e.seen.reason)] = true
			}
		}
	}
	for _, call := range []any{
		store.Reserve{}, store.Finish{}, deletion{}, store.Free{}, store.ChangeSpot{}, store.ReserveMove{}, store.CommitMove{}, store.EndMove{},
	} {
		for _, reason := range []store.Reason{store.Applied, store.AlreadyApplied} {
			if !met[fmt.Sprintf("%T %v", call, reason)] {
				w.t.Errorf("no %T was %v in any history: they prove nothing about it", call, reason)
			}
		}
	}
}

// racing: all callers at once. The seed fixes what each chooses of what it knows; what
// they meet is up to the race.
func racing(w *world) {
	m := newRowModel(w)
	for seed := range uint64(4) {
		h := newHistory(w, m, fmt.Sprintf("racing, seed %d", seed))
		callers := h.callers(6, seed)
		together(len(callers), func(i int) {
			for range 40 {
				callers[i].turn()
			}
		})
		if h.check(); w.t.Failed() {
			return
		}
	}
}

// newRowModel starts the processes and their Spots.
func newRowModel(w *world) *rowModel {
	m := &rowModel{processes: map[string]process{}, places: map[string]place{}}
	for _, rid := range rids {
		p := w.server(rid, func(d *store.Descriptor) { d.EntrySpotID = spots[0] + rid })
		m.processes[rid] = p
		m.places[spots[0]+rid] = place{rid, false}
		for i, wide := range []bool{false, true} {
			m.places[w.room(spots[1+i]+rid, p, wide).ID] = place{rid, true}
		}
	}
	return m
}

// newHistory is one of two Actors and a Spot.
func newHistory(w *world, m *rowModel, name string) *history {
	return &history{
		w: w, model: m, name: name, known: map[string][]event{}, done: map[string][]event{},
		kinds: map[string]store.Kind{"player-1 " + name: store.Actor, "player-2 " + name: store.Actor, "room " + name: store.UserSpot},
	}
}

func (h *history) callers(n int, seed uint64) []*caller {
	b := &board{moves: map[string][]store.Authority{}}
	callers := make([]*caller, n)
	for i := range callers {
		callers[i] = &caller{
			h: h, board: b, number: i, process: h.model.processes[rids[i%len(rids)]],
			random: rand.New(rand.NewPCG(seed, uint64(1+i))), ids: slices.Sorted(maps.Keys(h.kinds)), saw: map[string][]store.Authority{},
		}
	}
	return callers
}

// board is what the processes tell each other of moves.
type board struct {
	mu    sync.Mutex
	moves map[string][]store.Authority // rows with a move, by id, the latest last
}

func (b *board) post(a store.Authority) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moves[a.ID] = append(b.moves[a.ID], a)
}

// latest is the row of the latest move, or one of those before it.
func (b *board) latest(id string, before int) (store.Authority, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.moves[id]); n > before {
		return b.moves[id][n-1-before], true
	}
	return store.Authority{}, false
}
