package engine

import (
	"golang.org/x/sys/unix"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/invariant"
)

// send queues b within limit and brings the loop.
func (c *Conn) send(b *buf.Buf, limit int64) error {
	var err error
	if c.ws == nil {
		err = c.out.put(b, limit)
	} else {
		err = c.out.putMessage(b, limit)
	}
	if err == nil {
		c.wantFlush()
	}
	return err
}

// flush writes what is queued, flushBytes at most, with one system call. An error
// is the socket's and final. What came meanwhile, or was too much, is for the next
// turn: so a connection gets one write per turn, other sockets get theirs, and
// under load a write carries what gathered in between. Loop only.
func (c *Conn) flush() error {
	if invariant.Enabled {
		invariant.Check(c.socket.OutboundBuffered() == 0, "engine: bytes were copied into the reactor's own out buffer")
	}
	if c.tls != nil {
		return c.flushSecure()
	}
	if c.out.waits() {
		g := &c.loop.gather
		c.out.gather(g, flushBytes)
		want := g.total
		n, err := g.write(c.fd)
		g.reset()
		if err != nil && err != unix.EAGAIN { //nolint:errorlint // a bare errno
			return err
		}
		c.wrote(n)
		c.out.wrote(n).tell(true)
		if n < want {
			return c.block(n > 0)
		}
	}
	c.deadline.stall = 0 // not blocked, so not stalled
	return nil
}

// wrote counts a write of which the socket has taken n bytes.
func (c *Conn) wrote(n int) {
	c.loop.count.bytesOut.Add(uint64(n))
	c.loop.count.writes.Add(1)
	c.taken.Add(uint64(n))
}

// block notes that the socket takes no more, and asks to be told when it does.
func (c *Conn) block(progress bool) error {
	if progress || c.deadline.stall == 0 {
		c.setDeadline(&c.deadline.stall, clock.Now().Add(c.p.StallTimeout))
	}
	c.loop.count.blocked.Add(1)
	c.blocked = true
	return c.engine.writable.arm(c)
}

// drop frees what is queued. Loop only.
func (c *Conn) drop() {
	c.blocked = false
	c.out.drop().tell(false)
}
