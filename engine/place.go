package engine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/zlnode/zlnode/internal/clock"
)

// Placer says where the bytes of large frames go, for frames that would be copied
// out of their slab anyway. Its calls come from the connection's loop, like those
// of a Handler.
type Placer interface {
	// Place is asked once about each frame of an admitted connection that is larger
	// than PlaceMin, when its first 64 bytes, prefix, are there; size is that of the
	// whole frame. A nil dst lets the frame go to OnFrame like any other. Otherwise
	// the bytes of the frame from skip on are put into dst as they come, and OnPlaced
	// is called when all are there, in its place among the calls of OnFrame. dst must
	// be size-skip long, and skip from 0 to 64: a mistake closes the connection.
	//
	// The engine writes to dst until OnPlaced or OnClose is called, whichever is
	// first: till then nobody else may use or free it. If it is OnClose, the frame
	// did not arrive, and dst holds some of it.
	Place(c *Conn, prefix []byte, size int) (dst []byte, skip int)
	// OnPlaced says that a frame is whole: head, its first skip bytes, is valid
	// during the call; dst is what Place returned. An error is that of OnFrame.
	OnPlaced(c *Conn, head, dst []byte) error
}

// placement is a frame on its way to a place that the Handler gave. Loop only.
type placement struct {
	prefix [prefixMax]byte
	skip   int // bytes of prefix that are the head
	dst    []byte
	have   int // bytes of dst
}

// placeable reports whether Placer is to be asked about a frame of size bytes.
func (c *Conn) placeable(size int) bool {
	return size > PlaceMin && c.p.Placer != nil && c.admitted
}

// beginFrame begins a frame of need bytes that is not one of a batch, because it
// is not whole or is placeable; need 0: not known yet. It returns what of b lies
// behind the frame.
func (c *Conn) beginFrame(b []byte, need int) []byte {
	if !c.placeable(need) || len(b) < prefixMax {
		c.beginPart(b, need)
		return nil
	}
	if c.place(b[:prefixMax:prefixMax], need) {
		b = c.continuePlaced(b[prefixMax:])
		if c.placed != nil {
			c.setDeadline(&c.deadline.frame, clock.Now().Add(c.p.FrameTimeout))
		}
		return b
	}
	switch {
	case c.stopping.Load() != nil:
		return nil
	case len(b) >= need:
		c.deliverCopy(b[:need], append(c.loop.ends[:0], need))
		return b[need:]
	default:
		c.beginPart(b, need)
		return nil
	}
}

// place asks Placer, and reports whether it gave the frame a place; prefix is in it
// then.
func (c *Conn) place(prefix []byte, size int) bool {
	dst, skip := c.p.Placer.Place(c, prefix, size)
	if dst == nil || c.stopping.Load() != nil {
		return false
	}
	if skip < 0 || skip > len(prefix) || len(dst) != size-skip {
		c.refuse(inputReason(fmt.Errorf("engine: protocol %q: a place of %d bytes from byte %d on for a frame of %d",
			c.p.Name, len(dst), skip, size)))
		return false
	}
	p := &placement{skip: skip, dst: dst, have: copy(dst, prefix[skip:])}
	copy(p.prefix[:], prefix)
	c.placed = p
	return true
}

// continuePlaced copies b to where the frame under way goes, and returns what of b
// lies behind it.
func (c *Conn) continuePlaced(b []byte) []byte {
	p := c.placed
	n := copy(p.dst[p.have:], b)
	c.havePlaced(n)
	return b[n:]
}

// readPlaced goes on reading, straight into the place of the frame under way, if
// the read before filled the loop's block, so that more is likely to be there. What
// follows the frame is read with it, a little only, since it is copied: it is the
// head of the next frame in a stream of them, and so the next frame goes on here. An
// end of the stream is left to the reactor, which will see it too.
func (c *Conn) readPlaced() {
	for budget := placeReadBytes; budget > 0 && c.placed != nil && c.stopping.Load() == nil; {
		room := c.placed.dst[c.placed.have:]
		ahead := c.loop.ahead
		switch {
		case len(room) < placeReadMin:
			return
		case len(room) > budget:
			room, ahead = room[:budget], nil
		}
		n, err := unix.Readv(c.fd, [][]byte{room, ahead})
		switch {
		case err == unix.EAGAIN, err == unix.EINTR:
			return
		case err != nil: // told only once, so the reactor will not see it
			c.Abort(transportReason(os.NewSyscallError("readv", err)))
			return
		}
		budget -= n
		direct := min(n, len(room))
		c.loop.count.bytesIn.Add(uint64(direct))
		c.loop.count.bytesPlaced.Add(uint64(direct))
		if !c.takeBytes(direct) {
			return
		}
		c.havePlaced(direct)
		c.receive(ahead[:n-direct])
		if n < len(room)+len(ahead) {
			return
		}
	}
}

// havePlaced notes n more bytes of the frame under way, and delivers it if it is
// whole.
func (c *Conn) havePlaced(n int) {
	p := c.placed
	p.have += n
	if p.have < len(p.dst) {
		return
	}
	c.placed, c.deadline.frame = nil, 0
	if !c.takeFrame() {
		return
	}
	c.loop.count.framesIn.Add(1)
	if err := c.p.Placer.OnPlaced(c, p.prefix[:p.skip], p.dst); err != nil {
		c.refuse(inputReason(err))
	}
}
