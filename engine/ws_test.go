package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gobwas/ws"

	"github.com/zlnode/zlnode/internal/buf"
)

// looseSocket is looseConnOf for a WebSocket that has been upgraded.
func looseSocket(l *loop, p *Protocol) *Conn {
	c := looseConnOf(l, p)
	c.ws = &webSocket{upgraded: true}
	c.sched.Store(tokenTaken) // the test is the loop
	return c
}

// clientFrame is a masked frame of a client.
func clientFrame(op ws.OpCode, fin bool, payload []byte) []byte {
	mask := [4]byte{0x11, 0x82, 0xf3, byte(len(payload))}
	h := ws.Header{Fin: fin, OpCode: op, Masked: true, Mask: mask, Length: int64(len(payload))}
	var b bytes.Buffer
	if err := ws.WriteHeader(&b, h); err != nil {
		panic(err)
	}
	body := bytes.Clone(payload)
	ws.Cipher(body, mask, 0)
	return append(b.Bytes(), body...)
}

// readSocket reads a frame of the server.
func readSocket(r io.Reader) (ws.Header, []byte, error) {
	h, err := ws.ReadHeader(r)
	if err != nil {
		return h, nil, err
	}
	if h.Masked || h.Length > 64<<20 {
		return h, nil, fmt.Errorf("a server sent header %+v", h)
	}
	payload := make([]byte, h.Length)
	_, err = io.ReadFull(r, payload)
	return h, payload, err
}

func message(payload []byte) []byte { return clientFrame(ws.OpBinary, true, payload) }

// feed gives c the stream in pieces that end at cuts, each in memory of its own, as
// receiveMessages changes it.
func feed(c *Conn, stream []byte, cuts ...int) {
	last := 0
	for _, cut := range append(cuts, len(stream)) {
		if cut > last {
			c.receive(bytes.Clone(stream[last:cut]))
			last = cut
		}
	}
}

// release frees what c holds, and takes it off its loop.
func release(c *Conn) {
	c.loop.wheel.cancel(&c.deadline.timer)
	c.dropPart()
	c.drop()
}

// socketStream is messages of all forms: whole, in fragments with control frames between,
// and of lengths of each form.
func socketStream() (stream []byte, want [][]byte) {
	add := func(n int, split ...int) {
		f := frame(string(bytes.Repeat([]byte{byte(n)}, n)))
		want = append(want, f)
		last := 0
		for i, at := range append(split, len(f)) {
			op := ws.OpContinuation
			if i == 0 {
				op = ws.OpBinary
			}
			stream = append(stream, clientFrame(op, at == len(f), f[last:at])...)
			if at < len(f) {
				stream = append(stream, clientFrame(ws.OpPing, true, []byte("between"))...)
			}
			last = at
		}
	}
	add(0)
	add(1)
	add(30)
	add(9, 2)
	add(7, 0, 4, 4, 10)
	stream = append(stream, clientFrame(ws.OpPong, true, nil)...)
	add(130)
	add(3, 1, 2, 3, 4, 5, 6)
	add(0)
	return stream, want
}

