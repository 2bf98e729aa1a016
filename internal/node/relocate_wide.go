package node

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/failpoint"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// This file is how a SpotWide Spot leaves with all its members: as an *aggregate*, by one commit.
// One Source decides, of the Spot's move. Each member has a mover and a moveOut of its own, with an
// id that follows from the aggregate's, so that what is relayed for it is numbered, answered and
// followed like that of any object; but it has no machine: its fate is the aggregate's.

// wideOut is what goes along with a SpotWide Spot.
type wideOut struct {
	members   []*moveOut // in the order of the inventory, in which the Spot is the last
	chunks    [][]byte   // of the inventory
	stored    bool       // they are all in the Store, which takes none behind a try to fix them that was applied
	inventory store.Inventory
	barrier   *hold // that keeps the Spot at the point at which it has said that it may move; nil: it says nothing
}

// memberRelocation is the id of the move of one participant.
func memberRelocation(aggregate [16]byte, kind store.Kind, id string) [16]byte {
	h := sha256.New()
	h.Write(aggregate[:])
	h.Write([]byte{byte(kind)})
	h.Write([]byte(id))
	return [16]byte(h.Sum(nil)[:16])
}

// all returns the move with those of what goes along, the Spot's last.
func (o *moveOut) all() []*moveOut {
	if o.wide == nil {
		return []*moveOut{o}
	}
	return append(slices.Clip(o.wide.members), o)
}

// root is that of the inventory, if there is one.
func (o *moveOut) root() store.Digest {
	if o.wide == nil {
		return store.Digest{}
	}
	return o.wide.inventory.Root
}

// moveWide moves a SpotWide Spot with its members.
func (r *relocating) moveWide(ctx context.Context) unitEnd {
	barrier, err := r.awaitReady(ctx)
	switch {
	case err != nil:
	case barrier == nil:
		err = r.claimSpot(ctx)
	default:
		if err = r.settleMembers(ctx); err != nil {
			r.goesOn(barrier)
		}
	}
	if err != nil {
		return r.unclaimed(err)
	}
	o := r.newMove(moveTarget{to: r.to}, nil)
	o.wide = &wideOut{barrier: barrier}
	end := r.run(ctx, o)
	if end.result == unitStayed {
		r.goesOn(barrier)
	}
	return end
}

// prepare fixes the aggregate in the Store, whose reservation keeps everybody from entering and
// leaving the Spot: its members are those that there are.
func (o *moveOut) prepare(ctx context.Context, e *relay.SourceEffect) relay.SourceEvent {
	n, happened := o.node, relay.SourceEvent{Is: relay.SourcePrepared}
	if o.wide.chunks == nil {
		participants, err := o.enlist(ctx, &e.Row)
		if err == nil {
			var invalid error
			if o.wide.chunks, o.wide.inventory, invalid = store.BuildInventory(participants); invalid != nil {
				err = fromStore(invalid, opRelocate, o.cell.ref.ID)
			}
		}
		if err != nil {
			happened.Failure = failureOfMove(err)
			return happened
		}
	}
	if !o.wide.stored {
		failpoint.Hit("inventory.before")
		if happened.Change.Reason, happened.Err = n.putInventory(ctx, e.Prepare.MoveRef, o.wide.chunks); happened.Err != nil || happened.Change.Reason != 0 {
			return happened
		}
		o.wide.stored = true
		failpoint.Hit("inventory.after")
	}
	e.Prepare.Inventory = o.wide.inventory
	happened.Change, happened.Err = n.attempt(func(ctx context.Context) (store.Change, error) { return n.store.PrepareAggregate(ctx, e.Prepare) })
	failpoint.Hit("prepare.after")
	return happened
}

