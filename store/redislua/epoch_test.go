package redislua

import (
	"strconv"
	"testing"
	"time"

	"github.com/zlnode/zlnode/store"
)

// A new epoch's numbers follow the clock, and where that is behind keep a distance to
// what the epoch before may have issued and lost.
func TestEpochsGrowAlsoUnderAClockThatIsBehind(t *testing.T) {
	e := embeddedRedis(t)
	now := time.Now().Truncate(time.Millisecond)
	e.travel(&now, 0)
	s := newScene(t, openStore(t, e.URL()))
	counters := []string{s.keys.leaseCounter, s.keys.objectCounter, s.keys.versionCounter}
	a, _ := s.create("player-0")
	last := a.Epoch
	if want := store.Epoch(now.UnixMilli()); last != want {
		t.Errorf("the first epoch is %d; want the clock's %d", last, want)
	}
	raw := rawClient(t, e.URL())
	for _, step := range []time.Duration{time.Hour, 0, -time.Minute, -time.Hour, time.Millisecond, 24 * time.Hour} {
		now = now.Add(step)
		e.server.SetTime(now)
		issued := map[string]int64{}
		for _, c := range counters {
			n, err := raw.Get(within(t), c).Int64()
			if err != nil {
				t.Fatal(err)
			}
			issued[c] = n
			// Replication had not got this far, if only a million changes ago.
			if err := raw.Set(within(t), c, strconv.FormatInt(n-1_000_000, 10), 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		epoch, err := s.RaiseEpoch(within(t))
		if err != nil || epoch <= last || epoch < store.Epoch(now.UnixMilli()) {
			t.Errorf("%v later: epoch %d, %v; the one before is %d", step, epoch, err, last)
		}
		for _, c := range counters {
			if n, err := raw.Get(within(t), c).Int64(); err != nil || n <= issued[c] {
				t.Errorf("%v later: counter %s begins at %d, %v; it had issued %d", step, c, n, err, issued[c])
			}
		}
		last = epoch
	}
}

// req: ID-08
func TestEpochBeyondTheLastGenerationIssuesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := newScene(t, openStore(t, url))
		raw := rawClient(t, url)
		for _, last := range []string{"9223372036854775807", "9223372036854775000"} {
			if err := raw.Set(within(t), s.keys.versionCounter, last, 0).Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.RaiseEpoch(within(t)); err != nil {
				t.Fatalf("RaiseEpoch at %s: %v", last, err)
			}
			s.reserve(s.request("player-1"), store.Exhausted)
		}
	})
}

func TestNothingNewIsCreatedWhileAnEpochIsYoung(t *testing.T) {
	const hold = 10 * time.Second
	e := embeddedRedis(t)
	now := time.Now()
	e.travel(&now, 0)
	s := newScene(t, openStore(t, e.URL(), func(o *Options) { o.RecoveryHold = hold }))
	lease, err := s.RenewLease(within(t), s.lease, time.Hour)
	if err != nil || lease.Reason != store.Applied {
		t.Fatalf("RenewLease = %+v, %v", lease, err)
	}
	known := s.request("known")
	s.reserve(known, store.Applied) // a server that keeps nothing has no past at first
	if _, err := s.RaiseEpoch(within(t)); err != nil {
		t.Fatal(err)
	}
	spots := describe(s.lease)
	spots.SpotTypes = []store.SpotType{{Type: "quest", Kind: store.InstanceSpot}, {Type: "room", Kind: store.UserSpot}}
	spots.Revision = 2
	if reason, err := s.PublishNode(within(t), s.lease, spots); err != nil || reason != store.Applied {
		t.Fatalf("PublishNode = %v, %v", reason, err)
	}
	kinds := map[store.Kind]string{store.Actor: "player", store.UserSpot: "room", store.InstanceSpot: "quest"}
	try := func(want store.Reason) {
		t.Helper()
		for kind, name := range kinds {
			r := s.request("new " + name)
			r.Kind, r.Type = kind, name
			if a := s.reserve(r, want); (a.ID != "") != (want == store.Applied) {
				t.Errorf("%v shows the row %+v", want, a)
			}
		}
		audit(t, s.Store)
	}
	try(store.Recovering)
	s.reserve(s.request("known"), store.Exists)
	s.reserve(known, store.AlreadyApplied)
	e.travel(&now, hold-time.Millisecond)
	try(store.Recovering)
	e.travel(&now, time.Millisecond)
	try(store.Applied)
}

func TestNamespaceThatIsFoundEmptyIsHeldBackOnAServerThatMayHaveLostIt(t *testing.T) {
	held := openStore(t, realRedis(t), func(o *Options) { o.RecoveryHold = time.Hour })
	s := newScene(t, held)
	s.reserve(s.request("player-1"), store.Recovering)
	random := openStore(t, realRedis(t), func(o *Options) { o.Namespace = held.options.Namespace })
	(&scene{t, random, s.lease}).reserve(s.request("player-1"), store.Applied)
}
