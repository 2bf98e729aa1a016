package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/buf"
)

func TestQueuedMessagesOfAllSizesArriveAsOneStream(t *testing.T) {
	e := start(t, 1)
	p := testProtocol(&hooks{})
	p.OutMax = 64 << 20
	c, client := accept(t, e, p)()
	rng := rand.New(rand.NewPCG(5, 6))
	sizes := []int{0, 1, appendMax, appendMax + 1, copyMax, copyMax + 1, 5 << 10, flushBytes + 1, 4 << 20}
	for range 3 * iovMax { // more ranges than one writev takes
		sizes = append(sizes, copyMax+1)
	}
	for range 2000 {
		sizes = append(sizes, rng.IntN(2*copyMax))
	}
	var want []byte
	release := holdLoop(t, c)
	for i, n := range sizes {
		b := buf.Get(n)
		for j := range b.Bytes() {
			b.Bytes()[j] = byte(i + j)
		}
		want = append(want, b.Bytes()...)
		if err := c.Send(b); err != nil {
			t.Fatal(err)
		}
	}
	release()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(client, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the stream differs from what was sent")
	}
}

func TestAGatherTakesNoMoreThanTheKernelDoes(t *testing.T) {
	g := &gather{scratch: make([]byte, readBytes)}
	large := make([]byte, copyMax+1)
	n := 0
	for g.add(large) {
		n++
	}
	if n != iovMax || g.total != n*len(large) || g.add([]byte("x")) {
		t.Errorf("%d ranges, %d bytes", n, g.total)
	}
	g.reset()
	small := make([]byte, copyMax)
	for n = 0; g.add(small); n++ {
	}
	if n != readBytes/copyMax || g.n != 1 || g.total != readBytes {
		t.Errorf("%d small messages in %d ranges, %d bytes", n, g.n, g.total)
	}
}

func TestAGreetingLargerThanTheSocketTakesArrivesWhole(t *testing.T) {
	greeting := bytes.Repeat([]byte("greeting"), 4<<20/8)
	e := start(t, 1)
	p := testProtocol(&hooks{open: func(c *Conn) {
		if err := c.Send(buf.Copy(greeting)); err != nil {
			t.Error(err)
		}
	}})
	p.OutMax = 8 << 20
	_, client := accept(t, e, p)()
	got := make([]byte, len(greeting))
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, greeting) {
		t.Errorf("%v, equal %v", err, bytes.Equal(got, greeting))
	}
}

func TestASlowReaderFillsItsBudgetAndNobodyElses(t *testing.T) {
	e := start(t, 1)
	p := testProtocol(&hooks{frame: echo})
	connect := accept(t, e, p)
	c, slow := connect()
	_, neighbour := connect()

	message := bytes.Repeat([]byte("m"), 64<<10)
	sent := 0
	for {
		err := c.Send(buf.Copy(message))
		if have := c.Pending(); have > DefaultOutMax {
			t.Fatalf("%d pending, over the budget", have)
		}
		if errors.Is(err, ErrFull) && e.Stats().Blocked > 0 {
			break
		}
		if err == nil {
			sent++
		} else if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	write(t, neighbour, frame("ping"))
	if got := readFrame(t, neighbour); got != "ping" {
		t.Errorf("neighbour got %q", got)
	}
	got := make([]byte, sent*len(message))
	if _, err := io.ReadFull(slow, got); err != nil {
		t.Fatalf("what was accepted did not arrive: %v", err)
	}
	mustSend(t, c, buf.Copy(message)) // there is room again
	if _, err := io.ReadFull(slow, got[:len(message)]); err != nil {
		t.Fatal(err)
	}
}

func TestControlMessagesHaveABoundOfTheirOwn(t *testing.T) {
	h := &hooks{closes: make(chan CloseReason, 1)}
	e := start(t, 1)
	c, _ := accept(t, e, testProtocol(h))() // the client never reads
	defer holdLoop(t, c)()
	message := make([]byte, 8<<10)
	for c.Send(buf.Copy(message)) == nil {
	}
	n := 0
	for c.SendControl(buf.Copy(message)) == nil {
		n++
	}
	if want := ControlReserve / (len(message) + MessageCost); n < want || n > want+1 {
		t.Errorf("%d control messages beyond the budget, want %d", n, want)
	}
	if err := c.SendControl(buf.Copy(message)); !errors.Is(err, ErrClosed) {
		t.Errorf("after the bound: %v", err)
	}
	t.Cleanup(func() {
		if r := receive(t, h.closes, "the close"); r.Code != OutFull {
			t.Errorf("closed with %v", r)
		}
	})
}

func TestAPeerThatTakesNothingIsClosed(t *testing.T) {
	h := &hooks{closes: make(chan CloseReason, 1)}
	e := start(t, 1)
	p := testProtocol(h)
	p.StallTimeout = 2 * tick
	c, _ := accept(t, e, p)()
	message := make([]byte, 64<<10)
	for err := error(nil); !errors.Is(err, ErrClosed); {
		err = c.Send(buf.Copy(message)) // the kernel's buffers fill first
	}
	if r := receive(t, h.closes, "the close"); r.Code != OutStalled {
		t.Errorf("closed with %v", r)
	}
	if n := c.Pending(); n != 0 {
		t.Errorf("%d pending after OnClose", n)
	}
}

func TestConcurrentSendersKeepTheirOrder(t *testing.T) {
	const senders, each = 64, 1000
	e := start(t, 1)
	c, client := accept(t, e, testProtocol(&hooks{}))()
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				var m [8]byte
				binary.BigEndian.PutUint32(m[:], uint32(s))
				binary.BigEndian.PutUint32(m[4:], uint32(i))
				mustSend(t, c, buf.Copy(m[:]))
			}
		})
	}
	var next [senders]uint32
	got := make([]byte, senders*each*8)
	if _, err := io.ReadFull(client, got); err != nil {
		t.Fatal(err)
	}
	for m := range slices.Chunk(got, 8) {
		s, i := binary.BigEndian.Uint32(m), binary.BigEndian.Uint32(m[4:])
		if s >= senders || i != next[s] {
			t.Fatalf("sender %d: message %d, want %d", s, i, next[s])
		}
		next[s]++
	}
	wg.Wait()
}

