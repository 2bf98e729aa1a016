package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// The inventory of an aggregate is a tree of chunks, each stored under its SHA-256. It
// follows from the set of participants alone: they are sorted by kind, then by the bytes
// of their ids; every chunk but the last of its level is full; all leaves are at level 0
// and the root is at the first level at which one chunk suffices. All numbers are
// big-endian:
//
//	chunk        version u8 = 1, level u8, count of entries u16 (1 to 1,024), entries
//	leaf entry   kind u8, policy u8, ObjectGen u64, OwnerGen u64, Version u64,
//	             SpotVersion u64, type (length u8, bytes), id (length u8, bytes)
//	index entry  SHA-256 of a chunk of the level below, count of participants in it u32
//
// A chunk ends with its last entry. There is one way to write each set, and a reader
// takes no other.
const (
	// EntriesMax bounds the entries of a chunk, which bounds the Store's work for one.
	EntriesMax = 1024

	inventoryVersion    = 1
	inventoryLevelMax   = 3 // EntriesMax to the 4th exceeds SlotsMax
	chunkHeaderBytes    = 4
	indexEntryBytes     = len(Digest{}) + 4
	leafEntryFixedBytes = 2 + 4*8 + 2
)

// A full leaf of the longest names is below the limit of a chunk's bytes.
var _ [PayloadBytesMax - chunkHeaderBytes - EntriesMax*(leafEntryFixedBytes+2*IDBytesMax)]struct{}

// Participant is one object of an aggregate as it was when its members were fixed: what
// its row must still be at the commit. Its type and owner generation spare the target a
// look at each row.
type Participant struct {
	Kind      Kind // Actor, or UserSpot for the Spot itself
	ID        string
	Type      string
	ObjectGen ObjectGen
	OwnerGen  OwnerGen // before the commit
	Version   Version
	// SpotVersion is the version of the Spot for its members, 0 for the Spot itself.
	SpotVersion Version
	Policy      uint8 // of relocation, as the node names it
}

// Check returns ErrInvalid if the participant breaks a limit.
func (p Participant) Check() error {
	if p.Kind != UserSpot && p.Kind != Actor || (p.Kind == UserSpot) != (p.SpotVersion == 0) {
		return invalid("participant %.80q is of kind %v with Spot version %d: need a UserSpot without or an Actor with one",
			p.ID, p.Kind, p.SpotVersion)
	}
	return cmp.Or(CheckRow(p.ID, p.ObjectGen, p.Version), CheckID("stable type", p.Type), CheckGen("owner generation", p.OwnerGen),
		checkOptionalGen("Spot version", p.SpotVersion))
}

// compareParticipants orders an inventory.
func compareParticipants(a, b Participant) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.ID, b.ID))
}

// BuildInventory returns the chunks of the tree, each behind those that it names, and so
// the root last. It returns ErrInvalid for no participants, for one that breaks a limit
// and for one that is there twice.
func BuildInventory(participants []Participant) (chunks [][]byte, inv Inventory, err error) {
	if err := checkCount(len(participants)); err != nil {
		return nil, Inventory{}, err
	}
	sorted := slices.SortedFunc(slices.Values(participants), compareParticipants)
	for i, p := range sorted {
		if err := p.Check(); err != nil {
			return nil, Inventory{}, err
		}
		if i > 0 && compareParticipants(sorted[i-1], p) == 0 {
			return nil, Inventory{}, invalid("participant %v %q is there twice", p.Kind, p.ID)
		}
	}
	var level []indexEntry
	add := func(c chunk, count int) {
		b := c.encode()
		chunks = append(chunks, b)
		level = append(level, indexEntry{sha256.Sum256(b), uint32(count)})
	}
	for leaf := range slices.Chunk(sorted, EntriesMax) {
		add(chunk{leaf: leaf}, len(leaf))
	}
	for n := 1; len(level) > 1; n++ {
		below := level
		level = nil
		for index := range slices.Chunk(below, EntriesMax) {
			count := 0
			for _, e := range index {
				count += int(e.count)
			}
			add(chunk{level: n, index: index}, count)
		}
	}
	return chunks, Inventory{Root: level[0].digest, Count: len(sorted)}, nil
}

// Participants reads the inventory in order, holding one chunk of each level at a time.
// fetch returns the chunk of a digest, nil if it is not there; its bytes are not kept.
// The sequence ends with the first error: fetch's own, ErrInvalid for a count that no
// inventory has, or ErrCorrupt for a chunk that is missing, not that of its digest, or
// not that of its place. What came before an error is no inventory.
func (i Inventory) Participants(fetch func(Digest) ([]byte, error)) iter.Seq2[Participant, error] {
	return func(yield func(Participant, error) bool) {
		r := inventoryReader{fetch: fetch, yield: yield}
		err := checkCount(i.Count)
		if err == nil {
			level, full := 0, int64(EntriesMax)
			for full < int64(i.Count) {
				level, full = level+1, full*EntriesMax
			}
			err = r.read(i.Root, level, full, int64(i.Count))
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(Participant{}, fmt.Errorf("inventory of %d participants: %w", i.Count, err))
		}
	}
}

// errStopped ends the reading of an inventory that nobody wants more of.
var errStopped = errors.New("stopped")

type inventoryReader struct {
	fetch func(Digest) ([]byte, error)
	yield func(Participant, error) bool
	last  Participant // the one before; zero at first
}

