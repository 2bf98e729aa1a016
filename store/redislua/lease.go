package redislua

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

const (
	// keepDead is how long an ended lease, and the descriptor under it, are kept: a
	// process that was paused may renew until then. A day is far beyond any pause
	// that a game survives, and short enough that RIDs of one-off processes go away.
	keepDead = 24 * time.Hour
	// pruneCount bounds the work of one lease_acquire. Every process that starts
	// leaves at most one lease behind, so any number above one keeps up.
	pruneCount = 100
)

// AcquireLease implements store.Store.
func (s *Store) AcquireLease(ctx context.Context, rid, ownerID string, ttl time.Duration) (store.LeaseResult, error) {
	l := store.Lease{RID: rid, OwnerID: ownerID, Gen: 1} // a generation to pass the check
	if err := cmp.Or(l.Check(), store.CheckTTL(ttl)); err != nil {
		return store.LeaseResult{}, err
	}
	k := &s.keys
	a, err := s.run(ctx, lua.LeaseAcquire,
		[]string{k.epoch, k.leases, k.leaseEnds, k.leaseCounter, k.node(rid), k.nodes, k.change, k.entries, k.freed},
		rid, ownerID, millis(ttl), millis(keepDead), strconv.Itoa(pruneCount))
	if err != nil {
		return store.LeaseResult{}, err
	}
	return a.lease(rid)
}

// RenewLease implements store.Store.
func (s *Store) RenewLease(ctx context.Context, l store.Lease, known store.Epoch, ttl time.Duration) (store.LeaseResult, error) {
	if err := cmp.Or(l.Check(), store.CheckGen("epoch", known), store.CheckTTL(ttl)); err != nil {
		return store.LeaseResult{}, err
	}
	k := &s.keys
	a, err := s.run(ctx, lua.LeaseRenew, []string{k.epoch, k.leases, k.leaseEnds, k.node(l.RID), k.freed},
		l.RID, l.OwnerID, decimal(l.Gen), millis(ttl), millis(keepDead), decimal(known))
	if err != nil {
		return store.LeaseResult{}, err
	}
	return a.lease(l.RID)
}

// ReleaseLease implements store.Store.
func (s *Store) ReleaseLease(ctx context.Context, l store.Lease) (store.Reason, error) {
	if err := l.Check(); err != nil {
		return 0, err
	}
	k := &s.keys
	a, err := s.run(ctx, lua.LeaseRelease, []string{k.epoch, k.leases, k.leaseEnds, k.node(l.RID), k.nodes, k.change, k.entries, k.freed},
		l.RID, l.OwnerID, decimal(l.Gen))
	if err != nil {
		return 0, err
	}
	return a.reason, a.end()
}

// lease reads generation, owner and time left, if the answer has them.
func (a *answer) lease(rid string) (store.LeaseResult, error) {
	r := store.LeaseResult{Reason: a.reason, Epoch: store.Epoch(a.gen("epoch"))}
	if a.more() {
		gen := store.LeaseGen(a.gen("lease generation"))
		r.Lease = store.Lease{RID: rid, Gen: gen, OwnerID: a.word(), Remaining: a.timeLeft()}
		r.Freed = a.number("count of freed rows", store.GenMax)
	}
	return r, a.end()
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
