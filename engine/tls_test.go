package engine

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/buf"
)

// secureListen listens by TLS or WSS and returns the configuration of its clients.
func secureListen(t testing.TB, e *Engine, l Listen) (addr string, client *tls.Config) {
	t.Helper()
	a := newAuthority(t, "root")
	l.TLS = &tls.Config{Certificates: []tls.Certificate{a.pair(t, "server")}}
	return listenOn(t, e, l), &tls.Config{RootCAs: a.pool(), ServerName: "server"}
}

// dialTLS returns a client behind the handshake.
func dialTLS(t testing.TB, addr string, cfg *tls.Config) *tls.Conn {
	t.Helper()
	c := tls.Client(dial(t, addr), cfg)
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c
}

// An application's callback that panics costs its client the handshake, and nobody else.
func TestAPanicOfATLSCallbackFailsThatHandshakeOnly(t *testing.T) {
	e := start(t, 1)
	a := newAuthority(t, "root")
	pair := a.pair(t, "server")
	var calls atomic.Int32
	addr := listenOn(t, e, Listen{Transport: TLS, Protocol: testProtocol(&hooks{frame: echo}), TLS: &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if calls.Add(1) == 1 {
				panic("no certificate comes to mind")
			}
			return &pair, nil
		},
	}})
	cfg := &tls.Config{RootCAs: a.pool(), ServerName: "server"}
	if err := tls.Client(dial(t, addr), cfg).Handshake(); err == nil {
		t.Fatal("the handshake whose callback panicked has succeeded")
	}
	c := dialTLS(t, addr, cfg)
	write(t, c, frame("hello"))
	if got := readFrame(t, c); got != "hello" {
		t.Errorf("the next client reads %q", got)
	}
}

func TestTLSCarriesFramesBothWays(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			e := start(t, 1)
			states := make(chan *tls.ConnectionState, 1)
			h := &hooks{frame: echo, open: func(c *Conn) { states <- c.TLS() }, closes: make(chan CloseReason, 1)}
			p := testProtocol(h)
			p.OutMax = 4 << 20
			addr, cfg := secureListen(t, e, Listen{Transport: TLS, Protocol: p})
			cfg.MinVersion, cfg.MaxVersion = version, version
			c := dialTLS(t, addr, cfg)
			if s := receive(t, states, "the connection"); s == nil || s.Version != version || len(s.PeerCertificates) > 0 {
				t.Errorf("state %+v", s)
			}
			for _, size := range []int{0, 1, 100, 16 << 10, 16<<10 + 1, 300_000, testMax} {
				body := strings.Repeat("b", size)
				sent := make(chan error, 1)
				go func() {
					_, err := c.Write(frame(body))
					sent <- err
				}()
				if got := readFrame(t, c); got != body {
					t.Fatalf("size %d: got %d bytes", size, len(got))
				}
				if err := receive(t, sent, "the write"); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if r := receive(t, h.closes, "the close"); r.Code != PeerClosed {
				t.Errorf("closed with %v", r)
			}
		})
	}
}

func TestASecureWebSocketSpeaksHTTP11(t *testing.T) {
	e := start(t, 1)
	addr, cfg := secureListen(t, e, Listen{Transport: WSS, Protocol: testProtocol(&hooks{frame: echo})})
	cfg.NextProtos = []string{"h2", "http/1.1"}
	c := dialTLS(t, addr, cfg)
	if got := c.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("ALPN gave %q", got)
	}
	shakeHands(t, c)
	write(t, c, message(frame("hi")))
	if got := readMessage(t, c); got != "hi" {
		t.Errorf("got %q", got)
	}
}

// What is queued goes out, then close_notify and the end of the stream; the client's side
// may stay open until then.
func TestAnOrderlyCloseOverTLSIsSaid(t *testing.T) {
	e := start(t, 1)
	opened := make(chan *Conn, 1)
	h := &hooks{open: func(c *Conn) { opened <- c }, closes: make(chan CloseReason, 1)}
	p := testProtocol(h)
	p.CloseGrace, p.OutMax = time.Hour, 16<<20
	addr, cfg := secureListen(t, e, Listen{Transport: TLS, Protocol: p})
	client := dialTLS(t, addr, cfg)
	c := receive(t, opened, "the connection")
	var want bytes.Buffer
	for i := range 50 {
		body := frame(strings.Repeat("m", i*9_000))
		want.Write(body)
		if err := c.Send(buf.Copy(body)); err != nil {
			t.Fatal(err)
		}
	}
	c.Close(CloseReason{Code: Draining})
	got, err := io.ReadAll(client) // an end without close_notify is an error
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d bytes of %d, %v", len(got), want.Len(), err)
	}
	if len(h.closes) > 0 {
		t.Errorf("closed with %v before the client did", <-h.closes)
	}
	_ = client.Close()
	if r := receive(t, h.closes, "the close"); r.Code != Draining {
		t.Errorf("closed with %v", r)
	}
}

