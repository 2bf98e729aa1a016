package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/zlnode/zlnode/internal/buf"
)

// randomBytes returns n bytes of rng.
func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestMessagesOfPartsKeepTheirBytesAndPlaceHoweverLittleIsWritten(t *testing.T) {
	live := buf.Live()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var q outQueue
		r := newReader(&q)
		var want []byte
		var ends, told []int // of messages of parts: where they end; and those that were told, by number
		for range 40 {
			if rng.IntN(2) == 0 {
				b := buf.Copy(randomBytes(rng, rng.IntN(2*appendMax)))
				want = append(want, b.Bytes()...)
				if err := q.put(b, 1<<30); err != nil {
					t.Fatal(err)
				}
				continue
			}
			head := buf.Copy(randomBytes(rng, rng.IntN(100)))
			want = append(want, head.Bytes()...)
			var body [][]byte
			for range rng.IntN(6) {
				view := randomBytes(rng, rng.IntN(3)*rng.IntN(4*copyMax))
				want = append(want, view...)
				body = append(body, view)
			}
			n := len(ends)
			ends = append(ends, len(want))
			done := func(written bool) {
				if !written || len(r.got) < ends[n] {
					t.Errorf("seed %d: message %d told %v with %d of %d bytes", seed, n, written, len(r.got), ends[n])
				}
				told = append(told, n)
			}
			if err := q.putParts(head, &parts{body: body, done: done}, false, 1<<30); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(4) == 0 {
				r.step()
			}
		}
		for r.step() {
		}
		if !bytes.Equal(r.got, want) {
			t.Fatalf("seed %d: the stream differs", seed)
		}
		if len(told) != len(ends) || !slices.IsSorted(told) || q.cost() != 0 {
			t.Fatalf("seed %d: %d messages, told %v, %d pending", seed, len(ends), told, q.cost())
		}
	}
	if n := buf.Live() - live; n != 0 {
		t.Errorf("%d buffers leaked", n)
	}
}

func TestViewsAreWrittenFromWhereTheyAre(t *testing.T) {
	var q outQueue
	views := [][]byte{make([]byte, 256<<10), make([]byte, copyMax+1)}
	err := q.putParts(buf.Copy([]byte("head")), &parts{body: views, done: func(bool) {}}, false, 1<<20)
	if err != nil || !q.waits() {
		t.Fatal(err)
	}
	g := &gather{scratch: make([]byte, readBytes)}
	q.gather(g, 1<<20)
	if g.n != 3 {
		t.Fatalf("%d ranges", g.n)
	}
	for i, v := range views {
		if g.iov[i+1].Base != unsafe.SliceData(v) || int(g.iov[i+1].Len) != len(v) {
			t.Errorf("view %d is not written by reference", i)
		}
	}
	q.drop().tell(false)
}

// paced sends parts one by one, each when the one before is done.
func paced(t *testing.T, c *Conn, all [][]byte) {
	t.Helper()
	var next func(bool)
	next = func(written bool) {
		if len(all) == 0 || !written {
			return
		}
		body := all[0]
		all = all[1:]
		if err := c.SendParts(buf.Copy(prefix(uint32(len(body)))), [][]byte{body[:len(body)/3], body[len(body)/3:]}, next); err != nil {
			t.Error(err)
		}
	}
	next(true)
}

func TestMessagesGoOutBetweenPacedParts(t *testing.T) {
	for _, blocked := range []bool{false, true} {
		e := start(t, 1)
		p := testProtocol(&hooks{})
		p.OutMax = 8 << 20
		c, client := accept(t, e, p)()
		rng := rand.New(rand.NewPCG(7, 8))
		size := 256 << 10
		if blocked {
			size = testMax
			_ = client.SetReadBuffer(16 << 10)
			_ = c.socket.SetWriteBuffer(16 << 10)
		}
		all := [][]byte{randomBytes(rng, size), randomBytes(rng, size), randomBytes(rng, size)}
		if blocked {
			if err := c.Post(func(*Conn) { paced(t, c, all) }); err != nil {
				t.Fatal(err)
			}
			for e.Stats().Blocked == 0 {
				runtime.Gosched()
			}
			mustSend(t, c, buf.Copy(frame("one")))
			mustSend(t, c, buf.Copy(frame("two")))
		} else {
			release := holdLoop(t, c)
			paced(t, c, all)
			mustSend(t, c, buf.Copy(frame("one")))
			mustSend(t, c, buf.Copy(frame("two")))
			release()
		}
		for i, want := range []string{string(all[0]), "one", "two", string(all[1]), string(all[2])} {
			if got := readFrame(t, client); got != want {
				t.Fatalf("blocked %v: message %d has %d bytes, want %d", blocked, i, len(got), len(want))
			}
		}
	}
}

