package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobwas/ws"
	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/session"
)

// wireConn is a connection whose server has sent in already, and takes all.
type wireConn struct {
	net.Conn // nil: nothing else may be called
	in       io.Reader
	piece    func(left int) int // how much a Read gets
	out      bytes.Buffer
	closed   bool
}

func (c *wireConn) Read(p []byte) (int, error)       { return c.in.Read(p[:c.piece(len(p))]) }
func (c *wireConn) Write(p []byte) (int, error)      { return c.out.Write(p) }
func (c *wireConn) SetWriteDeadline(time.Time) error { return nil }
func (c *wireConn) Close() error                     { c.closed = true; return nil }

func whole(left int) int { return left }

func newWSConn(below net.Conn, frameMax int) *wsConn {
	return &wsConn{Conn: below, frameMax: frameMax, state: ws.StateClientSide, in: make([]byte, wsInbox), wake: func() {}}
}

func streamFrame(payload []byte) []byte {
	frame, err := session.Append(nil, &session.Packet{Kind: session.KindSend, Name: []byte("n"), Payload: payload})
	if err != nil {
		panic(err)
	}
	return frame
}

// clientMessages takes what a client wrote apart, as a strict server does.
func clientMessages(tb rapid.TB, wire []byte) (binary, pongs [][]byte, status ws.StatusCode) {
	for r := bytes.NewReader(wire); r.Len() > 0; {
		h, err := ws.ReadHeader(r)
		if err == nil {
			err = ws.CheckHeader(h, ws.StateServerSide)
		}
		f := ws.Frame{Header: h, Payload: make([]byte, min(h.Length, int64(r.Len())))}
		if err == nil {
			_, err = io.ReadFull(r, f.Payload)
		}
		if err != nil || !f.Header.Fin || status != 0 {
			tb.Fatalf("header %+v: %v", f.Header, err)
		}
		switch f = ws.UnmaskFrameInPlace(f); f.Header.OpCode {
		case ws.OpBinary:
			binary = append(binary, f.Payload)
		case ws.OpPong:
			pongs = append(pongs, f.Payload)
		case ws.OpClose:
			status, _ = ws.ParseCloseFrameData(f.Payload)
		default:
			tb.Fatalf("header %+v", f.Header)
		}
	}
	return binary, pongs, status
}

// Frames go in as bytes in any pieces, with pongs between; each comes out as one
// message.
func TestEveryFrameIsAMessageHoweverItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		below := &wireConn{}
		c := newWSConn(below, 0)
		var frames [][]byte
		var stream []byte
		for range rapid.IntRange(1, 8).Draw(t, "frames") {
			size := rapid.SampledFrom([]int{0, 1, 100, 125, 126, 5000, 70_000}).Draw(t, "size")
			frames = append(frames, streamFrame(bytes.Repeat([]byte{byte(size), 3}, size)[:size]))
			stream = append(stream, frames[len(frames)-1]...)
		}
		pings := 0
		for len(stream) > 0 {
			n := min(len(stream), rapid.SampledFrom([]int{1, 3, 7, 1000, 40_000}).Draw(t, "piece"))
			piece := bytes.Clone(stream[:n])
			if took, err := c.Write(piece); took != n || err != nil || !bytes.Equal(piece, stream[:n]) {
				t.Fatalf("%d of %d bytes, %v, changed %v", took, n, err, !bytes.Equal(piece, stream[:n]))
			}
			stream = stream[n:]
			if n <= wsSmall && cap(c.write.out) > wsInbox {
				t.Fatalf("%d bytes are held while nothing is written", cap(c.write.out))
			}
			if rapid.Bool().Draw(t, "ping") {
				c.owed.pong = []byte{byte(pings)}
				pings++
			}
		}
		if _, err := c.Write(nil); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		binary, pongs, _ := clientMessages(t, below.out.Bytes())
		if len(binary) != len(frames) || len(pongs) > pings || pings > 0 && (len(pongs) == 0 || pongs[len(pongs)-1][0] != byte(pings-1)) {
			t.Fatalf("%d messages of %d frames, %d pongs for %d pings", len(binary), len(frames), len(pongs), pings)
		}
		for i := range frames {
			if !bytes.Equal(binary[i], frames[i]) {
				t.Fatalf("message %d differs", i)
			}
		}
		if n, err := c.Write([]byte{1}); n != 0 || err == nil {
			t.Fatalf("a write behind the close frame: %d, %v", n, err)
		}
	})
}

