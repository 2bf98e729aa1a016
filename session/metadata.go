package session

import (
	"bytes"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Metadata is an encoded metadata block: u8 count, then per entry u8 length and
// key, u16 length and value. Keys are unique and non-empty, keys and values
// UTF-8. The block of a decoded Packet is valid and a view into its frame; it is
// read-only. A nil Metadata is an absent block and has no entries.
type Metadata []byte

// metadataEntriesMax is what the one-byte count can say.
const metadataEntriesMax = 255

// ReservedKeyPrefix begins the keys that are not the application's. A server takes none of a
// client.
const ReservedKeyPrefix = "zl-"

// PushNumberKey is the key under which the pushes of a Session that can be resumed carry
// their number, in decimal: 1 for the first, one more for each. It is not the application's.
const PushNumberKey = "zl-push"

// PushNumberSize is what a number may add to a block that is not absent, in bytes.
const PushNumberSize = 3 + len(PushNumberKey) + len("18446744073709551615")

// PushNumber returns the number that m carries; 0: none.
func (m Metadata) PushNumber() uint64 {
	v, found := m.Lookup(PushNumberKey)
	if !found {
		return 0
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Pair is one entry to encode.
type Pair struct{ Key, Value string }

// AppendMetadata appends the block of pairs to dst, and returns dst unchanged
// with a *DecodeError if it cannot be sent. The pairs must be sorted by key in
// ascending byte order; a key given twice is refused, and so is an empty one.
func AppendMetadata(dst []byte, pairs []Pair) ([]byte, error) {
	if len(pairs) > metadataEntriesMax {
		return dst, refuse(ReasonMetadataSize)
	}
	size := 1
	for i, p := range pairs {
		if p.Key == "" || i > 0 && p.Key <= pairs[i-1].Key ||
			!utf8.ValidString(p.Key) || !utf8.ValidString(p.Value) {
			return dst, refuse(ReasonMetadata)
		}
		size += 3 + len(p.Key) + len(p.Value)
		if len(p.Key) > 255 || size > MetadataMax {
			return dst, refuse(ReasonMetadataSize)
		}
	}
	dst = append(dst, byte(len(pairs)))
	for _, p := range pairs {
		dst = append(dst, byte(len(p.Key)))
		dst = append(dst, p.Key...)
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(p.Value)))
		dst = append(dst, p.Value...)
	}
	return dst, nil
}

// NewMetadata returns the block of m's entries in ascending order of keys, or
// nil if m is empty. The caller owns it.
func NewMetadata(m map[string]string) (Metadata, error) {
	if len(m) == 0 {
		return nil, nil
	}
	pairs := make([]Pair, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, Pair{Key: k, Value: m[k]})
	}
	block, err := AppendMetadata(nil, pairs)
	if err != nil {
		return nil, err
	}
	return block, nil
}

// Len returns the number of entries.
func (m Metadata) Len() int {
	if len(m) == 0 {
		return 0
	}
	return int(m[0])
}

// All ranges over the entries in their order in the block. Keys and values are
// views into it. Ranging allocates nothing.
func (m Metadata) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if len(m) == 0 {
			return
		}
		rest := []byte(m[1:])
		for range m[0] {
			key, value, next, ok := takeEntry(rest)
			if !ok || !yield(key, value) {
				return
			}
			rest = next
		}
	}
}

// Lookup returns the value of key as a view into the block, and whether there
// is one.
func (m Metadata) Lookup(key string) (value []byte, found bool) {
	for k, v := range m.All() {
		if string(k) == key {
			return v, true
		}
	}
	return nil, false
}

// Reserved reports whether an entry has a key that is not the application's.
func (m Metadata) Reserved() bool {
	for k := range m.All() {
		if bytes.HasPrefix(k, []byte(ReservedKeyPrefix)) {
			return true
		}
	}
	return false
}

// Application returns a block of the application's entries alone, in their order, or nil if
// there is none. The caller owns it.
func (m Metadata) Application() Metadata {
	own := append(make(Metadata, 0, len(m)), 0)
	for k, v := range m.All() {
		if !bytes.HasPrefix(k, []byte(ReservedKeyPrefix)) {
			own[0]++
			own = append(own, byte(len(k)))
			own = append(own, k...)
			own = binary.BigEndian.AppendUint16(own, uint16(len(v)))
			own = append(own, v...)
		}
	}
	if own[0] == 0 {
		return nil
	}
	return own
}

// Valid reports whether m is absent or may be sent.
func (m Metadata) Valid() bool { return m == nil || m.valid() && len(m) <= MetadataMax }

// valid reports whether m is one whole block that keeps the rules of Metadata.
// m must not be longer than its length field can say.
func (m Metadata) valid() bool {
	if len(m) == 0 {
		return false
	}
	var seen keySet
	rest := []byte(m[1:])
	for range m[0] {
		at := len(m) - len(rest)
		key, value, next, ok := takeEntry(rest)
		if !ok || len(key) == 0 || !utf8.Valid(key) || !utf8.Valid(value) || !seen.add(m, at) {
			return false
		}
		rest = next
	}
	return len(rest) == 0
}

// takeEntry takes the entry at the front of b.
func takeEntry(b []byte) (key, value, rest []byte, ok bool) {
	key, rest, ok = takeShort(b)
	if !ok || len(rest) < 2 {
		return nil, nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(rest))
	if n > len(rest)-2 {
		return nil, nil, nil, false
	}
	return key, rest[2 : 2+n : 2+n], rest[2+n:], true
}

// keySet finds a key that occurs twice in a block: it holds where the keys seen
// so far begin, in ascending order of the keys. Senders that sort cost one
// comparison per key; a hostile order of 255 keys costs a few thousand, not the
// thirty thousand of comparing each with each.
type keySet struct {
	n  int
	at [metadataEntriesMax]uint16
}

// add notes the key whose entry begins at m[at], and reports whether it is new.
func (s *keySet) add(m Metadata, at int) bool {
	key := m.keyAt(at)
	low, high := 0, s.n
	if s.n > 0 && bytes.Compare(key, m.keyAt(int(s.at[s.n-1]))) > 0 {
		low = s.n
	}
	for low < high {
		mid := (low + high) / 2
		switch c := bytes.Compare(m.keyAt(int(s.at[mid])), key); {
		case c == 0:
			return false
		case c < 0:
			low = mid + 1
		default:
			high = mid
		}
	}
	copy(s.at[low+1:s.n+1], s.at[low:s.n])
	s.at[low] = uint16(at)
	s.n++
	return true
}

// keyAt returns the key of the entry that begins at m[at].
func (m Metadata) keyAt(at int) []byte {
	return m[at+1 : at+1+int(m[at])]
}
