package mailbox

import (
	"runtime"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/clock"
)

// searchRounds is how often a worker yields and looks again before it parks. A
// round lets every other runnable goroutine go first; without any it takes about
// 0.15 µs. So the search costs at most about as much as to park and be woken, which
// it spares if the next message comes soon.
const searchRounds = 8

// worker is one goroutine that runs mailboxes.
type worker struct {
	pool *Pool
	wake chan struct{} // capacity 1

	place int // or noPlace; under pool.mu

	// Read by others: lent tells the worker to end its claim after this turn, since
	// it has no place; written under pool.mu. progress is twice the number of turns
	// of its ended claims, plus one from the begin of a claim until the worker finds
	// no further mailbox.
	lent     atomic.Bool
	progress atomic.Uint64

	// The worker's own, except that help sets first and searching before it wakes
	// the worker.
	first     int  // the shard that it serves first, that of its place
	searching bool // it is the one that pool.searching counts
	blocking  int  // depth of Claim.Blocking
	over      bool // the claim must end after this turn
	// What becomes of claims at their end, if the turn had a Yield: see back.
	heir   *reentry
	left   *gate
	holder *worker    // of left's claim
	lost   [2]*gate   // this worker ends
	local  any        // see Claim.Local
	turn   uint64     // cost of the turn that runs, less what it keeps
	ticks  uint64     // when it looked at the clock for Claim.Now
	seen   clock.Mono // what it saw
	takes  uint
	turns  uint64
	slice  slice
}

const noPlace = -1

// work is the worker's goroutine.
func (p *Pool) work(w *worker) {
	defer p.leave(w) // also if a consumer ends the goroutine
	w.slice.start()
	for g := p.next(w); g != nil; g = p.next(w) {
		g.owner.run(w)
	}
}

// look reads the clock for Claim.Now.
func (w *worker) look() { w.ticks, w.seen = clock.Ticks(), clock.Now() }

// begin starts a claim.
func (w *worker) begin() {
	w.progress.Store(w.turns<<1 | 1)
	w.slice.renew(w.pool.cfg.TimeBudget)
	w.over = false
}

// turned counts a turn and reports whether the claim must end now, because the
// turn asked for it, the place was lent, or its time is over and others wait.
func (w *worker) turned() bool {
	w.turns++
	switch {
	case w.over:
	case w.lent.Load():
		w.over = true // of a group as of its member
	case !w.slice.over():
	case w.pool.ready.any():
		w.over = true
	default:
		w.begin() // as if it had gone to the back of an empty ready set
	}
	return w.over
}

// next returns the mailbox that w has to run, which it has claimed thereby. It
// waits until there is one. It returns nil if the worker must end.
func (p *Pool) next(w *worker) *gate {
	for {
		if !w.lent.Load() || p.seat(w) {
			if g := p.search(w); g != nil {
				return g
			}
		}
		if !p.park(w) {
			return nil
		}
	}
}

// search looks for a ready mailbox: once, or for a bounded time if no other
// worker does.
func (p *Pool) search(w *worker) *gate {
	g := p.take(w)
	if g == nil {
		w.progress.Store(w.turns << 1)
		if !w.searching && !p.searching.CompareAndSwap(0, 1) {
			return nil
		}
		w.searching = true
		for i := 0; g == nil && i < searchRounds && !w.lent.Load(); i++ {
			runtime.Gosched()
			g = p.take(w)
		}
	}
	if g != nil {
		p.stopSearching(w)
	}
	return g
}

// take claims the mailbox that waits longest in the first shard where it finds
// one.
func (p *Pool) take(w *worker) *gate {
	shards := p.ready.shards
	i := w.first
	if w.takes++; w.takes%strayEvery == 0 {
		i = int(w.takes/strayEvery) % len(shards)
	}
	for range shards {
		if g := shards[i].take(); g != nil {
			return g
		}
		if i++; i == len(shards) {
			i = 0
		}
	}
	return nil
}
