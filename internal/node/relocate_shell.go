package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// This file is how a PerActor Spot leaves with its members: the Spot first, alone, then each of
// them by a move of its own. Meanwhile some are at the source and some at the target. All that is
// for the Spot goes to the target from its commit on; at the source a *shell* is left, to which the
// members there belong, and which passes on what the Spot has to hear of them. It ends behind the
// last of them. The target counts those that are behind as members from the commit on.

// shellFollows is for how long messages follow a Spot whose shell has not ended.
const shellFollows = 10 * 365 * 24 * time.Hour

// behindEvery is how often a Spot that has members behind looks whether they are still to come.
const behindEvery = time.Second

var errFixedMember = &Error{Kind: errkind.Rejected, Text: "a member's type has DisableRelocation"}

// moveShell moves a PerActor Spot without its members, once it is sure that all of them can follow
// (PA-05).
func (r *relocating) moveShell(ctx context.Context) unitEnd {
	if err := r.claimSpot(ctx); err != nil {
		return r.unclaimed(err)
	}
	if err := r.membersMay(ctx); err != nil {
		r.unit.cell.fate.release()
		return stays(err.of(opRelocate, r.unit.cell.ref.ID))
	}
	return r.runClaimed(ctx, r.newMove(moveTarget{to: r.to}, nil))
}

// membersMay says why a member could not follow the Spot.
func (r *relocating) membersMay(ctx context.Context) *Error {
	n := r.node
	members, _, err := n.membersHere(ctx, r.unit.cell)
	if err != nil || len(members) == 0 {
		return err
	}
	to, there := n.descriptorOf(r.to)
	if !there {
		return errUnitNoTarget
	}
	for _, c := range members {
		switch {
		case c.typ.Policy == Disable:
			return errFixedMember.of(opRelocate, c.ref.ID)
		case c.stuck.Load() != nil:
			return errUnitStuck.of(opRelocate, c.ref.ID)
		case !serves(&to, to.Mesh, typeKey{store.Actor, c.typ.Name}):
			return fail(errkind.Unavailable, opRelocate, c.ref.ID, "node %s takes no actors of type %q", to.RID, c.typ.Name)
		}
	}
	if to.MaxActors != 0 && int64(to.Actors)+int64(len(members)) > int64(to.MaxActors) {
		return fail(errkind.CapacityExceeded, "", "", "node %s has no room for its %d members", to.RID, len(members))
	}
	return nil
}

func (n *Node) descriptorOf(p process) (store.Descriptor, bool) {
	for _, d := range n.discovery.nodes() {
		if d.RID == p.rid && uint64(d.Lifecycle) == p.lifecycle {
			return d, true
		}
	}
	return store.Descriptor{}, false
}

// shell is what is left at the source of a Spot whose members are behind.
type shell struct {
	out   *moveOut
	value any // the Spot's, for its OnClosing
	ends  sync.Once
}

// leaveShell is for a Spot that is another node's now. value is what it was here. Without a member
// behind it ends at once.
func (o *moveOut) leaveShell(value any) {
	s := &shell{out: o, value: value}
	o.node.shells.Add(1)
	o.cell.fate.shell.Store(s)
	if o.cell.members.none() {
		s.ends.Do(s.end)
		return
	}
	o.log("a spot has left before its members", nil)
}

// memberLeft is told when the Spot has lost a member: behind the last one a shell ends.
func (c *objectCell) memberLeft() {
	c.members.leave()
	if s := c.fate.shell.Load(); s != nil && c.members.none() {
		s.ends.Do(func() { c.node.tasks.Go(s.end) }) // else the node has ended
	}
}

// whereTo returns where a Spot that has left went.
func (c *objectCell) whereTo() (to process, left bool) {
	s := c.fate.shell.Load()
	if s == nil {
		return process{}, false
	}
	return s.out.to, true
}

// lost reports whether a PerActor Spot that was here is at no node to which its members could
// follow it: its move did not end, or the process that has it is over. They may leave it.
func (c *objectCell) lost() bool {
	if c.typ.Wide {
		return false // they share its fate
	}
	if s := c.stuck.Load(); s != nil && s.sealed && c.tenure.Load() == leaving {
		return true
	}
	to, left := c.whereTo()
	return left && c.node.isOver(to)
}

