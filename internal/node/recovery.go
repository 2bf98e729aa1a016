package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

// This file is about a Store whose past may differ from what this node was told: after
// a failover or a loss of data, which start a new epoch, after rows were freed by hand,
// and when a reservation was made of which this node never heard.

// heard takes what a renewal says beside the lease. It runs on keepLease's goroutine
// and returns before the node may act any longer.
func (n *Node) heard(r *store.LeaseResult) {
	if n.unread || r.Freed != n.freed { // it begins anew in a Store that lost it
		n.admitUntil.Store(0) // nothing runs before the rows were read again
		if n.unread = !n.dropFreed(); !n.unread {
			n.freed = r.Freed
		}
	}
	if r.Epoch != n.epoch && n.serves.Load() {
		n.log.Warn().Uint64("epoch", uint64(r.Epoch)).Msg("the Store has a new epoch: its last changes may be lost; writing this node's rows again")
		n.epoch = r.Epoch
		n.tasks.Go(func() { n.reassert(r.Epoch) })
	}
}

// dropFreed ends the Actors whose rows are gone or another's. It reports whether it
// could read all it had to.
func (n *Node) dropFreed() bool {
	owned, err := n.held(store.HeldOwned)
	if err != nil {
		n.log.Warn().Err(err).Msg("rows of this node were freed by hand; they could not be read, and nothing runs until they were")
		return false
	}
	all := true
	n.actors.Range(func(id string, c *actorCell) bool {
		if owned[id] {
			return true
		}
		row, found, err := n.readRow(id)
		switch {
		case err != nil && !errors.Is(err, store.ErrCorrupt):
			all = false
		case err != nil, !found, !n.owns(&row), uint64(row.ObjectGen) != c.ref.ObjectGen:
			n.drop(c, errGone)
		}
		return true
	})
	return all
}

// reassert writes the rows of this node's Actors again, as this node knows them, and
// removes rows that name it and of which it knows nothing. What is open goes on
// meanwhile. It ends when all is done, or when this process may not act any more.
func (n *Node) reassert(epoch store.Epoch) {
	for wait := createWaitMin; ; wait = min(2*wait, settleWaitMax) {
		published, asserted := n.publishAgain(), n.reassertActors(epoch)
		if published && asserted && n.deleteUnknown() {
			n.log.Info().Uint64("epoch", uint64(epoch)).Msg("this node's rows are written again")
			return
		}
		if n.over() || !pause(n.life, wait) {
			return
		}
	}
}

// over reports whether the node has stopped or lost its lease for good.
func (n *Node) over() bool {
	select {
	case <-n.done:
		return true
	default:
		return false
	}
}

// publishAgain writes the descriptor, in case that it is lost.
func (n *Node) publishAgain() bool {
	if n.stopping.Load() {
		return true
	}
	ctx, cancel := context.WithTimeout(n.life, storeCallMax)
	defer cancel()
	return n.publish(ctx, store.Serving) == nil
}

// reassertActors does it for each Actor, a few at a time, and reports whether none is
// left. A handler that hangs keeps its own Actor from it, and its place until the round
// is over.
func (n *Node) reassertActors(epoch store.Epoch) bool {
	var left atomic.Int64
	ctx, cancel := context.WithTimeout(n.life, reassertWaitMax)
	defer cancel()
	places := make(chan struct{}, reassertsMax)
	n.actors.Range(func(_ string, c *actorCell) bool {
		if c.epoch.Load() >= uint64(epoch) || c.gone.Load() {
			return true
		}
		left.Add(1)
		if !c.asserting.CompareAndSwap(false, true) {
			return true // of the round before
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			c.asserting.Store(false)
			return false
		}
		full := c.control(func(t *turn) {
			n.reassertInTurn(c, t, epoch, func(done bool) {
				c.asserting.Store(false)
				<-places
				if done {
					left.Add(-1)
				}
			})
		})
		if full != nil { // in the next round
			c.asserting.Store(false)
			<-places
		}
		return true
	})
	waitFor(ctx, func() bool { return left.Load() == 0 })
	return left.Load() == 0
}

// reassertInTurn holds the Actor's messages while its row is written, in the
// background: no Destroy may remove the row meanwhile. ended is called once, and told
// whether the Actor needs no other try.
func (n *Node) reassertInTurn(c *actorCell, t *turn, epoch store.Epoch, ended func(done bool)) {
	if t.refused != nil || c.epoch.Load() >= uint64(epoch) {
		ended(c.gone.Load() || t.refused == nil) // a full hold refuses too
		return
	}
	held := &hold{node: n}
	started := n.tasks.Go(func() {
		end := n.reassertRow(c, epoch)
		if end == rowIsOver {
			n.drop(c, errGone)
		} else {
			c.box.Seal(&release{cell: c, from: held, next: c})
		}
		ended(end != rowInDoubt)
	})
	if !started {
		ended(false)
		return
	}
	c.become(t.claim, held)
}

// rowEnd is what a try to write a row again has shown.
type rowEnd uint8

const (
	rowSettled rowEnd = iota // no other try in this epoch
	rowInDoubt               // to be tried again
	rowIsOver                // it is another's now
)

