package redislua

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/zlnode/zlnode/store"
)

// answers waits until the Store reaches its server again.
func (s *stage) answers() {
	s.t.Helper()
	until(s.t, "the Store's server", func() bool { return s.Ping(within(s.t)) == nil })
}

func (s *stage) renew(l store.Lease) store.LeaseResult {
	s.t.Helper()
	r, err := s.RenewLease(within(s.t), l, earlier, time.Hour)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// issued are the largest numbers that a Store gave out.
type issued struct {
	lease   store.LeaseGen
	object  store.ObjectGen
	version store.Version
	epoch   store.Epoch
}

func (i *issued) add(t testing.TB, l store.Lease, a store.Authority) {
	t.Helper()
	if l.Gen <= i.lease || a.ObjectGen <= i.object || a.Version <= i.version || a.Epoch < i.epoch {
		t.Errorf("issued are lease %d, object generation %d, version %d, epoch %d; all before are below %+v",
			l.Gen, a.ObjectGen, a.Version, a.Epoch, *i)
	}
	*i = issued{l.Gen, a.ObjectGen, a.Version, a.Epoch}
}

// A server that lost everything begins a new epoch: nothing that was given out before
// comes again, and nothing new is created while processes may act that it forgot.
// req: ID-03 (also over a loss of all data)
func TestAServerThatLostItsDataStartsBehindAllThatWasIssued(t *testing.T) {
	t.Parallel()
	p := startRedis(t)
	s := newStage(t, openStore(t, p.url()))
	held := func(hold time.Duration) *Store {
		return openStore(t, p.url(), func(o *Options) { o.Namespace, o.RecoveryHold = s.options.Namespace, hold })
	}
	var known issued
	for range 3 {
		lease := host(t, s.Store, "node-c")
		a := s.make("object-1", store.Actor, false, lease)
		m := s.applied(s.ReserveMove(within(t), moveTo(a, s.a)))
		known.add(t, lease, m)
		p.kill()
		p.start()
		s.answers()

		// What was there is gone; its processes go on, and nothing else is created yet.
		r := s.renew(lease)
		if r.Epoch <= known.epoch {
			t.Errorf("epoch %d after %d", r.Epoch, known.epoch)
		}
		if r.Reason != store.Applied || r.Lease.Gen != lease.Gen {
			t.Errorf("renewal of a lease that the Store lost: %+v; want it written again", r)
		}
		publish(t, s.Store, lease)
		if _, found, err := s.Read(within(t), "object-1"); err != nil || found {
			t.Errorf("the row is there: %v, %v", found, err)
		}
		other := reservation("object-2", store.Actor, false, lease)
		s.gives(store.Recovering)(held(time.Hour).Reserve(within(t), other))
		hold := 200 * time.Millisecond
		soon := held(hold)
		var c store.Change
		until(t, "the end of the hold", func() bool {
			var err error
			if c, err = soon.Reserve(within(t), other); err != nil {
				t.Fatal(err)
			}
			return c.Reason != store.Recovering
		})
		since := p.raw.HGet(within(t), s.keys.epoch, "since").Val()
		created := c.Record.Create.Deadline.Add(-other.Timeout)
		if left := created.UnixMilli() - number(t, since); c.Reason != store.Applied || left < hold.Milliseconds() {
			t.Errorf("after %d ms of the epoch: %v; want Applied after %v", left, c.Reason, hold)
		}
		known.add(t, store.Lease{Gen: known.lease + 1}, c.Record)

		// The owner puts its row back. The move that was under way is over.
		a = s.applied(s.Reassert(within(t), asserted(m, lease, r.Epoch)))
		if a.ObjectGen != m.ObjectGen || a.Version <= m.Version || a.Move != nil {
			t.Errorf("the row was put back as %+v", a)
		}
		s.gives(store.MoveConflict)(s.CommitMove(within(t), commitOf(m, s.a)))
		audit(t, s.Store)
		s.applied(s.Delete(within(t), store.FenceOf(&a), newOp()))
		if reason, err := s.ReleaseLease(within(t), lease); err != nil || reason != store.Applied {
			t.Fatalf("ReleaseLease = %v, %v", reason, err)
		}
		s.a, s.b = again(t, s.Store, s.a), again(t, s.Store, s.b)
	}
}

func number(t testing.TB, word string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// again gives the process its lease and descriptor back.
func again(t testing.TB, s *Store, l store.Lease) store.Lease {
	t.Helper()
	r, err := s.RenewLease(within(t), l, earlier, time.Hour)
	if err != nil || r.Reason != store.Applied {
		t.Fatalf("RenewLease = %+v, %v", r, err)
	}
	publish(t, s, l)
	return l
}

// A server that comes back with its data may have lost the last of it: nobody's owner
// changes before the owner has said what it owns.
func TestAfterARestartWithDataOwnersAssertTheirRowsFirst(t *testing.T) {
	t.Parallel()
	p := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := newStage(t, openStore(t, p.url()))
	still := s.actor("still")
	going := s.applied(s.ReserveMove(within(t), moveTo(s.actor("going"), s.b)))
	crowd := s.prepared("crowd")
	before := snapshot(t, p.raw, &s.keys)
	p.kill()
	p.start()
	s.answers()
	if d := difference(before, snapshot(t, p.raw, &s.keys)); d != "" {
		t.Fatalf("the restart changed:%s", d)
	}
	r := s.renew(s.a)
	if r.Reason != store.Applied || r.Epoch <= still.Epoch {
		t.Fatalf("RenewLease = %+v; want a later epoch than %d", r, still.Epoch)
	}

	move := moveTo(still, s.b)
	s.gives(store.EpochChanged)(s.ReserveMove(within(t), move))
	move.Epoch = r.Epoch
	s.gives(store.Unasserted)(s.ReserveMove(within(t), move))
	for _, m := range []store.Authority{going, crowd} {
		s.gives(store.EpochChanged)(s.CommitMove(within(t), commitOf(m, s.b)))
		s.gives(store.EpochChanged)(s.EndMove(within(t), endOf(m, store.Source, s.a)))
		s.gives(store.EpochChanged)(s.EndMove(within(t), endOf(m, store.Target, s.b)))
	}
	audit(t, s.Store)
	for _, row := range []store.Authority{still, going, crowd} {
		a := s.applied(s.Reassert(within(t), asserted(row, s.a, r.Epoch)))
		if a.OwnerGen != row.OwnerGen || a.ObjectGen != row.ObjectGen || a.Move != nil {
			t.Errorf("%s is asserted as %+v", a.ID, a)
		}
		audit(t, s.Store)
		if row.Wide {
			for _, name := range []string{"crowd-x", "crowd-y"} {
				s.applied(s.Reassert(within(t), asserted(s.read(name), s.a, r.Epoch)))
			}
		}
		m := s.applied(s.ReserveMove(within(t), moveTo(a, s.b)))
		if !row.Wide {
			s.applied(s.CommitMove(within(t), commitOf(m, s.b)))
			s.wantOwner(row.ID, s.b)
		}
		audit(t, s.Store)
	}
}

// A server that comes back with an older state of its data: who got an object since then
// keeps it, and the owner before does not get it back.
func TestAfterARestartWithOlderDataTheLatestOwnerKeepsTheObject(t *testing.T) {
	t.Parallel()
	p := startRedis(t)
	s := newStage(t, openStore(t, p.url()))
	before := s.applied(s.ReserveMove(within(t), moveTo(s.actor("object-1"), s.b)))
	p.do("SAVE")
	kept := snapshot(t, p.raw, &s.keys)
	there := s.applied(s.CommitMove(within(t), commitOf(before, s.b)))
	p.kill()
	p.start()
	s.answers()
	if d := difference(kept, snapshot(t, p.raw, &s.keys)); d != "" {
		t.Fatalf("what was saved and what is there differ:%s", d)
	}
	epoch := s.renew(s.a).Epoch
	if epoch <= before.Epoch {
		t.Errorf("epoch is %d after %d", epoch, before.Epoch)
	}
	s.gives(store.EpochChanged)(s.EndMove(within(t), endOf(before, store.Source, s.a)))
	now := s.applied(s.Reassert(within(t), asserted(there, s.b, epoch)))
	s.gives(store.OwnerConflict)(s.Reassert(within(t), asserted(before, s.a, epoch)))
	if now.OwnerGen != there.OwnerGen || now.Version <= there.Version {
		t.Errorf("the row is %+v; it was %+v", now, there)
	}
	s.wantOwner("object-1", s.b)
	audit(t, s.Store)
}

// While the server is down nothing is done, and what was asked then is not done later.
func TestAKilledServerIsUnavailable(t *testing.T) {
	t.Parallel()
	p := startRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := newStage(t, openStore(t, p.url()))
	a := s.actor("object-1")
	p.kill()
	move := moveTo(a, s.b)
	for range 3 {
		// The first call may go out on a connection that does not know yet.
		if _, err := s.ReserveMove(within(t), move); !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
			t.Fatalf("error is %v", err)
		}
	}
	p.start()
	s.answers()
	if now := s.read(a.ID); now.Version != a.Version {
		t.Errorf("the row is %+v; want it as before", now)
	}
}

// A server whose clock is behind that of the one before it issues nothing twice, and
// knows which leases it did not lose.
func TestAnEpochBeginsBehindTheLastThoughTheClockDoesNot(t *testing.T) {
	t.Parallel()
	onOwn(t, func(t *testing.T, url string) {
		raw := rawClient(t, url)
		s := newStage(t, openStore(t, url))
		a := s.actor("object-1")
		const ahead = 8_000_000_000_000 // ms: the year 2223
		raw.HSet(within(t), s.keys.epoch, "number", ahead, "replication", "another")
		if r := s.renew(s.a); r.Epoch <= ahead {
			t.Errorf("epoch is %d; want one after %d", r.Epoch, ahead)
		}
		c := host(t, s.Store, "node-c")
		b := s.make("object-2", store.Actor, false, c)
		if c.Gen <= s.b.Gen || b.ObjectGen <= a.ObjectGen || b.Version <= a.Version {
			t.Errorf("issued are lease %d after %d, object generation %d after %d, version %d after %d",
				c.Gen, s.b.Gen, b.ObjectGen, a.ObjectGen, b.Version, a.Version)
		}
		s.applied(s.Delete(within(t), store.FenceOf(&b), newOp()))
		if reason, err := s.ReleaseLease(within(t), c); err != nil || reason != store.Applied {
			t.Fatalf("ReleaseLease = %v, %v", reason, err)
		}
		if r, err := s.RenewLease(within(t), c, present(t, s.Store), time.Hour); err != nil || r.Reason != store.Missing {
			t.Errorf("renewal of a lease of this epoch that was released: %+v, %v; want Missing", r, err)
		}
	})
}
