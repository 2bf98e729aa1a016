package engine

import (
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// Stats are the engine's counters since New, and current values where it says so.
type Stats struct {
	Conns      int // open now
	Unadmitted int // accepted and not admitted, now

	Accepted uint64 // connections opened by peers
	Dialled  uint64 // connections opened by this node
	Closed   uint64

	RefusedMaxConns   uint64 // accepted and closed at once: Listen.MaxConns
	RefusedPerIP      uint64 // Listen.MaxPerIP
	RefusedUnadmitted uint64 // Listen.MaxUnadmitted
	RefusedHandshakes uint64 // Listen.MaxHandshakes
	RefusedRate       uint64 // Listen.ConnRate and NetworkRate
	HandshakeFailures uint64 // PROXY headers and TLS handshakes that failed or took too long, refused WebSockets
	AcceptFailures    uint64 // accepts that failed for want of descriptors or memory

	FramesIn, BytesIn, BytesOut uint64
	BytesPlaced                 uint64 // of BytesIn those that were read straight into placed frames
	Writes                      uint64 // system calls that wrote
	Blocked                     uint64 // times a socket took no more
	Turns                       uint64 // wake-ups that loops acted on
	Wakes                       uint64 // wake-ups that were sent

	// LoopLag is the time from waking a loop for a timer to its turn: the
	// largest of the loops' last ones. A loop that is stuck shows how long it
	// has been. LoopLagMax is the largest since New.
	LoopLag, LoopLagMax time.Duration
}

// engineCounters are written by anyone.
type engineCounters struct {
	conns, unadmitted                                                atomic.Int64
	accepted, dialled, ended                                         atomic.Uint64
	refusedMaxConns, refusedPerIP, refusedUnadmitted, acceptFailures atomic.Uint64
	refusedHandshakes, refusedRate, refusedNetworkRate, unprepared   atomic.Uint64
}

func (n *engineCounters) opened(c *Conn) {
	n.conns.Add(1)
	if c.Dialled() {
		n.dialled.Add(1)
	} else {
		n.accepted.Add(1)
	}
}

func (n *engineCounters) closed() {
	n.conns.Add(-1)
	n.ended.Add(1)
}

// Stats returns the counters; they are not of one instant.
func (e *Engine) Stats() Stats {
	n := &e.count
	s := Stats{
		Conns:             int(n.conns.Load()),
		Unadmitted:        int(n.unadmitted.Load()),
		Accepted:          n.accepted.Load(),
		Dialled:           n.dialled.Load(),
		Closed:            n.ended.Load(),
		RefusedMaxConns:   n.refusedMaxConns.Load(),
		RefusedPerIP:      n.refusedPerIP.Load(),
		RefusedUnadmitted: n.refusedUnadmitted.Load(),
		RefusedHandshakes: n.refusedHandshakes.Load(),
		RefusedRate:       n.refusedRate.Load() + n.refusedNetworkRate.Load(),
		HandshakeFailures: n.unprepared.Load(),
		AcceptFailures:    n.acceptFailures.Load(),
	}
	now := clock.Now()
	for _, l := range e.loops {
		m := &l.count
		s.FramesIn += m.framesIn.Load()
		s.BytesIn += m.bytesIn.Load()
		s.BytesOut += m.bytesOut.Load()
		s.BytesPlaced += m.bytesPlaced.Load()
		s.Writes += m.writes.Load()
		s.Blocked += m.blocked.Load()
		s.Turns += m.turns.Load()
		s.Wakes += l.wakes.Load()
		lag := time.Duration(m.lag.Load())
		if at := l.pokedAt.Load(); at != 0 {
			lag = max(lag, now.Sub(clock.Mono(at)))
		}
		s.LoopLag = max(s.LoopLag, lag)
		s.LoopLagMax = max(s.LoopLagMax, lag, time.Duration(m.lagMax.Load()))
	}
	return s
}
