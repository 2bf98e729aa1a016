package redislua

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

func TestScriptsAreLoadedAgainWhenTheServerForgotThem(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		raw := rawClient(t, url)
		store1 := openStore(t, url)
		store1.prepare = func(s lua.Script) lua.Script {
			if err := raw.ScriptFlush(within(t)).Err(); err != nil {
				t.Error(err)
			}
			return s
		}
		s := newScene(t, store1)
		a, _ := s.create("player-1")
		for range 3 {
			if r, err := s.RenewLease(within(t), s.lease, earlier, time.Hour); err != nil || r.Reason != store.Applied {
				t.Fatalf("RenewLease = %+v, %v", r, err)
			}
		}
		if l, err := s.ListNodes(within(t), 0); err != nil || len(l.Nodes) != 1 {
			t.Errorf("ListNodes = %+v, %v", l, err)
		}
		if c, err := s.Delete(within(t), fence(a), newOp()); err != nil || c.Reason != store.Applied {
			t.Errorf("Delete = %+v, %v", c, err)
		}
	})
}

func TestScriptsThatReachOtherKeysFailTheSuite(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		for _, body := range []string{
			"redis.call('GET', 'elsewhere')",
			"redis.call('DEL', KEYS[1], 'elsewhere')",
			"redis.call('SET', KEYS[1] .. 'x', '1')",
		} {
			guarded := lua.New("bad", strings.ReplaceAll(keyGuard, "PREFIX", s.keys.prefix)+body+" return {ARGV[1], 'Applied'}")
			if _, err := s.run(within(t), guarded, []string{s.keys.leases}); err == nil || !strings.Contains(err.Error(), "GUARD") {
				t.Errorf("%s: %v; want the guard's error", body, err)
			}
		}
		inside := lua.New("good", strings.ReplaceAll(keyGuard, "PREFIX", s.keys.prefix)+"redis.call('TIME') redis.call('GET', KEYS[1]) return {ARGV[1], 'Applied'}")
		if _, err := s.run(within(t), inside, []string{s.keys.leases}); err != nil {
			t.Error(err)
		}
		if _, err := s.run(within(t), inside, []string{"elsewhere"}); err == nil || !strings.Contains(err.Error(), "GUARD") {
			t.Errorf("key outside the hash tag: %v; want the guard's error", err)
		}
	})
}

