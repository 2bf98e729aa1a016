package engine

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/pires/go-proxyproto"
)

var thisMachine = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// proxyHeaderV2 is a header for from, with more bytes of what else a proxy says.
func proxyHeaderV2(t testing.TB, command proxyproto.ProtocolVersionAndCommand, from string, more int) []byte {
	t.Helper()
	h := proxyproto.Header{Version: 2, Command: command, TransportProtocol: proxyproto.UNSPEC}
	if from != "" {
		src := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))
		h.TransportProtocol, h.SourceAddr, h.DestinationAddr = proxyproto.TCPv4, src, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 443}
		if src.IP.To4() == nil {
			h.TransportProtocol, h.DestinationAddr = proxyproto.TCPv6, &net.TCPAddr{IP: net.IPv6loopback, Port: 443}
		}
	}
	b, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint16(b[14:], binary.BigEndian.Uint16(b[14:])+uint16(more))
	return append(b, make([]byte, more)...)
}

func TestATrustedProxyNamesTheClient(t *testing.T) {
	unknownV2 := append(bytes.Clone(proxyproto.SIGV2), 0x21, 0, 0, 3, 9, 9, 9)
	for name, c := range map[string]struct {
		header []byte
		want   string // "": the proxy's own address
	}{
		"v1":                {[]byte("PROXY TCP4 192.0.2.7 10.0.0.1 5000 443\r\n"), "192.0.2.7:5000"},
		"v1 of IPv6":        {[]byte("PROXY TCP6 2001:db8::7 2001:db8::1 5000 443\r\n"), "[2001:db8::7]:5000"},
		"v1 unknown":        {[]byte("PROXY UNKNOWN\r\n"), ""},
		"v1 unknown, words": {[]byte("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n"), ""},
		"v2":                {proxyHeaderV2(t, proxyproto.PROXY, "192.0.2.7:5000", 0), "192.0.2.7:5000"},
		"v2 of IPv6":        {proxyHeaderV2(t, proxyproto.PROXY, "[2001:db8::7]:5000", 0), "[2001:db8::7]:5000"},
		"v2 with more":      {proxyHeaderV2(t, proxyproto.PROXY, "192.0.2.7:5000", 508), "192.0.2.7:5000"},
		"v2 mapped":         {proxyHeaderV2(t, proxyproto.PROXY, "[::ffff:192.0.2.7]:5000", 0), "192.0.2.7:5000"},
		"v2 local":          {proxyHeaderV2(t, proxyproto.LOCAL, "", 0), ""},
		"v2 unknown":        {unknownV2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, transport := range []Transport{TCP, WS, TLS, WSS} {
				t.Run(transport.String(), func(t *testing.T) {
					e := start(t, 1)
					opened := make(chan *Conn, 1)
					h := &hooks{frame: echo, open: func(c *Conn) { opened <- c }}
					l := Listen{Transport: transport, TrustedProxies: thisMachine, Protocol: testProtocol(h)}
					var addr string
					var cfg *tls.Config
					if transport.Encrypted() {
						addr, cfg = secureListen(t, e, l)
					} else {
						addr = listenOn(t, e, l)
					}
					raw := dial(t, addr)
					for part := range slices.Chunk(c.header, 1+len(c.header)/3) {
						write(t, raw, part)
					}
					client := net.Conn(raw)
					if cfg != nil {
						client = tls.Client(client, cfg)
					}
					got := ""
					if transport.Messages() {
						shakeHands(t, client)
						write(t, client, message(frame("hi")))
						got = readMessage(t, client)
					} else {
						write(t, client, frame("hi"))
						got = readFrame(t, client)
					}
					if got != "hi" {
						t.Errorf("%v: got %q", transport, got)
					}
					want := c.want
					if want == "" {
						want = raw.LocalAddr().String()
					}
					if conn := receive(t, opened, "the connection"); conn.RemoteAddr() != want || conn.Transport() != transport {
						t.Errorf("%v: the peer of the %v connection is %s, want %s", transport, conn.Transport(), conn.RemoteAddr(), want)
					}
				})
			}
		})
	}
}

