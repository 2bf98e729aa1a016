package wire

import (
	"encoding/binary"
	"math"
	"time"
	"unicode/utf8"
)

// Limits of the format, in bytes unless said otherwise. They are part of the
// protocol: a peer that goes over one is closed.
const (
	// MaxRecord bounds a whole record, prefix included, so that one record never
	// keeps a loop or a peer's memory busy for long.
	MaxRecord = 4 << 20
	// PreAdmitMax bounds a record before admit: an unknown caller gets no more
	// memory than a hello needs.
	PreAdmitMax = 4 << 10
	// MaxPayload bounds the application bytes of one message or reply.
	MaxPayload = 1 << 20
	// MaxReplyPayload leaves room for the fields of a result that wraps an
	// application's reply, such as CreateResult.
	MaxReplyPayload = MaxPayload + 1<<10
	// MaxID bounds ids of objects, names of meshes and stable types, packet names.
	MaxID = 255
	// MaxTopics bounds the topics that one node may tell another to be interested in, and
	// MaxTopicBytes their names together, with a byte for each.
	MaxTopics     = 65_536
	MaxTopicBytes = 4 << 20
	// MaxInterest bounds the topics of one Interest, as they are encoded.
	MaxInterest = 64 << 10
	// MaxRID bounds a node's RID.
	MaxRID = 64
	// MaxMetadata bounds the encoded metadata of a message.
	MaxMetadata = maxS16
	// MaxText bounds diagnostic text; encoders cut longer text.
	MaxText = maxS16
	// MaxHops is how often a message may be forwarded by nodes that no longer
	// own its target.
	MaxHops = 8
	// MaxErrorKind is the largest error kind (InternalFailure).
	MaxErrorKind = 12
	// MaxCodec is the largest codec number (Protobuf).
	MaxCodec = 3
	// MaxPushClass is the largest number of a class of pushes; PushNewestPerKey has a key.
	MaxPushClass     = 2
	PushNewestPerKey = 1
	// MaxPushKey bounds that key.
	MaxPushKey = 64
	// MaxOffered bounds the channels that a node serves, MaxWeight the weight of each.
	MaxOffered = 1024
	MaxWeight  = 10_000
	// MaxCompression is the largest number of a way to compress (zstd).
	MaxCompression = 2
	// MinChunk is the smallest chunk size of a move: below it the records' heads cost more
	// than they pace.
	MinChunk = 1 << 10
	// MaxChunk is the largest: a chunk delays the messages behind it on the link no longer
	// than the largest of them does.
	MaxChunk = 1 << 20
	// MaxGeneration is the largest generation, lifecycle or version: 63 bits.
	MaxGeneration = math.MaxInt64
	// MinWindow is the smallest window of message credits. A receiver may keep
	// back almost an eighth of a window before it returns credit, and a record
	// of MaxRecord must still pass: MinWindow − MinWindow/8 ≥ MaxRecord.
	MinWindow = 5 << 20
	// MaxWindow keeps sums of credits far from overflow.
	MaxWindow = 1 << 40
)

const _ uint = MinWindow - MinWindow/8 - MaxRecord // must not be negative

// Version is the newest protocol version that this code speaks, and the oldest.
const Version = 1

// HeaderSize is the size of length prefix, command and flags.
const HeaderSize = 6

const prefixSize = 4

// maxS16 bounds every field with a 16-bit length.
const maxS16 = 1 << 10

// ValidRID reports whether s can name a node: 1–64 bytes of [A-Za-z0-9._-].
func ValidRID(s string) bool { return validRID(s) }

// ValidID reports whether s can be an object id, a mesh name, a stable type or
// a packet name: 1–255 bytes of UTF-8.
func ValidID(s string) bool {
	return len(s) >= 1 && len(s) <= MaxID && utf8.ValidString(s)
}

func validRID[T string | []byte](s T) bool {
	if len(s) < 1 || len(s) > MaxRID {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// ascii reports whether v has ASCII bytes only. Almost all ids and names do, and
// this is cheaper than utf8.Valid for short ones (BenchmarkDecode).
func ascii(v []byte) bool {
	const high = 0x8080808080808080
	if len(v) < 8 {
		var or byte
		for _, c := range v {
			or |= c
		}
		return or < utf8.RuneSelf
	}
	or := binary.LittleEndian.Uint64(v[len(v)-8:]) // the tail, part of it twice
	for ; len(v) >= 8; v = v[8:] {
		or |= binary.LittleEndian.Uint64(v)
	}
	return or&high == 0
}

// DeadlineMS is the form in which a deadline travels: what is left of it, in
// milliseconds, rounded up, at least 1. Clocks of two nodes are never compared.
func DeadlineMS(left time.Duration) uint32 {
	ms := left / time.Millisecond
	if left%time.Millisecond > 0 {
		ms++
	}
	return uint32(min(max(ms, 1), math.MaxUint32))
}
