package engine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Listen describes a listener.
type Listen struct {
	// Addr is "host:port"; port 0 takes a free one, see Listener.Addr.
	Addr string
	// Protocol is that of the accepted connections.
	Protocol *Protocol

	// MaxConns bounds the listener's open connections. 0 = DefaultMaxConns,
	// negative = no bound.
	MaxConns int
	// MaxPerIP bounds those of one IPv4 address or one IPv6 /64 network. 0 or
	// negative = no bound: behind a load balancer all come from one address.
	MaxPerIP int
	// MaxUnadmitted bounds those for which Admit was not called yet. 0 =
	// DefaultMaxUnadmitted, negative = no bound.
	MaxUnadmitted int
}

// Listener is a bound port. Its methods are safe for concurrent use.
//
// The engine accepts by itself, one connection after the other: gnet's acceptor
// ends the whole reactor when descriptors run out, and knows no limits. As the
// next connection is accepted only when the loop has opened the last one, a flood
// of connects takes at most one event of each loop turn.
type Listener struct {
	engine *Engine
	p      *Protocol
	ln     net.Listener
	cfg    Listen

	conns      atomic.Int64
	unadmitted atomic.Int64
	perIP      struct { // a leaf: nothing is called while it is held
		sync.Mutex
		conns map[netip.Addr]int
	}
}

// Listen binds l.Addr before it returns and then accepts. ErrEngineClosed if the
// engine is closed; other errors name the protocol and the address.
func (e *Engine) Listen(l Listen) (*Listener, error) {
	p, err := l.Protocol.resolve()
	if err != nil {
		return nil, err
	}
	if l.MaxConns == 0 {
		l.MaxConns = DefaultMaxConns
	}
	if l.MaxUnadmitted == 0 {
		l.MaxUnadmitted = DefaultMaxUnadmitted
	}
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
	s.perIP.conns = make(map[netip.Addr]int)
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
	n := &s.engine.count
	ip := ipKey(nc.RemoteAddr())
	switch {
	case over(s.cfg.MaxConns, s.conns.Load()):
		n.refusedMaxConns.Add(1)
	case over(s.cfg.MaxUnadmitted, s.unadmitted.Load()):
		n.refusedUnadmitted.Add(1)
	case !s.enterIP(ip):
		n.refusedPerIP.Add(1)
	default:
		s.conns.Add(1)
		s.unadmitted.Add(1)
		n.unadmitted.Add(1)
		if _, err := s.engine.enter(nc, s.p, s); err != nil {
			s.unadmitted.Add(-1)
			n.unadmitted.Add(-1)
			s.conns.Add(-1)
			s.leaveIP(ip)
			return err
		}
		return nil
	}
	_ = nc.Close() // the peer is told by the end of the stream
	return nil
}

// over reports whether a bound leaves no room for one more.
func over(bound int, have int64) bool { return bound > 0 && have >= int64(bound) }

// leave gives back the place of a connection that has closed. Its loop's.
func (s *Listener) leave(c *Conn) {
	s.conns.Add(-1)
	s.leaveIP(maskIP(c.remote.Addr()))
}

// enterIP takes a place of the address, if there is one.
func (s *Listener) enterIP(ip netip.Addr) bool {
	if s.cfg.MaxPerIP <= 0 {
		return true
	}
	s.perIP.Lock()
	defer s.perIP.Unlock()
	if s.perIP.conns[ip] >= s.cfg.MaxPerIP {
		return false
	}
	s.perIP.conns[ip]++
	return true
}

func (s *Listener) leaveIP(ip netip.Addr) {
	if s.cfg.MaxPerIP <= 0 {
		return
	}
	s.perIP.Lock()
	defer s.perIP.Unlock()
	if s.perIP.conns[ip]--; s.perIP.conns[ip] <= 0 {
		delete(s.perIP.conns, ip)
	}
}

func ipKey(a net.Addr) netip.Addr { return maskIP(addrPort(a).Addr()) }

// maskIP returns the unit that MaxPerIP counts: whoever has one IPv6 address
// has the /64 around it.
func maskIP(ip netip.Addr) netip.Addr {
	if ip.Is6() {
		if net64, err := ip.WithZone("").Prefix(64); err == nil {
			return net64.Addr()
		}
	}
	return ip
}
