package node

import (
	"github.com/zlnode/zlnode/internal/host"
)

// moveForHost moves one unit of a relocation, with a permit. One that is not here any more, as it
// has ended since the inventory, has left as any other.
func (n *Node) moveForHost(e *host.Effect, tell func(host.Event)) {
	ended := host.Event{Is: host.UnitEnded, Unit: e.Unit}
	c, here := n.actors.Load(e.Moves.ID)
	if !here || !c.resident() || unitKindOf(c.typ) != e.Moves.Kind {
		n.movesOut.leave()
		tell(ended)
		return
	}
	to := process{e.To.RID, uint64(e.To.Lifecycle)}
	end := n.moveUnit(n.host.units, unit{e.Moves.Kind, c}, to, e.Until, func() {
		tell(host.Event{Is: host.CutOver, Unit: e.Unit})
	})
	ended.Ended, ended.Reason = end.result, end.reason
	if end.err != nil {
		ended.Failure = end.err.Error()
	}
	log := n.log.Debug()
	if end.result != host.Left {
		log = n.log.Warn()
	}
	log.Stringer("kind", e.Moves.Kind).Str("object", clip(e.Moves.ID)).Str("target", e.To.RID).Stringer("result", end.result).
		Stringer("reason", end.reason).Str("error", ended.Failure).Msg("a unit of a relocation has ended")
	tell(ended)
}