// However a server fragments, and however its bytes arrive and are asked for, the
// same stream comes out.
func TestTheStreamIsTheSameHoweverMessagesAreFragmented(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var wire bytes.Buffer
		var pings [][]byte
		control := func() {
			if rapid.IntRange(0, 3).Draw(t, "control") == 0 {
				body := bytes.Repeat([]byte{byte(len(pings))}, rapid.IntRange(0, 125).Draw(t, "body"))
				pings = append(pings, body)
				ws.MustWriteFrame(&wire, ws.NewPongFrame([]byte("unasked")))
				ws.MustWriteFrame(&wire, ws.NewPingFrame(body))
			}
		}
		for range rapid.IntRange(1, 5).Draw(t, "frames") {
			frame := streamFrame(bytes.Repeat([]byte{9, 8, 7}, rapid.SampledFrom([]int{0, 1, 40, 3000, 30_000}).Draw(t, "size")))
			stream = append(stream, frame...)
			op := ws.OpBinary
			for more := true; more; op = ws.OpContinuation {
				control()
				n := min(len(frame), rapid.SampledFrom([]int{0, 1, 5, 6, 200, 9000, 1 << 20}).Draw(t, "fragment"))
				more = n < len(frame)
				ws.MustWriteFrame(&wire, ws.NewFrame(op, !more, frame[:n]))
				frame = frame[n:]
			}
		}
		control()
		below := &wireConn{in: &wire, piece: func(left int) int {
			return min(left, rapid.SampledFrom([]int{1, 2, 100, 5000, 1 << 20}).Draw(t, "read"))
		}}
		c := newWSConn(below, 200_000)
		woken := 0
		c.wake = func() { woken++ }
		var got []byte
		for p := make([]byte, 1<<17); ; {
			n, err := c.Read(p[:rapid.SampledFrom([]int{1, 100, 6000, 1 << 17}).Draw(t, "asked")])
			got = append(got, p[:n]...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, stream) || woken != len(pings) {
			t.Fatalf("%d bytes of %d, woken %d times for %d pings", len(got), len(stream), woken, len(pings))
		}
		if n := len(pings); n > 0 && !bytes.Equal(c.owed.pong, pings[n-1]) {
			t.Fatalf("pong %q for %q", c.owed.pong, pings[n-1])
		}
	})
}

