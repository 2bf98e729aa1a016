package engine

import (
	"io"
	"testing"

	"github.com/zlnode/zlnode/internal/buf"
)

// drainer is a Drainer that tells each call, and how much was pending. It asks again that
// many times.
type drainer struct {
	calls chan int64
	again int
}

func (d *drainer) OnDrained(c *Conn) {
	if d.again--; d.again >= 0 {
		c.NotifyBelow(0)
	}
	d.calls <- c.Pending()
}

func drainable(h *hooks) (*Protocol, *drainer) {
	d := &drainer{calls: make(chan int64, 100)}
	p := testProtocol(h)
	p.Drainer, p.OutMax = d, 16<<20
	return p, d
}

func TestWhoAskedIsToldOnceThatAConnectionHasDrained(t *testing.T) {
	e := start(t, 1)
	p, d := drainable(&hooks{})
	c, client := accept(t, e, p)()
	const mark, size, count = 32 << 10, 8 << 10, 1000 // more than the kernel holds
	for range count {
		mustSend(t, c, buf.Get(size))
	}
	c.NotifyBelow(mark)
	select {
	case pending := <-d.calls:
		t.Fatalf("told that %d bytes are below %d, with a client that does not read", pending, mark)
	default:
	}
	if _, err := io.CopyN(io.Discard, client, size*count); err != nil {
		t.Fatal(err)
	}
	if pending := receive(t, d.calls, "the call"); pending > mark {
		t.Errorf("told at %d bytes, over the mark of %d", pending, mark)
	}
	if taken := c.Taken(); taken > size*count || taken < size*count-mark {
		t.Errorf("the socket has taken %d bytes of %d", taken, size*count)
	}
	mustSend(t, c, buf.Get(size))
	if _, err := io.CopyN(io.Discard, client, size); err != nil {
		t.Fatal(err)
	}
	passLoop(t, c)
	if len(d.calls) != 0 {
		t.Error("told twice")
	}
	c.NotifyBelow(mark) // it is so already
	receive(t, d.calls, "the call at once")
}

// By whatever transport, it counts what the socket takes, and tells when the rest is little.
func TestEachTransportTellsThatItHasDrained(t *testing.T) {
	for _, transport := range []Transport{TCP, WS, TLS, WSS} {
		t.Run(transport.String(), func(t *testing.T) {
			opened := make(chan *Conn, 1)
			p, d := drainable(&hooks{open: func(c *Conn) { opened <- c }})
			client := newEdge(t, transport, p).connect()
			c := receive(t, opened, "the connection")
			const size, count = 64 << 10, 100 // more than the kernel holds
			for range count {
				mustSend(t, c, buf.Get(size))
			}
			before := c.Taken()
			c.NotifyBelow(0)
			if _, err := io.CopyN(io.Discard, client, size*count); err != nil {
				t.Fatal(err)
			}
			receive(t, d.calls, "the call")
			if taken := c.Taken(); before >= size*count || taken < size*count {
				t.Errorf("the socket has taken %d bytes of %d, and %d before anybody read", taken, size*count, before)
			}
		})
	}
}

// passLoop returns when the connection's loop has had a turn that began after now.
func passLoop(t *testing.T, c *Conn) {
	t.Helper()
	done := make(chan struct{})
	if err := c.Post(func(*Conn) { close(done) }); err != nil {
		t.Fatal(err)
	}
	receive(t, done, "a turn of the loop")
}

func TestWhoIsToldMayAskAgain(t *testing.T) {
	e := start(t, 1)
	p, d := drainable(&hooks{})
	c, _ := accept(t, e, p)()
	d.again = 10
	c.NotifyBelow(0)
	for range 11 {
		receive(t, d.calls, "the call")
	}
	passLoop(t, c)
	if len(d.calls) != 0 {
		t.Error("told too often")
	}
}

// Whoever asks races with the loop, which may have just written the last byte.
func TestNoQuestionWhetherAConnectionHasDrainedIsLost(t *testing.T) {
	e := start(t, 1)
	p, d := drainable(&hooks{})
	c, client := accept(t, e, p)()
	go func() { _, _ = io.Copy(io.Discard, client) }() // ends with the connection
	for i := range 20_000 {
		mustSend(t, c, buf.Get(64))
		c.NotifyBelow(int64(i % 64)) // mostly: nothing is pending
		if pending := receive(t, d.calls, "the call"); pending > int64(i%64) {
			t.Fatalf("told at %d bytes", pending)
		}
	}
	c.Abort(CloseReason{})
}

func TestAClosingConnectionTellsNobodyThatItHasDrained(t *testing.T) {
	h := &hooks{closes: make(chan CloseReason, 1)}
	e := start(t, 1)
	p, d := drainable(h)
	c, client := accept(t, e, p)()
	release := holdLoop(t, c)
	mustSend(t, c, buf.Get(1<<10))
	c.NotifyBelow(0)
	c.Close(CloseReason{})
	c.NotifyBelow(0)
	release()
	if _, err := io.Copy(io.Discard, client); err != nil {
		t.Fatal(err)
	}
	turns := e.Stats().Turns
	passLoop(t, c)
	if n := e.Stats().Turns - turns; n > 20 {
		t.Errorf("the loop had %d turns for a connection that closes", n)
	}
	_ = client.Close()
	receive(t, h.closes, "the close")
	if len(d.calls) != 0 {
		t.Error("it was told")
	}
}
