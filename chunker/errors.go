package chunker

import "strconv"

// Kind says which rule a manifest, a chunk or a payload breaks.
type Kind uint8

// The kinds: first those of a manifest, before any byte was taken, then those of what
// came for it.
const (
	KindChunkBytes  Kind = iota + 1 // ChunkBytes is below ChunkMin or over the limit
	KindCompression                 // unknown compression
	KindTooLarge                    // the payload is over the limit, or over what memory can address
	KindRaw                         // Total and Raw do not fit together
	KindChunks                      // Chunks does not follow from Total and ChunkBytes
	KindBeyond                      // a chunk's index is not below Chunks
	KindGap                         // a chunk is missing before this one
	KindSize                        // a chunk has not the size that follows from its index
	KindChunkCRC                    // a chunk's bytes do not have its checksum
	KindWholeCRC                    // the chunks do not have the manifest's checksum
	KindInflate                     // the assembled bytes do not inflate to Raw bytes
	kindEnd
)

var kindText = [kindEnd]string{
	KindChunkBytes:  "chunk size is below the minimum or over what the target takes",
	KindCompression: "compression is unknown; the peer speaks a newer version",
	KindTooLarge:    "payload is over the limit; raise the limit or make the state smaller",
	KindRaw:         "encoded and raw size do not fit together; the peer's encoder is broken",
	KindChunks:      "number of chunks does not follow from the size; the peer's encoder is broken",
	KindBeyond:      "chunk's index is beyond the last chunk",
	KindGap:         "chunks are missing before this one",
	KindSize:        "chunk has another size than follows from its index",
	KindChunkCRC:    "chunk's bytes do not have its CRC-32C",
	KindWholeCRC:    "chunks do not have the manifest's CRC-32C",
	KindInflate:     "payload does not inflate to the size that the manifest says",
}

// String returns what is wrong.
func (k Kind) String() string {
	if k == 0 || k >= kindEnd {
		return "kind " + strconv.Itoa(int(k))
	}
	return kindText[k]
}

// Error says why a manifest or a chunk is refused, or why a payload that came whole is
// of no use.
type Error struct {
	Kind Kind
	Err  error // what the codec says, of KindInflate; nil otherwise
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err != nil {
		return "chunker: " + e.Kind.String() + ": " + e.Err.Error()
	}
	return "chunker: " + e.Kind.String()
}

// Unwrap returns what the codec says.
func (e *Error) Unwrap() error { return e.Err }

// refusals holds the one error of each kind without a cause, so that a flood of bad
// chunks costs no memory.
var refusals = func() (t [kindEnd]Error) {
	for k := range t {
		t[k].Kind = Kind(k)
	}
	return t
}()

func refuse(k Kind) error { return &refusals[k] }
