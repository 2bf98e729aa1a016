package engine

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/zlnode/zlnode/internal/buf"
)

var allTransports = []Transport{TCP, WS, TLS, WSS}

// edge is a listener of one transport, and what its clients need.
type edge struct {
	t         testing.TB
	e         *Engine
	transport Transport
	addr      string
	tls       *tls.Config
}

func newEdge(t testing.TB, transport Transport, p *Protocol) *edge {
	t.Helper()
	d := &edge{t: t, e: start(t, 1), transport: transport}
	if l := (Listen{Transport: transport, Protocol: p}); transport.Encrypted() {
		d.addr, d.tls = secureListen(t, d.e, l)
	} else {
		d.addr = listenOn(t, d.e, l)
	}
	return d
}

// connect returns a client behind all handshakes.
func (d *edge) connect() net.Conn {
	d.t.Helper()
	var c net.Conn = dial(d.t, d.addr)
	if d.tls != nil {
		c = tls.Client(c, d.tls)
	}
	if d.transport.Messages() {
		shakeHands(d.t, c)
	} else if d.tls != nil {
		if err := c.(*tls.Conn).Handshake(); err != nil {
			d.t.Fatal(err)
		}
	}
	return c
}

// wire is a frame as a client of the transport sends it.
func (d *edge) wire(f []byte) []byte {
	if d.transport.Messages() {
		return message(f)
	}
	return f
}

// read returns the body of the next frame.
func (d *edge) read(c net.Conn) string {
	d.t.Helper()
	if d.transport.Messages() {
		return readMessage(d.t, c)
	}
	return readFrame(d.t, c)
}

func onEachTransport(t *testing.T, f func(t *testing.T, transport Transport)) {
	for _, transport := range allTransports {
		t.Run(transport.String(), func(t *testing.T) { f(t, transport) })
	}
}

// drip sends begin, and then a byte every now and then, until the connection ends, and
// fails the test unless it does.
func drip(t *testing.T, c net.Conn, begin []byte) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c)
		ended <- err
	}()
	_, _ = c.Write(begin)
	every := time.NewTicker(tick / 2)
	defer every.Stop()
	for {
		select {
		case err := <-ended:
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("a byte renewed the deadline")
			}
			return
		case <-every.C:
			_, _ = c.Write([]byte{'x'})
		}
	}
}

// dripTimeout is the deadline of those who drip.
const dripTimeout = 8 * tick

// Whoever is slow before he is admitted holds a place until a deadline, whatever he drips.
func TestADrippedHandshakeIsClosedOnEachTransport(t *testing.T) {
	begins := map[Transport][][]byte{
		WS:  {nil, []byte("GET / HTTP/1.1\r\nCookie: ")},
		TLS: {nil, {22, 3, 1, 63, 0, 1, 0, 62, 252}},
		WSS: {nil, {22, 3, 1, 63, 0, 1, 0, 62, 252}},
	}
	onEachTransport(t, func(t *testing.T, transport Transport) {
		for _, begin := range begins[transport] {
			t.Run(fmt.Sprintf("%d bytes", len(begin)), func(t *testing.T) {
				p := testProtocol(&hooks{open: func(*Conn) { t.Error("the connection was opened") }})
				p.HelloTimeout = dripTimeout
				d := newEdge(t, transport, p)
				drip(t, dial(t, d.addr), begin)
				waitFor(t, "the place", func() bool { return d.e.Stats().Unadmitted == 0 })
			})
		}
	})
}

// Whoever was admitted has a deadline for each frame, wherever in it, or below it, he drips.
func TestADrippedFrameIsClosedOnEachTransport(t *testing.T) {
	large := message(append(prefix(testMax), make([]byte, testMax)...))
	begins := map[string]struct {
		transports []Transport
		begin      []byte
	}{
		"a frame":              {[]Transport{TCP, TLS}, prefix(testMax)},
		"a message":            {[]Transport{WS, WSS}, large[:40]},
		"a message's header":   {[]Transport{WS, WSS}, large[:1]},
		"a message's fragment": {[]Transport{WS, WSS}, clientFrame(ws.OpBinary, false, prefix(testMax))},
		"a ping":               {[]Transport{WS, WSS}, clientFrame(ws.OpPing, true, make([]byte, 125))[:7]},
	}
	for name, c := range begins {
		for _, transport := range c.transports {
			t.Run(name+" over "+transport.String(), func(t *testing.T) {
				closes := make(chan CloseReason, 1)
				p := testProtocol(&hooks{closes: closes})
				p.FrameTimeout = dripTimeout
				d := newEdge(t, transport, p)
				client := d.connect()
				if name == "a message's header" || name == "a message's fragment" {
					write(t, client, c.begin) // another byte would be a fault
				} else {
					drip(t, client, c.begin)
				}
				if r := receive(t, closes, "the close"); r.Code != FrameTimeout {
					t.Errorf("closed with %v", r)
				}
			})
		}
	}
	for _, transport := range []Transport{TLS, WSS} {
		t.Run("a record of "+transport.String(), func(t *testing.T) {
			closes := make(chan CloseReason, 1)
			p := testProtocol(&hooks{closes: closes, frame: echo})
			p.FrameTimeout = dripTimeout
			d := newEdge(t, transport, p)
			client := d.connect()
			write(t, client, d.wire(frame("whole")))
			if got := d.read(client); got != "whole" {
				t.Errorf("got %q", got)
			}
			drip(t, client.(*tls.Conn).NetConn(), []byte{23, 3, 3, 63, 0})
			if r := receive(t, closes, "the close"); r.Code != FrameTimeout {
				t.Errorf("closed with %v", r)
			}
		})
	}
}

