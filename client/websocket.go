package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"

	"github.com/zlnode/zlnode/internal/closeframe"
	"github.com/zlnode/zlnode/session"
)

const (
	// upgradeMax bounds the server's answer to the WebSocket handshake, in bytes.
	upgradeMax = 8 << 10
	// wsInbox is the buffer for WebSocket headers, control frames and what comes
	// with them; it holds the largest control frame many times over.
	wsInbox = 4 << 10
	// wsPiece bounds one write to the connection below, and with it the buffer in
	// which frames are masked.
	wsPiece = 16 << 10
	// wsSmall is a Write, such as a heartbeat's alone, after which a large buffer is
	// given up.
	wsSmall = 1 << 10
	// lastWord is how long Close tries to send a close frame.
	lastWord = 100 * time.Millisecond
)

// StatusError is the status with which a server closed a WebSocket, if it sent no
// session-closing before. Cause of a lost connection.
type StatusError struct {
	Code uint16 // 1000 and so on, RFC 6455 section 7.4; 1005: the server gave none
	Text string // for logs; may be empty
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the server closed the WebSocket with status %d %q", e.Code, e.Text)
}

// What a server must not do on a WebSocket.
var (
	errNotOneFrame = errors.New("a WebSocket message is not exactly one frame")
	errTextMessage = errors.New("a WebSocket message is text")
	errMessageSize = errors.New("a WebSocket message is over MaxFrame")
)

// wsConn is a WebSocket as the byte stream that links are made for: Read gives
// the payloads of binary messages one after the other, Write takes whole STREAM
// frames, in any pieces, and makes each one a message.
//
// Like a link it has one reader and one writer, which may be two goroutines.
// Nothing is written but by Write, CloseWrite and Close: the reader, which must
// not wait for the server to take anything, leaves pongs to the writer and calls
// wake. A message that is not exactly one frame breaks the protocol. No length
// that the server claims makes it take memory.
//
// A deadline that passes while a write is under way ends all writing, since the
// server has a part of a frame then; one that passes in a read does no harm.
type wsConn struct {
	net.Conn // below: TCP or TLS
	frameMax int
	wake     func() // a control frame waits for Write; set before the first Read

	// Reader only.
	in         []byte // start to end is not taken yet
	start, end int
	parser     bytes.Reader
	room       [ws.MaxHeaderSize]byte
	state      ws.State
	left       int64 // of the data frame's payload
	final      bool  // the data frame is its message's last
	message    oneFrame
	broken     error // what every further Read returns

	owed struct { // what the reader leaves to the writer
		sync.Mutex
		pong []byte // nil: none
	}
	status atomic.Uint32 // for the close frame

	write struct {
		sync.Mutex
		out    sink
		head   []byte // of a frame whose length is not known yet
		left   int    // bytes of the begun message that are not written
		mask   [4]byte
		offset int // in the message, for the mask
		room   [ws.MaxHeaderSize]byte
		shut   bool // nothing can follow: a close frame went out or a write failed
	}
}

// openWebSocket does the client's handshake on conn within ctx.
func openWebSocket(ctx context.Context, conn net.Conn, u *url.URL, frameMax int) (*wsConn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	answer := io.LimitedReader{R: conn, N: upgradeMax}
	early, _, err := ws.Dialer{}.Upgrade(struct {
		io.Reader
		io.Writer
	}{&answer, conn}, u)
	switch {
	case !stop():
		return nil, ctx.Err()
	case err != nil && answer.N <= 0:
		return nil, fmt.Errorf("the answer to the WebSocket handshake is over %d bytes", upgradeMax)
	case err != nil:
		return nil, fmt.Errorf("WebSocket handshake: %w", err)
	}
	c := &wsConn{Conn: conn, frameMax: frameMax, state: ws.StateClientSide, in: make([]byte, wsInbox), wake: func() {}}
	c.status.Store(uint32(ws.StatusNormalClosure))
	if early != nil {
		c.in = make([]byte, max(wsInbox, early.Buffered()))
		c.end, err = io.ReadFull(early, c.in[:early.Buffered()])
		ws.PutReader(early)
	}
	return c, err
}