func TestAServerThatBreaksTheWebSocketProtocolIsLeftWithAStatus(t *testing.T) {
	frame := streamFrame([]byte("payload"))
	compiled := func(f ws.Frame) []byte { return ws.MustCompileFrame(f) }
	with := func(f ws.Frame, change func(h *ws.Header)) []byte {
		change(&f.Header)
		return compiled(f)
	}
	good := compiled(ws.NewBinaryFrame(frame))
	for name, c := range map[string]struct {
		wire   []byte
		status ws.StatusCode
	}{
		"masked":                   {compiled(ws.MaskFrame(ws.NewBinaryFrame(frame))), ws.StatusProtocolError},
		"reserved bit":             {with(ws.NewBinaryFrame(frame), func(h *ws.Header) { h.Rsv = ws.Rsv(true, false, false) }), ws.StatusProtocolError},
		"reserved opcode":          {with(ws.NewBinaryFrame(frame), func(h *ws.Header) { h.OpCode = 3 }), ws.StatusProtocolError},
		"length with its top bit":  {[]byte{0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0}, ws.StatusProtocolError},
		"continuation of nothing":  {compiled(ws.NewFrame(ws.OpContinuation, true, frame)), ws.StatusProtocolError},
		"message inside a message": {append(compiled(ws.NewFrame(ws.OpBinary, false, frame[:3])), good...), ws.StatusProtocolError},
		"control in fragments":     {with(ws.NewPingFrame(nil), func(h *ws.Header) { h.Fin = false }), ws.StatusProtocolError},
		"control over 125 bytes":   {compiled(ws.NewPingFrame(make([]byte, 126))), ws.StatusProtocolError},
		"close with one byte":      {compiled(ws.NewCloseFrame([]byte{3})), ws.StatusProtocolError},
		"close with a bad status":  {compiled(ws.NewCloseFrame(ws.NewCloseFrameBody(1005, ""))), ws.StatusProtocolError},
		"close with no status":     {compiled(ws.NewCloseFrame(ws.NewCloseFrameBody(5000, ""))), ws.StatusProtocolError},
		"close with bad text":      {compiled(ws.NewCloseFrame(ws.NewCloseFrameBody(1000, "\xff"))), ws.StatusProtocolError},
		"text":                     {compiled(ws.NewTextFrame(frame)), ws.StatusUnsupportedData},
		"empty message":            {compiled(ws.NewBinaryFrame(nil)), ws.StatusProtocolError},
		"two frames in a message":  {compiled(ws.NewBinaryFrame(append(bytes.Clone(frame), frame...))), ws.StatusProtocolError},
		"half a frame":             {compiled(ws.NewBinaryFrame(frame[:len(frame)-1])), ws.StatusProtocolError},
		"less than a prefix":       {compiled(ws.NewBinaryFrame(frame[:5])), ws.StatusProtocolError},
		"too long in its header":   {[]byte{0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0}, ws.StatusMessageTooBig},
		"too long in its fragments": {append(append(compiled(ws.NewFrame(ws.OpBinary, false, frame[:4])),
			compiled(ws.NewFrame(ws.OpContinuation, false, frame[4:]))...), 0x80, 126, 0xff, 0xff), ws.StatusMessageTooBig},
		"too long in its prefix": {compiled(ws.NewBinaryFrame([]byte{0, 9, 0xff, 0, 0, 0, 0xF2})), ws.StatusMessageTooBig},
		"no STREAM at all":       {compiled(ws.NewBinaryFrame([]byte{0, 1, 0, 0, 0, 0, 0})), ws.StatusProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			below := &wireConn{in: bytes.NewReader(append(bytes.Clone(good), c.wire...)), piece: whole}
			conn := newWSConn(below, 1000)
			room := make([]byte, 4096)
			for at := 0; at < len(frame); {
				n, err := conn.Read(room[at:])
				at += n
				if err != nil || !bytes.HasPrefix(room[:at], frame[:min(at, len(frame))]) {
					t.Fatalf("the frame before: %x, %v", room[:at], err)
				}
			}
			var err error
			for n := 0; err == nil; n, err = conn.Read(room) {
				if n > len(frame) {
					t.Fatalf("%d bytes of it were given out", n)
				}
			}
			if !errors.Is(err, ErrProtocol) {
				t.Errorf("error %v", err)
			}
			conn.endWith(err)
			_ = conn.Close()
			if _, _, status := clientMessages(t, below.out.Bytes()); status != c.status || !below.closed {
				t.Errorf("closed %v with status %d, want %d", below.closed, status, c.status)
			}
		})
	}
}

func TestAClaimedLengthTakesNoMemory(t *testing.T) {
	wire := []byte{0x82, 127, 0, 0, 0, 0, 0x3f, 0xff, 0xff, 0xff, 0, 9, 0x3f, 0xff, 0, 0}
	conn := newWSConn(&wireConn{}, 1<<30)
	p := make([]byte, wsInbox)
	if n := testing.AllocsPerRun(10, func() {
		conn.left, conn.start, conn.end, conn.message = 0, 0, copy(conn.in, wire), oneFrame{}
		conn.state = ws.StateClientSide
		if n, err := conn.Read(p); n != 6 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a message of a gigabyte that is only claimed", n)
	}
}

func TestTheServersStatusIsToldAndAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		body     []byte
		want     StatusError
		answered ws.StatusCode
	}{
		"with a text":  {ws.NewCloseFrameBody(ws.StatusGoingAway, "bye"), StatusError{1001, "bye"}, ws.StatusGoingAway},
		"of its own":   {ws.NewCloseFrameBody(4001, ""), StatusError{Code: 4001}, 4001},
		"a balancer's": {ws.NewCloseFrameBody(1013, "try again later"), StatusError{1013, "try again later"}, 1013},
		"without one":  {nil, StatusError{Code: 1005}, ws.StatusNormalClosure},
	} {
		below := &wireConn{in: bytes.NewReader(ws.MustCompileFrame(ws.NewCloseFrame(c.body))), piece: whole}
		conn := newWSConn(below, 1000)
		_, err := conn.Read(make([]byte, 100))
		told, ok := errors.AsType[*StatusError](err)
		if !ok || *told != c.want || errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
		if _, again := conn.Read(make([]byte, 100)); !errors.Is(again, err) {
			t.Errorf("%s: read again: %v", name, again)
		}
		conn.endWith(err)
		_ = conn.Close()
		if _, _, status := clientMessages(t, below.out.Bytes()); status != c.answered {
			t.Errorf("%s: answered with %d, want %d", name, status, c.answered)
		}
	}
}

