package engine

import (
	"sync"

	"github.com/zlnode/zlnode/internal/buf"
)

// inlineMax is the largest message whose bytes are copied into its queue entry.
// Its Buf then goes back at once to the pool of the core that filled it, and the
// loop touches one piece of memory per message instead of three.
const inlineMax = 168

// message is an entry of an out queue. It owns a reference to b until the bytes
// are written.
type message struct {
	next   *message
	b      *buf.Buf // nil: the bytes are in inline
	n      int
	inline [inlineMax]byte
}

// cost is what the message counts in Conn.Pending.
func (m *message) cost() int64 { return int64(m.n) + MessageCost }

func (m *message) bytes() []byte {
	if m.b != nil {
		return m.b.Bytes()
	}
	return m.inline[:m.n]
}

// Free messages travel from loops, which free them, to producers in magazines of
// many: a pool of single messages makes producer and loop fight for the pool's
// cache lines once per message, which cost more than half of a Send
// (BenchmarkSend).

// magazineSize makes a magazine half a KiB.
const magazineSize = 62

type magazine struct {
	n int
	m [magazineSize]*message
}

var (
	// drawn magazines serve producers; each core has its own most of the time.
	drawn = sync.Pool{New: func() any { return new(magazine) }}
	// loaded magazines are full, put there by loops.
	loaded sync.Pool
	// emptied ones are for loops to fill.
	emptied sync.Pool
)

// newMessage returns a message that takes over the caller's reference to b.
func newMessage(b *buf.Buf) *message {
	g := drawn.Get().(*magazine)
	if g.n == 0 {
		if full, ok := loaded.Get().(*magazine); ok {
			emptied.Put(g)
			g = full
		}
	}
	var m *message
	if g.n > 0 {
		g.n--
		m, g.m[g.n] = g.m[g.n], nil
	} else {
		m = new(message)
	}
	drawn.Put(g)

	m.n = len(b.Bytes())
	if m.n <= inlineMax {
		copy(m.inline[:], b.Bytes())
		b.Free()
	} else {
		m.b = b
	}
	return m
}

// freed is a loop's magazine under way. Loop only.
type freed struct{ mag *magazine }

// put frees m and what it holds.
func (f *freed) put(m *message) {
	m.b.Free()
	m.b, m.next = nil, nil
	if f.mag == nil {
		if f.mag, _ = emptied.Get().(*magazine); f.mag == nil {
			f.mag = new(magazine)
		}
	}
	f.mag.m[f.mag.n] = m
	if f.mag.n++; f.mag.n == magazineSize {
		loaded.Put(f.mag)
		f.mag = nil
	}
}