func TestAbortResetsTheSocketUnderTLS(t *testing.T) {
	e := start(t, 1)
	opened := make(chan *Conn, 1)
	h := &hooks{open: func(c *Conn) { opened <- c }, closes: make(chan CloseReason, 1)}
	p := testProtocol(h)
	p.OutMax = 16 << 20
	addr, cfg := secureListen(t, e, Listen{Transport: TLS, Protocol: p})
	client := dialTLS(t, addr, cfg)
	c := receive(t, opened, "the connection")
	if err := c.Send(buf.Get(8 << 20)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the socket to be full", func() bool { return e.Stats().Blocked > 0 })
	c.Abort(CloseReason{Code: Requested})
	if r := receive(t, h.closes, "the close"); r.Code != Requested {
		t.Errorf("closed with %v", r)
	}
	if _, err := io.Copy(io.Discard, client.NetConn()); err == nil {
		t.Error("the client saw an orderly end")
	}
}

// What is written is counted until the socket has it, and a reader that takes nothing is
// noticed, as without TLS.
func TestASlowReaderOverTLSFillsItsBudgetAndIsClosed(t *testing.T) {
	for _, transport := range []Transport{TLS, WSS} {
		t.Run(transport.String(), func(t *testing.T) {
			e := start(t, 1)
			opened := make(chan *Conn, 2)
			h := &hooks{frame: echo, open: func(c *Conn) { opened <- c }, closes: make(chan CloseReason, 2)}
			p := testProtocol(h)
			p.StallTimeout = 8 * tick
			addr, cfg := secureListen(t, e, Listen{Transport: transport, Protocol: p})
			connect := func() (*Conn, net.Conn) {
				c := dialTLS(t, addr, cfg)
				if transport == WSS {
					shakeHands(t, c)
				}
				return receive(t, opened, "the connection"), c
			}
			c, _ := connect() // never reads
			full := false
			for !full || e.Stats().Blocked == 0 {
				err := c.Send(buf.Copy(frame(strings.Repeat("m", 32<<10))))
				if errors.Is(err, ErrFull) {
					full = true
				} else if err != nil {
					break
				}
				if have := c.Pending(); have > DefaultOutMax {
					t.Fatalf("%d pending, over the budget", have)
				}
			}
			counted := make(chan bool, 1)
			if c.Post(func(c *Conn) { counted <- c.phase != open || c.tls.link.plain > 0 }) == nil && !receive(t, counted, "the loop") {
				t.Error("what is encrypted and not written is not counted any more")
			}
			if r := receive(t, h.closes, "the close"); r.Code != OutStalled {
				t.Errorf("closed with %v", r)
			}
			if c.Pending() != 0 {
				t.Errorf("%d pending after the close", c.Pending())
			}
			_, neighbour := connect()
			if transport == WSS {
				write(t, neighbour, message(frame("ping")))
				if got := readMessage(t, neighbour); got != "ping" {
					t.Errorf("neighbour got %q", got)
				}
			} else {
				write(t, neighbour, frame("ping"))
				if got := readFrame(t, neighbour); got != "ping" {
					t.Errorf("neighbour got %q", got)
				}
			}
		})
	}
}

// A peer may have its keys changed without end and take the answers so that the last one
// always waits.
func TestAnswersToKeyUpdatesAreBoundedWhileSomeWait(t *testing.T) {
	live := buf.Live()
	var l tlsLink
	answer := []byte("twenty-two bytes of one")
	var got, want []byte
	for i := range 100_000 {
		answer[0] = byte(i)
		if _, err := l.Write(answer); err != nil {
			t.Fatal(err)
		}
		want = append(want, answer...)
		taken := l.out.Bytes()[l.sent : l.have-1] // what the socket takes
		got = append(got, taken...)
		l.sent += len(taken)
	}
	if !bytes.Equal(got, want[:len(got)]) || len(want)-len(got) != 1 {
		t.Errorf("%d of %d bytes came, or not as they were written", len(got), len(want))
	}
	if room := len(l.out.Bytes()); room > secureOutMax {
		t.Errorf("%d bytes are kept for one that waits", room)
	}
	(&secure{link: &l}).drop()
	if n := buf.Live() - live; n != 0 {
		t.Errorf("%d buffers leaked", n)
	}
}

func TestPartsOverTLSAreToldWhenTheyAreWritten(t *testing.T) {
	e := start(t, 1)
	opened := make(chan *Conn, 1)
	p := testProtocol(&hooks{open: func(c *Conn) { opened <- c }})
	p.OutMax = 16 << 20
	addr, cfg := secureListen(t, e, Listen{Transport: TLS, Protocol: p})
	client := dialTLS(t, addr, cfg)
	c := receive(t, opened, "the connection")
	body := bytes.Repeat([]byte("part"), 2<<20)
	told := make(chan bool, 1)
	if err := c.SendParts(buf.Copy(prefix(uint32(len(body)))), [][]byte{body}, func(written bool) { told <- written }); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the socket to be full", func() bool { return e.Stats().Blocked > 0 })
	if len(told) > 0 {
		t.Error("the parts were let go of before they were written")
	}
	if got := readFrame(t, client); got != string(body) {
		t.Error("what came is not what was sent")
	}
	if !receive(t, told, "the parts' end") {
		t.Error("the parts were dropped")
	}
}

func TestAStalledHandshakeIsClosedAtItsDeadline(t *testing.T) {
	e := start(t, 1)
	p := testProtocol(&hooks{})
	p.HelloTimeout = 4 * tick
	addr, _ := secureListen(t, e, Listen{Transport: TLS, Protocol: p})
	record := []byte{22, 3, 1, 2, 0, 1, 0, 1, 252} // the head of a ClientHello
	for _, begin := range [][]byte{nil, record[:1], record} {
		c := dial(t, addr)
		write(t, c, begin)
		if n, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes begun: %d bytes came, %v", len(begin), n, err)
		}
	}
	waitFor(t, "the places", func() bool { s := e.Stats(); return s.HandshakeFailures == 3 && s.Unadmitted == 0 && s.Conns == 0 })
}