// req: ID-08
func TestGenerationsEndAtTheirLimitAndChangeNothing(t *testing.T) {
	const last, limit = "9223372036854775806", "9223372036854775807"
	onBoth(t, func(t *testing.T, url string) {
		raw := rawClient(t, url)
		store1 := openStore(t, url)
		k := &store1.keys
		set := func(counter, value string) {
			t.Helper()
			if err := raw.Set(within(t), counter, value, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := store1.Read(within(t), "player-1"); err != nil { // from here on the epoch is noted
			t.Fatal(err)
		}
		// Leases: the last generation is issued and holds, the next is not.
		set(k.leaseCounter, last)
		s := newScene(t, store1)
		if s.lease.Gen != store.GenMax {
			t.Fatalf("lease generation is %d; want 2^63-1", s.lease.Gen)
		}
		if r, err := s.AcquireLease(within(t), "node-b", randomHex(), time.Hour); err != nil || r.Reason != store.Exhausted {
			t.Errorf("AcquireLease = %+v, %v; want Exhausted", r, err)
		}
		if n := raw.HLen(within(t), k.leases).Val(); n != 1 {
			t.Errorf("%d leases are stored after an exhausted one", n)
		}

		// Rows: at the limit of either counter no row comes into being.
		for _, counter := range []string{k.objectCounter, k.versionCounter} {
			set(counter, limit)
			if a := s.reserve(s.request("player-1"), store.Exhausted); a.ID != "" {
				t.Errorf("Exhausted shows a row: %+v", a)
			}
			if got := raw.Get(within(t), counter).Val(); got != limit {
				t.Errorf("%s moved to %s", counter, got)
			}
			audit(t, s.Store)
			set(counter, "9223372036854775800")
		}

		// The last version: a reservation takes it, so it cannot become Ready, but can
		// be rejected. All comparisons are exact up there.
		set(k.objectCounter, last)
		set(k.versionCounter, last)
		r := s.request("player-1")
		a := s.reserve(r, store.Applied)
		if a.ObjectGen != store.GenMax || a.Version != store.GenMax {
			t.Fatalf("row is %+v; want the last generation and version", a)
		}
		near := a
		near.Version--
		s.finish(near, r.Op, store.Created, store.VersionConflict)
		near = a
		near.ObjectGen--
		s.finish(near, r.Op, store.Created, store.GenerationConflict)
		near = a
		near.LeaseGen--
		s.finish(near, r.Op, store.Created, store.OwnerConflict)
		s.finish(a, r.Op, store.Created, store.Exhausted)
		if got, found, err := s.Read(within(t), "player-1"); err != nil || !found || got.State != store.Creating || got.Version != a.Version {
			t.Errorf("after Exhausted the row reads %+v, %v, %v", got, found, err)
		}
		audit(t, s.Store)
		s.finish(a, r.Op, store.Rejected, store.Applied)
		audit(t, s.Store)
	})
}

func TestNamespacesShareNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		one, two := newScene(t, openStore(t, url)), newScene(t, openStore(t, url))
		a, op := one.create("player-1")
		if _, found, err := two.Read(within(t), "player-1"); err != nil || found {
			t.Errorf("the other namespace sees the row: %v, %v", found, err)
		}
		if _, found, err := two.ReadTerminal(within(t), op); err != nil || found {
			t.Errorf("the other namespace sees the terminal record: %v, %v", found, err)
		}
		if c, err := two.Delete(within(t), fence(a), newOp()); err != nil || c.Reason != store.Missing {
			t.Errorf("Delete in the other namespace = %+v, %v", c, err)
		}
		two.create("player-1")
		if c, err := one.Delete(within(t), fence(a), newOp()); err != nil || c.Reason != store.Applied {
			t.Errorf("Delete after the other namespace's creation = %+v, %v", c, err)
		}
	})
}

func TestRecordsThatNoScriptWroteAreCorrupt(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		raw := rawClient(t, url)
		s := newScene(t, openStore(t, url))
		k := &s.keys
		read := func(what string) {
			t.Helper()
			if a, found, err := s.Read(within(t), "player-1"); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "object:player-1") {
				t.Errorf("%s: read %+v, %v, %v; want ErrCorrupt that names the row", what, a, found, err)
			}
		}
		key := k.object("player-1")
		for field, value := range map[string]string{
			"object_gen": "0x1", "version": "9223372036854775808", "state": "3", "deadline": "soon", "hash": "00", "op": "00",
		} {
			r := s.request("player-1")
			a := s.reserve(r, store.Applied)
			was := raw.HGet(within(t), key, field).Val()
			raw.HSet(within(t), key, field, value)
			read(field + " " + value)
			raw.HSet(within(t), key, field, was)
			s.finish(a, r.Op, store.Rejected, store.Applied)
		}
		s.reserve(s.request("player-1"), store.Applied)
		raw.Set(within(t), k.request("player-1"), "tampered", 0)
		read("another request")
		raw.Del(within(t), key)
		raw.Set(within(t), key, "a string", 0)
		read("another kind of key")
		if c, err := s.Reserve(within(t), s.request("player-1")); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Reserve = %+v, %v; want ErrCorrupt", c, err)
		}
		raw.HSet(within(t), k.node("node-a"), "encoded", "{")
		if l, err := s.ListNodes(within(t), 0); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("ListNodes = %+v, %v; want ErrCorrupt", l, err)
		}
	})
}

