package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// This file is about a Store whose past may differ from what this node was told: after
// a failover or a loss of data, which start a new epoch, after rows were freed by hand,
// and when a reservation was made of which this node never heard.

// heardFreed takes what a renewal says of rows that others took away. It runs on
// keepLease's goroutine, so it returns before the node may act any longer.
func (n *Node) heardFreed(r *store.LeaseResult) {
	news := uint64(r.Epoch) != n.keeper.Epoch()
	switch {
	case !n.unread && r.Freed == n.freed:
		return
	case !n.unread && news && (r.Freed < n.freed || n.mayAct(clock.Now())):
		// The Store lost the count, or nobody can have freed anything by hand: a row that
		// is not there is lost, not freed. It is written again, and what is another's ends.
		n.freed = r.Freed
		return
	}
	n.stopActing() // nothing runs before the rows were read again
	if n.unread = !n.dropFreed(store.Epoch(n.keeper.Epoch())); !n.unread {
		n.freed = r.Freed
	}
}

// dropFreed ends the objects whose rows are gone or another's, within the time of a
// renewal. It reports whether it could read all it had to; each that it drops is one
// less for the next try. While a row has yet to be written again in the epoch, it may be
// lost: only what others have written in it is taken from this node then, and the
// re-assertion decides about a row that is not there or is of an earlier epoch.
func (n *Node) dropFreed(epoch store.Epoch) bool {
	ctx, cancel := context.WithTimeout(n.life, n.cfg.Lease.Timeout)
	defer cancel()
	owned, err := n.heldWithMembers(ctx)
	if err != nil {
		n.log.Warn().Err(err).Msg("rows of this node were freed by hand; they could not be read, and nothing runs until they were")
		return false
	}
	return n.eachObject(ctx, func(c *objectCell) bool { return !owned[c.ref.ID] }, func(c *objectCell) bool {
		behind := c.behind(epoch) // before the read: a row that is written after it is not missed
		row, found, err := n.readRow(ctx, c.ref.ID)
		switch {
		case err != nil && !unreadable(err):
			return false
		case err == nil && behind && (!found || row.Epoch < epoch):
		case err != nil, !found, !n.owns(&row), uint64(row.ObjectGen) != c.ref.ObjectGen:
			n.drop(c, errGone)
		}
		return true
	})
}

