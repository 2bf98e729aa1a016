package chunker

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/zlnode/zlnode/internal/buf"
)

// pass sends o and returns what arrives.
func pass(t testing.TB, o *Outgoing) ([]byte, *Incoming) {
	t.Helper()
	in := target(t, o, Limits{})
	transfer(t, o, in)
	got, err := in.Payload()
	if err != nil {
		t.Fatal(err)
	}
	again, err := in.Payload()
	if err != nil || len(got) > 0 && &again[0] != &got[0] {
		t.Errorf("a second look gives other memory, %v", err)
	}
	return got, in
}

func TestCompressedPayloadsArriveAsTheyWere(t *testing.T) {
	freed(t)
	goroutines := runtime.NumGoroutine()
	for _, how := range []Compression{S2, Zstd} {
		for _, size := range []int{compressMin, compressMin + 1, 300 << 10, 5 << 20} {
			want := text(size)
			o := NewOutgoing(cut(want, 100, 70000), 10<<10, how)
			m := o.Manifest()
			if m.Compression != how || m.Raw != uint64(size) || m.Total > m.Raw*3/4 {
				t.Errorf("%+v of %d bytes", m, size)
			}
			if now := runtime.NumGoroutine(); now > goroutines {
				t.Errorf("compression %d: %d goroutines, before %d", how, now, goroutines)
			}
			got, in := pass(t, o)
			if !bytes.Equal(got, want) {
				t.Errorf("compression %d, %d bytes: other bytes", how, size)
			}
			in.Free()
			clear(o.source.segments[0]) // the blocks are the Outgoing's own
		}
	}
}

func TestWhatDoesNotPayTravelsAsItIs(t *testing.T) {
	freed(t)
	begins := append(text(100<<10), noise(1<<20)...) // the samples pay, by the first one
	late := noise(1 << 20)                           // only the samples shrink
	for i := range sampleParts {
		from := (len(late) - samplePart) / (sampleParts - 1) * i
		clear(late[from : from+samplePart])
	}
	unseen := make([]byte, 1<<20) // all but the samples shrinks
	for i := range sampleParts {
		from := (len(unseen) - samplePart) / (sampleParts - 1) * i
		copy(unseen[from:], noise((i + 1) * samplePart)[i*samplePart:])
	}
	for name, p := range map[string][]byte{
		"small": text(compressMin - 1), "noise": noise(300 << 10), "begins": begins, "late": late, "unseen": unseen,
	} {
		for _, how := range []Compression{S2, Zstd} {
			o := NewOutgoing([][]byte{p}, ChunkBytes, how)
			m := o.Manifest()
			if m.Compression != None || m.Total != uint64(len(p)) || m.Raw != m.Total {
				t.Errorf("%s, compression %d: %+v", name, how, m)
			}
			if views, _ := o.AppendChunk(nil, 0); &views[0][0] != &p[0] {
				t.Errorf("%s: the bytes were copied", name)
			}
		}
	}
}

// claim returns an Incoming that has all of encoded, of which its manifest says that it
// inflates to raw bytes.
func claim(t testing.TB, encoded []byte, how Compression, raw int) *Incoming {
	t.Helper()
	o := NewOutgoing([][]byte{encoded}, ChunkBytes, None)
	m := o.Manifest()
	m.Compression, m.Raw = how, uint64(raw)
	in, err := NewIncoming(m, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Free)
	transfer(t, o, in)
	return in
}

// encoded returns p compressed.
func encoded(t testing.TB, p []byte, how Compression) []byte {
	t.Helper()
	var w bytes.Buffer
	enc := newEncoder(how)
	enc.Reset(&w)
	if _, err := enc.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

func TestAPayloadOfAnotherSizeThanClaimedIsRefused(t *testing.T) {
	freed(t)
	zeros := make([]byte, 8<<20) // a thousandth when compressed
	for _, how := range []Compression{S2, Zstd} {
		whole := encoded(t, zeros, how)
		broken := bytes.Clone(whole)
		broken[len(broken)/2] ^= 0x55
		for _, c := range []struct {
			name string
			p    []byte
			raw  int
		}{
			{"more", whole, len(zeros) - 1},
			{"much more", whole, 1 << 20},
			{"fewer", whole, len(zeros) + 1},
			{"cut short", whole[:len(whole)/2], len(zeros)},
			{"the end cut off", whole[:len(whole)-1], len(zeros)},
			{"broken", broken, len(zeros)},
			{"none of it", noise(1000), len(zeros)},
		} {
			in := claim(t, c.p, how, c.raw)
			got, err := in.Payload()
			if got != nil || kindOf(err) != KindInflate || errors.Unwrap(err) == nil || in.room.b != nil {
				t.Errorf("compression %d, %s: %d bytes, %v", how, c.name, len(got), err)
			}
			if again, err := in.Payload(); len(again) != 0 || kindOf(err) != KindInflate {
				t.Errorf("compression %d, %s: at a second look %d bytes, %v", how, c.name, len(again), err)
			}
		}
	}
}

// A terabyte that does not come would not fit into memory.
func TestAClaimToInflateTakesNoMemory(t *testing.T) {
	freed(t)
	for _, how := range []Compression{S2, Zstd} {
		if _, err := claim(t, encoded(t, make([]byte, 1<<20), how), how, 1<<40).Payload(); kindOf(err) != KindInflate {
			t.Errorf("compression %d: %v", how, err)
		}
	}
}

func TestAFrameWithAHugeWindowIsRefused(t *testing.T) {
	freed(t)
	var w bytes.Buffer
	enc, err := zstd.NewWriter(&w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(2*windowMax))
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 20<<20)
	if _, err := enc.Write(zeros); err != nil {
		t.Fatal(err)
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(t, w.Bytes(), Zstd, len(zeros)).Payload(); !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Errorf("%v", err)
	}
	w.Reset()
	blocks := s2.NewWriter(&w, s2.WriterConcurrency(1), s2.WriterBlockSize(4<<20))
	if _, err := blocks.Write(zeros); err != nil {
		t.Fatal(err)
	}
	if err := blocks.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(t, w.Bytes(), S2, len(zeros)).Payload(); kindOf(err) != KindInflate {
		t.Errorf("blocks of 4 MiB: %v", err)
	}
}

// Whatever the bytes are, they inflate to exactly what was claimed or are refused, and
// memory follows what they inflate to.
func FuzzInflate(f *testing.F) {
	for _, how := range []Compression{S2, Zstd} {
		for _, p := range [][]byte{text(3000), make([]byte, 300<<10), {}} {
			f.Add(encoded(f, p, how), uint8(how), uint32(len(p)))
		}
	}
	f.Fuzz(func(t *testing.T, p []byte, how uint8, raw uint32) {
		compression := S2 + Compression(how%2)
		raw %= 4 << 20
		if len(p) == 0 || int(raw) <= len(p) {
			return
		}
		before := buf.Live()
		in := claim(t, p, compression, int(raw))
		got, err := in.Payload()
		if err != nil && (got != nil || kindOf(err) != KindInflate) || err == nil && len(got) != int(raw) {
			t.Fatalf("%d bytes of %d, %v", len(got), raw, err)
		}
		in.Free()
		if buf.Live() != before {
			t.Fatal("memory was not given back")
		}
	})
}