// One deadline bounds handshake, upgrade and what the Handler waits for.
func TestTheHelloDeadlineRunsFromTheAccept(t *testing.T) {
	e := start(t, 1)
	h := &hooks{closes: make(chan CloseReason, 1)}
	p := testProtocol(h)
	p.HelloTimeout = 20 * tick
	addr, cfg := secureListen(t, e, Listen{Transport: WSS, Protocol: p})
	began := time.Now()
	c := dialTLS(t, addr, cfg)
	shakeHands(t, c)
	if r := receive(t, h.closes, "the close"); r.Code != HelloTimeout {
		t.Errorf("closed with %v", r)
	}
	if took := time.Since(began); took < p.HelloTimeout {
		t.Errorf("closed after %v", took)
	}
}

func TestHandshakesAreBoundedAndGiveTheirPlacesBack(t *testing.T) {
	for name, limit := range map[string]Listen{"MaxHandshakes": {MaxHandshakes: 2}, "MaxUnadmitted": {MaxUnadmitted: 2}, "MaxPerIP": {MaxPerIP: 2}} {
		t.Run(name, func(t *testing.T) {
			e := start(t, 1)
			limit.Transport, limit.Protocol = TLS, testProtocol(&hooks{frame: echo})
			addr, cfg := secureListen(t, e, limit)
			first, second := dial(t, addr), dial(t, addr)
			waitFor(t, "the handshakes", func() bool { return e.Stats().Unadmitted == 2 })
			if !refused(t, addr) {
				t.Error("a third one was not refused")
			}
			if s := e.Stats(); s.RefusedHandshakes+s.RefusedUnadmitted+s.RefusedPerIP != 1 {
				t.Errorf("%+v", s)
			}
			_ = first.Close()
			waitFor(t, "the failure", func() bool { return e.Stats().HandshakeFailures == 1 })
			c := dialTLS(t, addr, cfg)
			write(t, c, frame("hi"))
			if got := readFrame(t, c); got != "hi" {
				t.Errorf("got %q", got)
			}
			_ = second.Close()
		})
	}
}

