package node

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/flow"
	"github.com/zlnode/zlnode/session"
)

// This file is what becomes of messages that a client does not take at once.
//
// While the connection's queue is not above outMark, they go straight into it, without a
// lock. Above it they go into the Session's outbox, which is made then, and from there into
// the connection as it drains. What is in the connection's queue is out of reach: so the
// mark is small, and what the kernel holds unsent is, too.

// PushOptions says what may become of a push whose client is behind. The zero value: it must
// be delivered.
type PushOptions struct {
	Class session.PushClass
	Key   string // of NewestPerKey: 1 to 64 bytes
	// Flow is what the push belongs to, in place of its call's; without an Origin it is that.
	Flow   flow.ID
	Origin flow.Origin
}

// inFlow returns the metadata with the flow of the push, f being that of its call, or nil;
// see there.
func (o *PushOptions) inFlow(f *flow.Context, meta []byte) ([]byte, *buf.Buf) {
	own := flow.Context{ID: o.Flow, Origin: o.Origin}
	if o.Origin == 0 && f != nil {
		own.ID, own.Origin = f.ID, f.Origin
	}
	return withFlow(&own, meta)
}

// check refuses options that mean nothing.
func (o *PushOptions) check(who string) *Error {
	switch keyed := o.Class == session.NewestPerKey; {
	case !o.Class.Valid():
		return fail(errkind.InvalidOperation, opPush, who, "there is no class %d of pushes", o.Class)
	case keyed && (len(o.Key) < 1 || len(o.Key) > session.PushKeyMax):
		return fail(errkind.InvalidOperation, opPush, who, "a push of NewestPerKey needs a key of 1 to %d bytes", session.PushKeyMax)
	case !keyed && o.Key != "":
		return fail(errkind.InvalidOperation, opPush, who, "a push of %v has no key", o.Class)
	}
	return nil
}

// sessionOut is what a Session has for messages that wait. It exists while some do, until the
// Actors that were told so know that none does, and for good once a push was lost.
//
// Invariant: behind is set while a message is in box or on its way from there into the
// connection's queue. It is set before that message's sender returns, and cleared when the
// last message is in the connection's queue. So who begins to send after another's send has
// returned either finds it set, and goes behind that message in box; or the message is in the
// connection's queue, and he goes behind it there. That is the order of all messages, by
// whatever way they go. Two who send at once have no order to keep.
//
// mu is taken under the Session's mu, never the other way round, and by event loops. Nothing
// is done under it that takes longer than to queue some messages.
type sessionOut struct {
	session *sessionConn
	behind  atomic.Bool
	bytes   atomic.Int64 // of box; written under mu

	mu       sync.Mutex
	box      session.Outbox[*buf.Buf]
	ended    bool   // the Session takes no more
	retired  bool   // it is not the Session's any more, which may get another
	listed   bool   // it is one of Node.behind
	shared   int64  // bytes of the node's budget
	taken    uint64 // bytes that the socket had taken when that was looked at last
	dropped  uint64 // of the node's count
	replaced uint64
	told     int64 // what the owners of the bound Actors know to be pending
	toldAt   clock.Mono
	toldTo   *sessionRoutes
}

// outEnded is the sessionOut of a Session whose connection is closed, or is closing with
// nothing that waits.
var outEnded = &sessionOut{ended: true}

// outStuck is the one reason to close a slow client that may be the connection's alone.
var outStuck = session.OutboxStuck.String()

const slowText = "the client takes its messages too slowly"

// queueAs sends a frame to the client, which it takes. how is nil if it must be delivered;
// actor is whose key it has.
func (s *sessionConn) queueAs(b *buf.Buf, actor string, how *PushOptions) *Error {
	if o := s.out.Load(); o != nil && o.behind.Load() || s.conn.Pending() > outMark {
		return s.putBehind(b, actor, how)
	}
	err := s.conn.Send(b)
	if err == nil {
		return nil
	}
	if errors.Is(err, engine.ErrFull) { // many who sent at once have all seen a short queue
		if o := s.lockOut(); o != nil {
			defer o.mu.Unlock()
			o.tooSlow(session.OutboxTooMuch.String())
		}
	}
	return s.refusal()
}