func TestATrustedProxyMustSayAHeader(t *testing.T) {
	tooLong := proxyHeaderV2(t, proxyproto.PROXY, "192.0.2.7:5000", proxyHeaderMax)
	for name, begin := range map[string][]byte{
		"a frame":              frame("hello"),
		"a line without end":   bytes.Repeat([]byte("PROXY TCP4 "), 20),
		"a line without CR":    []byte("PROXY TCP4 192.0.2.7 10.0.0.1 5000 443\n"),
		"no address":           []byte("PROXY TCP4 somewhere 10.0.0.1 5000 443\r\n"),
		"another protocol":     []byte("PROXY UDP4 192.0.2.7 10.0.0.1 5000 443\r\n"),
		"too long":             tooLong,
		"version 3":            append(bytes.Clone(proxyproto.SIGV2), 0x31, 0x11, 0, 12, 1, 2, 3, 4, 1, 2, 3, 4, 0, 1, 0, 1),
		"a datagram's":         append(bytes.Clone(proxyproto.SIGV2), 0x21, 0x12, 0, 12, 1, 2, 3, 4, 1, 2, 3, 4, 0, 1, 0, 1),
		"an address cut short": append(bytes.Clone(proxyproto.SIGV2), 0x21, 0x11, 0, 4, 1, 2, 3, 4),
		"nothing more":         []byte("PROXY TC"),
		"nothing":              nil,
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, 1)
			h := &hooks{open: func(*Conn) { t.Error("the connection was opened") }}
			p := testProtocol(h)
			p.HelloTimeout = 8 * tick
			c := dial(t, listenOn(t, e, Listen{TrustedProxies: thisMachine, Protocol: p}))
			write(t, c, begin)
			if n, err := io.Copy(io.Discard, c); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%d bytes, %v", n, err)
			}
			waitFor(t, "the failure", func() bool { s := e.Stats(); return s.HandshakeFailures == 1 && s.Unadmitted == 0 })
		})
	}
}

// From elsewhere a header is the client's own bytes, and names nobody.
func TestAHeaderFromElsewhereIsABadFrame(t *testing.T) {
	e := start(t, 1)
	closes := make(chan CloseReason, 1)
	p := testProtocol(&hooks{closes: closes})
	elsewhere := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	c := dial(t, listenOn(t, e, Listen{TrustedProxies: elsewhere, Protocol: p}))
	write(t, c, []byte("PROXY TCP4 192.0.2.7 10.0.0.1 5000 443\r\n"))
	if r := receive(t, closes, "the close"); r.Code != FrameTooLarge {
		t.Errorf("closed with %v", r)
	}
}

func TestBoundsByAddressAreThoseOfTheClientBehindAProxy(t *testing.T) {
	e := start(t, 1)
	addr := listenOn(t, e, Listen{TrustedProxies: thisMachine, MaxPerIP: 1, Protocol: testProtocol(&hooks{frame: echo})})
	connect := func(client string) (open bool, c *net.TCPConn) {
		c = dial(t, addr)
		write(t, c, []byte("PROXY TCP4 "+client+" 10.0.0.1 5000 443\r\n"))
		_, _ = c.Write(frame("hi"))
		_, err := io.ReadFull(c, make([]byte, 6))
		return err == nil, c
	}
	ok, first := connect("192.0.2.7")
	if !ok {
		t.Fatal("the first was refused")
	}
	if ok, _ := connect("192.0.2.7"); ok {
		t.Error("the second of one address was let in")
	}
	if ok, _ := connect("192.0.2.8"); !ok {
		t.Error("one of another address was refused")
	}
	_ = first.Close()
	waitFor(t, "the place", func() bool { return e.Stats().Conns == 1 })
	if ok, _ := connect("192.0.2.7"); !ok {
		t.Error("the place was not given back")
	}
	if s := e.Stats(); s.RefusedPerIP != 1 || s.HandshakeFailures != 0 {
		t.Errorf("%+v", s)
	}
}
