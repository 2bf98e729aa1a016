package engine

// How connections with work reach their loop.
//
// Each connection has one token. Whoever takes it (sets tokenTaken) hands the
// connection to the loop's dirty list, and the loop gives the token back when it
// has served the connection. So a connection is in the list at most once, and a
// thousand Sends cost one entry. The first entry of an empty list wakes the loop.
//
// No wake-up is lost: a producer first makes its work visible (queue, flag), then
// looks at the token. The loop first gives the token back, then looks for work.
// Go's atomics have one total order, so one of the two sees the other.
//
// While the socket takes nothing, outBlocked keeps Sends from taking the token:
// the loop could do nothing with them. The watcher takes it when that is over.

const (
	tokenTaken uint32 = 1 << iota
	outBlocked
)

// wantFlush brings the loop for a message in the out queue. Safe for concurrent use.
func (c *Conn) wantFlush() {
	if c.sched.Load() == 0 && c.sched.CompareAndSwap(0, tokenTaken) {
		c.loop.push(c)
	}
}

// wantService brings the loop for anything else. Safe for concurrent use.
func (c *Conn) wantService() {
	if c.sched.Or(tokenTaken)&tokenTaken == 0 {
		c.loop.push(c)
	}
}

// claim takes the token for a call of the loop, unless the connection is in the
// dirty list already: what the call's handlers send, to this connection, is then
// flushed at the end of the call and wakes nobody. Loop only.
func (c *Conn) claim() {
	c.owned = c.sched.Or(tokenTaken)&tokenTaken == 0
}

// giveBack gives the token back if this call holds it, or puts the connection in
// the dirty list if there is more to do. Loop only.
func (c *Conn) giveBack() {
	if !c.owned {
		return
	}
	c.owned = false
	var free uint32
	if c.blocked {
		free = outBlocked
	} else if c.out.waits() {
		c.loop.push(c) // the flush stopped at its bound, or more came
		return
	}
	c.sched.Store(free)
	if c.hasWork() && c.sched.CompareAndSwap(free, free|tokenTaken) {
		c.loop.push(c)
	}
}

// hasWork reports whether a producer may have found the token taken after the
// call had looked for its work. Loop only.
func (c *Conn) hasWork() bool {
	if c.phase == closed {
		return c.out.waits()
	}
	return c.posts.Load() != nil ||
		c.stopping.Load() != nil && c.phase == open ||
		c.aborted.Load() ||
		c.writable.Load() ||
		c.phase == open && c.drained() ||
		!c.blocked && c.out.waits()
}
