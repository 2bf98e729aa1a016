package node

import (
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// The core's kinds of units are the wire's.
var (
	_ [0]struct{} = [host.Actor - host.UnitKind(wire.UnitActor)]struct{}{}
	_ [0]struct{} = [host.Shell - host.UnitKind(wire.UnitShell)]struct{}{}
	_ [0]struct{} = [host.Wide - host.UnitKind(wire.UnitWide)]struct{}{}
	_ [0]struct{} = [host.Instance - host.UnitKind(wire.UnitInstance)]struct{}{}
)

// moveForHost moves one unit of a relocation, with a permit. One that is not here any more, as it
// has ended since the inventory, or that has joined another Spot since its own has left, has left as
// any other.
func (n *Node) moveForHost(e *host.Effect, op store.OpID, tell func(host.Event)) {
	ended := host.Event{Is: host.UnitEnded, Unit: e.Unit}
	c, here := n.actors.Load(e.Moves.ID)
	if !here || !c.resident() || host.UnitKind(unitOf(c)) != e.Moves.Kind || c.inSpotHere() {
		n.movesOut.leave()
		tell(ended)
		return
	}
	to := process{e.To.RID, uint64(e.To.Lifecycle)}
	end := n.moveUnit(n.host.units, unit{unitOf(c), c}, to, e.Until, op, func() {
		tell(host.Event{Is: host.CutOver, Unit: e.Unit})
	})
	log := n.log.Debug()
	if end.result != unitLeft {
		log = n.log.Warn()
		ended.Ended, ended.Reason, ended.Failure = host.Stayed, n.whyStayed(c, &end), end.err.Error()
		if end.result == unitLost {
			ended.Ended = host.Lost
		}
	}
	log.Stringer("kind", e.Moves.Kind).Str("object", clip(e.Moves.ID)).Str("target", e.To.RID).Stringer("result", ended.Ended).
		Stringer("reason", ended.Reason).Str("error", clip(ended.Failure)).Msg("the move of a unit has ended")
	tell(ended)
}

// inSpotHere reports whether the Actor is in a User Spot that has not left. Whose unit began to move
// has left the Spot that it should follow, and is a part of that one now.
func (c *objectCell) inSpotHere() bool {
	spot := c.spot.Load()
	return spot != nil && spot.resident()
}

// whyStayed is the reason of a unit that did not leave. TargetUnavailable is for one of which
// nothing was sent: another target may take it.
func (n *Node) whyStayed(c *objectCell, e *unitEnd) host.Reason {
	switch kind := e.err.Kind; {
	case n.stopping.Load():
		return host.ShutdownRequested
	case e.result == unitLost, c.stuck.Load() != nil:
		return host.RelocationFailed
	case kind == errkind.DeadlineExceeded:
		return host.DeadlineExceeded
	case kind == errkind.Rejected:
		return host.RelocationDisabled
	case kind == errkind.InternalFailure:
		return host.StateIncompatible
	case !e.sent && (kind == errkind.Unavailable || kind == errkind.CapacityExceeded || kind == errkind.ShuttingDown):
		return host.TargetUnavailable
	}
	return host.RelocationFailed
}
