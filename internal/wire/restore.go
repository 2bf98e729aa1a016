package wire

import "slices"

// Manifest says what the chunks of a move amount to. Wire checks each field; whether they
// fit each other is the receiver's business.
type Manifest struct {
	Total       uint64 // bytes in all chunks, ≥ 1
	Raw         uint64 // what they are when they are not compressed, ≥ 1
	ChunkBytes  uint32 // in every chunk but the last, MinChunk–MaxChunk
	Chunks      uint32 // ≥ 1
	CRC         uint32 // CRC-32C of all chunks in a row
	Compression uint8  // 0 none, 1 S2, 2 zstd
}

const manifestSize = 8 + 8 + 4 + 4 + 4 + 1

func (m *Manifest) appendTo(dst []byte) []byte {
	dst = appendU64(dst, m.Total)
	dst = appendU64(dst, m.Raw)
	dst = appendU32(dst, m.ChunkBytes)
	dst = appendU32(dst, m.Chunks)
	dst = appendU32(dst, m.CRC)
	return append(dst, m.Compression)
}

func (d *decoder) manifest() (m Manifest) {
	m.Total = d.nonZero("manifest.total")
	m.Raw = d.nonZero("manifest.raw")
	m.ChunkBytes = d.chunkBytes("manifest.chunkBytes")
	if m.Chunks = d.u32("manifest.chunks"); m.Chunks == 0 {
		d.fail("manifest.chunks", ErrEmpty)
	}
	m.CRC = d.u32("manifest.crc")
	m.Compression = d.u8max("manifest.compression", MaxCompression)
	return m
}

// chunkBytes reads the size of a chunk.
func (d *decoder) chunkBytes(field string) uint32 {
	v := d.u32(field)
	if v < MinChunk || v > MaxChunk {
		d.fail(field, ErrValue)
	}
	return v
}

// Restore begins the transfer of an object: chunks follow on the same link. The target
// takes the fence of its commit from here and nowhere else. The answer is an empty Reply
// when the object is restored and may be relayed to, or an error.
type Restore struct {
	Correlation   uint64   // not 0
	Relocation    [16]byte // not zero
	Attempt       uint32   // ≥ 1
	Unit          Unit
	Op            [16]byte // OperationId of the Join or of the relocation, not zero
	Ref           Ref      // the object at the sender
	StoreVersion  uint64   // of the row when the move was reserved, ≥ 1
	Epoch         uint64   // of the Store, ≥ 1
	SpotID        []byte   // the Actor's Spot; of a Spot empty
	TargetSpotID  []byte   // the Actor's Spot after the move; of a Spot empty
	InUserSpot    bool     // FlagInUserSpot: that is a User Spot, not the Entry Spot
	SourceOwnerID []byte   // of the sender's process in the Store: like an RID
	SourceLease   uint64   // lease generation of that process, ≥ 1
	DeadlineMS    uint32   // what is left of the Join or the relocation, ≥ 1
	Root          [32]byte // of UnitWide's inventory, not zero; of others not encoded
	Manifest      Manifest
}

// Size returns the size of the record.
func (r *Restore) Size() int {
	size := HeaderSize + 8 + 16 + 4 + 1 + 16 + r.Ref.size() + 8 + 8 + 1 + len(r.SpotID) + 1 + len(r.TargetSpotID) +
		1 + len(r.SourceOwnerID) + 8 + 4 + manifestSize
	if r.Unit == UnitWide {
		size += len(r.Root)
	}
	return size
}

// AppendTo appends the record to dst.
func (r *Restore) AppendTo(dst []byte) []byte {
	size, flags := r.Size(), uint8(0)
	if r.InUserSpot {
		flags = FlagInUserSpot
	}
	dst = begin(dst, size, CmdRestore, flags)
	dst = appendU64(dst, r.Correlation)
	dst = appendAttempt(dst, &r.Relocation, r.Attempt)
	dst = append(dst, byte(r.Unit))
	dst = append(dst, r.Op[:]...)
	dst = r.Ref.appendTo(dst)
	dst = appendU64(dst, r.StoreVersion)
	dst = appendU64(dst, r.Epoch)
	dst = appendS8(dst, r.SpotID)
	dst = appendS8(dst, r.TargetSpotID)
	dst = appendS8(dst, r.SourceOwnerID)
	dst = appendU64(dst, r.SourceLease)
	dst = appendU32(dst, r.DeadlineMS)
	if r.Unit == UnitWide {
		dst = append(dst, r.Root[:]...)
	}
	return end(r.Manifest.appendTo(dst), size)
}

