package relay

import (
	"cmp"

	"github.com/zlnode/zlnode/store"
)

// Fence identifies an attempt at its target, and orders the attempts of one id.
type Fence struct {
	ID         string
	ObjectGen  store.ObjectGen
	OwnerGen   store.OwnerGen // of the source
	Version    store.Version  // of the row that the source knows; in a Restore, of the reservation
	Relocation store.RelocationID
	Attempt    uint32
}

// Verdict says what an attempt that comes is to one that is there.
type Verdict uint8

const (
	Same    Verdict = iota + 1 // the same one again: its progress is used (RL-14)
	Replace                    // a later one: the one that is there is aborted first (RL-13)
	Stale                      // an earlier one, or the one that is there cannot be dropped now: refused
	Forged                     // the same identity with other contents: ProtocolError
)

// Judge decides between an attempt that is there and one that comes. The later one is that of
// the higher version, then of the higher attempt; of two Joins that changed nothing in
// the Store it is the one that comes. While have has sent a commit whose outcome is not known,
// nothing replaces it.
func Judge(have, comes Fence, committing bool) Verdict {
	switch same := have.Relocation == comes.Relocation && have.Attempt == comes.Attempt; {
	case same && (have.ID != comes.ID || have.ObjectGen != comes.ObjectGen || have.OwnerGen != comes.OwnerGen):
		return Forged
	case same:
		return Same
	case committing, cmp.Or(cmp.Compare(comes.Version, have.Version), cmp.Compare(comes.Attempt, have.Attempt)) < 0:
		return Stale
	default:
		return Replace
	}
}
