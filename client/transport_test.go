package client_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/session"
)

// messages is the server's end of a WebSocket as a stream: one Write is one
// message, and what a client sends must be one masked binary message per frame.
type messages struct {
	net.Conn
	rest   []byte
	status ws.StatusCode // of the client's close frame
}

var errBadMessage = errors.New("a message that is not one masked binary frame")

func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		frame, err := readWSFrame(m.Conn)
		if err != nil {
			return 0, err
		}
		if !frame.Header.Masked {
			return 0, errBadMessage
		}
		frame = ws.UnmaskFrameInPlace(frame)
		switch frame.Header.OpCode {
		case ws.OpClose:
			m.status, _ = ws.ParseCloseFrameData(frame.Payload)
			return 0, io.EOF
		case ws.OpPong:
			continue
		default:
		}
		size, err := session.FrameSize(frame.Payload, 0)
		if err != nil || size != len(frame.Payload) || frame.Header.OpCode != ws.OpBinary || !frame.Header.Fin {
			return 0, errBadMessage
		}
		m.rest = frame.Payload
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

func (m *messages) Write(p []byte) (int, error) {
	return len(p), wsutil.WriteServerBinary(m.Conn, p)
}

// readWSFrame reads a frame whole, as it is on the wire.
func readWSFrame(r io.Reader) (ws.Frame, error) {
	h, err := ws.ReadHeader(r)
	if err != nil {
		return ws.Frame{}, err
	}
	f := ws.Frame{Header: h, Payload: make([]byte, h.Length)}
	_, err = io.ReadFull(r, f.Payload)
	return f, err
}

// newWebServer is newServer behind net/http. Its address is the URL without its
// scheme.
func newWebServer(tb testing.TB, secure *tls.Config, handle func(p *peer)) *server {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &server{listener: listener, addr: listener.Addr().String()}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/game", func(w http.ResponseWriter, r *http.Request) {
		conn, _, _, err := ws.UpgradeHTTP(r, w)
		if err != nil {
			return
		}
		s.handlers.Go(func() {
			defer conn.Close()
			handle(newPeer(&messages{Conn: conn}))
		})
	})
	web := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	s.handlers.Go(func() { _ = web.Serve(listener) })
	tb.Cleanup(func() {
		_ = web.Close()
		s.handlers.Wait()
	})
	return s
}

// overEach runs the test over every transport. serve starts a server whose
// address and TLS are in the options that it returns.
func overEach(t *testing.T, test func(t *testing.T, serve func(handle func(*peer)) client.Options)) {
	for _, scheme := range []string{"tcp", "tls", "ws", "wss"} {
		t.Run(scheme, func(t *testing.T) {
			test(t, func(handle func(*peer)) client.Options {
				serverTLS, clientTLS := testTLS()
				switch scheme {
				case "tcp":
					return client.Options{Addr: "tcp://" + newServer(t, handle).addr}
				case "tls":
					s := newServer(t, func(p *peer) { handle(newPeer(tls.Server(p.conn, serverTLS))) })
					return client.Options{Addr: "tls://" + s.addr, TLS: clientTLS}
				case "ws":
					return client.Options{Addr: "ws://" + newWebServer(t, nil, handle).addr + "/game?world=1"}
				default:
					return client.Options{Addr: "wss://" + newWebServer(t, serverTLS, handle).addr + "/game", TLS: clientTLS}
				}
			})
		})
	}
}

func dial(tb testing.TB, o client.Options) *client.Client {
	tb.Helper()
	c, err := client.Dial(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeAndWait(c) })
	return c
}

func TestRequestsOfEverySizeAreAnsweredOverEveryTransport(t *testing.T) {
	overEach(t, func(t *testing.T, serve func(func(*peer)) client.Options) {
		c := dial(t, serve(echo))
		for _, size := range []int{0, 1, 100, 125, 126, 4 << 10, 65 << 10, 300 << 10, 1000 << 10} {
			payload := bytes.Repeat([]byte{byte(size), 7, 'x'}, size/3+1)[:size]
			m, err := c.Request(t.Context(), "echo", payload)
			if err != nil || !bytes.Equal(m.Payload, payload) {
				t.Fatalf("%d bytes: %v", size, err)
			}
		}
		_, err := c.Request(t.Context(), "fail", nil)
		if remote, ok := errors.AsType[*client.RemoteError](err); !ok || remote.Kind != errkind.Rejected {
			t.Errorf("error %v", err)
		}
	})
}

