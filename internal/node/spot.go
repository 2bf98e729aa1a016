package node

import (
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/store"
)

// gateOf makes the gate that a new Spot shares with its members: one for all of a
// SpotWide Spot, one of its own for an Instance Spot, whose handlers may yield it. Others
// have the gate that is part of their mailbox (MB-02).
func (n *Node) gateOf(t *ObjectType) *mailbox.Group {
	if t.Wide || t.Kind == store.InstanceSpot {
		return mailbox.NewGroup(n.pool)
	}
	return nil
}

// mayYield reports whether the object's turns run under a gate that they can give up.
func (a *objectCell) mayYield() bool { return a.group.Load() != nil }

// sharesGate reports whether b's turns wait for the end of a's.
func (a *objectCell) sharesGate(b *objectCell) bool {
	g := a.group.Load()
	return g != nil && g == b.group.Load()
}

// PlaceSpot makes a Spot at this node of which the Store knows nothing: for tests of
// handlers. It runs its OnInitialize.
func (n *Node) PlaceSpot(id, typ string) error {
	t := n.app.Spots[typ]
	if t == nil {
		return fail(errkind.NotConfigured, "place spot", id, "there is no spot type %q", typ)
	}
	ref := ActorRef{ID: id, ObjectGen: 1, Mesh: n.cfg.Mesh, RID: n.cfg.RID, Lifecycle: n.id.Lifecycle, OwnerGen: 1}
	c, err := n.openSpot(n.life, t, ref)
	if err != nil {
		return err.of("place spot", id)
	}
	if !n.admitCell(c) {
		return fail(errkind.AlreadyExists, "place spot", id, "it is there already")
	}
	return nil
}

// HasSpot reports whether there is a Spot with that id: for tests.
func (n *Node) HasSpot(id string) bool {
	c, ok := n.actors.Load(id)
	return ok && c.typ.Kind != store.Actor
}

// PlaceMember makes an Actor of this node a member of a User Spot of this node, of which
// the Store knows nothing: for tests of handlers.
func (n *Node) PlaceMember(actor, spot string) error {
	a, s := n.cellOf(actor, store.Actor), n.cellOf(spot, store.UserSpot)
	if a == nil || s == nil {
		return fail(errkind.NotFound, "place member", actor, "actor or user spot %q is not at this node", spot)
	}
	done := make(chan *Error, 1)
	a.lifecycle(func(t *turn) {
		if t.refused == nil {
			a.join(t.claim, s)
		}
		done <- t.refused
	})
	if err := <-done; err != nil {
		return err.of("place member", actor)
	}
	return nil
}

// join makes the Actor a member of the User Spot, from its next turn on. Under its claim.
func (a *objectCell) join(claim *mailbox.Claim[message], spot *objectCell) {
	g := spot.group.Load()
	claim.Join(g)
	a.group.Store(g)
	a.spot.Store(spot)
}

// hasMember reports whether the Actor is in the Spot. While the Actor has no Join, it may
// be about to leave.
func (a *objectCell) hasMember(actor *objectCell) bool {
	if spot := actor.spot.Load(); spot != nil {
		return spot == a
	}
	return a == a.node.entry
}

// cellOf returns the object of that kind with that id, or nil.
func (n *Node) cellOf(id string, kind store.Kind) *objectCell {
	if c, ok := n.actors.Load(id); ok && c.typ.Kind == kind {
		return c
	}
	return nil
}

// Idle reports whether no turn runs or waits at the node, but for those in a Yield: for
// tests.
func (n *Node) Idle() bool {
	s := n.pool.Stats()
	return s.Running == 0 && s.Blocked <= s.Yields && s.Ready == 0
}
