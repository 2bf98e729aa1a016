package engine

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/sparse"
)

// Listen describes a listener. Bounds that are reached close what comes in addition at
// once; Stats counts it.
type Listen struct {
	// Addr is "host:port"; port 0 takes a free one, see Listener.Addr.
	Addr string
	// Protocol is that of the accepted connections. On TLS, WS and WSS Placer's frames
	// are never read straight into their places, on WS and WSS it is not asked.
	Protocol *Protocol

	// Transport is what carries the frames. The zero value is TCP.
	Transport Transport
	// TLS is the configuration of TLS and WSS, which need one; see also TLSFiles. It is
	// copied; TLS 1.2 is the oldest version, and if it names no protocols (ALPN) WSS speaks
	// http/1.1. One that its GetConfigForClient returns is used as it is. Handshakes run
	// in goroutines of their own, within HelloTimeout.
	TLS *tls.Config
	// Origins are those of the web pages that may connect by WS and WSS, each as a browser
	// says it: "https://example.org". Empty: any. Clients that are no browsers say none
	// and may connect; so it protects users of pages, and a connection is to be
	// authenticated by its first frame, not by the cookies that a browser adds.
	Origins []string
	// TrustedProxies are the networks of proxies whose connections begin with a header of
	// the PROXY protocol, version 1 or 2, of at most 536 bytes and within HelloTimeout; a
	// connection from there without one is closed. RemoteAddr and all bounds by address
	// are those of the client that it names, if it names one. From elsewhere the same
	// bytes are the client's own.
	TrustedProxies []netip.Prefix

	// MaxConns bounds the listener's open connections. 0 = DefaultMaxConns,
	// negative = no bound.
	MaxConns int
	// MaxPerIP bounds those of one network; see NetworkBits4. 0 or negative = no bound:
	// behind a load balancer that is not trusted all come from one address.
	MaxPerIP int
	// MaxUnadmitted bounds those for which Admit was not called yet, handshakes of
	// transports included. 0 = DefaultMaxUnadmitted, negative = no bound.
	MaxUnadmitted int
	// MaxHandshakes bounds the TLS handshakes and PROXY headers under way, each of which
	// has a goroutine. 0 = DefaultMaxHandshakes, negative = no bound.
	MaxHandshakes int
	// ConnRate bounds how often connections come, NetworkRate how often from one network.
	ConnRate, NetworkRate ConnRate
	// NetworkBits4 and NetworkBits6 say which IPv4 and IPv6 addresses are one network:
	// those whose first bits are the same. 0 = 32 and 64.
	NetworkBits4, NetworkBits6 int
}

// Check says what of the fields cannot be, those of Protocol's times and bounds included,
// and opens nothing. The error names the field. Of Protocol FrameSize and Handler may be
// missing.
func (l Listen) Check() error {
	if l.Protocol != nil {
		if _, err := l.Protocol.complete(); err != nil {
			return err
		}
	}
	switch {
	case l.ConnRate.PerSecond < 0 || l.ConnRate.Burst < 0:
		return errors.New("ConnRate must not be negative")
	case l.NetworkRate.PerSecond < 0 || l.NetworkRate.Burst < 0:
		return errors.New("NetworkRate must not be negative")
	case l.Transport >= transportCount:
		return fmt.Errorf("unknown Transport %d", l.Transport)
	case l.Transport.Encrypted() && l.TLS == nil:
		return fmt.Errorf("%v needs TLS", l.Transport)
	case !l.Transport.Encrypted() && l.TLS != nil:
		return fmt.Errorf("the Transport is %v, and TLS is set", l.Transport)
	case !l.Transport.Messages() && len(l.Origins) > 0:
		return fmt.Errorf("the Transport is %v, and Origins are set", l.Transport)
	case l.NetworkBits4 < 0 || l.NetworkBits4 > 32:
		return fmt.Errorf("NetworkBits4 %d is not in 1 to 32", l.NetworkBits4)
	case l.NetworkBits6 < 0 || l.NetworkBits6 > 128:
		return fmt.Errorf("NetworkBits6 %d is not in 1 to 128", l.NetworkBits6)
	}
	for _, p := range l.TrustedProxies {
		if !p.IsValid() {
			return errors.New("TrustedProxies has a network that is none")
		}
	}
	if l.TLS != nil && len(l.TLS.Certificates) == 0 && l.TLS.GetCertificate == nil && l.TLS.GetConfigForClient == nil {
		return errors.New("TLS has no certificate")
	}
	return nil
}

