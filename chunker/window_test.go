package chunker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// road is a link of a simulated world: a bottleneck, a way, a target that works off one chunk
// at a time, and the way back. Times of its parts can change while it is under way.
type road struct {
	bytesPerSecond float64       // of the bottleneck
	delay          time.Duration // of the ways there and back together
	targetPerByte  float64       // seconds
	jitter         func() time.Duration

	now        clock.Mono
	pacer      *Pacer[*Outgoing]
	out        *Outgoing
	roadFree   clock.Mono
	targetFree clock.Mono
	acks       []clock.Mono // of the chunks in flight, in order

	acked int64 // bytes
}

func newRoad(bytesPerSecond float64, delay time.Duration) *road {
	return &road{
		bytesPerSecond: bytesPerSecond, delay: delay, jitter: func() time.Duration { return 0 },
		pacer: NewPacer[*Outgoing](LinkBytes, new(Budget)),
		// A payload that does not end, of no bytes: the Pacer looks at the manifest alone.
		out: &Outgoing{manifest: Manifest{Total: 1 << 44, ChunkBytes: ChunkBytes, Chunks: 1 << 26}},
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// runs lets the payload flow for d, and returns how many bytes a second came and what was in
// flight at most.
func (r *road) runs(d time.Duration) (bytesPerSecond float64, flight int64) {
	if !r.out.paced {
		r.pacer.Add(r.out, r.out)
	}
	until, before := r.now.Add(d), r.acked
	for {
		for {
			_, _, ok := r.pacer.Next(r.now)
			if !ok {
				break
			}
			r.pacer.Written()
			r.roadFree = max(r.roadFree, r.now).Add(seconds(ChunkBytes / r.bytesPerSecond))
			r.targetFree = max(r.targetFree, r.roadFree.Add(r.delay/2)).Add(seconds(ChunkBytes * r.targetPerByte))
			ack := r.targetFree.Add(r.delay/2 + r.jitter())
			if n := len(r.acks); n > 0 {
				ack = max(ack, r.acks[n-1]) // the link keeps their order
			}
			r.acks = append(r.acks, ack)
		}
		flight = max(flight, r.pacer.InFlight())
		if r.acks[0].Reached(until) && r.acks[0] != until {
			r.now = until
			return float64(r.acked-before) / d.Seconds(), flight
		}
		r.now, r.acks = r.acks[0], r.acks[1:]
		r.acked += ChunkBytes
		r.pacer.Acked(r.now, r.out, r.out.acked+1)
	}
}

// fills fails the test unless nine tenths of the road are used.
func (r *road) fills(t *testing.T, d time.Duration) {
	t.Helper()
	rate, flight := r.runs(d)
	if rate < 0.9*r.bytesPerSecond {
		t.Errorf("%.1f MB/s of a road for %.1f came, with %d chunks in flight at most", rate/1e6, r.bytesPerSecond/1e6, flight/ChunkBytes)
	}
}

// waits fails the test if more than two chunks, or an eighth of what is in flight and one, wait
// for the target or the bottleneck.
func (r *road) waits(t *testing.T, d time.Duration) {
	t.Helper()
	rate := r.bytesPerSecond
	if r.targetPerByte > 0 {
		rate = min(rate, 1/r.targetPerByte)
	}
	_, flight := r.runs(d)
	holds := rate * (r.delay.Seconds() + ChunkBytes*(1/r.bytesPerSecond+r.targetPerByte))
	if wait := (float64(flight) - holds) / ChunkBytes; wait > max(2, float64(flight)/ChunkBytes/8+1) {
		t.Errorf("%.1f chunks wait on a road that holds %.1f", wait, holds/ChunkBytes)
	}
}

// 12 MB are on their way.
func TestALongRoadIsFilledWithinTenRoundTrips(t *testing.T) {
	r := newRoad(120e6, 100*time.Millisecond)
	r.runs(10 * r.delay)
	r.fills(t, 30*time.Second)
	r.waits(t, 5*time.Second)
}

// An eighth of what is in flight may wait where the road's round trips differ by as much.
func TestALongRoadWithJitterIsFilled(t *testing.T) {
	r := newRoad(100e6, 100*time.Millisecond)
	rng := rand.New(rand.NewPCG(1, 1))
	r.jitter = func() time.Duration { return time.Duration(rng.Int64N(int64(10 * time.Millisecond))) }
	r.runs(2 * time.Second)
	r.fills(t, 30*time.Second)
}

// What waits for a target that is slower than the road is what a message waits for.
func TestAChunkOrTwoWaitForASlowTarget(t *testing.T) {
	for _, delay := range []time.Duration{20 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		r := newRoad(4e9, delay)
		r.targetPerByte = 1 / 500e6
		r.runs(time.Second)
		r.waits(t, 4*time.Second)
		if rate, _ := r.runs(20 * time.Second); rate < 0.9*500e6 {
			t.Errorf("%v: the target got %.1f MB/s", delay, rate/1e6)
		}
	}
}

func TestATargetThatGetsSlowIsSoonWaitedForByAChunkOrTwo(t *testing.T) {
	r := newRoad(1e9, 5*time.Millisecond)
	r.fills(t, 2*time.Second)
	r.targetPerByte = 1 / 100e6
	r.runs(500 * time.Millisecond)
	r.waits(t, time.Second)
}

// The spare bytes, which always wait, are no part of the road, however long the payload is.
func TestWhatWaitsIsNotTakenForTheRoad(t *testing.T) {
	r := newRoad(500e6, time.Millisecond)
	r.runs(5 * time.Minute)
	r.waits(t, 20*time.Second)
}

func TestARoadThatGetsLongerIsFilledAgain(t *testing.T) {
	r := newRoad(50e6, 20*time.Millisecond)
	r.fills(t, 3*time.Second)
	r.delay = 100 * time.Millisecond
	r.runs(3 * windowHalf)
	r.fills(t, 10*time.Second)
}

func TestARoadThatGetsShorterKeepsLittleWaiting(t *testing.T) {
	r := newRoad(50e6, 100*time.Millisecond)
	r.fills(t, 12*time.Second)
	r.delay = 20 * time.Millisecond
	r.runs(windowHalf)
	r.waits(t, 3*time.Second)
}

// An acknowledgement that is late by chance costs a few round trips of less.
func TestOneLateAcknowledgementIsSoonMadeUpFor(t *testing.T) {
	r := newRoad(100e6, 100*time.Millisecond)
	r.runs(2 * time.Second)
	late := 300 * time.Millisecond
	r.jitter = func() time.Duration {
		d := late
		late = 0
		return d
	}
	r.runs(late + 5*r.delay)
	r.fills(t, time.Second)
}

// Many small moves, one after the other, do not narrow the window of a large one.
func TestAChunkThatGoesAloneTellsNothingOfWhatWaits(t *testing.T) {
	l := newLink(0, new(Budget))
	before := l.window.bytes
	for i := range 10 {
		a := chunks(1)
		l.Add("a", a)
		l.Next()
		l.Written()
		*l.now = l.now.Add(time.Duration(1+i%2) * time.Millisecond)
		l.Acked(a, 1)
	}
	if l.window.bytes != before {
		t.Errorf("the window is %d bytes", l.window.bytes)
	}
}

// Of a link that was lost, and of a payload that was taken away, no probe is awaited.
func TestAProbeThatWillNotComeIsForgotten(t *testing.T) {
	l := newLink(0, new(Budget))
	a, b := chunks(4), chunks(4)
	l.Add("a", a)
	l.Next()
	l.Written()
	l.Remove(a)
	*l.now = 1e9
	l.Add("b", b)
	l.Next()
	*l.now += 1e6
	l.Acked(b, 1)
	if l.window.shortest[0] != time.Millisecond {
		t.Errorf("the road takes %v", l.window.shortest[0])
	}
}
