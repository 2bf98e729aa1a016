package redislua

import (
	"strconv"
	"testing"

	"github.com/zlnode/zlnode/store"
)

// BenchmarkMemory reports what an object takes in the server: its row, its places in the
// lists, and its share of the server's tables, once the results of creations are gone
// (five minutes after their deadline), and with them.
func BenchmarkMemory(b *testing.B) {
	const objects = 50_000
	used := func(p *redisProcess) float64 {
		n, err := strconv.ParseFloat(p.info("used_memory"), 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	actors := func(s *stage) {
		spread(objects, func(i int) {
			r := reservation("room-member-"+strconv.Itoa(i), store.Actor, false, s.a)
			c, err := s.Reserve(b.Context(), r)
			if err == nil {
				c, err = s.Finish(b.Context(), store.Finish{Fence: store.FenceOf(&c.Record), Op: r.Op, Result: store.Created})
			}
			if err != nil || c.Reason != store.Applied {
				b.Error(c.Reason, err)
			}
		})
	}
	members := func(s *stage) {
		s.make("room", store.UserSpot, true, s.a)
		s.populate("room", objects)
	}
	const long = "game-server-5d9c7b6f4-x7x2q" // as a cluster manager names them
	for _, c := range []struct {
		name, rid string
		fill      func(*stage)
		args      []string
	}{
		{"Actor", "node-a", actors, nil},
		{"Actor/long-RID", long, actors, nil},
		{"Actor/long-RID/listpack-value-128", long, actors, []string{"--hash-max-listpack-value", "128"}},
		{"Member", "node-a", members, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				p := startRedis(b, c.args...)
				loadScripts(b, p.raw)
				st := openStore(b, p.url())
				s := &stage{b, st, host(b, st, c.rid), host(b, st, "node-b")}
				before := used(p)
				c.fill(s)
				whole := used(p) - before
				terminals := p.raw.Scan(b.Context(), 0, globEscape(s.keys.prefix)+"terminal:*", 10_000).Iterator()
				pipe := p.raw.Pipeline()
				for terminals.Next(b.Context()) {
					pipe.Del(b.Context(), terminals.Val())
				}
				if _, err := pipe.Exec(b.Context()); err != nil || terminals.Err() != nil {
					b.Fatal(err, terminals.Err())
				}
				rest := used(p) - before
				b.ReportMetric(whole/objects, "B/new-object")
				b.ReportMetric(rest/objects, "B/object")
				b.ReportMetric(float64(1<<30)/rest*objects, "objects/GiB")
				row, err := p.raw.MemoryUsage(b.Context(), s.keys.object("room-member-1"), 0).Result()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(row), "B/row")
				packed := 0.0
				for i := range 100 {
					encoding, err := p.raw.Do(b.Context(), "OBJECT", "ENCODING", s.keys.object("room-member-"+strconv.Itoa(i))).Text()
					if err != nil {
						b.Fatal(err)
					}
					if encoding == "listpack" {
						packed++
					}
				}
				b.ReportMetric(packed, "%packed-rows")
			}
		})
	}
}
