package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
)

func TestCloseDeliversWhatWasQueuedAndNothingMore(t *testing.T) {
	for _, queued := range []int{0, 100, 1500, 8000} {
		h := &hooks{closes: make(chan CloseReason, 2)}
		e := start(t, 1)
		p := testProtocol(h)
		p.OutMax = 16 << 20
		c, client := accept(t, e, p)()
		release := holdLoop(t, c)
		for range queued {
			if err := c.Send(buf.Copy([]byte("a"))); err != nil {
				t.Fatal(err)
			}
		}
		c.Close(CloseReason{Code: Idle, Text: "first"})
		c.Close(CloseReason{Code: Replaced, Text: "second"})
		if err := c.Send(buf.Copy([]byte("Z"))); !errors.Is(err, ErrClosed) {
			t.Errorf("Send after Close: %v", err)
		}
		release()
		got, err := io.ReadAll(client)
		if err != nil || !bytes.Equal(got, bytes.Repeat([]byte("a"), queued)) {
			t.Errorf("%d queued: client got %d bytes, %v", queued, len(got), err)
		}
		_ = client.Close()
		if r := receive(t, h.closes, "the close"); r.Code != Idle || r.Text != "first" {
			t.Errorf("closed with %v", r)
		}
		if n := c.Pending(); n != 0 {
			t.Errorf("%d pending after OnClose", n)
		}
	}
}

// The peer ends its side as soon as it has the last word, which must not become the reason.
func TestTheReasonOfACloseStandsBeforeItsLastWordIsOnItsWay(t *testing.T) {
	h := &hooks{closes: make(chan CloseReason, 2)}
	e := start(t, 1)
	connect := accept(t, e, testProtocol(h))
	for range 300 {
		c, client := connect()
		gone := make(chan []byte, 1)
		go func() {
			word := make([]byte, 4)
			_, _ = io.ReadFull(client, word)
			_ = client.Close()
			gone <- word
		}()
		c.CloseWith(buf.Copy([]byte("last")), CloseReason{Code: Idle, Text: "first"})
		c.CloseWith(buf.Copy([]byte("more")), CloseReason{Code: Replaced, Text: "second"})
		if word := <-gone; string(word) != "last" {
			t.Fatalf("the client got %q", word)
		}
		if r := receive(t, h.closes, "the close"); r.Code != Idle || r.Text != "first" {
			t.Fatalf("closed with %v", r)
		}
	}
}

// Input that is unread when a socket is closed makes the kernel send a reset,
// which destroys what the peer has not read yet.
func TestCloseDeliversAlsoToAPeerThatGoesOnSending(t *testing.T) {
	last := bytes.Repeat([]byte("last words "), 1<<10)
	e := start(t, 1)
	connect := accept(t, e, testProtocol(&hooks{frame: func(c *Conn, _ []byte, _ *buf.Buf) error {
		if err := c.Send(buf.Copy(last)); err != nil {
			t.Error(err)
		}
		return errors.New("refused")
	}}))
	for range 50 {
		_, client := connect()
		write(t, client, frame("x"))
		for range 4 {
			_, _ = client.Write(make([]byte, 10<<10)) // ignored
		}
		got, err := io.ReadAll(client)
		if err != nil || !bytes.Equal(got, last) {
			t.Fatalf("client got %d of %d bytes, %v", len(got), len(last), err)
		}
		_ = client.Close()
	}
}

func TestCloseWaitsForThePeerNoLongerThanTheGrace(t *testing.T) {
	for _, queued := range []int{0, 8 << 20} { // 8 MiB: more than the kernel takes
		h := &hooks{closes: make(chan CloseReason, 1)}
		e := start(t, 1)
		p := testProtocol(h)
		p.OutMax = 16 << 20
		p.CloseGrace = 2 * tick
		c, _ := accept(t, e, p)() // the client neither reads nor closes
		if err := c.Send(buf.Get(queued)); err != nil {
			t.Fatal(err)
		}
		c.Close(CloseReason{Code: Draining})
		if r := receive(t, h.closes, "the close"); r.Code != Draining {
			t.Errorf("closed with %v", r)
		}
		if n := c.Pending(); n != 0 {
			t.Errorf("%d pending", n)
		}
	}
}

