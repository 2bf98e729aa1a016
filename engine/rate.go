package engine

import (
	"errors"

	"github.com/zlnode/zlnode/internal/clock"
)

// resolve returns a copy with the defaults filled in, or says what is wrong.
func (r Rate) resolve() (Rate, error) {
	if r.BytesPerSecond < 0 || r.BurstBytes < 0 || r.FramesPerSecond < 0 || r.BurstFrames < 0 {
		return r, errors.New("a Rate must not be negative")
	}
	setDefault(&r.BurstBytes, r.BytesPerSecond)
	setDefault(&r.BurstFrames, r.FramesPerSecond)
	return r, nil
}

// bucket is the token bucket of one connection. Loop only. Its level may fall
// below zero once: that is the excess which closes the connection.
type bucket struct {
	rate   *Rate
	bytes  float64
	frames float64
	at     clock.Mono // of the last refill
}

func newBucket(r *Rate, now clock.Mono) *bucket {
	return &bucket{rate: r, bytes: float64(r.BurstBytes), frames: float64(r.BurstFrames), at: now}
}

// takeBytes refills the bucket and reports whether it holds n bytes.
func (b *bucket) takeBytes(n int, now clock.Mono) bool {
	passed := now.Sub(b.at).Seconds()
	b.at = now
	b.bytes = min(float64(b.rate.BurstBytes), b.bytes+passed*float64(b.rate.BytesPerSecond))
	b.frames = min(float64(b.rate.BurstFrames), b.frames+passed*float64(b.rate.FramesPerSecond))
	b.bytes -= float64(n)
	return b.bytes >= 0 || b.rate.BytesPerSecond == 0
}

// takeFrame reports whether the bucket holds one more frame; takeBytes of the
// same read has refilled it.
func (b *bucket) takeFrame() bool {
	b.frames--
	return b.frames >= 0 || b.rate.FramesPerSecond == 0
}
