package client_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

// lossWatch collects what OnState tells.
type lossWatch struct{ lost chan error }

func watchLoss(o client.Options) (client.Options, lossWatch) {
	w := lossWatch{lost: make(chan error, 1)}
	o.OnState = func(s client.State, err error) {
		if s == client.StateDisconnected {
			w.lost <- err
		}
	}
	return o, w
}

func TestALostConnectionEndsWhatWasUnderWayAndEverythingAfter(t *testing.T) {
	s := newServer(t, func(p *peer) { _, _ = p.read() })
	o, w := watchLoss(client.Options{})
	c := s.dial(t, o)
	_, err := c.Request(t.Context(), "a", nil)
	checkKind(t, err, client.Unavailable, client.ErrDisconnected)
	if cause := <-w.lost; !errors.Is(cause, io.EOF) && !errors.Is(cause, net.ErrClosed) && !isReset(cause) {
		t.Errorf("cause %v", cause)
	}
	<-c.Done()
	checkKind(t, c.Send(t.Context(), "b", nil), client.Unavailable, client.ErrDisconnected)
	_, err = c.Request(t.Context(), "b", nil)
	checkKind(t, err, client.Unavailable, client.ErrDisconnected)
	checkKind(t, c.RequestFunc(client.Call{Name: "b"}, func(*client.Message, error) { t.Error("done was called") }),
		client.Unavailable, client.ErrDisconnected)
}

func isReset(err error) bool { return err != nil && strings.Contains(err.Error(), "reset by peer") }

func TestTheServersReasonForClosingIsKept(t *testing.T) {
	s := newServer(t, func(p *peer) {
		if _, err := p.read(); err == nil {
			_ = p.write(session.AppendClosing(nil, session.ServerDrain, "maintenance"))
			silent(p)
		}
	})
	o, w := watchLoss(client.Options{})
	c := s.dial(t, o)
	_, err := c.Request(t.Context(), "a", nil)
	checkKind(t, err, client.Unavailable, client.ErrDisconnected)
	for _, err := range []error{err, <-w.lost, c.Send(t.Context(), "b", nil)} {
		closed, ok := errors.AsType[*client.ClosedError](err)
		if !ok || closed.Reason != session.ServerDrain || closed.Diag != "maintenance" {
			t.Errorf("%v does not carry the reason", err)
		}
	}
}

func TestAServerThatBreaksTheProtocolIsLeft(t *testing.T) {
	prefix := func(header uint16, payload uint32) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, header), payload)
	}
	for name, frame := range map[string][]byte{
		"malformed frame":     append(prefix(5, 0), 0xF1, 1, 0, 0, 0),
		"header too short":    prefix(4, 0),
		"frame over MaxFrame": prefix(6, 1<<20),
		"a request":           encode(&session.Packet{Kind: session.KindRequest, Name: []byte("x"), Seq: 1}),
		"unknown control":     encode(&session.Packet{Kind: session.KindControl, Name: []byte("later")}),
		"bad compression":     encode(&session.Packet{Kind: session.KindSend, Name: []byte("x"), Compressed: true, Payload: []byte{0xff}}),
		"bomb":                encode(&session.Packet{Kind: session.KindSend, Name: []byte("x"), Compressed: true, Payload: append([]byte{0xC0, 0, 0, 32, 0}, make([]byte, 9000)...)}),
		"bad error body":      encode(&session.Packet{Kind: session.KindError, Seq: 1, Codec: session.CodecJSON, Payload: []byte("{}")}),
		"bad reply payload":   encode(&session.Packet{Kind: session.KindResponse, Seq: 1, Compressed: true, Payload: []byte{0xff}}),
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, func(p *peer) {
				if _, err := p.read(); err == nil && p.write(frame) == nil {
					silent(p)
				}
			})
			o, w := watchLoss(client.Options{OnPush: func(m *client.Message) { t.Errorf("OnPush got %+v", m) }})
			_, err := s.dial(t, o).Request(t.Context(), "a", nil)
			checkKind(t, err, client.Unavailable, client.ErrProtocol)
			if cause := <-w.lost; !errors.Is(cause, client.ErrProtocol) {
				t.Errorf("cause %v", cause)
			}
		})
	}
}