func TestAPeerThatFloodsAfterCloseIsCut(t *testing.T) {
	h := &hooks{closes: make(chan CloseReason, 1)}
	e := start(t, 1)
	p := testProtocol(h)
	p.CloseGrace = time.Hour
	c, client := accept(t, e, p)()
	c.Close(CloseReason{Code: Rejected})
	for {
		if _, err := client.Write(make([]byte, 64<<10)); err != nil {
			break
		}
	}
	if r := receive(t, h.closes, "the close"); r.Code != Rejected {
		t.Errorf("closed with %v", r)
	}
}

func TestAbortEndsAtOnceAndDropsTheQueue(t *testing.T) {
	h := &hooks{closes: make(chan CloseReason, 1)}
	e := start(t, 1)
	p := testProtocol(h)
	p.OutMax = 16 << 20
	p.CloseGrace = time.Hour
	connect := accept(t, e, p)
	for _, closeFirst := range []bool{false, true} {
		c, client := connect()
		if err := c.Send(buf.Get(8 << 20)); err != nil {
			t.Fatal(err)
		}
		want := PeerSilent
		if closeFirst {
			c.Close(CloseReason{Code: Idle})
			want = Idle
		}
		c.Abort(CloseReason{Code: PeerSilent})
		if r := receive(t, h.closes, "the close"); r.Code != want {
			t.Errorf("closed with %v, want %v", r, want)
		}
		if n, err := io.Copy(io.Discard, client); err == nil {
			t.Errorf("after an abort the client read %d bytes and an orderly end", n)
		}
		if n := c.Pending(); n != 0 {
			t.Errorf("%d pending", n)
		}
	}
}

func TestThePeersEndIsToldOnce(t *testing.T) {
	h := &hooks{closes: make(chan CloseReason, 2)}
	e := start(t, 1)
	connect := accept(t, e, testProtocol(h))

	_, client := connect()
	_ = client.Close()
	if r := receive(t, h.closes, "the close"); r.Code != PeerClosed {
		t.Errorf("orderly end: %v", r)
	}

	c, client := connect()
	_ = client.SetLinger(0)
	_ = client.Close()
	for c.Send(buf.Copy([]byte("x"))) == nil {
	}
	r := receive(t, h.closes, "the close")
	if r.Code != TransportError || r.Err == nil {
		t.Errorf("reset: %v", r)
	}
	if len(h.closes) != 0 {
		t.Error("OnClose was called twice")
	}
}

// Ten thousand queued writes, closed from a timer, while a neighbour plays.
func TestCloseWithManyQueuedWritesLeavesTheNeighbourAlone(t *testing.T) {
	h := &hooks{closes: make(chan CloseReason, 1), frame: echo}
	h.timer = func(c *Conn, _ clock.Mono) {
		for range 10_000 {
			if err := c.Send(buf.Copy([]byte("0123456789"))); err != nil {
				t.Error(err)
				return
			}
		}
		c.Close(CloseReason{})
	}
	e := start(t, 1)
	p := testProtocol(h)
	p.OutMax = 16 << 20
	connect := accept(t, e, p)
	c, client := connect()
	_, neighbour := connect()
	if err := c.Post(func(c *Conn) { c.ArmTimer(clock.Now()) }); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, client)
	if n != 100_000 || err != nil {
		t.Errorf("client got %d bytes, %v", n, err)
	}
	write(t, neighbour, frame("still here"))
	if got := readFrame(t, neighbour); got != "still here" {
		t.Errorf("neighbour got %q", got)
	}
	_ = client.Close()
	receive(t, h.closes, "the close")
}

