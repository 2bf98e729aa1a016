package mailbox

import (
	"math/bits"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Slot is the place of one message in a queue. Its producer owns it until it is pushed,
// the claim's holder after that, until it gives it back.
type Slot[T any] struct {
	next *Slot[T]
	cost uint64 // of the budget, or costControl, or costMarker
	// V is the message. The producer writes it before Enqueue. It is as the consumer
	// of an earlier message has left it; see Consumer.
	V T

	home *block[T]
	bit  uint64 // in home.free
}

// nodes is the store of free nodes for the mailboxes of one message type.
//
// Consumers free what producers allocate, often on another core, and then each node's
// cache lines pass from core to core. Processors fetch lines ahead if they are asked for
// in the order in which they lie, and that is worth a lot: messages whose nodes lie
// anywhere took twice as long. So nodes come in blocks that lie in one piece. A producer
// takes a block, uses up its free nodes in order, and only then goes on to another;
// consumers give nodes back to the block they are of.
//
// Free nodes belong to the collector in the end. So they need no bound; those in
// use are bounded by the mailboxes' limits, and a block that waits for its nodes has
// more of them in use than free. But the collector may take a block out of the list, and
// then a node of it that stays in use keeps the block's other nodes from use and memory.
type nodes[T any] struct {
	blocks sync.Pool // of *block[T] that are listed, except those that producers hold
	idle   Slot[T]   // stands for the state idle in inbox; never queued
}

// block is some nodes that lie in one piece, and which of them are free.
//
// It is listed while producers can get it: from the release of a node that makes half
// of its nodes free, until a producer has used up its share and does not find as many.
type block[T any] struct {
	free  atomic.Uint64 // bits of free nodes that no producer holds, and listed
	have  uint64        // those of the producer that holds the block
	nodes []Slot[T]
	_     [24]byte // a cache line is no other block's
}

const (
	// blockBytes is about the size of a block. With 8 KiB the tell1 of bench/peers took a
	// tenth more time; a node that stays in use may keep a whole block.
	blockBytes = 16 << 10

	maxBlockNodes        = 63
	minBlockNodes        = 8
	listed        uint64 = 1 << 63
)

// blockNodes returns how many nodes a block has.
func blockNodes[T any]() int {
	return min(max(blockBytes/int(unsafe.Sizeof(Slot[T]{})), minBlockNodes), maxBlockNodes)
}

// nodesOf returns p's store of nodes for T.
func nodesOf[T any](p *Pool) *nodes[T] {
	t := reflect.TypeFor[T]()
	if s, ok := p.types.Load(t); ok {
		return s.(*nodes[T])
	}
	s, _ := p.types.LoadOrStore(t, new(nodes[T]))
	return s.(*nodes[T])
}

// get returns a node, with a message as a consumer left it. Safe for concurrent use.
func (s *nodes[T]) get() *Slot[T] {
	b, _ := s.blocks.Get().(*block[T])
	if b == nil {
		b = newBlock[T]()
	}
	if b.have == 0 {
		b.have = b.free.Swap(listed) &^ listed
	}
	n := &b.nodes[bits.TrailingZeros64(b.have)]
	if b.have &= b.have - 1; b.have != 0 || b.stays() {
		s.blocks.Put(b)
	}
	return n
}

// newBlock makes a block whose nodes are all its first producer's.
func newBlock[T any]() *block[T] {
	b := &block[T]{nodes: make([]Slot[T], blockNodes[T]())}
	b.have = 1<<len(b.nodes) - 1
	b.free.Store(listed)
	for i := range b.nodes {
		b.nodes[i].home, b.nodes[i].bit = b, 1<<i
	}
	return b
}

// many reports whether so many of b's nodes are free that producers should have it.
func (b *block[T]) many(free uint64) bool { return 2*bits.OnesCount64(free&^listed) >= len(b.nodes) }

// stays takes b from the list, unless many of its nodes are free. The producer that holds
// b and has used up its share calls it.
func (b *block[T]) stays() bool {
	for {
		free := b.free.Load()
		if b.many(free) {
			return true
		}
		if b.free.CompareAndSwap(free, free&^listed) {
			return false
		}
	}
}

// release gives nodes back that are in use. Safe for concurrent use.
func (b *block[T]) release(nodes uint64, s *nodes[T]) {
	free := b.free.Add(nodes) // as they are not in it
	if free&listed == 0 && b.many(free) && !b.many(free-nodes) {
		b.free.Add(listed)
		s.blocks.Put(b)
	}
}

// spent collects used nodes. One worker uses it, while it holds a claim.
type spent[T any] struct {
	home  *block[T]
	nodes uint64
}

// add takes n.
func (c *spent[T]) add(n *Slot[T], s *nodes[T]) {
	if n.home != c.home {
		c.flush(s)
		c.home = n.home
	}
	c.nodes |= n.bit
}

// flush gives the collected nodes back.
func (c *spent[T]) flush(s *nodes[T]) {
	if c.nodes != 0 {
		c.home.release(c.nodes, s)
		c.nodes = 0
	}
}
