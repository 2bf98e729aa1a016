package node

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/internal/wire"
)

// This file is how long moves take, by the points of each: at its source S0, its unit is sealed;
// S1, the cutover is submitted; S4, nobody's messages come here for it any more. At its target S2,
// the commit is known; S3, its first turn may begin. Clocks of two nodes are never subtracted.

// moveSlow is how long a unit may stand still at one node before the log says so.
const moveSlow = time.Second

// unitKinds are all that moves: a Join, and the units of a relocation.
const unitKinds = int(wire.UnitInstance) + 1

// moveTimes are the times of one kind of unit.
type moveTimes struct {
	sourceStop       spread // S0 to S1
	targetResume     spread // S2 to S3
	routeConvergence spread // S1 to S4
}

// MoveTimes are how long the moves of one kind of unit took.
type MoveTimes struct {
	SourceStop, TargetResume, RouteConvergence Spread
}

func (m *moveTimes) look() MoveTimes {
	return MoveTimes{m.sourceStop.look(), m.targetResume.look(), m.routeConvergence.look()}
}

// stoodStill counts a time that a unit has stood still here, and says so if it is long.
func (n *Node) stoodStill(of *spread, unit wire.Unit, id, where string, took time.Duration) {
	of.add(took)
	if took <= moveSlow {
		return
	}
	if left, ok := n.said.moveSlow.Take(clock.Now()); ok {
		n.log.Warn().Str("kind", host.UnitKind(unit).String()).Str("object", clip(id)).Str("where", where).Dur("took", took).Int64("left_out", left).
			Msg("an object that moves stood still for long; see the times of moves in the node's statistics")
	}
}
