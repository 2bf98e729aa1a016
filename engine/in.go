package engine

import (
	"fmt"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
)

// receive takes the bytes of one read, a view of the loop's block. This is the
// only place where such a view becomes a Buf: whole frames are copied once, into
// one slab per batch; a frame that came in part is copied into a slab of its own.
// Frames that Placer wants elsewhere (place.go) are copied there and nowhere else.
// Loop only.
func (c *Conn) receive(b []byte) {
	if c.accountFor(b) {
		c.take(b)
	}
}

// accountFor counts the bytes of a read, and reports whether they are for the Handler.
func (c *Conn) accountFor(b []byte) bool {
	c.loop.count.bytesIn.Add(uint64(len(b)))
	if c.phase != open || c.stopping.Load() != nil {
		c.throwAway(len(b))
		return false
	}
	return c.takeBytes(len(b))
}

// take is receive for bytes that are accounted for: they may have been encrypted.
func (c *Conn) take(b []byte) {
	switch {
	case c.ws != nil:
		c.receiveMessages(b)
		return
	case c.placed != nil:
		b = c.continuePlaced(b)
	case c.part != nil:
		b = c.continuePart(b)
	}
	for len(b) > 0 && c.stopping.Load() == nil {
		ends, next, err := c.scan(b)
		if n := len(ends); n > 0 {
			whole := b[:ends[n-1]]
			b = b[len(whole):]
			c.deliverCopy(whole, ends)
		}
		switch {
		case err != nil:
			c.refuse(inputReason(err))
		case len(ends) == 0:
			b = c.beginFrame(b, next)
		}
	}
}

// takeBytes reports whether the connection's rate allows n more bytes; if not, it
// closes the connection.
func (c *Conn) takeBytes(n int) bool {
	if c.bucket == nil || c.bucket.takeBytes(n, clock.Now()) {
		return true
	}
	c.refuse(CloseReason{Code: RateExceeded, Text: "bytes"})
	return false
}

// takeFrame is takeBytes for one more frame.
func (c *Conn) takeFrame() bool {
	if c.bucket == nil || c.bucket.takeFrame() {
		return true
	}
	c.refuse(CloseReason{Code: RateExceeded, Text: "frames"})
	return false
}

// scan finds the whole frames at the head of b, batchFrames at most, and returns
// where each ends. If it stops at a frame that is not whole, or that Placer is to be
// asked about, next is that frame's length, or 0 if not even its prefix is whole.
// Before admission it stops after one frame, because the next one's limit depends on
// what the Handler makes of it.
func (c *Conn) scan(b []byte) (ends []int, next int, err error) {
	ends = c.loop.ends[:0]
	limit := batchFrames
	if !c.admitted {
		limit = 1
	}
	for off := 0; len(ends) < limit && off < len(b); {
		next, err = c.frameSize(b[off:])
		if err != nil || next == 0 || next > len(b)-off || c.placeable(next) {
			return ends, next, err
		}
		off += next
		ends = append(ends, off)
	}
	return ends, 0, nil
}

// frameSize asks the protocol and checks its answer.
func (c *Conn) frameSize(b []byte) (int, error) {
	n, err := c.p.FrameSize(b, c.admitted)
	switch {
	case err != nil:
		return 0, err
	case n < 0:
		return 0, fmt.Errorf("engine: protocol %q: frame size %d", c.p.Name, n)
	case n == 0 && len(b) >= prefixMax:
		return 0, fmt.Errorf("engine: protocol %q: no frame size after %d bytes", c.p.Name, len(b))
	}
	return n, nil
}

// deliverCopy delivers the frames of a read that end at ends.
func (c *Conn) deliverCopy(whole []byte, ends []int) {
	slab := buf.Copy(whole)
	c.deliver(slab, ends)
	slab.Free()
}

