package engine

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
)

// Conn is one connection. It lives on one loop, which makes all calls of its
// Handler. Methods say whether they are safe for concurrent use or for the loop
// only, that is from within the Handler's calls and Post.
//
// Invariant: at most one party holds the connection's token (see sched.go), and
// only a holder links it into the loop's dirty list.
type Conn struct {
	id     uint64
	engine *Engine
	p      *Protocol
	from   *Listener // nil: dialled
	remote netip.AddrPort
	ws     *webSocket // nil: frames follow one another without messages
	tls    *secure    // nil: not encrypted

	// Set when the loop opens the connection, before the Handler sees it.
	loop   *loop
	socket gnet.Conn
	fd     int // open until OnClose has returned, another's afterwards

	// Any goroutine.
	sched    atomic.Uint32               // see sched.go
	writable atomic.Bool                 // the watcher's news, not yet seen by the loop
	aborted  atomic.Bool                 // Abort was called
	stopping atomic.Pointer[CloseReason] // the first reason; nil: none yet
	posts    atomic.Pointer[post]        // newest first; postsClosed at the end
	out      outQueue
	below    atomic.Int64  // NotifyBelow's mark and 1; 0: nobody asks
	taken    atomic.Uint64 // bytes that the socket took
	next     *Conn         // in the loop's dirty or waiting list; the token holder's

	// Loop only.
	phase     phase
	admitted  bool
	owned     bool // this loop holds the token in the call under way
	lent      bool // a sender held it as writer when the call began: the queue is not this call's
	blocked   bool // the socket took no more; the watcher will tell
	watched   bool // the watcher knows the connection
	graceOver bool // Close has waited long enough
	presented bool // the Handler's OnOpen was called
	partAsked bool // Placer was asked about part, or need not be
	data      any

	part     *buf.Buf   // the frame that came in part; nil: none
	partHave int        // bytes of it
	partNeed int        // its length; 0: the prefix is not whole
	placed   *placement // the frame that goes to a place of the Handler's; nil: none
	thrown   int        // bytes read and dropped since Close
	bucket   *bucket    // nil: no rate

	deadline deadlines
	timer    timer // Handler's

	prevOpen, nextOpen *Conn // the loop's list of open connections
}

// ID is unique within the engine and never reused. Safe for concurrent use.
func (c *Conn) ID() uint64 { return c.id }

// Dialled reports whether this node dialled. Safe for concurrent use.
func (c *Conn) Dialled() bool { return c.from == nil }

// RemoteAddr returns the peer's "host:port", or that of the client whom a trusted proxy
// named. Safe for concurrent use.
func (c *Conn) RemoteAddr() string { return c.remote.String() }

// Transport returns that of its listener, or how it was dialled. Safe for concurrent use.
func (c *Conn) Transport() Transport {
	switch {
	case c.from != nil:
		return c.from.cfg.Transport
	case c.tls != nil:
		return TLS
	}
	return TCP
}

// TLS returns what is known of the connection's encryption, such as the peer's
// certificates, which were verified as the configuration demands; nil without TLS. It is the caller's, what it points to must not be changed. Safe for concurrent use.
func (c *Conn) TLS() *tls.ConnectionState {
	if c.tls == nil {
		return nil
	}
	s := c.tls.conn.ConnectionState()
	return &s
}

// String names the connection in logs and errors. Safe for concurrent use.
func (c *Conn) String() string {
	return fmt.Sprintf("%s connection %d with %s", c.p.Name, c.id, c.remote)
}

// Send queues b, whose bytes go out after those of earlier Sends. It takes the
// caller's reference in every case and frees it when the bytes are written, or
// at once on an error; the bytes must not change from here on. The same Buf may
// be sent on many connections, each with a reference of its own.
//
// ErrFull: the queue is at Protocol.OutMax. ErrClosed: closed or closing. A nil
// error says that the message is queued, not that it will arrive. Safe for
// concurrent use; it never blocks.
func (c *Conn) Send(b *buf.Buf) error { return c.send(b, c.p.OutMax) }

// SendAlone is Send for a message that none is expected to follow soon: where nothing is
// queued before it, the caller writes it to the socket itself, which spares the wake-up of
// the loop. Many messages are best sent by Send, of which one write takes what has gathered.
func (c *Conn) SendAlone(b *buf.Buf) error { return c.sendAlone(b, c.p.OutMax) }

// SendControl is Send for messages that must not wait for the payload's budget:
// heartbeats, acknowledgements, replies, credits. They stay in order with other
// messages. Their bound is OutMax + ControlReserve; at the bound the connection
// is aborted with OutFull and ErrFull returned.
func (c *Conn) SendControl(b *buf.Buf) error {
	err := c.send(b, c.p.OutMax+ControlReserve)
	if err == ErrFull { //nolint:errorlint // send returns the sentinels as they are
		c.Abort(CloseReason{Code: OutFull})
	}
	return err
}

// Pending returns the cost of what is queued: bytes and MessageCost for each
// message. It is 0 after OnClose. Safe for concurrent use.
func (c *Conn) Pending() int64 { return c.out.cost() }

// Close ends the connection in order: no new Send is accepted; what was queued
// before goes out; the peer sees the end of the stream; OnClose comes when the
// peer has ended its side too, or when CloseGrace is over. Input is dropped from
// now on. The first reason given to Close or Abort wins; further calls of Close
// do nothing. Safe for concurrent use.
func (c *Conn) Close(r CloseReason) {
	c.stop(r)
	c.wantService()
}

// CloseWith is SendControl of last and then Close, for a peer that may end its side as soon
// as it has last: the reason given here stands before last can be on its way. It takes the
// caller's reference. Safe for concurrent use.
func (c *Conn) CloseWith(last *buf.Buf, r CloseReason) {
	c.note(r)
	_ = c.SendControl(last) // who is closed already is told nothing more
	c.Close(r)
}

// Abort ends the connection at once with a reset; what is queued is dropped. It
// also cuts short a Close under way, whose reason stays. Safe for concurrent use.
func (c *Conn) Abort(r CloseReason) {
	c.stop(r)
	c.aborted.Store(true)
	c.wantService()
}

// stop notes the first reason and shuts the out queue.
func (c *Conn) stop(r CloseReason) {
	c.note(r)
	c.out.close()
}

// note keeps the first reason. The loop delivers nothing any more, but what is sent until
// the queue is shut still goes out.
func (c *Conn) note(r CloseReason) {
	if c.stopping.Load() == nil {
		c.stopping.CompareAndSwap(nil, &r)
	}
}

// Admit says that the peer passed the handshake: it ends HelloTimeout and frees
// the connection's place among the listener's unadmitted ones. Further calls do
// nothing. Loop only.
func (c *Conn) Admit() {
	if c.admitted || c.phase == closed {
		return
	}
	c.admitted = true
	c.deadline.hello = 0
	c.engine.leaveUnadmitted(c)
}

// Admitted reports whether Admit was called. Loop only.
func (c *Conn) Admitted() bool { return c.admitted }

// SetData keeps v for the Handler. Loop only.
func (c *Conn) SetData(v any) { c.data = v }

// Data returns what SetData kept. Loop only.
func (c *Conn) Data() any { return c.data }

// ArmTimer makes OnTimer run once when at is reached, instead of at any point
// given before. It allocates nothing. Loop only.
func (c *Conn) ArmTimer(at clock.Mono) {
	if c.phase != closed {
		c.loop.arm(&c.timer, at)
	}
}

// DisarmTimer makes OnTimer not run. Loop only.
func (c *Conn) DisarmTimer() { c.loop.wheel.cancel(&c.timer) }
