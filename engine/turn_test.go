package engine

import (
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
)

// pingPong plays hops balls between two connections of one loop and returns, for
// each hop, how much of count the loop did since the hop before. The clock has no
// part in it: a loop that other programs slow down does no more work per hop.
func pingPong(t *testing.T, e *Engine, hops int, count func() uint64) []uint64 {
	t.Helper()
	var work []uint64
	done := make(chan struct{})
	last := uint64(0)
	hop := func(c *Conn, b []byte, _ *buf.Buf) error {
		now := count()
		if last != 0 {
			work = append(work, now-last)
		}
		last = now
		if len(work) == hops {
			close(done)
			return nil
		}
		return c.SendControl(buf.Copy(b))
	}
	p := testProtocol(&hooks{frame: hop})
	c, err := e.Dial(t.Context(), listen(t, e, p), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(buf.Copy(frame("ball"))); err != nil {
		t.Fatal(err)
	}
	receive(t, done, "the last hop")
	slices.Sort(work)
	return work
}

func TestAFloodedConnectionDoesNotStarveItsLoop(t *testing.T) {
	e := start(t, 1)
	p := testProtocol(&hooks{})
	p.OutMax = 4 << 20
	c, client := accept(t, e, p)()
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(io.Discard, client) })
	for range 2 {
		wg.Go(func() {
			msg := make([]byte, 32)
			for !stop.Load() {
				if err := c.Send(buf.Copy(msg)); errors.Is(err, ErrFull) {
					runtime.Gosched()
				}
			}
		})
	}
	l := e.loops[0]
	turns := pingPong(t, e, 1000, l.count.turns.Load)
	written := pingPong(t, e, 1000, l.count.bytesOut.Load)
	stop.Store(true)
	_ = client.Close()
	wg.Wait()
	// A ball on loopback is there in the next round of epoll; the rounds beside
	// it are the kernel's delay. An engine that drains the flood before it looks
	// at other sockets has thousands of turns, or all of the flood's bytes.
	if m := turns[len(turns)*9/10]; m > 20 {
		t.Errorf("nine of ten hops took up to %d turns of the loop", m)
	}
	if m := written[len(written)*9/10]; m > 20*flushBytes {
		t.Errorf("during nine of ten hops up to %d bytes went to the flooded connection", m)
	}
}

func TestManyBusySocketsDoNotStarveAQuietOne(t *testing.T) {
	const busy, each = 200, 512 << 10 // more sockets than gnet takes events for at first
	e := start(t, 1)
	l := e.loops[0]
	readBefore := make(chan uint64, 1)
	h := &hooks{frame: func(c *Conn, b []byte, _ *buf.Buf) error {
		if string(b[4:]) == "quiet" {
			readBefore <- l.count.bytesIn.Load()
		}
		return nil
	}}
	connect := accept(t, e, testProtocol(h))
	c, quiet := connect()
	var clients []*net.TCPConn
	for range busy {
		_, client := connect()
		clients = append(clients, client)
	}
	release := holdLoop(t, c)
	var wg sync.WaitGroup
	for _, client := range clients {
		flood := frame(string(make([]byte, each-4)))
		write(t, client, flood[:32<<10]) // the kernel takes that much at once
		wg.Go(func() {
			if _, err := client.Write(flood[32<<10:]); err != nil {
				t.Error(err)
			}
		})
	}
	write(t, quiet, frame("quiet")) // the last one to get ready
	release()
	// Two rounds of epoll, each of which may read readBytes of every socket; all
	// that the busy ones have is four times that.
	if n := receive(t, readBefore, "the quiet one's frame"); n > 2*busy*readBytes {
		t.Errorf("%d bytes of busy sockets were read first", n)
	}
	wg.Wait()
}

