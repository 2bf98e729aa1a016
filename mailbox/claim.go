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

// Now returns the present to 33 microseconds (if the processor has 1 GHz at least), also
// if the process was paused until now. It is made for each turn to ask: most often it
// looks at a count and not at the clock.
func (c *Claim[T]) Now() clock.Mono {
	w := c.held()
	if clock.Ticks()-w.ticks >= clock.Near || !clock.Steady {
		w.look()
	}
	return w.seen
}

// Kept is what a message that a consumer keeps takes of the budgets.
type Kept struct{ cost uint64 }

// Counts reports whether the message counts in Len.
func (k Kept) Counts() bool { return k.cost != costControl }

// Keep says, in Consume, that the consumer keeps the message beyond the turn: it goes on to
// count in the budgets, so that what is kept and what is queued are bounded together. It
// ends by Unread or Release, in a later turn of the mailbox.
func (c *Claim[T]) Keep() Kept {
	w := c.held()
	k := Kept{w.turn}
	w.turn = 0
	return k
}

// Unread puts a message that was kept in front of all that is queued but the lane: the
// next turn is that of the last one.
func (c *Claim[T]) Unread(v *T, k Kept) {
	c.held()
	n := c.m.nodes.get()
	n.V, n.cost, n.next = *v, k.cost, c.m.list
	c.m.list = n
}

// Release ends the keeping of a message without a turn of its own: what it took of the
// budgets is given back at the end of this turn. In Begin there is no turn, so a consumer
// that ends messages there puts them back by Unread.
func (c *Claim[T]) Release(k Kept) { c.held().turn += k.cost }

// Local returns a place for one value that stays with the worker from turn to turn: for
// what is costly to make and used in one turn at a time. A turn that takes the value
// leaves nil while it uses it, as it may end its goroutine, and puts it back through the
// same pointer.
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
