// Package creation is the pure core of how objects come into being exactly once.
//
// An Actor or a User Spot is created by two machines. A Source acts for the caller: it
// reserves the id at a target in the Store, so that of all who race one wins (CR-01), has
// the target run the creation, and otherwise follows the row that is there until that
// gives its caller an end or lets it compete again (CR-12). A Target acts for the process
// that a reservation names: it runs the application's part once and ends the reservation
// in the Store, which nobody else may do while that process lives (CR-06 to CR-08).
//
// A machine does nothing itself. Step takes what happened, Effect says what is to be done
// next, whose end is the next event, and NextDeadline when Step wants to be called at the
// latest. There is one effect at a time, so a machine is a conversation: with the Store,
// with the other machine, with the application. Machines are not safe for concurrent use.
//
// What holds in any order of events, lost answers and deaths:
//
//   - A factory runs only for a row that is Creating, names this process and was read or
//     written by this operation.
//   - An operation that may have been applied is asked for again with the same operation
//     id until the Store has answered; it is never taken for failed.
//   - A machine ends once; what comes later changes nothing.
package creation

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// Timing is how long the machines wait between two looks at the Store.
type Timing struct {
	Wait    time.Duration // the first wait; each further one is twice as long, up to
	WaitMax time.Duration // for a creation of somebody else, or an answer that was lost
	Settle  time.Duration // the same for the end of a creation, which has no deadline
	Nudge   time.Duration // from one question to a creation's target to the next
}

// Failure is how something ended badly: a kind with its text, or what the Store said.
type Failure struct {
	Kind errkind.Kind
	Text string
	Err  error // of the Store, which then says the kind
}

// Result is what a creation gave.
type Result struct {
	store.Terminal
	// Owner is where the object is: RID, LeaseGen, Mesh and OwnerGen of the row.
	Owner store.Authority
}

// backoff is a wait that grows.
type backoff struct{ next time.Duration }

func (b *backoff) wait(now clock.Mono, t Timing, longest time.Duration) clock.Mono {
	if b.next == 0 {
		b.next = t.Wait
	}
	at := now.Add(b.next)
	b.next = min(2*b.next, longest)
	return at
}
