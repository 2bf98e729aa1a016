package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zlnode/zlnode/internal/buf"
)

// arrivals collects, in order, copies of the frames that came either way.
type arrivals struct {
	got    [][]byte
	placed int // of them
	asked  int
	p      *Protocol
}

// The first byte behind the length says what becomes of a frame: places are for
// those with an odd one, and the head is as long as the byte but for the lowest bit.
func newArrivals() *arrivals {
	a := &arrivals{}
	a.p = testProtocol(&hooks{frame: func(_ *Conn, b []byte, _ *buf.Buf) error {
		a.got = append(a.got, bytes.Clone(b))
		return nil
	}})
	a.p.Placer = &placer{
		place: func(_ *Conn, prefix []byte, size int) ([]byte, int) {
			a.asked++
			if len(prefix) != prefixMax {
				panic(fmt.Sprintf("a prefix of %d bytes", len(prefix)))
			}
			if prefix[4]&1 == 0 {
				return nil, 0
			}
			skip := int(prefix[4] &^ 1)
			return make([]byte, size-skip), skip
		},
		placed: func(_ *Conn, head, dst []byte) error {
			a.placed++
			a.got = append(a.got, slices.Concat(head, dst))
			return nil
		},
	}
	return a
}

// kinded returns a frame of size bytes in all, whose first byte behind the length
// is kind.
func kinded(rng *rand.Rand, size int, kind byte) []byte {
	body := randomBytes(rng, size-4)
	body[0] = kind
	return frame(string(body))
}

func TestPlacedFramesSurviveAnySegmentation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	large := PlaceMin + 100
	var want [][]byte
	var stream []byte
	var near []int // places where a cut may hurt
	for _, f := range []struct {
		size int
		kind byte
	}{
		{5, 17}, {large, 17}, {large, 65}, {9, 1}, {large, 2}, {large, 1}, {PlaceMin, 17}, {PlaceMin + 1, 17}, {7, 0}, {large, 2},
	} {
		want = append(want, kinded(rng, f.size, f.kind))
		for _, at := range []int{0, 1, 3, 4, 5, 15, 16, 17, 62, 63, 64, 65, f.size / 2, f.size - 1} {
			if at < f.size {
				near = append(near, len(stream)+at)
			}
		}
		stream = append(stream, want[len(want)-1]...)
	}
	every := make([]int, len(stream))
	for i := range every {
		every[i] = i
	}
	live := buf.Live()
	l := newLoop(&Engine{})
	for _, trust := range []bool{false, true} {
		check := func(cuts ...int) {
			t.Helper()
			a := newArrivals()
			a.p.TrustLength = trust
			c := looseConnOf(l, a.p)
			last := 0
			for _, cut := range append(cuts, len(stream)) {
				if cut > last {
					c.receive(stream[last:cut])
					last = cut
				}
			}
			if !slices.EqualFunc(a.got, want, bytes.Equal) || a.placed != 4 || a.asked != 6 {
				t.Fatalf("trust %v, cuts %v: %d frames, %d asked about, %d placed", trust, cuts, len(a.got), a.asked, a.placed)
			}
			l.wheel.cancel(&c.deadline.timer)
			if c.part != nil || c.placed != nil || c.deadline.frame != 0 || c.stopping.Load() != nil {
				t.Fatalf("trust %v, cuts %v: the stream ends with a partial frame or a close", trust, cuts)
			}
		}
		for i := range near {
			for j := i; j < len(near); j++ {
				check(near[i], near[j])
			}
		}
		check(every...)
	}
	if n := buf.Live() - live; n != 0 {
		t.Errorf("%d buffers leaked", n)
	}
}

func TestPlacingChangesNothingOfWhatArrives(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 2))
		placing, plain := newArrivals(), newArrivals()
		plain.p.Placer = nil
		placing.p.TrustLength = rng.IntN(2) == 0
		var stream []byte
		for range 30 {
			size := 5 + rng.IntN(200)
			if rng.IntN(3) == 0 {
				size = 5 + rng.IntN(1<<(7+rng.IntN(11)))
			}
			stream = append(stream, kinded(rng, size, byte(rng.IntN(66)))...)
		}
		a, b := looseConn(placing.p), looseConn(plain.p)
		most := 1 << (1 + rng.IntN(16))
		for len(stream) > 0 {
			n := min(len(stream), 1+rng.IntN(most))
			a.receive(stream[:n])
			b.receive(stream[:n])
			stream = stream[n:]
		}
		if !slices.EqualFunc(placing.got, plain.got, bytes.Equal) || len(plain.got) != 30 || plain.asked != 0 {
			t.Errorf("seed %d: %d frames, %d without places", seed, len(placing.got), len(plain.got))
		}
	}
}

// waitUnread waits until n bytes wait in the kernel for c's loop.
func waitUnread(t *testing.T, c *Conn, n int) {
	t.Helper()
	for {
		have, err := unix.IoctlGetInt(c.fd, unix.SIOCINQ)
		if err != nil {
			t.Fatal(err)
		}
		if have >= n {
			return
		}
		runtime.Gosched()
	}
}

