package client_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a small STREAM server on a real socket. Every connection is handed
// to handle on a goroutine of its own; the test waits for all of them.
type server struct {
	listener net.Listener
	addr     string
	handlers sync.WaitGroup
}

func newServer(tb testing.TB, handle func(p *peer)) *server {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &server{listener: listener, addr: listener.Addr().String()}
	s.handlers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.handlers.Go(func() {
				p := newPeer(conn)
				defer p.conn.Close()
				handle(p)
			})
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		s.handlers.Wait()
	})
	return s
}

// peer is the server's end of one connection.
type peer struct {
	conn net.Conn
	in   *bufio.Reader
}

func newPeer(conn net.Conn) *peer { return &peer{conn: conn, in: bufio.NewReader(conn)} }

// readFrame reads one whole frame.
func (p *peer) readFrame() ([]byte, error) {
	prefix, err := p.in.Peek(session.PrefixSize)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, session.PrefixSize+int(binary.BigEndian.Uint16(prefix))+int(binary.BigEndian.Uint32(prefix[2:])))
	_, err = io.ReadFull(p.in, frame)
	return frame, err
}

// read returns the next packet that is no heartbeat.
func (p *peer) read() (session.Packet, error) {
	for {
		frame, err := p.readFrame()
		if err != nil {
			return session.Packet{}, err
		}
		packet, err := session.Decode(frame)
		if err != nil {
			return session.Packet{}, err
		}
		if !isHeartbeat(&packet) {
			return packet, nil
		}
	}
}

func isHeartbeat(p *session.Packet) bool {
	return string(p.Name) == session.PingName || string(p.Name) == session.PongName
}

// mustRead is read for tests that drive a connection step by step.
func (p *peer) mustRead(tb testing.TB) session.Packet {
	tb.Helper()
	packet, err := p.read()
	if err != nil {
		tb.Fatalf("the server reads: %v", err)
	}
	return packet
}

func (p *peer) write(frame []byte) error {
	_, err := p.conn.Write(frame)
	return err
}

func (p *peer) mustWrite(tb testing.TB, frames ...[]byte) {
	tb.Helper()
	for _, frame := range frames {
		if err := p.write(frame); err != nil {
			tb.Fatalf("the server writes: %v", err)
		}
	}
}

// drain reads until the client has closed, and returns the packets.
func (p *peer) drain(tb testing.TB) []session.Packet {
	tb.Helper()
	var all []session.Packet
	for {
		packet, err := p.read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			tb.Fatalf("the server reads: %v", err)
		}
		all = append(all, packet)
	}
}

func encode(p *session.Packet) []byte {
	frame, err := session.Append(nil, p)
	if err != nil {
		panic(err)
	}
	return frame
}

func push(name, payload string) []byte {
	return encode(&session.Packet{Kind: session.KindSend, Name: []byte(name), Payload: []byte(payload)})
}

func replyTo(req *session.Packet, payload []byte) []byte {
	p := session.ResponseTo(req)
	p.Codec, p.Payload = req.Codec, payload
	return encode(&p)
}

func errorTo(req *session.Packet, kind errkind.Kind, message string) []byte {
	frame, err := session.AppendError(nil, req, kind, message)
	if err != nil {
		panic(err)
	}
	return frame
}

// echo answers every request with its own payload, except those named "fail".
func echo(p *peer) {
	for {
		req, err := p.read()
		if err != nil {
			return
		}
		if req.Kind != session.KindRequest {
			continue
		}
		reply := replyTo(&req, req.Payload)
		if string(req.Name) == "fail" {
			reply = errorTo(&req, errkind.Rejected, "not today")
		}
		if p.write(reply) != nil {
			return
		}
	}
}

// silent reads everything and answers nothing.
func silent(p *peer) { _, _ = io.Copy(io.Discard, p.in) }

// dial connects to the server and closes the client with the test.
func (s *server) dial(tb testing.TB, o client.Options) *client.Client {
	tb.Helper()
	o.Addr = s.addr
	c, err := client.Dial(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeAndWait(c) })
	return c
}

func closeAndWait(c *client.Client) {
	_ = c.Close()
	<-c.Done()
}

// pipe gives tests in a synctest bubble the server's end of every connection
// that a client makes: no socket, so that time stands still while all wait.
type pipe struct{ dialled chan *peer }

func newPipe() *pipe { return &pipe{dialled: make(chan *peer, 16)} }

func (p *pipe) dial(tb testing.TB, o client.Options) (*client.Client, *peer) {
	tb.Helper()
	o.Addr, o.Dialer = "pipe", p.dialler
	c, err := client.Dial(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	return c, <-p.dialled
}

func (p *pipe) dialler(context.Context, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.dialled <- newPeer(far)
	return near, nil
}

// outcome is the result of a request made on another goroutine.
type outcome struct {
	message *client.Message
	err     error
}

// request runs c.RequestCall on a goroutine.
func request(c *client.Client, ctx context.Context, call client.Call) <-chan outcome {
	result := make(chan outcome, 1)
	go func() {
		m, err := c.RequestCall(ctx, call)
		result <- outcome{m, err}
	}()
	return result
}

// checkKind fails the test unless err is of that kind and is target.
func checkKind(tb testing.TB, err error, kind client.Kind, target error) {
	tb.Helper()
	if got, ok := client.KindOf(err); !ok || got != kind {
		tb.Errorf("error %v is of kind %v, want %v", err, got, kind)
	}
	if target != nil && !errors.Is(err, target) {
		tb.Errorf("error %v is not %v", err, target)
	}
}
