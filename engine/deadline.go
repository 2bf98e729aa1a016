package engine

import "github.com/zlnode/zlnode/internal/clock"

// deadlines are the points at which the engine ends a connection; 0: none. They
// share one timer, which is armed for the earliest or for an earlier point and
// finds out when it fires: so setting and clearing one costs a store, also where
// that happens for every read. Loop only.
type deadlines struct {
	hello clock.Mono // Admit must have been called; set before the loop has the connection
	frame clock.Mono // the frame begun must be whole
	stall clock.Mono // the peer must have taken a byte
	grace clock.Mono // what Close waits for must have happened
	timer timer
	armed clock.Mono // what timer is armed for, while it is
}

// earliest returns the first deadline, or Never.
func (d *deadlines) earliest() clock.Mono {
	first := clock.Never
	for _, at := range [...]clock.Mono{d.hello, d.frame, d.stall, d.grace} {
		if at != 0 && at < first {
			first = at
		}
	}
	return first
}

// setDeadline sets one of c.deadline's points. Loop only.
func (c *Conn) setDeadline(d *clock.Mono, at clock.Mono) {
	*d = at
	if !c.deadline.timer.armed() || at < c.deadline.armed {
		c.deadline.armed = at
		c.loop.arm(&c.deadline.timer, at)
	}
}

// checkDeadlines acts on what has passed. Loop only.
func (c *Conn) checkDeadlines(now clock.Mono) {
	d := &c.deadline
	passed := func(at clock.Mono) bool { return at != 0 && now.Reached(at) }
	switch {
	case passed(d.grace):
		c.graceOver = true
		return
	case passed(d.hello):
		c.Abort(CloseReason{Code: HelloTimeout})
		return
	case passed(d.frame):
		c.Abort(CloseReason{Code: FrameTimeout})
		return
	case passed(d.stall):
		c.Abort(CloseReason{Code: OutStalled})
		return
	}
	if at := d.earliest(); at != clock.Never {
		d.armed = at
		c.loop.arm(&d.timer, at)
	}
}
