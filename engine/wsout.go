package engine

import (
	"encoding/binary"

	"github.com/gobwas/ws"

	"github.com/zlnode/zlnode/internal/buf"
)

// messageHeadMax is the largest header of a message to a WebSocket's client, which has no
// mask.
const messageHeadMax = ws.MaxHeaderSize - 4

// messageHead is the header of an unfragmented binary message; n bytes of it count.
func messageHead(size int) (h [messageHeadMax]byte, n int) {
	h[0] = 0x80 | byte(ws.OpBinary)
	switch {
	case size < 126:
		h[1] = byte(size)
		return h, 2
	case size <= 0xffff:
		h[1] = 126
		binary.BigEndian.PutUint16(h[2:], uint16(size))
		return h, 4
	default:
		h[1] = 127
		binary.BigEndian.PutUint64(h[2:], uint64(size))
		return h, 10
	}
}

// putMessage is put for a WebSocket: the message has a header, which counts as its bytes
// do. A large message is still queued by reference: its chunk has room for the header.
func (q *outQueue) putMessage(b *buf.Buf, limit int64) error {
	p := b.Bytes()
	if len(p) == 0 {
		return q.put(b, limit)
	}
	head, n := messageHead(len(p))
	if err := q.enter(int64(n+len(p))+MessageCost, limit); err != nil {
		b.Free()
		return err
	}
	if n+len(p) > appendMax {
		q.push(newLedChunk(head[:n], b, nil))
		return nil
	}
	top := q.top.Load()
	if top == nil || !top.append(head[:n], p, &q.top) {
		q.push(newChunk(head[:n], p, top))
	}
	b.Free()
	return nil
}

// newLedChunk returns a chunk of lead, which is copied, and behind it b and p's views. It
// takes over the caller's reference to b.
func newLedChunk(lead []byte, b *buf.Buf, p *parts) *chunk {
	c := chunkPools[0].Get().(*chunk)
	c.lead = uint8(copy(c.room, lead))
	c.beginParts(b, p)
	return c
}

// putLast queues b behind the last message of a queue that is closed and ended. Loop only,
// and once.
func (q *outQueue) putLast(b *buf.Buf) {
	q.pending.Add(int64(len(b.Bytes())) + MessageCost)
	q.push(newChunk(nil, b.Bytes(), nil))
	b.Free()
}
