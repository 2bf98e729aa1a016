package engine

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/zlnode/zlnode/internal/buf"
)

// request is that of a browser for a WebSocket; lines come in addition.
func request(lines ...string) string {
	return "GET /any/path?x=y HTTP/1.1\r\nHost: game.example\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n" + strings.Join(lines, "") + "\r\n"
}

// listenOn is listen for a listener of any kind, on a free port of this machine.
func listenOn(t testing.TB, e *Engine, l Listen) string {
	t.Helper()
	l.Addr = "127.0.0.1:0"
	s, err := e.Listen(l)
	if err != nil {
		t.Fatal(err)
	}
	return s.Addr().String()
}

// upgraded dials a listener of WS and returns the client's end, behind the handshake.
func upgraded(t testing.TB, addr string) net.Conn {
	t.Helper()
	c := dial(t, addr)
	shakeHands(t, c)
	return c
}

// shakeHands upgrades c.
func shakeHands(t testing.TB, c net.Conn) {
	t.Helper()
	write(t, c, []byte(request()))
	if head := readHead(t, c); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("the upgrade was answered with %q", head)
	}
}

// readHead reads the head of an HTTP answer, and not a byte more.
func readHead(t testing.TB, c net.Conn) string {
	t.Helper()
	var head []byte
	for one := make([]byte, 1); !bytes.HasSuffix(head, requestEnd); head = append(head, one...) {
		if _, err := io.ReadFull(c, one); err != nil {
			t.Fatalf("after %q: %v", head, err)
		}
	}
	return string(head)
}

// readMessage reads a binary message of the server and returns the body of its frame.
func readMessage(t testing.TB, c net.Conn) string {
	t.Helper()
	h, payload, err := readSocket(c)
	if err != nil {
		t.Fatal(err)
	}
	if h.OpCode != ws.OpBinary || !h.Fin {
		t.Fatalf("a frame with header %+v", h)
	}
	return string(payload[4:])
}