func TestClosingTheEngineEndsHandshakesUnderWay(t *testing.T) {
	e := start(t, 1)
	p := testProtocol(&hooks{})
	p.HelloTimeout = time.Hour
	addr, _ := secureListen(t, e, Listen{Transport: TLS, Protocol: p})
	c := dial(t, addr)
	waitFor(t, "the handshake", func() bool { return e.Stats().Unadmitted == 1 })
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestBytesThatAreNoTLSAreRefused(t *testing.T) {
	e := start(t, 1)
	addr, cfg := secureListen(t, e, Listen{Transport: TLS, Protocol: testProtocol(&hooks{frame: echo, closes: make(chan CloseReason, 2)})})
	c := dial(t, addr)
	write(t, c, frame("hello"))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("not closed")
	}
	waitFor(t, "the failure", func() bool { return e.Stats().HandshakeFailures == 1 })
	// Behind a handshake they end the connection with an alert.
	good := dialTLS(t, addr, cfg)
	write(t, good, frame("hi"))
	if got := readFrame(t, good); got != "hi" {
		t.Errorf("got %q", got)
	}
	write(t, good.NetConn(), append([]byte{23, 3, 3, 0, 40}, make([]byte, 40)...))
	if _, err := good.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "bad record MAC") {
		t.Errorf("after a forged record: %v", err)
	}
}

func TestClientCertificatesAreOptionalAndVerified(t *testing.T) {
	clients, strangers, server := newAuthority(t, "clients"), newAuthority(t, "strangers"), newAuthority(t, "root")
	files := writeFiles(t, server, clients.pem)
	cfg, err := files.Config(TLS, quiet)
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, 1)
	names := make(chan string, 1)
	h := &hooks{open: func(c *Conn) {
		name := ""
		if certs := c.TLS().PeerCertificates; len(certs) > 0 {
			name = certs[0].Subject.CommonName
		}
		names <- name
	}}
	addr := listenOn(t, e, Listen{Transport: TLS, TLS: cfg, Protocol: testProtocol(h)})
	own := &tls.Config{RootCAs: server.pool(), ServerName: "server"}
	dialTLS(t, addr, own)
	if got := receive(t, names, "the connection"); got != "" {
		t.Errorf("a client without certificate is %q", got)
	}
	own = own.Clone()
	own.Certificates = []tls.Certificate{clients.pair(t, "player-7")}
	dialTLS(t, addr, own)
	if got := receive(t, names, "the connection"); got != "player-7" {
		t.Errorf("the client is %q", got)
	}
	own = own.Clone()
	own.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c := strangers.pair(t, "player-7")
		return &c, nil
	}
	c := tls.Client(dial(t, addr), own)
	if err := c.Handshake(); err == nil {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a stranger's certificate was taken")
		}
	}
	waitFor(t, "the failure", func() bool { return e.Stats().HandshakeFailures == 1 })
}

// writeFiles writes the files of a server's configuration.
func writeFiles(t testing.TB, by *authority, clientCAs []byte) TLSFiles {
	t.Helper()
	dir := t.TempDir()
	f := TLSFiles{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	cert, key := by.issue(t, "server")
	writeFile(t, f.CertFile, cert)
	writeFile(t, f.KeyFile, key)
	if clientCAs != nil {
		f.ClientCAFile = filepath.Join(dir, "clients.pem")
		writeFile(t, f.ClientCAFile, clientCAs)
	}
	return f
}

// writeFile puts a file in the place of another, as a renewal does.
func writeFile(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := errors.Join(os.WriteFile(name+".new", content, 0o600), os.Rename(name+".new", name)); err != nil {
		t.Fatal(err)
	}
}

func TestManyTLSConnectionsComeAndGo(t *testing.T) {
	e := start(t, 2)
	addr, cfg := secureListen(t, e, Listen{Transport: TLS, Protocol: testProtocol(&hooks{frame: echo})})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 10 {
				nc, err := (&tls.Dialer{Config: cfg}).DialContext(context.Background(), "tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				_ = nc.SetDeadline(time.Now().Add(patience))
				in := make([]byte, 6)
				if _, err := nc.Write(frame("hi")); err != nil {
					t.Error(err)
				} else if _, err := io.ReadFull(nc, in); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					_ = nc.Close()
				} else {
					_ = nc.(*tls.Conn).NetConn().Close()
				}
			}
		})
	}
	wg.Wait()
}
