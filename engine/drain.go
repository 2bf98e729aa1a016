package engine

// Drainer is told that a connection has little left to send. Its call comes from the
// connection's loop, like those of a Handler.
type Drainer interface {
	// OnDrained is called once for each NotifyBelow, as soon as Pending is not above the
	// mark. What it sends goes out in the loop's next turn.
	OnDrained(c *Conn)
}

// NotifyBelow asks for one call of Protocol.Drainer, which must be set, when Pending is at
// most mark: at once, in the loop's next turn, if it is so already. A later call replaces the
// mark of one that was not answered yet. There is no call once the connection is closing.
// Safe for concurrent use; it never blocks.
//
// Nothing is missed: the mark is set before the queue is looked at, and the loop looks for a
// mark after each change of the queue. So either the caller sees that the queue has fallen,
// or the loop sees the mark. A connection that nobody asks about pays one look per turn.
func (c *Conn) NotifyBelow(mark int64) {
	c.below.Store(mark + 1)
	if c.drained() {
		c.wantService()
	}
}

// Taken returns how many bytes the socket has taken since the connection opened; they need
// not have reached the peer. Safe for concurrent use.
func (c *Conn) Taken() uint64 { return c.taken.Load() }

// drained reports whether the mark was asked for and is reached.
func (c *Conn) drained() bool {
	below := c.below.Load()
	return below != 0 && c.out.cost() < below
}

// tellDrained calls Drainer if that is due. Loop only.
func (c *Conn) tellDrained() {
	below := c.below.Load()
	if below != 0 && c.phase == open && c.out.cost() < below && c.below.CompareAndSwap(below, 0) {
		c.p.Drainer.OnDrained(c)
	}
}