func TestPlacedFramesOfASocketAreReadStraightToTheirPlace(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 3))
		a := newArrivals()
		e := start(t, 1)
		c, client := accept(t, e, a.p)()
		want := [][]byte{kinded(rng, 256<<10, 33)}
		stream := bytes.Clone(want[0])
		for range 60 {
			size := 5 + rng.IntN(300)
			if rng.IntN(2) == 0 {
				size = 70 + rng.IntN(1<<(10+rng.IntN(10)))
			}
			want = append(want, kinded(rng, size, byte(rng.IntN(66))))
			stream = append(stream, want[len(want)-1]...)
		}
		end := make(chan struct{})
		hooksOf(a.p).close = func(*Conn, CloseReason) { close(end) }
		release := holdLoop(t, c)
		go func() {
			for len(stream) > 0 {
				n := min(len(stream), 1+rng.IntN(300<<10))
				if _, err := client.Write(stream[:n]); err != nil {
					t.Error(err)
				}
				stream = stream[n:]
			}
			_ = client.CloseWrite()
		}()
		waitUnread(t, c, readBytes+placeReadMin)
		release()
		receive(t, end, "the end of the stream")
		if !slices.EqualFunc(a.got, want, bytes.Equal) {
			t.Errorf("seed %d: %d frames of %d, or they differ", seed, len(a.got), len(want))
		}
		s := e.Stats()
		if s.BytesPlaced < placeReadMin || s.FramesIn != uint64(len(want)) || s.BytesIn != uint64(len(slices.Concat(want...))) {
			t.Errorf("seed %d: %+v", seed, s)
		}
	}
}

func hooksOf(p *Protocol) *hooks { return p.Handler.(*hooks) }

func TestAConnectionThatEndsInAPlacedFrameTellsOnlyItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(c *Conn, peer interface{ Close() error })
		want CloseCode
	}{
		"peer ends": {func(_ *Conn, peer interface{ Close() error }) { _ = peer.Close() }, PeerClosed},
		"abort":     {func(c *Conn, _ interface{ Close() error }) { c.Abort(CloseReason{Code: Idle}) }, Idle},
		"close":     {func(c *Conn, _ interface{ Close() error }) { c.Close(CloseReason{Code: Draining}) }, Draining},
		"timeout":   {func(*Conn, interface{ Close() error }) {}, FrameTimeout},
	} {
		asked, closes := make(chan []byte, 1), make(chan CloseReason, 1)
		p := testProtocol(&hooks{closes: closes})
		p.CloseGrace = 2 * tick
		if c.want == FrameTimeout {
			p.FrameTimeout = 2 * tick
		}
		p.Placer = &placer{
			place: func(_ *Conn, _ []byte, size int) ([]byte, int) {
				dst := make([]byte, size)
				asked <- dst
				return dst, 0
			},
			placed: func(*Conn, []byte, []byte) error {
				t.Errorf("%s: the frame is said to be whole", name)
				return nil
			},
		}
		e := start(t, 1)
		conn, client := accept(t, e, p)()
		write(t, client, append(prefix(100_000), make([]byte, 50_000)...))
		dst := receive(t, asked, "Place")
		c.end(conn, client)
		if r := receive(t, closes, "the close"); r.Code != c.want {
			t.Errorf("%s: closed with %v", name, r)
		}
		clear(dst) // ours again: the race detector would see the loop write
	}
}

// The loop's read takes what there is, and the one after it, into the place, finds
// the end.
func TestTheEndBehindAFullReadOfAPlacedFrameIsReported(t *testing.T) {
	for _, linger := range []int{0, -1} {
		closes := make(chan CloseReason, 1)
		a := newArrivals()
		hooksOf(a.p).closes = closes
		e := start(t, 1)
		c, client := accept(t, e, a.p)()
		_ = client.SetLinger(linger)
		release := holdLoop(t, c)
		write(t, client, kinded(rand.New(rand.NewPCG(4, 4)), 200_000, 1)[:readBytes])
		waitUnread(t, c, readBytes)
		_ = client.Close()
		waitEnd(t, c)
		release()
		want := PeerClosed
		if linger == 0 {
			want = TransportError // a reset
		}
		if r := receive(t, closes, "the close"); r.Code != want || len(a.got) != 0 {
			t.Errorf("linger %d: closed with %v, %d frames", linger, r, len(a.got))
		}
	}
}

// waitEnd waits until the kernel knows that c's peer has ended.
func waitEnd(t *testing.T, c *Conn) {
	t.Helper()
	for {
		p := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLRDHUP}}
		if _, err := unix.Poll(p, 0); err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
		if p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0 {
			return
		}
		runtime.Gosched()
	}
}

