// Package buf is the module's one buffer type: pooled, reference-counted bytes.
//
// A Buf is shared by taking references, never by copying. Whoever holds a
// reference may read the bytes; only the holder of the sole reference may write
// them. The last Free returns the memory to its pool, after which no slice of
// it may be used: builds with the tag `invariants` overwrite it to show misuse.
package buf

import (
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/zlnode/zlnode/internal/invariant"
)

// Buf is a block of bytes with a reference count. Ref and Free are safe for
// concurrent use.
type Buf struct {
	data  []byte
	refs  atomic.Int32
	class int8 // index into pools; -1: plain memory, left to the collector
}

// The sizes of pooled blocks in bytes. A request gets the smallest that fits;
// larger ones are not pooled.
var sizes = [...]int{128, 512, 2 << 10, 8 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}

// PooledMax is the largest pooled block, in bytes.
const PooledMax = 4 << 20

var pools [len(sizes)]sync.Pool

// live counts blocks in use; kept only in builds with the tag `invariants`.
var live atomic.Int64

// Get returns a Buf of n bytes with one reference, which the caller must Free.
// The bytes are not cleared.
func Get(n int) *Buf {
	if invariant.Enabled {
		live.Add(1)
	}
	for c, size := range sizes {
		if n <= size {
			b, _ := pools[c].Get().(*Buf)
			if b == nil {
				b = &Buf{data: make([]byte, size), class: int8(c)}
			}
			b.data = b.data[:n]
			b.refs.Store(1)
			return b
		}
	}
	b := &Buf{data: uncleared(n), class: -1}
	b.refs.Store(1)
	return b
}

// uncleared returns n > 0 bytes that may hold what was in that memory before. Clearing a
// large block costs as much as filling it (BenchmarkGetLarge). strings.Builder is the
// runtime's one way to such memory; its bytes are plain memory that nothing else refers to
// once the Builder is gone.
func uncleared(n int) []byte {
	var b strings.Builder
	b.Grow(n)
	_ = b.WriteByte(0) // an empty string would not have to point into the memory
	return unsafe.Slice(unsafe.StringData(b.String()), n)
}

// Copy returns a new Buf that holds a copy of p.
func Copy(p []byte) *Buf {
	b := Get(len(p))
	copy(b.data, p)
	return b
}

// Bytes returns the block's bytes, valid until the caller's reference is freed.
func (b *Buf) Bytes() []byte { return b.data }

// View returns b as a string without a copy. It is valid as long as b is, and b must not
// change meanwhile: who keeps it longer clones it.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Cap returns the number of bytes that Resize can reach.
func (b *Buf) Cap() int { return cap(b.data) }

// Resize sets the length to n ≤ Cap. Only the holder of the sole reference may
// call it.
func (b *Buf) Resize(n int) { b.data = b.data[:n] }

// Ref adds a reference, to be freed on its own, and returns b.
func (b *Buf) Ref() *Buf {
	invariant.Check(b.refs.Add(1) > 1, "buf: reference taken of a freed buffer")
	return b
}

// Free gives one reference back. A nil Buf is allowed and does nothing.
func (b *Buf) Free() {
	if b == nil {
		return
	}
	n := b.refs.Add(-1)
	if n > 0 {
		return
	}
	invariant.Check(n == 0, "buf: freed more often than referenced")
	if invariant.Enabled {
		live.Add(-1)
		all := b.data[:cap(b.data)]
		all[0] = 0xff
		for n := 1; n < len(all); n *= 2 { // the race detector sees each copy as one write
			copy(all[n:], all[:n])
		}
	}
	if b.class >= 0 {
		pools[b.class].Put(b)
	}
}

// Live returns how many buffers are in use, in builds with the tag
// `invariants`; otherwise 0. Tests compare it before and after.
func Live() int64 { return live.Load() }
