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

//
// A sender that holds the token as writer (see direct.go) has the loop's role for the out
// queue and no other. It hands the token over to the dirty list if the loop was asked for
// meanwhile, which outAsked tells it: the two go away in one step, or not at all.

const (
	tokenTaken uint32 = 1 << iota
	outBlocked
	outWriter // the token's holder is a sender that writes; only with tokenTaken
	outAsked  // the loop is to come when it has written; only with outWriter
	outBegun  // the loop has taken a message that its producer has not put whole yet: no writers
)

// wantFlush brings the loop for a message in the out queue. Safe for concurrent use.
func (c *Conn) wantFlush() {
	if taken, _ := c.seek(outBlocked); taken {
		c.loop.push(c)
	}
}

// wantService brings the loop for anything else. Safe for concurrent use.
func (c *Conn) wantService() {
	if taken, _ := c.seek(0); taken {
		c.loop.push(c)
	}
}

// claim takes the token for a call of the loop, unless the connection is in the
// dirty list already: what the call's handlers send, to this connection, is then
// flushed at the end of the call and wakes nobody. While a sender writes, the queue is not
// this call's; the loop comes again for it. Loop only.
func (c *Conn) claim() { c.owned, c.lent = c.seek(0) }

// seek takes the token if it is free and no bit of unless is set. If a writer has it, that
// one is asked to bring the loop.
func (c *Conn) seek(unless uint32) (taken, writer bool) {
	for {
		switch have := c.sched.Load(); {
		case have&(tokenTaken|unless) == 0:
			if c.sched.CompareAndSwap(have, have|tokenTaken) {
				return true, false
			}
		case have&outWriter == 0:
			return false, false
		case have&outAsked != 0 || c.sched.CompareAndSwap(have, have|outAsked):
			return false, true
		}
	}
}

// giveBack gives the token back if this call holds it, or puts the connection in
// the dirty list if there is more to do. Loop only.
func (c *Conn) giveBack() {
	if !c.owned {
		return
	}
	c.owned = false
	var free uint32
	switch {
	case c.blocked:
		free = outBlocked
	case c.out.waits():
		c.loop.push(c) // the flush stopped at its bound, or more came
		return
	case c.out.first != nil:
		free = outBegun
	}
	c.sched.Store(free)
	if c.hasWork(free == 0) {
		c.wantService()
	}
}

// hasWork reports whether a producer may have found the token taken after the
// call had looked for its work. With writers, one may have the queue by now: then the loop has
// left nothing in it, so that it is enough to see whether anything has come. Loop only.
func (c *Conn) hasWork(writers bool) bool {
	if c.phase == closed {
		return c.out.waits()
	}
	return c.posts.Load() != nil ||
		c.stopping.Load() != nil && c.phase == open ||
		c.aborted.Load() ||
		c.writable.Load() ||
		c.phase == open && c.drained() ||
		!c.blocked && (writers && c.out.top.Load() != nil || !writers && c.out.waits())
}
