package engine

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/zlnode/zlnode/internal/buf"
)

// peerFiles are a peer's, which trusts the roots of PEM.
func peerFiles(t *testing.T, a *authority, roots []byte) (server, client *tls.Config) {
	t.Helper()
	server, client, err := writeFiles(t, a, roots).Peers(quiet)
	if err != nil {
		t.Fatal(err)
	}
	return server, client
}

func TestPeersProveThemselvesToEachOther(t *testing.T) {
	a, stranger := newAuthority(t, "root"), newAuthority(t, "another root")
	server, client := peerFiles(t, a, a.pem)
	_, misled := peerFiles(t, a, stranger.pem)
	_, foreign := peerFiles(t, stranger, a.pem)

	e := start(t, 1)
	accepted := make(chan *tls.ConnectionState, 1)
	addr := listenOn(t, e, Listen{Transport: TLS, TLS: server, Protocol: testProtocol(&hooks{frame: echo, open: func(c *Conn) { accepted <- c.TLS() }})})

	got := make(chan string, 1)
	h := &hooks{closes: make(chan CloseReason, 2), frame: func(_ *Conn, b []byte, _ *buf.Buf) error {
		got <- string(b[4:])
		return nil
	}}
	p := testProtocol(h)
	c, err := e.DialTLS(t.Context(), addr, p, client)
	if err != nil {
		t.Fatal(err)
	}
	if s := receive(t, accepted, "the connection"); len(s.PeerCertificates) != 1 || s.Version != tls.VersionTLS13 {
		t.Errorf("who was dialled has %+v", s)
	}
	if s := c.TLS(); s == nil || len(s.PeerCertificates) != 1 || c.Transport() != TLS {
		t.Errorf("who dialled has %+v, transport %v", s, c.Transport())
	}
	body := strings.Repeat("b", 100_000)
	if err := c.Send(buf.Copy(frame(body))); err != nil {
		t.Fatal(err)
	}
	if receive(t, got, "the echo") != body {
		t.Error("another frame came back")
	}

	if _, err := e.DialTLS(t.Context(), addr, p, misled); err == nil {
		t.Error("a server whose root is not known was taken")
	}
	if _, err := e.DialTLS(t.Context(), addr, p, foreign); err == nil { // by TLS 1.3 who dials hears of it behind its handshake
		receive(t, h.closes, "the end of a client whose root is not known")
	}
	if n := len(accepted); n > 0 {
		t.Error("a client whose root is not known was taken")
	}
}

func TestFilesThatNoPeerWouldTakeAreFound(t *testing.T) {
	a, stranger := newAuthority(t, "root"), newAuthority(t, "another root")
	if own, err := writeFiles(t, a, a.pem).Own(); err != nil || len(own.DNSNames) != 1 || own.DNSNames[0] != "server" {
		t.Errorf("%+v, %v", own, err)
	}
	if _, err := writeFiles(t, a, stranger.pem).Own(); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("of another root: %v", err)
	}
	if _, err := writeFiles(t, a, nil).Own(); err == nil {
		t.Error("files without roots were taken")
	}
}

func TestADialByTLSEndsWithItsContext(t *testing.T) {
	a := newAuthority(t, "root")
	_, client := peerFiles(t, a, a.pem)
	e := start(t, 1)
	ln, err := net.Listen("tcp", "127.0.0.1:0") // which nobody answers at
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if c, err := ln.Accept(); err == nil {
			cancel()
			defer c.Close()
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	if _, err := e.DialTLS(ctx, ln.Addr().String(), testProtocol(&hooks{frame: echo}), client); err == nil {
		t.Error("a dial whose context has ended succeeded")
	}
}
