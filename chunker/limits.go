package chunker

import (
	"time"

	"github.com/zlnode/zlnode/internal/buf"
)

// Sizes in bytes.
const (
	// ChunkMin is the smallest size of a chunk, and so the smallest limit that a target
	// may tell: below it the records cost more than their bytes.
	ChunkMin = 1 << 10
	// ChunkMax is the largest: a chunk delays what is behind it on its link.
	ChunkMax = 1 << 20
	// ChunkBytes is what a target takes by default.
	ChunkBytes = 256 << 10
	// EntryChunkBytes is what a source sends to an Entry Spot, whose node has told no
	// limit because it was not asked.
	EntryChunkBytes = 32 << 10
	// LinkBytes is the default of what one link may have in flight.
	LinkBytes = 16 << 20

	// windowHalf is how long a round trip counts, and as long again, as one that the road
	// may take.
	windowHalf = 5 * time.Second

	// roomStart is how much memory a payload may get for its first bytes.
	roomStart = buf.PooledMax
	// roomGrowth is how many times what has come a payload's memory may be.
	roomGrowth = 64

	// compressMin is the smallest payload that is compressed: one that passes as a chunk
	// or two gains nothing.
	compressMin = 64 << 10
	// sampleParts and samplePart are how many pieces of a payload are compressed to see
	// whether it pays, and how large each is.
	sampleParts, samplePart = 4, 16 << 10
	// windowMax bounds how far back a compressed payload may refer, and with it the
	// memory that inflating takes beside the payload.
	windowMax = 8 << 20
	// windowBytes is how far back this package's own encoders refer.
	windowBytes = 1 << 20
	// inflateStep is how much is inflated at a time: what does not come gets no memory.
	inflateStep = 256 << 10
)

// pays reports whether size is enough less than raw to be worth inflating.
func pays(size, raw int) bool { return size <= raw-raw/8 }

// Limits are what a target takes.
type Limits struct {
	// ChunkBytes is the largest chunk, as it was told to the source; 0 = ChunkBytes. Of an
	// attempt it never gets smaller.
	ChunkBytes uint32
	// Bytes is the largest payload, inflated; 0 = no limit but what memory can address.
	Bytes uint64
}
