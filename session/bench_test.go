package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zlnode/zlnode/session"
)

// benchPackets are the shapes that a server sees most.
func benchPackets(b *testing.B) map[string]session.Packet {
	full := fullPacket(b)
	full.Payload = make([]byte, 64)
	return map[string]session.Packet{
		"send-64B":    {Kind: session.KindSend, Codec: session.CodecRaw, Name: []byte("move"), Payload: make([]byte, 64)},
		"send-1KiB":   {Kind: session.KindSend, Codec: session.CodecRaw, Name: []byte("move"), Payload: make([]byte, 1<<10)},
		"request-all": full,
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, p := range benchPackets(b) {
		frame := mustAppend(b, &p)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				if _, err := session.Decode(frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for name, p := range benchPackets(b) {
		dst := make([]byte, 0, session.Size(&p))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(session.Size(&p)))
			for b.Loop() {
				if _, err := session.Append(dst, &p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The most that a hostile metadata block can make a decoder work.
func BenchmarkDecodeHostileMetadata(b *testing.B) {
	frame := rawFrame(&session.Packet{Kind: session.KindSend, Name: []byte("x"), Meta: hostileMetadata()})
	b.ReportAllocs()
	b.SetBytes(int64(len(frame)))
	for b.Loop() {
		if _, err := session.Decode(frame); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInflatePayload(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			p := compressed(pickle(b, make([]byte, size)))
			dst := make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := session.InflatePayload(dst, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLivenessStep(b *testing.B) {
	l := session.NewLiveness(sessionStart, &session.LivenessTimes{Idle: session.DefaultIdle})
	now := sessionStart
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		l.Step(now, session.Event{Kind: session.EventInput})
	}
}

func BenchmarkCompressPayload(b *testing.B) {
	for _, size := range []int{256, 1 << 10, 16 << 10, 256 << 10} {
		plain := make([]byte, 0, size)
		for i := 0; len(plain) < size-40; i++ {
			plain = fmt.Appendf(plain, `{"id":%d,"x":%d,"y":%d},`, i, i*7%100, i*13%100)
		}
		plain = plain[:size]
		dst := make([]byte, size)
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if got, pays := session.CompressPayload(dst, plain); pays {
					b.ReportMetric(float64(len(got))/float64(size), "ratio")
				}
			}
		})
	}
}