func TestASilentServerIsLeftAfterTheSilenceTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, w := watchLoss(client.Options{})
		began := time.Now()
		c, p := newPipe().dial(t, o)
		defer closeAndWait(c)
		pings := 0
		for {
			frame, err := p.readFrame()
			if err != nil {
				break
			}
			if string(frame) == string(session.PingFrame()) {
				pings++
			}
		}
		if cause := <-w.lost; !errors.Is(cause, client.ErrSilent) {
			t.Errorf("cause %v", cause)
		}
		if took := time.Since(began); took != client.DefaultSilenceTimeout {
			t.Errorf("left after %v", took)
		}
		if pings != 4 {
			t.Errorf("%d pings in 5 s, want one after each of the first 4", pings)
		}
	})
}

func TestAServerThatOnlyAnswersPingsIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := watchLoss(client.Options{})
		c, p := newPipe().dial(t, o)
		for range 100 {
			frame, err := p.readFrame()
			if err != nil || string(frame) != string(session.PingFrame()) {
				t.Fatalf("%x, %v", frame, err)
			}
			p.mustWrite(t, session.PongFrame())
		}
		p.mustWrite(t, session.PingFrame())
		if frame, err := p.readFrame(); err != nil || string(frame) != string(session.PongFrame()) {
			t.Errorf("a ping was answered with %x, %v", frame, err)
		}
		p.conn.Close()
		closeAndWait(c)
	})
}

// The server goes on sending and stops reading: what it sends must not keep the
// connection for ever, and senders learn of it.
func TestAServerThatDoesNotReadIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, w := watchLoss(client.Options{OutQueueBytes: 1 << 10})
		c, p := newPipe().dial(t, o)
		defer closeAndWait(c)
		var sending sync.WaitGroup
		sending.Go(func() {
			for p.write(session.PongFrame()) == nil {
				<-time.After(time.Second)
			}
		})
		if err := c.Send(t.Context(), "taken by the queue", make([]byte, 900)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		checkKind(t, c.Send(t.Context(), "no room", make([]byte, 900)), client.DeadlineExceeded, client.ErrSendTimeout)
		if took := time.Since(began); took != client.DefaultSendTimeout {
			t.Errorf("a send waited %v for room", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		checkKind(t, c.Send(ctx, "no room", make([]byte, 900)), client.DeadlineExceeded, context.DeadlineExceeded)
		err := c.RequestFunc(client.Call{Name: "no room", Payload: make([]byte, 900)}, func(*client.Message, error) { t.Error("done was called") })
		checkKind(t, err, client.CapacityExceeded, client.ErrQueueFull)

		if cause := <-w.lost; !errors.Is(cause, client.ErrSilent) {
			t.Errorf("cause %v", cause)
		}
		if took := time.Since(began); took > client.DefaultSilenceTimeout+time.Second {
			t.Errorf("left after %v", took)
		}
		p.conn.Close()
		sending.Wait()
	})
}

func TestASendThatWaitsGoesOnWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPipe().dial(t, client.Options{OutQueueBytes: 1 << 10})
		sent := make(chan error)
		go func() {
			for range 5 {
				sent <- c.Send(t.Context(), "s", make([]byte, 900))
			}
		}()
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case err := <-sent:
			t.Fatalf("the second send did not wait: %v", err)
		default:
		}
		for range 4 {
			p.mustRead(t)
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
		p.mustRead(t)
		p.conn.Close()
		closeAndWait(c)
	})
}

// Room comes back with every piece that is written, not with the whole batch.
func TestRoomComesBackWhileABatchIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const frame = 50 << 10
		c, p := newPipe().dial(t, client.Options{OutQueueBytes: 5 * frame})
		send := func() {
			if err := c.Send(t.Context(), "s", make([]byte, frame-100)); err != nil {
				t.Error(err)
			}
		}
		send()
		synctest.Wait() // the writer has the first one and blocks
		for range 4 {
			send()
		}
		p.mustRead(t)
		synctest.Wait() // the writer has all others as one batch
		send()
		var waiting sync.WaitGroup
		waiting.Go(send)
		synctest.Wait()
		p.mustRead(t)
		p.mustRead(t) // more than one piece of the batch, less than all
		waiting.Wait()
		for range 4 {
			p.mustRead(t)
		}
		p.conn.Close()
		closeAndWait(c)
	})
}

