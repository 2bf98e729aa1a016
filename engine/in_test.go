package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zlnode/zlnode/internal/buf"
)

// looseConn is an open connection on no loop's goroutine and no socket: the
// decoder alone.
func looseConn(p *Protocol) *Conn { return looseConnOf(newLoop(&Engine{}), p) }

func looseConnOf(l *loop, p *Protocol) *Conn {
	r, err := p.resolve()
	if err != nil {
		panic(err)
	}
	return &Conn{id: 1, engine: l.engine, p: r, loop: l, phase: open, admitted: true}
}

// frames collects copies of what the Handler of its protocol got.
type frames struct {
	got [][]byte
	p   *Protocol
}

func newFrames() *frames {
	f := &frames{}
	f.p = testProtocol(&hooks{frame: func(_ *Conn, b []byte, _ *buf.Buf) error {
		f.got = append(f.got, bytes.Clone(b))
		return nil
	}})
	return f
}

func testStream() (stream []byte, want [][]byte) {
	for _, n := range []int{0, 1, 3, 0, 0, 17, 2, 60, 5} {
		body := make([]byte, n)
		for i := range body {
			body[i] = byte(n + i)
		}
		f := frame(string(body))
		want = append(want, f)
		stream = append(stream, f...)
	}
	return stream, want
}

func TestAnySegmentationGivesTheSameFrames(t *testing.T) {
	stream, want := testStream()
	live := buf.Live()
	l := newLoop(&Engine{})
	check := func(cuts ...int) {
		t.Helper()
		f := newFrames()
		c := looseConnOf(l, f.p)
		last := 0
		for _, cut := range append(cuts, len(stream)) {
			if cut > last {
				c.receive(stream[last:cut])
				last = cut
			}
		}
		if !slices.EqualFunc(f.got, want, bytes.Equal) {
			t.Fatalf("cuts %v: got %q", cuts, f.got)
		}
		l.wheel.cancel(&c.deadline.timer)
		if c.part != nil || c.stopping.Load() != nil {
			t.Fatalf("cuts %v: the stream ends with a partial frame or a close", cuts)
		}
	}
	for i := range len(stream) {
		for j := i; j < len(stream); j++ {
			check(i, j)
		}
	}
	every := make([]int, len(stream))
	for i := range every {
		every[i] = i
	}
	check(every...)
	if n := buf.Live() - live; n != 0 {
		t.Errorf("%d buffers leaked", n)
	}
}

func TestLargeFramesSurviveAnySegmentation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, trust := range []bool{false, true} {
		f := newFrames()
		f.p.TrustLength = trust
		c := looseConn(f.p)
		var want [][]byte
		var stream []byte
		for _, n := range []int{200_000, 3, 4092, 4093, 70_000, 1, 8192, testMax} {
			body := make([]byte, n)
			for i := range body {
				body[i] = byte(rng.Uint32())
			}
			want = append(want, frame(string(body)))
			stream = append(stream, want[len(want)-1]...)
		}
		for len(stream) > 0 {
			n := min(len(stream), 1+rng.IntN(readBytes))
			c.receive(stream[:n])
			stream = stream[n:]
		}
		if !slices.EqualFunc(f.got, want, bytes.Equal) {
			t.Errorf("trust %v: frames differ", trust)
		}
	}
}

