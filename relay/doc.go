// Package relay is the pure core of how a live object moves to another process.
//
// What moves is a unit: an Actor, with its state, its queue and its timers. A Source acts
// for the process that owns it, a Target for the one that it goes to. The Source asks for
// admission, reserves the move in the unit's row of the Store, stops the unit and sends it.
// The Target restores it without running anything of it, says that it is ready, and makes it
// its own by the one commit of the move. What still arrives at the old owner is relayed,
// numbered by Out and In, for as long as Follow allows.
//
// A machine does nothing itself. Step takes what happened, Effect says what is to be done
// next, whose end is the next event, and NextDeadline when Step wants to be called at the
// latest. There is one effect at a time, which is taken before the next Step: a machine is a
// conversation with the Store, the other machine and the application. Machines are not
// safe for concurrent use.
//
// # The boundary
//
// The Source accepts relay-ready once: in time, under a lease that is valid, within the time
// that a sealed Session has. Before, whatever goes wrong brings the unit back to life where
// it was; from then on nothing does. As the Target may commit without having heard of the
// Source again, going back is a change of the Store too: of abort and commit one applies.
//
// What holds in any order of events, lost answers and deaths:
//
//   - The Source gives the unit back only if it never reserved the move, or knows that no
//     commit of it applies any more.
//   - The Target opens the unit only if it knows that its commit is applied, and that the
//     row says so in the present epoch of the Store. It drops one for which it said that it
//     is ready only if it knows that no commit of its applies any more.
//   - A change that may have been applied is asked for again with the same operation id
//     until the Store has answered; it is never taken for failed.
//   - A machine ends once; what comes later changes nothing.
package relay

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// EntryChunkBytes is the size of chunks, encoded, to a target that was not asked for
// admission and so has not told its limit (RL-04).
const EntryChunkBytes = 32 << 10

// Timing is how long the machines wait.
type Timing struct {
	Wait    time.Duration // before the first repetition; each further wait is twice as long, up to
	WaitMax time.Duration // for a reservation, a look at the row, or a callback
	Settle  time.Duration // for an abort, a commit or its end, which go on until they are known

	CutoverWait time.Duration // of silence after which a target commits without a cutover
	SealTimeout time.Duration // for which a Session's owner waits for a sealed binding's route
	Validity    time.Duration // of a Restore, from relay-ready
	Prepared    time.Duration // for which a preparation is valid at least
	Insist      time.Duration // for which callbacks are tried at least, from the commit on
}

// Failure is how something ended badly.
type Failure struct {
	Kind errkind.Kind
	Text string
}

// Reply is what the application answered to the one who wants to move.
type Reply struct {
	Present bool
	Codec   uint8
	Payload []byte // nobody changes it
}

// Process is one lifecycle of a node.
type Process struct {
	RID       string
	Lifecycle store.LeaseGen
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