func TestAWebSocketCarriesFramesBothWays(t *testing.T) {
	e := start(t, 1)
	h := &hooks{frame: echo, closes: make(chan CloseReason, 1)}
	addr := listenOn(t, e, Listen{Transport: WS, Protocol: testProtocol(h)})
	c := dial(t, addr)
	// The first messages come with the request, as some clients send them.
	write(t, c, slices.Concat([]byte(request("Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n", "Sec-WebSocket-Protocol: chat\r\n")),
		message(frame("one")), clientFrame(ws.OpBinary, false, frame("two")[:5]), clientFrame(ws.OpContinuation, true, frame("two")[5:])))
	resp, err := http.ReadResponse(bufio.NewReaderSize(one(c), 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Errorf("answer %+v", resp)
	}
	if resp.Header.Get("Sec-WebSocket-Extensions") != "" || resp.Header.Get("Sec-WebSocket-Protocol") != "" {
		t.Errorf("an extension or a subprotocol was taken: %+v", resp.Header)
	}
	large := strings.Repeat("large", 60_000)
	write(t, c, message(frame(large)))
	for _, want := range []string{"one", "two", large} {
		if got := readMessage(t, c); got != want {
			t.Fatalf("got %d bytes, want %d", len(got), len(want))
		}
	}
	// A plain end of the stream is an orderly close.
	_ = c.Close()
	if r := receive(t, h.closes, "the close"); r.Code != PeerClosed {
		t.Errorf("closed with %v", r)
	}
}

// one reads a byte at a time from c, so that a reader above takes no more than it needs.
func one(c net.Conn) io.Reader { return oneByte{c} }

type oneByte struct{ net.Conn }

func (o oneByte) Read(p []byte) (int, error) { return o.Conn.Read(p[:min(1, len(p))]) }

func TestARequestMayComeInAnyPieces(t *testing.T) {
	e := start(t, 1)
	addr := listenOn(t, e, Listen{Transport: WS, Protocol: testProtocol(&hooks{frame: echo})})
	long := request("Cookie: " + strings.Repeat("c", 4000) + "\r\n")
	for _, step := range []int{1, 7, 511, len(long) - 1} {
		c := dial(t, addr)
		stream := append([]byte(long), message(frame("hi"))...)
		for n := range slices.Chunk(stream, step) {
			before := e.Stats().BytesIn
			write(t, c, n)
			if step == 1 { // so that each byte is a read of its own
				awaitRead(t, e, before)
			}
		}
		if head := readHead(t, c); !strings.Contains(head, " 101 ") {
			t.Fatalf("step %d: %q", step, head)
		}
		if got := readMessage(t, c); got != "hi" {
			t.Errorf("step %d: got %q", step, got)
		}
	}
}

func TestABadRequestGetsAStatusAndOpensNothing(t *testing.T) {
	origins := []string{"https://game.example", "http://localhost:8000"}
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"no HTTP":            {"\xf2\x01hello world\r\n\r\n", 400},
		"HTTP/1.0":           {strings.Replace(request(), "HTTP/1.1", "HTTP/1.0", 1), 505},
		"HTTP/2":             {"PRI * HTTP/2.0\r\n\r\n", 505},
		"POST":               {strings.Replace(request(), "GET", "POST", 1), 405},
		"no upgrade":         {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"another upgrade":    {strings.Replace(request(), "Upgrade: websocket", "Upgrade: h2c", 1), 400},
		"no key":             {strings.Replace(request(), "Sec-WebSocket-Key", "X-Key", 1), 400},
		"a short key":        {strings.Replace(request(), "dGhl", "", 1), 400},
		"version 8":          {strings.Replace(request(), "Version: 13", "Version: 8", 1), 426},
		"no host":            {strings.Replace(request(), "Host:", "X-Host:", 1), 400},
		"a line without CR":  {strings.Replace(request(), "Host: game.example\r\n", "Host: game.example\n\n", 1), 400},
		"a header without :": {request("nonsense\r\n"), 400},
		"a foreign origin":   {request("Origin: https://evil.example\r\n"), 403},
		"an origin of null":  {request("Origin: null\r\n"), 403},
		"too large":          {request("Cookie: " + strings.Repeat("c", requestMax) + "\r\n"), 431},
		"without an end":     {"GET / HTTP/1.1\r\nHost: " + strings.Repeat("h", requestMax), 431},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, 1)
			h := &hooks{
				open:  func(*Conn) { t.Error("the connection was opened") },
				close: func(*Conn, CloseReason) { t.Error("the end of what was not opened is told") },
			}
			conn := dial(t, listenOn(t, e, Listen{Transport: WS, Origins: origins, Protocol: testProtocol(h)}))
			write(t, conn, []byte(c.request))
			r := bufio.NewReader(conn)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.status {
				t.Errorf("status %d, want %d", resp.StatusCode, c.status)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if n, err := io.Copy(io.Discard, r); err != nil || n > 0 {
				t.Errorf("after the answer came %d bytes, %v", n, err)
			}
			if n := e.Stats().HandshakeFailures; n != 1 {
				t.Errorf("%d failures are counted", n)
			}
		})
	}
	for _, good := range []string{"Origin: HTTPS://game.example\r\n", "Origin: http://localhost:8000\r\n", ""} {
		if _, err := upgrade([]byte(request(good)), origins); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestASocketThatIsNotUpgradedIsClosedAtItsHelloDeadline(t *testing.T) {
	for _, timeout := range []time.Duration{2 * tick, -1} { // -1: the default's, so that there is one
		t.Run(timeout.String(), func(t *testing.T) {
			e := start(t, 1)
			p := testProtocol(&hooks{})
			p.HelloTimeout = timeout
			c := dial(t, listenOn(t, e, Listen{Transport: WS, Protocol: p}))
			write(t, c, []byte(request()[:20]))
			if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, net.ErrClosed) {
				t.Errorf("timeout %v: %v", timeout, err)
			}
			if s := e.Stats(); s.Accepted != 1 || s.Closed != 1 || s.Unadmitted != 0 {
				t.Errorf("timeout %v: %+v", timeout, s)
			}
		})
	}
}

func TestMaxUnadmittedCountsSocketsThatAreNotUpgraded(t *testing.T) {
	e := start(t, 1)
	opened := make(chan *Conn, 1)
	p := testProtocol(&hooks{frame: echo, open: func(c *Conn) { opened <- c }})
	addr := listenOn(t, e, Listen{Transport: WS, MaxUnadmitted: 1, Protocol: p})
	waiting := dial(t, addr)
	waitFor(t, "the connection", func() bool { return e.Stats().Unadmitted == 1 })
	if !refused(t, addr) {
		t.Error("a second one was not refused")
	}
	shakeHands(t, waiting)
	receive(t, opened, "the connection")
	upgraded(t, addr)
}

