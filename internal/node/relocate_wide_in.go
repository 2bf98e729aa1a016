package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/chunker"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/store"
)

// This file is how a SpotWide Spot comes here with all its members. One Target decides, of the
// Spot's move. Each member has a moveIn of its own, which has a temporary queue and no machine. It
// is there from when the payload has come to the end of the aggregate's move: before, nobody knows
// of a way to it that leads here.

// wideIn is what comes along with a SpotWide Spot.
type wideIn struct {
	members []*moveIn // in the order of the inventory
	ready   bool      // the Spot is told that it has moved, as it has said that it may
	lost    []*moveIn // members whose rows turned out to be another's behind the commit
}

// all returns the move with those of what comes along, the Spot's last.
func (i *moveIn) all() []*moveIn {
	if i.wide == nil {
		return []*moveIn{i}
	}
	return append(i.wide.members[:len(i.wide.members):len(i.wide.members)], i)
}

// decides returns the move that has a machine.
func (i *moveIn) decides() *moveIn {
	if i.of != nil {
		return i.of
	}
	return i
}

// cutOver notes that the cutover of the object has come. That of an aggregate has when all have;
// until then each is a sign of its source like a relayed message.
func (i *moveIn) cutOver() {
	d := i.decides()
	if d.uncut.Add(-1) > 0 {
		d.tell(relay.TargetEvent{Is: relay.TargetRelayed})
		return
	}
	d.tell(relay.TargetEvent{Is: relay.TargetCutover, MayAct: true})
}

// stageWide restores the Spot and all its members, or nothing of them (AG-06, AG-07).
func (i *moveIn) stageWide(e *relay.TargetEffect) relay.TargetEvent {
	n, happened := i.node, relay.TargetEvent{Is: relay.TargetStaged}
	ctx, cancel := untilTime(n.life, e.Deadline)
	defer cancel()
	i.mu.Lock()
	payload, sent, epoch := i.payload, i.sent, i.epoch
	i.mu.Unlock()
	parts, failure := i.enlist(ctx, payload)
	if failure != nil {
		i.dropMembers(errNotHere)
		happened.Failure = failure
		return happened
	}
	cells := make([]*objectCell, 0, len(parts))
	for _, m := range i.all() {
		cells = append(cells, m.cell)
	}
	from, done := i.from, make(chan []staged, 1)
	if !n.tasks.Go(func() { done <- n.restoreAll(ctx, cells, parts, sent, from) }) {
		i.dropMembers(errStopping)
		return relay.TargetEvent{Is: relay.TargetStopping}
	}
	select {
	case got := <-done:
		happened.Failure, happened.MayAct = i.takeAll(got), n.mayActIn(epoch)
	case <-ctx.Done(): // the task goes on with the payload
		i.mu.Lock()
		i.payload = nil
		i.mu.Unlock()
		n.tasks.Go(func() {
			<-done
			payload.Free()
		}) // else the collector has it
		happened.Failure = errRestoreLate
		if n.life.Err() != nil {
			happened = relay.TargetEvent{Is: relay.TargetStopping}
		}
	}
	if happened.Failure != nil {
		i.dropMembers(errNotHere)
	}
	return happened
}

// enlist registers the temporary queues of all members that the inventory names, which the payload
// must be of, and returns what came of each participant.
func (i *moveIn) enlist(ctx context.Context, payload *chunker.Incoming) (parts [][]byte, _ *relay.Failure) {
	b, err := payload.Payload()
	if err != nil {
		return nil, lost(err).failure
	}
	head, rest, err := wire.DecodeAggregateHead(b)
	if err != nil {
		return nil, lost(err).failure
	}
	i.mu.Lock()
	inventory := store.Inventory{Root: i.root, Count: int(head.Count)}
	i.mu.Unlock()
	i.wide = &wideIn{ready: head.Ready}
	var failure *relay.Failure
	for p, err := range inventory.Participants(func(d store.Digest) ([]byte, error) { return i.node.readInventory(ctx, i.cell.ref.ID, d) }) {
		var part wire.AggregatePart
		if err == nil {
			part, rest, err = wire.DecodeAggregatePart(rest)
		}
		switch {
		case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrUnknown): // to the deadline
			return nil, failureOfMove(fromStore(err, opMove, i.cell.ref.ID))
		case err != nil:
			return nil, lost(err).failure
		case string(part.ID) != p.ID:
			return nil, &relay.Failure{Kind: errkind.DataLost, Text: "what came is not of the objects that the aggregate's inventory names"}
		}
		if len(parts) < inventory.Count-1 {
			failure = i.enroll(ctx, &p)
		} else {
			failure = i.isSpot(&p)
		}
		if failure != nil {
			return nil, failure
		}
		parts = append(parts, part.State)
	}
	if len(rest) > 0 {
		return nil, &relay.Failure{Kind: errkind.DataLost, Text: "what came is more than the aggregate's inventory names"}
	}
	i.uncut.Store(int32(len(parts)))
	return parts, nil
}

