package chunker

import (
	"fmt"
	"testing"

	"github.com/zlnode/zlnode/internal/clock"
)

const benchBytes = 64 << 20

// What a source does before the first chunk: the checksums of all of them.
func BenchmarkNewOutgoing(b *testing.B) {
	segments := [][]byte{noise(4 << 10), noise(benchBytes)}
	for _, chunkBytes := range []uint32{ChunkMin, EntryChunkBytes, ChunkBytes} {
		b.Run(fmt.Sprintf("64MiB/chunk=%d", chunkBytes), func(b *testing.B) {
			b.SetBytes(benchBytes)
			b.ReportAllocs()
			for b.Loop() {
				NewOutgoing(segments, chunkBytes, None)
			}
		})
	}
}

// A chunk at its source: whose turn it is, its views, its acknowledgement.
func BenchmarkChunkAtSource(b *testing.B) {
	for _, moves := range []int{1, 64} {
		b.Run(fmt.Sprintf("moves=%d", moves), func(b *testing.B) {
			p := NewPacer[*Outgoing](LinkBytes, new(Budget))
			for range moves {
				o := NewOutgoing([][]byte{make([]byte, 4<<10), make([]byte, 1<<20)}, EntryChunkBytes, None)
				p.Add(o, o)
			}
			views := make([][]byte, 0, 4)
			now := clock.Mono(0)
			b.ReportAllocs()
			for b.Loop() {
				o, i, ok := p.Next(now)
				if !ok {
					b.Fatal("nothing to send")
				}
				views, _ = o.AppendChunk(views[:0], i)
				p.Written()
				now++
				p.Acked(now, o, i+1)
				if o.Done() {
					o.Resume(0)
					p.Add(o, o)
				}
			}
		})
	}
}

// A payload at its target: memory, checksums, the copy of each chunk.
func BenchmarkIncoming(b *testing.B) {
	source := noise(benchBytes)
	for _, size := range []int{64 << 10, 1 << 20, benchBytes} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			o := NewOutgoing([][]byte{source[:size]}, ChunkBytes, None)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				in, err := NewIncoming(o.manifest, Limits{})
				if err != nil {
					b.Fatal(err)
				}
				for i, crc := range o.crcs {
					from := i * ChunkBytes
					if _, err := in.Add(uint32(i), crc, source[from:min(from+ChunkBytes, size)]); err != nil {
						b.Fatal(err)
					}
				}
				in.Free()
			}
		})
	}
}

func BenchmarkCombine(b *testing.B) {
	for b.Loop() {
		Combine(1, 2, ChunkBytes)
	}
}

// Text that shrinks to a quarter or so, and noise, of which a sample is enough.
func BenchmarkCompress(b *testing.B) {
	for name, p := range map[string][]byte{"text": text(8 << 20), "noise": noise(8 << 20)} {
		for _, how := range []Compression{S2, Zstd} {
			b.Run(fmt.Sprintf("%s/%d", name, how), func(b *testing.B) {
				b.SetBytes(int64(len(p)))
				b.ReportAllocs()
				var m Manifest
				for b.Loop() {
					m = NewOutgoing([][]byte{p}, ChunkBytes, how).manifest
				}
				b.ReportMetric(float64(m.Total)/float64(m.Raw), "of-raw")
			})
		}
	}
}

func BenchmarkInflate(b *testing.B) {
	p := text(8 << 20)
	for _, how := range []Compression{S2, Zstd} {
		b.Run(fmt.Sprint(how), func(b *testing.B) {
			enc := encoded(b, p, how)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := inflate(enc, how, len(p))
				if err != nil {
					b.Fatal(err)
				}
				r.free()
			}
		})
	}
}