// deliver hands the frames of slab that end at ends to the Handler, until one of
// its calls stops the connection.
func (c *Conn) deliver(slab *buf.Buf, ends []int) {
	b := slab.Bytes()
	start := 0
	for i, end := range ends {
		if !c.takeFrame() {
			ends = ends[:i]
			break
		}
		if err := c.p.Handler.OnFrame(c, b[start:end:end], slab); err != nil {
			c.refuse(inputReason(err))
		}
		if c.stopping.Load() != nil {
			ends = ends[:i+1]
			break
		}
		start = end
	}
	c.loop.count.framesIn.Add(uint64(len(ends)))
}

// refuse closes c for what came in. What the Handler queued, such as a notice
// with the reason, still goes out.
func (c *Conn) refuse(r CloseReason) { c.stop(r) }

// beginPart keeps b, the beginning of a frame of need bytes; 0: not known yet.
func (c *Conn) beginPart(b []byte, need int) {
	c.setDeadline(&c.deadline.frame, clock.Now().Add(c.p.FrameTimeout))
	c.partAsked = need != 0 && (!c.placeable(need) || len(b) >= prefixMax)
	c.part = buf.Get(c.partRoom(len(b), need))
	c.partNeed = need
	c.partHave = copy(c.part.Bytes(), b)
}

// continuePart adds b to the partial frame and returns what is left of it when
// the frame was whole and has been delivered.
func (c *Conn) continuePart(b []byte) []byte {
	for c.partNeed == 0 {
		if len(b) == 0 {
			return nil
		}
		// Byte by byte, so that nothing of the next frame gets in.
		c.addPart(b[:1])
		b = b[1:]
		n, err := c.frameSize(c.part.Bytes()[:c.partHave])
		if err == nil && n != 0 && n < c.partHave {
			err = fmt.Errorf("engine: protocol %q: frame size %d after a prefix of %d bytes", c.p.Name, n, c.partHave)
		}
		if err != nil {
			c.dropPart()
			c.refuse(inputReason(err))
			return nil
		}
		c.partNeed = n
		c.partAsked = !c.placeable(n)
	}
	if !c.partAsked {
		n := min(len(b), prefixMax-c.partHave)
		c.addPart(b[:n])
		b = b[n:]
		if c.partHave < prefixMax {
			return nil
		}
		c.partAsked = true
		prefix := c.part
		if c.place(prefix.Bytes()[:prefixMax], c.partNeed) {
			c.part = nil
			prefix.Free()
			return c.continuePlaced(b)
		}
		if c.stopping.Load() != nil {
			return nil
		}
	}
	n := min(len(b), c.partNeed-c.partHave)
	c.addPart(b[:n])
	if c.partHave < c.partNeed {
		return nil
	}
	slab := c.part
	c.part, c.deadline.frame = nil, 0
	slab.Resize(c.partNeed)
	c.loop.ends = append(c.loop.ends[:0], c.partNeed)
	c.deliver(slab, c.loop.ends)
	slab.Free()
	return b[n:]
}

// addPart copies b to the end of the partial frame.
func (c *Conn) addPart(b []byte) {
	if have := len(c.part.Bytes()); c.partHave+len(b) > have {
		larger := buf.Get(c.partRoom(max(c.partHave+len(b), 2*have), c.partNeed))
		copy(larger.Bytes(), c.part.Bytes()[:c.partHave])
		c.part.Free()
		c.part = larger
	}
	c.partHave += copy(c.part.Bytes()[c.partHave:], b)
}

// partRoom returns the size of a slab for least bytes of a frame of need bytes;
// need 0: only a prefix so far. It follows the bytes that came, not the claim,
// unless the claim may be trusted and nobody else may have a place for them.
func (c *Conn) partRoom(least, need int) int {
	switch {
	case need == 0, !c.partAsked:
		return prefixMax
	case c.p.TrustLength && c.admitted:
		return need
	default:
		return min(need, max(least, partialStart))
	}
}

// inFrame reports whether a frame has begun and is not whole.
func (c *Conn) inFrame() bool { return c.part != nil || c.placed != nil || c.ws.within() }

// dropPart gives up the frame that is not whole, if there is one.
func (c *Conn) dropPart() {
	c.part.Free()
	c.part, c.placed = nil, nil
	c.deadline.frame = 0
	if c.ws != nil {
		c.ws.drop()
	}
}