// refusal is why a Session that is over takes no message.
func (s *sessionConn) refusal() *Error {
	if s.slow.Load() {
		return errSessionSlow
	}
	return errSessionClosed
}

// lockOut returns the Session's sessionOut with mu held, or nil if that is outEnded.
func (s *sessionConn) lockOut() *sessionOut {
	for {
		o := s.out.Load()
		if o == nil {
			o = &sessionOut{session: s, box: session.NewOutbox[*buf.Buf](&s.port.out)}
			if !s.out.CompareAndSwap(nil, o) {
				continue
			}
		}
		if o == outEnded {
			return nil
		}
		if o.mu.Lock(); !o.retired {
			return o
		}
		o.mu.Unlock()
	}
}

// putBehind is queueAs for a client that is behind.
func (s *sessionConn) putBehind(b *buf.Buf, actor string, how *PushOptions) *Error {
	o := s.lockOut()
	if o == nil {
		b.Free()
		return s.refusal()
	}
	defer o.mu.Unlock()
	switch {
	case o.ended:
		b.Free()
		return s.refusal()
	case !o.behind.Load() && s.conn.Pending() <= outMark: // it has drained meanwhile
		err := o.hand(b)
		o.retire()
		return err
	}
	now := clock.Now()
	class, key := session.MustDeliver, session.PushKey{}
	if how != nil {
		class = how.Class
		if class == session.NewestPerKey {
			key = session.PushKey{Actor: strings.Clone(actor), Key: strings.Clone(how.Key)}
		}
	}
	o.box.Put(now, class, key, b, len(b.Bytes())+engine.MessageCost)
	o.settle()
	if why := o.box.Full(); why != 0 {
		o.tooSlow(why.String())
		return errSessionSlow
	}
	if o.crowded() {
		o.box.Shed(int(s.node.waiting.Load() - outboxesBytesMax))
		if o.settle(); class == session.MustDeliver && o.crowded() {
			o.tooSlow("the node holds too much for clients that are behind")
			return errSessionSlow
		}
	}
	if !o.behind.Load() {
		o.behind.Store(true)
		o.list()
		s.conn.NotifyBelow(outLow)
	}
	o.tell(now)
	return nil
}

// hand puts a frame, which it takes, into the connection's queue. mu is held.
func (o *sessionOut) hand(b *buf.Buf) *Error {
	switch err := o.session.conn.Send(b); {
	case err == nil:
		return nil
	case errors.Is(err, engine.ErrFull):
		o.tooSlow(session.OutboxTooMuch.String())
	}
	return o.session.refusal()
}

// settle frees what was dropped or replaced and keeps the counts. mu is held.
func (o *sessionOut) settle() {
	n := o.session.node
	for _, b := range o.box.Gone(nil) {
		b.Free()
	}
	dropped, replaced := o.box.Lost()
	n.counters.pushesDropped.Add(dropped - o.dropped)
	n.counters.pushesReplaced.Add(replaced - o.replaced)
	o.dropped, o.replaced = dropped, replaced
	bytes := int64(o.box.Bytes())
	o.bytes.Store(bytes)
	shared := max(bytes-outFree, 0)
	n.waiting.Add(shared - o.shared)
	o.shared = shared
}

// crowded reports whether the node holds too much for all clients together, to which this
// one's part adds. mu is held.
func (o *sessionOut) crowded() bool {
	return o.shared > 0 && o.session.node.waiting.Load() > outboxesBytesMax
}

