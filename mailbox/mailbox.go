package mailbox

import (
	"errors"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/invariant"
)

// ErrFull is returned by Push when the message does not fit into the mailbox's
// budget, or into that of the pool. The message was not taken: it stays the caller's,
// who may refuse it to its sender or try again once turns have ended.
var ErrFull = errors.New("mailbox: the budget is used up, the message was not taken; refuse it or try again later")

// Limits is the budget of one mailbox. It counts what was admitted and whose
// turn has not ended, so a message that a consumer works on still counts.
type Limits struct {
	// Messages is the number of messages; default 4,096, at most 2^24-1 (more is
	// taken as that). With less, senders see ErrFull earlier; with more, a slow
	// consumer answers later.
	Messages int
	// Bytes bounds the sum of the messages' costs; default 4 MiB, at most 2^40-1
	// (more is taken as that). The cost of a message is its bytes and 256 for what
	// surrounds it, so that many tiny messages cannot use up the memory. A message
	// whose own cost is above the limit is never admitted.
	Bytes int64
}

// Mailbox is an execution gate with its queue: messages from any goroutine, one
// consumer, one turn at a time. An idle mailbox is a block of 192 bytes; it owns
// no goroutine, timer, channel or queue node, and needs no Close: one that nobody
// references any more is garbage.
//
// Order: two messages that one goroutine pushed, or whose pushes are ordered
// otherwise, are consumed in that order, control messages among them. Every
// message that Push took is given to exactly one consumer exactly once, as long
// as the pool runs.
//
// All methods are safe for concurrent use. None waits for a turn or for room.
type Mailbox[T any] struct {
	// Producers write inbox and budget on each push and read the rest of this
	// cache line.
	inbox  inbox[T]
	budget budget
	nodes  *nodes[T]
	pool   *Pool
	_      [8]byte

	// The claim's holder owns this line, except sealed, which Seal sets, and
	// finished, which producers and Len read.
	finished atomic.Uint64
	consumer Consumer[T]
	sealed   atomic.Pointer[successor[T]]
	list     *Slot[T] // taken from the inbox and not yet consumed, oldest first
	claim    Claim[T]

	// The claim's holder owns this line too, except lane, which the first
	// PushLifecycle sets; link in gate is the ready set's while the mailbox is in it.
	gate  gate
	lane  atomic.Pointer[lane[T]] // nil: nothing was ever pushed into it
	fresh bool                    // the consumer's Begin is due
	_     [7]byte
}

// successor is a consumer that waits to take over.
type successor[T any] struct{ consumer Consumer[T] }

// New returns an idle mailbox that p runs. Its consumer's Begin is called by the
// first claim, right before the first message; never, if a Seal comes before that.
func New[T any](p *Pool, c Consumer[T], l Limits) *Mailbox[T] {
	invariant.Check(c != nil, "mailbox: New without a consumer")
	m := new(Mailbox[T])
	m.init(p, c, l)
	return m
}

func (m *Mailbox[T]) init(p *Pool, c Consumer[T], l Limits) {
	m.pool, m.consumer, m.fresh, m.nodes = p, c, true, nodesOf[T](p)
	m.budget.init(l)
	m.inbox.init(&m.nodes.idle)
	m.claim.m = m
	m.gate.init(m, p.ready.shard())
}

// Push appends v, whose payload is bytes long, or returns ErrFull and takes
// nothing. Admission check and enqueue are one step: a message that was admitted
// is in the queue for good, and no seal or end of the object gets in between.
// What v refers to belongs to the consumer from then on; after ErrFull it is
// still the caller's. bytes must not be negative.
func (m *Mailbox[T]) Push(v T, bytes int) error {
	s, err := m.Reserve(bytes)
	if err != nil {
		return err
	}
	s.V = v
	m.Enqueue(s)
	return nil
}

// Reserve and Enqueue are the two halves of Push for a message that is made in its
// place in the queue, which spares copies of large ones. A slot that Reserve returned
// must be given to Enqueue of the same mailbox, and is the consumer's from then on.
// Order is that of Enqueue.
func (m *Mailbox[T]) Reserve(bytes int) (*Slot[T], error) {
	cost := costOf(bytes)
	if !m.budget.reserve(cost, &m.finished, &m.pool.quota) {
		return nil, ErrFull
	}
	s := m.nodes.get()
	s.cost = cost
	return s, nil
}

// Enqueue appends the message that was written to s.
func (m *Mailbox[T]) Enqueue(s *Slot[T]) {
	if m.inbox.push(s, &m.nodes.idle) {
		m.ready()
	}
}

// PushControl appends v outside the budget, in the same order as Push. It is for
// the framework's own control messages, of which there is a fixed number per
// object at any time: that number is their bound, since nothing here refuses
// them. They are not counted by Len.
func (m *Mailbox[T]) PushControl(v T) {
	n := m.nodes.get()
	n.V, n.cost = v, costControl
	m.Enqueue(n)
}

// Seal makes next the consumer in place of the present one: a turn that is
// running ends, then a new claim begins, whose holder is next. All that is queued
// and all that comes later goes to next; its Begin is called even if no message
// is there. A consumer is one that runs handlers, or holds, forwards or refuses:
// producers see no difference and are never stopped.
//
// Of several seals that no claim has taken yet the last one wins; the consumers
// of the others never begin and never see a message. A seal also wins over a
// Become of the turn it meets: the consumer named there never begins.
func (m *Mailbox[T]) Seal(next Consumer[T]) {
	invariant.Check(next != nil, "mailbox: Seal without a consumer")
	if m.sealed.Swap(&successor[T]{next}) != nil {
		return // the marker of the seal before is on its way, and no claim has come
	}
	m.mark()
}

// Len returns the number of admitted messages whose turn has not ended. While
// others push and consume, it is a value from some moment of the call.
func (m *Mailbox[T]) Len() int { return m.budget.messages(&m.finished) }

// mark makes the mailbox ready, like any push, without a message.
func (m *Mailbox[T]) mark() {
	n := m.nodes.get()
	n.cost = costMarker
	m.Enqueue(n)
}

// ready puts the mailbox where the next claim finds it. Called by who has just made
// it ready, or by the claim's holder as its last step.
func (m *Mailbox[T]) ready() {
	if g := m.gate.group; g != nil {
		g.members.PushControl(&m.gate)
	} else {
		m.pool.put(&m.gate)
	}
}