func TestManySendersKeepTheirOrderOverEveryTransport(t *testing.T) {
	overEach(t, func(t *testing.T, serve func(func(*peer)) client.Options) {
		const senders, each = 8, 400
		received := make(chan []session.Packet, 1)
		c := dial(t, serve(func(p *peer) { received <- p.drain(t) }))
		var sending sync.WaitGroup
		for s := range senders {
			sending.Go(func() {
				for i := range each {
					if err := c.Send(t.Context(), fmt.Sprint(s), make([]byte, i*(s+1))); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		sending.Wait()
		closeAndWait(c)
		next := make(map[string]int)
		all := <-received
		for _, p := range all[:len(all)-1] {
			var s int
			_, _ = fmt.Sscan(string(p.Name), &s)
			if len(p.Payload) != next[string(p.Name)]*(s+1) {
				t.Fatalf("message of %d bytes from sender %s after %d messages", len(p.Payload), p.Name, next[string(p.Name)])
			}
			next[string(p.Name)]++
		}
		if reason, _, err := session.ParseClosing(&all[len(all)-1]); len(all) != senders*each+1 || err != nil || reason != session.ClientClose {
			t.Errorf("%d packets, the last is %v, %v", len(all), reason, err)
		}
	})
}

func TestPushesAndTheReasonOfTheCloseComeOverEveryTransport(t *testing.T) {
	overEach(t, func(t *testing.T, serve func(func(*peer)) client.Options) {
		const count = 1000
		o, w := watchLoss(serve(func(p *peer) {
			for i := range count {
				if p.write(push(fmt.Sprint(i), strings.Repeat("x", i))) != nil {
					return
				}
			}
			_ = p.write(session.AppendClosing(nil, session.ServerDrain, "maintenance"))
			silent(p)
		}))
		n := 0
		o.OnPush = func(m *client.Message) {
			if m.Name != fmt.Sprint(n) || len(m.Payload) != n {
				t.Errorf("push %q of %d bytes as number %d", m.Name, len(m.Payload), n)
			}
			n++
		}
		c := dial(t, o)
		cause := <-w.lost
		<-c.Done()
		if closed, ok := errors.AsType[*client.ClosedError](cause); !ok || closed.Reason != session.ServerDrain || n != count {
			t.Errorf("%d pushes, then %v", n, cause)
		}
	})
}

// Read deadlines pass while nothing arrives, and reading goes on.
func TestHeartbeatsKeepEveryTransportAlive(t *testing.T) {
	overEach(t, func(t *testing.T, serve func(func(*peer)) client.Options) {
		o := serve(func(p *peer) {
			req, err := p.read()
			for pings := 0; err == nil && pings < 5; {
				var frame []byte
				if frame, err = p.readFrame(); string(frame) == string(session.PingFrame()) {
					pings++
				}
			}
			if err == nil && p.write(replyTo(&req, req.Payload)) == nil {
				p.drain(t)
			}
		})
		o.HeartbeatInterval = 5 * time.Millisecond
		m, err := dial(t, o).Request(t.Context(), "after five pings", []byte("secret"))
		if err != nil || string(m.Payload) != "secret" {
			t.Errorf("reply %+v, %v", m, err)
		}
	})
}

func TestAServerWithAnotherNameIsNotTrusted(t *testing.T) {
	serverTLS, clientTLS := testTLS()
	clientTLS.ServerName = ""
	s := newServer(t, func(p *peer) { silent(newPeer(tls.Server(p.conn, serverTLS))) })
	_, port, _ := net.SplitHostPort(s.addr)
	_, err := client.Dial(t.Context(), client.Options{Addr: "tls://localhost:" + port, TLS: clientTLS})
	checkKind(t, err, client.Unavailable, nil)
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("error %v", err)
	}
	if clientTLS.ServerName != "" {
		t.Error("the caller's configuration was changed")
	}
	c, err := client.Dial(t.Context(), client.Options{Addr: "tls://" + s.addr, TLS: clientTLS}) // 127.0.0.1 is in the certificate
	if err != nil {
		t.Fatal(err)
	}
	closeAndWait(c)
}

func TestAHandshakeThatStandsStillEndsWithTheContext(t *testing.T) {
	s := newServer(t, silent)
	for _, scheme := range []string{"tls", "ws", "wss"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := client.Dial(ctx, client.Options{Addr: scheme + "://" + s.addr})
		checkKind(t, err, client.Unavailable, context.DeadlineExceeded)
		cancel()
	}
}

func TestAddressesThatCannotWorkAreRefused(t *testing.T) {
	for addr, says := range map[string]string{
		"":                      "empty",
		"http://host:1":         "http",
		"tcp://host":            "port",
		"tls://:1":              "host",
		"tcp://host:1/path":     "path",
		"ws://user@host/":       "user",
		"wss://host/#fragment":  "fragment",
		"ws://host:port":        "port",
		"ws://[::1/":            "]",
		"tls://host:1/?world=1": "path",
	} {
		_, err := client.Dial(t.Context(), client.Options{Addr: addr})
		if err == nil || !strings.Contains(err.Error(), "Addr") || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", addr, err)
		}
	}
	for _, addr := range []string{"host:1", "tcp://host:1", "ws://host"} {
		if _, err := client.Dial(t.Context(), client.Options{Addr: addr, TLS: &tls.Config{}}); err == nil || !strings.Contains(err.Error(), "TLS") {
			t.Errorf("TLS for %q: %v", addr, err)
		}
	}
}

func TestTheDialerGetsHostAndPortOfAnyAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"host:1":          "host:1",
		"tcp://host:1":    "host:1",
		"tls://[::1]:2":   "[::1]:2",
		"ws://host/path":  "host:80",
		"wss://host?x=1":  "host:443",
		"wss://[::1]:444": "[::1]:444",
	} {
		var got string
		_, err := client.Dial(t.Context(), client.Options{Addr: addr, Dialer: func(_ context.Context, addr string) (net.Conn, error) {
			got = addr
			return nil, io.ErrClosedPipe
		}})
		checkKind(t, err, client.Unavailable, io.ErrClosedPipe)
		if got != want {
			t.Errorf("%q dials %q, want %q", addr, got, want)
		}
	}
}

