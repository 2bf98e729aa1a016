// Package mpsc is a lock-free queue with many producers and one consumer.
package mpsc

import "sync/atomic"

// Node carries one value through a Queue. A node is in at most one queue; the
// consumer owns it again once Pop returned it and may reuse it.
type Node[T any] struct {
	next  atomic.Pointer[Node[T]]
	Value T
}

// Queue is Vyukov's intrusive queue: Push is one atomic swap and one store, Pop
// has no atomic read-modify-write on the common path. The zero value must be
// initialised by Init.
//
// Invariant: from tail, following next, every pushed node is reached, except
// behind a node whose producer swapped head and has not yet stored next. So Pop
// returning nil is no proof that the queue is empty: a producer must tell the
// consumer of its push after Push returned, never before.
type Queue[T any] struct {
	head atomic.Pointer[Node[T]] // producers
	_    [56]byte                // producers and consumer do not share a cache line
	tail *Node[T]                // consumer
	stub Node[T]
}

// Init makes the queue empty. It must come before any other call.
func (q *Queue[T]) Init() {
	q.head.Store(&q.stub)
	q.tail = &q.stub
}

// Push appends n, whose ownership passes to the queue. Safe for concurrent use.
func (q *Queue[T]) Push(n *Node[T]) {
	n.next.Store(nil)
	q.head.Swap(n).next.Store(n)
}

// Pop takes the oldest node, or returns nil if there is none or if the push of
// the next one is not finished. Only the consumer may call it.
func (q *Queue[T]) Pop() *Node[T] {
	tail := q.tail
	next := tail.next.Load()
	if tail == &q.stub {
		if next == nil {
			return nil
		}
		q.tail = next
		tail = next
		next = tail.next.Load()
	}
	if next != nil {
		q.tail = next
		return tail
	}
	if tail != q.head.Load() {
		return nil
	}
	q.Push(&q.stub)
	if next = tail.next.Load(); next != nil {
		q.tail = next
		return tail
	}
	return nil
}

// Empty reports whether there was nothing to take: every push that returned
// before the call has been popped. Only the consumer may call it.
func (q *Queue[T]) Empty() bool {
	return q.tail == &q.stub && q.head.Load() == &q.stub
}