// read yields what is in the chunk, which must be of that level and have count
// participants of the full that fit.
func (r *inventoryReader) read(d Digest, level int, full, count int64) error {
	b, err := r.fetch(d)
	if err != nil {
		return err
	}
	if b == nil {
		return corruptChunk("%x is missing", d)
	}
	if len(b) > PayloadBytesMax || sha256.Sum256(b) != d {
		return corruptChunk("%d bytes are not those of %x", len(b), d)
	}
	c, err := decodeChunk(b)
	if err != nil {
		return err
	}
	full /= EntriesMax // of one entry
	if entries := c.entries(); c.level != level || int64(entries) != (count+full-1)/full {
		return corruptChunk("%d entries at level %d, for %d participants at level %d", entries, c.level, count, level)
	}
	for _, p := range c.leaf {
		if compareParticipants(r.last, p) >= 0 {
			return corruptChunk("%v %q is behind %v %q", p.Kind, p.ID, r.last.Kind, r.last.ID)
		}
		if r.last = p; !r.yield(p, nil) {
			return errStopped
		}
	}
	for _, e := range c.index {
		here := min(full, count)
		if int64(e.count) != here {
			return corruptChunk("an entry at level %d counts %d participants: need %d", level, e.count, here)
		}
		if err := r.read(e.digest, level-1, full, here); err != nil {
			return err
		}
		count -= here
	}
	return nil
}

// chunk is a node of the tree: a leaf, or an index at level 1 and up.
type chunk struct {
	level int
	leaf  []Participant
	index []indexEntry
}

type indexEntry struct {
	digest Digest
	count  uint32
}

func (c chunk) entries() int { return len(c.leaf) + len(c.index) }

func (c chunk) encode() []byte {
	size := chunkHeaderBytes + len(c.index)*indexEntryBytes
	for _, p := range c.leaf {
		size += leafEntryFixedBytes + len(p.Type) + len(p.ID)
	}
	b := append(make([]byte, 0, size), inventoryVersion, byte(c.level))
	b = binary.BigEndian.AppendUint16(b, uint16(c.entries()))
	for _, p := range c.leaf {
		b = append(b, byte(p.Kind), p.Policy)
		for _, n := range [...]uint64{uint64(p.ObjectGen), uint64(p.OwnerGen), uint64(p.Version), uint64(p.SpotVersion)} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		b = append(append(b, byte(len(p.Type))), p.Type...)
		b = append(append(b, byte(len(p.ID))), p.ID...)
	}
	for _, e := range c.index {
		b = binary.BigEndian.AppendUint32(append(b, e.digest[:]...), e.count)
	}
	return b
}

// decodeChunk is the inverse of encode. It takes no memory for entries that the bytes
// do not have.
func decodeChunk(b []byte) (chunk, error) {
	if len(b) < chunkHeaderBytes || b[0] != inventoryVersion || b[1] > inventoryLevelMax {
		return chunk{}, corruptChunk("begins with %x: need version %d and a level up to %d", b[:min(len(b), 2)], inventoryVersion, inventoryLevelMax)
	}
	c := chunk{level: int(b[1])}
	count, rest := int(binary.BigEndian.Uint16(b[2:])), b[chunkHeaderBytes:]
	if count < 1 || count > EntriesMax {
		return chunk{}, corruptChunk("%d entries: need 1 to %d", count, EntriesMax)
	}
	for range count {
		var ok bool
		if c.level > 0 {
			rest, ok = c.decodeIndexEntry(rest)
		} else {
			rest, ok = c.decodeLeafEntry(rest)
		}
		if !ok {
			return chunk{}, corruptChunk("entry %d of %d at level %d is unreadable", c.entries(), count, c.level)
		}
	}
	if len(rest) > 0 {
		return chunk{}, corruptChunk("%d bytes behind the last entry", len(rest))
	}
	return c, nil
}

func (c *chunk) decodeIndexEntry(b []byte) (rest []byte, ok bool) {
	if len(b) < indexEntryBytes {
		return nil, false
	}
	c.index = append(c.index, indexEntry{Digest(b), binary.BigEndian.Uint32(b[len(Digest{}):])})
	return b[indexEntryBytes:], true
}

func (c *chunk) decodeLeafEntry(b []byte) (rest []byte, ok bool) {
	if len(b) < leafEntryFixedBytes {
		return nil, false
	}
	p := Participant{
		Kind:        Kind(b[0]),
		Policy:      b[1],
		ObjectGen:   ObjectGen(binary.BigEndian.Uint64(b[2:])),
		OwnerGen:    OwnerGen(binary.BigEndian.Uint64(b[10:])),
		Version:     Version(binary.BigEndian.Uint64(b[18:])),
		SpotVersion: Version(binary.BigEndian.Uint64(b[26:])),
	}
	b = b[34:]
	for _, s := range [...]*string{&p.Type, &p.ID} {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return nil, false
		}
		end := 1 + int(b[0])
		*s, b = string(b[1:end]), b[end:]
	}
	c.leaf = append(c.leaf, p)
	return b, p.Check() == nil
}

func checkCount(n int) error {
	if n < 1 || n > SlotsMax {
		return invalid("inventory of %d participants: need 1 to %d", n, SlotsMax)
	}
	return nil
}

func corruptChunk(format string, args ...any) error {
	return fmt.Errorf("%w: inventory chunk: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
