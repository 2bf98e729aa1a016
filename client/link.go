package client

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/session"
)

const (
	// closeGrace is how long Close waits for the server to take what is queued
	// and to close its side.
	closeGrace = time.Second
	// drainTime is how long the reader goes on after a write failed: the server
	// may have said why before it closed.
	drainTime = 200 * time.Millisecond
	// namesMax bounds the names of pushes that are kept to be shared.
	namesMax = 128
)

// link is one connection and everything that belongs to it alone; a reconnect
// makes a new one. After its end it stays as the one that refuses calls.
type link struct {
	client   *Client
	conn     net.Conn
	out      outQueue
	requests requestTable
	alarm    alarm
	writer   chan struct{} // closed when the writer goroutine ended
	failed   atomic.Pointer[writeFailure]

	// Reader only.
	in      inbox
	live    session.Liveness
	spoken  bool    // the server has sent a push or a reply
	message Message // the one given to callbacks
	names   map[string]string
}

type writeFailure struct {
	err   error
	until clock.Mono // the reader goes on until then
}

// newLink starts the writer of a connection. lastSeq is the last sequence of
// the connection before: sequences are never used twice.
func newLink(c *Client, conn net.Conn, lastSeq uint64) *link {
	l := &link{
		client: c,
		conn:   conn,
		writer: make(chan struct{}),
		in:     inbox{frameMax: c.opts.MaxFrame},
		live:   session.NewLiveness(clock.Now(), &c.times),
		names:  make(map[string]string),
	}
	l.out.init(conn, c.opts.OutQueueBytes, c.opts.SilenceTimeout)
	l.requests.init(c.opts.MaxPending, lastSeq)
	l.alarm.init(conn)
	if c, ok := conn.(*wsConn); ok {
		c.wake = l.out.owe
	}
	go l.write()
	return l
}

// livenessTimes maps the options, where negative means off, to those of a
// session.Liveness, which has no such thing.
func livenessTimes(o *Options) session.LivenessTimes {
	forever := func(d time.Duration) time.Duration {
		if d < 0 {
			return math.MaxInt64
		}
		return d
	}
	return session.LivenessTimes{Ping: forever(o.HeartbeatInterval), Silence: forever(o.SilenceTimeout)}
}

// write is the writer goroutine.
func (l *link) write() {
	defer close(l.writer)
	finished, err := l.out.run()
	switch {
	case err != nil:
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = ErrSilent
		}
		until := clock.Now().Add(drainTime)
		l.failed.Store(&writeFailure{err: err, until: until})
		l.out.close(disconnected(err))
		l.alarm.ring(until)
	case finished:
		// Half-close, so that the server gets everything even if it is sending:
		// a full close would answer what it sends with a reset.
		if c, ok := l.conn.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
			return
		}
		_ = l.conn.Close()
	}
}

// serve reads until the connection ends, ends everything that was under way and
// returns why. It runs on the reader goroutine.
func (l *link) serve() error {
	cause := l.read()
	if errors.Is(cause, ErrClosed) {
		l.sayGoodbye()
	}
	if f := l.failed.Load(); f != nil && !isVerdict(cause) {
		cause = f.err
	}
	err := disconnected(cause)
	l.out.close(err)
	if c, ok := l.conn.(*wsConn); ok {
		c.endWith(cause)
	}
	_ = l.conn.Close()
	<-l.writer
	l.endAll(err)
	l.in.buf = nil
	return cause
}

// isVerdict reports whether cause says more than a failed write does.
func isVerdict(cause error) bool {
	_, told := errors.AsType[*ClosedError](cause)
	_, status := errors.AsType[*StatusError](cause)
	return told || status || errors.Is(cause, ErrClosed) || errors.Is(cause, ErrProtocol)
}

// sayGoodbye ends an orderly closed connection: what is queued goes out, then
// session-closing, then the server is given time to close its side. What still
// arrives is dropped.
func (l *link) sayGoodbye() {
	l.endAll(ErrClosed)
	l.out.finish(session.AppendClosing(nil, session.ClientClose, ""), ErrClosed)
	l.alarm.last(clock.Now().Add(closeGrace))
	for {
		l.in.start, l.in.end = 0, 0
		if _, err := l.conn.Read(l.in.space()); err != nil {
			return
		}
	}
}

// endAll refuses later requests with err and ends those under way with it.
func (l *link) endAll(err error) {
	for _, r := range l.requests.close(err) {
		l.client.complete(r, nil, fail("request", r.name, err))
	}
}

// read is the reader's loop. The result is what ended it.
func (l *link) read() error {
	if err := l.turn(clock.Now()); err != nil {
		return err
	}
	for {
		n, err := l.conn.Read(l.in.space())
		now := clock.Now()
		if n > 0 {
			l.in.received(n)
			l.live.Step(now, session.Event{Kind: session.EventOther})
			if err := l.takeFrames(now); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			if err := l.turn(now); err != nil {
				return err
			}
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the server closed the connection without a reason: %w", err)
		default:
			return err
		}
	}
}

