package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/clock"
)

// Config configures an Engine. The zero value is usable.
type Config struct {
	// Loops is the number of event loops, each a goroutine. 0 = half of GOMAXPROCS,
	// 1 at least; at most 256.
	//
	// A loop that waits in epoll keeps its processor (Go's P) until the runtime's
	// monitor takes it back, which it does every 10 ms at worst. As many loops as
	// processors would so stop all other goroutines for that long, now and then; so
	// leave processors to the workers, and give the process two or more.
	Loops int
	// Logger gets the engine's few log lines: failing accepts, reactor errors.
	Logger zerolog.Logger
}

// Engine is the reactor of a node: its loops, listeners and connections. Its
// methods are safe for concurrent use.
type Engine struct {
	log      zerolog.Logger
	client   *gnet.Client
	loops    []*loop
	writable *writable
	lastID   atomic.Uint64
	count    engineCounters

	ctx    context.Context // ends when Close begins: dials and accept pauses stop
	cancel context.CancelFunc

	mu struct {
		sync.Mutex
		closing   bool
		listeners map[*Listener]struct{}
	}
	entering sync.WaitGroup // sockets on their way into the reactor, accept loops
	living   atomic.Int64   // connections whose OnClose has not returned
	idle     chan struct{}  // a hint that the last connection is gone; room for one
	ticking  sync.WaitGroup
	stopTick chan struct{}

	closeOnce sync.Once
	closeErr  error
	closeDone chan struct{}
}

// New starts the loops. It opens no port.
func New(cfg Config) (*Engine, error) {
	if cfg.Loops < 0 || cfg.Loops > maxLoops {
		return nil, fmt.Errorf("engine: Loops is %d; it must be 0 (half of GOMAXPROCS) to %d", cfg.Loops, maxLoops)
	}
	n := cfg.Loops
	if n == 0 {
		n = min(max(runtime.GOMAXPROCS(0)/2, 1), maxLoops)
	}
	e := &Engine{
		log:       cfg.Logger,
		idle:      make(chan struct{}, 1),
		stopTick:  make(chan struct{}),
		closeDone: make(chan struct{}),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.mu.listeners = make(map[*Listener]struct{})
	if err := e.start(n); err != nil {
		e.cancel()
		return nil, err
	}
	e.ticking.Go(e.tick)
	return e, nil
}

// start brings up the watcher, the reactor and one waker per loop, or nothing.
func (e *Engine) start(n int) (err error) {
	if e.writable, err = newWritable(); err != nil {
		return err
	}
	if e.client, err = startReactor(e, n); err != nil {
		e.writable.close()
		return fmt.Errorf("engine: starting the reactor: %w", err)
	}
	for range n {
		if err = e.startLoop(); err != nil {
			err = errors.Join(err, e.client.Stop())
			for _, l := range e.loops {
				l.waker.close()
			}
			e.writable.close()
			return err
		}
	}
	return nil
}

// startLoop gives one loop of the reactor its waker. gnet enrols in the loop with
// the fewest connections, so one waker after the other finds a loop without one.
func (e *Engine) startLoop() error {
	l := newLoop(e)
	w, far, err := newWaker()
	if err != nil {
		return err
	}
	l.waker = w
	e.loops = append(e.loops, l)
	if _, err := e.client.EnrollContext(far, l); err != nil {
		return fmt.Errorf("engine: enrolling a loop's waker: %w", err)
	}
	if l.reactor == nil || e.loopOf(l.reactor) != l {
		return errors.New("engine: enrolling a loop's waker: the reactor refused it, or gave it the loop of another")
	}
	return nil
}

// loopOf returns the loop that belongs to gnet's, or nil.
func (e *Engine) loopOf(r gnet.EventLoop) *loop {
	for _, l := range e.loops {
		if l.reactor == r {
			return l
		}
	}
	return nil
}

// tick wakes loops whose timers are due.
func (e *Engine) tick() {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			now := clock.Now()
			for _, l := range e.loops {
				l.poke(now)
			}
		case <-e.stopTick:
			return
		}
	}
}

// Dial connects to addr, "host:port", within ctx. OnOpen has run when it returns;
// the connection may also have ended by then, which OnClose tells. ErrEngineClosed
// if the engine is closed.
func (e *Engine) Dial(ctx context.Context, addr string, p *Protocol) (*Conn, error) {
	return e.dial(ctx, addr, p, nil)
}

// DialTLS is Dial and a TLS handshake as client, within ctx and HelloTimeout. cfg is not
// changed; it must say ServerName, or verify by itself. Placer's frames are never read
// straight into their places.
func (e *Engine) DialTLS(ctx context.Context, addr string, p *Protocol, cfg *tls.Config) (*Conn, error) {
	return e.dial(ctx, addr, p, cfg)
}