func prefix(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func TestAClaimedLengthAloneAllocatesNothing(t *testing.T) {
	for _, c := range []struct {
		claim uint32
		trust bool
		want  CloseCode // closed with; 0: not closed
		room  int       // of the slab, at most
	}{
		{0xFFFFFFFF, true, FrameTooLarge, 0},
		{testMax + 1, true, FrameTooLarge, 0},
		{testMax, false, 0, 2 * partialStart},
		{testMax, true, 0, 4 << 20},
	} {
		f := newFrames()
		f.p.TrustLength = c.trust
		conn := looseConn(f.p)
		conn.receive(prefix(c.claim))
		stop := conn.stopping.Load()
		switch {
		case c.want == 0 && stop != nil, c.want != 0 && (stop == nil || stop.Code != c.want):
			t.Errorf("claim %d: closed with %v", c.claim, stop)
		case conn.part == nil && c.want == 0:
			t.Errorf("claim %d: nothing kept", c.claim)
		case conn.part != nil && conn.part.Cap() > c.room:
			t.Errorf("claim %d, trust %v: %d bytes allocated for 4", c.claim, c.trust, conn.part.Cap())
		}
		conn.dropPart()
	}
}

func TestThePartialSlabFollowsTheBytes(t *testing.T) {
	f := newFrames()
	c := looseConn(f.p)
	c.receive(prefix(testMax))
	have := 4
	for have < testMax+4 {
		n := min(10_000, testMax+4-have)
		c.receive(make([]byte, n))
		have += n
		if c.part != nil && len(c.part.Bytes()) > max(2*have, partialStart) {
			t.Fatalf("slab of %d after %d bytes", len(c.part.Bytes()), have)
		}
	}
	if len(f.got) != 1 || len(f.got[0]) != testMax+4 {
		t.Fatal("the frame did not arrive")
	}
}

func TestBeforeAdmissionFramesComeOneByOne(t *testing.T) {
	const small = 8
	var owners []*buf.Buf
	p := &Protocol{
		Name: "hello",
		FrameSize: func(b []byte, admitted bool) (int, error) {
			n, err := testFrameSize(b, admitted)
			if !admitted && n > small {
				return 0, ErrFrameTooLarge
			}
			return n, err
		},
		Handler: &hooks{frame: func(c *Conn, _ []byte, owner *buf.Buf) error {
			owners = append(owners, owner)
			c.Admit()
			return nil
		}},
	}
	c := looseConn(p)
	c.admitted = false
	c.receive(slices.Concat(frame("abc"), frame("a frame only for those admitted"), frame("x")))
	if c.stopping.Load() != nil || len(owners) != 3 {
		t.Fatalf("%d frames, closed %v", len(owners), c.stopping.Load())
	}
	if owners[1] != owners[2] {
		t.Error("frames of one read do not share their slab")
	}

	c = looseConn(p)
	c.admitted = false
	c.receive(frame("too long before admission"))
	if r := c.stopping.Load(); r == nil || r.Code != FrameTooLarge {
		t.Errorf("closed with %v", r)
	}
}

func TestManySmallFramesOfOneReadShareSlabs(t *testing.T) {
	seen := map[*buf.Buf]int{}
	var keep []*buf.Buf
	c := looseConn(testProtocol(&hooks{frame: func(_ *Conn, _ []byte, owner *buf.Buf) error {
		if seen[owner]++; seen[owner] == 1 {
			keep = append(keep, owner.Ref())
		}
		return nil
	}}))
	c.receive(bytes.Repeat(frame("x"), 1000))
	if want := (1000 + batchFrames - 1) / batchFrames; len(seen) != want {
		t.Errorf("%d slabs, want %d", len(seen), want)
	}
	for _, b := range keep {
		b.Free()
	}
}

func TestDeliveryStopsAtTheFrameThatEndsTheConnection(t *testing.T) {
	own := &CloseError{Reason: CloseReason{Code: Replaced, Text: "by a test"}}
	for _, c := range []struct {
		name string
		do   func(c *Conn) error
		want CloseCode
	}{
		{"error", func(*Conn) error { return errors.New("bad") }, ProtocolError},
		{"own reason", func(*Conn) error { return own }, Replaced},
		{"close", func(c *Conn) error { c.stop(CloseReason{Code: Idle}); return nil }, Idle},
	} {
		n := 0
		conn := looseConn(testProtocol(&hooks{frame: func(c2 *Conn, b []byte, _ *buf.Buf) error {
			if n++; string(b[4:]) == "stop" {
				return c.do(c2)
			}
			return nil
		}}))
		conn.receive(slices.Concat(frame("a"), frame("stop"), frame("b"), prefix(9)))
		if r := conn.stopping.Load(); n != 2 || r == nil || r.Code != c.want || conn.part != nil {
			t.Errorf("%s: %d frames delivered, closed with %v", c.name, n, r)
		}
	}
}

func TestNoFrameIsDeliveredAfterClose(t *testing.T) {
	f := newFrames()
	c := looseConn(f.p)
	c.receive(frame("before")[:5]) // half a frame is there
	c.stop(CloseReason{})          // what Close does at once; its loop's turn is yet to come
	c.receive(append(frame("before")[5:], frame("after")...))
	if len(f.got) != 0 {
		t.Errorf("got %q", f.got)
	}
	c.dropPart()
}

func TestMalformedFrameSizesCloseWithoutPanic(t *testing.T) {
	for name, size := range map[string]func(b []byte, _ bool) (int, error){
		"negative":    func([]byte, bool) (int, error) { return -1, nil },
		"never known": func([]byte, bool) (int, error) { return 0, nil },
		"shrinking": func(b []byte, _ bool) (int, error) {
			if len(b) < 9 {
				return 0, nil
			}
			return 3, nil
		},
		"error": func([]byte, bool) (int, error) { return 0, errors.New("unknown kind") },
	} {
		for _, step := range []int{1, 200} {
			p := testProtocol(&hooks{})
			p.FrameSize = size
			c := looseConn(p)
			for range 200 / step {
				if c.stopping.Load() == nil {
					c.receive(make([]byte, step))
				}
			}
			r := c.stopping.Load()
			if name == "shrinking" && step == 200 {
				continue // three bytes each are frames like any other
			}
			if r == nil || r.Code != ProtocolError || c.part != nil {
				t.Errorf("%s by %d: closed with %v", name, step, r)
			}
		}
	}
}

func TestExceedingTheRateCloses(t *testing.T) {
	for _, c := range []struct {
		rate Rate
		want int // frames delivered
	}{
		{Rate{FramesPerSecond: 1, BurstFrames: 3}, 3},
		{Rate{BytesPerSecond: 1, BurstBytes: 10}, 0},
	} {
		f := newFrames()
		f.p.Rate = &c.rate
		conn := looseConn(f.p)
		conn.bucket = newBucket(conn.p.Rate, 0)
		conn.receive(bytes.Repeat(frame("x"), 5))
		r := conn.stopping.Load()
		if len(f.got) != c.want || r == nil || r.Code != RateExceeded {
			t.Errorf("%+v: %d frames, closed with %v", c.rate, len(f.got), r)
		}
	}
}

// A kept frame must not change when later reads reuse the loop's block.
func TestKeptFramesStayUntouched(t *testing.T) {
	type kept struct {
		sum   [32]byte
		view  []byte
		owner *buf.Buf
	}
	all := make(chan kept, 150)
	e := start(t, 1)
	addr := listen(t, e, testProtocol(&hooks{frame: func(_ *Conn, b []byte, owner *buf.Buf) error {
		all <- kept{sha256.Sum256(b), b, owner.Ref()}
		return nil
	}}))
	c := dial(t, addr)
	rng := rand.New(rand.NewPCG(3, 4))
	var stream []byte
	var sums [][32]byte
	for range cap(all) {
		body := make([]byte, rng.IntN(60<<10))
		for i := range body {
			body[i] = byte(rng.Uint32())
		}
		f := frame(string(body))
		sums = append(sums, sha256.Sum256(f))
		stream = append(stream, f...)
	}
	for len(stream) > 0 {
		n := min(len(stream), 1+rng.IntN(100<<10))
		write(t, c, stream[:n])
		stream = stream[n:]
	}
	var frames []kept
	for range sums {
		frames = append(frames, receive(t, all, "a frame"))
	}
	for i, k := range frames {
		if k.sum != sums[i] || sha256.Sum256(k.view) != sums[i] {
			t.Errorf("frame %d changed", i)
		}
		k.owner.Free()
	}
}
