package relay

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// HopsMax is how often a message follows an object at most.
const HopsMax = 8

// Follow decides about messages that come for an object to its old owner.
type Follow struct{}

// NewFollow returns the Follow of an object that is another's, of ownerGen, as was learnt at
// the time given. A duration of 0 follows nothing.
func NewFollow(object store.ObjectGen, owner store.OwnerGen, learnt clock.Mono, duration time.Duration) Follow {
	return Follow{}
}

// Until returns when it ends.
func (f *Follow) Until() clock.Mono { return 0 }

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

// Decide says how the message goes on, or why it does not.
func (f *Follow) Decide(now clock.Mono, m Stray) (Forward, *Failure) { return Forward{}, nil }