func (n *Node) reassertRow(c *actorCell, epoch store.Epoch) rowEnd {
	r := store.Reassert{
		Op: newOpID(), Epoch: epoch, Owner: n.lease, ID: c.ref.ID, Kind: store.Actor, Type: c.typ.Name,
		ObjectGen: store.ObjectGen(c.ref.ObjectGen), OwnerGen: store.OwnerGen(c.ref.OwnerGen), Version: c.version,
		Mesh: c.ref.Mesh, SpotID: n.entryID,
	}
	var change store.Change
	err := store.ErrUnknown
	for wait := createWaitMin; errors.Is(err, store.ErrUnknown); wait = min(2*wait, settleWaitMax) {
		// A try whose answer was lost may be applied yet, so the Actor waits for the
		// same operation's answer: a Destroy would be undone by it.
		change, err = n.attempt(func(ctx context.Context) (store.Change, error) { return n.store.Reassert(ctx, r) })
		if errors.Is(err, store.ErrUnknown) && (n.over() || !pause(n.life, wait)) {
			return rowInDoubt
		}
	}
	switch {
	case errors.Is(err, store.ErrInvalid):
		n.log.Error().Err(err).Str("actor", c.ref.ID).Msg("a row that cannot be written; this is a bug of zlnode")
		return rowSettled
	case err != nil:
		return rowInDoubt
	}
	row := &change.Record
	switch change.Reason {
	case store.Applied, store.AlreadyApplied:
		c.version = row.Version
		c.epoch.Store(uint64(epoch))
		return rowSettled
	case store.EpochChanged:
		return rowSettled // a renewal tells of the later epoch, which is another round
	case store.VersionConflict:
		if n.owns(row) && row.ObjectGen == r.ObjectGen {
			c.version = max(c.version, row.Version) // an own change whose answer was lost
			return rowInDoubt
		}
		if row.Version <= r.Version {
			return rowInDoubt // it changed while it was read
		}
	case store.OwnerConflict, store.GenerationConflict:
	default:
		return rowInDoubt // the lease is in doubt, or the Store is full
	}
	n.log.Warn().Str("actor", c.ref.ID).Stringer("reason", change.Reason).Str("owner", row.RID).
		Msg("the Store knows a later owner of an actor; the one here is over")
	return rowIsOver
}

// deleteUnknown removes the rows that name this process and of which it has no Actor.
func (n *Node) deleteUnknown() bool {
	owned, err := n.held(store.HeldOwned)
	if err != nil {
		return false
	}
	all := true
	for id := range owned {
		if n.knows(id) {
			continue
		}
		row, found, err := n.readRow(id)
		if err == nil && found && row.State == store.Ready && n.owns(&row) && !n.knows(id) {
			var change store.Change
			change, err = n.attempt(func(ctx context.Context) (store.Change, error) {
				return n.store.Delete(ctx, store.FenceOf(&row), newOpID())
			})
			all = all && (err != nil || change.Reason != store.LeaseExpired)
		}
		all = all && (err == nil || errors.Is(err, store.ErrCorrupt))
	}
	return all
}

// mindReservations looks after reservations at this node of which it was never told,
// because the link of who made them broke, or their script was applied late: one that
// is found twice is run, or ended if its time is over.
func (n *Node) mindReservations() {
	t := time.NewTicker(reservationsEvery)
	defer t.Stop()
	seen := map[string]store.Version{}
	for {
		select {
		case <-n.done:
			return
		case <-n.life.Done():
			return
		case <-t.C:
			seen = n.continueReserved(seen)
		}
	}
}

func (n *Node) continueReserved(before map[string]store.Version) (seen map[string]store.Version) {
	seen = map[string]store.Version{}
	reserved, err := n.held(store.HeldReserved)
	if err != nil {
		return before
	}
	for id := range reserved {
		row, found, err := n.readRow(id)
		if err != nil || !found || row.Create == nil || !n.owns(&row) || n.knows(id) {
			continue // n.knows: its end is on its way, or a new epoch has undone it
		}
		if before[id] != row.Version {
			seen[id] = row.Version
			continue
		}
		job := creation{
			op: row.Create.Op, id: id, typ: row.Type, objGen: row.ObjectGen, version: row.Version,
			deadline: clock.Now().Add(time.Until(row.Create.Deadline)), // clocks that differ end it sooner or later
		}
		n.tasks.Go(func() { _, _ = n.runCreation(job) }) // how it ends is in the row; one that runs already goes on
	}
	return seen
}

// held reads the ids of which the Store says that this process has them.
func (n *Node) held(what store.Holding) (map[string]bool, error) {
	all := map[string]bool{}
	for after := ""; ; {
		ctx, cancel := context.WithTimeout(n.life, storeCallMax)
		ids, err := n.store.Held(ctx, n.cfg.RID, n.lifecycle(), what, after, store.PageMax)
		cancel()
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			all[id] = true
		}
		if len(ids) < store.PageMax {
			return all, nil
		}
		after = ids[len(ids)-1]
	}
}

func (n *Node) readRow(id string) (store.Authority, bool, error) {
	ctx, cancel := context.WithTimeout(n.life, storeCallMax)
	defer cancel()
	return n.store.Read(ctx, id)
}

func (n *Node) owns(row *store.Authority) bool {
	return row.OwnerID == n.lease.OwnerID && row.LeaseGen == n.lifecycle()
}

func (n *Node) knows(id string) bool {
	_, here := n.actors.Load(id)
	return here
}

// cancelDead removes a creation whose target's lease is over, so that the id can be
// created anew (CR-08, FO-11).
func (n *Node) cancelDead(ctx context.Context, row *store.Authority) *Error {
	_, err := n.store.CancelCreation(ctx, row.ID, row.ObjectGen, row.Version)
	if err != nil && !errors.Is(err, store.ErrUnknown) {
		return n.storeFailure(ctx, err, row.ID)
	}
	if !pause(ctx, createWaitMin) { // whatever it answered, the row is read again
		return fail(errkind.DeadlineExceeded, opCreate, row.ID, "the creation of a node that died was not cancelled in time")
	}
	return nil
}
