package redislua

import (
	"errors"
	"net"
	"testing"

	"github.com/zlnode/zlnode/store"
)

// pair is a primary with a replica that can be made to lose the last writes: the
// replica follows by one road, the Store goes by another.
type pair struct {
	t                testing.TB
	primary, replica *redisProcess
	following, road  *proxy
}

func startPair(t testing.TB) *pair {
	t.Helper()
	p := &pair{t: t, primary: startRedis(t)}
	p.following, p.road = newProxy(t, p.primary.url()), newProxy(t, p.primary.url())
	host, port, _ := net.SplitHostPort(p.following.addr)
	p.replica = startRedis(t, "--replicaof", host+" "+port)
	return p
}

// inStep reports whether the replica has all that the primary has.
func (p *pair) inStep() bool {
	return p.replica.info("master_link_status") == "up" &&
		p.replica.info("slave_repl_offset") == p.primary.info("master_repl_offset")
}

// lag waits until the replica is in step, and lets it get no more.
func (p *pair) lag() {
	p.t.Helper()
	until(p.t, "the replica to be in step", p.inStep)
	p.following.stop()
}

// failOver kills the primary and makes the replica the server of the Store s.
func (p *pair) failOver(s *stage) {
	p.t.Helper()
	p.primary.kill()
	p.replica.do("REPLICAOF", "NO", "ONE")
	p.road.lead(p.replica.url())
	s.answers()
}

// lost does what shall be lost, fails over, and makes sure that it is lost.
func (p *pair) lost(s *stage, do func()) {
	p.t.Helper()
	p.lag()
	before := snapshot(p.t, p.replica.raw, &s.keys)
	do()
	p.failOver(s)
	if d := difference(before, snapshot(p.t, p.replica.raw, &s.keys)); d != "" {
		p.t.Fatalf("not all was lost, or the replica had not all before:%s", d)
	}
}

// A commit that a failover lost: the target, which has opened, says so and stays owner.
// The source, which has heard of the commit or not, does not become one again.
// req: ID-04 (also over a failover)
func TestATargetThatOpenedStaysOwnerThoughTheCommitIsLost(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	s := newStage(t, openStore(t, p.road.url()))
	before := s.applied(s.ReserveMove(within(t), moveTo(s.actor("object-1"), s.b)))
	commit := commitOf(before, s.b)
	var there store.Authority
	p.lost(s, func() { there = s.applied(s.CommitMove(within(t), commit)) })

	epoch := s.renew(s.b).Epoch
	if r := s.renew(s.a); r.Epoch != epoch || epoch <= before.Epoch {
		t.Fatalf("epochs are %d and %d; want one later than %d", epoch, r.Epoch, before.Epoch)
	}
	s.wantOwner("object-1", s.a) // as far as this server knows

	// Nobody acts on what the server says before its owner has spoken.
	s.gives(store.EpochChanged)(s.CommitMove(within(t), commit))
	s.gives(store.EpochChanged)(s.EndMove(within(t), endOf(before, store.Source, s.a)))
	s.gives(store.EpochChanged)(s.EndMove(within(t), endOf(before, store.Target, s.b)))
	s.gives(store.Moving)(s.Delete(within(t), store.FenceOf(&before), newOp()))

	claim := asserted(there, s.b, epoch)
	now := s.applied(s.Reassert(within(t), claim))
	if now.OwnerGen != there.OwnerGen || now.OwnerGen <= before.OwnerGen || now.ObjectGen != before.ObjectGen || now.Move != nil {
		t.Errorf("the target is owner by %+v", now)
	}
	s.wantOwner("object-1", s.b)
	audit(t, s.Store)
	decided := snapshot(t, p.replica.raw, &s.keys)
	s.gives(store.AlreadyApplied)(s.Reassert(within(t), claim))
	s.gives(store.OwnerConflict)(s.Reassert(within(t), asserted(before, s.a, epoch)))
	s.gives(store.MoveConflict)(s.CommitMove(within(t), commit))
	s.gives(store.MoveConflict)(s.EndMove(within(t), endOf(before, store.Source, s.a)))
	if d := difference(decided, snapshot(t, p.replica.raw, &s.keys)); d != "" {
		t.Errorf("those who are not owner changed:%s", d)
	}
	s.wantOwner("object-1", s.b)

	// The object goes on: also back to where it came from.
	back := s.applied(s.ReserveMove(within(t), moveTo(now, s.a)))
	if home := s.applied(s.CommitMove(within(t), commitOf(back, s.a))); home.OwnerGen <= now.OwnerGen {
		t.Errorf("owner generation %d after %d", home.OwnerGen, now.OwnerGen)
	}
	s.wantOwner("object-1", s.a)
	audit(t, s.Store)
}

