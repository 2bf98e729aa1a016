package sim

import "slices"

// moved is what runs of moves of every kind must have reached, so that they prove something.
var moved = []string{
	"committed moves", "not moved", "source ended moved", "source ended failed", "source ended rejected", "target ended opened",
	"target ended dropped", "joined at its node", "executed", "executed after a move", "executed that was carried", "replied", "shown",
	"a carried reply came", "came straight to a temporary queue", "relayed what was held", "followed", "a follow ended",
	"a packet waited for the end of a move", "an actor came back", "destroyed", "answered after the faults", "chunk",
	"a connection was lost", "client is away", "client is back", "client has resumed", "client does not come back in time",
	"client is replaced while it is away", "a half-open connection was resumed", "a push was kept for a client that is away",
	"a push was sent again", "a client came back elsewhere", "a token was not known",
	"a session was replaced", "a session with several bindings", "a client left", "a client parted with an actor", "a binding ended with its actor",
}

// moveWanted is what the runs of each kind must have reached.
var moveWanted = map[string][]string{
	"moves, calm":  moved,
	"moves, store": slices.Concat(moved, []string{"failover that lost changes", "rows are written again", "outage", "lost answer", "late request"}),
	"moves, network": slices.Concat(moved, []string{
		"cut", "stall", "partition", "half-open", "one way", "a link was replaced", "a silent peer was given up",
		"a record of a link that is over was dropped", "a second link was refused",
		"relayed again over a new link", "sent again by a fresh way",
	}),
	"moves, process": slices.Concat(moved, []string{"crash", "pause", "replace", "stop", "unavailable with its dead owner", "lease superseded"}),
	"moves, swarm":   {"committed moves", "not moved", "executed after a move"},
}

// moveWantedOfMany is what a batch of guardedAll seeds must have reached, of clients that come back.
var moveWantedOfMany = []string{
	"a client resumed with several actors", "a resumption waited for a move", "a resumption bound once more", "a resumption failed",
	"a resumption found an actor gone", "a resumption came too late for a push",
	"a push came during a resumption", "a reserved session lost a push", "a push to a session that ends was refused",
	"a session found no room to be reserved", "a node died with a reserved session", "a client was lost during a move",
	"an actor's move was sealed while its client was away", "an actor moved while its client was away",
	"before the seal × client has resumed",
}

// lostWanted is what the scripts of lost clients must have reached: what happens to the client, and
// how far its Actor's move is then. One that is back waits for the end of the move.
var lostWanted = each([]string{"before the seal", "sealed", "captured", "relay-ready", "committed", "swapped"},
	[]string{"client is away", "client is back", "client does not come back in time"}, []string{
		"no move × client has resumed", "no move × client is replaced while it is away", "a node died with a reserved session",
		"a half-open connection was resumed", "a client came back elsewhere", "a resumption waited for a move", "a push was sent again",
		"a push came during a resumption", "a client resumed with several actors",
		"an actor's move was sealed while its client was away", "an actor moved while its client was away",
		"an actor's move was given up while its client was away",
	})

func each(phases, whats, more []string) (all []string) {
	for _, phase := range phases {
		for _, what := range whats {
			all = append(all, phase+" × "+what)
		}
	}
	return append(all, more...)
}

// The cells that a batch of moveGuardedAll seeds must have reached are those of Matrix.
const moveGuardedAll = 20_000

// drained is what runs of drains of every kind must have reached.
var drained = []string{
	"committed moves", "committed rooms", "committed members", "Actor Left", "PerActorSpot Left", "SpotWideSpot Left", "SpotWideSpot Stayed",
	"relocation: Relocated None", "relocation: Blocked DeadlineExceeded",
	"a room that came was initialized", "complete move Applied", "executed after a move",
}

// drainWanted is what the runs of each kind must have reached.
var drainWanted = map[string][]string{
	"drains, calm":    drained,
	"drains, store":   slices.Concat(drained, []string{"failover that lost changes", "lost answer", "relocation: Blocked StoreUnavailable"}),
	"drains, network": slices.Concat(drained, []string{"cut", "half-open", "partition"}),
	"drains, process": slices.Concat(drained, []string{"crash", "pause", "replace", "stop"}),
	"drains, swarm":   {"committed rooms", "relocate"},
}

// drainWantedOfMany is what a batch of guardedAll seeds must have reached.
var drainWantedOfMany = []string{
	"a room waited for who enters or leaves", "a bind came while a binding was sealed", "a join was refused as its node relocates", "a destroy was refused as its node relocates",
	"a move was refused as its target relocates", "a unit waited for a join", "a member that never followed was counted out",
	"a room's new owner died before its members had followed", "the capture of a room failed", "the restore of one of a room failed",
	"a room is stranded", "a stuck room was freed", "prepare aggregate AlreadyApplied", "prepare aggregate MoveConflict",
	"a client was lost during a move", "relocation: Blocked TargetUnavailable", "relocation: Blocked StateIncompatible",
	"relocation: Blocked ShutdownRequested", "PerActorSpot Lost",
}
