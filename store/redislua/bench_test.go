package redislua

import (
	"strconv"
	"testing"

	"github.com/zlnode/zlnode/store"
)

// onEach runs the benchmark on the embedded Redis and, if there is one, on a real one.
func onEach(b *testing.B, bench func(b *testing.B, s *scene)) {
	b.Run("embedded", func(b *testing.B) { bench(b, newScene(b, openStore(b, embeddedRedis(b).URL()))) })
	b.Run("real", func(b *testing.B) {
		bench(b, newScene(b, openStore(b, realRedis(b))))
	})
}

func BenchmarkRead(b *testing.B) {
	onEach(b, func(b *testing.B, s *scene) {
		s.create("player-1")
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			if _, found, err := s.Read(ctx, "player-1"); err != nil || !found {
				b.Fatal(found, err)
			}
		}
	})
}

func BenchmarkReadParallel(b *testing.B) {
	onEach(b, func(b *testing.B, s *scene) {
		s.create("player-1")
		ctx := b.Context()
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, found, err := s.Read(ctx, "player-1"); err != nil || !found {
					b.Error(found, err)
				}
			}
		})
	})
}

// BenchmarkReserveFinishDelete is the life of one object: three changes.
func BenchmarkReserveFinishDelete(b *testing.B) {
	onEach(b, func(b *testing.B, s *scene) {
		ctx := b.Context()
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			n++
			r := s.request("player-" + strconv.Itoa(n))
			c, err := s.Reserve(ctx, r)
			if err != nil || c.Reason != store.Applied {
				b.Fatal(c.Reason, err)
			}
			c, err = s.Finish(ctx, store.Finish{Fence: fence(c.Record), Op: r.Op, Result: store.Created})
			if err != nil || c.Reason != store.Applied {
				b.Fatal(c.Reason, err)
			}
			c, err = s.Delete(ctx, fence(c.Record), newOp())
			if err != nil || c.Reason != store.Applied {
				b.Fatal(c.Reason, err)
			}
		}
	})
}

// BenchmarkListNodesUnchanged is what every node asks each second.
func BenchmarkListNodesUnchanged(b *testing.B) {
	onEach(b, func(b *testing.B, s *scene) {
		ctx := b.Context()
		first, err := s.ListNodes(ctx, 0)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if l, err := s.ListNodes(ctx, first.Change); err != nil || l.Nodes != nil {
				b.Fatal(l, err)
			}
		}
	})
}
