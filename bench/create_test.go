package bench

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zlnode/zlnode"
)

// onEachStore runs the benchmark with the URL of an embedded Store and, where
// ZLNODE_TEST_REDIS names one, with that of a redis-server.
func onEachStore(b *testing.B, bench func(b *testing.B, url string)) {
	b.Run("embedded", func(b *testing.B) {
		bench(b, embeddedStore(b))
	})
	b.Run("redis", func(b *testing.B) {
		url := os.Getenv("ZLNODE_TEST_REDIS")
		if url == "" {
			b.Skip("needs a redis-server: set ZLNODE_TEST_REDIS to its host:port or URL")
		}
		if !strings.Contains(url, "://") {
			url = "redis://" + url
		}
		bench(b, url)
	})
}

// BenchmarkCreate is one creation of an Actor at another node of this process.
func BenchmarkCreate(b *testing.B) {
	onEachStore(b, func(b *testing.B, url string) {
		n, _ := startNodesOn(b, url, 1)
		var number atomic.Uint64
		create := func() error {
			_, err := n.CreateActor(b.Context(), zlnode.CreateActor{ID: fmt.Sprint("created-", number.Add(1)), Type: "echo"})
			return err
		}
		b.Run("1 caller", func(b *testing.B) {
			for b.Loop() {
				if err := create(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("16 callers", func(b *testing.B) {
			b.SetParallelism(8) // for each of two processors
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := create(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	})
}

// BenchmarkFind is FindActor, which asks the Store each time.
func BenchmarkFind(b *testing.B) {
	onEachStore(b, func(b *testing.B, url string) {
		n, _ := startNodesOn(b, url, 1)
		if _, err := n.CreateActor(b.Context(), zlnode.CreateActor{ID: "found", Type: "echo"}); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, found, err := n.FindActor(b.Context(), "found"); err != nil || !found {
				b.Fatal(found, err)
			}
		}
	})
}
