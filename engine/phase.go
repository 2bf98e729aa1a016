package engine

import (
	"golang.org/x/sys/unix"

	"github.com/panjf2000/gnet/v2"

	"github.com/zlnode/zlnode/internal/clock"
)

// phase is the state of a connection as its loop sees it.
//
//	opening → open → closing → lingering → closed
//
// Any phase but closed may go to closed directly: the peer ended, the socket
// failed, or Abort was called.
type phase uint8

const (
	opening   phase = iota // handed to the reactor, OnOpen not yet called
	open                   // frames are delivered
	closing                // Close was called: the queue is flushed, input dropped
	lingering              // flushed and our side ended; the peer's end is awaited
	closed                 // OnClose has been or is being called
)

// opened is the loop's first call for c.
func (c *Conn) opened(l *loop, socket gnet.Conn) gnet.Action {
	c.loop, c.socket, c.fd = l, socket, socket.Fd()
	if most := c.p.UnsentMax; most > 0 {
		_ = unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, most) // without it the kernel holds more
	}
	c.phase = open
	c.owned = true // sched was created with the token taken
	l.add(c)
	c.engine.living.Add(1)
	c.engine.count.opened(c)
	if c.p.Rate != nil {
		c.bucket = newBucket(c.p.Rate, clock.Now())
	}
	if c.p.HelloTimeout > 0 || c.ws != nil {
		c.setDeadline(&c.deadline.hello, c.deadline.hello)
	}
	if c.ws == nil {
		c.present()
	}
	if c.tls != nil {
		c.receiveSecure(nil) // what came with the handshake's end
	}
	return c.finish()
}

// present shows the connection to the Handler: messages can be sent now.
func (c *Conn) present() {
	c.presented = true
	if c.p.HelloTimeout < 0 {
		c.Admit()
	}
	c.p.Handler.OnOpen(c)
}

// finish ends every call of the loop for c: it does what the calls of handlers
// and producers asked for. When it returns Close, the caller must have the
// reactor close the socket, upon which closeNow runs.
func (c *Conn) finish() gnet.Action {
	if c.settle() {
		return gnet.Close
	}
	c.giveBack()
	return gnet.None
}

// settle brings c to the phase that was asked for and writes what is queued. It
// reports whether the socket must be closed now.
func (c *Conn) settle() bool {
	if c.writable.Load() && c.writable.Swap(false) {
		c.blocked = false
	}
	if c.phase == open && c.stopping.Load() != nil {
		c.beginClose()
	}
	if c.aborted.Load() || c.graceOver {
		return true
	}
	for {
		if !c.blocked && !c.lent {
			if err := c.flush(); err != nil {
				c.stop(transportReason(err))
				return true
			}
		}
		c.tellDrained()
		switch {
		case c.phase != closing || !c.out.ended() || !c.tls.drained():
			return false
		case c.sayClose() || c.tls.sayClose(): // flush that too
		default:
			return !c.endOutput()
		}
	}
}

// beginClose stops delivery and starts the grace. From here on no other deadline
// counts: the grace is the last.
func (c *Conn) beginClose() {
	c.phase = closing
	c.dropPart()
	c.deadline.hello, c.deadline.frame, c.deadline.stall = 0, 0, 0
	c.setDeadline(&c.deadline.grace, clock.Now().Add(c.p.CloseGrace))
}

// endOutput tells the peer that nothing follows. The socket stays open until the
// peer's end, or the grace's: closing it while input is unread or on its way
// would make the kernel send a reset, which can destroy what the peer has not
// read yet, the reason of the close most of all.
func (c *Conn) endOutput() bool {
	c.phase = lingering
	return unix.Shutdown(c.fd, unix.SHUT_WR) == nil
}

// throwAway drops input that came after Close.
func (c *Conn) throwAway(n int) {
	c.thrown += n
	if c.thrown > lingerBytes {
		c.graceOver = true
	}
}

// closeNow is the loop's last call for c but for work of producers that were on
// their way. The reactor closes the socket right after it; err is what it knows.
func (c *Conn) closeNow(err error) {
	if c.phase == closed {
		return
	}
	c.stop(transportReason(err)) // keeps an earlier reason
	c.awaitWriter()
	c.phase = closed
	if c.aborted.Load() || c.graceOver && c.unfinished() {
		// A reset instead of an orderly end: bytes that wait in the kernel must
		// not outlive the connection. The only failure, a dead socket, is fine.
		_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	c.engine.writable.forget(c)
	c.loop.wheel.cancel(&c.deadline.timer)
	c.loop.wheel.cancel(&c.timer)
	c.dropPart()
	c.drop()
	c.tls.drop()
	c.runPosts(postsClosed)
	c.loop.remove(c)
	c.engine.leave(c)
	if c.presented {
		c.p.Handler.OnClose(c, *c.stopping.Load())
	}
	c.giveBack()
	c.engine.gone()
}

// unfinished reports whether the peer has not got all that was queued.
func (c *Conn) unfinished() bool {
	if c.Pending() > 0 {
		return true
	}
	inKernel, err := unix.IoctlGetInt(c.fd, unix.SIOCOUTQ)
	return err == nil && inKernel > 0
}
