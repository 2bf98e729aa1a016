package chunker

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/zlnode/zlnode/internal/buf"
)

func TestAManifestThatContradictsItselfIsRefused(t *testing.T) {
	good := Manifest{Total: 5000, Raw: 5000, ChunkBytes: 2048, Chunks: 3, CRC: 7}
	for _, c := range []struct {
		name   string
		change func(*Manifest, *Limits)
		want   Kind
	}{
		{"as it is", func(*Manifest, *Limits) {}, 0},
		{"chunks of nothing", func(m *Manifest, _ *Limits) { m.ChunkBytes = 0 }, KindChunkBytes},
		{"chunks too small", func(m *Manifest, _ *Limits) { m.ChunkBytes = ChunkMin - 1 }, KindChunkBytes},
		{"chunks over the default", func(m *Manifest, _ *Limits) { m.ChunkBytes, m.Chunks = ChunkBytes+1, 1 }, KindChunkBytes},
		{"chunks over what was told", func(_ *Manifest, l *Limits) { l.ChunkBytes = 2047 }, KindChunkBytes},
		{"chunks as large as was told", func(_ *Manifest, l *Limits) { l.ChunkBytes = 2048 }, 0},
		{"unknown compression", func(m *Manifest, _ *Limits) { m.Compression = Zstd + 1 }, KindCompression},
		{"payload over the limit", func(_ *Manifest, l *Limits) { l.Bytes = 4999 }, KindTooLarge},
		{"payload at the limit", func(_ *Manifest, l *Limits) { l.Bytes = 5000 }, 0},
		{"inflates over the limit", func(m *Manifest, l *Limits) { m.Compression, m.Raw, l.Bytes = S2, 6001, 6000 }, KindTooLarge},
		{"more than memory", func(m *Manifest, l *Limits) { m.Total, m.Raw, l.Bytes = math.MaxUint64, math.MaxUint64, math.MaxUint64 }, KindTooLarge},
		{"total that wraps round", func(m *Manifest, _ *Limits) { m.Compression, m.Total, m.Raw = S2, math.MaxUint64-2047, 9999 }, KindRaw},
		{"plain, of two sizes", func(m *Manifest, _ *Limits) { m.Raw++ }, KindRaw},
		{"inflates to no more", func(m *Manifest, _ *Limits) { m.Compression = Zstd }, KindRaw},
		{"inflates", func(m *Manifest, _ *Limits) { m.Compression, m.Raw = Zstd, 5001 }, 0},
		{"inflates out of nothing", func(m *Manifest, _ *Limits) { *m = Manifest{Raw: 9, ChunkBytes: 2048, Compression: S2} }, KindRaw},
		{"a chunk too few", func(m *Manifest, _ *Limits) { m.Chunks-- }, KindChunks},
		{"a chunk too many", func(m *Manifest, _ *Limits) { m.Chunks++ }, KindChunks},
		{"more chunks than can be counted", func(m *Manifest, _ *Limits) { m.Total, m.Raw, m.Chunks = 1<<43, 1<<43, 0 }, KindChunks},
		{"nothing", func(m *Manifest, _ *Limits) { *m = Manifest{ChunkBytes: 2048} }, 0},
		{"nothing with a checksum", func(m *Manifest, _ *Limits) { *m = Manifest{ChunkBytes: 2048, CRC: 1} }, KindWholeCRC},
	} {
		m, l := good, Limits{}
		c.change(&m, &l)
		if err := m.Check(l); kindOf(err) != c.want || (err == nil) != (c.want == 0) {
			t.Errorf("%s: %v, want kind %d", c.name, err, c.want)
		}
		if in, err := NewIncoming(m, l); (in == nil) != (c.want != 0) || kindOf(err) != c.want {
			t.Errorf("%s: NewIncoming gave %v, %v", c.name, in, err)
		}
	}
}

func TestAClaimTakesNoMemory(t *testing.T) {
	freed(t)
	in, err := NewIncoming(Manifest{Total: 10 << 40, Raw: 10 << 40, ChunkBytes: 256 << 10, Chunks: 10 << 22, CRC: 1}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 256<<10)
	if in.room.b != nil {
		t.Errorf("%d bytes before anything came", len(in.room.b.Bytes()))
	}
	for i := range uint32(20) {
		if _, err := in.Add(i, CRC(p), p); err != nil {
			t.Fatal(err)
		}
		if have := len(in.room.b.Bytes()); have > roomGrowth*in.room.used && have > roomStart {
			t.Errorf("%d bytes for %d that came", have, in.room.used)
		}
	}
	in.Free()
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	seen := make(map[string]Kind)
	for k := Kind(1); k < kindEnd; k++ {
		text := refuse(k).Error()
		if other, twice := seen[text]; twice || !strings.HasPrefix(text, "chunker: ") || len(text) < 20 {
			t.Errorf("kind %d: %q (as kind %d)", k, text, other)
		}
		seen[text] = k
	}
	if got := kindEnd.String(); got != "kind 12" {
		t.Errorf("unknown kind: %q", got)
	}
	cause := errors.New("corrupt input")
	err := error(&Error{Kind: KindInflate, Err: cause})
	if !errors.Is(err, cause) || !strings.HasSuffix(err.Error(), ": corrupt input") {
		t.Errorf("%v", err)
	}
}

// Whatever a manifest says, it is refused, or its chunks add up, and it costs nothing.
func FuzzManifest(f *testing.F) {
	f.Add(uint64(5000), uint64(5000), uint32(2048), uint32(3), uint32(7), uint8(0), uint32(0), uint64(0))
	f.Add(uint64(1<<63-1), uint64(1<<63-1), uint32(1<<20), uint32(1<<31), uint32(7), uint8(0), uint32(1<<20), uint64(0))
	f.Add(uint64(100), uint64(1<<40), uint32(1<<10), uint32(1), uint32(0), uint8(2), uint32(1<<10), uint64(1<<40))
	f.Add(uint64(0), uint64(0), uint32(1<<10), uint32(0), uint32(0), uint8(1), uint32(0), uint64(0))
	f.Fuzz(func(t *testing.T, total, raw uint64, chunkBytes, chunks, crc uint32, how uint8, limitChunk uint32, limit uint64) {
		m := Manifest{Total: total, Raw: raw, ChunkBytes: chunkBytes, Chunks: chunks, CRC: crc, Compression: Compression(how)}
		l := Limits{ChunkBytes: limitChunk, Bytes: limit}
		before := buf.Live()
		in, err := NewIncoming(m, l)
		if (err == nil) != (in != nil) || err != nil && kindOf(err) == 0 {
			t.Fatalf("%v, %v", in, err)
		}
		if err != nil {
			return
		}
		if m.Total > m.Raw || limit > 0 && m.Raw > limit || m.Raw > math.MaxInt {
			t.Fatalf("%+v within %+v", m, l)
		}
		sum := uint64(0)
		if m.Chunks > 0 {
			last := m.size(m.Chunks - 1)
			if last < 1 || m.size(0) > int(m.ChunkBytes) {
				t.Fatalf("%+v: the last chunk has %d bytes", m, last)
			}
			sum = uint64(m.Chunks-1)*uint64(m.ChunkBytes) + uint64(last)
		}
		if sum != m.Total {
			t.Fatalf("%+v: the chunks have %d bytes", m, sum)
		}
		if _, err := in.Add(m.Chunks, 0, nil); kindOf(err) != KindBeyond {
			t.Fatalf("a chunk more: %v", err)
		}
		if in.room.b != nil || buf.Live() != before {
			t.Fatal("memory was taken")
		}
	})
}