func TestAnySegmentationOfASocketGivesTheSameFrames(t *testing.T) {
	stream, want := socketStream()
	live := buf.Live()
	l := newLoop(&Engine{})
	check := func(cuts ...int) {
		t.Helper()
		f := newFrames()
		c := looseSocket(l, f.p)
		feed(c, stream, cuts...)
		if !slices.EqualFunc(f.got, want, bytes.Equal) {
			t.Fatalf("cuts %v: got %q", cuts, f.got)
		}
		if c.part != nil || c.stopping.Load() != nil || c.deadline.frame != 0 {
			t.Fatalf("cuts %v: the stream ends with a partial message, a deadline or a close: %v", cuts, c.stopping.Load())
		}
		release(c)
	}
	for i := range len(stream) {
		for j := i; j < len(stream); j += 13 {
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

func TestLargeMessagesSurviveAnySegmentation(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, trust := range []bool{false, true} {
		f := newFrames()
		f.p.TrustLength = trust
		c := looseSocket(newLoop(&Engine{}), f.p)
		var want [][]byte
		var stream []byte
		for _, n := range []int{200_000, 3, 4092, 65_531, 65_532, 1, 8192, testMax} {
			body := make([]byte, n)
			for i := range body {
				body[i] = byte(rng.Uint32())
			}
			whole := frame(string(body))
			want = append(want, whole)
			first := rng.IntN(len(whole))
			stream = append(stream, clientFrame(ws.OpBinary, false, whole[:first])...)
			stream = append(stream, clientFrame(ws.OpContinuation, true, whole[first:])...)
			want = append(want, whole)
			stream = append(stream, message(whole)...)
		}
		for len(stream) > 0 {
			n := min(len(stream), 1+rng.IntN(readBytes))
			c.receive(stream[:n])
			stream = stream[n:]
		}
		if !slices.EqualFunc(f.got, want, bytes.Equal) || c.stopping.Load() != nil {
			t.Errorf("trust %v: frames differ, close %v", trust, c.stopping.Load())
		}
		release(c)
	}
}

func TestAFaultOfASocketsPeerEndsItWithTheStatusThatFits(t *testing.T) {
	good := frame("good")
	header := func(b ...byte) []byte { return b }
	length := func(op byte, n uint64) []byte {
		return append(binary.BigEndian.AppendUint64([]byte{0x80 | op, 0x80 | 127}, n), 1, 2, 3, 4)
	}
	for name, c := range map[string]struct {
		input  []byte
		code   CloseCode
		status ws.StatusCode
	}{
		"a frame without mask":         {header(0x82, 0x01, 'x'), ProtocolError, 1002},
		"a reserved bit":               {header(0xc2, 0x81, 1, 2, 3, 4, 5), ProtocolError, 1002},
		"a reserved operation":         {header(0x83, 0x81, 1, 2, 3, 4, 5), ProtocolError, 1002},
		"a reserved control":           {header(0x8b, 0x80, 1, 2, 3, 4), ProtocolError, 1002},
		"a text message":               {clientFrame(ws.OpText, true, good), ProtocolError, 1003},
		"a ping in fragments":          {clientFrame(ws.OpPing, false, nil), ProtocolError, 1002},
		"a ping of 126 bytes":          {clientFrame(ws.OpPing, true, make([]byte, 126)), ProtocolError, 1002},
		"a ping of 2^62 bytes":         {length(9, 1<<62), ProtocolError, 1002},
		"a continuation of nothing":    {clientFrame(ws.OpContinuation, true, good), ProtocolError, 1002},
		"a message within a message":   {append(clientFrame(ws.OpBinary, false, good[:2]), message(good)...), ProtocolError, 1002},
		"an empty message":             {message(nil), ProtocolError, 1002},
		"a message of a prefix":        {message(good[:3]), ProtocolError, 1002},
		"a message that is too short":  {message(good[:7]), ProtocolError, 1002},
		"a message of two frames":      {message(append(good, good...)), ProtocolError, 1002},
		"fragments that are too short": {append(clientFrame(ws.OpBinary, false, good[:6]), clientFrame(ws.OpContinuation, true, good[6:7])...), ProtocolError, 1002},
		"fragments that are too long":  {append(clientFrame(ws.OpBinary, false, good[:6]), clientFrame(ws.OpContinuation, false, good[3:])...), ProtocolError, 1002},
		"a claim without end":          {append(length(2, 1<<63-1), good...), ProtocolError, 1002},
		"a negative claim":             {length(2, 1<<63), ProtocolError, 1002},
		"a long form of a short claim": {length(2, 8), ProtocolError, 1002},
		"a frame over the limit":       {message(prefix(testMax + 1)), FrameTooLarge, 1009},
		"fragments over the limit":     {clientFrame(ws.OpBinary, false, prefix(testMax+1)), FrameTooLarge, 1009},
		"a close frame of one byte":    {clientFrame(ws.OpClose, true, []byte{3}), ProtocolError, 1002},
		"a close frame of status 1005": {clientFrame(ws.OpClose, true, []byte{3, 0xed}), ProtocolError, 1002},
		"a close frame that is no text": {
			clientFrame(ws.OpClose, true, []byte{3, 0xe8, 0xff, 0xfe}), ProtocolError, 1002,
		},
		"a close frame of status 5000": {clientFrame(ws.OpClose, true, []byte{0x13, 0x88}), ProtocolError, 1002},
		"a close frame":                {clientFrame(ws.OpClose, true, nil), PeerClosed, 1000},
		"a close frame with words":     {clientFrame(ws.OpClose, true, append([]byte{0x0f, 0xa0}, "why"...)), PeerClosed, 4000},
	} {
		t.Run(name, func(t *testing.T) {
			for _, whole := range []bool{true, false} {
				live := buf.Live()
				f := newFrames()
				conn := looseSocket(newLoop(&Engine{}), f.p)
				stream := slices.Concat(message(good), message(good), c.input, message(good))
				if whole {
					feed(conn, stream)
				} else {
					for i := range stream {
						conn.receive([]byte{stream[i]})
					}
				}
				r := conn.stopping.Load()
				if r == nil || r.Code != c.code {
					t.Fatalf("closed with %v, want %v", r, c.code)
				}
				if len(f.got) != 2 {
					t.Errorf("%d frames came through, want the two before the fault", len(f.got))
				}
				if !conn.sayClose() || conn.ws.status != c.status {
					t.Errorf("the close frame has status %d, want %d", conn.ws.status, c.status)
				}
				release(conn)
				if n := buf.Live() - live; n != 0 {
					t.Errorf("%d buffers leaked", n)
				}
			}
		})
	}
}

func TestACloseFramesStatusFollowsTheReason(t *testing.T) {
	for code := range CloseCode(closeCodeCount) {
		want := ws.StatusNormalClosure
		switch code {
		case Draining, EngineClosed:
			want = ws.StatusGoingAway
		case ProtocolError:
			want = ws.StatusProtocolError
		case FrameTooLarge:
			want = ws.StatusMessageTooBig
		case Rejected, RateExceeded:
			want = ws.StatusPolicyViolation
		default:
		}
		if got := closeStatus(code); got != want {
			t.Errorf("%v: %d, want %d", code, got, want)
		}
	}
}

func TestAPingIsAnsweredWithItsPayload(t *testing.T) {
	c := looseSocket(newLoop(&Engine{}), newFrames().p)
	feed(c, slices.Concat(clientFrame(ws.OpPing, true, []byte("one")), clientFrame(ws.OpPing, true, nil)))
	g := &gather{scratch: make([]byte, readBytes)}
	if c.out.take() {
		c.out.gather(g, readBytes)
	}
	if got, want := g.scratch[:g.used], append([]byte{0x8a, 3}, "one\x8a\x00"...); !bytes.Equal(got, want) {
		t.Errorf("answers %x, want %x", got, want)
	}
	release(c)
}

// The deadline is that of the message's first byte: neither fragments nor pings renew it.
func TestAMessagesDeadlineIsNotRenewed(t *testing.T) {
	c := looseSocket(newLoop(&Engine{}), newFrames().p)
	whole := frame("a message in fragments")
	feed(c, clientFrame(ws.OpBinary, false, whole[:3])[:1])
	at := c.deadline.frame
	for _, next := range [][]byte{
		clientFrame(ws.OpBinary, false, whole[:3])[1:],
		clientFrame(ws.OpPing, true, []byte("alive")),
		clientFrame(ws.OpContinuation, false, whole[3:9]),
		clientFrame(ws.OpPong, true, nil)[:2],
	} {
		feed(c, next)
		if c.deadline.frame != at || at == 0 {
			t.Fatalf("the deadline is %d, and was %d", c.deadline.frame, at)
		}
	}
	feed(c, append(clientFrame(ws.OpPong, true, nil)[2:], clientFrame(ws.OpContinuation, true, whole[9:])...))
	if c.deadline.frame != 0 {
		t.Error("a whole message has a deadline")
	}
	release(c)
}

func TestPingsWithoutEndFillABoundedQueue(t *testing.T) {
	p := newFrames().p
	p.OutMax = 1
	c := looseSocket(newLoop(&Engine{}), p)
	ping := clientFrame(ws.OpPing, true, make([]byte, 125))
	for n := 0; c.stopping.Load() == nil; n++ {
		if n > ControlReserve {
			t.Fatal("no end")
		}
		feed(c, ping)
	}
	if r := c.stopping.Load(); r.Code != OutFull {
		t.Errorf("closed with %v", r)
	}
	release(c)
}

// What a claim says is not taken before bytes come.
func TestAMessagesClaimAllocatesNothing(t *testing.T) {
	p := newFrames().p
	claim := append(binary.BigEndian.AppendUint64([]byte{0x82, 0x80 | 127}, testMax+4), 0, 0, 0, 0)
	begun := append(bytes.Clone(claim), prefix(testMax)...)
	for name, input := range map[string][]byte{"header": claim, "header and prefix": begun} {
		c := looseSocket(newLoop(&Engine{}), p)
		feed(c, input)
		if r := c.stopping.Load(); r != nil {
			t.Fatalf("%s: closed with %v", name, r)
		}
		if c.part != nil && c.part.Cap() > partialStart*2 {
			t.Errorf("%s: %d bytes are taken for a claim", name, c.part.Cap())
		}
		release(c)
	}
}

func TestASocketBeforeAdmissionGetsOneFrameAtATime(t *testing.T) {
	f := newFrames()
	seen := 0
	f.p.FrameSize = func(b []byte, admitted bool) (int, error) {
		n, err := testFrameSize(b, true)
		if !admitted && n > 8 {
			return 0, ErrFrameTooLarge
		}
		return n, err
	}
	f.p.Handler.(*hooks).frame = func(c *Conn, _ []byte, _ *buf.Buf) error {
		c.admitted = true
		seen++
		return nil
	}
	c := looseSocket(newLoop(&Engine{}), f.p)
	c.admitted = false
	feed(c, slices.Concat(message(frame("hi")), message(frame("longer than eight"))))
	if r := c.stopping.Load(); r != nil || seen != 2 {
		t.Errorf("%d frames, %v", seen, r)
	}
	release(c)
}

func TestAMessageCarriesEachFormOfLength(t *testing.T) {
	for _, n := range []int{1, 2, 125, 126, appendMax - 4, appendMax - 3, appendMax, 0xffff, 0x10000, 200_000} {
		q := &outQueue{}
		body := bytes.Repeat([]byte{byte(n)}, n)
		if err := q.putMessage(buf.Copy([]byte("x")), 1<<30); err != nil {
			t.Fatal(err)
		}
		if err := q.putMessage(buf.Copy(body), 1<<30); err != nil {
			t.Fatal(err)
		}
		if err := q.putParts(buf.Copy(body), &parts{body: [][]byte{body, nil, body}, done: func(bool) {}}, true, 1<<30); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for step := 1; q.waits(); step += 7 { // each write takes as much as it likes
			g := &gather{scratch: make([]byte, readBytes)}
			q.gather(g, step)
			for i := range g.iov[:g.n] {
				out.Write(bytesOf(&g.iov[i]))
			}
			q.wrote(g.total)
		}
		if q.cost() != 0 {
			t.Errorf("size %d: %d are pending in the end", n, q.cost())
		}
		for _, want := range [][]byte{[]byte("x"), body, slices.Concat(body, body, body)} {
			h, payload, err := readSocket(&out)
			if err != nil || !h.Fin || h.OpCode != ws.OpBinary || !bytes.Equal(payload, want) {
				t.Fatalf("size %d: header %+v, %v, equal %v", n, h, err, bytes.Equal(payload, want))
			}
		}
		if out.Len() > 0 {
			t.Errorf("size %d: %d bytes too many", n, out.Len())
		}
	}
}

func TestASocketsQueueCountsHeadersAndIsBounded(t *testing.T) {
	q := &outQueue{}
	if err := q.putMessage(buf.Copy(make([]byte, 10)), 10+2+MessageCost); err != nil {
		t.Error(err)
	}
	if err := q.putMessage(buf.Copy([]byte("x")), 10+2+MessageCost); !errors.Is(err, ErrFull) {
		t.Errorf("over the bound: %v", err)
	}
	if got := q.cost(); got != 10+2+MessageCost {
		t.Errorf("%d pending", got)
	}
	q.drop().tell(false)
}