func TestAThousandSendsWakeTheLoopOnce(t *testing.T) {
	e := start(t, 1)
	connect := accept(t, e, testProtocol(&hooks{}))
	c, client := connect()
	other, _ := connect()
	release := holdLoop(t, other)
	before := e.Stats()
	for range 1000 {
		if err := c.Send(buf.Copy([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	sent := e.Stats().Wakes - before.Wakes
	release()
	if _, err := io.ReadFull(client, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	counted := make(chan struct{})
	if err := c.Post(func(*Conn) { close(counted) }); err != nil { // the write is counted by then
		t.Fatal(err)
	}
	receive(t, counted, "a post")
	if after := e.Stats(); sent != 1 || after.Writes-before.Writes != 1 {
		t.Errorf("%d wake-ups and %d writes for 1000 messages", sent, after.Writes-before.Writes)
	}
}

func TestSendsToABlockedConnectionWakeNobody(t *testing.T) {
	c := looseConn(testProtocol(&hooks{})) // its loop has no waker: waking it would panic
	c.claim()
	c.blocked = true
	c.giveBack()
	for range 10 {
		if err := c.Send(buf.Copy([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	if c.loop.dirty.Load() != nil {
		t.Error("the connection is in the dirty list, and the loop can do nothing for it")
	}
	c.drop()
}

func TestATurnServesABoundedNumberAndTheRestLater(t *testing.T) {
	const conns = 3*turnConns + 1
	e := start(t, 1)
	connect := accept(t, e, testProtocol(&hooks{}))
	var cs []*Conn
	var clients []*net.TCPConn
	for range conns {
		c, client := connect()
		cs, clients = append(cs, c), append(clients, client)
	}
	release := holdLoop(t, cs[0])
	before := e.Stats().Turns
	for _, c := range cs {
		if err := c.Send(buf.Copy(frame("tick"))); err != nil {
			t.Fatal(err)
		}
	}
	release()
	for _, client := range clients {
		if got := readFrame(t, client); got != "tick" {
			t.Fatalf("got %q", got)
		}
	}
	if n := e.Stats().Turns - before; n < conns/turnConns {
		t.Errorf("%d connections were served in %d turns", conns, n)
	}
}

// lateMessage puts a message into c's queue as a producer does that was let in
// before the connection closed and comes back from a long pause afterwards.
func lateMessage(c *Conn) (arrive func()) {
	b := buf.Copy(make([]byte, copyMax))
	c.out.pending.Add(copyMax + MessageCost)
	return func() {
		c.out.push(newChunk(nil, b.Bytes(), nil))
		b.Free()
		c.wantFlush()
	}
}

func TestAMessageThatComesAfterTheCloseIsFreed(t *testing.T) {
	h := &hooks{closes: make(chan CloseReason, 1)}
	live := buf.Live()
	e := start(t, 1)
	connect := accept(t, e, testProtocol(h))
	c, _ := connect()
	other, _ := connect()
	first, second := lateMessage(c), lateMessage(c)
	c.Abort(CloseReason{})
	receive(t, h.closes, "the close")
	first() // while the loop lives
	served := make(chan struct{})
	if err := other.Post(func(*Conn) { close(served) }); err != nil {
		t.Fatal(err)
	}
	receive(t, served, "the loop's next turn")
	if n := c.Pending(); n != copyMax+MessageCost {
		t.Errorf("%d pending with one message on its way", n)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, h.closes, "the other close")
	second() // when it is gone
	if n := c.Pending(); n != 0 {
		t.Errorf("%d pending at the end", n)
	}
	if n := buf.Live() - live; n != 0 {
		t.Errorf("%d buffers left", n)
	}
}

// Close waits for a producer that was let in before it.
func TestCloseWaitsForAMessageOnItsWay(t *testing.T) {
	e := start(t, 1)
	c, client := accept(t, e, testProtocol(&hooks{}))()
	arrive := lateMessage(c)
	c.Close(CloseReason{})
	closing := make(chan phase, 1)
	if err := c.Post(func(c *Conn) { closing <- c.phase }); err != nil {
		t.Fatal(err)
	}
	if ph := receive(t, closing, "a post"); ph == lingering || ph == closed {
		t.Errorf("phase %d while a message is on its way", ph)
	}
	arrive()
	if got, err := io.ReadAll(client); len(got) != copyMax || err != nil {
		t.Errorf("client got %d bytes, %v", len(got), err)
	}
}

func TestRepliesFromOnFrameWakeNobody(t *testing.T) {
	e := start(t, 1)
	_, client := accept(t, e, testProtocol(&hooks{frame: echo}))()
	before := e.Stats().Wakes
	for range 100 {
		write(t, client, frame("ping"))
		readFrame(t, client)
	}
	if n := e.Stats().Wakes - before; n != 0 {
		t.Errorf("%d wake-ups for 100 replies", n)
	}
}

func TestPostsRunInOrderAndBeforeOnClose(t *testing.T) {
	var ran []int
	h := &hooks{closes: make(chan CloseReason, 1)}
	atClose := make(chan []int, 1)
	h.close = func(c *Conn, _ CloseReason) {
		if err := c.Post(func(*Conn) { t.Error("a function posted in OnClose ran") }); !errors.Is(err, ErrClosed) {
			t.Errorf("Post in OnClose: %v", err)
		}
		atClose <- ran
	}
	e := start(t, 1)
	c, client := accept(t, e, testProtocol(h))()
	release := holdLoop(t, c)
	n := 0
	for ; ; n++ {
		err := c.Post(func(*Conn) { ran = append(ran, n) })
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.Abort(CloseReason{})
	_ = client.Close()
	release()
	got := receive(t, atClose, "OnClose")
	if n != postsMax || len(got) != n || !slices.IsSorted(got) {
		t.Errorf("%d posted, %d ran, in order %v", n, len(got), slices.IsSorted(got))
	}
	receive(t, h.closes, "the close")
	if err := c.Post(func(*Conn) {}); !errors.Is(err, ErrClosed) {
		t.Errorf("Post after OnClose: %v", err)
	}
}

func TestPostsFromManyGoroutinesAllRunOnTheLoop(t *testing.T) {
	const goroutines, each = 8, 100
	e := start(t, 1)
	c, _ := accept(t, e, testProtocol(&hooks{}))()
	var wg, all sync.WaitGroup
	all.Add(goroutines * each)
	n := 0 // no lock: only the loop touches it, as the race detector sees
	for range goroutines {
		wg.Go(func() {
			for range each {
				if err := c.Post(func(*Conn) { n++; all.Done() }); err != nil {
					t.Error(err)
					all.Done()
				}
			}
		})
	}
	wg.Wait()
	all.Wait()
	got := make(chan int)
	if err := c.Post(func(*Conn) { got <- n }); err != nil {
		t.Fatal(err)
	}
	if v := receive(t, got, "a post"); v != goroutines*each {
		t.Errorf("%d ran", v)
	}
}

func TestTheHandlersTimerFiresOnceAndNeverEarly(t *testing.T) {
	type firing struct{ at, now clock.Mono }
	fired := make(chan firing, 4)
	var at clock.Mono
	h := &hooks{}
	h.timer = func(_ *Conn, now clock.Mono) { fired <- firing{at, now} }
	e := start(t, 1)
	c, _ := accept(t, e, testProtocol(h))()
	post := func(f func(c *Conn)) {
		t.Helper()
		if err := c.Post(f); err != nil {
			t.Fatal(err)
		}
	}
	post(func(c *Conn) {
		c.ArmTimer(clock.Now()) // replaced
		at = clock.Now().Add(3 * tick)
		c.ArmTimer(at)
	})
	if f := receive(t, fired, "the timer"); f.now < f.at {
		t.Errorf("fired %v early", f.at.Sub(f.now))
	}
	// A disarmed timer does not fire: the other connection's later one does.
	other := make(chan struct{})
	post(func(c *Conn) {
		c.ArmTimer(clock.Now().Add(tick))
		c.DisarmTimer()
	})
	p2 := testProtocol(&hooks{
		open:  func(c *Conn) { c.ArmTimer(clock.Now().Add(4 * tick)) },
		timer: func(*Conn, clock.Mono) { close(other) },
	})
	dial(t, listen(t, e, p2))
	receive(t, other, "the other timer")
	if len(fired) != 0 {
		t.Error("a timer fired after DisarmTimer, or twice")
	}
}

func TestConnectionsOfBothKindsKnowWhoTheyAre(t *testing.T) {
	e := start(t, 2)
	p := testProtocol(&hooks{frame: echo})
	c, client := accept(t, e, p)()
	if c.Dialled() || c.RemoteAddr() != client.LocalAddr().String() {
		t.Errorf("accepted: %v, dialled %v", c, c.Dialled())
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	d, err := e.Dial(t.Context(), ln.Addr().String(), p)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Dialled() || d.RemoteAddr() != ln.Addr().String() || d.ID() == c.ID() {
		t.Errorf("dialled: %v, dialled %v", d, d.Dialled())
	}
	data := make(chan any, 1)
	if err := d.Post(func(d *Conn) { d.SetData("mine"); data <- d.Data() }); err != nil {
		t.Fatal(err)
	}
	if v := receive(t, data, "data"); v != "mine" {
		t.Errorf("data is %v", v)
	}
}
