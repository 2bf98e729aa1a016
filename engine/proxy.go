package engine

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"
	"golang.org/x/sys/unix"
)

// errNoProxyHeader says that a connection from a trusted proxy does not begin as it must.
var errNoProxyHeader = errors.New("engine: the connection of a trusted proxy does not begin with a header of the PROXY protocol that can be used")

// proxyHeaderSize returns the length of the header that b begins with; 0: b is too short to
// tell. An error says that no header begins so.
func proxyHeaderSize(b []byte) (int, error) {
	v1, v2 := proxyproto.SIGV1, proxyproto.SIGV2
	switch {
	case bytes.HasPrefix(v1, b[:min(len(b), len(v1))]):
		if n := bytes.IndexByte(b[:min(len(b), proxyLineMax)], '\n'); n >= 0 {
			return n + 1, nil
		}
		if len(b) >= proxyLineMax {
			return 0, errNoProxyHeader
		}
		return 0, nil
	case bytes.HasPrefix(v2, b[:min(len(b), len(v2))]):
		if len(b) < 16 {
			return 0, nil
		}
		n := 16 + int(binary.BigEndian.Uint16(b[14:]))
		if n > proxyHeaderMax {
			return 0, errNoProxyHeader
		}
		if len(b) < n {
			return 0, nil
		}
		return n, nil
	}
	return 0, errNoProxyHeader
}

// proxiedAddr returns the client that a whole header names, or the zero AddrPort if it
// names none: the proxy speaks for itself, or does not know.
func proxiedAddr(header []byte) (netip.AddrPort, error) {
	if len(header) >= 16 && header[0] == proxyproto.SIGV2[0] && header[12] == byte(proxyproto.PROXY) && header[13] == 0 {
		return netip.AddrPort{}, nil // of an unknown family
	}
	h, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(header), proxyHeaderMax))
	if err != nil {
		return netip.AddrPort{}, errors.Join(errNoProxyHeader, err)
	}
	if h.Command.IsLocal() {
		return netip.AddrPort{}, nil
	}
	from, _, ok := h.TCPAddrs()
	if !ok {
		return netip.AddrPort{}, errNoProxyHeader
	}
	return addrPort(from), nil
}

// readProxyHeader takes the header from the head of a connection's bytes, and not a byte
// more. It waits until it is whole, or s's read deadline is over.
func readProxyHeader(s *net.TCPConn) (netip.AddrPort, error) {
	raw, err := s.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var block [proxyHeaderMax]byte
	have := 0
	for {
		// What is there is looked at first, and taken as far as the header goes.
		n, err := receiveFrom(raw, block[have:], unix.MSG_PEEK)
		if err != nil {
			return netip.AddrPort{}, err
		}
		size, err := proxyHeaderSize(block[:have+n])
		if err != nil {
			return netip.AddrPort{}, err
		}
		if size > 0 {
			n = size - have
		}
		if _, err := receiveFrom(raw, block[have:have+n], 0); err != nil {
			return netip.AddrPort{}, err
		}
		if have += n; size > 0 {
			return proxiedAddr(block[:size])
		}
	}
}

// receiveFrom waits for bytes and reads them. That there are none any more is an error.
func receiveFrom(raw interface {
	Read(f func(fd uintptr) bool) error
}, b []byte, flags int,
) (n int, err error) {
	waitErr := raw.Read(func(fd uintptr) bool {
		n, _, err = unix.Recvfrom(int(fd), b, flags)
		return err != unix.EAGAIN && err != unix.EINTR
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case err != nil:
		return 0, err
	case n <= 0:
		return 0, errNoProxyHeader
	}
	return n, nil
}