func TestPlacersFaultsAndEndsCloseTheConnection(t *testing.T) {
	const size = PlaceMin + 500
	place := func(n, skip int) func(*Conn, []byte, int) ([]byte, int) {
		return func(*Conn, []byte, int) ([]byte, int) { return make([]byte, n), skip }
	}
	own := &CloseError{Reason: CloseReason{Code: Replaced}}
	for name, c := range map[string]struct {
		place  func(*Conn, []byte, int) ([]byte, int)
		placed error
		want   CloseCode
		told   int // calls of OnPlaced
	}{
		"short place":   {place(size-11, 10), nil, ProtocolError, 0},
		"long place":    {place(size, 10), nil, ProtocolError, 0},
		"skip negative": {place(size+1, -1), nil, ProtocolError, 0},
		"skip too long": {place(size-65, 65), nil, ProtocolError, 0},
		"error":         {place(size-10, 10), errors.New("bad"), ProtocolError, 1},
		"own reason":    {place(size-10, 10), own, Replaced, 1},
		"close in Place": {func(c *Conn, _ []byte, _ int) ([]byte, int) {
			c.stop(CloseReason{Code: Idle})
			return make([]byte, size), 0
		}, nil, Idle, 0},
		"close without a place": {func(c *Conn, _ []byte, _ int) ([]byte, int) {
			c.stop(CloseReason{Code: Idle})
			return nil, 0
		}, nil, Idle, 0},
	} {
		for _, cut := range []int{0, 3, 7, prefixMax - 1, prefixMax, prefixMax + 1, size - 1, size} {
			told := 0
			p := testProtocol(&hooks{frame: func(*Conn, []byte, *buf.Buf) error {
				t.Errorf("%s, cut at %d: a frame is delivered", name, cut)
				return nil
			}})
			p.Placer = &placer{place: c.place, placed: func(*Conn, []byte, []byte) error { told++; return c.placed }}
			conn := looseConn(p)
			stream := append(frame(string(make([]byte, size-4))), frame("behind it")...)
			conn.receive(stream[:cut])
			conn.receive(stream[cut:])
			r := conn.stopping.Load()
			if r == nil || r.Code != c.want || told != c.told {
				t.Errorf("%s, cut at %d: closed with %v, told %d times", name, cut, r, told)
			}
			conn.dropPart()
		}
	}
}

func TestPlacedFramesCountInTheRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	one := kinded(rng, 10_000, 1)
	for _, c := range []struct {
		rate Rate
		want int // frames placed
	}{
		{Rate{FramesPerSecond: 1, BurstFrames: 3}, 3},
		{Rate{BytesPerSecond: 1, BurstBytes: 25_000}, 2},
	} {
		a := newArrivals()
		a.p.Rate = &c.rate
		conn := looseConn(a.p)
		conn.bucket = newBucket(conn.p.Rate, 0)
		for range 5 {
			for half := range slices.Chunk(one, 5000) {
				conn.receive(half)
			}
		}
		r := conn.stopping.Load()
		if a.placed != c.want || r == nil || r.Code != RateExceeded {
			t.Errorf("%+v: %d frames, closed with %v", c.rate, a.placed, r)
		}
		conn.dropPart()
	}
}

func TestDirectReadsCountInTheRate(t *testing.T) {
	closes := make(chan CloseReason, 1)
	a := newArrivals()
	hooksOf(a.p).closes = closes
	a.p.Rate = &Rate{BytesPerSecond: 1, BurstBytes: readBytes}
	a.p.CloseGrace = 2 * tick
	e := start(t, 1)
	c, client := accept(t, e, a.p)()
	release := holdLoop(t, c)
	go func() { _, _ = client.Write(kinded(rand.New(rand.NewPCG(6, 6)), readBytes+placeReadMin+1000, 1)) }()
	waitUnread(t, c, readBytes+placeReadMin)
	release()
	if r := receive(t, closes, "the close"); r.Code != RateExceeded || len(a.got) != 0 || e.Stats().BytesPlaced == 0 {
		t.Errorf("closed with %v, %d frames", r, len(a.got))
	}
}

func TestNoPlaceIsAskedForBeforeAdmission(t *testing.T) {
	a := newArrivals()
	conn := looseConn(a.p)
	conn.admitted = false
	f := kinded(rand.New(rand.NewPCG(7, 7)), 10_000, 1)
	conn.receive(f)
	conn.receive(f[:5000])
	conn.receive(f[5000:])
	if a.asked != 0 || len(a.got) != 2 {
		t.Errorf("asked %d times, %d frames", a.asked, len(a.got))
	}
}

func TestNothingIsAllocatedForAFrameThatMayBePlaced(t *testing.T) {
	a := newArrivals()
	a.p.TrustLength = true
	conn := looseConn(a.p)
	f := kinded(rand.New(rand.NewPCG(8, 8)), testMax, 1)
	conn.receive(f[:prefixMax-1])
	if conn.part == nil || conn.part.Cap() > 2*prefixMax {
		t.Errorf("a slab of %d bytes", conn.part.Cap())
	}
	conn.receive(f[prefixMax-1 : prefixMax+10])
	if conn.part != nil || conn.placed == nil || conn.placed.have != prefixMax+10 {
		t.Error("not placed once its first bytes are there")
	}
}
