package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gobwas/ws"

	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/closeframe"
)

// webSocket is what a connection of WS or WSS has besides. One binary message is one
// frame of the Protocol.
//
// Invariant: a message that has begun and did not come whole in one read is in Conn.part;
// its limit is the length that FrameSize says, so that nothing is kept beyond that. All
// decisions are made where a header is whole, or the prefix of a frame, so that any
// segmentation has the same outcome. Loop only.
type webSocket struct {
	origins  []string
	request  *buf.Buf // the HTTP request so far; nil: none, or it was answered
	have     int      // bytes of request
	upgraded bool     // OnOpen was called, messages are read

	head     [ws.MaxHeaderSize]byte // of a frame whose header came in part
	headHave uint8

	// The frame under way.
	inFrame bool
	op      ws.OpCode
	fin     bool
	mask    [4]byte
	done    int   // bytes of its payload that came
	left    int64 // bytes of its payload that did not

	inMessage   bool     // a data message has begun and its last frame has not ended
	control     *buf.Buf // the payload of a control frame that came in part
	controlHave int

	status    ws.StatusCode // of our close frame; 0: as the reason says
	closeSent bool
}

// Faults of a WebSocket's peer.
var (
	errMessageLength = errors.New("engine: a message's length is not that of its frame")
	errLengthForm    = errors.New("engine: a message's length is not in its shortest form")
	errTextMessage   = errors.New("engine: a text message; frames are binary ones")
)

// receiveMessages takes the bytes of one read, which it changes: masks are taken off in
// place. Whole messages in one frame, which is nearly all there are, go to the Handler as
// those of other transports do, in one slab for all.
func (c *Conn) receiveMessages(b []byte) {
	w := c.ws
	if !w.upgraded {
		b = c.readRequest(b)
	}
	for len(b) > 0 && c.stopping.Load() == nil {
		switch {
		case w.inFrame:
			b = c.readPayload(b)
		case w.headHave > 0 || w.inMessage:
			b = c.readHead(b)
		default:
			whole, ends, used, err := c.scanMessages(b)
			if len(ends) > 0 {
				c.deliverCopy(whole, ends)
			}
			switch b = b[used:]; {
			case err != nil:
				c.refuse(inputReason(err))
			case len(ends) == 0:
				b = c.readHead(b)
			}
		}
	}
	if c.deadline.frame == 0 && c.stopping.Load() == nil && w.within() {
		c.setDeadline(&c.deadline.frame, clock.Now().Add(c.p.FrameTimeout))
	}
}

// scanMessages finds the whole messages of one frame each at the head of b, as many as
// scan does. Their payloads are whole, one after the other, and end at ends; used is what
// they and their headers take of b. The first one stays where it is, those behind it are
// moved to it. An error is that of the message behind them. What it does not take without
// an error is for readHead.
func (c *Conn) scanMessages(b []byte) (whole []byte, ends []int, used int, err error) {
	ends = c.loop.ends[:0]
	limit := batchFrames
	if !c.admitted {
		limit = 1
	}
	for len(ends) < limit {
		h, size, err := messageHeader(b[used:])
		if err != nil || size == 0 || h.OpCode != ws.OpBinary || !h.Fin || h.Length > int64(len(b)-used-size) ||
			ws.CheckHeader(h, ws.StateServerSide) != nil {
			return whole, ends, used, nil
		}
		payload := b[used+size:][:h.Length]
		ws.Cipher(payload, h.Mask, 0)
		n, err := c.frameSize(payload)
		if err == nil && (n == 0 || n != len(payload)) {
			err = errMessageLength
		}
		if err != nil {
			return whole, ends, used, err
		}
		if whole == nil {
			whole = payload
		} else {
			whole = append(whole, payload...) // never beyond payload itself
		}
		used += size + len(payload)
		ends = append(ends, len(whole))
	}
	return whole, ends, used, nil
}

// messageHeader reads the header at the head of b and returns its size; 0: it is not whole.
func messageHeader(b []byte) (h ws.Header, size int, err error) {
	if len(b) < 2 {
		return h, 0, nil
	}
	h.Fin, h.Rsv, h.OpCode = b[0]&0x80 != 0, b[0]>>4&7, ws.OpCode(b[0]&0x0f)
	h.Masked = b[1]&0x80 != 0
	size = 2
	switch short := b[1] & 0x7f; short {
	case 126:
		size += 2
	case 127:
		size += 8
	default:
		h.Length = int64(short)
	}
	at := size
	if h.Masked {
		size += len(h.Mask)
	}
	if len(b) < size {
		return h, 0, nil
	}
	switch at {
	case 4:
		if h.Length = int64(binary.BigEndian.Uint16(b[2:])); h.Length < 126 {
			return h, size, errLengthForm
		}
	case 10:
		if h.Length = int64(binary.BigEndian.Uint64(b[2:])); h.Length <= 0xffff { // or negative
			return h, size, errLengthForm
		}
	}
	copy(h.Mask[:], b[at:size])
	return h, size, nil
}

// readHead takes the bytes of a header, and what to do with the frame from a whole one.
func (c *Conn) readHead(b []byte) []byte {
	w := c.ws
	for len(b) > 0 {
		w.head[w.headHave] = b[0]
		w.headHave++
		b = b[1:]
		h, size, err := messageHeader(w.head[:w.headHave])
		if size == 0 {
			continue
		}
		w.headHave = 0
		if err == nil {
			err = c.beginPayload(h)
		}
		if err != nil {
			c.refuse(inputReason(err))
			return nil
		}
		if w.left == 0 {
			c.endPayload()
		}
		return b
	}
	return nil
}

