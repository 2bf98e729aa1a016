package node

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/session"
	"github.com/zlnode/zlnode/store"
)

const (
	opServe    = "start"
	opShutDown = "shut down"
)

// Times of a shutdown that its caller does not choose.
const (
	// haltTime bounds what must be done even if the caller's deadline has passed.
	haltTime = 2 * time.Second
	// announceTime bounds for how long a Store that does not answer is told of the end.
	announceTime = 3 * time.Second
	// idlePoll is how often a shutdown looks whether accepted work has finished.
	idlePoll = 5 * time.Millisecond
)

// ShutdownResult is how a shutdown ended: in order if Reason is ShutdownNone, else it was forced.
type ShutdownResult struct{ Reason ShutdownReason }

// ShutdownReason says why a shutdown was forced.
type ShutdownReason uint8

// The reasons.
const (
	ShutdownNone     ShutdownReason = iota
	ShutdownLate                    // the time was over
	ShutdownTeardown                // a closing callback has failed, or the Store or something of the node
)

// ShutdownResult returns how the shutdown ended; false: there was none, or it is not over.
func (n *Node) ShutdownResult() (ShutdownResult, bool) {
	if r := n.stopped.Load(); r != nil {
		return *r, true
	}
	return ShutdownResult{}, false
}

// whyForced says what an error of the shutdown means (CL-03).
func (n *Node) whyForced(ctx context.Context, err error) ShutdownReason {
	switch {
	case err == nil:
		return ShutdownNone
	case !n.closingFailed.Load() && (ctx.Err() != nil || KindOf(err) == errkind.DeadlineExceeded):
		return ShutdownLate
	}
	return ShutdownTeardown
}

// Shutdown stops the node: nothing new is taken; clients are told; work that was
// accepted finishes; the Actors and Spots and then the lease and descriptor leave the
// Store; links and listeners close. When ctx ends, what is left is cut short.
// Calls after the first wait for it and return its result.
func (n *Node) Shutdown(ctx context.Context) error {
	n.stopOnce.Do(func() {
		n.stopErr = n.shutdown(ctx)
		result := ShutdownResult{n.whyForced(ctx, n.stopErr)}
		n.stopped.Store(&result)
		n.host.step(host.Event{Is: host.Halted})
		n.failed(nil)
	})
	return n.stopErr
}

func (n *Node) shutdown(ctx context.Context) error {
	n.stopping.Store(true)
	n.host.step(host.Event{Is: host.Stopping})
	n.host.stop()
	for m := range n.eachNet() {
		m.channels.drain()
	}
	for _, p := range n.ports {
		_ = p.Close() // a listener that fails to close has no use for its error
	}
	var errs []error
	if n.store != nil {
		errs = append(errs, n.announce(ctx))
	}
	n.settle(ctx)
	n.lastReadings(ctx)
	n.failJoins()
	n.freeSealed()
	n.sessions.Range(func(_ string, s *sessionConn) bool {
		s.notify(&Notice{Kind: NoticeStopping})
		closeSession(s, session.ServerDrain, "")
		return true
	})
	n.keeps.sweep(clock.Now()) // which ends those that were reserved
	half, cancel := halfOf(ctx)
	n.lastTurns(half) // after which each Actor has the end of its binding in its queue
	cancel()
	n.settleMoves(ctx)
	n.drainActors(ctx)
	errs = append(errs, n.closeSpots(ctx))
	if n.store != nil {
		errs = append(errs, n.removeRows(ctx))
		n.endShells(ctx)
	}
	n.lastTurns(ctx)
	errs = append(errs, n.halt(ctx))
	if err := errors.Join(errs...); err != nil {
		return &Error{Kind: KindOf(err), Op: opShutDown, Object: n.cfg.RID, Text: "not all could be ended in order", Err: err}
	}
	return nil
}

// announce has no more work sent here. A Store that has just come back is told, too.
func (n *Node) announce(ctx context.Context) error {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, announceTime)
	defer cancel()
	for wait := createWaitMin; ; wait = min(2*wait, createWaitMax) {
		err := n.publish(ctx, opShutDown)
		if err == nil || KindOf(err) != errkind.Unavailable || !pause(ctx, wait) {
			return err
		}
	}
}

// settle waits until the requests that this node waits for, its clients' among
// them, are answered, the creations at this node have ended and the messages to it and to
// channels here are worked off; for half of the
// time at most, so that a handler that hangs does not take it all.
func (n *Node) settle(ctx context.Context) {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	waitFor(ctx, func() bool {
		under := n.creations.inside.Load() + n.local.count.Load() + n.services.busy()
		for l := range n.eachLink() {
			under += l.pending.count.Load()
		}
		return under == 0
	})
	n.services.each((*service).close)
}

// lastReadings waits until subscriptions of the node's own code have had what was queued for
// them, for half of the time at most.
func (n *Node) lastReadings(ctx context.Context) {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	waitFor(ctx, func() bool { return !slices.ContainsFunc(n.meshes, func(m *mesh) bool { return m.topics.reading() }) })
}

// failJoins ends the Joins that are pending, behind whose barriers nothing can end in order.
func (n *Node) failJoins() {
	n.actors.Range(func(_ string, c *objectCell) bool {
		if j := c.joining.Load(); j != nil {
			j.cancel(errStopping)
		}
		return true
	})
	n.moves.out.Range(func(_ string, o *moveOut) bool {
		o.stop()
		return true
	})
	n.moves.preparing.Range(func(_ string, i *moveIn) bool {
		i.tell(relay.TargetEvent{Is: relay.TargetStopping})
		return true
	})
}

