package redislua

import (
	"testing"
	"time"

	"github.com/zlnode/zlnode/store"
)

// travel moves the embedded server's clock, and the life of its keys with it.
func (e *Embedded) travel(now *time.Time, d time.Duration) {
	*now = now.Add(d)
	e.server.SetTime(*now)
	e.server.FastForward(d)
}

func TestLeasesEndByTheStoresClock(t *testing.T) {
	e := embeddedRedis(t)
	now := time.UnixMilli(4_000_000_000_000) // 2096; far from this machine's clock
	e.travel(&now, 0)
	s := newScene(t, openStore(t, e.URL()))
	a, _ := s.create("player-1")
	if r, err := s.RenewLease(within(t), s.lease, earlier, 15*time.Second); err != nil || r.Lease.Remaining != 15*time.Second {
		t.Fatalf("RenewLease = %+v, %v", r, err)
	}
	left := func() time.Duration {
		t.Helper()
		got, _, err := s.Read(within(t), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		return got.LeaseLeft
	}
	e.travel(&now, 14999*time.Millisecond)
	if got := left(); got != time.Millisecond {
		t.Errorf("%v left just before the end; want 1ms", got)
	}
	s.reserve(s.request("player-2"), store.Applied)
	e.travel(&now, time.Millisecond)
	if got := left(); got != 0 {
		t.Errorf("%v left at the end; want 0", got)
	}
	s.reserve(s.request("player-3"), store.TargetUnavailable)
	if r, err := s.AcquireLease(within(t), "node-a", randomHex(), time.Minute); err != nil || r.Reason != store.Applied {
		t.Errorf("AcquireLease at the end = %+v, %v", r, err)
	}
}

// req: CR-15
func TestTerminalRecordsAreKeptUntilFiveMinutesAfterTheDeadline(t *testing.T) {
	e := embeddedRedis(t)
	now := time.Now().Truncate(time.Millisecond)
	e.travel(&now, 0)
	s := newScene(t, openStore(t, e.URL()))
	r := s.request("player-1")
	r.Timeout = 7 * time.Second
	reserved := s.reserve(r, store.Applied)
	if d := reserved.Create.Deadline.Sub(now); d != r.Timeout {
		t.Errorf("deadline is %v away; want %v", d, r.Timeout)
	}
	e.travel(&now, 2*time.Second) // the life counts from the deadline, not from the end
	s.finish(reserved, r.Op, store.Rejected, store.Applied)
	kept := func() bool {
		t.Helper()
		_, found, err := s.ReadTerminal(within(t), r.Op)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	// The server's clock decides, whether or not it has dropped the key yet.
	now = now.Add(5*time.Second + 5*time.Minute - time.Millisecond)
	e.server.SetTime(now)
	if !kept() {
		t.Fatal("gone 1ms early")
	}
	s.reserve(r, store.AlreadyApplied)
	now = now.Add(time.Millisecond)
	e.server.SetTime(now)
	if kept() {
		t.Error("kept past 5 minutes after the deadline")
	}
	// With no Ready authority the object can be created anew.
	again := s.request("player-1")
	s.finish(s.reserve(again, store.Applied), again.Op, store.Created, store.Applied)
}

func TestTerminalKeysExpireByThemselves(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		raw := rawClient(t, url)
		s := newScene(t, openStore(t, url))
		a, op := s.create("player-1")
		want := 5*time.Second + store.TerminalRetention
		if ttl := raw.PTTL(within(t), s.keys.terminal(op)).Val(); ttl <= want-stepMax || ttl > want {
			t.Errorf("terminal key lives %v; want close to %v", ttl, want)
		}
		if c, err := s.Delete(within(t), fence(a), newOp()); err != nil || c.Reason != store.Applied {
			t.Fatalf("Delete = %+v, %v", c, err)
		}
		if ttl := raw.PTTL(within(t), s.keys.removed(a.ID)).Val(); ttl <= store.TerminalRetention-stepMax || ttl > store.TerminalRetention {
			t.Errorf("what is kept of a removal lives %v; want close to %v", ttl, store.TerminalRetention)
		}
		want = time.Hour + keepDead
		if ttl := raw.PTTL(within(t), s.keys.node("node-a")).Val(); ttl <= want-stepMax || ttl > want {
			t.Errorf("descriptor lives %v; want close to %v", ttl, want)
		}
	})
}

func TestFinishLongAfterTheDeadlineLeavesNoTerminal(t *testing.T) {
	e := embeddedRedis(t)
	now := time.Now()
	e.travel(&now, 0)
	s := newScene(t, openStore(t, e.URL()))
	r := s.request("player-1")
	a := s.reserve(r, store.Applied)
	e.travel(&now, r.Timeout+store.TerminalRetention+time.Second)
	s.finish(a, r.Op, store.Created, store.Applied)
	if _, found, err := s.ReadTerminal(within(t), r.Op); err != nil || found {
		t.Errorf("ReadTerminal = %v, %v; want none", found, err)
	}
	s.finish(a, r.Op, store.Created, store.AlreadyApplied) // known by the row
}

func TestLeasesOfTheLongDeadAreForgotten(t *testing.T) {
	e := embeddedRedis(t)
	now := time.Now()
	e.travel(&now, 0)
	s := openStore(t, e.URL())
	dead := make([]store.Lease, 3)
	for i, rid := range []string{"node-a", "node-b", "node-c"} {
		dead[i] = serve(t, s, rid)
	}
	list := func() store.NodeList {
		t.Helper()
		l, err := s.ListNodes(within(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	// Within a day after the end a paused process may come back.
	e.travel(&now, time.Hour+keepDead-time.Second)
	for _, l := range dead[:2] {
		if r, err := s.RenewLease(within(t), l, earlier, time.Hour); err != nil || r.Reason != store.Applied {
			t.Fatalf("RenewLease = %+v, %v", r, err)
		}
	}
	e.travel(&now, 2*time.Second)
	before := list()
	serve(t, s, "node-d")
	after := list()
	var rids []string
	for _, d := range after.Nodes {
		rids = append(rids, d.RID)
	}
	if len(rids) != 3 || rids[0] != "node-a" || rids[1] != "node-b" || rids[2] != "node-d" {
		t.Errorf("listed %v; want all but node-c", rids)
	}
	if after.Change <= before.Change {
		t.Errorf("change number stays %d though a node went", after.Change)
	}
	if r, err := s.RenewLease(within(t), dead[2], present(t, s), time.Hour); err != nil || r.Reason != store.Missing {
		t.Errorf("RenewLease of the forgotten = %+v, %v; want Missing", r, err)
	}
	if keys := e.server.Keys(); len(keys) == 0 {
		t.Error("no keys at all")
	}
	for _, key := range e.server.Keys() {
		if key == s.keys.node("node-c") {
			t.Errorf("%s is left", key)
		}
	}
}