// resolve returns a copy with the defaults filled in, or says what is wrong.
func (l Listen) resolve() (Listen, error) {
	p, err := l.Protocol.resolve()
	if err != nil {
		return l, err
	}
	if err := l.Check(); err != nil {
		return l, fmt.Errorf("engine: listener %q for protocol %q: %w", l.Addr, p.Name, err)
	}
	l.Protocol = p
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&l.MaxConns, DefaultMaxConns)
	set(&l.MaxUnadmitted, DefaultMaxUnadmitted)
	set(&l.MaxHandshakes, DefaultMaxHandshakes)
	set(&l.NetworkBits4, DefaultNetworkBits4)
	set(&l.NetworkBits6, DefaultNetworkBits6)
	set(&l.ConnRate.Burst, max(l.ConnRate.PerSecond, 1))
	set(&l.NetworkRate.Burst, max(l.NetworkRate.PerSecond, 1))
	l.Origins, l.TrustedProxies = slices.Clone(l.Origins), slices.Clone(l.TrustedProxies)
	if l.TLS != nil {
		l.TLS = l.TLS.Clone()
		completeTLS(l.TLS, l.Transport)
	}
	return l, nil
}

// Listener is a bound port. Its methods are safe for concurrent use.
//
// The engine accepts by itself, one connection after the other: gnet's acceptor
// ends the whole reactor when descriptors run out, and knows no limits. As the
// next connection is accepted only when the loop has opened the last one, a flood
// of connects takes at most one event of each loop turn. What must be read before a loop
// may have the connection, a proxy's header and a TLS handshake, is read in a goroutine
// (prepare.go).
type Listener struct {
	engine *Engine
	p      *Protocol
	ln     net.Listener
	cfg    Listen

	conns      atomic.Int64
	unadmitted atomic.Int64
	preparing  atomic.Int64
	networks   networks
	rate       tokens // the accept loop's

	saidRefused, saidFailed sparse.Line
}

// Listen binds l.Addr before it returns and then accepts. ErrEngineClosed if the
// engine is closed; other errors name the protocol and the address.
func (e *Engine) Listen(l Listen) (*Listener, error) {
	l, err := l.resolve()
	if err != nil {
		return nil, err
	}
	p := l.Protocol
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // the reactor takes plain TCP sockets
	ln, err := lc.Listen(e.ctx, "tcp", l.Addr)
	if err != nil {
		if e.ctx.Err() != nil {
			return nil, ErrEngineClosed
		}
		return nil, fmt.Errorf("engine: listen on %q for protocol %q: %w", l.Addr, p.Name, err)
	}
	s := &Listener{engine: e, p: p, ln: ln, cfg: l}
	s.networks = networks{
		v4: l.NetworkBits4, v6: l.NetworkBits6, maxConns: l.MaxPerIP, rate: l.NetworkRate,
		table: make(map[netip.Addr]*network),
	}
	if !e.addListener(s) {
		return nil, joinClose(ErrEngineClosed, ln)
	}
	go s.run()
	return s, nil
}

// Addr returns the bound address, with the port that was chosen.
func (s *Listener) Addr() net.Addr { return s.ln.Addr() }

// Close stops accepting and frees the port. Open connections go on.
func (s *Listener) Close() error {
	s.engine.mu.Lock()
	delete(s.engine.mu.listeners, s)
	s.engine.mu.Unlock()
	return s.ln.Close()
}

func (e *Engine) addListener(s *Listener) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closing {
		return false
	}
	e.mu.listeners[s] = struct{}{}
	e.entering.Add(1)
	return true
}

