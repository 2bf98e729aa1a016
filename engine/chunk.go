package engine

import (
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/buf"
)

// appendMax is the largest message that is copied into a chunk. Larger ones are
// queued by reference.
const appendMax = 960

// chunk is an entry of an out queue: the bytes of one or more messages, or a
// reference to one Buf, which may be the head of a message of parts.
//
// While a chunk is on top of its queue, producers append to it. One of them
// reserves room by a compare-and-swap of state, copies its bytes there, and adds
// their number to done. The loop, when it has taken the chunk, seals it: from then
// on nothing is reserved, and once done equals what is reserved, all bytes are
// there. A producer that stops half way keeps the loop from this chunk and those
// behind it, not from anything else, and brings the loop when it goes on.
//
// Chunks are reused, so a producer may hold one that is another's by now. That
// does no harm: state carries the chunk's life, and a swap succeeds only if state
// is what the producer saw before it found the chunk on top of its own queue.
type chunk struct {
	next  *chunk
	b     *buf.Buf      // a message by reference; nil: the bytes are in room
	parts *parts        // what comes behind b; nil: nothing
	state atomic.Uint64 // see below
	done  atomic.Uint32 // bytes in room
	grade uint8         // index into chunkPools
	lead  uint8         // bytes of room that go out before b
	led   bool          // they are written; the loop's
	room  []byte
}

// Layout of chunk.state, from the lowest bit: 16 bits of bytes reserved, 16 of
// messages, of which none is empty, sealed, 31 of life.
const (
	stateBytes   = 1<<16 - 1
	stateMessage = stateBytes + 1
	stateSealed  = 1 << 32
	stateLife    = 1 << 33
)

// Chunks grow with the queue: the first one of an empty queue holds a message or
// two, so that ten thousand queues of one message each are small; a queue that
// is behind gets chunks that take a hundred.
var chunkPools = [...]sync.Pool{
	{New: func() any { c := new(chunk0); return c.init(0, c.bytes[:]) }},
	{New: func() any { c := new(chunk1); return c.init(1, c.bytes[:]) }},
	{New: func() any { c := new(chunk2); return c.init(2, c.bytes[:]) }},
	{New: func() any { c := new(chunk3); return c.init(3, c.bytes[:]) }},
}

// The sizes fill 192, 1,024, 4,096 and 8,192 bytes with the header.
type (
	chunk0 struct {
		chunk
		bytes [128]byte
	}
	chunk1 struct {
		chunk
		bytes [appendMax]byte
	}
	chunk2 struct {
		chunk
		bytes [4032]byte
	}
	chunk3 struct {
		chunk
		bytes [8128]byte
	}
)

func (c *chunk) init(grade uint8, room []byte) *chunk {
	c.grade, c.room = grade, room
	return c
}

// newChunk returns a chunk that holds the bytes of lead and p, appendMax at most, as its
// first message and is open to more, to be pushed on below.
func newChunk(lead, p []byte, below *chunk) *chunk {
	n := len(lead) + len(p)
	grade := 0
	if below != nil {
		grade = min(int(below.grade)+1, len(chunkPools)-1)
	}
	if grade == 0 && n > len(chunk0{}.bytes) {
		grade = 1
	}
	c := chunkPools[grade].Get().(*chunk)
	c.begin(lead, p)
	return c
}

// begin starts a life of c, which is in no queue, with the bytes of lead and p as its
// first message, open to more.
func (c *chunk) begin(lead, p []byte) {
	n := copy(c.room, lead)
	n += copy(c.room[n:], p)
	c.done.Store(uint32(n))
	c.state.Store((c.state.Load()+stateLife)&^(stateLife-1) | stateMessage | uint64(n))
}

// beginParts starts a life of c, which is in no queue, with a message of b and p by
// reference; p may be nil.
func (c *chunk) beginParts(b *buf.Buf, p *parts) {
	c.b, c.parts = b, p
	c.state.Store((c.state.Load()+stateLife)&^(stateLife-1) | stateSealed | stateMessage)
}

// append adds the bytes of lead and p as a message, if c is still on top of its queue and
// has room.
func (c *chunk) append(lead, p []byte, top *atomic.Pointer[chunk]) bool {
	n := len(lead) + len(p)
	for {
		seen, ok := c.look(n, top)
		if !ok {
			return false
		}
		if c.reserve(seen, n) {
			room := c.room[seen&stateBytes:]
			copy(room[copy(room, lead):], p)
			c.done.Add(uint32(n))
			return true
		}
	}
}

// look returns c's state, and whether n bytes can be reserved in it.
func (c *chunk) look(n int, top *atomic.Pointer[chunk]) (seen uint64, ok bool) {
	seen = c.state.Load()
	return seen, seen&stateSealed == 0 && int(seen&stateBytes)+n <= len(c.room) && top.Load() == c
}

// reserve takes n bytes, unless anything happened to c since look.
func (c *chunk) reserve(seen uint64, n int) bool {
	return c.state.CompareAndSwap(seen, seen+stateMessage+uint64(n))
}

// seal ends appending. Loop only.
func (c *chunk) seal() { c.state.Or(stateSealed) }

// whole reports whether all bytes of a sealed chunk are there.
func (c *chunk) whole() bool {
	return c.b != nil || uint64(c.done.Load()) == c.state.Load()&stateBytes
}

// content returns the bytes of a sealed and whole chunk; of one with a lead or parts,
// those of the lead, the head or the view that goes out next.
func (c *chunk) content() []byte {
	switch {
	case c.b == nil:
		return c.room[:c.done.Load()]
	case c.leads():
		return c.room[:c.lead]
	case c.parts != nil && c.parts.begun > 0:
		return c.parts.body[c.parts.begun-1]
	default:
		return c.b.Bytes()
	}
}

// leads reports whether the lead goes out next. Loop only.
func (c *chunk) leads() bool { return c.lead > 0 && !c.led }

// advance goes on to what comes behind content and reports whether there is more. Loop
// only.
func (c *chunk) advance() bool {
	if c.leads() {
		c.led = true
		return true
	}
	return c.parts.advance()
}

// cost is what the messages of a sealed chunk count in outQueue.pending.
func (c *chunk) cost() int64 {
	s := c.state.Load()
	cost := int64(s/stateMessage%(stateSealed/stateMessage)) * MessageCost
	switch {
	case c.b == nil:
		return cost + int64(s&stateBytes)
	case c.parts != nil:
		cost += int64(c.parts.size)
	}
	return cost + int64(c.lead) + int64(len(c.b.Bytes()))
}

// free ends this life of a chunk that is sealed and whole.
func (c *chunk) free() {
	c.b.Free()
	c.b, c.parts, c.next = nil, nil, nil
	c.lead, c.led = 0, false
	chunkPools[c.grade].Put(c)
}
