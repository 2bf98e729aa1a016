package link

import "github.com/zlnode/zlnode/internal/invariant"

// LinkID is what tells the links of one pair of nodes apart.
type LinkID struct {
	Peer      string // RID of the other node
	Lifecycle uint64 // of the other node's process
	Dialled   bool   // by this node
}

// Decision says what becomes of two links to one RID.
type Decision uint8

// The decisions.
const (
	Replace         Decision = iota + 1 // incoming stays, existing is closed as replaced
	RefuseDuplicate                     // existing stays, incoming is refused as a duplicate
	RefuseStale                         // existing stays, incoming is of an older process
)

// Prefer decides which of two links to the same RID stays, at node self.
//
// A newer process of the peer replaces an older one and is never replaced by it.
// Within one lifecycle two links of opposite directions are judged by what both
// ends know, so that both keep the same one: the link that the smaller RID (in
// byte order) dialled. Two links of the same direction are an old one, whose
// dialler has given it up, and its successor: the newer stays. For this a node
// has no two dials to one peer in progress at a time.
func Prefer(existing, incoming LinkID, self string) Decision {
	// A node links to itself as server and client of a channel only, which have their own slots.
	invariant.Check(existing.Peer == incoming.Peer && (incoming.Peer != self || incoming.Dialled == existing.Dialled),
		"links to %q and %q compared at node %q", existing.Peer, incoming.Peer, self)
	switch {
	case incoming.Lifecycle > existing.Lifecycle:
		return Replace
	case incoming.Lifecycle < existing.Lifecycle:
		return RefuseStale
	case incoming.Dialled == existing.Dialled:
		return Replace
	case incoming.Dialled == (self < incoming.Peer):
		return Replace
	default:
		return RefuseDuplicate
	}
}

// ShouldDial reports whether self has to open the link to peer: the smaller RID
// dials a peer that both found in the Store; a manual peer is dialled by the
// node that has it in its configuration, because the other may not know of it.
func ShouldDial(self, peer string, manual bool) bool {
	return manual || self < peer
}
