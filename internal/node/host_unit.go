package node

import (
	"context"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/host"
)

// unit is what a relocation of the node moves in one go.
type unit struct {
	kind host.UnitKind
	cell *objectCell
}

// unitEnd is how that ended. reason and err are of what has not left.
type unitEnd struct {
	result host.UnitResult
	reason host.Reason
	err    *Error
}

// moveUnit moves one unit for the node, and returns when it is known how that ended. It has one of
// the permits (movesOut) and gives it back, as soon as the unit does not need it any more. Up to
// the boundary it goes on until the deadline, or until ctx ends, as the node begins to stop;
// cutover is called when it was submitted. TargetUnavailable is for a unit that the target did not
// take before anything of it was sent: another one may.
func (n *Node) moveUnit(_ context.Context, _ unit, _ process, _ clock.Mono, _ func()) unitEnd {
	n.movesOut.leave()
	return unitEnd{host.Stayed, host.RelocationDisabled, nil}
}
