package engine

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/gobwas/ws"
	"github.com/pires/go-proxyproto"

	"github.com/zlnode/zlnode/internal/buf"
)

// socketOutcome is what a stream of bytes behind the upgrade came to.
type socketOutcome struct {
	frames [][]byte
	code   CloseCode
	status ws.StatusCode // 0: not closed
	said   []byte        // pongs and the close frame
}

// socketOf feeds a stream to a WebSocket and returns what came of it. The largest block
// that it held for a message must fit what had come.
func socketOf(t *testing.T, l *loop, stream []byte, cuts []int) (o socketOutcome) {
	t.Helper()
	f := newFrames()
	c := looseSocket(l, f.p)
	defer release(c)
	last := 0
	for _, cut := range append(cuts, len(stream)) {
		if cut <= last {
			continue
		}
		c.receive(bytes.Clone(stream[last:cut]))
		last = cut
		if c.part != nil && c.part.Cap() > max(2*partialStart, 8*cut) {
			t.Fatalf("%d bytes are held after %d came", c.part.Cap(), cut)
		}
		for _, f := range f.got {
			if n, err := testFrameSize(f, true); err != nil || n != len(f) {
				t.Fatalf("a frame of %d bytes that says %d, %v", len(f), n, err)
			}
		}
	}
	o.frames = f.got
	if r := c.stopping.Load(); r != nil {
		c.out.close()
		o.code = r.Code
		c.sayClose()
		o.status = c.ws.status
	}
	g := &l.gather
	for c.out.waits() && len(o.said) < readBytes {
		c.out.gather(g, readBytes)
		o.said = append(o.said, g.scratch[:g.used]...)
		c.out.wrote(g.total)
		g.reset()
	}
	return o
}

// FuzzWS: any bytes behind the upgrade, in any segmentation, give the same frames, answers
// and close. The seed decides the segmentation.
func FuzzWS(f *testing.F) {
	stream, _ := socketStream()
	f.Add(stream, uint64(1))
	f.Add(message(frame("hello")), uint64(2))
	f.Add(append(clientFrame(ws.OpBinary, false, frame("hello")[:3]), clientFrame(ws.OpContinuation, true, frame("hello")[3:])...), uint64(3))
	f.Add(clientFrame(ws.OpClose, true, []byte{3, 0xe8}), uint64(4))
	f.Add(clientFrame(ws.OpText, true, []byte("text")), uint64(5))
	f.Add([]byte{0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4}, uint64(6))
	l := newLoop(&Engine{})
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		if len(stream) > readBytes {
			return
		}
		live := buf.Live()
		whole := socketOf(t, l, stream, nil)
		rng := rand.New(rand.NewPCG(seed, 1))
		var cuts []int
		for at := 0; at < len(stream); at += 1 + rng.IntN(1+rng.IntN(40)) {
			cuts = append(cuts, at)
		}
		cut := socketOf(t, l, stream, cuts)
		if !slices.EqualFunc(whole.frames, cut.frames, bytes.Equal) {
			t.Errorf("whole: %d frames; cut: %d", len(whole.frames), len(cut.frames))
		}
		if whole.code != cut.code || whole.status != cut.status || !bytes.Equal(whole.said, cut.said) {
			t.Errorf("whole: %v %d %x; cut: %v %d %x", whole.code, whole.status, whole.said, cut.code, cut.status, cut.said)
		}
		if n := buf.Live() - live; n != 0 {
			t.Errorf("%d buffers leaked", n)
		}
	})
}

// FuzzUpgrade: any bytes instead of a request give one answer, of HTTP, or none yet, and
// the same in any segmentation.
func FuzzUpgrade(f *testing.F) {
	f.Add([]byte(request()), uint64(1))
	f.Add([]byte(request("Origin: https://game.example\r\n", "Sec-WebSocket-Extensions: permessage-deflate\r\n")), uint64(2))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint64(3))
	f.Add([]byte("GET / HTTP/1.1\n\n\r\n\r\n"), uint64(4))
	f.Add(append([]byte(request()), message(frame("hello"))...), uint64(5))
	l := newLoop(&Engine{})
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		if len(stream) > readBytes {
			return
		}
		answer := func(cuts []int) (out []byte, opened bool, frames int) {
			h := newFrames()
			c := looseSocket(l, h.p)
			defer release(c)
			c.ws = &webSocket{origins: []string{"https://game.example"}}
			feed(c, stream, cuts...)
			if have := c.ws.request; have != nil && have.Cap() > requestMax {
				t.Fatalf("%d bytes are held for a request", have.Cap())
			}
			g := &l.gather
			defer g.reset()
			if c.out.waits() {
				c.out.gather(g, readBytes)
			}
			return bytes.Clone(g.scratch[:g.used]), c.presented, len(h.got)
		}
		whole, opened, frames := answer(nil)
		if len(whole) > 0 && !bytes.HasPrefix(whole, []byte("HTTP/1.1 ")) {
			t.Errorf("the answer begins with %q", whole[:min(20, len(whole))])
		}
		if opened != bytes.HasPrefix(whole, []byte("HTTP/1.1 101 ")) {
			t.Errorf("opened %v by %q", opened, whole)
		}
		rng := rand.New(rand.NewPCG(seed, 2))
		var cuts []int
		for at := 0; at < len(stream); at += 1 + rng.IntN(1+rng.IntN(200)) {
			cuts = append(cuts, at)
		}
		if cut, o, n := answer(cuts); !bytes.Equal(cut, whole) || o != opened || n != frames {
			t.Errorf("whole: %q, opened %v, %d frames; cut: %q, %v, %d", whole, opened, frames, cut, o, n)
		}
	})
}

// FuzzProxyHeader: where a header ends is known from its bytes alone, none of what follows
// is part of it, and its address is one or none.
func FuzzProxyHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.7 10.0.0.1 5000 443\r\n\x00\x00\x00\x02hi"))
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	f.Add(proxyHeaderV2(f, proxyproto.PROXY, "192.0.2.7:5000", 7))
	f.Add(proxyHeaderV2(f, proxyproto.PROXY, "[2001:db8::7]:5000", 0))
	f.Add(proxyHeaderV2(f, proxyproto.LOCAL, "", 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := proxyHeaderSize(b)
		if n < 0 || n > min(len(b), proxyHeaderMax) {
			t.Fatalf("%d bytes of %d", n, len(b))
		}
		// With fewer bytes it is the same, or not known yet.
		for i := range b {
			m, e := proxyHeaderSize(b[:i])
			switch {
			case m == 0 && e == nil && n > 0 && i >= n, m > 0 && m != n, e != nil && err == nil:
				t.Fatalf("%d bytes: %d, %v; %d bytes: %d, %v", i, m, e, len(b), n, err)
			}
		}
		if n == 0 {
			if err == nil && len(b) >= proxyHeaderMax {
				t.Fatalf("%d bytes and no answer", len(b))
			}
			return
		}
		from, err := proxiedAddr(b[:n])
		if err != nil && from.IsValid() || from.Addr().Is4In6() || from.Addr().Zone() != "" || from != (netip.AddrPort{}) && !from.IsValid() {
			t.Errorf("%v, %v", from, err)
		}
	})
}
