package chunker

import (
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// window is how many bytes a link keeps in flight so that its road is never idle and little
// waits on it: what waits there is what a message behind it waits for.
//
// The idea is that of TCP Vegas and FAST TCP. A road's shortest round trip is what it takes
// with nothing waiting; of the bytes that were in flight with a chunk whose acknowledgement
// took longer, the share of the time above the shortest waited. The window is the rest, which
// the road itself holds, and spare bytes that keep it busy: a chunk, or an eighth of what is
// in flight where the road holds so much that its jitter hides a chunk. One chunk at a time
// is such a probe.
//
// The shortest round trip is that of this half and the one before, so a road that got longer
// is known after two of them. Each half begins with a chunk that goes alone: else the spare
// bytes, which always wait, would be taken for the road, and more spared each time.
type window struct {
	bytes    int64
	probe    probe
	shortest [2]time.Duration // in this half and the one before; 0: not known
	ends     clock.Mono       // of this half
	drains   bool             // nothing is sent until nothing is in flight
	filled   bool             // bytes have waited: the window no longer doubles
}

// probe is a chunk whose acknowledgement is awaited.
type probe struct {
	out    *Outgoing // nil: none
	index  uint32
	sent   clock.Mono
	flight int64 // in flight with it
}

// tick begins a half when it is time.
func (w *window) tick(now clock.Mono) {
	if !now.Reached(w.ends) {
		return
	}
	w.shortest = [2]time.Duration{0, w.shortest[0]}
	w.ends, w.drains = now.Add(windowHalf), true
}

// room reports whether so many bytes may be in flight. With two chunks the source works
// while the target does.
func (w *window) room(bytes, chunkBytes int64) bool {
	return !w.drains && bytes <= max(w.bytes, 2*chunkBytes)
}

// watch makes a chunk that was sent the probe, unless there is one. The chunk is one that
// filled the window, or went alone.
func (w *window) watch(now clock.Mono, out *Outgoing, index uint32, flight int64) {
	if w.probe.out == nil {
		w.probe = probe{out, index, now, flight}
	}
}

// acked says that out's first chunks have come, received in number.
func (w *window) acked(now clock.Mono, out *Outgoing, received uint32) {
	p := w.probe
	if p.out != out || received <= p.index {
		return
	}
	w.probe = probe{}
	trip := max(now.Sub(p.sent), 1)
	if w.shortest[0] == 0 || trip < w.shortest[0] {
		w.shortest[0] = trip
	}
	chunkBytes := int64(out.manifest.ChunkBytes)
	if p.flight <= chunkBytes {
		return // it went alone, and tells of the road and not of what waits
	}
	least := w.shortest[0]
	if w.shortest[1] > 0 {
		least = min(least, w.shortest[1])
	}
	waited := int64(float64(p.flight) * float64(trip-least) / float64(trip))
	spare := max(chunkBytes, p.flight/8)
	if !w.filled && trip < least*7/4 && 2*p.flight > w.bytes {
		w.bytes = 2 * p.flight
		return
	}
	next := p.flight - waited + spare
	w.filled = !w.filled || next >= w.bytes/2 // else this one may be late by chance
	w.bytes = max(next, w.bytes/2)
}

// forget says that what is in flight of out will not be acknowledged.
func (w *window) forget(out *Outgoing) {
	if w.probe.out == out {
		w.probe = probe{}
	}
}
