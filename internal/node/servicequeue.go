package node

import "sync"

// served is a message in the queue of a service.
type served struct {
	message
	packet *servicePacket
	cost   int64
}

// serviceQueue is a queue in blocks, which are used again when they are worked off: what
// waited once keeps no memory. The zero value is empty.
type serviceQueue struct {
	first, last *serviceBlock
	begin, end  int // of what is in first, and in last
	len         int
}

const serviceBlockLen = 16

type serviceBlock struct {
	messages [serviceBlockLen]served
	next     *serviceBlock
}

var serviceBlocks = sync.Pool{New: func() any { return new(serviceBlock) }}

// push makes a place at the end, empty as message.fill expects it.
func (q *serviceQueue) push() *served {
	if q.last == nil || q.end == serviceBlockLen {
		b := serviceBlocks.Get().(*serviceBlock)
		if q.last == nil {
			q.first, q.begin = b, 0
		} else {
			q.last.next = b
		}
		q.last, q.end = b, 0
	}
	q.end++
	q.len++
	return &q.last.messages[q.end-1]
}

// pop moves the first message out of its place; there must be one.
func (q *serviceQueue) pop(into *served) {
	place := &q.first.messages[q.begin]
	*into, *place = *place, served{}
	q.begin++
	q.len--
	switch b := q.first; {
	case q.len == 0:
		*q = serviceQueue{}
		serviceBlocks.Put(b)
	case q.begin == serviceBlockLen:
		q.first, q.begin = b.next, 0
		b.next = nil
		serviceBlocks.Put(b)
	}
}
