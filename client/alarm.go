package client

import (
	"math"
	"net"
	"sync"

	"github.com/zlnode/zlnode/internal/clock"
)

// alarm is the only timer of a connection: the read deadline, which brings the
// reader back from Read at the earliest time that anybody asked for. So there is
// no timer and no goroutine per request, and everything that time causes happens
// on the reader.
//
// No wake-up is lost: whoever wants one first publishes why (a request in the
// table, a flag) and then calls ring; the reader first calls clear and then looks
// at what is published. If the ring came before the clear, the reader sees its
// reason; if it came after, it sets the deadline. Setting it fails only on a
// closed connection, where Read fails too.
type alarm struct {
	conn net.Conn

	mu sync.Mutex
	at clock.Mono // the read deadline, or Never while the reader looks around
}

func (a *alarm) init(conn net.Conn) { a.conn, a.at = conn, clock.Never }

// ring wakes the reader at that time, or earlier. Safe for concurrent use.
func (a *alarm) ring(at clock.Mono) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at < a.at {
		a.at = at
		_ = a.conn.SetReadDeadline(at.Time())
	}
}

// last sets the read deadline for good: no later ring changes it. For the reader.
func (a *alarm) last(at clock.Mono) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = math.MinInt64
	_ = a.conn.SetReadDeadline(at.Time())
}

// clear forgets the time. For the reader, which must ring for its own next
// deadline before it reads again.
func (a *alarm) clear() {
	a.mu.Lock()
	a.at = clock.Never
	a.mu.Unlock()
}
