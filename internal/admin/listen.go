package admin

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// Listen opens the door's port: "host:port" with a loopback address or localhost as its host,
// and nothing else. Until Serve nobody is answered.
func Listen(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	if !loopback(host) {
		return nil, fmt.Errorf("%w: %q is no loopback address; use 127.0.0.1, ::1 or localhost", ErrAddress, host)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() { // localhost is what the machine says
		_ = l.Close()
		return nil, fmt.Errorf("%w: %q is %v, which is no loopback address", ErrAddress, host, l.Addr())
	}
	return &bounded{Listener: l}, nil
}

// loopback reports whether a host names this machine and can be no name of a stranger's.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// bounded closes connections beyond connsMax as they come.
type bounded struct {
	net.Listener
	open atomic.Int64
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) <= connsMax {
			return &counted{Conn: c, leave: sync.OnceFunc(func() { b.open.Add(-1) })}, nil
		}
		b.open.Add(-1)
		_ = c.Close() // its error concerns nobody
	}
}

// counted gives its place back when it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