// deafConn is a connection whose server has gone: it takes nothing more, but
// what it sent before can still be read.
type deafConn struct{ net.Conn }

var errDeaf = errors.New("broken pipe")

func (deafConn) Write([]byte) (int, error) { return 0, errDeaf }

func TestAServersLastWordIsHeardAfterAWriteFailed(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		told  bool
	}{
		"in time": {150 * time.Millisecond, true},
		"never":   {time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lines := newPipe()
				o, w := watchLoss(client.Options{Addr: "pipe", HeartbeatInterval: 40 * time.Millisecond})
				o.Dialer = func(ctx context.Context, addr string) (net.Conn, error) {
					near, err := lines.dialler(ctx, addr)
					return deafConn{near}, err
				}
				conn, err := client.Dial(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				defer closeAndWait(conn)
				p := <-lines.dialled
				if err := conn.Send(t.Context(), "a", nil); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				select {
				case <-time.After(c.after):
					p.mustWrite(t, session.AppendClosing(nil, session.IdleTimeout, ""))
				case <-conn.Done():
				}
				cause := <-w.lost
				if _, told := errors.AsType[*client.ClosedError](cause); told != c.told || !told && !errors.Is(cause, errDeaf) {
					t.Errorf("cause %v", cause)
				}
				if took := time.Since(began); took > 200*time.Millisecond {
					t.Errorf("left after %v", took)
				}
			})
		})
	}
}

// Whoever waits for room when the connection ends is told so.
func TestASendThatWaitsEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPipe().dial(t, client.Options{OutQueueBytes: 1 << 10, SendTimeout: time.Hour})
		defer closeAndWait(c)
		if err := c.Send(t.Context(), "s", make([]byte, 900)); err != nil {
			t.Fatal(err)
		}
		result := request(c, t.Context(), client.Call{Name: "r", Payload: make([]byte, 900)})
		synctest.Wait()
		p.conn.Close()
		checkKind(t, (<-result).err, client.Unavailable, client.ErrDisconnected)
	})
}

func TestDialSaysWhatDoesNotWork(t *testing.T) {
	refused := errors.New("refused")
	_, err := client.Dial(t.Context(), client.Options{Addr: "nowhere", Dialer: func(context.Context, string) (net.Conn, error) {
		return nil, refused
	}})
	checkKind(t, err, client.Unavailable, refused)
	if !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%v does not name the address", err)
	}
	for field, o := range map[string]client.Options{
		"Addr":              {},
		"RequestTimeout":    {Addr: "a", RequestTimeout: -1},
		"SendTimeout":       {Addr: "a", SendTimeout: -1},
		"DialTimeout":       {Addr: "a", DialTimeout: -1},
		"BackoffMin":        {Addr: "a", BackoffMin: 2, BackoffMax: 1},
		"BackoffMax":        {Addr: "a", BackoffMax: -1},
		"MaxFrame":          {Addr: "a", MaxFrame: -1},
		"Addrs[1]":          {Addrs: []string{"a", "http://b"}},
		"ReconnectAttempts": {Addr: "a", ReconnectAttempts: -1},
		"CompressMin":       {Addr: "a", CompressMin: -1},
		"MaxPending":        {Addr: "a", MaxPending: -1},
		"OutQueueBytes":     {Addr: "a", OutQueueBytes: -1},
		"HeartbeatInterval": {Addr: "a", HeartbeatInterval: time.Second, SilenceTimeout: time.Second},
	} {
		if _, err := client.Dial(t.Context(), o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("bad %s: %v", field, err)
		}
	}
}

func TestManyConnectionsLeaveNothingBehind(t *testing.T) {
	s := newServer(t, echo)
	for range 200 {
		c, err := client.Dial(t.Context(), client.Options{Addr: s.addr})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Request(t.Context(), "echo", nil); err != nil {
			t.Fatal(err)
		}
		closeAndWait(c)
	}
}
