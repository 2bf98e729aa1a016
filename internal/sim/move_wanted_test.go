package sim

import "slices"

// moved is what runs of moves of every kind must have reached, so that they prove something.
var moved = []string{
	"committed moves", "not moved", "source ended moved", "source ended failed", "source ended rejected", "target ended opened",
	"target ended dropped", "joined at its node", "executed", "executed after a move", "executed that was carried", "replied", "shown",
	"a carried reply came", "came straight to a temporary queue", "relayed what was held", "followed", "a follow ended",
	"a packet waited for the end of a move", "an actor came back", "destroyed", "answered after the faults", "chunk",
	"a session was replaced", "a session with several bindings", "a client left", "a client parted with an actor", "a binding ended with its actor",
}

// moveWanted is what the runs of each kind must have reached.
var moveWanted = map[string][]string{
	"moves, calm":    moved,
	"moves, store":   slices.Concat(moved, []string{"failover that lost changes", "rows are written again", "outage", "lost answer", "late request"}),
	"moves, network": slices.Concat(moved, []string{"cut", "stall", "partition", "relayed again over a new link", "sent again by a fresh way"}),
	"moves, process": slices.Concat(moved, []string{"crash", "pause", "replace", "stop", "unavailable with its dead owner", "lease superseded"}),
	"moves, swarm":   {"committed moves", "not moved", "executed after a move"},
}

// The cells that a batch of moveGuardedAll seeds must have reached are those of Matrix.
const moveGuardedAll = 20_000
