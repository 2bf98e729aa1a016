package node

import (
	"sync/atomic"

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
// handlers. It runs its first callbacks.
func (n *Node) PlaceSpot(id, typ string) error {
	t := n.app.Spots[typ]
	if t == nil {
		return fail(errkind.NotConfigured, "place spot", id, "there is no spot type %q", typ)
	}
	ref := ActorRef{ID: id, ObjectGen: 1, Mesh: n.home.cfg.Name, RID: n.cfg.RID, Lifecycle: n.id.Lifecycle, OwnerGen: 1}
	c, err := n.openSpot(n.life, t, ref)
	if err != nil {
		return err.of("place spot", id)
	}
	if !n.admitCell(c) {
		return fail(errkind.AlreadyExists, "place spot", id, "it is there already")
	}
	return nil
}

// HasUserSpotType reports whether the node makes User Spots of that type: for tests.
func (n *Node) HasUserSpotType(typ string) bool { return n.app.typeOf(store.UserSpot, typ) != nil }

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
		err := t.refused
		if err == nil {
			err = a.join(t.claim, s)
		}
		done <- err
	})
	if err := <-done; err != nil {
		return err.of("place member", actor)
	}
	return nil
}

// join makes the Actor a member of the User Spot, from its next turn on. Under its claim.
func (a *objectCell) join(claim *mailbox.Claim[message], spot *objectCell) *Error {
	if !spot.members.enter() {
		return errClosing
	}
	if before := a.enter(claim, spot); before != nil {
		before.members.leave()
	}
	return nil
}

// enter makes the Actor a member of a User Spot, whose roster has counted it, or, if spot
// is nil, of the Entry Spot, from its next turn on. It returns the User Spot that it has
// left, whose roster counts it yet. Under its claim.
func (a *objectCell) enter(claim *mailbox.Claim[message], spot *objectCell) (left *objectCell) {
	var g *mailbox.Group
	if spot != nil {
		g = spot.group.Load()
	}
	claim.Join(g)
	a.group.Store(g)
	return a.spot.Swap(spot)
}

// roster counts the Actors in a User Spot, and those who have been let in and are on their
// way. The close of a Spot and the entry of a member exclude each other. The zero value is
// that of an open Spot without members. Safe for concurrent use.
type roster struct {
	count  atomic.Int32 // < 0: the Spot is being closed
	asking atomic.Int32 // of these, those about whom the Spot has not decided
}

// enter counts a member, unless the Spot is being closed.
func (r *roster) enter() bool {
	for {
		n := r.count.Load()
		if n < 0 {
			return false
		}
		if r.count.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (r *roster) leave() { r.count.Add(-1) }

// Members returns how many Actors are in the User Spot whose turn it is, or on their way.
func (c *Call) Members() int {
	mustBeInTurn(c.cell != nil)
	r := &c.cell.members
	asking := r.asking.Load() // first: who asks meanwhile is counted rather than forgotten
	return max(int(r.count.Load()-asking), 0)
}

// visitor is an Actor that asks a Spot to be let in. It counts in the roster from then on,
// until leave or, as a member, until it leaves the Spot.
type visitor struct {
	roster *roster
	state  atomic.Int32
}

const (
	visitorAsks int32 = iota
	visitorIn
	visitorLeft
)

// ask returns nil if the Spot is being closed.
func (r *roster) ask() *visitor {
	if !r.enter() {
		return nil
	}
	r.asking.Add(1)
	return &visitor{roster: r}
}

// letIn and turnDown are for the Spot's turn: from letIn on the visitor is one of its
// members to come. It is false if nobody waits for the decision any more.
func (v *visitor) letIn() bool {
	if !v.state.CompareAndSwap(visitorAsks, visitorIn) {
		return false
	}
	v.roster.asking.Add(-1)
	return true
}

func (v *visitor) turnDown() {
	if v.state.CompareAndSwap(visitorIn, visitorAsks) {
		v.roster.asking.Add(1)
	}
}

// leave is for one that becomes no member.
func (v *visitor) leave() {
	switch v.state.Swap(visitorLeft) {
	case visitorAsks:
		v.roster.asking.Add(-1)
		v.roster.leave()
	case visitorIn:
		v.roster.leave()
	}
}

// none reports whether there is no member.
func (r *roster) none() bool { return r.count.Load() <= 0 }

// shut lets nobody in any more. It reports false, and changes nothing, if there is a member
// or another close.
func (r *roster) shut() bool { return r.count.CompareAndSwap(0, -1) }

// reopen undoes shut.
func (r *roster) reopen() { r.count.Store(0) }

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

// Idle reports whether no turn runs or waits at the node, but for those in a Yield, and no
// Join is under way: for tests.
func (n *Node) Idle() bool {
	s := n.pool.Stats()
	return s.Running == 0 && s.Blocked <= s.Yields && s.Ready == 0 && n.joins.Load() == 0
}