// readInventory reads a chunk until the Store has answered, or ctx ends.
func (n *Node) readInventory(ctx context.Context, spot string, d store.Digest) ([]byte, error) {
	for wait := createWaitMin; ; wait = min(2*wait, createWaitMax) {
		call, cancel := context.WithTimeout(ctx, storeCallMax)
		b, _, err := n.store.ReadInventory(call, spot, d)
		cancel()
		if err == nil || errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrInvalid) || !pause(ctx, wait) {
			return b, err
		}
	}
}

// isSpot says why the participant is not the Spot that moves, if it is not.
func (i *moveIn) isSpot(p *store.Participant) *relay.Failure {
	if p.Kind != store.UserSpot || p.ID != i.cell.ref.ID || uint64(p.ObjectGen) != i.cell.ref.ObjectGen {
		return &relay.Failure{Kind: errkind.DataLost, Text: "the aggregate's inventory is of another spot"}
	}
	return i.samePolicy(p, i.cell.typ)
}

func (i *moveIn) samePolicy(p *store.Participant, typ *ObjectType) *relay.Failure {
	switch {
	case typ.Policy == Disable:
		return errFixedHere
	case p.Policy != uint8(typ.Policy):
		return &relay.Failure{Kind: errkind.InternalFailure, Text: "source and target have different relocation policies for type " + typ.Name + "; all nodes give a type the same one"}
	}
	return nil
}

// enroll registers the temporary queue of a member. An earlier move of it to here has to end first.
func (i *moveIn) enroll(ctx context.Context, p *store.Participant) *relay.Failure {
	n := i.node
	typ := n.app.typeOf(p.Kind, p.Type)
	if p.Kind != store.Actor || typ == nil {
		return &relay.Failure{Kind: errkind.Unavailable, Text: "node " + n.cfg.RID + " takes no objects of type " + p.Type}
	}
	if f := i.samePolicy(p, typ); f != nil {
		return f
	}
	id := moveID{memberRelocation(i.id.relocation, p.Kind, p.ID), i.id.attempt}
	m := &moveIn{
		node: n, unit: wire.UnitActor, id: id, from: i.from, of: i, began: i.began, typed: true, spot: i.cell, over: make(chan struct{}),
		fence: relay.Fence{ID: p.ID, ObjectGen: p.ObjectGen, OwnerGen: p.OwnerGen, Version: p.Version, Relocation: id.relocation, Attempt: id.attempt},
	}
	m.until.Store(int64(clock.Never))
	here := ActorRef{ID: p.ID, ObjectGen: uint64(p.ObjectGen), Lifecycle: n.id.Lifecycle, OwnerGen: uint64(p.OwnerGen) + 1}
	m.queue = &incoming{id: id, from: i.from, ownerGen: here.OwnerGen}
	m.cell = n.cellWith(typ, here, m.queue, nil)
	m.queue.cell.Store(m.cell)
	m.cell.tenure.Store(arriving)
	for {
		var before *moveIn
		n.moves.preparing.Update(p.ID, func(have *moveIn, present bool) (*moveIn, bool) {
			if before = have; present {
				return have, true
			}
			return m, true
		})
		if before == nil {
			break
		}
		before.tell(relay.TargetEvent{Is: relay.TargetAborted})
		select {
		case <-before.over:
		case <-ctx.Done():
			return errRestoreLate
		}
	}
	i.cell.members.enter() // it cannot be shut: nothing of the Spot runs
	m.cell.spot.Store(i.cell)
	n.moves.in.Store(m.id.key(), m)
	n.actors.Update(p.ID, func(now *objectCell, present bool) (*objectCell, bool) {
		if present { // it was here before, and what comes for it follows it
			return now, true
		}
		return m.cell, true
	})
	i.wide.members = append(i.wide.members, m)
	return nil
}

// restoreAll restores each cell of its part, a few at once, until one has failed.
func (n *Node) restoreAll(ctx context.Context, cells []*objectCell, parts [][]byte, sent clock.Mono, from process) []staged {
	got := make([]staged, len(cells))
	var next atomic.Int64
	var failed atomic.Bool
	one := func(k int) staged {
		if full := n.movesIn.enter(ctx, deadlineOf(ctx)); full != nil {
			return staged{failure: failureOfMove(full)}
		}
		defer n.movesIn.leave()
		return cells[k].restoreFrom(parts[k], sent, from)
	}
	worker := func() {
		for k := int(next.Add(1)) - 1; k < len(cells) && !failed.Load(); k = int(next.Add(1)) - 1 {
			if got[k] = one(k); got[k].failure != nil {
				failed.Store(true)
			}
		}
	}
	var workers sync.WaitGroup
	for range min(len(cells), wideRestoresMax) {
		workers.Go(worker)
	}
	workers.Wait()
	return got
}