// tooSlow ends the Session of a client that is too slow; what waits is dropped. mu is held.
func (o *sessionOut) tooSlow(why string) {
	s := o.session
	o.end()
	if why != outStuck {
		s.final.Store(true)
	}
	if s.slow.Swap(true) {
		return
	}
	s.node.counters.slowSessions.Add(1)
	s.node.log.Debug().Uint64("session", s.id).Str("reason", why).Msg("a session is closed because its client is too slow")
	closeConn(s.conn, session.TransportError, slowText, engine.CloseReason{Code: engine.OutFull, Text: slowText})
}

// end drops what waits. Nothing is taken any more. mu is held.
func (o *sessionOut) end() {
	o.ended = true
	o.behind.Store(true) // so that senders come here and are refused
	for b, ok := o.box.Take(); ok; b, ok = o.box.Take() {
		b.Free()
	}
	o.settle()
	o.unlist()
}

// flushOut puts all that waits into the connection's queue, which has room for it, because
// the Session is about to be closed in order. Nothing waits any more afterwards.
func (s *sessionConn) flushOut() {
	if s.out.CompareAndSwap(nil, outEnded) {
		return
	}
	o := s.lockOut()
	if o == nil {
		return
	}
	defer o.mu.Unlock()
	for b, ok := o.box.Take(); ok; b, ok = o.box.Take() {
		if o.hand(b) != nil {
			break
		}
	}
	o.end()
}

// endOut is for the connection's end: nothing can wait any more.
func (s *sessionConn) endOut() {
	if o := s.out.Swap(outEnded); o != nil && o != outEnded {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.end()
	}
}

// OnDrained implements engine.Drainer.
func (p *sessionPort) OnDrained(c *engine.Conn) {
	if o := c.Data().(*sessionConn).out.Load(); o != nil {
		o.drain()
	}
}

// drain puts what waits into the connection's queue, up to the mark. Loop only.
func (o *sessionOut) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended || o.retired {
		return
	}
	now, conn := clock.Now(), o.session.conn
	o.look(now)
	for conn.Pending() <= outMark {
		b, ok := o.box.Take()
		if !ok {
			o.behind.Store(false)
			break
		}
		if o.hand(b) != nil {
			break // the connection is closing, and its end is told
		}
	}
	o.settle()
	if o.ended {
		return
	}
	if o.behind.Load() {
		conn.NotifyBelow(outLow)
	}
	o.tell(now)
}

// look notes whether the client has taken something. mu is held.
func (o *sessionOut) look(now clock.Mono) {
	if taken := o.session.conn.Taken(); taken != o.taken {
		o.taken = taken
		o.box.Took(now)
	}
}

// sweep judges the client by its times. After a pause, in which nothing could be sent, these
// begin anew.
func (o *sessionOut) sweep(now clock.Mono, paused bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	o.look(now)
	if paused {
		o.box.Excuse(now)
	}
	if why := o.box.Overdue(now); why != 0 {
		o.tooSlow(why.String())
		return
	}
	o.tell(now)
	if !o.behind.Load() && o.told == 0 {
		o.unlist()
		o.retire()
	}
}

// retire takes it from the Session if nothing of it is worth keeping. mu is held.
func (o *sessionOut) retire() {
	if !o.ended && !o.listed && !o.behind.Load() && o.dropped+o.replaced == 0 {
		o.retired = true
		o.session.out.CompareAndSwap(o, nil)
	}
}

func (o *sessionOut) list() {
	if !o.listed {
		o.listed = true
		o.session.node.behind.add(o)
	}
}

func (o *sessionOut) unlist() {
	if o.listed {
		o.listed = false
		o.session.node.behind.remove(o)
	}
}

// behindSessions are those of a node that are to be looked at from time to time, because
// their clients are behind or were a moment ago.
type behindSessions struct {
	lockedSet[*sessionOut]
	last clock.Mono // the sweeper's
}

// sweep looks at each. The sweeper's.
func (b *behindSessions) sweep(now clock.Mono) {
	paused := now.Sub(b.last) > sweepPause
	b.last = now
	for _, o := range b.all() {
		o.sweep(now, paused)
	}
}
