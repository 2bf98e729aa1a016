package redislua

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// trips returns the scripts that f makes the Store call, in order: each is one trip.
func (s *stage) trips(f func()) (names []string) {
	s.t.Helper()
	s.prepare = func(script lua.Script) lua.Script {
		names = append(names, script.Name)
		return script
	}
	f()
	s.prepare = nil
	return names
}

func TestWhatTakesHowManyTrips(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := newStage(t, openStore(t, url))
		member, crowd := s.actor("player-2"), s.crowd("crowd-1")
		s.applied(s.ChangeSpot(within(t), entering(member, crowd.ID)))
		var moving store.Authority
		for _, c := range []struct {
			what string
			want []string
			do   func()
		}{
			{"creating an Actor", []string{"object_reserve", "object_finish"}, func() {
				moving = s.make("player-1", store.Actor, false, s.a)
			}},
			{"creating a User Spot at another node, which reads the request", []string{"object_reserve", "object_read", "object_finish"}, func() {
				s.applied(s.Reserve(within(t), reservation("room-1", store.UserSpot, false, s.b)))
				a := s.read("room-1")
				s.applied(s.Finish(within(t), finishing(a, store.Created)))
			}},
			{"reserving a move", []string{"move_reserve"}, func() { moving = s.applied(s.ReserveMove(within(t), moveTo(moving, s.b))) }},
			{"committing it", []string{"move_commit"}, func() { s.applied(s.CommitMove(within(t), commitOf(moving, s.b))) }},
			{"reading an Actor", []string{"object_read"}, func() { s.read("player-1") }},
			{"reading a member of a SpotWide Spot", []string{"object_read", "object_read"}, func() { s.read("player-2") }},
			{"renewing a lease", []string{"lease_renew"}, func() { s.renew(s.a) }},
		} {
			if got := s.trips(c.do); !slices.Equal(got, c.want) {
				t.Errorf("%s takes %v; want %v", c.what, got, c.want)
			}
		}
	})
}

// commands counts the commands that the server ran, those of scripts too, since CONFIG
// RESETSTAT.
func (p *redisProcess) commands() map[string]int {
	p.t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(p.raw.Info(within(p.t), "commandstats").Val()) {
		name, rest, is := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !is || strings.HasPrefix(name, "config") {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(calls)
		if err != nil {
			p.t.Fatal(err)
		}
		counts[name] = n
	}
	return counts
}

// spread does f for 0 to n-1 from some goroutines at once.
func spread(n int, f func(i int)) {
	const workers = 16
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// populate fills the SpotWide Spot with so many more members, from some callers at once.
func (s *stage) populate(spot string, n int) {
	s.t.Helper()
	spread(n, func(i int) {
		r := reservation(spot+"-member-"+strconv.Itoa(i), store.Actor, false, s.a)
		c, err := s.Reserve(s.t.Context(), r)
		if err == nil && c.Reason == store.Applied {
			c, err = s.Finish(s.t.Context(), store.Finish{Fence: store.FenceOf(&c.Record), Op: r.Op, Result: store.Created})
		}
		if err == nil && c.Reason == store.Applied {
			c, err = s.ChangeSpot(s.t.Context(), entering(c.Record, spot))
		}
		if err != nil || c.Reason != store.Applied {
			s.t.Errorf("member %d: %v, %v", i, c.Reason, err)
		}
	})
}

// boarded reserves the Spot's move to the other process and fixes its inventory, which
// stands for all members.
func (s *stage) boarded(spot store.Authority, from, to store.Lease) store.Authority {
	s.t.Helper()
	a := s.applied(s.ReserveMove(within(s.t), moveTo(spot, to)))
	if reason, err := s.PutInventory(within(s.t), store.MoveOf(&a), inventory); err != nil || reason != store.Applied {
		s.t.Fatalf("PutInventory = %v, %v", reason, err)
	}
	p := preparing(a, from)
	p.Inventory.Count = a.Move.Members + 1
	return s.applied(s.PrepareAggregate(within(s.t), p))
}

// req: AG-04 (the commit writes no member's row)
func TestCommitOfAnAggregateCostsTheSameForAnyCountOfMembers(t *testing.T) {
	p := startRedis(t)
	loadScripts(t, p.raw)
	s := newStage(t, openStore(t, p.url()))
	commit := func(id string, members int) map[string]int {
		s.make(id, store.UserSpot, true, s.a)
		s.populate(id, members)
		a := s.boarded(s.read(id), s.a, s.b)
		p.do("CONFIG", "RESETSTAT")
		s.applied(s.CommitMove(within(t), commitOf(a, s.b)))
		return p.commands()
	}
	one, many := commit("room-1", 1), commit("room-2", 300)
	if len(one) == 0 || !maps.Equal(one, many) {
		t.Errorf("with one member the commit is %v; with 300 it is %v", one, many)
	}
	if a := s.read("room-2-member-299"); a.RID != s.b.RID {
		t.Errorf("member is owned by %s; want %s", a.RID, s.b.RID)
	}
	audit(t, s.Store)
}
