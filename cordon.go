package zlnode

import "context"

// Cordon says who may place something new at a cordoned node.
type Cordon struct {
	// Passes are secrets of which each lets in who names it: CreateActor.Pass, CreateSpot.Pass.
	// At most 16, each of 1 to 255 bytes of UTF-8. Nodes and the Store know them by their
	// SHA-256 alone, which hides only what cannot be guessed: take random ones. None: nobody.
	Passes []string
}

// Cordon has nothing new placed at the node: no Actors, no Spots, and none of the Actors that
// JoinEntrySpot takes away from a node of weight 0, nor anything that Relocate takes away from
// another node; by nobody, this node included, but those who
// name a pass. What is there goes on: its Actors and Spots take messages, its User Spots take
// Joins, also from other nodes, its Sessions stay, and its channels are served. Messages with
// Instance intent are for Spots that are there; a new one comes into being elsewhere, whatever
// its sender knows. With passes one can try a node, such as one of a new version, before it
// takes its share, or keep one that is about to be drained from filling up.
//
// It stands until Uncordon, or the end of the process, also over a new epoch of the Store. Of a
// second Cordon the passes take the place of those before. When it returns nil, the Store refuses
// reservations at this node; a creation that was reserved before goes on. With an error this
// node takes no Instance Spots, and what others know of it is open: call again.
//
// Kinds: NotConfigured: the node is no RoleServer; InvalidOperation: a pass is out of bounds;
// Unavailable: the Store does not answer; ShuttingDown; DeadlineExceeded.
func (n *Node) Cordon(ctx context.Context, c Cordon) error { return n.inner.Cordon(ctx, c.Passes) }

// Uncordon ends the Cordon. Without one it changes nothing. Kinds are those of Cordon.
func (n *Node) Uncordon(ctx context.Context) error { return n.inner.Uncordon(ctx) }

// Cordoned reports whether a Cordon stands.
func (n *Node) Cordoned() bool {
	_, stands := n.inner.Cordoned()
	return stands
}