// run accepts until the listener is closed.
func (s *Listener) run() {
	defer s.engine.entering.Done()
	var pause time.Duration
	for {
		err := s.acceptOne()
		switch {
		case err == nil:
			pause = 0
			continue
		case errors.Is(err, net.ErrClosed), errors.Is(err, ErrEngineClosed):
			return
		}
		// EMFILE, ENFILE, ENOBUFS, ENOMEM: they pass when something is closed.
		// Until then the connections wait in the kernel's backlog.
		s.engine.count.acceptFailures.Add(1)
		if pause == 0 {
			s.engine.log.Warn().Err(err).Str("protocol", s.p.Name).Stringer("addr", s.Addr()).
				Msg("accepting connections fails; trying again until it works")
		}
		pause = min(max(2*pause, acceptBackoffMin), acceptBackoffMax)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-s.engine.ctx.Done():
			t.Stop()
			return
		}
	}
}

// acceptOne accepts one connection and opens or refuses it. An error means that
// this node is short of something, or that the listener is closed.
func (s *Listener) acceptOne() error {
	nc, err := s.ln.Accept()
	if err != nil {
		return err
	}
	now := clock.Now()
	remote := addrPort(nc.RemoteAddr())
	n := &s.engine.count
	proxied := s.trusts(remote.Addr())
	prepared := proxied || s.cfg.Transport.Encrypted()
	switch {
	case over(s.cfg.MaxConns, s.conns.Load()):
		s.refuse(nc, remote, &n.refusedMaxConns, "MaxConns")
	case over(s.cfg.MaxUnadmitted, s.unadmitted.Load()):
		s.refuse(nc, remote, &n.refusedUnadmitted, "MaxUnadmitted")
	case prepared && over(s.cfg.MaxHandshakes, s.preparing.Load()):
		s.refuse(nc, remote, &n.refusedHandshakes, "MaxHandshakes")
	case !s.rate.take(s.cfg.ConnRate, now):
		s.refuse(nc, remote, &n.refusedRate, "ConnRate")
	case !proxied && !s.enterNetwork(nc, remote, now):
	case prepared:
		return s.prepare(nc, remote, proxied, now)
	default:
		s.addPlaces(1)
		if _, err := s.engine.enter(nc, s.p, s, entry{began: now, remote: remote}); err != nil {
			s.addPlaces(-1)
			s.networks.leave(remote.Addr())
			return err
		}
	}
	return nil
}

// trusts reports whether connections of ip begin with a proxy's header.
func (s *Listener) trusts(ip netip.Addr) bool {
	return slices.ContainsFunc(s.cfg.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// enterNetwork takes a place of the peer's network, or refuses the connection.
func (s *Listener) enterNetwork(nc net.Conn, remote netip.AddrPort, now clock.Mono) bool {
	n := &s.engine.count
	switch s.networks.enter(remote.Addr(), now) {
	case refusedConns:
		s.refuse(nc, remote, &n.refusedPerIP, "MaxPerIP")
	case refusedRate:
		s.refuse(nc, remote, &n.refusedNetworkRate, "NetworkRate")
	case notRefused:
		return true
	}
	return false
}

// refuse closes a connection that a bound leaves no room for. The peer is told by the end
// of the stream.
func (s *Listener) refuse(nc net.Conn, remote netip.AddrPort, count *atomic.Uint64, bound string) {
	count.Add(1)
	_ = nc.Close()
	if left, ok := s.saidRefused.Take(clock.Now()); ok {
		s.engine.log.Warn().Str("protocol", s.p.Name).Str("bound", bound).Stringer("peer", remote).Int64("left_out", left).
			Msg("a connection is refused, as a bound of the listener is reached")
	}
}

// over reports whether a bound leaves no room for one more.
func over(bound int, have int64) bool { return bound > 0 && have >= int64(bound) }

// addPlaces takes n places of a connection that is not admitted, or gives them back.
func (s *Listener) addPlaces(n int64) {
	s.conns.Add(n)
	s.unadmitted.Add(n)
	s.engine.count.unadmitted.Add(n)
}

// leave gives back the place of a connection that has closed. Its loop's.
func (s *Listener) leave(c *Conn) {
	s.conns.Add(-1)
	s.networks.leave(c.remote.Addr())
}
