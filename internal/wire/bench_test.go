package wire

import (
	"fmt"
	"testing"

	"github.com/zlnode/zlnode/internal/invariant"
)

func benchMessage(payload int) *ActorMessage {
	return &ActorMessage{ID: []byte("player-42"), Op: 77, Correlation: 5, DeadlineMS: 30_000, Name: []byte("move"), Payload: make([]byte, payload)}
}

func TestEncodingAndDecodingDoNotAllocate(t *testing.T) {
	if invariant.Enabled {
		t.Skip("builds with the tag invariants decode what they encode")
	}
	long := "an-actor-id-that-does-not-fit-the-small-buffer-of-a-conversion-0123456789"
	dst := make([]byte, 0, 4096)
	payload := make([]byte, 64)
	f := func(what string, run func()) {
		t.Helper()
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	f("encode with string ids", func() {
		m := ActorMessage{ID: []byte(long), Op: 1, Correlation: 2, DeadlineMS: 3, Name: []byte(long), Payload: payload}
		dst = m.AppendTo(dst[:0])
	})
	f("decode", func() {
		_, _, body, err := Header(dst)
		m, err2 := DecodeActorRequest(0, body)
		if err != nil || err2 != nil || m.Correlation != 2 {
			t.Fatal(err, err2)
		}
	})
	f("encode push with string ids", func() {
		p := Push{Session: 1, BindingGen: 2, ID: []byte(long), ObjGen: 3, Name: []byte(long), Payload: payload}
		dst = p.AppendTo(dst[:0])
	})
	f("decode push", func() {
		if p, err := DecodePush(0, dst[HeaderSize:]); err != nil || p.Session != 1 {
			t.Fatal(err)
		}
	})
	f("encode relay with string ids", func() {
		c := Carried{Kind: CarriedSend, Origin: Process{RID: []byte(long[:MaxRID]), Lifecycle: 1}, Name: []byte(long), Payload: payload}
		r := Relay{Relocation: [16]byte{1}, Attempt: 2, Seq: 3, Message: c}
		dst = r.AppendTo(dst[:0])
	})
	f("decode relay", func() {
		if r, err := DecodeRelay(dst[HeaderSize:]); err != nil || r.Seq != 3 {
			t.Fatal(err)
		}
	})
	f("encode the head of a chunk", func() {
		c := StateChunk{Relocation: [16]byte{1}, Attempt: 2, Index: 3, CRC: 4}
		dst = c.AppendHead(dst[:0], MaxChunk)
	})
	state := moveStateSample()
	f("encode move state", func() { dst = state.AppendTo(dst[:0]) })
	f("decode move state", func() {
		if m, err := DecodeMoveState(dst); err != nil || m.Saved != state.Saved {
			t.Fatal(err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{64, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("actorRequest/payload=%d", n), func(b *testing.B) {
			m := benchMessage(n)
			dst := make([]byte, 0, m.Size())
			b.SetBytes(int64(m.Size()))
			b.ReportAllocs()
			for b.Loop() {
				dst = m.AppendTo(dst[:0])
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{64, 64 << 10} {
		b.Run(fmt.Sprintf("actorRequest/payload=%d", n), func(b *testing.B) {
			rec := benchMessage(n).AppendTo(nil)
			b.SetBytes(int64(len(rec)))
			b.ReportAllocs()
			for b.Loop() {
				size, err := RecordSize(rec, MaxRecord)
				if err != nil {
					b.Fatal(err)
				}
				_, _, body, err := Header(rec[:size])
				if err != nil {
					b.Fatal(err)
				}
				if m, err := DecodeActorRequest(0, body); err != nil || m.Op != 77 {
					b.Fatal(err)
				}
			}
		})
	}
}
