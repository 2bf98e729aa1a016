package engine

import "github.com/zlnode/zlnode/internal/buf"

// parts is what a message of SendParts has behind its head: views of the caller's
// memory. Its chunk is sealed from its birth and in one queue, so parts is the
// loop's alone once it is pushed.
//
// Invariant: done is called once, by the loop, when the chunk is freed.
type parts struct {
	body  [][]byte
	size  int // bytes of body
	begun int // views of body of which the first bytes may be written; 0: the head is next
	done  func(written bool)
	next  *parts // in a list of those whose chunks are freed
}

// SendParts queues one message: the bytes of head and behind them those of the
// views in body, with no other message in between. Nothing is copied: the views,
// and the slice of them, must not change until done is called.
//
// done tells that the engine has let go of them: with true when the socket has
// taken all bytes of the message, with false when they were dropped, because the
// connection ended. It is called exactly once for each SendParts that returned
// nil, and never for one that returned an error. It is called on the connection's
// loop, in the order of the messages, and must not block; what it sends goes out
// in a later turn, behind what others have queued, so that a stream whose next
// part is sent by done lets other messages in between. It may be called before
// SendParts has returned, if that is not called on the loop: so hold no lock
// meanwhile that done takes. When the connection ends, what is left has its calls
// before OnClose; after OnClose there are calls only if a Send or SendParts of the
// connection was under way then, and if the loop has ended too, it is a goroutine
// of those that makes them.
//
// For the rest it is Send: it takes head in every case, counts the bytes of all
// and one MessageCost, has the same errors, is safe for concurrent use and never
// blocks.
func (c *Conn) SendParts(head *buf.Buf, body [][]byte, done func(written bool)) error {
	if err := c.out.putParts(head, &parts{body: body, done: done}, c.ws != nil, c.p.OutMax); err != nil {
		return err
	}
	c.wantFlush()
	return nil
}

// putParts is put for a message of SendParts, or putMessage if it is one of a WebSocket.
func (q *outQueue) putParts(head *buf.Buf, p *parts, message bool, limit int64) error {
	for _, v := range p.body {
		p.size += len(v)
	}
	size := len(head.Bytes()) + p.size
	var lead [messageHeadMax]byte
	n := 0
	if message && size > 0 {
		lead, n = messageHead(size)
	}
	if err := q.enter(int64(n+size)+MessageCost, limit); err != nil {
		head.Free()
		return err
	}
	q.push(newLedChunk(lead[:n], head, p))
	return nil
}

// rest returns the views that come after what goes out next. A nil p has none.
func (p *parts) rest() [][]byte {
	if p == nil {
		return nil
	}
	return p.body[p.begun:]
}

// advance goes on to the next view and reports whether there was one.
func (p *parts) advance() bool {
	if p == nil || p.begun == len(p.body) {
		return false
	}
	p.begun++
	return true
}

// tell calls done of p and of those behind it. Loop only.
func (p *parts) tell(written bool) {
	for p != nil {
		next := p.next
		p.next = nil
		p.done(written)
		p = next
	}
}

// partsList gathers the parts whose chunks are freed, in order.
type partsList struct{ first, last *parts }

func (l *partsList) add(p *parts) {
	switch {
	case p == nil:
		return
	case l.first == nil:
		l.first = p
	default:
		l.last.next = p
	}
	l.last = p
}
