package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// prepare starts the goroutine that reads what must be read before a loop may have the
// connection: the header of a trusted proxy, and a TLS handshake. It ends within
// HelloTimeout, or when the engine is closed. For an address that is not a proxy's a place
// was taken.
func (s *Listener) prepare(nc net.Conn, remote netip.AddrPort, proxied bool, now clock.Mono) error {
	if !s.engine.beginEnter() {
		if !proxied {
			s.networks.leave(remote.Addr())
		}
		return joinClose(ErrEngineClosed, nc)
	}
	s.addPlaces(1)
	s.preparing.Add(1)
	go func() {
		defer s.engine.entering.Done()
		x := entry{began: now, remote: remote}
		opened, err := s.open(nc, &x, proxied)
		s.preparing.Add(-1)
		if opened {
			return
		}
		s.addPlaces(-1)
		if err != nil {
			s.failed(x.remote, err)
		}
	}()
	return nil
}

// open makes a connection of an accepted socket. It closes the socket and gives back the
// place of its network if it does not; without an error it was refused for a bound.
func (s *Listener) open(nc net.Conn, x *entry, proxied bool) (bool, error) {
	ctx, cancel := context.WithTimeout(s.engine.ctx, s.p.helloTimeout()-clock.Now().Sub(x.began))
	defer cancel()
	if proxied {
		client, err := proxyHeader(ctx, nc)
		if err != nil {
			return false, joinClose(err, nc)
		}
		if client.IsValid() {
			x.remote = client
		}
		if !s.enterNetwork(nc, x.remote, clock.Now()) {
			return false, nil
		}
	}
	if s.cfg.Transport.Encrypted() {
		var err error
		if x.tls, err = handshake(ctx, nc, s.cfg.TLS, tls.Server); err != nil {
			s.networks.leave(x.remote.Addr())
			return false, joinClose(err, nc)
		}
	}
	if _, err := s.engine.enter(nc, s.p, s, *x); err != nil {
		s.networks.leave(x.remote.Addr())
		return false, err
	}
	return true, nil
}

// failed counts a connection that came to nothing before the Handler had it.
func (s *Listener) failed(remote netip.AddrPort, err error) {
	if s.engine.ctx.Err() != nil {
		return
	}
	s.engine.count.unprepared.Add(1)
	if left, ok := s.saidFailed.Take(clock.Now()); ok {
		s.engine.log.Info().Err(err).Str("protocol", s.p.Name).Stringer("peer", remote).Int64("left_out", left).
			Msg("a connection is refused: what comes before its first frame failed")
	}
}

// proxyHeader reads a trusted proxy's header, while ctx lasts.
func proxyHeader(ctx context.Context, nc net.Conn) (netip.AddrPort, error) {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return netip.AddrPort{}, errors.New("engine: a PROXY header is read from a TCP connection")
	}
	// A deadline in the past ends a read that waits.
	stop := context.AfterFunc(ctx, func() { _ = tcp.SetReadDeadline(time.Unix(1, 0)) })
	from, err := readProxyHeader(tcp)
	if !stop() && err == nil {
		err = ctx.Err() // the deadline may be set at any time now
	}
	return from, err
}

// handshake makes one side's part of a TLS handshake over nc, while ctx lasts, and returns what then goes to a loop, without nc. A callback of the configuration that panics
// fails this handshake, not the process.
func handshake(ctx context.Context, nc net.Conn, cfg *tls.Config, side func(net.Conn, *tls.Config) *tls.Conn) (s *secure, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("engine: a callback of the TLS configuration panicked: %v", r)
		}
	}()
	link := &tlsLink{Conn: nc}
	s = &secure{conn: side(link, cfg), link: link}
	if err := s.conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	link.Conn = nil
	return s, nil
}

// completeTLS sets what a configuration leaves open.
func completeTLS(cfg *tls.Config, t Transport) {
	cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	if t.Messages() && len(cfg.NextProtos) == 0 {
		cfg.NextProtos = []string{"http/1.1"}
	}
}
