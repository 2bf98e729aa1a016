package mailbox

import (
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/invariant"
)

// Consumer gets a mailbox's messages, one at a time. Its methods are called by
// workers, on changing goroutines but never two at once; each call sees all that
// the calls before it wrote. So a consumer's own state needs no lock.
//
// A call may take its time, since it stops this mailbox only: waits that the
// caller knows of go through Claim.Blocking, others are found by the pool after
// some milliseconds. If a call panics, its turn ends there and the next message
// follows (Config.OnPanic).
type Consumer[T any] interface {
	// Begin is called once, when this consumer gets the mailbox: before any
	// message, under the claim.
	Begin(c *Claim[T])
	// Consume handles one message: one turn. v is its place in the queue, which a later
	// message uses again: so who keeps the message copies it, and what is left in it
	// when the call ends stays referenced until then. It owns what v refers to.
	Consume(c *Claim[T], v *T)
}

// Claim is the exclusive right to run a mailbox for a while. It is valid during
// the call that it was given to and must not be kept or used by other goroutines.
type Claim[T any] struct {
	m      *Mailbox[T]
	w      *worker // nil while nobody holds the claim
	number uint64
}

// Number identifies the claim among all of this mailbox: it grows from claim to
// claim and is never used again, so that a late completion of work that an older
// claim started can be told from a present one. Seal starts a new claim, Become
// and a panic do not.
func (c *Claim[T]) Number() uint64 { return c.number }

// Now returns the time of the worker's last look at the clock, which saves a look for
// each turn: at most 7 turns ago, if turns take less than a microsecond, else at the
// beginning of this one or of the one before. A claim's first turn, and the first after
// a Blocking or a Yield, have a new one.
func (c *Claim[T]) Now() clock.Mono { return c.held().slice.now }

// Local returns a place for one value that stays with the worker from turn to turn: for
// what is costly to make and used in one turn at a time. A turn that takes the value
// leaves nil while it uses it, as turns nest, and puts it back through the same pointer.
func (c *Claim[T]) Local() *any { return &c.held().local }

// Become makes next the consumer from the next message on; its Begin is called
// first, as soon as this call of Begin or Consume has ended. The last Become of a
// turn counts. An object ends by becoming a consumer that refuses.
func (c *Claim[T]) Become(next Consumer[T]) {
	c.held()
	invariant.Check(next != nil, "mailbox: Become without a consumer")
	c.m.consumer = next
	c.m.fresh = true
}

// Unread puts v, whose payload is bytes long, in front of all that is queued: the next
// turn is that of the last one. It is for a consumer that has kept messages and gives
// them on. They count in the budgets, in which they may go over the limits: until they
// are worked off Push finds no room. bytes below 0 says that it is a control message.
func (c *Claim[T]) Unread(v *T, bytes int) {
	c.held()
	m := c.m
	n := m.nodes.get()
	n.V, n.cost, n.next = *v, costControl, m.list
	if bytes >= 0 {
		n.cost = costOf(bytes)
		m.budget.force(n.cost, &m.pool.quota)
	}
	m.list = n
}

// Blocking runs f, which may wait, on the same goroutine. The claim stays held,
// so the mailbox's other messages wait too; the worker's place in the pool is
// lent to another worker meanwhile, so that nothing else does.
func (c *Claim[T]) Blocking(f func()) {
	w := c.held()
	w.pool.lend(w)
	defer w.pool.regain(w) // also if f panics
	f()
}

// held returns the worker that holds the claim.
func (c *Claim[T]) held() *worker {
	invariant.Check(c.w != nil, "mailbox: a claim was used after its end")
	return c.w
}