// eachObject calls f for the objects with a row that are wanted, a few at once, and returns
// when all calls have ended. It reports whether none was left out, because ctx ended, and all
// returned true.
func (n *Node) eachObject(ctx context.Context, wanted, f func(*objectCell) bool) bool {
	var failed atomic.Bool
	var calls sync.WaitGroup
	places := make(chan struct{}, rowCallsMax)
	n.actors.Range(func(_ string, c *objectCell) bool {
		if !c.stored || c.tenure.Load() != owned || !wanted(c) {
			return true
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		calls.Go(func() {
			if !f(c) {
				failed.Store(true)
			}
			<-places
		})
		return true
	})
	calls.Wait()
	return ctx.Err() == nil && !failed.Load()
}

// beginReassertion starts the re-assertion for a new epoch in place of that for the one
// before. It runs on keepLease's goroutine.
func (n *Node) beginReassertion(epoch store.Epoch) {
	n.log.Warn().Uint64("epoch", uint64(epoch)).Dur("acts_for", max(n.keeper.AdmitUntil().Sub(clock.Now()), 0)).
		Msg("the Store has a new epoch: its last changes may be lost; writing this node's rows again")
	n.routes.clear()
	n.endRound()
	ctx, cancel := context.WithCancel(n.life)
	n.endRound = cancel
	n.tasks.Go(func() { n.reassert(ctx, epoch) })
}

// reassert writes the rows of this node's objects again, as this node knows them, and
// removes rows that name it and of which it knows nothing. Handlers go on meanwhile, for
// as long as the lease's core allows: until it is told, rows of which the Store knows
// nothing may be here. It ends when all is done, or when this process may not act any
// more.
func (n *Node) reassert(ctx context.Context, epoch store.Epoch) {
	published, asserted, told := false, false, false
	for wait := createWaitMin; ; wait = min(2*wait, settleWaitMax) {
		if !asserted && n.reassertObjects(ctx, epoch) {
			asserted = true
			select {
			case n.reasserted <- uint64(epoch):
			case <-ctx.Done():
			}
		}
		if !asserted && !told && !n.mayAct(clock.Now()) {
			told = true
			n.log.Warn().Uint64("epoch", uint64(epoch)).Msg("not all of this node's rows could be written again yet; nothing runs until they are")
		}
		published = published || n.publishAgain()
		if published && asserted && n.deleteUnknown() {
			n.log.Info().Uint64("epoch", uint64(epoch)).Msg("this node's rows are written again")
			return
		}
		if n.over() || !pause(ctx, wait) {
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
	switch {
	case !n.serves.Load():
		return false // the start has yet to say what there is to publish
	case n.stopping.Load():
		return true
	}
	ctx, cancel := context.WithTimeout(n.life, storeCallMax)
	defer cancel()
	return n.publish(ctx, opServe) == nil
}

// reassertObjects goes once through the objects whose rows are of an earlier epoch, the
// Spots before their members, and reports whether none is left.
func (n *Node) reassertObjects(ctx context.Context, epoch store.Epoch) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	reassert := func(actors bool) bool {
		behind := func(c *objectCell) bool { return c.behind(epoch) && (c.typ.Kind == store.Actor) == actors }
		return n.eachObject(ctx, behind, func(c *objectCell) bool {
			end := n.reassertObject(ctx, c, epoch)
			if end == epochIsOver {
				stop() // a renewal tells of the next one
			}
			return end == rowIsWritten || end == rowIsOver
		})
	}
	spots := reassert(false)
	return reassert(true) && spots
}

// behind reports whether the row has yet to be written in the epoch.
func (c *objectCell) behind(epoch store.Epoch) bool {
	return c.epoch.Load() < uint64(epoch) && !c.gone.Load()
}

// reassertObject writes one row again, and ends the object if it is another's.
func (n *Node) reassertObject(ctx context.Context, c *objectCell, epoch store.Epoch) rowEnd {
	ctx, cancel := context.WithTimeout(ctx, rowWaitMax)
	defer cancel()
	if !c.takeRow(ctx) {
		return rowInDoubt
	}
	defer c.leaveRow()
	if !c.behind(epoch) { // it was ended meanwhile, or its creation was
		return rowIsWritten
	}
	end := n.reassertRow(c, epoch)
	if end == rowIsOver {
		n.drop(c, errGone)
	}
	return end
}

// rowEnd is what a try to write a row again has shown.
type rowEnd uint8

const (
	rowIsWritten rowEnd = iota // or there is nothing to write
	rowInDoubt                 // to be tried again
	rowIsOver                  // it is another's now, or cannot be written
	epochIsOver
)

// reassertRow is for the holder of takeRow: no Destroy may remove the row meanwhile.
func (n *Node) reassertRow(c *objectCell, epoch store.Epoch) rowEnd {
	if spot := c.rowSpot; spot != nil && (spot.lost() || spot.gone.Load() && spot.fate.shell.Load() == nil) { // its row is another's, or nobody's
		if spot.typ.Wide {
			return rowIsOver // and so is that of who shares its owner
		}
		c.rowSpot = nil
		c.ended(func(t *turn) { c.leaveLost(t, spot) })
	}
	r := store.Reassert{
		Op: newOpID(), Epoch: epoch, Owner: n.lease, ID: c.ref.ID, Kind: c.typ.Kind, Type: c.typ.Name, Wide: c.typ.Wide,
		ObjectGen: store.ObjectGen(c.ref.ObjectGen), OwnerGen: store.OwnerGen(c.ref.OwnerGen), Version: store.Version(c.version.Load()),
		Mesh: c.ref.Mesh,
	}
	r.SpotID, r.InUserSpot, r.Shares = c.place()
	// While a try may be applied yet, the row is not let go: a Destroy would be undone by it.
	change, _, err := untilKnown(n.life, settleWaitMax, func() (store.Change, error) {
		return n.attempt(func(ctx context.Context) (store.Change, error) { return n.store.Reassert(ctx, r) })
	})
	switch {
	case errors.Is(err, store.ErrInvalid):
		n.log.Error().Err(err).Str("object", c.ref.ID).Msg("an object ends, as its row cannot be written again; this is a bug of zlnode")
		return rowIsOver
	case unreadable(err):
		n.log.Error().Err(err).Str("object", c.ref.ID).Msg("an object ends, as its row in the Store is unreadable; repair or remove the row")
		return rowIsOver
	case err != nil:
		return rowInDoubt
	}
	row := &change.Record
	switch change.Reason {
	case store.Applied, store.AlreadyApplied:
		c.version.Store(uint64(row.Version))
		c.epoch.Store(uint64(epoch))
		return rowIsWritten
	case store.EpochChanged:
		return epochIsOver
	case store.VersionConflict:
		if n.owns(row) && row.ObjectGen == r.ObjectGen {
			c.version.Store(max(c.version.Load(), uint64(row.Version))) // an own change whose answer was lost
			return rowInDoubt
		}
		if row.Version <= r.Version {
			return rowInDoubt // it changed while it was read
		}
	case store.Missing:
		n.log.Warn().Str("object", c.ref.ID).Msg("the row of an object was removed; the one here is over")
		return rowIsOver
	case store.OwnerConflict, store.GenerationConflict, store.TypeMismatch:
	default:
		return rowInDoubt // the lease is in doubt, or the Store is full
	}
	n.log.Warn().Str("object", c.ref.ID).Stringer("reason", change.Reason).Str("owner", row.RID).
		Msg("the Store knows a later owner of an object; the one here is over")
	return rowIsOver
}

// leaveLost makes the Actor, whose Spot has ended beside it, one of the Entry Spot.
func (c *objectCell) leaveLost(t *turn, spot *objectCell) {
	if t.refused == nil && c.spot.Load() == spot {
		c.enter(t.claim, nil)
	}
}

// deleteUnknown removes the rows that name this process and of which it has no object.
func (n *Node) deleteUnknown() bool {
	owned, err := n.heldWithMembers(n.life)
	if err != nil {
		return false
	}
	all := true
	for id := range owned {
		if n.has(id) {
			continue
		}
		row, found, err := n.readRow(n.life, id)
		if err == nil && found && row.State == store.Ready && n.owns(&row) && !n.has(id) {
			var change store.Change
			change, err = n.attempt(func(ctx context.Context) (store.Change, error) { return n.deleteOrphan(ctx, &row, newOpID()) })
			all = all && (err != nil || change.Reason != store.LeaseExpired && change.Reason != store.VersionConflict) // or it changed meanwhile
		}
		all = all && (err == nil || unreadable(err))
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
			if n.sweepsDead() {
				n.cancelOfDead(n.life)
			}
		}
	}
}

// sweepsDead reports whether this node is the one that looks for creations of dead
// processes: the first of the object servers that it is linked to, so that most often it
// is one of them.
func (n *Node) sweepsDead() bool {
	for _, d := range n.discovery.nodes() {
		if d.Role == store.RoleServer && d.RID < n.cfg.RID && n.home.links.to(d.RID, uint64(d.Lifecycle)) != nil {
			return false
		}
	}
	return n.mayAct(clock.Now())
}

// cancelOfDead removes the creations whose target's lease is over, for which nobody has
// asked since, so that they keep no capacity (CR-08, FO-11). Moves to dead processes are not
// its business: their sources end them.
func (n *Node) cancelOfDead(ctx context.Context) {
	for cursor := ""; ; {
		call, cancel := context.WithTimeout(ctx, storeCallMax)
		reserved, next, err := n.store.Reservations(call, cursor, store.PageMax)
		cancel()
		if err != nil {
			return // the next round reads them
		}
		for _, r := range reserved {
			if r.Lifecycle == n.lifecycle() || n.home.links.to(r.RID, uint64(r.Lifecycle)) != nil {
				continue
			}
			row, found, err := n.readRow(ctx, r.ID)
			switch {
			case err != nil && !unreadable(err):
				return // else each of the rest might wait as long
			case err != nil, !found, row.State != store.Creating, row.LeaseLeft > 0:
				continue
			}
			_, err = n.attempt(func(ctx context.Context) (store.Change, error) {
				return n.store.CancelCreation(ctx, row.ID, row.ObjectGen, row.Version)
			})
			if err == nil {
				n.log.Info().Str("object", clip(row.ID)).Str("target", row.RID).Msg("the creation of a dead process was cancelled")
			}
		}
		if cursor = next; cursor == "" || ctx.Err() != nil {
			return
		}
	}
}

func (n *Node) continueReserved(before map[string]store.Version) (seen map[string]store.Version) {
	seen = map[string]store.Version{}
	reserved, err := n.held(n.life, store.HeldReserved)
	if err != nil {
		return before
	}
	runs := n.running.ids()
	for id := range reserved {
		if runs[id] || n.knows(id) { // n.knows: its end is on its way, or a new epoch has undone it
			continue
		}
		row, found, err := n.readRow(n.life, id)
		switch {
		case err != nil && !unreadable(err):
			return seen // else each of the rest might wait as long
		case err != nil, !found, (row.Create == nil || !n.owns(&row)) && row.Move == nil:
			continue
		}
		if before[id] != row.Version {
			seen[id] = row.Version
			continue
		}
		if row.Move != nil {
			n.sweepMove(&row)
			continue
		}
		if row.Kind == store.InstanceSpot {
			n.cancelReserved(&row)
			continue
		}
		job := jobOf(&row, clock.Now().Add(time.Until(row.Create.Deadline))) // clocks that differ end it sooner or later
		n.tasks.Go(func() { _, _ = n.runCreation(job, false) })              // how it ends is in the row
	}
	return seen
}

// sweepMove frees what a move to this node has reserved of which it knows nothing, once it
// is no longer valid: its source has died, or would have ended it.
func (n *Node) sweepMove(row *store.Authority) {
	if row.Move.TargetLifecycle != n.lifecycle() || row.Move.TargetRID != n.cfg.RID {
		return
	}
	end := store.EndOf(row, store.Sweep, n.lease, newOpID())
	change, err := n.whileLeased(func(ctx context.Context) (store.Change, error) { return n.store.EndMove(ctx, end) })
	if err == nil && change.Reason == store.Applied {
		n.log.Info().Str("object", clip(row.ID)).Str("source", row.RID).Msg("a move to here that nobody ended is given up")
	}
}

// refuseComing ends the moves into a Spot of a node that stops, which will not be committed any
// more: their sources may have died, or may not have told the Store yet.
func (n *Node) refuseComing(spotID string) {
	reserved, err := n.held(n.life, store.HeldReserved)
	if err != nil {
		return // it is tried again
	}
	for id := range reserved {
		row, found, err := n.readRow(n.life, id)
		if err != nil || !found || row.Move == nil || row.Move.SpotID != spotID || row.Move.TargetLifecycle != n.lifecycle() {
			continue
		}
		end := store.EndOf(&row, store.Target, n.lease, newOpID())
		_, _ = n.whileLeased(func(ctx context.Context) (store.Change, error) { return n.store.EndMove(ctx, end) }) // it is tried again
	}
}

// held reads the ids of which the Store says that this process has them.
func (n *Node) held(ctx context.Context, what store.Holding) (map[string]bool, error) {
	all := map[string]bool{}
	for after := ""; ; {
		call, cancel := context.WithTimeout(ctx, storeCallMax)
		ids, err := n.store.Held(call, n.cfg.RID, n.lifecycle(), what, after, store.PageMax)
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

// heldWithMembers reads the ids of which the Store says that this process owns them, the
// members of its SpotWide Spots included, who share their Spots' owner.
func (n *Node) heldWithMembers(ctx context.Context) (map[string]bool, error) {
	all, err := n.held(ctx, store.HeldOwned)
	if err != nil {
		return nil, err
	}
	n.actors.Range(func(id string, c *objectCell) bool {
		if c.typ.Wide && all[id] {
			err = n.addMembers(ctx, id, all)
		}
		return err == nil
	})
	return all, err
}

func (n *Node) addMembers(ctx context.Context, spot string, to map[string]bool) error {
	for after := ""; ; {
		call, cancel := context.WithTimeout(ctx, storeCallMax)
		members, err := n.store.Members(call, spot, after, store.PageMax)
		cancel()
		for _, after = range members {
			to[after] = true
		}
		if err != nil || len(members) < store.PageMax {
			return err
		}
	}
}

func (n *Node) readRow(ctx context.Context, id string) (store.Authority, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeCallMax)
	defer cancel()
	return n.store.Read(ctx, id)
}

func (n *Node) owns(row *store.Authority) bool {
	return row.OwnerID == n.lease.OwnerID && row.LeaseGen == n.lifecycle()
}

// has reports whether the object is here, or may be as far as this node knows. One of which it
// knows that it has moved is not: a row that names this node is of a past that is lost, unless
// it is on its way back.
func (n *Node) has(id string) bool {
	if _, comes := n.moves.preparing.Load(id); comes { // asked first: behind its end the table has the object
		return true
	}
	c, here := n.actors.Load(id)
	return here && !(c.tenure.Load() == leaving && c.gone.Load() && c.stuck.Load() == nil)
}

func (n *Node) knows(id string) bool {
	_, here := n.actors.Load(id)
	return here
}
