package mailbox

import (
	"reflect"
	"sync"
)

// Slot is the place of one message in a queue. Its producer owns it until it is pushed,
// the claim's holder after that, until it gives it back.
type Slot[T any] struct {
	next *Slot[T]
	cost uint64 // of the budget, or costControl, or costMarker
	// V is the message. The producer writes it before Enqueue. It is as the consumer
	// of an earlier message has left it; see Consumer.
	V T
}

// chainNodes is the most nodes of a chain, and what is allocated at once: 7 KiB for
// messages of 40 bytes, 32 KiB for those of a node. With 32 of them, BenchmarkPushConsume
// took up to a tenth longer where all messages cross from one core to another; 256 gained
// nothing.
const chainNodes = 128

// nodes is the store of free nodes for the mailboxes of one message type.
//
// Consumers free what producers allocate, often on another core, where a
// sync.Pool is slow: each Get would have to steal from the other core's part. So
// what the pool holds is chains of up to chainNodes nodes, linked by next. A
// producer takes a chain, keeps the first node and puts the rest back into its own
// core's part; a consumer puts in what it has used as one chain.
//
// Free nodes belong to the collector in the end. So they need no bound; those in
// use are bounded by the mailboxes' limits.
type nodes[T any] struct {
	chains sync.Pool
	idle   Slot[T] // stands for the state idle in inbox; never queued
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
	n, _ := s.chains.Get().(*Slot[T])
	if n == nil {
		n = newChain[T]()
	}
	if rest := n.next; rest != nil {
		rest.cost = 0 // brings its cache line here before it is wanted
		s.chains.Put(rest)
	}
	return n
}

func newChain[T any]() *Slot[T] {
	slab := new([chainNodes]Slot[T])
	for i := range chainNodes - 1 {
		slab[i].next = &slab[i+1]
	}
	return &slab[0]
}

// spent collects used nodes into a chain. One worker uses it, while it holds a claim.
type spent[T any] struct {
	first, last *Slot[T]
	n           int
}

// add takes n.
func (c *spent[T]) add(n *Slot[T], s *nodes[T]) {
	if c.first == nil {
		c.first = n
	} else {
		c.last.next = n
	}
	c.last = n
	if c.n++; c.n == chainNodes {
		c.flush(s)
	}
}

// flush gives the collected nodes back.
func (c *spent[T]) flush(s *nodes[T]) {
	if c.first == nil {
		return
	}
	c.last.next = nil
	s.chains.Put(c.first)
	*c = spent[T]{}
}