// DecodeRestore reads the body of a CmdRestore with its flags.
func DecodeRestore(flags uint8, body []byte) (r Restore, err error) {
	d := decoder{b: body, cmd: CmdRestore}
	r.InUserSpot = flags&FlagInUserSpot != 0
	r.Correlation = d.nonZero("correlation")
	r.Relocation, r.Attempt = d.attempt()
	r.Unit = d.unit()
	r.Op = d.op("op")
	r.Ref = d.ref()
	r.StoreVersion = d.someGen("storeVersion")
	r.Epoch = d.someGen("epoch")
	r.SpotID = d.spotOf(r.Unit, "spotId")
	r.TargetSpotID = d.spotOf(r.Unit, "targetSpotId")
	r.SourceOwnerID = d.rid("sourceOwnerId")
	r.SourceLease = d.someGen("sourceLease")
	r.DeadlineMS = d.deadline(true)
	if r.Unit == UnitWide {
		if r.Root = d.hash("root"); r.Root == ([32]byte{}) {
			d.fail("root", ErrEmpty)
		}
	}
	r.Manifest = d.manifest()
	return r, d.done()
}

// StateChunk is one chunk of the object that a Restore announced.
type StateChunk struct {
	Relocation [16]byte // not zero
	Attempt    uint32   // ≥ 1
	Index      uint32   // from 0
	CRC        uint32   // CRC-32C of Payload
	Payload    []byte   // 1–MaxChunk bytes
}

// StateChunkHead is the size of what comes before the payload in the record.
const StateChunkHead = HeaderSize + 16 + 4 + 4 + 4

const _ uint = MaxRecord - StateChunkHead - MaxChunk // must not be negative

// Size returns the size of the record.
func (c *StateChunk) Size() int { return StateChunkHead + len(c.Payload) }

// AppendHead appends the record to dst but for its payload of payloadLen bytes, which the
// caller sends behind it from where it lies. c.Payload is not looked at.
func (c *StateChunk) AppendHead(dst []byte, payloadLen int) []byte {
	checkLen("chunk", payloadLen, MaxChunk)
	dst = slices.Grow(dst, StateChunkHead)
	dst = appendU32(dst, uint32(StateChunkHead-prefixSize+payloadLen))
	dst = append(dst, byte(CmdStateChunk), 0)
	dst = appendAttempt(dst, &c.Relocation, c.Attempt)
	dst = appendU32(dst, c.Index)
	return appendU32(dst, c.CRC)
}

// AppendTo appends the record to dst.
func (c *StateChunk) AppendTo(dst []byte) []byte {
	size := c.Size()
	dst = c.AppendHead(slices.Grow(dst, size), len(c.Payload))
	return end(append(dst, c.Payload...), size)
}

// PeekStateChunk reads all but the payload of a CmdStateChunk of which the first
// StateChunkHead bytes, length prefix included, are in b. It is false for other records.
func PeekStateChunk(b []byte) (c StateChunk, ok bool) {
	if len(b) < StateChunkHead || Command(b[prefixSize]) != CmdStateChunk || b[prefixSize+1] != 0 {
		return c, false
	}
	d := decoder{b: b[HeaderSize:StateChunkHead], cmd: CmdStateChunk}
	c.Relocation, c.Attempt = d.attempt()
	c.Index = d.u32("index")
	c.CRC = d.u32("crc")
	return c, d.done() == nil
}

// DecodeStateChunk reads the body of a CmdStateChunk.
func DecodeStateChunk(body []byte) (c StateChunk, err error) {
	d := decoder{b: body, cmd: CmdStateChunk}
	c.Relocation, c.Attempt = d.attempt()
	c.Index = d.u32("index")
	c.CRC = d.u32("crc")
	if c.Payload = d.payload(MaxChunk); len(c.Payload) == 0 {
		d.fail("payload", ErrEmpty)
	}
	return c, d.result()
}
