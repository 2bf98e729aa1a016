package chunker

import "math"

// Compression is how a payload's bytes are encoded.
type Compression uint8

// The compressions, by their number on the wire.
const (
	None Compression = iota
	S2               // the S2 stream format, in blocks of 1 MiB at most
	Zstd             // one Zstandard frame or more, window of 8 MiB at most
)

// Manifest describes a payload. It goes ahead of the chunks. What is counted in chunks
// and has the checksum is the payload as it travels, that is, compressed; a codec's own
// checksums watch over what it inflates to.
type Manifest struct {
	Total       uint64 // bytes that travel
	Raw         uint64 // bytes once inflated; Total if they are not compressed
	ChunkBytes  uint32 // of each chunk but the last, which may be shorter
	Chunks      uint32
	CRC         uint32 // CRC-32C of all that travels
	Compression Compression
}

// Check reports whether m describes a payload that a target of these limits takes. What
// it says costs nothing: no memory follows a claim. The error is an *Error with
// KindChunkBytes, KindCompression, KindTooLarge, KindRaw, KindChunks, or KindWholeCRC for
// a payload of no bytes that claims a checksum.
func (m Manifest) Check(l Limits) error {
	if l.ChunkBytes == 0 {
		l.ChunkBytes = ChunkBytes
	}
	if l.Bytes == 0 {
		l.Bytes = math.MaxInt
	}
	switch {
	case m.ChunkBytes < ChunkMin || m.ChunkBytes > l.ChunkBytes:
		return refuse(KindChunkBytes)
	case m.Compression > Zstd:
		return refuse(KindCompression)
	case m.Raw > min(l.Bytes, math.MaxInt):
		return refuse(KindTooLarge)
	case m.Compression == None && m.Raw != m.Total, m.Compression != None && (m.Raw <= m.Total || m.Total == 0):
		return refuse(KindRaw)
	case uint64(m.Chunks) != count(m.Total, m.ChunkBytes):
		return refuse(KindChunks)
	case m.Total == 0 && m.CRC != 0:
		return refuse(KindWholeCRC)
	}
	return nil
}

// count returns how many chunks total bytes are; at most MaxInt bytes.
func count(total uint64, chunkBytes uint32) uint64 {
	return (total + uint64(chunkBytes) - 1) / uint64(chunkBytes)
}

// size returns how long chunk i is.
func (m *Manifest) size(i uint32) int {
	return int(min(uint64(m.ChunkBytes), m.Total-uint64(i)*uint64(m.ChunkBytes)))
}