func TestAWebSocketPingIsAnsweredAndTheStatusOfACloseIsTheCause(t *testing.T) {
	ponged := make(chan string, 1)
	s := newWebServer(t, nil, func(p *peer) {
		below := p.conn.(*messages).Conn
		_ = ws.WriteFrame(below, ws.NewPingFrame([]byte("are you there")))
		for {
			f, err := readWSFrame(below)
			if err != nil {
				return
			}
			if f.Header.OpCode == ws.OpPong {
				ponged <- string(ws.UnmaskFrame(f).Payload)
				_ = ws.WriteFrame(below, ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusGoingAway, "restart")))
			}
			if f.Header.OpCode == ws.OpClose {
				return
			}
		}
	})
	o, w := watchLoss(client.Options{Addr: "ws://" + s.addr + "/game", HeartbeatInterval: -1, SilenceTimeout: -1})
	dial(t, o)
	if got := <-ponged; got != "are you there" {
		t.Errorf("pong %q", got)
	}
	cause := <-w.lost
	if told, ok := errors.AsType[*client.StatusError](cause); !ok || told.Code != 1001 || told.Text != "restart" {
		t.Errorf("cause %v", cause)
	}
}

func TestAWebSocketIsClosedWithAStatusByWhatEndedIt(t *testing.T) {
	for name, c := range map[string]struct {
		server func(p *peer) error
		status ws.StatusCode
	}{
		"the application": {func(*peer) error { return nil }, ws.StatusNormalClosure},
		"a frame over MaxFrame": {func(p *peer) error {
			return p.write(push("large", strings.Repeat("x", 2000)))
		}, ws.StatusMessageTooBig},
		"a broken frame": {func(p *peer) error { return p.write([]byte{0, 5, 0, 0, 0, 0, 0xF1, 1, 0, 0, 0}) }, ws.StatusProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			status := make(chan ws.StatusCode, 1)
			s := newWebServer(t, nil, func(p *peer) {
				if c.server(p) == nil {
					_, _ = io.Copy(io.Discard, p.conn)
				}
				status <- p.conn.(*messages).status
			})
			cl, err := client.Dial(t.Context(), client.Options{Addr: "ws://" + s.addr + "/game", MaxFrame: 1000})
			if err != nil {
				t.Fatal(err)
			}
			if c.status != ws.StatusNormalClosure {
				<-cl.Done()
			}
			closeAndWait(cl)
			if got := <-status; got != c.status {
				t.Errorf("status %d, want %d", got, c.status)
			}
		})
	}
}
