package engine

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
)

// secure is what an encrypted connection has besides. The handshake is made in a goroutine
// of its own, over the accepted socket; then the socket goes to a loop, as that of a plain
// connection does, and the loop drives crypto/tls: it gives it what was read, and takes
// what it wants written. So out queue, deadlines and closing are those of a plain
// connection, and no goroutine belongs to it.
//
// crypto/tls reads as from a socket with a read deadline that is over: what has come is
// taken, then there is a time-out, after which it can read on. It writes into out, which
// takes all, so that a write is never cut.
//
// Invariant: between two calls of the loop out is empty or the connection is blocked, but
// for one that is closed. It holds the bytes of one flush, plain of which are still in the
// out queue, and those few that crypto/tls sends by itself, secureOutMax at most.
// Loop only, but for ConnectionState of conn.
type secure struct {
	conn *tls.Conn
	link *tlsLink
}

// tlsLink is the net.Conn below crypto/tls.
type tlsLink struct {
	net.Conn // nil once a loop has it

	in    []byte   // what was read and crypto/tls has not taken; the loop's block
	out   *buf.Buf // what is to be written; nil: nothing
	have  int      // bytes in out
	sent  int      // of them, written
	plain int      // bytes of the out queue whose encrypted form is in out

	closeSent bool

	// Where the records of the peer end, so that the deadline of a frame counts for one
	// that does not come whole.
	headHave   int // bytes of the header of the record under way
	recordLeft int // bytes of its rest that did not come
}

var errSecureOut = errors.New("engine: the peer has more keys changed than it takes answers")

// Read implements net.Conn.
func (l *tlsLink) Read(p []byte) (int, error) {
	if l.Conn != nil {
		n, err := l.Conn.Read(p)
		l.passRecords(p[:n])
		return n, err
	}
	if len(l.in) == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, l.in)
	l.passRecords(p[:n])
	l.in = l.in[n:]
	return n, nil
}

// passRecords follows the records of b: five bytes of header, of which the last two are
// the length of what follows.
func (l *tlsLink) passRecords(b []byte) {
	for len(b) > 0 {
		if l.headHave == 5 {
			n := min(len(b), l.recordLeft)
			l.recordLeft -= n
			b = b[n:]
			if l.recordLeft == 0 {
				l.headHave = 0
			}
			continue
		}
		if l.headHave >= 3 {
			l.recordLeft = l.recordLeft<<8 | int(b[0])
		}
		l.headHave++
		b = b[1:]
		if l.headHave == 5 && l.recordLeft == 0 {
			l.headHave = 0
		}
	}
}

// Write implements net.Conn.
func (l *tlsLink) Write(p []byte) (int, error) {
	if l.Conn != nil {
		return l.Conn.Write(p)
	}
	if l.have-l.sent+len(p) > secureOutMax {
		return 0, errSecureOut
	}
	l.reserve(len(p))
	l.have += copy(l.out.Bytes()[l.have:], p)
	return len(p), nil
}

// reserve makes room in out for n more bytes. Those that are written make room first, so
// that out is bounded also if it is never empty.
func (l *tlsLink) reserve(n int) {
	if l.out == nil {
		l.out, l.have, l.sent = buf.Get(n), 0, 0
		l.out.Resize(l.out.Cap())
		return
	}
	room := len(l.out.Bytes())
	if l.have+n > room && l.sent > 0 {
		l.have, l.sent = copy(l.out.Bytes(), l.out.Bytes()[l.sent:l.have]), 0
	}
	if l.have+n > room {
		larger := buf.Get(max(l.have+n, 2*room))
		larger.Resize(larger.Cap())
		copy(larger.Bytes(), l.out.Bytes()[:l.have])
		l.out.Free()
		l.out = larger
	}
}

// SetDeadline implements net.Conn. A loop has deadlines of its own.
func (l *tlsLink) SetDeadline(t time.Time) error {
	if l.Conn != nil {
		return l.Conn.SetDeadline(t)
	}
	return nil
}

// SetReadDeadline implements net.Conn.
func (l *tlsLink) SetReadDeadline(t time.Time) error {
	if l.Conn != nil {
		return l.Conn.SetReadDeadline(t)
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (l *tlsLink) SetWriteDeadline(t time.Time) error {
	if l.Conn != nil {
		return l.Conn.SetWriteDeadline(t)
	}
	return nil
}

// receiveSecure takes the encrypted bytes of one read and hands on what they hold, as if
// that had been read.
func (c *Conn) receiveSecure(b []byte) {
	if !c.accountFor(b) {
		return
	}
	l := c.tls.link
	l.in = b
	defer func() { l.in = nil }()
	plain := c.loop.plainBlock()
	have := 0
	for {
		n, err := c.tls.conn.Read(plain[have:])
		have += n
		if have > 0 && (err != nil || have == len(plain)) {
			c.take(plain[:have])
			have = 0
		}
		switch {
		case c.stopping.Load() != nil:
			return
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.timeRecord()
			return
		case err == io.EOF: //nolint:errorlint // as io.Reader promises
			c.stop(CloseReason{Code: PeerClosed})
			return
		default:
			c.stop(CloseReason{Code: ProtocolError, Text: "tls", Err: err})
			return
		}
	}
}

// timeRecord lets the deadline of a frame run while a record has begun in which there may
// be one.
func (c *Conn) timeRecord() {
	switch within := c.tls.link.headHave > 0; {
	case within && c.deadline.frame == 0:
		c.setDeadline(&c.deadline.frame, clock.Now().Add(c.p.FrameTimeout))
	case !within && !c.inFrame():
		c.deadline.frame = 0
	}
}

// flushSecure is flush for an encrypted connection.
func (c *Conn) flushSecure() error {
	l := c.tls.link
	for range 2 { // what was left by the last write, then a batch
		if l.out == nil {
			if !c.out.waits() {
				break
			}
			if err := c.encrypt(); err != nil {
				return err
			}
		}
		n, err := unix.Write(c.fd, l.out.Bytes()[l.sent:l.have])
		if err == unix.EINTR || err == unix.EAGAIN {
			n, err = 0, nil
		}
		if err != nil {
			return err
		}
		c.wrote(n)
		if l.sent += n; l.sent < l.have {
			return c.block(n > 0)
		}
		l.out.Free()
		l.out = nil
		if plain := l.plain; plain > 0 {
			l.plain = 0
			c.out.wrote(plain).tell(true)
		}
	}
	c.deadline.stall = 0
	return nil
}

// encrypt takes the next bytes of the out queue, which stay in it until they are written.
func (c *Conn) encrypt() error {
	l := c.tls.link
	g := &c.loop.gather
	c.out.gather(g, secureBatch)
	defer g.reset()
	l.reserve(g.total + g.total/16 + 256)
	for _, v := range g.iov[:g.n] {
		if _, err := c.tls.conn.Write(unsafe.Slice(v.Base, int(v.Len))); err != nil {
			return err
		}
	}
	l.plain = g.total
	return nil
}

// drained reports whether nothing encrypted waits to be written. Nil has nothing.
func (s *secure) drained() bool { return s == nil || s.link.out == nil }

// sayClose queues the word that nothing follows, once, and reports whether it did.
func (s *secure) sayClose() bool {
	if s == nil || s.link.closeSent {
		return false
	}
	s.link.closeSent = true
	_ = s.conn.CloseWrite() // fails only after an error that the peer was told
	return s.link.out != nil
}

// drop frees what was not written. Nil has nothing.
func (s *secure) drop() {
	if s == nil {
		return
	}
	s.link.out.Free()
	s.link.out, s.link.plain = nil, 0
}
