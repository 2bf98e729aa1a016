package node

import (
	"context"

	"github.com/zlnode/zlnode/internal/errkind"
)

// moveActor decides a Join to a Spot of another node, to which r leads.
func (n *Node) moveActor(_ context.Context, j *PendingJoin, r *route) {
	j.decide(joinFailed(fail(errkind.Unavailable, opJoin, j.Spot, "the spot is at node %s; this node cannot move actors", r.ref.RID)))
}