// isOver reports whether a process of the home mesh is over, as far as is known: a later one of its
// RID has been seen, or there is no link to it and its lease is over by the list of nodes.
func (n *Node) isOver(p process) bool {
	if n.home.links.superseded(p) {
		return true
	}
	d, listed := n.descriptorOf(p)
	return n.linkOf(p) == nil && (!listed || d.LeaseLeft <= 0)
}

// end closes what the Spot was here (PA-04), once the target has all that was accepted for it here,
// or the time for that is over; its messages follow for their time from then on.
func (s *shell) end() {
	o, n := s.out, s.out.node
	defer n.shells.Add(-1)
	deadline := max(o.deadline, clock.Now().Add(n.cfg.CreateTimeout))
	ctx, cancel := untilTime(n.life, deadline)
	defer cancel()
	for wait := createWaitMin; !o.handedOver() && pause(ctx, wait); wait = min(2*wait, createWaitMax) {
	}
	o.closeBehind(s.value)
	_ = o.cell.inStep(func(*turn) *Error {
		o.mover.Load().begin(n.cfg.MessageFollowDuration)
		return nil
	}) // refused only if it has come back, or the node ends
	o.until.Store(int64(clock.Now().Add(n.cfg.MessageFollowDuration)))
}

// handedOver reports whether the target has all that was relayed.
func (o *moveOut) handedOver() bool {
	all := true
	_ = o.cell.inStep(func(*turn) *Error {
		all = o.mover.Load().out.Kept() == 0
		return nil
	})
	return all
}

// begin makes messages follow for so long from now on.
func (v *mover) begin(duration time.Duration) {
	v.follow = relay.NewFollow(store.ObjectGen(v.now.ObjectGen), store.OwnerGen(v.now.OwnerGen), clock.Now(), duration)
}

// followsFor returns for how long messages follow the object, if nothing ends that before.
func (o *moveOut) followsFor() time.Duration {
	if o.unit.IsSpot() {
		return shellFollows
	}
	return o.node.cfg.MessageFollowDuration
}

// behind are the members of a Spot that has come before them. They count in its roster.
type behind struct {
	mu    sync.Mutex
	count atomic.Int32
}

// awaitMembers is for a Spot that has come, before anything of it runs: so many members are behind.
func (c *objectCell) awaitMembers(members int) {
	if members == 0 {
		return
	}
	b := &behind{}
	b.count.Store(int32(members))
	c.members.count.Add(int32(members))
	c.fate.behind.Store(b)
	c.node.tasks.Go(c.mindMembers) // else the node ends
}

// memberCame makes the Actor, which has followed the Spot, one of its members.
func (c *objectCell) memberCame(actor *objectCell) {
	b := c.fate.behind.Load()
	if b == nil {
		c.members.enter()
		actor.spot.Store(c)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count.Load() > 0 {
		b.count.Add(-1)
	} else {
		c.members.enter()
	}
	actor.spot.Store(c)
}

// mindMembers looks after the members that are behind, until none is: one that was freed or
// destroyed where it was, or whose node stopped, does not come any more. Only the Store knows.
func (c *objectCell) mindMembers() {
	n, b := c.node, c.fate.behind.Load()
	for b.count.Load() > 0 && !c.gone.Load() && pause(n.life, behindEvery) {
		ids, err := n.memberIDs(n.life, c.ref.ID)
		if err != nil {
			continue // it is tried again
		}
		b.mu.Lock()
		still := int32(0)
		for _, id := range ids {
			if actor := n.cellOf(id, store.Actor); actor == nil || actor.spot.Load() != c {
				still++
			}
		}
		c.members.count.Add(still - b.count.Swap(still))
		b.mu.Unlock()
	}
}

// memberIDs reads who is a member of the Spot.
func (n *Node) memberIDs(ctx context.Context, spotID string) (all []string, _ *Error) {
	for after := ""; ; after = all[len(all)-1] {
		ids, err := n.store.Members(ctx, spotID, after, store.PageMax)
		if err != nil {
			return nil, n.storeFailure(ctx, err, spotID)
		}
		if all = append(all, ids...); len(ids) < store.PageMax {
			return all, nil
		}
	}
}

// membersBehind returns how many members have yet to follow the Spot.
func (c *objectCell) membersBehind() int {
	if b := c.fate.behind.Load(); b != nil {
		return int(b.count.Load())
	}
	return 0
}