// beginPayload looks at a header, before anything is taken for what it claims.
func (c *Conn) beginPayload(h ws.Header) error {
	w := c.ws
	state := ws.StateServerSide
	if w.inMessage {
		state = state.Set(ws.StateFragmented)
	}
	if err := ws.CheckHeader(h, state); err != nil {
		return err
	}
	if h.OpCode == ws.OpText {
		w.status = ws.StatusUnsupportedData
		return errTextMessage
	}
	w.inFrame, w.op, w.fin, w.mask, w.done, w.left = true, h.OpCode, h.Fin, h.Mask, 0, h.Length
	if h.OpCode.IsControl() {
		return nil
	}
	if !w.inMessage {
		w.inMessage, c.partNeed, c.partHave, c.partAsked = true, 0, 0, true
	}
	return c.checkMessage(0)
}

// checkMessage compares the length that the frame's prefix says with that of the message,
// as far as both are known; more bytes of the message are there besides those in part.
func (c *Conn) checkMessage(more int) error {
	w := c.ws
	size := int64(c.partHave+more) + w.left
	switch {
	case w.left > 1<<62:
		return errMessageLength
	case c.partNeed > 0 && (size > int64(c.partNeed) || w.fin && size < int64(c.partNeed)):
		return errMessageLength
	}
	return nil
}

// readPayload takes bytes of the frame under way.
func (c *Conn) readPayload(b []byte) []byte {
	w := c.ws
	n := int(min(w.left, int64(len(b))))
	p := b[:n]
	ws.Cipher(p, w.mask, w.done)
	w.done += n
	w.left -= int64(n)
	if w.op.IsControl() {
		if w.control == nil {
			w.control = buf.Get(ws.MaxControlFramePayloadSize)
		}
		w.controlHave += copy(w.control.Bytes()[w.controlHave:], p)
	} else if err := c.addMessage(p); err != nil {
		c.refuse(inputReason(err))
		return nil
	}
	if w.left == 0 {
		c.endPayload()
	}
	return b[n:]
}

// addMessage adds p to the message under way.
func (c *Conn) addMessage(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if c.part == nil {
		c.part = buf.Get(prefixMax)
	}
	if c.partNeed == 0 {
		n := min(len(p), prefixMax-c.partHave)
		c.addPart(p[:n])
		p = p[n:]
		size, err := c.frameSize(c.part.Bytes()[:c.partHave])
		if err != nil {
			return err
		}
		c.partNeed = size
		if err := c.checkMessage(len(p)); err != nil {
			return err
		}
	}
	c.addPart(p)
	return nil
}

// endPayload ends the frame under way, all of which is there.
func (c *Conn) endPayload() {
	w := c.ws
	w.inFrame = false
	if w.op.IsControl() {
		c.endControl()
		return
	}
	if !w.fin {
		return
	}
	if c.partNeed == 0 {
		c.refuse(inputReason(errMessageLength))
		return
	}
	slab := c.part
	w.inMessage, c.part, c.deadline.frame = false, nil, 0
	slab.Resize(c.partNeed)
	c.loop.ends = append(c.loop.ends[:0], c.partNeed)
	c.deliver(slab, c.loop.ends)
	slab.Free()
}

// endControl acts on a control frame.
func (c *Conn) endControl() {
	w := c.ws
	payload := w.control
	var p []byte
	if payload != nil {
		p = payload.Bytes()[:w.controlHave]
	}
	w.control, w.controlHave = nil, 0
	defer payload.Free()
	if !w.inMessage {
		c.deadline.frame = 0
	}
	if !c.takeFrame() {
		return
	}
	switch w.op {
	case ws.OpPing:
		pong := buf.Get(2 + len(p))
		pong.Bytes()[0], pong.Bytes()[1] = 0x80|byte(ws.OpPong), byte(len(p))
		copy(pong.Bytes()[2:], p)
		if err := c.out.put(pong, c.p.OutMax+ControlReserve); errors.Is(err, ErrFull) {
			c.Abort(CloseReason{Code: OutFull})
		}
	case ws.OpClose:
		c.peerCloses(p)
	default: // pongs need no answer
	}
}

// peerCloses answers a close frame with payload p, behind what is queued.
func (c *Conn) peerCloses(p []byte) {
	w := c.ws
	status, _, err := closeframe.Read(p)
	if err != nil {
		c.refuse(inputReason(err))
		return
	}
	if w.status = status; status == ws.StatusNoStatusRcvd {
		w.status = ws.StatusNormalClosure
	}
	c.stop(CloseReason{Code: PeerClosed, Text: fmt.Sprintf("close frame, status %d", w.status)})
}

// sayClose queues the close frame, once and as the last message, for which the caller
// found the queue ended. It reports whether it did.
func (c *Conn) sayClose() bool {
	w := c.ws
	if w == nil || w.closeSent || !w.upgraded {
		return false
	}
	w.closeSent = true
	if w.status == 0 {
		w.status = closeStatus(c.stopping.Load().Code)
	}
	b := buf.Get(4)
	p := b.Bytes()
	p[0], p[1] = 0x80|byte(ws.OpClose), 2
	binary.BigEndian.PutUint16(p[2:], uint16(w.status))
	c.out.putLast(b)
	return true
}

// within reports whether a message or a control frame has begun and is not whole. Nil has
// none.
func (w *webSocket) within() bool { return w != nil && (w.headHave > 0 || w.inFrame || w.inMessage) }

// drop frees what did not come whole.
func (w *webSocket) drop() {
	w.request.Free()
	w.control.Free()
	w.request, w.control = nil, nil
	w.inFrame, w.inMessage, w.headHave = false, false, 0
}
