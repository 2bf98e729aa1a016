package chunker

import (
	"hash/crc32"
	"math"

	"github.com/zlnode/zlnode/internal/invariant"
)

// Outgoing is a payload on its way from a source, and how far it has come.
//
// The bytes are never copied: chunks are views of the segments that NewOutgoing got (or,
// if the payload was compressed, of blocks that belong to the Outgoing). Segments must
// not change, and must not be reused, before the target has all or the move has ended,
// and the last view has been written. Chunks that were lost are cut from them again.
//
// Manifest and AppendChunk read what never changes and may be called on any goroutine. How
// far the payload has come belongs to the Pacer that the Outgoing is in, and to that
// one's lock; else to the caller of Resume.
type Outgoing struct {
	manifest Manifest
	source   payload
	crcs     []uint32 // of each chunk

	// The window: chunks below acked have arrived, those below next are sent.
	acked, next uint32
	paced       bool // it is in a Pacer
	lost        bool // its link was lost: Resume comes before the next Pacer
}

// NewOutgoing returns an Outgoing of the bytes of segments, one behind the other, in
// chunks of chunkBytes, from ChunkMin to ChunkMax. With a compression it compresses
// them, if they are 64 KiB at least, if a sample of 64 KiB shrinks by an eighth and if
// all of it does; otherwise they travel as they are.
//
// It reads all bytes once for their checksum, and once more to compress, so a large
// payload takes its time here and not later.
func NewOutgoing(segments [][]byte, chunkBytes uint32, how Compression) *Outgoing {
	invariant.Check(chunkBytes >= ChunkMin && chunkBytes <= ChunkMax, "chunker: chunks of %d bytes", chunkBytes)
	o := &Outgoing{source: newPayload(segments)}
	o.manifest = Manifest{Raw: uint64(o.source.size()), ChunkBytes: chunkBytes}
	if how != None {
		if encoded, ok := compress(&o.source, how); ok {
			o.source, o.manifest.Compression = encoded, how
		}
	}
	o.manifest.Total = uint64(o.source.size())
	chunks := count(o.manifest.Total, chunkBytes)
	invariant.Check(chunks <= math.MaxUint32, "chunker: %d chunks", chunks)
	o.manifest.Chunks = uint32(chunks)
	o.sum()
	return o
}

// sum computes the checksums.
func (o *Outgoing) sum() {
	m := &o.manifest
	o.crcs = make([]uint32, m.Chunks)
	whole := wholeCRC{manifest: m}
	var views [][]byte
	for i := range o.crcs {
		var crc uint32
		views = o.views(views[:0], uint32(i))
		for _, v := range views {
			crc = crc32.Update(crc, castagnoli, v)
		}
		o.crcs[i] = crc
		whole.add(uint32(i), crc)
	}
	m.CRC = whole.crc
}

// Manifest returns the payload's description.
func (o *Outgoing) Manifest() Manifest { return o.manifest }

// AppendChunk appends views of chunk i to dst and returns it with the chunk's CRC-32C. It
// allocates only if dst has no room for as many views as the chunk touches segments. The
// views are valid as long as the segments are; nobody may write to them.
func (o *Outgoing) AppendChunk(dst [][]byte, i uint32) (views [][]byte, crc uint32) {
	invariant.Check(i < o.manifest.Chunks, "chunker: chunk %d of %d", i, o.manifest.Chunks)
	return o.views(dst, i), o.crcs[i]
}

func (o *Outgoing) views(dst [][]byte, i uint32) [][]byte {
	from := int(i) * int(o.manifest.ChunkBytes)
	return o.source.appendViews(dst, from, from+o.manifest.size(i))
}

// Resume sets the window back to the chunks that the target has: those from received on
// are sent again. It reports false, and changes nothing, if there are not as many chunks.
// The Outgoing must be in no Pacer.
func (o *Outgoing) Resume(received uint32) bool {
	invariant.Check(!o.paced, "chunker: resumed while in a pacer")
	if received > o.manifest.Chunks {
		return false
	}
	o.acked, o.next, o.lost = received, received, false
	return true
}

// Acked returns how many chunks the target has.
func (o *Outgoing) Acked() uint32 { return o.acked }

// Done reports whether the target has all chunks.
func (o *Outgoing) Done() bool { return o.acked == o.manifest.Chunks }

// sent reports whether all chunks are sent.
func (o *Outgoing) sent() bool { return o.next == o.manifest.Chunks }

// inFlight returns how many bytes are sent and not acknowledged.
func (o *Outgoing) inFlight() int64 { return o.between(o.acked, o.next) }

// between returns how many bytes the chunks from one to before another have.
func (o *Outgoing) between(from, to uint32) int64 {
	end := min(uint64(to)*uint64(o.manifest.ChunkBytes), o.manifest.Total)
	start := min(uint64(from)*uint64(o.manifest.ChunkBytes), o.manifest.Total)
	return int64(end - start)
}

// wholeCRC combines the checksums of a payload's chunks in their order.
type wholeCRC struct {
	manifest *Manifest
	crc      uint32
	step     uint32 // what a chunk of ChunkBytes multiplies by; 0: not known yet
}

func (w *wholeCRC) add(i, crc uint32) {
	if i+1 == w.manifest.Chunks {
		w.crc = Combine(w.crc, crc, uint64(w.manifest.size(i)))
		return
	}
	if w.step == 0 {
		w.step = shift(uint64(w.manifest.ChunkBytes))
	}
	w.crc = multiply(w.step, w.crc) ^ crc
}