// settleMoves waits until no move to or from here is in doubt, for half of the time at most.
// Then those whose target has not committed are ended in the Store, and their Actors are freed:
// each is at no node, and its row would keep its Spot's.
func (n *Node) settleMoves(ctx context.Context) {
	half, cancel := halfOf(ctx)
	waitFor(half, func() bool { return n.moves.preparing.Len() == 0 && len(n.inDoubt()) == 0 })
	cancel()
	for _, o := range n.inDoubt() {
		o.tell(relay.SourceEvent{Is: relay.SourceHalting})
	}
	half, cancel = halfOf(ctx)
	defer cancel()
	waitFor(half, func() bool { return len(n.inDoubt()) == 0 })
}

// inDoubt returns the moves from here whose outcome is not known.
func (n *Node) inDoubt() (all []*moveOut) {
	n.moves.out.Range(func(_ string, o *moveOut) bool {
		if o.until.Load() == int64(clock.Never) && !o.stranded.Load() {
			all = append(all, o)
		}
		return true
	})
	return all
}

// lastTurns waits until the clients' connections are closed and their Sessions
// have had their last turns.
func (n *Node) lastTurns(ctx context.Context) {
	waitFor(ctx, func() bool { return n.sessions.Len() == 0 && n.ending.Load() == 0 })
}

// halfOf returns a context with half of the time that ctx has left.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	at, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(at)/2)
}

// waitFor waits until done, or until ctx ends.
func waitFor(ctx context.Context, done func() bool) {
	for !done() && pause(ctx, idlePoll) {
	}
}

// drainActors waits until the Actors have worked off what they had accepted, as a Spot is
// closed behind that and while its members are valid (CL-02); for half of the time at
// most, so that a handler that hangs does not take it all.
func (n *Node) drainActors(ctx context.Context) {
	if n.entry == nil && len(n.app.Spots) == 0 {
		return
	}
	ctx, cancel := halfOf(ctx)
	defer cancel()
	var left atomic.Int64
	n.actors.Range(func(_ string, c *objectCell) bool {
		if c.typ.Kind == store.Actor {
			left.Add(1)
			c.ended(func(*turn) { left.Add(-1) })
		}
		return true
	})
	waitFor(ctx, func() bool { return left.Load() == 0 })
}

// removeRows ends all of the node's Actors at once, each after what it had accepted, then
// its Spots, which have been closed before their members end, and takes them out of the
// Store, so that their ids can be used again at once. One whose handler hangs keeps its
// row: somebody may not begin where it still runs.
func (n *Node) removeRows(ctx context.Context) error {
	return errors.Join(
		n.removeAll(ctx, "actors", func(c *objectCell) bool { return c.typ.Kind == store.Actor }, (*objectCell).ended),
		n.removeAll(ctx, "spots", func(c *objectCell) bool { return c.typ.Kind != store.Actor && c.stored }, (*objectCell).whenCalm))
}

// endShells waits for the OnClosing of Spots that have gone to other nodes before their members, of
// which none is here any more; for half of the time at most.
func (n *Node) endShells(ctx context.Context) {
	ctx, cancel := halfOf(ctx)
	defer cancel()
	waitFor(ctx, func() bool { return n.shells.Load() == 0 })
}

// removeAll ends the objects that are wanted, each in a turn that queue finds for it.
func (n *Node) removeAll(ctx context.Context, what string, wanted func(*objectCell) bool, queue func(*objectCell, func(*turn))) error {
	var left atomic.Int64
	var failed atomic.Pointer[Error]
	n.actors.Range(func(_ string, c *objectCell) bool {
		if !wanted(c) || c.tenure.Load() != owned {
			return true
		}
		left.Add(1)
		queue(c, func(t *turn) {
			n.destroyInTurn(t, newOpID(), func(e destroyEnd) {
				if e.err != nil {
					failed.CompareAndSwap(nil, e.err)
				}
				left.Add(-1)
			})
		})
		return true
	})
	waitFor(ctx, func() bool { return left.Load() == 0 })
	if n := left.Load(); n > 0 {
		return fail(errkind.DeadlineExceeded, "end "+what, "", "%d %s are not ended; their ids stay Unavailable until they are freed", n, what)
	}
	if err := failed.Load(); err != nil {
		return err
	}
	return nil
}

// halt ends everything that runs, in an order in which nothing waits for what
// has ended before. It also cleans up after a start that failed half-way.
func (n *Node) halt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), haltTime)
	defer cancel()
	var errs []error
	if n.store != nil && n.lease.Gen != 0 {
		n.leaseOver.Store(true)
		n.stopActing()
		if _, err := n.store.ReleaseLease(ctx, n.lease); err != nil {
			errs = append(errs, fromStore(err, "release lease", n.cfg.RID))
		}
	}
	for l := range n.eachLink() {
		l.pending.fail(errStopping) // else they would learn that their link is lost
	}
	for m := range n.eachNet() {
		m.links.close()
	}
	if n.engine != nil {
		errs = append(errs, n.engine.Close(ctx))
	}
	n.services.each((*service).close)
	n.local.fail(errStopping)
	n.kill()
	errs = append(errs, n.tasks.close(ctx))
	if n.timers != nil {
		errs = append(errs, n.timers.Close(ctx))
	}
	if n.pool != nil {
		errs = append(errs, n.pool.Close(ctx))
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(errs...)
}