// turn does what time has made due and sets the alarm for what comes next.
func (l *link) turn(now clock.Mono) error {
	l.alarm.clear()
	if l.client.closed.Load() {
		return ErrClosed
	}
	next := clock.Never
	if f := l.failed.Load(); f != nil {
		if now.Reached(f.until) {
			return f.err
		}
		next = f.until
	}
	l.live.Step(now, session.Event{Kind: session.EventTimer})
	if err := l.applyLiveness(); err != nil {
		return err
	}
	for r := l.requests.takeExpired(now); r != nil; r = l.requests.takeExpired(now) {
		l.client.complete(r, nil, fail("request", r.name, ErrRequestTimeout))
	}
	if at, ok := l.live.NextDeadline(); ok {
		next = min(next, at)
	}
	if next = min(next, l.requests.nextDeadline()); next != clock.Never {
		l.alarm.ring(next)
	}
	return nil
}

func (l *link) applyLiveness() error {
	var room [3]session.Effect
	for _, e := range l.live.Effects(room[:0]) {
		switch e.Kind {
		case session.EffectPing:
			l.out.heartbeat(true, false)
		case session.EffectPong:
			l.out.heartbeat(false, true)
		case session.EffectClose:
			return ErrSilent
		}
	}
	return nil
}

// takeFrames deals with every frame that is complete.
func (l *link) takeFrames(now clock.Mono) error {
	for {
		frame, err := l.in.next()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		if frame == nil {
			return nil
		}
		l.client.counts.framesIn.Add(1)
		if err := l.takeFrame(now, frame); err != nil {
			return err
		}
		l.in.spoil(frame)
	}
}

func (l *link) takeFrame(now clock.Mono, frame []byte) error {
	p, err := session.Decode(frame)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if l.client.opts.OnFrame != nil {
		l.show(&p, len(frame))
	}
	switch p.Kind {
	case session.KindSend:
		return l.push(&p)
	case session.KindResponse, session.KindError:
		return l.reply(&p)
	case session.KindControl:
		return l.control(now, &p)
	default:
		return fmt.Errorf("%w: it sent a %v", ErrProtocol, p.Kind)
	}
}

// show gives a frame to OnFrame.
func (l *link) show(p *session.Packet, size int) {
	if l.client.enter() {
		l.client.opts.OnFrame(&FrameInfo{Packet: *p, Size: size})
		l.client.leave()
	}
}

func (l *link) control(now clock.Mono, p *session.Packet) error {
	switch string(p.Name) {
	case session.PingName:
		l.live.Step(now, session.Event{Kind: session.EventPing})
		return l.applyLiveness()
	case session.PongName:
		return nil
	case session.ClosingName:
		reason, diag, err := session.ParseClosing(p)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return &ClosedError{Reason: reason, Diag: diag}
	default:
		return fmt.Errorf("%w: unknown control %.40q", ErrProtocol, p.Name)
	}
}

// push gives a message of the server's own to OnPush.
func (l *link) push(p *session.Packet) error {
	if err := l.open(p); err != nil {
		return err
	}
	l.hear()
	if l.client.enter() {
		l.client.opts.OnPush(&l.message)
		if n := p.Meta.PushNumber(); n > 0 {
			l.client.lastPush.Store(n)
		}
		l.client.leave()
	}
	return nil
}

// hear notes that the server has sent something on this connection: the last push of the one
// before is of no use any more.
func (l *link) hear() {
	if !l.spoken {
		l.spoken = true
		l.client.lastPush.Store(0)
	}
}

// reply ends the request that p answers.
func (l *link) reply(p *session.Packet) error {
	l.hear()
	r := l.requests.take(p.Seq)
	if r == nil {
		l.client.counts.lateReplies.Add(1)
		return nil
	}
	if err := l.open(p); err != nil {
		l.client.complete(r, nil, fail("request", r.name, disconnected(err)))
		return err
	}
	if p.Kind == session.KindResponse {
		l.client.complete(r, &l.message, nil)
		return nil
	}
	kind, text, err := session.ParseErrorBody(l.message.Payload)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrProtocol, err)
		l.client.complete(r, nil, fail("request", r.name, disconnected(err)))
		return err
	}
	l.client.complete(r, nil, &RemoteError{Kind: kind, Name: r.name, Message: text})
	return nil
}

// open fills l.message with views of p, decompressed.
func (l *link) open(p *session.Packet) error {
	payload, err := session.DecodePayload(p, l.client.opts.MaxFrame)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	l.message = Message{
		Name:        l.name(p.Name),
		Codec:       p.Codec,
		Metadata:    p.Meta,
		Correlation: p.Correlation,
		Flow:        p.Flow,
		FlowOrigin:  p.Origin,
		Payload:     payload,
	}
	return nil
}

// name returns b as a string, the same one for the same bytes while names are
// few, so that a push costs no memory for its name.
func (l *link) name(b []byte) string {
	if s, ok := l.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(l.names) < namesMax {
		l.names[s] = s
	}
	return s
}
