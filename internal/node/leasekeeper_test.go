package node

import (
	"context"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/lease"
	"github.com/zlnode/zlnode/store"
)

// leasing is a Store that renews as a test says.
type leasing struct {
	scripted
	renew func(ctx context.Context) store.LeaseResult
}

func (s *leasing) RenewLease(ctx context.Context, l store.Lease, _ store.Epoch, ttl time.Duration) (store.LeaseResult, error) {
	if ctx.Err() != nil {
		return store.LeaseResult{}, store.ErrUnavailable
	}
	r := s.renew(ctx)
	r.Reason, r.Lease = store.Applied, l
	r.Lease.Remaining = ttl
	return r, nil
}

// leasingNode is a bare node whose lease was renewed last as a says.
func leasingNode(t *testing.T, s *leasing, c lease.Config, a lease.Answered) *Node {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	n := storedNode(t, &s.scripted)
	n.store, n.cfg.Lease, n.endRound = s, c, func() {}
	n.keeper = lease.New(c, a)
	n.publishAdmission()
	return n
}

// reach waits until the clock has reached that point.
func reach(ctx context.Context, at clock.Mono) {
	waitFor(ctx, func() bool { return clock.Now().Reached(at) })
}

// What a renewal tells counts from when it is heard, however early it was sent: who might
// not act by then waits until its rows are written again.
// req: FO-18
func TestARenewalIsJudgedByTheTimeOfItsAnswer(t *testing.T) {
	c := lease.Config{Renew: 10 * time.Second, Timeout: 10 * time.Second, TTL: time.Minute, Margin: time.Second, Hold: -1}
	now := clock.Now()
	acts := now.Add(100 * time.Millisecond)
	tried, write := make(chan bool), make(chan struct{})
	var n *Node
	s := &leasing{renew: func(ctx context.Context) store.LeaseResult {
		reach(ctx, acts)
		return store.LeaseResult{Epoch: 2}
	}}
	s.reassert = func(store.Reassert) (store.Change, error) {
		select {
		case <-write:
			return applied(7)
		case tried <- n.mayAct(clock.Now()):
			return store.Change{}, store.ErrUnavailable
		}
	}
	// The renewal is due, and the node may act until acts.
	s.held = func(store.Holding) []string { return nil }
	n = leasingNode(t, s, c, lease.Answered{SentAt: now.Add(-c.Renew), Remaining: c.Renew + c.Margin + acts.Sub(now), Epoch: 1})
	n.ready("x", &journal{})
	n.tasks.Go(n.keepLease)
	if await(t, "a try to write the row again", tried) {
		t.Error("it acts though no row is written again")
	}
	close(write)
	until(t, "it acts", func() bool { return n.mayAct(clock.Now()) })
}

// Renewals that take so long that the next one is due at their end are renewals still, and
// what a round has told is heard between them.
func TestRenewalsThatTakeLongerThanTheirPauseAreHeard(t *testing.T) {
	c := lease.Config{Renew: time.Millisecond, Timeout: 10 * time.Second, TTL: time.Minute, Margin: time.Second, Hold: -1}
	s := &leasing{renew: func(ctx context.Context) store.LeaseResult {
		reach(ctx, clock.Now().Add(c.Renew))
		return store.LeaseResult{Epoch: 2}
	}}
	s.held = func(store.Holding) []string { return nil }
	n := leasingNode(t, s, c, lease.Answered{Epoch: 1}) // may not act, so all depends on the round
	n.tasks.Go(n.keepLease)
	until(t, "it acts", func() bool { return n.mayAct(clock.Now()) })
	if n.known.Load() != 2 {
		t.Errorf("it acts in epoch %d", n.known.Load())
	}
}