// enlist makes the moves of the members, and returns all participants. row is the Spot's. The
// members' rows are taken like the Spot's: in a new epoch nobody writes them again, or finds one
// to be another's, before it is known what became of the aggregate.
func (o *moveOut) enlist(ctx context.Context, row *store.Authority) ([]store.Participant, *Error) {
	n, spot := o.node, o.cell
	cells, settled, err := n.membersHere(ctx, spot)
	switch {
	case err != nil:
		return nil, err
	case !settled:
		return nil, fail(errkind.Unavailable, opRelocate, spot.ref.ID, "its members here are not those that the Store has")
	}
	to, there := n.descriptorOf(o.to)
	if !there {
		return nil, errUnitNoTarget
	}
	slices.SortFunc(cells, func(a, b *objectCell) int { return strings.Compare(a.ref.ID, b.ref.ID) })
	o.wide.members = make([]*moveOut, 0, len(cells))
	all := make([]store.Participant, 0, len(cells)+1)
	for _, c := range cells {
		switch {
		case c.typ.Policy == Disable:
			return nil, fail(errkind.Rejected, opRelocate, spot.ref.ID, "its member %q has DisableRelocation", clip(c.ref.ID))
		case c.stuck.Load() != nil:
			return nil, fail(errkind.InternalFailure, opRelocate, spot.ref.ID, "its member %q is sealed by a callback that keeps failing; free it by its exact ref", clip(c.ref.ID))
		case !serves(&to, to.Mesh, typeKey{store.Actor, c.typ.Name}):
			return nil, fail(errkind.Unavailable, opRelocate, spot.ref.ID, "node %s takes no actors of type %q", to.RID, c.typ.Name)
		case store.Epoch(c.epoch.Load()) < row.Epoch:
			return nil, fail(errkind.Unavailable, opRelocate, spot.ref.ID, "the row of its member %q is yet to be written in the Store's new epoch", clip(c.ref.ID))
		}
		m := o.memberMove(c)
		if m.locked = c.takeRow(ctx); !m.locked {
			return nil, errUnitLate.of(opRelocate, spot.ref.ID)
		}
		o.wide.members = append(o.wide.members, m)
		p := participant(c)
		p.SpotVersion = row.Version
		all = append(all, p)
	}
	p := participant(spot)
	p.Version = row.Version
	return append(all, p), nil
}

func participant(c *objectCell) store.Participant {
	return store.Participant{
		Kind: c.typ.Kind, ID: c.ref.ID, Type: c.typ.Name, ObjectGen: store.ObjectGen(c.ref.ObjectGen), OwnerGen: store.OwnerGen(c.ref.OwnerGen),
		Version: store.Version(c.version.Load()), Policy: uint8(c.typ.Policy),
	}
}

// memberMove makes the move of a member.
func (o *moveOut) memberMove(c *objectCell) *moveOut {
	m := &moveOut{
		node: o.node, unit: wire.UnitActor, cell: c, to: o.to, from: o.cell, of: o, op: o.op, began: o.began, deadline: o.deadline,
		id: moveID{memberRelocation(o.id.relocation, c.typ.Kind, c.ref.ID), o.id.attempt}, stopped: o.stopped, stop: o.stop,
	}
	m.until.Store(int64(clock.Never))
	return m
}

// putInventory stores the chunks, a few at once. A reason is that of a refusal.
func (n *Node) putInventory(ctx context.Context, m store.MoveRef, chunks [][]byte) (store.Reason, error) {
	var refused atomic.Uint32
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(inventoryCallsMax)
	for _, chunk := range chunks {
		calls.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, storeCallMax)
			defer cancel()
			reason, err := n.store.PutInventory(ctx, m, chunk)
			if err == nil && reason != store.Applied && reason != store.AlreadyApplied {
				refused.Store(uint32(reason))
			}
			return err
		})
	}
	err := calls.Wait()
	return store.Reason(refused.Load()), err
}

// eachInStep runs f in a step of each object, those of an aggregate at once, and waits for all.
// After the first failure, which it returns, it is not run any more.
func (o *moveOut) eachInStep(f func(*moveOut, *turn) *Error) *Error {
	all := o.all()
	var failed atomic.Pointer[Error]
	var left atomic.Int64
	left.Store(int64(len(all)))
	over := make(chan struct{})
	for _, m := range all {
		m.cell.step(func(t *turn) {
			err := errTurnEnded // if it ends its goroutine
			defer func() {
				if err != nil {
					failed.CompareAndSwap(nil, err)
				}
				if left.Add(-1) == 0 {
					close(over)
				}
			}()
			if err = t.refused; err == nil && failed.Load() == nil {
				err = f(m, t)
			}
		})
	}
	select {
	case <-over:
		return failed.Load()
	case <-o.node.life.Done():
		return errStopping
	}
}
