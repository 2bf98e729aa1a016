package mailbox

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// stallAfter is how long a turn may last while mailboxes wait before its worker
// counts as blocked: long enough that turns which compute are let alone, short
// enough for users not to notice.
const stallAfter = 2 * time.Millisecond

// mark is what the monitor saw of a place.
type mark struct {
	w        *worker
	progress uint64
}

// arm wakes the monitor. It must be awake while mailboxes wait and no place is
// vacant. Safe for concurrent use.
func (p *Pool) arm() {
	if p.watching.CompareAndSwap(false, true) {
		p.watch <- struct{}{} // has room: the monitor took the last one before it cleared watching
	}
}

// monitor lends the places of workers that are stuck in a turn, in a wait that
// the pool was not told of. It is one goroutine, which sleeps unless mailboxes
// wait with all places taken.
func (p *Pool) monitor() {
	defer func() {
		p.mu.Lock()
		p.mu.monitoring = false
		p.ended()
		p.mu.Unlock()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	marks := make([]mark, p.cfg.Workers)
	for {
		select {
		case <-p.watch:
		case <-p.stop:
			return
		}
		clear(marks)
		p.inspect(marks, 0) // to compare with
		for last := clock.Now(); p.watched(); {
			timer.Reset(stallAfter)
			select {
			case <-timer.C:
			case <-p.stop:
				return
			}
			now := clock.Now()
			p.inspect(marks, p.mayLend(now.Sub(last)))
			last = now
		}
	}
}

// watched reports whether the monitor must go on; otherwise it may sleep.
func (p *Pool) watched() bool {
	if p.ready.any() {
		return true
	}
	p.watching.Store(false)
	// A put that came in between may have found watching set.
	return p.ready.any() && p.watching.CompareAndSwap(false, true)
}

// mayLend returns how many places may be lent after a tick that took so long. A
// late tick shows that the processors are busy, where further workers make
// nothing faster; one at a time still gets past waits.
func (p *Pool) mayLend(tick time.Duration) int {
	if tick > 2*stallAfter {
		return 1
	}
	return p.cfg.Workers
}

// inspect lends up to n places of workers that are in the claim that marks show,
// with no turn ended since, and notes how all stand now.
func (p *Pool) inspect(marks []mark, n int) {
	p.mu.Lock()
	for place, w := range p.mu.seats {
		if w == nil {
			marks[place] = mark{}
			continue
		}
		now := mark{w, w.progress.Load()}
		stuck := now.progress&1 == 1 && now == marks[place]
		if stuck && n > 0 {
			n--
			p.vacate(w)
			p.mu.lent++
		}
		marks[place] = now
	}
	p.mu.Unlock()
	p.look()
}