// A commit that a failover lost, and a target that had not opened: it gives up, and the
// source is owner. Whatever of the target's still comes does nothing.
func TestASourceIsOwnerAgainIfTheCommitIsLostAndTheTargetGaveUp(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	s := newStage(t, openStore(t, p.road.url()))
	before := s.applied(s.ReserveMove(within(t), moveTo(s.actor("object-1"), s.b)))
	commit := commitOf(before, s.b)
	var there store.Authority
	p.lost(s, func() { there = s.applied(s.CommitMove(within(t), commit)) })

	epoch := s.renew(s.a).Epoch
	now := s.applied(s.Reassert(within(t), asserted(before, s.a, epoch)))
	if now.Move != nil || now.OwnerGen != before.OwnerGen || now.Version <= there.Version {
		t.Errorf("the source is owner by %+v; the lost commit had version %d", now, there.Version)
	}
	s.wantOwner("object-1", s.a)
	audit(t, s.Store)
	decided := snapshot(t, p.replica.raw, &s.keys)
	s.gives(store.MoveConflict)(s.CommitMove(within(t), commit))
	s.gives(store.OwnerConflict)(s.Reassert(within(t), asserted(there, s.b, epoch)))
	s.gives(store.OwnerConflict)(s.Delete(within(t), store.Fence{
		ID: now.ID, ObjectGen: now.ObjectGen, Version: now.Version, OwnerID: s.b.OwnerID, LeaseGen: s.b.Gen, SpotID: now.SpotID,
	}, newOp()))
	if d := difference(decided, snapshot(t, p.replica.raw, &s.keys)); d != "" {
		t.Errorf("the target changed:%s", d)
	}
	s.wantOwner("object-1", s.a)
}

// The same for a Spot that moved with its members, whose owner stands in its row alone.
func TestAnAggregateStaysWithItsTargetThoughTheCommitIsLost(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	s := newStage(t, openStore(t, p.road.url()))
	before := s.prepared("crowd")
	commit := commitOf(before, s.b)
	var there store.Authority
	var members []store.Authority
	p.lost(s, func() {
		there = s.applied(s.CommitMove(within(t), commit))
		members = []store.Authority{s.read("crowd-x"), s.read("crowd-y")}
	})

	epoch := s.renew(s.b).Epoch
	s.gives(store.EpochChanged)(s.CommitMove(within(t), commit))
	now := s.applied(s.Reassert(within(t), asserted(there, s.b, epoch)))
	s.wantOwner("crowd", s.b)
	audit(t, s.Store)
	s.gives(store.OwnerConflict)(s.Reassert(within(t), asserted(before, s.a, epoch)))
	for _, m := range members {
		// Before and after its own assertion the member is its Spot's owner's.
		if a := s.read(m.ID); a.RID != s.b.RID || a.OwnerGen < m.OwnerGen {
			t.Errorf("%s reads %+v; want it at node-b with an owner generation of %d", m.ID, a, m.OwnerGen)
		}
		a := s.applied(s.Reassert(within(t), asserted(m, s.b, epoch)))
		if a.RID != s.b.RID || a.OwnerGen != m.OwnerGen || a.ObjectGen != m.ObjectGen || a.SpotID != "crowd" {
			t.Errorf("%s is asserted as %+v", m.ID, a)
		}
		audit(t, s.Store)
	}
	// The next move takes all of them along.
	back := s.applied(s.ReserveMove(within(t), moveTo(now, s.a)))
	if back.Move.Members != len(members) {
		t.Errorf("the way back is booked for %d members", back.Move.Members)
	}
	audit(t, s.Store)
}