func TestABroadcastBufferIsFreedOnce(t *testing.T) {
	const conns = 40
	e := start(t, 2)
	connect := accept(t, e, testProtocol(&hooks{}))
	var cs []*Conn
	var clients []*net.TCPConn
	for range conns {
		c, client := connect()
		cs, clients = append(cs, c), append(clients, client)
	}
	for _, body := range []string{"small", string(bytes.Repeat([]byte("L"), 10<<10))} {
		live := buf.Live()
		b := buf.Copy(frame(body))
		for _, c := range cs {
			if err := c.Send(b.Ref()); err != nil {
				t.Fatal(err)
			}
		}
		b.Free()
		for _, client := range clients {
			if got := readFrame(t, client); got != body {
				t.Fatalf("got %d bytes", len(got))
			}
		}
		for _, c := range cs { // the reader may be faster than the loop's Free
			done := make(chan struct{})
			if err := c.Post(func(*Conn) { close(done) }); err != nil {
				t.Fatal(err)
			}
			receive(t, done, "a post")
		}
		if n := buf.Live() - live; n != 0 {
			t.Errorf("%d buffers left", n)
		}
	}
}

func TestSendersOfAClosingConnectionLeaveNothingBehind(t *testing.T) {
	h := &hooks{closes: make(chan CloseReason, 1)}
	e := start(t, 1)
	connect := accept(t, e, testProtocol(h))
	for i := range 60 {
		c, client := connect()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for !errors.Is(c.Send(buf.Copy(make([]byte, 300))), ErrClosed) {
					runtime.Gosched()
				}
			})
		}
		switch i % 3 {
		case 0:
			_ = client.SetLinger(0)
			_ = client.Close()
		case 1:
			c.Abort(CloseReason{})
		case 2:
			c.Close(CloseReason{})
			_ = client.Close()
		}
		wg.Wait()
		receive(t, h.closes, "the close")
		if err := c.Send(buf.Copy([]byte("x"))); !errors.Is(err, ErrClosed) {
			t.Errorf("Send after OnClose: %v", err)
		}
		if err := c.SendControl(buf.Copy([]byte("x"))); !errors.Is(err, ErrClosed) {
			t.Errorf("SendControl after OnClose: %v", err)
		}
	}
}

// Descriptors are reused while events for their former owners are on the way.
func TestWritabilityReachesTheRightConnectionWhenDescriptorsAreReused(t *testing.T) {
	e := start(t, 2)
	p := testProtocol(&hooks{})
	p.OutMax = 8 << 20
	connect := accept(t, e, p)
	block := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16)
	var wg sync.WaitGroup
	for i := range 45 {
		c, client := connect()
		_ = client.SetReadBuffer(32 << 10) // else the kernel may make room for all of it
		mustSend(t, c, buf.Copy(block))
		mustSend(t, c, buf.Copy(block)) // more than the kernel takes
		if i%3 != 0 {
			_ = client.SetLinger(0)
			_ = client.Close() // its descriptor goes to the next connection
			continue
		}
		wg.Go(func() {
			got := make([]byte, 2*len(block))
			if _, err := io.ReadFull(client, got); err != nil {
				t.Errorf("connection %d: %v", i, err)
			} else if !bytes.Equal(got[:len(block)], block) || !bytes.Equal(got[len(block):], block) {
				t.Errorf("connection %d: bytes differ", i)
			}
			_ = client.Close()
		})
	}
	wg.Wait()
	if e.Stats().Blocked == 0 {
		t.Error("no connection was ever blocked: the test tests nothing")
	}
}

func TestSendingAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop what they hold")
	}
	e := start(t, 1)
	c, client := accept(t, e, testProtocol(&hooks{}))()
	msg := frame(string(make([]byte, 60)))
	in := make([]byte, len(msg))
	_ = client.SetDeadline(time.Time{})
	if n := testing.AllocsPerRun(2000, func() {
		if err := c.Send(buf.Copy(msg)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(client, in); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per message", n)
	}
}
