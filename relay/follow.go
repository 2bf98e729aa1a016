package relay

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// HopsMax is how often a message follows an object at most.
const HopsMax = 8

// Follow decides about messages that come for an object to its old owner, once that knows
// that the object is another's. It reads no Store (MF-01).
type Follow struct {
	object store.ObjectGen
	owner  store.OwnerGen // of the object where it is now
	until  clock.Mono
}

// NewFollow returns the Follow of an object that is another's, as owner, since the time given.
// A duration of 0 follows nothing.
func NewFollow(object store.ObjectGen, owner store.OwnerGen, learnt clock.Mono, duration time.Duration) Follow {
	return Follow{object, owner, learnt.Add(duration)}
}

// Until returns when it ends.
func (f *Follow) Until() clock.Mono { return f.until }

// Stray is a message that came to an old owner.
type Stray struct {
	ObjectGen store.ObjectGen // that it checks; 0: it takes any
	OwnerGen  store.OwnerGen  // of the route that it was sent by; 0: not known
	Hops      uint8           // made so far
	Deadline  clock.Mono      // of a request; clock.Never for none
}

// Forward is how a message goes on.
type Forward struct {
	OwnerGen store.OwnerGen // of the route from here
	Hops     uint8
}

// Decide says how the message goes on, or why it does not: the time is looked at when it is used.
// The owner generation of a message's route grows with each hop, so it never comes back to where
// it was.
func (f *Follow) Decide(now clock.Mono, m Stray) (Forward, *Failure) {
	switch {
	case m.ObjectGen != 0 && m.ObjectGen != f.object:
		return Forward{}, &Failure{errkind.InvalidOperation, "it is of another generation"}
	case now.Reached(m.Deadline):
		return Forward{}, &Failure{errkind.DeadlineExceeded, "the deadline is over before the message was sent on"}
	case now.Reached(f.until):
		return Forward{}, &Failure{errkind.Unavailable, "the object has moved, and messages do not follow it any more"}
	case m.OwnerGen >= f.owner:
		return Forward{}, &Failure{errkind.Unavailable, "the message goes in circles"}
	case m.Hops >= HopsMax:
		return Forward{}, &Failure{errkind.Unavailable, "the message has followed the object too often"}
	}
	return Forward{f.owner, m.Hops + 1}, nil
}
