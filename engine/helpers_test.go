package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// gnet's process-wide worker pool, started by its init and not used here.
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

// patience is how long a test waits for an event that must come.
const patience = 20 * time.Second

const testMax = 1 << 20

// testFrame is the tests' framing: u32 length of what follows, then that.
func testFrameSize(b []byte, _ bool) (int, error) {
	if len(b) < 4 {
		return 0, nil
	}
	n := binary.BigEndian.Uint32(b)
	if n > testMax {
		return 0, fmt.Errorf("%w: %d bytes", ErrFrameTooLarge, n)
	}
	return int(n) + 4, nil
}

func frame(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// hooks is a Handler of functions; nil ones do nothing. Every close is reported
// to closes, if that is set.
type hooks struct {
	open   func(c *Conn)
	frame  func(c *Conn, b []byte, owner *buf.Buf) error
	timer  func(c *Conn, now clock.Mono)
	close  func(c *Conn, r CloseReason)
	closes chan CloseReason
}

func (h *hooks) OnOpen(c *Conn) {
	if h.open != nil {
		h.open(c)
	}
}

func (h *hooks) OnFrame(c *Conn, b []byte, owner *buf.Buf) error {
	if h.frame != nil {
		return h.frame(c, b, owner)
	}
	return nil
}

func (h *hooks) OnTimer(c *Conn, now clock.Mono) {
	if h.timer != nil {
		h.timer(c, now)
	}
}

func (h *hooks) OnClose(c *Conn, r CloseReason) {
	if h.close != nil {
		h.close(c, r)
	}
	if h.closes != nil {
		h.closes <- r
	}
}

// placer is a Placer of functions.
type placer struct {
	place  func(c *Conn, prefix []byte, size int) ([]byte, int)
	placed func(c *Conn, head, dst []byte) error
}

func (p *placer) Place(c *Conn, prefix []byte, size int) ([]byte, int) {
	return p.place(c, prefix, size)
}

func (p *placer) OnPlaced(c *Conn, head, dst []byte) error { return p.placed(c, head, dst) }

// echo sends every frame back.
func echo(c *Conn, b []byte, _ *buf.Buf) error { return c.Send(buf.Copy(b)) }

func testProtocol(h *hooks) *Protocol {
	return &Protocol{Name: "test", FrameSize: testFrameSize, Handler: h, HelloTimeout: -1}
}

// start returns an engine that is closed, and checked for leaks, at the end.
func start(t testing.TB, loops int) *Engine {
	t.Helper()
	live := buf.Live()
	e, err := New(Config{Loops: loops})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
		if s := e.Stats(); s.Conns != 0 || s.Unadmitted != 0 || s.Accepted+s.Dialled != s.Closed {
			t.Errorf("after Close: %+v", s)
		}
		if n := len(e.writable.mu.conns); n != 0 {
			t.Errorf("the watcher knows %d connections", n)
		}
		if n := buf.Live() - live; n != 0 {
			t.Errorf("%d buffers leaked", n)
		}
	})
	return e
}

func listen(t testing.TB, e *Engine, p *Protocol) string {
	t.Helper()
	l, err := e.Listen(Listen{Addr: "127.0.0.1:0", Protocol: p})
	if err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// dial returns a plain client whose reads and writes fail after patience.
func dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

func write(t testing.TB, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func readFrame(t testing.TB, c net.Conn) string {
	t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// receive waits for a value that must come.
func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
		panic("unreachable")
	}
}

// accept listens with h and returns a function that dials and gives both ends.
func accept(t testing.TB, e *Engine, p *Protocol) func() (*Conn, *net.TCPConn) {
	t.Helper()
	h := p.Handler.(*hooks)
	opened := make(chan *Conn, 1)
	next := h.open
	h.open = func(c *Conn) {
		if next != nil {
			next(c)
		}
		opened <- c
	}
	addr := listen(t, e, p)
	return func() (*Conn, *net.TCPConn) {
		t.Helper()
		client := dial(t, addr)
		return receive(t, opened, "the connection to open"), client
	}
}

// holdLoop keeps c's loop busy until release is called.
func holdLoop(t testing.TB, c *Conn) (release func()) {
	t.Helper()
	held, free := make(chan struct{}), make(chan struct{})
	if err := c.Post(func(*Conn) { close(held); <-free }); err != nil {
		t.Fatal(err)
	}
	receive(t, held, "the loop to be held")
	return func() { close(free) }
}

// mustSend sends, waiting for room.
func mustSend(t testing.TB, c *Conn, b *buf.Buf) {
	for {
		switch err := c.Send(b.Ref()); {
		case err == nil:
			b.Free()
			return
		case !errors.Is(err, ErrFull):
			t.Error(err)
			b.Free()
			return
		}
		runtime.Gosched()
	}
}