// waitFor waits until a condition holds that must come.
func waitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); !holds(); <-poll.C {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// readClose reads messages up to the close frame, which must end the stream, and returns
// its status.
func readClose(t testing.TB, c net.Conn) (messages int, status ws.StatusCode) {
	t.Helper()
	for {
		h, payload, err := readSocket(c)
		if err != nil {
			t.Fatalf("after %d messages: %v", messages, err)
		}
		if h.OpCode != ws.OpClose {
			messages++
			continue
		}
		if n, err := c.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // as io.Reader promises
			t.Errorf("behind the close frame: %d bytes, %v", n, err)
		}
		return messages, ws.StatusCode(binary.BigEndian.Uint16(payload))
	}
}

func TestACloseFrameComesBehindWhatWasQueued(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(c *Conn, client net.Conn)
		status ws.StatusCode
		code   CloseCode
	}{
		"by the owner":    {func(c *Conn, _ net.Conn) { c.Close(CloseReason{Code: Requested}) }, 1000, Requested},
		"by a drain":      {func(c *Conn, _ net.Conn) { c.Close(CloseReason{Code: Draining}) }, 1001, Draining},
		"by the client":   {func(_ *Conn, client net.Conn) { _, _ = client.Write(clientFrame(ws.OpClose, true, []byte{0x0f, 0xa1})) }, 4001, PeerClosed},
		"by a bad frame":  {func(_ *Conn, client net.Conn) { _, _ = client.Write([]byte{0x82, 1, 2}) }, 1002, ProtocolError},
		"by a large one":  {func(_ *Conn, client net.Conn) { _, _ = client.Write(message(prefix(testMax + 1))) }, 1009, FrameTooLarge},
		"by a text frame": {func(_ *Conn, client net.Conn) { _, _ = client.Write(clientFrame(ws.OpText, true, []byte("{}"))) }, 1003, ProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, 1)
			opened := make(chan *Conn, 1)
			h := &hooks{open: func(c *Conn) { opened <- c }, closes: make(chan CloseReason, 1)}
			p := testProtocol(h)
			p.CloseGrace, p.OutMax = time.Hour, 16<<20
			client := upgraded(t, listenOn(t, e, Listen{Transport: WS, Protocol: p}))
			conn := receive(t, opened, "the connection")
			const n = 40
			for i := range n { // more than the socket takes at once
				if err := conn.Send(buf.Copy(frame(strings.Repeat("m", i*10_000)))); err != nil {
					t.Fatal(err)
				}
			}
			c.end(conn, client)
			if got, status := readClose(t, client); got != n || status != c.status {
				t.Errorf("%d messages and status %d, want %d and %d", got, status, n, c.status)
			}
			if err := conn.Send(buf.Copy(frame("late"))); !errors.Is(err, ErrClosed) {
				t.Errorf("Send afterwards: %v", err)
			}
			_ = client.Close()
			if r := receive(t, h.closes, "the close"); r.Code != c.code {
				t.Errorf("closed with %v", r)
			}
		})
	}
}

// Producers of small and of large messages: each one's come in order, and whole.
func TestConcurrentSendersKeepTheirOrderOverASocket(t *testing.T) {
	e := start(t, 1)
	opened := make(chan *Conn, 1)
	p := testProtocol(&hooks{open: func(c *Conn) { opened <- c }})
	client := upgraded(t, listenOn(t, e, Listen{Transport: WS, Protocol: p}))
	conn := receive(t, opened, "the connection")
	const senders, each = 4, 500
	for s := range senders {
		go func() {
			for i := range each {
				body := fmt.Sprintf("%d %d ", s, i)
				if i%7 == 0 {
					body += strings.Repeat("x", appendMax+i)
				}
				mustSend(t, conn, buf.Copy(frame(body)))
			}
		}()
	}
	var next [senders]int
	for range senders * each {
		var s, i int
		if _, err := fmt.Sscan(readMessage(t, client), &s, &i); err != nil {
			t.Fatal(err)
		}
		if i != next[s] {
			t.Fatalf("sender %d: message %d, want %d", s, i, next[s])
		}
		next[s]++
	}
}
