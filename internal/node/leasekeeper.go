package node

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/internal/lease"
	"github.com/zlnode/zlnode/store"
)

// acquireLease takes the RID's lease. While another process holds it, it waits:
// a restarted node waits for its predecessor's lease to end.
func (n *Node) acquireLease(ctx context.Context) error {
	ownerID := newOpID()
	for {
		asked := clock.Now()
		r, err := n.store.AcquireLease(ctx, n.cfg.RID, ownerIDText(ownerID), n.cfg.Lease.TTL)
		switch {
		case errors.Is(err, store.ErrUnknown) && pause(ctx, createWaitMin):
			continue // asked again as the same process, the Store repeats its answer
		case err != nil:
			return fromStore(err, "start", n.cfg.RID)
		case r.Reason == store.Applied, r.Reason == store.AlreadyApplied:
			n.lease, n.epoch = r.Lease, r.Epoch
			n.keeper = lease.New(n.cfg.Lease, lease.Answered{SentAt: asked, Remaining: r.Lease.Remaining, Epoch: uint64(r.Epoch)})
			n.publishAdmission()
			return nil
		case r.Reason != store.LeaseHeld:
			return fail(errkind.InternalFailure, "start", n.cfg.RID, "the Store refused the owner lease for reason %d", r.Reason)
		}
		n.log.Warn().Str("rid", n.cfg.RID).Dur("left", r.Lease.Remaining).
			Msg("another process holds this RID's lease; waiting for its end")
		if !pause(ctx, min(r.Lease.Remaining+time.Millisecond, time.Second)) {
			return fail(errkind.AlreadyExists, "start", n.cfg.RID,
				"another process with this RID holds a lease (%v left); stop it, or give this node another RID", r.Lease.Remaining)
		}
	}
}

// keepLease renews until the node's life ends or the lease is lost. Each event is taken
// at the time of its end, and what follows from it is published before the next one: a
// renewal may take so long that another is due at once.
func (n *Node) keepLease() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := false // a renewal
	for event := lease.Event(lease.Tick{}); ; {
		n.keeper.Step(clock.Now(), event)
		n.publishAdmission()
		if n.leaseOver.Load() { // looked at after the store, as halt sets it before
			n.stopActing()
			return
		}
		for _, e := range n.keeper.Effects(nil) {
			switch e {
			case lease.Renew:
				due = true
			case lease.Reassert:
				n.beginReassertion(store.Epoch(n.keeper.Epoch()))
			case lease.Lost:
				n.leaseLost()
				return
			}
		}
		at, _ := n.keeper.NextDeadline() // in the past if a renewal is due
		timer.Reset(max(at.Sub(clock.Now()), 0))
		select {
		case <-n.life.Done():
			return
		case epoch := <-n.reasserted:
			event = lease.Reasserted{Epoch: epoch}
		case <-timer.C:
			event = lease.Tick{}
			if due {
				event, due = n.renewLease(), false
			}
		}
	}
}

// publishAdmission lets the rest of the node know until when it may act, and in which
// epoch: before the round for that one begins, see known.
func (n *Node) publishAdmission() {
	admit, leased := n.keeper.AdmitUntil(), n.keeper.LeasedUntil()
	if n.unread {
		admit, leased = 0, 0
	}
	n.known.Store(n.keeper.Epoch())
	n.admitUntil.Store(int64(admit))
	n.leased.Store(int64(leased))
}

// stopActing takes back what publishAdmission has let the node know.
func (n *Node) stopActing() {
	n.admitUntil.Store(0)
	n.leased.Store(0)
}

func (n *Node) renewLease() lease.Event {
	ctx, cancel := context.WithTimeout(n.life, n.cfg.Lease.Timeout)
	defer cancel()
	asked := clock.Now()
	r, err := n.store.RenewLease(ctx, n.lease, n.epoch, n.cfg.Lease.TTL)
	switch {
	case err != nil:
		if n.life.Err() == nil {
			n.log.Warn().Err(err).Dur("acts_for", clock.Mono(n.admitUntil.Load()).Sub(asked)).Msg("the owner lease was not renewed; trying again")
		}
		return lease.Failed{}
	case r.Reason == store.Applied || r.Reason == store.AlreadyApplied:
		n.epoch = r.Epoch
		if n.heardFreed(&r); n.unread {
			return lease.Failed{} // tried again soon; meanwhile nothing runs
		}
		return lease.Answered{SentAt: asked, Remaining: r.Lease.Remaining, Epoch: uint64(r.Epoch)}
	case n.leaseOver.Load():
		return lease.Failed{} // this node gave it back while the renewal was under way
	default:
		n.log.Error().Stringer("reason", r.Reason).Msg("the owner lease is not this process's any more")
		return lease.Superseded{}
	}
}

// leaseLost ends this process's right to act, for good.
func (n *Node) leaseLost() {
	n.stopActing()
	n.routes.clear()
	n.host.step(host.Event{Is: host.Broken})
	n.failed(fail(errkind.Unavailable, "run", n.cfg.RID, "its owner lease is lost: it belongs to another process, or the Store lost it; stop this process"))
}

// lifecycle returns the generation of this process.
func (n *Node) lifecycle() store.LeaseGen { return store.LeaseGen(n.id.Lifecycle) }

// mayAct reports whether this process may act on objects now: its lease, less
// the margin, has not run out, and no new epoch of the Store forbids it. A node without a
// Store owns nothing and may act.
func (n *Node) mayAct(now clock.Mono) bool {
	return n.store == nil || now < clock.Mono(n.admitUntil.Load())
}

// lately is a moment of the last quarter of a second. It is for admission to a queue, and
// for the age of a route, where to read the clock would cost as much as the rest: each turn
// asks with the present (mailbox.Claim.Now).
func (n *Node) lately() clock.Mono { return clock.Mono(n.swept.Load()) }

func ownerIDText(id store.OpID) string { return hex.EncodeToString(id[:]) }