func TestListOfMoreNodesThanAPageTakes(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		const n = 2100
		raw := rawClient(t, url)
		s := openStore(t, url)
		encoded := `{"rid":"%s","lifecycle":"1","revision":"1","appVersion":"` + strings.Repeat("x", 3000) + `"}` // 6.3 MB in all
		pipe := raw.Pipeline()
		for i := range n {
			rid := fmt.Sprintf("node-%04d", i)
			pipe.ZAdd(within(t), s.keys.nodes, redis.Z{Member: rid})
			pipe.HSet(within(t), s.keys.node(rid), "encoded", fmt.Sprintf(encoded, rid), "lifecycle", "1", "owner", "o")
		}
		if _, err := pipe.Exec(within(t)); err != nil {
			t.Fatal(err)
		}
		l, err := s.ListNodes(within(t), 0)
		if err != nil || len(l.Nodes) != n {
			t.Fatalf("listed %d nodes, %v; want %d", len(l.Nodes), err, n)
		}
		for i, d := range l.Nodes {
			if want := fmt.Sprintf("node-%04d", i); d.RID != want {
				t.Fatalf("node %d is %s; want %s", i, d.RID, want)
			}
		}
	})
}

func TestPageOfAListTakesAtLeastOneNodeAndNoByteTooMany(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		s := openStore(t, url)
		a, b := serve(t, s, "node-a"), serve(t, s, "node-b")
		size := func(l store.Lease) int {
			encoded, err := json.Marshal(describe(l))
			if err != nil {
				t.Fatal(err)
			}
			return len(encoded)
		}
		both := size(a) + size(b)
		for bytes, want := range map[int]int{1: 1, both - 1: 1, both: 2} {
			s.page.bytes = bytes
			_, done, nodes, err := s.nodePage(within(t), []string{"node-a", "node-b"})
			if err != nil || done != want || len(nodes) != want {
				t.Errorf("page of %d bytes has %d nodes, done %d, %v; want %d", bytes, len(nodes), done, err, want)
			}
		}
		s.page = pageMax
		// A node that went since the index was read is done and not there.
		_, done, nodes, err := s.nodePage(within(t), []string{"node-0", "node-a"})
		if err != nil || done != 2 || len(nodes) != 1 {
			t.Errorf("page with a missing node has %d nodes, done %d, %v", len(nodes), done, err)
		}
	})
}

// TestClusterClientDoesEveryOperation: the ways of a ClusterClient through every script.
func TestClusterClientDoesEveryOperation(t *testing.T) {
	s := newScene(t, openStore(t, embeddedRedis(t).URL()+"?cluster=true"))
	a, op := s.create("player-1")
	if got, found, err := s.Read(within(t), "player-1"); err != nil || !found || got.Version != a.Version {
		t.Errorf("Read = %+v, %v, %v", got, found, err)
	}
	if got, found, err := s.ReadTerminal(within(t), op); err != nil || !found || got.Result != store.Created {
		t.Errorf("ReadTerminal = %+v, %v, %v", got, found, err)
	}
	if l, err := s.ListNodes(within(t), 0); err != nil || len(l.Nodes) != 1 || l.Nodes[0].Actors != 1 {
		t.Errorf("ListNodes = %+v, %v", l, err)
	}
	if c, err := s.Delete(within(t), fence(a), newOp()); err != nil || c.Reason != store.Applied {
		t.Errorf("Delete = %+v, %v", c, err)
	}
	if r, err := s.RenewLease(within(t), s.lease, earlier, time.Hour); err != nil || r.Reason != store.Applied {
		t.Errorf("RenewLease = %+v, %v", r, err)
	}
	if reason, err := s.RemoveNode(within(t), s.lease); err != nil || reason != store.Applied {
		t.Errorf("RemoveNode = %v, %v", reason, err)
	}
	if reason, err := s.ReleaseLease(within(t), s.lease); err != nil || reason != store.Applied {
		t.Errorf("ReleaseLease = %v, %v", reason, err)
	}
	if err := s.Ping(within(t)); err != nil {
		t.Error(err)
	}
}