// What else a failover can lose is put right by those who know of it.
func TestLostChangesArePutRightByTheirOwners(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	s := newStage(t, openStore(t, p.road.url()))
	deleted := s.actor("deleted")
	deletion := newOp()
	aborted := s.applied(s.ReserveMove(within(t), moveTo(s.actor("aborted"), s.b)))
	entered := s.actor("entered")
	rejected := reservation("rejected", store.Actor, false, s.a)
	creating := s.applied(s.Reserve(within(t), rejected))
	s.crowd("crowd")
	var created, member store.Authority
	var late store.Lease
	p.lost(s, func() {
		created = s.actor("created")
		s.applied(s.Delete(within(t), store.FenceOf(&deleted), deletion))
		aborted = s.applied(s.EndMove(within(t), endOf(aborted, store.Source, s.a)))
		s.applied(s.Finish(within(t), finishing(creating, store.Rejected)))
		member = s.applied(s.ChangeSpot(within(t), entering(entered, "crowd")))
		late = host(t, s.Store, "node-c")
	})

	epoch := s.renew(s.a).Epoch
	for _, spot := range []string{"crowd", "crowd-x", "crowd-y"} {
		s.applied(s.Reassert(within(t), asserted(s.read(spot), s.a, epoch)))
	}
	for _, known := range []store.Authority{created, aborted, member} {
		a := s.applied(s.Reassert(within(t), asserted(known, s.a, epoch)))
		if a.ObjectGen != known.ObjectGen || a.OwnerGen != known.OwnerGen || a.SpotID != known.SpotID || a.Move != nil {
			t.Errorf("%s is put right as %+v; want %+v", known.ID, a, known)
		}
		s.wantOwner(known.ID, s.a)
	}
	// What is back though it was removed is removed again.
	s.applied(s.Delete(within(t), store.FenceOf(&deleted), deletion))
	s.applied(s.Finish(within(t), finishing(creating, store.Rejected)))
	s.gives(store.AlreadyApplied)(s.Reserve(within(t), rejected))
	// A lease that is lost is written again, and its generation is nobody else's.
	if r := s.renew(late); r.Reason != store.Applied || r.Lease.Gen != late.Gen {
		t.Errorf("RenewLease = %+v; want the lost lease", r)
	}
	publish(t, s.Store, late)
	if other := host(t, s.Store, "node-d"); other.Gen <= late.Gen {
		t.Errorf("lease generation %d after %d", other.Gen, late.Gen)
	}
	audit(t, s.Store)
}

// A primary that became a replica refuses, on connections that it has from before too.
func TestADemotedPrimaryChangesNothing(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	s := newStage(t, openStore(t, p.road.url()))
	a := s.actor("object-1")
	p.lag()
	p.replica.do("REPLICAOF", "NO", "ONE")
	host, port, _ := net.SplitHostPort(p.replica.addr)
	p.primary.do("REPLICAOF", host, port)
	move := moveTo(a, s.b)
	if _, err := s.ReserveMove(within(t), move); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("error is %v; want ErrUnavailable", err)
	}
	p.road.lead(p.replica.url())
	s.answers()
	now := s.read(a.ID)
	if now.Version != a.Version || now.Move != nil {
		t.Errorf("the row is %+v", now)
	}
	now = s.applied(s.Reassert(within(t), asserted(a, s.a, s.renew(s.a).Epoch)))
	s.applied(s.ReserveMove(within(t), moveTo(now, s.b)))
	audit(t, s.Store)
}

// A process that goes on through several failovers is refused nothing for good, and no
// epoch comes twice.
func TestEachFailoverBeginsAnEpoch(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	s := newStage(t, openStore(t, p.road.url()))
	a := s.actor("object-1")
	epochs := []store.Epoch{a.Epoch}
	for range 3 {
		p.lag()
		p.failOver(s)
		epoch := s.renew(s.a).Epoch
		if last := epochs[len(epochs)-1]; epoch <= last {
			t.Fatalf("epoch %d after %v", epoch, epochs)
		}
		epochs = append(epochs, epoch)
		a = s.applied(s.Reassert(within(t), asserted(a, s.a, epoch)))
		audit(t, s.Store)

		// The dead one comes back empty and follows.
		p.primary.start()
		p.primary, p.replica = p.replica, p.primary
		p.following.lead(p.primary.url())
		p.following.start()
		host, port, _ := net.SplitHostPort(p.following.addr)
		p.replica.do("REPLICAOF", host, port)
	}
	until(t, "the last replica's copy", func() bool {
		return p.replica.raw.HGet(within(t), s.keys.object(a.ID), "version").Val() == decimal(a.Version)
	})
	if r := s.renew(s.a); r.Epoch != epochs[3] {
		t.Errorf("epoch is %d without a failover after %v", r.Epoch, epochs)
	}
}
