package engine

import (
	"golang.org/x/sys/unix"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
)

// send queues b within limit and brings the loop.
func (c *Conn) send(b *buf.Buf, limit int64) error {
	if err := c.out.put(b, limit); err != nil {
		return err
	}
	c.wantFlush()
	return nil
}

// flush writes what is queued until the socket takes no more or flushBytes are
// written. An error is the socket's and final. Loop only.
func (c *Conn) flush() error {
	l := c.loop
	for budget := flushBytes; budget > 0 && c.out.waits(); {
		c.out.gather(&l.gather, budget)
		want := l.gather.total
		n, err := l.gather.write(c.fd)
		l.gather.reset()
		if err != nil && err != unix.EAGAIN { //nolint:errorlint // a bare errno
			return err
		}
		l.count.bytesOut.Add(uint64(n))
		l.count.writes.Add(1)
		c.out.wrote(n, &l.freed)
		budget -= n
		if n < want {
			return c.block(n > 0)
		}
	}
	c.deadline.stall = 0 // not blocked, so not stalled
	return nil
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

// drop frees everything that is queued. Loop only.
func (c *Conn) drop() {
	c.blocked = false
	c.out.drop(&c.loop.freed)
}
