package chunker

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/zlnode/zlnode/internal/invariant"
)

// encoder is what the codecs' writers have in common. Both run on the caller's goroutine.
type encoder interface {
	io.WriteCloser
	Reset(w io.Writer)
}

func newEncoder(how Compression) encoder {
	if how == S2 {
		return s2.NewWriter(nil, s2.WriterConcurrency(1))
	}
	invariant.Check(how == Zstd, "chunker: compression %d", how)
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(windowBytes), zstd.WithLowerEncoderMem(true))
	invariant.Check(err == nil, "chunker: zstd: %v", err)
	return z
}

// compress returns src compressed in memory of its own, if that pays.
func compress(src *payload, how Compression) (payload, bool) {
	raw := src.size()
	if raw < compressMin {
		return payload{}, false
	}
	enc := newEncoder(how)
	var parts [][]byte
	for i := range sampleParts {
		from := (raw - samplePart) / (sampleParts - 1) * i
		parts = src.appendViews(parts, from, from+samplePart)
	}
	if _, ok := encode(enc, parts, sampleParts*samplePart); !ok {
		return payload{}, false
	}
	out, ok := encode(enc, src.segments, raw)
	return newPayload(out), ok
}

// encode compresses parts, of raw bytes in all, and gives up when it does not pay.
func encode(enc encoder, parts [][]byte, raw int) ([][]byte, bool) {
	w := &blocks{raw: raw}
	enc.Reset(w)
	for _, p := range parts {
		if _, err := enc.Write(p); err != nil {
			return nil, false
		}
	}
	if err := enc.Close(); err != nil {
		return nil, false
	}
	return w.list, true
}

var errNoGain = errors.New("chunker: compression does not pay")

// blocks collects bytes in blocks of ChunkBytes, so that they are never moved, as long as
// they are enough less than raw.
type blocks struct {
	raw, size int
	list      [][]byte
}

func (w *blocks) Write(p []byte) (int, error) {
	if w.size += len(p); !pays(w.size, w.raw) {
		return 0, errNoGain
	}
	n := len(p)
	for len(p) > 0 {
		last := len(w.list) - 1
		if last < 0 || len(w.list[last]) == cap(w.list[last]) {
			w.list = append(w.list, make([]byte, 0, min(ChunkBytes, w.raw)))
			last++
		}
		b := w.list[last]
		k := min(len(p), cap(b)-len(b))
		w.list[last] = append(b, p[:k]...)
		p = p[k:]
	}
	return n, nil
}

// inflate returns the raw bytes that encoded stands for. It never has more than it may by
// the rule of room, and none over raw: more, or fewer, bytes are an error.
func inflate(encoded []byte, how Compression, raw int) (room, error) {
	r := room{total: raw}
	src, done, err := newDecoder(encoded, how)
	if err != nil {
		return room{}, err
	}
	defer done()
	for r.used < raw {
		p := r.next(min(inflateStep, raw-r.used))
		if _, err := io.ReadFull(src, p); err != nil {
			r.free()
			return room{}, fmt.Errorf("fewer than %d bytes: %w", raw, err)
		}
		r.used += len(p)
	}
	switch n, err := io.ReadFull(src, make([]byte, 1)); {
	case n > 0:
		r.free()
		return room{}, fmt.Errorf("more than %d bytes", raw)
	case err != io.EOF:
		r.free()
		return room{}, err
	}
	return r, nil
}

func newDecoder(encoded []byte, how Compression) (src io.Reader, done func(), err error) {
	in := bytes.NewReader(encoded)
	if how == S2 {
		return s2.NewReader(in, s2.ReaderMaxBlockSize(windowBytes)), func() {}, nil
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(windowMax), zstd.WithDecodeBuffersBelow(0))
	if err != nil {
		return nil, nil, err
	}
	return z, z.Close, nil
}