// awaitRead waits until the engine has read more than before.
func awaitRead(t testing.TB, e *Engine, before uint64) {
	t.Helper()
	for end := time.Now().Add(patience); e.Stats().BytesIn == before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("nothing was read")
		}
	}
}

func TestEachByteMayComeAloneOnEachTransport(t *testing.T) {
	onEachTransport(t, func(t *testing.T, transport Transport) {
		d := newEdge(t, transport, testProtocol(&hooks{frame: echo}))
		c := d.connect()
		write(t, c, d.wire(frame("first"))) // which a handshake may have read
		if got := d.read(c); got != "first" {
			t.Errorf("got %q", got)
		}
		bodies := []string{"", "hello", strings.Repeat("b", 300)}
		var stream []byte
		for _, b := range bodies {
			stream = append(stream, d.wire(frame(b))...)
		}
		for i := range stream {
			before := d.e.Stats().BytesIn
			write(t, c, stream[i:i+1])
			awaitRead(t, d.e, before)
		}
		for _, want := range bodies {
			if got := d.read(c); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
}

func TestAFrameOverTheLimitIsRefusedOnEachTransport(t *testing.T) {
	onEachTransport(t, func(t *testing.T, transport Transport) {
		for _, claim := range []uint32{testMax + 1, 0xffffffff - 4} {
			closes := make(chan CloseReason, 1)
			h := &hooks{closes: closes, frame: func(*Conn, []byte, *buf.Buf) error { t.Error("a frame came"); return nil }}
			d := newEdge(t, transport, testProtocol(h))
			c := d.connect()
			write(t, c, d.wire(prefix(claim)))
			_ = c.Close()
			if r := receive(t, closes, "the close"); r.Code != FrameTooLarge {
				t.Errorf("closed with %v", r)
			}
			if err := d.e.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A rate counts on every transport, and control frames are frames.
func TestARateHoldsOnEachTransport(t *testing.T) {
	onEachTransport(t, func(t *testing.T, transport Transport) {
		for name, spend := range map[string]func(d *edge, c net.Conn){
			"frames": func(d *edge, c net.Conn) { _, _ = c.Write(bytes.Repeat(d.wire(frame("x")), 20)) },
			"bytes":  func(d *edge, c net.Conn) { _, _ = c.Write(d.wire(frame(strings.Repeat("x", 60_000)))) },
			"pings": func(d *edge, c net.Conn) {
				if transport.Messages() {
					_, _ = c.Write(bytes.Repeat(clientFrame(ws.OpPing, true, nil), 20))
				} else {
					_, _ = c.Write(bytes.Repeat(frame(""), 20))
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				closes := make(chan CloseReason, 1)
				p := testProtocol(&hooks{closes: closes})
				p.Rate = &Rate{BytesPerSecond: 1, BurstBytes: 50_000, FramesPerSecond: 1, BurstFrames: 10}
				d := newEdge(t, transport, p)
				c := d.connect()
				spend(d, c)
				_ = c.Close()
				if r := receive(t, closes, "the close"); r.Code != RateExceeded {
					t.Errorf("closed with %v", r)
				}
			})
		}
	})
}

func TestClosingTheEngineTellsClientsOfEachTransport(t *testing.T) {
	onEachTransport(t, func(t *testing.T, transport Transport) {
		opened := make(chan *Conn, 1)
		d := newEdge(t, transport, testProtocol(&hooks{open: func(c *Conn) { opened <- c }}))
		c := d.connect()
		conn := receive(t, opened, "the connection")
		if err := conn.Send(buf.Copy(frame("bye"))); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- d.e.Close(t.Context()) }()
		if got := d.read(c); got != "bye" {
			t.Errorf("got %q", got)
		}
		if transport.Messages() {
			if _, status := readClose(t, c); status != ws.StatusGoingAway {
				t.Errorf("status %d", status)
			}
		} else if n, err := c.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // as io.Reader promises
			t.Errorf("at the end: %d bytes, %v", n, err)
		}
		_ = c.Close()
		if err := receive(t, closed, "the engine's end"); err != nil {
			t.Error(err)
		}
	})
}

// Abort says nothing and loses no time, whatever is between.
func TestAbortIsAResetOnEachTransport(t *testing.T) {
	onEachTransport(t, func(t *testing.T, transport Transport) {
		opened := make(chan *Conn, 1)
		d := newEdge(t, transport, testProtocol(&hooks{open: func(c *Conn) { opened <- c }}))
		c := d.connect()
		receive(t, opened, "the connection").Abort(CloseReason{Code: Requested})
		if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
			t.Errorf("the client saw %v", err)
		}
	})
}

// The frames of one read share a slab, and no frame sees the others' bytes.
func TestMessagesOfOneReadShareASlab(t *testing.T) {
	var owners []*buf.Buf
	p := testProtocol(&hooks{frame: func(_ *Conn, b []byte, owner *buf.Buf) error {
		if cap(b) != len(b) {
			t.Error("a frame can be extended into the next")
		}
		owners = append(owners, owner)
		return nil
	}})
	c := looseSocket(newLoop(&Engine{}), p)
	feed(c, slices.Concat(message(frame("a")), message(frame("bb")), message(frame("ccc"))))
	if len(owners) != 3 || owners[0] != owners[1] || owners[1] != owners[2] {
		t.Errorf("%d frames, slabs %p", len(owners), owners)
	}
	release(c)
}