func TestManyViewsOfManySendersArriveWhole(t *testing.T) {
	const senders, each, views = 3, 4, 2*iovMax + 50
	e := start(t, 1)
	p := testProtocol(&hooks{})
	p.OutMax = 64 << 20
	c, client := accept(t, e, p)()
	_ = client.SetReadBuffer(16 << 10)
	_ = c.socket.SetWriteBuffer(16 << 10)
	var told atomic.Int64
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			view := bytes.Repeat([]byte{byte(s)}, copyMax+1)
			body := slices.Repeat([][]byte{view}, views)
			for range each {
				head := buf.Copy(append(prefix(uint32(1+views*len(view))), byte(s)))
				if err := c.SendParts(head, body, func(bool) { told.Add(1) }); err != nil {
					t.Error(err)
				}
				mustSend(t, c, buf.Copy(frame("between")))
			}
		})
	}
	var between int
	var from [senders]int
	for range 2 * senders * each {
		got := readFrame(t, client)
		if got == "between" {
			between++
			continue
		}
		s := got[0]
		if int(s) >= senders || len(got) != 1+views*(copyMax+1) || got != string(bytes.Repeat([]byte{s}, len(got))) {
			t.Fatalf("a message of %d bytes is mixed", len(got))
		}
		from[s]++
	}
	wg.Wait()
	if between != senders*each || from != [senders]int{each, each, each} {
		t.Errorf("%d between, parts of senders %v", between, from)
	}
	done := make(chan struct{})
	if err := c.Post(func(*Conn) { close(done) }); err != nil { // the reader may be faster than the loop
		t.Fatal(err)
	}
	receive(t, done, "a post")
	if told.Load() != senders*each {
		t.Errorf("%d told", told.Load())
	}
}

