package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/zlnode/zlnode/session"
)

// Defaults of Options.
const (
	DefaultHeartbeatInterval = time.Second
	DefaultSilenceTimeout    = 5 * time.Second
	DefaultRequestTimeout    = 30 * time.Second
	DefaultSendTimeout       = time.Second
	DefaultDialTimeout       = 5 * time.Second
	DefaultBackoffMin        = 100 * time.Millisecond
	DefaultBackoffMax        = 5 * time.Second
	DefaultMaxFrame          = 1 << 20
	DefaultMaxPending        = 1024
	DefaultOutQueueBytes     = 1 << 20
)

// Options configures a Client. The zero value of every field but Addr is its
// documented default.
type Options struct {
	// Addr is the server's address: host:port, which is TCP, or an URL:
	// tcp://host:port, tls://host:port, ws://host:port/path, wss://host:port/path.
	// Without a port ws is 80 and wss 443. Required, unless Addrs has one. It must have the
	// transport of the server's port: by plain TCP, which has no handshake, Dial succeeds at
	// any port, and the connection ends soon after.
	Addr string
	// Addrs are further addresses of the same service, such as those of other
	// gateways. With more than one in all, Dial and every attempt to connect anew try
	// each once, in their order and around; Dial begins with any of them, so that
	// clients spread, and an attempt with the one behind that which was lost, or with that one
	// (ReconnectSame).
	Addrs []string
	// TLS is for addresses with tls or wss. nil means that the host of the address
	// must have a certificate of an authority that this machine trusts; so does a
	// ServerName that is empty. The client copies what it changes.
	TLS *tls.Config
	// Dialer opens a connection to addr, the host:port of an address, within ctx;
	// nil means plain TCP. TLS and WebSocket go over the connection, which must
	// honour read and write deadlines.
	Dialer func(ctx context.Context, addr string) (net.Conn, error)

	// OnPush receives what the server sends on its own, in the order of arrival.
	// The message and all of it is valid until OnPush returns; Clone keeps it.
	// It runs on the reader goroutine, must not block, and may be called before
	// Dial has returned. nil drops pushes.
	OnPush func(m *Message)
	// OnState tells of every change after the connection that Dial made: first
	// StateDisconnected with what ended the connection, then, with Reconnect,
	// StateConnected with a nil error, and so on; or StateEnded with what ReconnectIf
	// or ReconnectAttempts refused to go on after. After Close it is not called
	// any more. Runs on the reader goroutine, must not block.
	OnState func(s State, err error)
	// OnFrame is told of every frame that is received, before anything is done about
	// it: heartbeats, late replies and what a server must not send, if it can be decoded.
	// For tests and tools. The value is valid until OnFrame returns. It runs on the
	// reader goroutine, must not block, and is not called after Close. nil costs nothing.
	OnFrame func(f *FrameInfo)

	// HeartbeatInterval is the time between two pings. Default 1 s; negative
	// sends none.
	HeartbeatInterval time.Duration
	// SilenceTimeout drops a connection on which nothing was received, and one
	// on which nothing can be written. Default 5 s; it must be above
	// HeartbeatInterval. Negative waits for ever.
	SilenceTimeout time.Duration
	// RequestTimeout ends a request that has no earlier deadline. Default 30 s.
	RequestTimeout time.Duration
	// SendTimeout is how long a call waits for room in the out queue. Default 1 s.
	SendTimeout time.Duration
	// DialTimeout bounds an attempt to connect to one address, handshakes included.
	// Default 5 s. All of Dial is bounded by its context, too.
	DialTimeout time.Duration

	// Reconnect dials again when the connection was lost. Without it the client
	// is finished then.
	Reconnect bool
	// ReconnectIf is asked at every loss, with what ended the connection (see
	// ClosedError, StatusError and the Err… values), whether to connect anew. nil means
	// ShouldReconnect. It runs on the reader goroutine, behind OnState, must not block.
	ReconnectIf func(cause error) bool
	// ReconnectAttempts ends the client after that many attempts in a row that failed
	// or whose connection did not last longer than BackoffMax. Default 0: no bound.
	ReconnectAttempts int
	// ReconnectSame has each attempt begin with the address of the lost connection, and go on to
	// the others if that cannot be had: for sessions that can be resumed, which only the gateway
	// can that has them. If its machine is gone that costs each attempt a DialTimeout. Default:
	// the lost address comes last.
	ReconnectSame bool
	// BackoffMin and BackoffMax bound the wait before an attempt to connect
	// anew. It starts at the minimum, doubles with each attempt that fails or
	// whose connection did not last longer than BackoffMax, and is cut by a
	// random part of up to one half. Defaults 100 ms and 5 s.
	BackoffMin, BackoffMax time.Duration

	// MaxFrame caps header plus payload of a received frame, and a payload after
	// decompression, in bytes. A larger one ends the connection. Default 1 MiB.
	MaxFrame int
	// CompressMin is the size, in bytes, from which on payloads of calls are compressed
	// (LZ4), if that saves an eighth at least. Default 0: never. What a server
	// compressed is taken in any case.
	CompressMin int
	// MaxPending caps requests under way; one more ends CapacityExceeded at
	// once. Default 1024.
	MaxPending int
	// OutQueueBytes caps what waits to be written, in bytes; a frame larger than
	// that cannot be sent. Default 1 MiB.
	OutQueueBytes int

	addrs []address
}

