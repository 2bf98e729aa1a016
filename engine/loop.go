package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/clock"
)

// loop is what the engine keeps for one event loop of the reactor. A turn is one
// event of the loop's waker: it runs timers and serves connections with work. All
// fields are the loop goroutine's but those said to be anyone's.
type loop struct {
	engine  *Engine
	reactor gnet.EventLoop
	waker   *waker
	log     zerolog.Logger

	wheel  wheel
	gather gather
	ends   []int  // of the frames of one batch; batchFrames long
	ahead  []byte // what was read behind a placed frame; aheadBytes long
	plain  []byte // what was read and decrypted; readBytes long, nil until needed

	waiting connQueue // taken from dirty, not served yet, oldest first
	conns   *Conn     // open ones, linked by prevOpen and nextOpen

	_ [64]byte // producers and loop do not share a cache line

	// Anyone's.
	dirty    atomic.Pointer[Conn] // connections with work, newest first, linked by next
	pokedAt  atomic.Int64         // when the ticker woke the loop; 0: it has had its turn
	stopMode atomic.Uint32        // what Engine.Close wants: stopNone and so on
	wakes    atomic.Uint64        // sent
	sweeping sync.Mutex           // guards the loop's role for connections once the loop is gone

	_ [64]byte

	// Written by the loop, read by anyone.
	due   atomic.Int64 // a clock.Mono not later than the wheel's earliest timer
	count loopCounters
}

const (
	stopNone  uint32 = iota
	stopClose        // close every connection
	stopAbort        // abort every connection
)

func newLoop(e *Engine) *loop {
	l := &loop{
		engine: e,
		log:    e.log,
		ends:   make([]int, 0, batchFrames),
		ahead:  make([]byte, aheadBytes),
	}
	l.gather.scratch = make([]byte, readBytes)
	l.wheel.init(clock.Now())
	l.due.Store(int64(clock.Never))
	return l
}

// plainBlock returns the block for what was decrypted. Loop only.
func (l *loop) plainBlock() []byte {
	if l.plain == nil {
		l.plain = make([]byte, readBytes)
	}
	return l.plain
}

// push puts c, whose token the caller holds, into the dirty list. The first one
// of an empty list wakes the loop: one wake-up, however many follow. Safe for
// concurrent use.
func (l *loop) push(c *Conn) {
	for {
		top := l.dirty.Load()
		c.next = top
		if !l.dirty.CompareAndSwap(top, c) {
			continue
		}
		if top == nil {
			l.wake()
		}
		return
	}
}

func (l *loop) wake() {
	l.wakes.Add(1)
	if !l.waker.wake() {
		l.sweep()
	}
}

// poke wakes the loop if a timer is due. The ticker's.
func (l *loop) poke(now clock.Mono) {
	if now.Reached(clock.Mono(l.due.Load())) && l.pokedAt.CompareAndSwap(0, int64(now)) {
		l.wake()
	}
}

// turn does what the loop was woken for. It is bounded: turnConns connections,
// flushBytes each. What is left waits for the next round of epoll, after the
// other sockets' events.
func (l *loop) turn() {
	now := clock.Now()
	l.count.turns.Add(1)
	if at := l.pokedAt.Load(); at != 0 {
		l.count.sawLag(now.Sub(clock.Mono(at)))
		l.pokedAt.Store(0)
	}
	if now.Reached(clock.Mono(l.due.Load())) {
		l.wheel.advance(now, func(t *timer) { l.fire(t, now) })
		l.due.Store(int64(l.wheel.next()))
	}
	if l.stopMode.Load() != stopNone {
		l.stopAll(l.stopMode.Swap(stopNone))
	}
	l.takeDirty()
	for range turnConns {
		c := l.waiting.pop()
		if c == nil {
			return
		}
		l.serve(c)
	}
	if !l.waiting.empty() {
		l.wake()
	}
}

// takeDirty moves the dirty list behind those that wait, oldest first.
func (l *loop) takeDirty() {
	var oldest *Conn
	for c := l.dirty.Swap(nil); c != nil; {
		below := c.next
		c.next, oldest = oldest, c
		c = below
	}
	l.waiting.append(oldest)
}