func TestPartsCountInTheBudgetUntilTheyAreDone(t *testing.T) {
	e := start(t, 1)
	p := testProtocol(&hooks{closes: make(chan CloseReason, 1)})
	p.OutMax = 10_000
	c, client := accept(t, e, p)()
	body := [][]byte{make([]byte, 4000), make([]byte, 4000)}
	live := buf.Live()
	send := func(done func(bool)) error { return c.SendParts(buf.Copy(prefix(8000)), body, done) }
	never := func(bool) { t.Error("done of a message that was refused") }
	release := holdLoop(t, c)
	again := make(chan error, 1)
	if err := send(func(written bool) {
		if !written || c.Pending() != 0 {
			t.Errorf("written %v, %d pending", written, c.Pending())
		}
		again <- send(func(bool) {})
	}); err != nil {
		t.Fatal(err)
	}
	if want := int64(8004 + MessageCost); c.Pending() != want {
		t.Errorf("%d pending, want %d", c.Pending(), want)
	}
	if err := send(never); !errors.Is(err, ErrFull) {
		t.Errorf("full: %v", err)
	}
	if n := buf.Live() - live; n > 1 {
		t.Errorf("%d buffers live, want the first head", n)
	}
	release()
	if err := receive(t, again, "done"); err != nil {
		t.Errorf("in done: %v", err)
	}
	for range 2 {
		if got := readFrame(t, client); len(got) != 8000 {
			t.Errorf("got %d bytes", len(got))
		}
	}
	c.Abort(CloseReason{})
	if err := send(never); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestPartsThatAreLeftAtTheEndAreDropped(t *testing.T) {
	for name, end := range map[string]func(c *Conn, client *net.TCPConn){
		"abort":    func(c *Conn, _ *net.TCPConn) { c.Abort(CloseReason{}) },
		"grace":    func(c *Conn, _ *net.TCPConn) { c.Close(CloseReason{}) },
		"peer end": func(_ *Conn, client *net.TCPConn) { _ = client.SetLinger(0); _ = client.Close() },
	} {
		var order []bool // of done
		told := make(chan []bool, 1)
		p := testProtocol(&hooks{close: func(*Conn, CloseReason) { told <- slices.Clone(order) }})
		p.OutMax = 64 << 20
		p.CloseGrace = 2 * tick
		e := start(t, 1)
		c, client := accept(t, e, p)()
		_ = client.SetReadBuffer(16 << 10)
		_ = c.socket.SetWriteBuffer(16 << 10)
		release := holdLoop(t, c)
		for range 3 {
			body := make([]byte, 8<<20) // more than the kernel takes
			if err := c.SendParts(buf.Copy(prefix(8<<20)), [][]byte{body}, func(w bool) { order = append(order, w) }); err != nil {
				t.Fatal(err)
			}
		}
		release()
		for e.Stats().Blocked == 0 {
			runtime.Gosched()
		}
		end(c, client)
		if got := receive(t, told, "the close"); !slices.Equal(got, []bool{false, false, false}) {
			t.Errorf("%s: told %v before OnClose", name, got)
		}
	}
}

func TestClosingSendsThePartsThatWereQueued(t *testing.T) {
	e := start(t, 1)
	h := &hooks{closes: make(chan CloseReason, 1)}
	c, client := accept(t, e, testProtocol(h))()
	release := holdLoop(t, c)
	told := make(chan bool, 1)
	body := bytes.Repeat([]byte("part"), 100_000)
	if err := c.SendParts(buf.Copy(prefix(uint32(len(body)))), [][]byte{body}, func(w bool) { told <- w }); err != nil {
		t.Fatal(err)
	}
	c.Close(CloseReason{})
	release()
	if got := readFrame(t, client); got != string(body) || !receive(t, told, "done") {
		t.Errorf("got %d bytes", len(got))
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("behind it: %v", err)
	}
	_ = client.Close()
	receive(t, h.closes, "the close")
}

// Each message that was accepted is told of once, also if it was on its way while
// the connection, or the whole engine, ended.
func TestEveryAcceptedMessageOfPartsIsToldOfOnce(t *testing.T) {
	for round := range 10 {
		e, err := New(Config{Loops: 1})
		if err != nil {
			t.Fatal(err)
		}
		c, client := accept(t, e, testProtocol(&hooks{}))()
		var accepted, told atomic.Int64
		var wg sync.WaitGroup
		body := [][]byte{make([]byte, 3000)}
		for range 4 {
			wg.Go(func() {
				for {
					err := c.SendParts(buf.Copy(prefix(3000)), body, func(bool) {
						told.Add(1)
						c.Abort(CloseReason{}) // brings the loop, or who stands in for it
					})
					switch {
					case err == nil:
						accepted.Add(1)
					case errors.Is(err, ErrClosed):
						return
					}
					runtime.Gosched()
				}
			})
		}
		if round%2 == 0 {
			_ = client.SetLinger(0)
			_ = client.Close()
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := e.Close(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		wg.Wait()
		if accepted.Load() != told.Load() || c.Pending() != 0 {
			t.Fatalf("round %d: %d accepted, %d told, %d pending", round, accepted.Load(), told.Load(), c.Pending())
		}
	}
}

// A done of a connection whose loop is gone may bring another one of it.
func TestADoneThatEndsAnotherConnectionMayRunWhenTheLoopIsGone(t *testing.T) {
	l := newLoop(&Engine{})
	w, far, err := newWaker()
	if err != nil {
		t.Fatal(err)
	}
	_ = far.Close()
	l.waker = w
	w.close()
	p := testProtocol(&hooks{})
	c, other := looseConnOf(l, p), looseConnOf(l, p)
	told := 0
	if err := c.SendParts(buf.Copy([]byte("head")), nil, func(written bool) {
		told++
		if written {
			t.Error("told that it was written")
		}
		other.Abort(CloseReason{})
	}); err != nil || told != 1 {
		t.Errorf("%v, told %d times", err, told)
	}
}

func TestAMessageOfPartsInOneSegmentDecodesLikeAnyOther(t *testing.T) {
	var q outQueue
	body := binary.BigEndian.AppendUint64(nil, 42)
	if err := q.putParts(buf.Copy(prefix(8)), &parts{body: [][]byte{nil, body, {}}, done: func(bool) {}}, false, 1000); err != nil {
		t.Fatal(err)
	}
	r := newReader(&q)
	for r.step() {
	}
	f := newFrames()
	looseConn(f.p).receive(r.got)
	if len(f.got) != 1 || !bytes.Equal(f.got[0][4:], body) {
		t.Errorf("got %q", f.got)
	}
}

func TestAnEmptyMessageOfPartsIsDoneToo(t *testing.T) {
	e := start(t, 1)
	c, client := accept(t, e, testProtocol(&hooks{}))()
	told := make(chan bool, 1)
	if err := c.SendParts(buf.Get(0), [][]byte{nil}, func(w bool) { told <- w }); err != nil {
		t.Fatal(err)
	}
	if !receive(t, told, "done") {
		t.Error("told that it was dropped")
	}
	mustSend(t, c, buf.Copy(frame("after")))
	if got := readFrame(t, client); got != "after" {
		t.Errorf("got %q", got)
	}
}

// The rest stays in the queue, where messages get between the parts of a stream.
func TestTheKernelHoldsNoMoreUnsentThanAllowed(t *testing.T) {
	const most = 64 << 10
	opened := make(chan int, 1)
	p := testProtocol(&hooks{open: func(c *Conn) {
		n, err := unix.GetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
		if err != nil {
			t.Error(err)
		}
		opened <- n
	}})
	p.UnsentMax = most
	dial(t, listen(t, start(t, 1), p))
	if got := <-opened; got != most {
		t.Errorf("the option is %d, want %d", got, most)
	}
}