// Read implements net.Conn. Once the server broke the protocol or closed, every
// Read returns that: ErrProtocol or a *StatusError.
func (c *wsConn) Read(p []byte) (int, error) {
	for {
		n := c.takeBuffered(p)
		switch {
		case n > 0 || len(p) == 0:
			return n, nil
		case c.broken != nil:
			return 0, c.broken
		}
		if room := min(c.left, int64(len(p))); room >= wsInbox { // not by way of the buffer
			n, err := c.Conn.Read(p[:room])
			if n == 0 && err != nil {
				return 0, err
			}
			if c.passed(p[:n]) {
				return n, nil
			}
			return 0, c.broken
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
}

// takeBuffered moves payload to p until it is full or the buffer has no more.
func (c *wsConn) takeBuffered(p []byte) (n int) {
	for n < len(p) && c.broken == nil {
		if c.left == 0 {
			if !c.takeHeader() {
				break
			}
			continue
		}
		b := p[n:]
		b = b[:copy(b[:min(int64(len(b)), c.left)], c.in[c.start:c.end])]
		if len(b) == 0 {
			break
		}
		c.start += len(b)
		if !c.passed(b) {
			break
		}
		n += len(b)
	}
	return n
}

// fill reads more into the buffer, which has room: what can wait there is the
// beginning of a header or of a control frame.
func (c *wsConn) fill() error {
	c.end = copy(c.in, c.in[c.start:c.end])
	c.start = 0
	n, err := c.Conn.Read(c.in[c.end:])
	c.end += n
	if n > 0 {
		return nil // an error comes again
	}
	return err
}

// passed takes note of payload on its way to the caller, or reports false if the
// message cannot be one frame.
func (c *wsConn) passed(b []byte) bool {
	c.left -= int64(len(b))
	err := c.message.add(b, c.frameMax)
	if err == nil && c.left == 0 && c.final {
		err = c.message.end()
	}
	return c.keep(err)
}

// keep breaks the connection if err is one, and reports whether it is whole.
func (c *wsConn) keep(err error) bool {
	if err == nil {
		return true
	}
	if _, closed := errors.AsType[*StatusError](err); !closed {
		err = fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	c.broken = err
	return false
}

// takeHeader takes the header of a data frame or a whole control frame from the
// buffer. It reports false if that is not complete there, or broke the rules.
func (c *wsConn) takeHeader() bool {
	c.parser.Reset(c.in[c.start:c.end])
	h, err := ws.ReadHeaderBuffer(&c.parser, c.room[:0])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	if err == nil {
		err = ws.CheckHeader(h, c.state)
	}
	if err != nil {
		return c.keep(err)
	}
	rest := c.in[c.start+ws.HeaderSize(h) : c.end]
	if h.OpCode.IsControl() {
		if int64(len(rest)) < h.Length {
			return false
		}
		c.start += ws.HeaderSize(h) + int(h.Length)
		return c.keep(c.takeControl(h.OpCode, rest[:h.Length]))
	}
	switch {
	case h.OpCode == ws.OpText:
		return c.keep(errTextMessage)
	case h.Length > int64(c.frameMax+session.PrefixSize-c.message.got):
		return c.keep(errMessageSize)
	}
	c.start += ws.HeaderSize(h)
	c.left, c.final = h.Length, h.Fin
	if c.final {
		c.state = c.state.Clear(ws.StateFragmented)
	} else {
		c.state = c.state.Set(ws.StateFragmented)
	}
	if c.final && c.left == 0 {
		return c.keep(c.message.end())
	}
	return true
}

func (c *wsConn) takeControl(op ws.OpCode, body []byte) error {
	switch op {
	case ws.OpPing:
		c.owed.Lock()
		c.owed.pong = append(make([]byte, 0, len(body)), body...)
		c.owed.Unlock()
		c.wake()
	case ws.OpClose:
		code, text, err := closeframe.Read(body)
		if err != nil {
			return err
		}
		return &StatusError{Code: uint16(code), Text: text}
	default: // a pong, which nobody asked for
	}
	return nil
}

// oneFrame sees to it that a message is one STREAM frame.
type oneFrame struct {
	prefix    [session.PrefixSize]byte
	got, want int // bytes; want 0: not known yet
}

func (f *oneFrame) add(b []byte, frameMax int) error {
	if f.got < len(f.prefix) {
		copy(f.prefix[f.got:], b)
	}
	f.got += len(b)
	if f.want == 0 && f.got >= len(f.prefix) {
		var err error
		if f.want, err = session.FrameSize(f.prefix[:], frameMax); err != nil {
			return err
		}
	}
	if f.want > 0 && f.got > f.want {
		return errNotOneFrame
	}
	return nil
}

func (f *oneFrame) end() error {
	whole := f.want > 0 && f.got == f.want
	f.got, f.want = 0, 0
	if !whole {
		return errNotOneFrame
	}
	return nil
}

// sink is a bytes.Buffer that grows no further than it must.
type sink []byte

func (s *sink) Write(p []byte) (int, error) {
	*s = append(*s, p...)
	return len(p), nil
}

// Write implements net.Conn: p goes on with the frames where the last Write left
// off. Without bytes it writes what the reader owes. It does not keep or change p.
func (c *wsConn) Write(p []byte) (int, error) {
	w := &c.write
	w.Lock()
	defer w.Unlock()
	if w.shut {
		return 0, net.ErrClosed
	}
	c.appendOwed()
	for rest := p; len(rest) > 0; {
		if w.left == 0 {
			n := min(session.PrefixSize-len(w.head), len(rest))
			w.head = append(w.head, rest[:n]...)
			rest = rest[n:]
			if len(w.head) < session.PrefixSize {
				break
			}
			size, err := session.FrameSize(w.head, 0)
			if err != nil { // p is not what Write is for
				w.shut = true
				return 0, err
			}
			c.appendHeader(ws.OpBinary, size)
			w.left = size
			c.appendMasked(w.head)
			w.head = w.head[:0]
		}
		n := min(w.left, len(rest), wsPiece)
		c.appendMasked(rest[:n])
		rest = rest[n:]
		if len(w.out) >= wsPiece {
			if err := c.flush(); err != nil {
				return 0, err
			}
		}
	}
	if err := c.flush(); err != nil {
		return 0, err
	}
	if len(p) <= wsSmall && cap(w.out) > wsInbox {
		w.out = nil
	}
	return len(p), nil
}

// appendHeader begins a frame. The caller holds the write lock.
func (c *wsConn) appendHeader(op ws.OpCode, size int) {
	w := &c.write
	w.mask, w.offset = ws.NewMask(), 0
	h := ws.Header{Fin: true, OpCode: op, Masked: true, Mask: w.mask, Length: int64(size)}
	_ = ws.WriteHeaderBuffer(&w.out, h, w.room[:]) // memory takes everything
}

// appendMasked goes on with the payload of the frame.
func (c *wsConn) appendMasked(b []byte) {
	w := &c.write
	at := len(w.out)
	w.out = append(w.out, b...)
	ws.Cipher(w.out[at:], w.mask, w.offset)
	w.offset += len(b)
	w.left -= len(b)
}

// appendOwed appends a pong that is due, between two frames.
func (c *wsConn) appendOwed() {
	if c.write.left > 0 {
		return
	}
	c.owed.Lock()
	pong := c.owed.pong
	c.owed.pong = nil
	c.owed.Unlock()
	if pong != nil {
		c.appendControl(ws.OpPong, pong)
	}
}

func (c *wsConn) appendControl(op ws.OpCode, body []byte) {
	c.appendHeader(op, len(body))
	c.appendMasked(body)
	c.write.left = 0
}

// flush writes what has gathered.
func (c *wsConn) flush() error {
	w := &c.write
	if len(w.out) == 0 {
		return nil
	}
	_, err := c.Conn.Write(w.out)
	w.out = w.out[:0]
	w.shut = w.shut || err != nil
	return err
}

// CloseWrite sends a close frame, after which nothing can be written. The server
// answers it by closing.
func (c *wsConn) CloseWrite() error {
	c.write.Lock()
	defer c.write.Unlock()
	return c.sayClose()
}

// sayClose sends the close frame unless nothing can follow what was written. The
// caller holds the write lock.
func (c *wsConn) sayClose() error {
	w := &c.write
	if w.shut || w.left > 0 {
		return net.ErrClosed
	}
	c.appendOwed()
	c.appendControl(ws.OpClose, ws.NewCloseFrameBody(ws.StatusCode(c.status.Load()), ""))
	err := c.flush()
	w.shut = true
	return err
}

// endWith chooses the close frame's status by what ended the connection.
func (c *wsConn) endWith(cause error) { c.status.Store(uint32(closeStatus(cause))) }

func closeStatus(cause error) ws.StatusCode {
	if told, ok := errors.AsType[*StatusError](cause); ok && told.Code != uint16(ws.StatusNoStatusRcvd) {
		return ws.StatusCode(told.Code)
	}
	bad, ok := errors.AsType[*session.DecodeError](cause)
	switch {
	case errors.Is(cause, errMessageSize), ok && (bad.Reason == session.ReasonTooLarge || bad.Reason == session.ReasonPayloadSize):
		return ws.StatusMessageTooBig
	case errors.Is(cause, errTextMessage):
		return ws.StatusUnsupportedData
	case errors.Is(cause, ErrProtocol):
		return ws.StatusProtocolError
	}
	return ws.StatusNormalClosure
}

// Close implements net.Conn. It tries to send the close frame first, unless a
// Write is under way, which it ends.
func (c *wsConn) Close() error {
	if c.write.TryLock() {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(lastWord))
		_ = c.sayClose() // a server that is gone needs none
		c.write.Unlock()
	}
	return c.Conn.Close()
}
