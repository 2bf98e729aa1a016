package engine

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/zlnode/zlnode/internal/buf"
)

// sendAlone queues b within limit and writes it, if it is all that is queued and nobody has
// the connection's token. Else, and for what the socket does not take at once, the loop comes.
func (c *Conn) sendAlone(b *buf.Buf, limit int64) error {
	if c.ws != nil || c.tls != nil {
		return c.send(b, limit) // what goes out is made by the loop
	}
	if err := c.out.put(b, limit); err != nil {
		return err
	}
	if c.sched.CompareAndSwap(0, tokenTaken|outWriter) {
		c.write()
	} else {
		c.wantFlush()
	}
	return nil
}

// write is the writer's part: one system call that does not wait. The loop comes behind it
// if there is more to do, or if it was asked for.
//
// The descriptor is the connection's until the writer is over: closeNow shuts the queue and
// then waits for the writer, who looks at the queue when it has the token.
func (c *Conn) write() {
	whole := !c.out.shut() && c.writeFirst()
	if whole && c.sched.CompareAndSwap(tokenTaken|outWriter, 0) {
		return
	}
	c.sched.Store(tokenTaken)
	c.loop.push(c)
}

// writeFirst writes the oldest messages that are queued, and reports whether nothing is left
// for the loop. What a producer has not put whole yet it brings the loop for itself. Whoever
// fails leaves the failure for the loop to meet. The writer's.
func (c *Conn) writeFirst() bool {
	if !c.out.waits() {
		return true
	}
	p, single := c.out.single()
	if !single {
		return false
	}
	n, err := unix.Write(c.fd, p)
	if err != nil {
		return false
	}
	c.wrote(n)
	c.out.wrote(n)
	return n == len(p) && c.below.Load() == 0
}

// awaitWriter waits for a sender that writes, which takes no longer than its system call.
// When the out queue is shut, no other one follows. Loop only.
func (c *Conn) awaitWriter() {
	for c.sched.Load()&outWriter != 0 {
		runtime.Gosched()
	}
}
