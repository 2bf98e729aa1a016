package engine

import (
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

func TestBucketAllowsTheBurstAndThenTheRate(t *testing.T) {
	b := newBucket(&Rate{BytesPerSecond: 1000, BurstBytes: 500, FramesPerSecond: 10, BurstFrames: 2}, 0)
	if !b.takeBytes(500, 0) || !b.takeFrame() || !b.takeFrame() {
		t.Fatal("the burst was refused")
	}
	if b.takeFrame() {
		t.Fatal("a frame over the burst was let in")
	}
	now := clock.Mono(100 * time.Millisecond) // +100 bytes, +1 frame, which pays the debt
	if !b.takeBytes(100, now) || b.takeFrame() {
		t.Fatal("100 ms do not give 100 bytes and one frame")
	}
	if b.takeBytes(1, now) {
		t.Fatal("a byte over the rate was let in")
	}
	now = now.Add(time.Hour)
	if !b.takeBytes(500, now) || b.takeBytes(1, now) {
		t.Fatal("an hour of silence gives one burst, no more and no less")
	}
}

func TestBucketWithoutARateIsNoLimit(t *testing.T) {
	b := newBucket(&Rate{FramesPerSecond: 1, BurstFrames: 1}, 0)
	if !b.takeBytes(1<<30, 0) || !b.takeFrame() || b.takeFrame() {
		t.Error("bytes are limited, or frames are not")
	}
}

func TestRateBurstDefaultsToOneSecond(t *testing.T) {
	r, err := Rate{BytesPerSecond: 10, FramesPerSecond: 20}.resolve()
	if err != nil || r.BurstBytes != 10 || r.BurstFrames != 20 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := (Rate{BurstFrames: -1}).resolve(); err == nil {
		t.Error("a negative rate was taken")
	}
}
