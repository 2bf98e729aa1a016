package zlnode_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/zlnode/zlnode/session"
)

// stream is a client that speaks STREAM by hand, so that a test says exactly
// what is written, how, and when.
type stream struct {
	t    *testing.T
	conn *net.TCPConn
	in   []byte           // received and not yet taken
	held []session.Packet // that came before the pong of drained
}

// stream connects to the gateway.
func (s *stage) stream(t *testing.T) *stream {
	t.Helper()
	return dialStream(t, s.gateway.SessionAddrs()[0].String())
}

func dialStream(t *testing.T, addr string) *stream {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &stream{t: t, conn: conn.(*net.TCPConn)}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// frames encodes packets one behind the other.
func frames(t *testing.T, packets ...session.Packet) []byte {
	t.Helper()
	var b []byte
	var err error
	for i := range packets {
		if b, err = session.Append(b, &packets[i]); err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
	}
	return b
}

// write sends packets in one write.
func (c *stream) write(packets ...session.Packet) {
	c.t.Helper()
	c.writeBytes(frames(c.t, packets...))
}

func (c *stream) writeBytes(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next frame of any kind. The error is io.EOF at an orderly end.
func (c *stream) next() (session.Packet, error) {
	for {
		size, err := session.FrameSize(c.in, 0)
		if err != nil {
			return session.Packet{}, err
		}
		if size > 0 && size <= len(c.in) {
			frame := c.in[:size:size]
			c.in = c.in[size:]
			return session.Decode(frame)
		}
		var b [64 << 10]byte
		n, err := c.conn.Read(b[:])
		c.in = append(c.in, b[:n]...)
		if err != nil && n == 0 {
			if len(c.in) > 0 && errors.Is(err, io.EOF) {
				return session.Packet{}, io.ErrUnexpectedEOF
			}
			return session.Packet{}, err
		}
	}
}

// read returns the next packet that is no heartbeat. It answers pings.
func (c *stream) read() session.Packet {
	c.t.Helper()
	if len(c.held) > 0 {
		p := c.held[0]
		c.held = c.held[1:]
		return p
	}
	for {
		p, err := c.next()
		switch {
		case err != nil:
			c.t.Fatalf("no packet: %v", err)
		case p.Kind == session.KindControl && string(p.Name) == session.PingName:
			c.writeBytes(session.PongFrame())
		case p.Kind == session.KindControl && string(p.Name) == session.PongName:
		default:
			return p
		}
	}
}

// answer returns the Response or Error to that request, which must come next.
func (c *stream) answer(seq uint64) session.Packet {
	c.t.Helper()
	p := c.read()
	if p.Kind != session.KindResponse && p.Kind != session.KindError || p.Seq != seq {
		c.t.Fatalf("%v packet %q of request %d came, want the answer to %d", p.Kind, p.Name, p.Seq, seq)
	}
	return p
}

// drained returns when the server has taken everything that was written so far:
// it answers a ping behind it.
func (c *stream) drained() {
	c.t.Helper()
	c.writeBytes(session.PingFrame())
	for {
		p, err := c.next()
		if err != nil {
			c.t.Fatalf("no pong: %v", err)
		}
		if p.Kind != session.KindControl {
			c.held = append(c.held, p)
		} else if string(p.Name) == session.PongName {
			return
		}
	}
}

// ending is how a server ended a connection.
type ending struct {
	told    bool // by a session-closing frame, the last one
	reason  session.CloseReason
	diag    string
	orderly bool // the end of the stream, not a reset
	frames  int  // that were no Control
}

// end reads to the end of the connection.
func (c *stream) end() (e ending) {
	c.t.Helper()
	for {
		p, err := c.next()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				c.t.Fatal("the test closed the connection itself")
			}
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				c.t.Fatal("the server left the connection open")
			}
			e.orderly = errors.Is(err, io.EOF)
			return e
		}
		if p.Kind != session.KindControl {
			e.frames++
		} else if string(p.Name) == session.ClosingName {
			e.told = true
			if e.reason, e.diag, err = session.ParseClosing(&p); err != nil {
				c.t.Error(err)
			}
		}
	}
}

// send, request and jsonRequest make a client's packets.
func send(name, payload string) session.Packet {
	return session.Packet{Kind: session.KindSend, Codec: session.CodecJSON, Name: []byte(name), Payload: []byte(payload)}
}

func request(seq uint64, name, payload string) session.Packet {
	p := send(name, payload)
	p.Kind, p.Seq = session.KindRequest, seq
	return p
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