func (e *Engine) dial(ctx context.Context, addr string, p *Protocol, cfg *tls.Config) (*Conn, error) {
	p, err := p.resolve()
	if err != nil {
		return nil, err
	}
	if e.ctx.Err() != nil {
		return nil, ErrEngineClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	var d net.Dialer
	s, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		if e.ctx.Err() != nil {
			return nil, ErrEngineClosed
		}
		return nil, fmt.Errorf("engine: dial %q for protocol %q: %w", addr, p.Name, err)
	}
	x := entry{began: clock.Now(), remote: addrPort(s.RemoteAddr())}
	if cfg != nil {
		ctx, cancel := context.WithTimeout(ctx, p.helloTimeout())
		defer cancel()
		if x.tls, err = handshake(ctx, s, cfg, tls.Client); err != nil {
			return nil, joinClose(fmt.Errorf("engine: dial %q for protocol %q: %w", addr, p.Name, err), s)
		}
	}
	return e.enter(s, p, nil, x)
}

// entry is what is known of a socket before its loop has it.
type entry struct {
	began  clock.Mono     // when it was accepted or dialled
	remote netip.AddrPort // the peer, or whom a proxy speaks for
	tls    *secure        // nil: not encrypted
}

// enter hands a socket to the reactor and returns when OnOpen has run. It closes
// the socket if it fails.
func (e *Engine) enter(s net.Conn, p *Protocol, from *Listener, x entry) (*Conn, error) {
	if !e.beginEnter() {
		return nil, joinClose(ErrEngineClosed, s)
	}
	defer e.entering.Done()
	c := &Conn{id: e.lastID.Add(1), engine: e, p: p, from: from, remote: x.remote, tls: x.tls}
	if from != nil && from.cfg.Transport.Messages() {
		c.ws = &webSocket{origins: from.cfg.Origins}
	}
	c.deadline.hello = x.began.Add(p.helloTimeout())
	c.sched.Store(tokenTaken) // the loop's, until OnOpen has run
	c.timer = timer{conn: c, kind: handlerTimer}
	c.deadline.timer = timer{conn: c, kind: deadlineTimer}
	if _, err := e.client.EnrollContext(s, c); err != nil {
		return nil, fmt.Errorf("engine: handing %v to its loop: %w", c, err)
	}
	if c.loop == nil {
		return nil, fmt.Errorf("engine: handing %v to its loop: the reactor refused it", c)
	}
	return c, nil
}

// beginEnter reports whether a socket or an accept loop may still come in; the
// caller ends that with entering.Done.
func (e *Engine) beginEnter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.mu.closing {
		e.entering.Add(1)
	}
	return !e.mu.closing
}

// leave gives back the places that a connection took, so that who is told of its
// end can count on them.
func (e *Engine) leave(c *Conn) {
	if !c.admitted {
		c.admitted = true
		e.leaveUnadmitted(c)
	}
	if c.from != nil {
		c.from.leave(c)
	}
	e.count.closed()
}

// gone is a connection's last act on its loop.
func (e *Engine) gone() {
	if e.living.Add(-1) == 0 {
		select {
		case e.idle <- struct{}{}:
		default: // a hint is there already
		}
	}
}

func (e *Engine) leaveUnadmitted(c *Conn) {
	if c.from != nil {
		c.from.unadmitted.Add(-1)
		e.count.unadmitted.Add(-1)
	}
}

// Close stops the listeners, closes every connection with EngineClosed, each
// within its CloseGrace, and ends the loops. When ctx ends first, connections
// that are left are aborted and ctx's error is returned. Everything is freed when
// it returns. A second call waits for the first and returns its error. It must
// not be called from a loop.
func (e *Engine) Close(ctx context.Context) error {
	e.closeOnce.Do(func() {
		e.closeErr = e.close(ctx)
		close(e.closeDone)
	})
	<-e.closeDone
	return e.closeErr
}

func (e *Engine) close(ctx context.Context) error {
	e.mu.Lock()
	e.mu.closing = true
	for l := range e.mu.listeners {
		_ = l.ln.Close()
	}
	e.mu.Unlock()
	e.cancel()
	e.entering.Wait() // from here on no connection is added

	e.stopConns(stopClose)
	var cut error
	for ended := ctx.Done(); e.living.Load() > 0; {
		select {
		case <-e.idle:
		case <-ended:
			ended, cut = nil, ctx.Err()
			e.stopConns(stopAbort)
		}
	}
	close(e.stopTick)
	e.ticking.Wait()
	e.writable.close()
	err := e.client.Stop()
	for _, l := range e.loops {
		l.waker.close()
		l.sweep()
	}
	return errors.Join(cut, err)
}

func (e *Engine) stopConns(mode uint32) {
	for _, l := range e.loops {
		l.stopMode.Store(mode)
		l.wake()
	}
}

// addrPort returns a TCP address in short form, an IPv4 one as such.
func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// joinClose closes c and returns err with what that reports.
func joinClose(err error, c io.Closer) error { return errors.Join(err, c.Close()) }
