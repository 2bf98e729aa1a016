package buf

import (
	"bytes"
	"testing"

	"github.com/zlnode/zlnode/internal/invariant"
)

func TestGetHasTheAskedLength(t *testing.T) {
	before := Live()
	for _, n := range []int{0, 1, 128, 129, 64 << 10, PooledMax, PooledMax + 1} {
		b := Get(n)
		if len(b.Bytes()) != n || b.Cap() < n {
			t.Errorf("Get(%d): len %d cap %d", n, len(b.Bytes()), b.Cap())
		}
		for i := range b.Bytes() {
			b.Bytes()[i] = 0xaa // all of it is memory of its own
		}
		b.Free()
	}
	if Live() != before {
		t.Errorf("%d buffers live, %d before", Live(), before)
	}
}

func TestLastFreeEndsTheBuffer(t *testing.T) {
	b := Copy([]byte("abc"))
	b.Ref()
	b.Free()
	if !bytes.Equal(b.Bytes(), []byte("abc")) {
		t.Errorf("bytes changed while referenced: %q", b.Bytes())
	}
	view := b.Bytes()
	b.Free()
	if invariant.Enabled && view[0] != 0xff {
		t.Error("a freed buffer is not poisoned")
	}
	var none *Buf
	none.Free()
}

func TestFreeingTwicePanics(t *testing.T) {
	b := &Buf{data: make([]byte, 1), class: -1}
	b.refs.Store(1)
	if invariant.Enabled {
		live.Add(1) // made by hand, so not counted by Get
	}
	b.Free()
	defer func() {
		if recover() == nil {
			t.Error("second Free did not panic")
		}
	}()
	b.Free()
}

func BenchmarkGetFree(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Get(100).Free()
	}
}

// A large block that is filled at once, as who asks for one does.
func BenchmarkGetLarge(b *testing.B) {
	const size = 64 << 20
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		large := Get(size)
		for p := large.Bytes(); len(p) > 0; p = p[4<<10:] {
			p[0] = 1
		}
		large.Free()
	}
}
