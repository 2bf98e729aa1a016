package chunker

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/zlnode/zlnode/internal/buf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kindOf returns the kind of an *Error, 0 for any other result.
func kindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return 0
}

// noise returns n bytes that do not compress, the same at each call.
func noise(n int) []byte {
	p := make([]byte, n)
	c := rand.NewChaCha8([32]byte{1})
	_, _ = c.Read(p)
	return p
}

// text returns n bytes that do: words and numbers in no order.
func text(n int) []byte {
	words := [...]string{"player", "health", "position", "inventory", "gold", "quest", "room", "level"}
	r := rand.New(rand.NewPCG(1, 2))
	p := make([]byte, 0, n+20)
	for len(p) < n {
		p = append(p, words[r.IntN(len(words))]...)
		p = strconv.AppendInt(p, r.Int64N(1000), 10)
	}
	return p[:n]
}

// cut returns p in segments of the given lengths, in turn.
func cut(p []byte, lengths ...int) [][]byte {
	var out [][]byte
	for i := 0; len(p) > 0; i++ {
		n := min(lengths[i%len(lengths)], len(p))
		out, p = append(out, p[:n]), p[n:]
	}
	return out
}

// chunk returns the bytes and the checksum of chunk i.
func chunk(o *Outgoing, i uint32) (p []byte, crc uint32) {
	views, crc := o.AppendChunk(nil, i)
	for _, v := range views {
		p = append(p, v...)
	}
	return p, crc
}

// freed sees to it that what a test takes from the pools goes back.
func freed(t *testing.T) {
	t.Helper()
	before := buf.Live()
	t.Cleanup(func() {
		if now := buf.Live(); now != before {
			t.Errorf("%d buffers are in use, %d were before", now, before)
		}
	})
}

// target returns an Incoming for o.
func target(t testing.TB, o *Outgoing, l Limits) *Incoming {
	t.Helper()
	in, err := NewIncoming(o.Manifest(), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Free)
	return in
}
