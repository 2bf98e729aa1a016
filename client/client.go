package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/session"
)

// Client is a connection to a STREAM server that may be renewed. See the package
// comment for its goroutines and rules. All methods are safe for concurrent use.
type Client struct {
	opts  Options
	times session.LivenessTimes

	// link is the newest connection, also after it ended: then it refuses calls
	// with the reason. Written by Dial and the reader.
	link atomic.Pointer[link]
	// closed and calling decide between Close and the callbacks; see enter.
	lastPush atomic.Uint64

	closed  atomic.Bool
	calling atomic.Bool
	next    int             // of opts.addrs, to be tried next; Dial's, then the reader's
	ctx     context.Context // ends with Close; bounds dialling and back-off
	cancel  context.CancelFunc
	done    chan struct{} // closed when the reader ended for good
	waiters sync.Pool     // of *request with an empty outcome channel
	counts  counts
}

type counts struct {
	framesIn, framesOut     atomic.Uint64
	lateReplies, reconnects atomic.Uint64
}

// Stats are counts since Dial, over all connections.
type Stats struct {
	FramesIn    uint64 // received, heartbeats included
	FramesOut   uint64 // accepted for sending, heartbeats not included
	LateReplies uint64 // replies to requests that had ended already
	Reconnects  uint64 // connections after the first
}

// Dial connects to the server within ctx and starts the client, which the caller
// must Close. It tries each address once; Options.Reconnect is about later losses.
func Dial(ctx context.Context, o Options) (*Client, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{opts: opts, times: livenessTimes(&opts), next: rand.IntN(len(opts.addrs)), done: make(chan struct{})}
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, &Error{Kind: Unavailable, Op: "dial", Name: opts.addressList(), Err: err}
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	first := newLink(c, conn, 0)
	c.link.Store(first)
	go c.run(first)
	return c, nil
}

// connect tries every address once, from the next one on.
func (c *Client) connect(ctx context.Context) (net.Conn, error) {
	var failures []error
	for range c.opts.addrs {
		a := &c.opts.addrs[c.next]
		c.next = (c.next + 1) % len(c.opts.addrs)
		attempt, cancel := context.WithTimeout(ctx, c.opts.DialTimeout)
		conn, err := c.opts.open(attempt, a)
		cancel()
		if err == nil {
			return conn, nil
		}
		if len(c.opts.addrs) > 1 {
			err = fmt.Errorf("%s: %w", a.text, err)
		}
		if failures = append(failures, err); ctx.Err() != nil {
			break
		}
	}
	if len(failures) == 1 {
		return nil, failures[0]
	}
	return nil, errors.Join(failures...)
}

// run is the reader goroutine: one connection after the other, and everything
// that the application is told.
func (c *Client) run(l *link) {
	defer close(c.done)
	defer c.cancel()
	pause := backoff{min: c.opts.BackoffMin, max: c.opts.BackoffMax}
	for {
		began := clock.Now()
		cause := l.serve()
		if !c.tell(StateDisconnected, cause) || !c.opts.Reconnect {
			return
		}
		pause.lasted(clock.Now().Sub(began))
		conn, err := c.redial(&pause, cause)
		if err != nil {
			c.tell(StateEnded, err)
			return
		}
		c.counts.reconnects.Add(1)
		l = newLink(c, conn, l.requests.last())
		c.link.Store(l)
		c.tell(StateConnected, nil)
	}
}

// redial tries until it has a connection. It gives up, with the last failure, when
// the options say so after a connection that cause ended, and after Close.
func (c *Client) redial(pause *backoff, cause error) (net.Conn, error) {
	if !c.mayReconnect(cause) {
		return nil, cause
	}
	if all := len(c.opts.addrs); c.opts.ReconnectSame {
		c.next = (c.next + all - 1) % all // whoever tries all of them is there again
	}
	for bound := c.opts.ReconnectAttempts; bound == 0 || pause.attempts < bound; {
		if !pause.wait(c.ctx) {
			return nil, ErrClosed
		}
		conn, err := c.connect(c.ctx)
		if err == nil {
			return conn, nil
		}
		cause = err
	}
	return nil, cause
}

func (c *Client) mayReconnect(cause error) bool {
	if !c.enter() {
		return false
	}
	defer c.leave()
	return c.opts.ReconnectIf(cause)
}

// tell calls OnState, unless the client was closed: then it reports false.
func (c *Client) tell(s State, err error) bool {
	if !c.enter() {
		return false
	}
	defer c.leave()
	c.opts.OnState(s, err)
	return true
}

// enter begins a callback of the reader, or reports false if the client was
// closed. Either Close sees calling and does not wait, or enter sees closed and
// the callback does not start: so Close can be called by a callback.
func (c *Client) enter() bool {
	c.calling.Store(true)
	if c.closed.Load() {
		c.calling.Store(false)
		return false
	}
	return true
}

func (c *Client) leave() { c.calling.Store(false) }

// Close ends the client: requests under way end with ErrClosed, what was sent
// goes out, the server is told that the client closes, and the connection is
// closed, all within about a second. No OnPush and no OnState starts after Close
// was called. Close waits for the end, except while a callback runs (the caller
// may be that callback): Done tells then. It always returns nil; calling it again
// is fine.
func (c *Client) Close() error {
	if !c.closed.Swap(true) {
		c.cancel()
		c.link.Load().alarm.ring(clock.Now())
	}
	if !c.calling.Load() {
		<-c.done
	}
	return nil
}

// Done returns a channel that is closed when the client has ended for good, by
// Close or by the loss of its connection without Options.Reconnect. No goroutine
// of the client is left then and no callback runs.
func (c *Client) Done() <-chan struct{} { return c.done }

// LastPush returns the number of the last push that OnPush has had, of those that carry one;
// 0: none. It is about the connection on which the last push or reply came: so after a
// reconnect, until the server has sent anything, it is what a packet that authenticates may
// say to resume the session of the connection before. Safe for concurrent use.
func (c *Client) LastPush() uint64 { return c.lastPush.Load() }

// Stats returns the counts so far.
func (c *Client) Stats() Stats {
	return Stats{
		FramesIn:    c.counts.framesIn.Load(),
		FramesOut:   c.counts.framesOut.Load(),
		LateReplies: c.counts.lateReplies.Load(),
		Reconnects:  c.counts.reconnects.Load(),
	}
}
