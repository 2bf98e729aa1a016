package chunker

import (
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/invariant"
)

// Incoming puts a payload together, in one run of memory. Chunks come in order, as a link
// and a Pacer keep it; one that comes again after a new link is ignored.
//
// Nothing is allocated before the first chunk, and never more than 64 times what has come,
// the chunk under way included (or 4 MiB): a manifest that claims ten gigabytes costs
// nothing. As the memory grows, what has come is moved to its new place, a sixtieth of the
// payload in all at most.
//
// After an error the Incoming has no bytes any more and takes none. It has one owner and
// is not safe for concurrent use.
type Incoming struct {
	manifest Manifest
	room     room
	received uint32
	whole    wholeCRC
	claimed  []byte // place of the next chunk while it is being written
	err      error  // sticky
	inflated bool
	freed    bool
}

// NewIncoming returns an Incoming for the payload of m, unless Check refuses it.
func NewIncoming(m Manifest, l Limits) (*Incoming, error) {
	if err := m.Check(l); err != nil {
		return nil, err
	}
	in := &Incoming{manifest: m, room: room{total: int(m.Total)}}
	in.whole.manifest = &in.manifest
	return in, nil
}

// Add takes chunk index with its checksum and copies p, which is the caller's again when
// Add returns. It reports false for a chunk that it had before. The error is an *Error
// with KindBeyond, KindGap, KindSize, KindChunkCRC or, of the last chunk, KindWholeCRC;
// it is what each further call returns.
func (in *Incoming) Add(index, crc uint32, p []byte) (fresh bool, err error) {
	place, err := in.Claim(index, len(p))
	if place == nil {
		return false, err
	}
	copy(place, p)
	if err := in.Commit(crc); err != nil {
		return false, err
	}
	return true, nil
}

// Claim is the first half of Add for a caller that can read chunk index, of n bytes,
// straight into its place, which it must write whole before Commit. A claim without Commit,
// such as of a chunk that its link cut short, is no chunk: the next Claim gives the same
// place. Of a chunk that was there before there is no place, and no error.
func (in *Incoming) Claim(index uint32, n int) (place []byte, err error) {
	invariant.Check(!in.freed, "chunker: a chunk for a payload that was freed")
	in.claimed = nil
	switch {
	case in.err != nil:
		return nil, in.err
	case index >= in.manifest.Chunks:
		return nil, in.fail(refuse(KindBeyond))
	case index < in.received:
		return nil, nil
	case index > in.received:
		return nil, in.fail(refuse(KindGap))
	case n != in.manifest.size(index):
		return nil, in.fail(refuse(KindSize))
	}
	in.claimed = in.room.next(n)
	return in.claimed, nil
}

// Commit is the second half: the claimed chunk is there and has this checksum.
func (in *Incoming) Commit(crc uint32) error {
	invariant.Check(in.claimed != nil, "chunker: commit without a claim")
	if CRC(in.claimed) != crc {
		return in.fail(refuse(KindChunkCRC))
	}
	in.whole.add(in.received, crc)
	if in.received+1 == in.manifest.Chunks && in.whole.crc != in.manifest.CRC {
		return in.fail(refuse(KindWholeCRC))
	}
	in.room.used += len(in.claimed)
	in.received++
	in.claimed = nil
	return nil
}

// Received returns how many chunks have come: the progress to tell the source.
func (in *Incoming) Received() uint32 { return in.received }

// Done reports whether all have come, with the manifest's checksum.
func (in *Incoming) Done() bool { return in.err == nil && in.received == in.manifest.Chunks }

// Payload returns the payload, inflated, which takes its time at the first call. Only
// when Done. The bytes are valid, and the caller's to change, until Free. The error is an
// *Error with KindInflate.
func (in *Incoming) Payload() ([]byte, error) {
	invariant.Check(!in.freed && (in.inflated || in.Done()), "chunker: payload read before it is whole, or after it was freed")
	if in.inflated || in.manifest.Compression == None {
		return in.room.bytes(), in.err
	}
	in.inflated = true
	raw, err := inflate(in.room.bytes(), in.manifest.Compression, int(in.manifest.Raw))
	if err != nil {
		return nil, in.fail(&Error{Kind: KindInflate, Err: err})
	}
	in.room.free()
	in.room = raw
	return in.room.bytes(), nil
}

// Free gives the memory back. It may be called more than once.
func (in *Incoming) Free() {
	in.freed, in.claimed = true, nil
	in.room.free()
}

func (in *Incoming) fail(err error) error {
	in.err, in.claimed = err, nil
	in.room.free()
	return err
}

// room is a run of memory for total bytes that grows as they come.
type room struct {
	b     *buf.Buf
	used  int
	total int
}

// next returns the place of the next n bytes. They are there when used says so.
func (r *room) next(n int) []byte {
	if need := r.used + n; r.b == nil || need > len(r.b.Bytes()) {
		larger := buf.Get(roomSize(r.total, need))
		copy(larger.Bytes(), r.bytes())
		r.b.Free()
		r.b = larger
	}
	return r.b.Bytes()[r.used:][:n:n]
}

// roomSize returns how much memory need bytes of total get: total, divided by roomGrowth as
// often as they still fit. So the last sizes are the large ones, and few bytes are moved.
func roomSize(total, need int) int {
	size := total
	for size > roomStart && (size-1)/roomGrowth+1 >= need {
		size = (size-1)/roomGrowth + 1
	}
	return size
}

// bytes returns what has come; of a room of no bytes an empty slice, not nil.
func (r *room) bytes() []byte {
	if r.b == nil {
		return []byte{}
	}
	return r.b.Bytes()[:r.used:r.used]
}

func (r *room) free() {
	r.b.Free()
	r.b, r.used = nil, 0
}
