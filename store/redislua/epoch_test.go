package redislua

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode/scripts/lua"
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

// A server notes an epoch, issues numbers in it, and is lost; the next one knows the same
// of the past, and its clock is behind too. Nothing that it issues was issued before.
// req: ID-03 (also if the begin of an epoch is lost)
func TestEpochsThatBeginAtTheSameStateIssueNothingTwice(t *testing.T) {
	const behind = 5000 // ms
	now := time.UnixMilli(1_800_000_000_000)
	e := embeddedRedis(t)
	e.server.SetTime(now)
	s := openStore(t, e.URL())
	raw := rawClient(t, e.URL())
	counters := []string{s.keys.leaseCounter, s.keys.objectCounter, s.keys.versionCounter, s.keys.change}
	last := now.UnixMilli() + behind
	for _, issued := range []int64{last << 20, 1} { // with the last epoch's begin, or long before
		epochs := map[store.Epoch]string{}
		for _, history := range []string{"000", "001", "a3f", "a3e", "b3f", "fff"} {
			s.prepare = withHistory(history)
			raw.HSet(within(t), s.keys.epoch, "number", last, "replication", "another")
			for _, c := range counters {
				raw.Set(within(t), c, issued, 0)
			}
			epoch, err := s.noteEpoch(within(t), "")
			if err != nil || int64(epoch) <= last || int64(epoch) > last+2*behind {
				t.Fatalf("epoch is %d, %v; want one soon after %d", epoch, err, last)
			}
			if other := epochs[epoch]; other != "" {
				t.Errorf("histories %s and %s both begin epoch %d", other, history, epoch)
			}
			epochs[epoch] = history
			for _, c := range counters {
				if begin, err := raw.Get(within(t), c).Int64(); err != nil || begin != int64(epoch)<<20 || begin <= issued {
					t.Fatalf("%s begins at %d, %v; want that of epoch %d, above %d", c, begin, err, epoch, issued)
				}
			}
		}
	}

	// A clock that is right says the number alone, so that one who begins without any state
	// is behind it. A raise within one history draws nothing.
	now = time.UnixMilli(last + 2*behind)
	e.server.SetTime(now)
	s.prepare = withHistory("fff")
	raw.HSet(within(t), s.keys.epoch, "replication", "another")
	for i, how := range []string{"", "raise"} {
		want := now.UnixMilli() + int64(i)*1024
		if epoch, err := s.noteEpoch(within(t), how); err != nil || int64(epoch) != want {
			t.Errorf("epoch %q is %d, %v; want %d", how, epoch, err, want)
		}
	}
}

// withHistory gives scripts a server whose history has a replication id that begins so.
func withHistory(begin string) func(lua.Script) lua.Script {
	return func(s lua.Script) lua.Script {
		return lua.New(s.Name, `local server = redis
local redis = { call = server.call, pcall = function() return '# Replication\r\nmaster_replid:`+begin+strings.Repeat("0", 40-len(begin))+`\r\n' end }
`+s.Source)
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
	lease, err := s.RenewLease(within(t), s.lease, earlier, time.Hour)
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