// The peer takes the first bytes of a message and no more: no close frame may
// land in the middle of it.
func TestCloseDoesNotWriteIntoAMessage(t *testing.T) {
	below := &wireConn{}
	conn := newWSConn(below, 1000)
	frame := streamFrame([]byte("payload"))
	if _, err := conn.Write(frame[:9]); err != nil {
		t.Fatal(err)
	}
	before := below.out.Len()
	_ = conn.Close()
	if !below.closed || below.out.Len() != before {
		t.Errorf("closed %v, %d bytes were written", below.closed, below.out.Len()-before)
	}
}

func TestCloseEndsAWriteThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		conn := newWSConn(near, 1000)
		result := make(chan error)
		go func() {
			_, err := conn.Write(streamFrame([]byte("never read")))
			result <- err
		}()
		synctest.Wait()
		_ = conn.Close()
		if err := <-result; err == nil {
			t.Error("the write succeeded")
		}
		_ = far.Close()
	})
}

func TestAWriteDeadlineEndsAllWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		conn := newWSConn(near, 1000)
		defer conn.Close()
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := conn.Write(streamFrame(nil)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		_ = conn.SetWriteDeadline(time.Time{})
		if _, err := conn.Write(streamFrame(nil)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("error %v", err)
		}
	})
}

func TestAnAnswerThatIsNoWebSocketIsRefused(t *testing.T) {
	u, _ := url.Parse("ws://host/game")
	for name, c := range map[string]struct{ answer, says string }{
		"another protocol": {"220 smtp.example.org ready\r\n", ""},
		"not found":        {"HTTP/1.1 404 Not Found\r\n\r\n", "404"},
		"another key": {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
			"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n", "Accept"},
		"without end": {"HTTP/1.1 101 " + strings.Repeat("x", upgradeMax), "8192"},
		"cut off":     {"HTTP/1.1 101 Switch", ""},
	} {
		below := &wireConn{in: strings.NewReader(c.answer), piece: whole}
		if _, err := openWebSocket(context.Background(), below, u, 1000); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.HasPrefix(below.out.String(), "GET /game HTTP/1.1\r\nHost: host\r\n") || strings.Contains(below.out.String(), "Extensions") {
			t.Errorf("%s: request %q", name, below.out.String())
		}
	}
}

// Whatever a server sends, reading ends, and gives out whole frames of the right
// size only.
func FuzzWebSocketRead(f *testing.F) {
	frame := streamFrame([]byte("payload"))
	f.Add(ws.MustCompileFrame(ws.NewBinaryFrame(frame)), uint8(1))
	f.Add(append(ws.MustCompileFrame(ws.NewFrame(ws.OpBinary, false, frame[:7])), ws.MustCompileFrame(ws.NewFrame(ws.OpContinuation, true, frame[7:]))...), uint8(5))
	f.Add(ws.MustCompileFrame(ws.NewPingFrame([]byte("ping"))), uint8(2))
	f.Add(ws.MustCompileFrame(ws.NewCloseFrame(ws.NewCloseFrameBody(1000, "bye"))), uint8(0))
	f.Fuzz(func(t *testing.T, wire []byte, piece uint8) {
		const frameMax = 500
		below := &wireConn{in: bytes.NewReader(wire), piece: func(left int) int { return min(left, 1+int(piece)) }}
		conn := newWSConn(below, frameMax)
		in := inbox{frameMax: frameMax}
		for {
			n, err := conn.Read(in.space())
			in.received(n)
			for {
				frame, err := in.next()
				if err != nil {
					t.Fatalf("the stream is no STREAM: %v", err)
				}
				if frame == nil {
					break
				}
			}
			if err != nil {
				conn.endWith(err)
				_ = conn.Close()
				clientMessages(t, below.out.Bytes())
				return
			}
		}
	})
}