func TestThousandsOfResetsTakeNobodyElseAlong(t *testing.T) {
	const resets, workers = 5000, 8
	var opens, closes atomic.Int64
	seen := sync.Map{} // id → closed
	h := &hooks{frame: echo}
	h.open = func(c *Conn) {
		opens.Add(1)
		for range 3 {
			if err := c.Send(buf.Copy([]byte("push"))); err != nil {
				t.Error(err)
			}
		}
	}
	all := make(chan struct{})
	h.close = func(c *Conn, _ CloseReason) {
		if _, twice := seen.LoadOrStore(c.ID(), true); twice {
			t.Errorf("OnClose of %v twice", c)
		}
		if closes.Add(1) == resets {
			close(all)
		}
	}
	e := start(t, 2)
	addr := listen(t, e, testProtocol(h))
	neighbour := dial(t, addr)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range resets / workers {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.(*net.TCPConn).SetLinger(0)
				_ = c.Close()
			}
		})
	}
	wg.Wait()
	receive(t, all, "all closes")
	if opens.Load() != resets+1 {
		t.Errorf("%d opens", opens.Load())
	}
	pushed := make([]byte, 12)
	if _, err := io.ReadFull(neighbour, pushed); err != nil {
		t.Fatal(err)
	}
	write(t, neighbour, frame("alive"))
	if got := readFrame(t, neighbour); got != "alive" {
		t.Errorf("neighbour got %q", got)
	}
	if s := e.Stats(); s.Conns != 1 {
		t.Errorf("%d connections left", s.Conns)
	}
}

func TestClosingInOnOpenStillCallsOnClose(t *testing.T) {
	for _, abort := range []bool{false, true} {
		h := &hooks{closes: make(chan CloseReason, 1)}
		h.open = func(c *Conn) {
			if err := c.Send(buf.Copy([]byte("no"))); err != nil {
				t.Error(err)
			}
			if abort {
				c.Abort(CloseReason{Code: Rejected})
			} else {
				c.Close(CloseReason{Code: Rejected})
			}
		}
		e := start(t, 1)
		client, err := net.Dial("tcp", listen(t, e, testProtocol(h)))
		if err == nil { // an abort may come before connect returns
			got, err := io.ReadAll(client)
			if !abort && (string(got) != "no" || err != nil) {
				t.Errorf("client got %q, %v", got, err)
			}
			_ = client.Close()
		} else if !abort {
			t.Error(err)
		}
		if r := receive(t, h.closes, "the close"); r.Code != Rejected {
			t.Errorf("closed with %v", r)
		}
	}
}

func TestEngineCloseUnderLoadLosesNothingItOwns(t *testing.T) {
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			var opens, closes atomic.Int64
			h := &hooks{frame: echo}
			h.open = func(*Conn) { opens.Add(1) }
			h.close = func(_ *Conn, r CloseReason) {
				closes.Add(1)
				if r.Code != EngineClosed {
					t.Errorf("closed with %v", r)
				}
			}
			e := start(t, 2)
			p := testProtocol(h)
			p.CloseGrace = 4 * tick
			connect := accept(t, e, p)
			var wg sync.WaitGroup
			for i := range 16 {
				c, client := connect()
				for range 2 {
					wg.Go(func() {
						for !errors.Is(c.Send(buf.Copy(make([]byte, 2000))), ErrClosed) {
							runtime.Gosched()
						}
						if err := c.Post(func(*Conn) {}); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrFull) {
							t.Error(err)
						}
					})
				}
				if i%2 == 0 { // the others never read
					wg.Go(func() { _, _ = io.Copy(io.Discard, client); _ = client.Close() })
				}
			}
			if err := e.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
			wg.Wait()
			if opens.Load() != 16 || closes.Load() != 16 {
				t.Errorf("%d opens, %d closes", opens.Load(), closes.Load())
			}
		})
	}
}
