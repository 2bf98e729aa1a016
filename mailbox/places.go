package mailbox

// A pool has Config.Workers places, and a worker may run if it has one. When it
// waits inside a turn its place is lent to another worker, so that as many run as
// there are places. This file is how workers get and lose places, park and are
// woken: the slow path, guarded by pool.mu.
//
// The rule that must never break: no mailbox waits in the ready set while a place
// is vacant and nobody is about to look. Somebody is about to look while
// pool.searching is 1: from the decision to wake a worker until that worker has
// found a mailbox or given up. Why the rule holds:
//
//   - A put first counts the mailbox in the ready set, then reads vacant and
//     searching, and calls for help if it finds a vacancy and no searcher.
//   - Whoever makes a place vacant, or stops searching, does that first and then
//     looks at the ready set, and calls for help if something is there.
//
// So of a put and a vacancy at the same time at least one sees the other. Who
// finds searching set may leave, for the searcher looks again after clearing it.
// Help that finds nobody to wake clears it under the mutex: a worker that parks or
// vacates a place afterwards finds it cleared, one that did so before was seen.
// TestParkingHoldsInEveryInterleaving tries all orders.
//
// Workers without a place park, up to one for each place; further ones end.

// put adds g, which has just become ready or goes to the back, to the ready set
// and makes sure that someone looks. Safe for concurrent use.
func (p *Pool) put(g *gate) {
	g.home.put(g)
	if p.vacant.Load() > 0 {
		if p.searching.Load() == 0 {
			p.help()
		}
	} else if !p.watching.Load() {
		p.arm()
	}
}

// help gives a vacant place to a worker, parked or new, and sends it searching.
// If all places are taken, each of their workers looks before it parks, unless it
// is stuck in a turn: that is what the monitor is for.
func (p *Pool) help() {
	if p.vacant.Load() == 0 {
		p.arm()
		return
	}
	if !p.searching.CompareAndSwap(0, 1) {
		return
	}
	p.mu.Lock()
	w, parked := p.hire()
	if w == nil {
		p.searching.Store(0)
	} else {
		w.searching = true
	}
	p.mu.Unlock()
	switch {
	case w == nil:
		p.arm()
	case parked:
		w.wake <- struct{}{}
	default:
		go p.work(w)
	}
}

// hire takes a parked worker, or makes one, and gives it a place. It returns nil
// if there is no place, no further worker is allowed, or the pool is closed.
// Under mu.
func (p *Pool) hire() (w *worker, parked bool) {
	if p.mu.closed || len(p.mu.free) == 0 {
		return nil, false
	}
	if last := len(p.mu.parked) - 1; last >= 0 {
		w, parked = p.mu.parked[last], true
		p.mu.parked[last] = nil
		p.mu.parked = p.mu.parked[:last]
	} else if len(p.mu.workers) < p.cfg.MaxWorkers {
		w = &worker{pool: p, place: noPlace, wake: make(chan struct{}, 1)}
		p.mu.workers[w] = struct{}{}
	} else {
		return nil, false
	}
	p.occupy(w)
	return w, parked
}

// occupy gives w, which has none, a vacant place. Under mu, and either by w or
// while w is parked.
func (p *Pool) occupy(w *worker) {
	last := len(p.mu.free) - 1
	w.place = p.mu.free[last]
	p.mu.free = p.mu.free[:last]
	p.mu.seats[w.place] = w
	p.vacant.Add(-1)
	w.first = w.place
	w.lent.Store(false)
}

// vacate takes w's place away, if it has one. The caller must look at the ready
// set afterwards. Under mu.
func (p *Pool) vacate(w *worker) bool {
	if w.place == noPlace {
		return false
	}
	p.mu.seats[w.place] = nil
	p.mu.free = append(p.mu.free, w.place)
	w.place = noPlace
	w.lent.Store(true)
	p.vacant.Add(1)
	return true
}

// seat gives w a vacant place if there is one. Called by w.
func (p *Pool) seat(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed || len(p.mu.free) == 0 {
		return false
	}
	p.occupy(w)
	return true
}

// lend lends w's place while w waits inside a turn. Called by w.
func (p *Pool) lend(w *worker) {
	if w.blocking++; w.blocking > 1 {
		return
	}
	p.mu.Lock()
	if p.vacate(w) {
		p.mu.lent++
	}
	p.mu.Unlock()
	p.look()
}

// regain ends what lend began. If there is no vacant place, the turn goes on
// without one: better a worker too many than a message that waits for a place.
// Called by w.
func (p *Pool) regain(w *worker) {
	if w.blocking--; w.blocking == 0 {
		p.seat(w)
		w.slice.start()
		w.look()
	}
}

// park waits until help gives w a place. It returns false if w must end instead.
// Called by w.
func (p *Pool) park(w *worker) bool {
	p.stopSearching(w)
	p.mu.Lock()
	stay := !p.mu.closed && len(p.mu.parked) < p.cfg.Workers
	if stay {
		p.vacate(w)
		p.mu.parked = append(p.mu.parked, w)
	}
	p.mu.Unlock()
	if !stay {
		return false // leave does the rest
	}
	p.look()
	<-w.wake
	w.slice.start()
	w.look() // the processor may have slept, and its count with it
	return true
}

// leave is the end of w.
func (p *Pool) leave(w *worker) {
	p.stopSearching(w)
	p.mu.Lock()
	p.vacate(w)
	delete(p.mu.workers, w)
	p.mu.past += w.turns
	p.ended()
	p.mu.Unlock()
	p.look()
}

// stopSearching ends w's search, if it was searching.
func (p *Pool) stopSearching(w *worker) {
	if w.searching {
		w.searching = false
		p.searching.Store(0)
		p.look()
	}
}

// look calls for help if a mailbox is ready. It must come after every step that
// makes a place vacant or ends a search.
func (p *Pool) look() {
	if p.ready.any() {
		p.help()
	}
}
