package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
)

// Handler reacts to one kind of connection. All calls of one connection come
// from its loop, one after the other, and must not block: no lock that is held
// for long, no channel, no I/O. Slow work goes elsewhere and comes back by Post.
type Handler interface {
	// OnOpen is the first call. Send works from here on.
	OnOpen(c *Conn)
	// OnFrame gets one whole frame. The frame is a view of owner, valid during
	// the call and never to be modified; frames of one read share owner. To keep
	// the frame, take owner.Ref() and Free it later. An error closes the
	// connection: with the reason of a *CloseError, else with ProtocolError.
	OnFrame(c *Conn, frame []byte, owner *buf.Buf) error
	// OnTimer is called when the point given to ArmTimer was reached, at most
	// one tick (25 ms) late on a loop that keeps up.
	OnTimer(c *Conn, now clock.Mono)
	// OnClose is the last call, exactly once for each OnOpen. Send answers
	// ErrClosed from here on and nothing is pending any more.
	OnClose(c *Conn, reason CloseReason)
}

// Protocol describes a kind of connection. It must not change after it was
// given to Listen or Dial; its connections share it.
type Protocol struct {
	// Name is used in errors and logs.
	Name string
	// FrameSize returns the length of a frame, prefix included, from its first
	// bytes: 0 if they are too few (at most 64 may be asked for). An error
	// closes the connection before anything is allocated for the frame: with
	// FrameTooLarge if it is or wraps ErrFrameTooLarge, with the reason of a
	// *CloseError, else with ProtocolError. It must depend on its arguments
	// alone and is called from many loops at once.
	FrameSize func(b []byte, admitted bool) (int, error)
	// Handler gets the events of the connections.
	Handler Handler
	// Placer has places for large frames. nil = they go to the Handler in slabs.
	Placer Placer
	// Drainer is told when a connection that asked has little left to send. nil = nobody
	// asks.
	Drainer Drainer

	// HelloTimeout runs from open until Conn.Admit. 0 = DefaultHelloTimeout,
	// negative = none: connections count as admitted when they open.
	HelloTimeout time.Duration
	// FrameTimeout runs from a frame's first byte to its last. 0 = DefaultFrameTimeout.
	FrameTimeout time.Duration
	// CloseGrace is what Close waits for the peer. 0 = DefaultCloseGrace.
	CloseGrace time.Duration
	// StallTimeout closes a connection whose peer takes nothing while bytes wait
	// for it. 0 = DefaultStallTimeout.
	StallTimeout time.Duration

	// OutMax is the budget of the out queue: Send answers ErrFull beyond it. A
	// message counts its bytes and MessageCost, so it must be larger than the
	// largest message. 0 = DefaultOutMax.
	OutMax int64
	// UnsentMax bounds the bytes that the kernel holds unsent; the rest waits in the out
	// queue, where what is written next can be chosen. 0 = as the kernel likes, which is up
	// to 4 MiB. A small bound costs wake-ups.
	UnsentMax int
	// TrustLength lets a frame's claimed length be allocated at once on admitted
	// connections; else the slab grows with the bytes that came.
	TrustLength bool
	// Rate bounds what one connection may send to this node. nil = no limit
	// besides one read of 64 KiB per turn, and 1 MiB into placed frames.
	Rate *Rate
}

// Rate is a token bucket for the input of one connection. A connection that
// exceeds it is closed with RateExceeded. A rate of 0 is no limit; a burst of 0
// is one second's worth. BurstBytes must not be smaller than the largest frame.
type Rate struct {
	BytesPerSecond  int64
	BurstBytes      int64
	FramesPerSecond int64
	BurstFrames     int64
}

// resolve returns a copy with the defaults filled in, or says what is wrong.
func (p *Protocol) resolve() (*Protocol, error) {
	if p == nil || p.FrameSize == nil || p.Handler == nil {
		return nil, errors.New("engine: a Protocol needs FrameSize and Handler")
	}
	return p.complete()
}

// complete is resolve for a Protocol whose functions may be missing.
func (p *Protocol) complete() (*Protocol, error) {
	r := *p
	setDefault(&r.HelloTimeout, DefaultHelloTimeout)
	setDefault(&r.FrameTimeout, DefaultFrameTimeout)
	setDefault(&r.CloseGrace, DefaultCloseGrace)
	setDefault(&r.StallTimeout, DefaultStallTimeout)
	setDefault(&r.OutMax, DefaultOutMax)
	if r.FrameTimeout < 0 || r.CloseGrace < 0 || r.StallTimeout < 0 || r.OutMax < 0 || r.UnsentMax < 0 {
		return nil, fmt.Errorf("engine: protocol %q: FrameTimeout, CloseGrace, StallTimeout, OutMax and UnsentMax must not be negative", p.Name)
	}
	if r.OutMax > outMaxLimit {
		return nil, fmt.Errorf("engine: protocol %q: OutMax %d is over %d", p.Name, r.OutMax, outMaxLimit)
	}
	if p.Rate != nil {
		rate, err := p.Rate.resolve()
		if err != nil {
			return nil, fmt.Errorf("engine: protocol %q: %w", p.Name, err)
		}
		r.Rate = &rate
	}
	return &r, nil
}

// helloTimeout is how long a connection may take for what comes before its first frame.
func (p *Protocol) helloTimeout() time.Duration {
	if p.HelloTimeout < 0 {
		return DefaultHelloTimeout
	}
	return p.HelloTimeout
}

func setDefault[T ~int64](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}