// withDefaults returns o with every unset field at its default, or an error that
// names the field that cannot work.
func (o Options) withDefaults() (Options, error) {
	if err := o.parseAddresses(); err != nil {
		return o, err
	}
	if o.Dialer == nil {
		var d net.Dialer
		o.Dialer = func(ctx context.Context, addr string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	if o.OnPush == nil {
		o.OnPush = func(*Message) {}
	}
	if o.ReconnectIf == nil {
		o.ReconnectIf = ShouldReconnect
	}
	if o.OnState == nil {
		o.OnState = func(State, error) {}
	}
	setDefault(&o.HeartbeatInterval, DefaultHeartbeatInterval)
	setDefault(&o.SilenceTimeout, DefaultSilenceTimeout)
	setDefault(&o.RequestTimeout, DefaultRequestTimeout)
	setDefault(&o.SendTimeout, DefaultSendTimeout)
	setDefault(&o.DialTimeout, DefaultDialTimeout)
	setDefault(&o.BackoffMin, DefaultBackoffMin)
	setDefault(&o.BackoffMax, max(DefaultBackoffMax, o.BackoffMin))
	setDefault(&o.MaxFrame, DefaultMaxFrame)
	setDefault(&o.MaxPending, DefaultMaxPending)
	setDefault(&o.OutQueueBytes, DefaultOutQueueBytes)
	return o, o.validate()
}

func (o *Options) parseAddresses() error {
	o.addrs = nil
	if o.Addr != "" || len(o.Addrs) == 0 {
		a, err := parseAddress(o.Addr)
		if err != nil {
			return fmt.Errorf("client: Options.Addr: %w", err)
		}
		o.addrs = append(o.addrs, a)
	}
	for i, text := range o.Addrs {
		a, err := parseAddress(text)
		if err != nil {
			return fmt.Errorf("client: Options.Addrs[%d]: %w", i, err)
		}
		o.addrs = append(o.addrs, a)
	}
	for _, a := range o.addrs {
		if o.TLS != nil && !a.secure {
			return fmt.Errorf("client: Options.TLS is set and %q does not use it; begin the address with tls:// or wss://", a.text)
		}
	}
	return nil
}

func (o *Options) validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"RequestTimeout", int64(o.RequestTimeout)},
		{"SendTimeout", int64(o.SendTimeout)},
		{"DialTimeout", int64(o.DialTimeout)},
		{"BackoffMin", int64(o.BackoffMin)},
		{"BackoffMax", int64(o.BackoffMax)},
		{"ReconnectAttempts", int64(o.ReconnectAttempts)},
		{"MaxFrame", int64(o.MaxFrame)},
		{"CompressMin", int64(o.CompressMin)},
		{"MaxPending", int64(o.MaxPending)},
		{"OutQueueBytes", int64(o.OutQueueBytes)},
	} {
		if f.value < 0 {
			return fmt.Errorf("client: Options.%s is negative (%d); use 0 for the default", f.name, f.value)
		}
	}
	if o.SilenceTimeout > 0 && o.HeartbeatInterval >= o.SilenceTimeout {
		return fmt.Errorf("client: Options.HeartbeatInterval %v is not below SilenceTimeout %v; an idle connection would be dropped",
			o.HeartbeatInterval, o.SilenceTimeout)
	}
	if o.BackoffMin > o.BackoffMax {
		return fmt.Errorf("client: Options.BackoffMin %v is above BackoffMax %v", o.BackoffMin, o.BackoffMax)
	}
	if o.OutQueueBytes < len(session.PongFrame()) {
		return fmt.Errorf("client: Options.OutQueueBytes %d holds no frame at all", o.OutQueueBytes)
	}
	return nil
}

func setDefault[T ~int | ~int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
