package model

import (
	"cmp"
	"context"
	"time"

	"github.com/zlnode/zlnode/store"
)

// keepDead is how long an ended lease, and the descriptor under it, are kept.
const keepDead = 24 * time.Hour

// refused says why the process may not act now; 0 if its lease is valid.
func (v view) refused(p process) store.Reason {
	switch l, held := v.leases[p.rid]; {
	case held && l.process != p:
		return store.LeaseSuperseded
	case !held || !l.ends.After(v.now):
		return store.LeaseExpired
	}
	return 0
}

// left is what is left of the process's lease.
func (v view) left(p process) time.Duration {
	if v.refused(p) != 0 {
		return 0
	}
	return v.leases[p.rid].ends.Sub(v.now)
}

// forget drops what nobody can ask for any more.
func (v view) forget() {
	for rid, l := range v.leases {
		if !l.ends.Add(keepDead).After(v.now) {
			delete(v.leases, rid)
			v.dropNode(rid)
		}
	}
	for op, t := range v.terminals {
		if !t.keptUntil.After(v.now) {
			delete(v.terminals, op)
		}
	}
	for id, r := range v.removals {
		if !r.keptUntil.After(v.now) {
			delete(v.removals, id)
		}
	}
}

// AcquireLease implements store.Store.
func (s *Store) AcquireLease(ctx context.Context, rid, ownerID string, ttl time.Duration) (res store.LeaseResult, err error) {
	asked := store.Lease{RID: rid, OwnerID: ownerID, Gen: 1} // a generation to pass the check
	err = s.call(ctx, cmp.Or(asked.Check(), store.CheckTTL(ttl)), func(v view) {
		held, there := v.leases[rid]
		switch {
		case there && held.ends.After(v.now) && held.owner == ownerID:
			res = v.leaseResult(store.AlreadyApplied, held)
		case there && held.ends.After(v.now):
			res = v.leaseResult(store.LeaseHeld, held)
			res.Freed = 0 // the other process's
		case v.leaseGens.spent():
			res = store.LeaseResult{Reason: store.Exhausted, Epoch: v.epoch}
		default:
			v.dropNode(rid)
			l := lease{process: process{rid, ownerID, store.LeaseGen(v.leaseGens.next())}, ends: v.now.Add(ttl)}
			v.leases[rid] = l
			res = v.leaseResult(store.Applied, l)
		}
	})
	return res, err
}

// RenewLease implements store.Store.
func (s *Store) RenewLease(ctx context.Context, asked store.Lease, known store.Epoch, ttl time.Duration) (res store.LeaseResult, err error) {
	err = s.call(ctx, cmp.Or(asked.Check(), store.CheckGen("epoch", known), store.CheckTTL(ttl)), func(v view) {
		held, there := v.leases[asked.RID]
		switch {
		case !there && known == v.epoch:
			res = store.LeaseResult{Reason: store.Missing, Epoch: v.epoch} // it was not lost
		case there && held.process != processOf(asked):
			res = v.leaseResult(store.LeaseSuperseded, held)
			res.Freed = 0
		default:
			held.process, held.ends = processOf(asked), v.now.Add(ttl)
			v.leases[asked.RID] = held
			res = v.leaseResult(store.Applied, held)
		}
	})
	return res, err
}

// ReleaseLease implements store.Store.
func (s *Store) ReleaseLease(ctx context.Context, asked store.Lease) (reason store.Reason, err error) {
	err = s.call(ctx, asked.Check(), func(v view) {
		held, there := v.leases[asked.RID]
		switch {
		case !there:
			reason = store.Missing
		case held.process != processOf(asked):
			reason = store.LeaseSuperseded
		default:
			delete(v.leases, asked.RID)
			v.dropNode(asked.RID)
			reason = store.Applied
		}
	})
	return reason, err
}

func (v view) leaseResult(reason store.Reason, l lease) store.LeaseResult {
	return store.LeaseResult{
		Reason: reason, Epoch: v.epoch, Freed: l.freed,
		Lease: store.Lease{RID: l.rid, OwnerID: l.owner, Gen: l.gen, Remaining: max(l.ends.Sub(v.now), 0)},
	}
}

// countFreed tells the process that a row of its was removed by somebody else.
func (v view) countFreed(p process) {
	if l, held := v.leases[p.rid]; held && l.gen == p.gen {
		l.freed++
		v.leases[p.rid] = l
	}
}
