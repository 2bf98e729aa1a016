package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/zlnode/zlnode/internal/buf"
)

func TestAMessageAloneIsWrittenByItsSender(t *testing.T) {
	e := start(t, 1)
	connect := accept(t, e, testProtocol(&hooks{}))
	c, client := connect()
	other, _ := connect()
	passLoop(t, c)
	release := holdLoop(t, other)
	defer release()
	before := e.Stats()
	for _, body := range []string{"first", "second", string(make([]byte, 5<<10))} {
		if err := c.SendAlone(buf.Copy(frame(body))); err != nil {
			t.Fatal(err)
		}
		if got := readFrame(t, client); got != body {
			t.Fatalf("%d bytes came, sent were %d", len(got), len(body))
		}
	}
	after := e.Stats()
	if wakes, writes := after.Wakes-before.Wakes, after.Writes-before.Writes; wakes != 0 || writes != 3 {
		t.Errorf("%d wake-ups and %d writes for 3 messages, while the loop did nothing", wakes, writes)
	}
	if n := c.Pending(); n != 0 {
		t.Errorf("%d pending of what was written", n)
	}
}

func TestAMessageAloneComesBehindWhatIsQueued(t *testing.T) {
	e := start(t, 1)
	connect := accept(t, e, testProtocol(&hooks{}))
	c, client := connect()
	other, _ := connect()
	release := holdLoop(t, other)
	mustSend(t, c, buf.Copy(frame("queued")))
	if err := c.SendAlone(buf.Copy(frame("alone"))); err != nil {
		t.Fatal(err)
	}
	release()
	if first, second := readFrame(t, client), readFrame(t, client); first != "queued" || second != "alone" {
		t.Errorf("%q came before %q", first, second)
	}
}

func TestWhatTheSocketDoesNotTakeOfAMessageAloneGoesOutLater(t *testing.T) {
	e := start(t, 1)
	p := testProtocol(&hooks{})
	p.OutMax = 16 << 20
	c, client := accept(t, e, p)()
	passLoop(t, c)
	message := bytes.Repeat([]byte("0123456789abcdef"), 8<<20/16)
	if err := c.SendAlone(buf.Copy(message)); err != nil {
		t.Fatal(err)
	}
	if err := c.SendAlone(buf.Copy([]byte("end"))); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(message)+3)
	if _, err := io.ReadFull(client, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got[:len(message)], message) || string(got[len(message):]) != "end" {
		t.Error("the stream differs from what was sent")
	}
}

func TestWhoWritesTellsTheDrainer(t *testing.T) {
	e := start(t, 1)
	p, d := drainable(&hooks{})
	c, client := accept(t, e, p)()
	for range 500 {
		if err := c.SendAlone(buf.Copy(frame("x"))); err != nil {
			t.Fatal(err)
		}
		c.NotifyBelow(0)
		receive(t, d.calls, "the call")
		readFrame(t, client)
	}
}

// The loop reads and answers all the while, so that it meets writers in all their states.
func TestSendersOfBothKindsKeepTheirOrderBesideALoopThatReads(t *testing.T) {
	const senders, each, pings = 8, 2000, 4000
	e := start(t, 1)
	c, client := accept(t, e, testProtocol(&hooks{frame: echo}))()
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			send := c.Send
			if s%2 == 0 {
				send = c.SendAlone
			}
			for i := range each {
				m := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8}, uint32(s))
				if err := send(buf.Copy(binary.BigEndian.AppendUint32(m, uint32(i)))); err != nil {
					t.Error(err)
					return
				}
				if i%8 == 0 {
					runtime.Gosched() // else the queue is hardly ever empty
				}
			}
		})
	}
	wg.Go(func() {
		for i := range pings {
			m := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 8}, senders)
			write(t, client, binary.BigEndian.AppendUint32(m, uint32(i)))
		}
	})
	var next [senders + 1]uint32
	for range senders*each + pings {
		m := []byte(readFrame(t, client))
		s, i := binary.BigEndian.Uint32(m), binary.BigEndian.Uint32(m[4:])
		if s > senders || i != next[s] {
			t.Fatalf("of sender %d came %d, want %d", s, i, next[s])
		}
		next[s]++
	}
	wg.Wait()
}

func TestSendersWhoWriteLeaveNothingBehindWhenTheConnectionEnds(t *testing.T) {
	h := &hooks{closes: make(chan CloseReason, 1)}
	e := start(t, 1)
	connect := accept(t, e, testProtocol(h))
	for i := range 60 {
		c, client := connect()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for !errors.Is(c.SendAlone(buf.Copy([]byte("x"))), ErrClosed) {
					runtime.Gosched()
				}
			})
		}
		wg.Go(func() {
			_, _ = io.Copy(io.Discard, client)
			_ = client.Close()
		})
		switch i % 3 {
		case 0:
			_ = client.SetLinger(0)
			_ = client.Close()
		case 1:
			c.Abort(CloseReason{})
		case 2:
			c.Close(CloseReason{})
		}
		receive(t, h.closes, "the close")
		wg.Wait()
		if err := c.SendAlone(buf.Copy([]byte("x"))); !errors.Is(err, ErrClosed) {
			t.Errorf("SendAlone after OnClose: %v", err)
		}
	}
}

func TestAMessageAloneOverTLSIsEncrypted(t *testing.T) {
	e := start(t, 1)
	p := testProtocol(&hooks{frame: func(c *Conn, b []byte, _ *buf.Buf) error {
		reply := buf.Copy(b)
		go func() { _ = c.SendAlone(reply) }()
		return nil
	}})
	addr, cfg := secureListen(t, e, Listen{Transport: TLS, Protocol: p})
	c := dialTLS(t, addr, cfg)
	write(t, c, frame("ping"))
	if got := readFrame(t, c); got != "ping" {
		t.Errorf("got %q", got)
	}
}