// serve does what a connection of the dirty list is there for. The token came
// with the list.
func (l *loop) serve(c *Conn) {
	c.owned, c.lent = true, false
	if c.phase == closed {
		c.drop() // a message that was on its way when the connection closed
		c.giveBack()
		return
	}
	c.runPosts(nil)
	l.end(c, c.finish())
}

// fire runs a timer that is due.
func (l *loop) fire(t *timer, now clock.Mono) {
	c := t.conn
	c.claim()
	switch t.kind {
	case deadlineTimer:
		c.checkDeadlines(now)
	case handlerTimer:
		c.p.Handler.OnTimer(c, now)
	}
	l.end(c, c.finish())
}

// end closes c's socket if a call said so; closeNow runs inside.
func (l *loop) end(c *Conn, a gnet.Action) {
	if a != gnet.Close {
		return
	}
	if err := l.reactor.Close(c.socket); err != nil {
		l.log.Warn().Err(err).Stringer("conn", c).Msg("closing a socket")
	}
}

// arm arms a timer and lets the ticker know.
func (l *loop) arm(t *timer, at clock.Mono) {
	l.wheel.arm(t, at)
	if due := t.tick * int64(tick); due < l.due.Load() {
		l.due.Store(due)
	}
}

func (l *loop) add(c *Conn) {
	c.nextOpen = l.conns
	if l.conns != nil {
		l.conns.prevOpen = c
	}
	l.conns = c
}

func (l *loop) remove(c *Conn) {
	if c.prevOpen != nil {
		c.prevOpen.nextOpen = c.nextOpen
	} else {
		l.conns = c.nextOpen
	}
	if c.nextOpen != nil {
		c.nextOpen.prevOpen = c.prevOpen
	}
	c.prevOpen, c.nextOpen = nil, nil
}

// stopAll asks every connection to end; they are served like any other. None is
// added any more, so once is enough.
func (l *loop) stopAll(mode uint32) {
	for c := l.conns; c != nil; c = c.nextOpen {
		if mode == stopAbort {
			c.Abort(CloseReason{Code: EngineClosed})
		} else if c.stopping.Load() == nil {
			c.Close(CloseReason{Code: EngineClosed})
		}
	}
}

// sweep frees what producers queue when the loop is gone: every connection is
// closed, so all there can be is a message that was on its way. Whoever finds the
// waker closed runs it, in the loop's role.
func (l *loop) sweep() {
	var dropped []*parts
	l.sweeping.Lock()
	l.takeDirty()
	for c := l.waiting.pop(); c != nil; c = l.waiting.pop() {
		dropped = append(dropped, c.out.drop())
		c.sched.Store(0)
		if c.out.waits() && c.sched.CompareAndSwap(0, tokenTaken) {
			l.waiting.append(c) // another one came in between
		}
	}
	l.sweeping.Unlock()
	for _, p := range dropped { // unlocked, because they may bring the loop again
		p.tell(false)
	}
}

// connQueue is a list of connections, linked by next, oldest first.
type connQueue struct{ first, last *Conn }

func (q *connQueue) empty() bool { return q.first == nil }

// append puts the list that begins with c behind the others.
func (q *connQueue) append(c *Conn) {
	if c == nil {
		return
	}
	if q.first == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	for c.next != nil {
		c = c.next
	}
	q.last = c
}

func (q *connQueue) pop() *Conn {
	c := q.first
	if c != nil {
		q.first, c.next = c.next, nil
	}
	return c
}

// loopCounters are written by the loop and read by anyone.
type loopCounters struct {
	framesIn, bytesIn, bytesPlaced, bytesOut, writes, blocked, turns atomic.Uint64
	lag, lagMax                                                      atomic.Int64 // ns
}

func (n *loopCounters) sawLag(d time.Duration) {
	n.lag.Store(int64(d))
	if int64(d) > n.lagMax.Load() {
		n.lagMax.Store(int64(d))
	}
}