// takeAll makes what restoring gave the objects', unless one has failed.
func (i *moveIn) takeAll(got []staged) *relay.Failure {
	for k := range got {
		if got[k].failure != nil {
			return got[k].failure
		}
	}
	if err := i.eachInStep(func(k int, m *moveIn, _ *turn) { m.take(&got[k]) }); err != nil {
		return failureOfMove(err)
	}
	return nil
}

// eachInStep runs f in a step of each object, those of an aggregate at once, and waits for all. The
// error is that of one that is refused, for which f did not run.
func (i *moveIn) eachInStep(f func(k int, m *moveIn, t *turn)) *Error {
	all := i.all()
	var failed atomic.Pointer[Error]
	var left atomic.Int64
	left.Store(int64(len(all)))
	over := make(chan struct{})
	for k, m := range all {
		m.cell.step(func(t *turn) {
			if t.refused != nil {
				failed.CompareAndSwap(nil, t.refused)
			} else {
				f(k, m, t)
			}
			if left.Add(-1) == 0 {
				close(over)
			}
		})
	}
	select {
	case <-over:
		return failed.Load()
	case <-i.node.life.Done():
		return errStopping
	}
}

// dropMembers drops what was prepared of the members.
func (i *moveIn) dropMembers(err *Error) {
	if i.wide == nil {
		return
	}
	for _, m := range i.wide.members {
		m.node.leaveTable(m.cell)
		_ = m.inTurn(func(t *turn) { m.queue.drop(t.claim, err) }) // if it is refused, that was done before
		m.node.moves.in.Delete(m.id.key())
		m.ended()
	}
	i.wide = nil
}

// ended makes the end of the object's move known.
func (i *moveIn) ended() {
	i.node.moves.preparing.Update(i.cell.ref.ID, func(now *moveIn, present bool) (*moveIn, bool) {
		return now, present && now != i
	})
	close(i.over)
}

// confirmMembers notes what the commit has made of the members' rows, which it did not write, and
// writes them again if the Store has a new epoch since.
func (i *moveIn) confirmMembers() {
	if i.wide == nil {
		return
	}
	i.mu.Lock()
	epoch := i.epoch
	i.mu.Unlock()
	for _, m := range i.wide.members {
		m.cell.version.Store(uint64(m.fence.Version))
		m.cell.epoch.Store(uint64(epoch))
		m.cell.rowSpot = i.cell
		if err := i.node.confirm(m.cell); err != nil {
			i.wide.lost = append(i.wide.lost, m)
		}
	}
}

// open lets the object run, an aggregate all at once: nothing of it runs before all may.
func (i *moveIn) open() {
	if i.wide == nil {
		i.cell.box.Seal(&merging{from: i.queue})
		return
	}
	_ = i.inTurn(func(*turn) { // under the gate of all
		for _, m := range i.all() {
			m.cell.box.Seal(&merging{from: m.queue})
		}
	})
	for _, m := range i.wide.lost {
		i.node.drop(m.cell, errGone)
	}
	for _, m := range i.wide.members {
		if m.clientGone {
			i.node.tellSpot(clientGone, i.cell, m.cell.ref, nil)
		}
	}
	i.node.completeMove(i.cell, i.id.relocation)
}

// sealMembers seals the members of a Spot that a callback keeps from going on.
func (i *moveIn) sealMembers(why stuck) {
	if i.wide == nil {
		return
	}
	for _, m := range i.wide.members {
		if !m.cell.gone.Load() {
			m.cell.stuck.Store(&why)
			m.cell.box.Seal(&sealed{cell: m.cell, held: m.queue})
		}
	}
}

// completeMove drops the inventory of an aggregate that is here. The aggregate keeps its id and
// root (AG-07); who frees or moves the Spot before this is done drops the chunks, too.
func (n *Node) completeMove(spot *objectCell, relocation store.RelocationID) {
	n.tasks.Go(func() {
		for wait := createWaitMin; !spot.gone.Load(); wait = min(2*wait, settleWaitMax) {
			if !spot.takeRow(n.life) {
				return
			}
			change, err := n.attempt(func(ctx context.Context) (store.Change, error) {
				return n.store.CompleteMove(ctx, spot.fence(), relocation)
			})
			spot.leaveRow()
			if err == nil && change.Reason != store.LeaseExpired || !pause(n.life, wait) || n.stopping.Load() {
				return
			}
		}
	})
}
