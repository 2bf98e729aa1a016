package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// aggregate is a Spot with members, n participants in all, in an order of the test's own.
func aggregate(n int) []Participant {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	ps := []Participant{{
		Kind: UserSpot, ID: "room-1", Type: "room", ObjectGen: 7, OwnerGen: 3, Version: 900, Policy: 1,
	}}
	for i := 1; i < n; i++ {
		ps = append(ps, Participant{
			Kind: Actor, ID: fmt.Sprintf("player-%d", i), Type: "player", ObjectGen: ObjectGen(i), OwnerGen: OwnerGen(1 + i%5),
			Version: Version(1000 + i), SpotVersion: 900, Policy: uint8(i),
		})
	}
	random.Shuffle(n, func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
	return ps
}

// longest is n participants with the longest ids and types.
func longest(n int) []Participant {
	ps := aggregate(n)
	for i := range ps {
		ps[i].ID += strings.Repeat("x", IDBytesMax-len(ps[i].ID))
		ps[i].Type += strings.Repeat("y", IDBytesMax-len(ps[i].Type))
	}
	return ps
}

// shelf keeps chunks by their digests.
type shelf map[Digest][]byte

func shelve(chunks [][]byte) shelf {
	s := shelf{}
	for _, c := range chunks {
		s[sha256.Sum256(c)] = c
	}
	return s
}

func (s shelf) fetch(d Digest) ([]byte, error) { return s[d], nil }

func build(t testing.TB, ps []Participant) ([][]byte, Inventory) {
	t.Helper()
	chunks, inv, err := BuildInventory(ps)
	if err != nil {
		t.Fatal(err)
	}
	return chunks, inv
}

// collect reads all, or up to the error.
func collect(inv Inventory, fetch func(Digest) ([]byte, error)) (ps []Participant, err error) {
	for p, err := range inv.Participants(fetch) {
		if err != nil {
			return ps, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// req: AG-03
func TestInventoriesReadBackSorted(t *testing.T) {
	for _, ps := range [][]Participant{
		aggregate(1), aggregate(2), aggregate(EntriesMax), aggregate(EntriesMax + 1), aggregate(EntriesMax*3 + 1), longest(10_000),
	} {
		before := slices.Clone(ps)
		chunks, inv := build(t, ps)
		if !slices.Equal(ps, before) {
			t.Errorf("%d participants: BuildInventory changed its argument", len(ps))
		}
		if inv.Count != len(ps) || sha256.Sum256(chunks[len(chunks)-1]) != inv.Root {
			t.Errorf("%d participants: inventory counts %d; the last chunk is the root: %v", len(ps), inv.Count,
				sha256.Sum256(chunks[len(chunks)-1]) == inv.Root)
		}
		got, err := collect(inv, shelve(chunks).fetch)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(got, compareParticipants) {
			t.Errorf("%d participants are read out of order", len(ps))
		}
		slices.SortFunc(before, compareParticipants)
		if !slices.Equal(got, before) {
			t.Errorf("%d participants are read back changed", len(ps))
		}
	}
}

// req: AG-03
func TestChunksOfInventoriesKeepTheirLimits(t *testing.T) {
	for _, c := range []struct {
		ps     []Participant
		levels []int // of the chunks, in their order
	}{
		{aggregate(1), []int{0}},
		{aggregate(EntriesMax), []int{0}},
		{aggregate(EntriesMax + 1), []int{0, 0, 1}},
		{longest(EntriesMax*2 + 1), []int{0, 0, 0, 1}},
	} {
		chunks, _ := build(t, c.ps)
		var levels []int
		for _, b := range chunks {
			parsed, err := decodeChunk(b)
			if err != nil {
				t.Fatal(err)
			}
			levels = append(levels, parsed.level)
			if len(b) > PayloadBytesMax || parsed.entries() > EntriesMax {
				t.Errorf("%d participants: a chunk at level %d has %d entries and %d bytes", len(c.ps), parsed.level, parsed.entries(), len(b))
			}
		}
		if !slices.Equal(levels, c.levels) {
			t.Errorf("%d participants are in chunks of the levels %v; want %v", len(c.ps), levels, c.levels)
		}
	}
}

func TestInventoriesOfThreeLevelsAreRead(t *testing.T) {
	const n = EntriesMax*EntriesMax + 1 // the fewest with an index of indexes
	ps := make([]Participant, n)
	for i := range ps {
		ps[i] = Participant{
			Kind: Actor, ID: fmt.Sprintf("%07d", i), Type: "p", ObjectGen: 1, OwnerGen: 1, Version: 1, SpotVersion: 1,
		}
	}
	chunks, inv := build(t, ps)
	if want := EntriesMax + 1 + 2 + 1; len(chunks) != want {
		t.Errorf("%d chunks; want %d", len(chunks), want)
	}
	i := 0
	for p, err := range inv.Participants(shelve(chunks).fetch) {
		if err != nil || p != ps[i] {
			t.Fatalf("participant %d is %+v, %v; want %+v", i, p, err, ps[i])
		}
		i++
	}
	if i != n {
		t.Errorf("%d participants are read; want %d", i, n)
	}
}

func TestTheInventoryFollowsFromTheSetAlone(t *testing.T) {
	ps := aggregate(EntriesMax + 5)
	_, want := build(t, ps)
	slices.Reverse(ps)
	if _, got := build(t, ps); got != want {
		t.Errorf("another order gives root %x; want %x", got.Root, want.Root)
	}
	for _, edit := range []func(p *Participant){
		func(p *Participant) { p.ID += "'" },
		func(p *Participant) { p.Type += "'" },
		func(p *Participant) { p.ObjectGen++ },
		func(p *Participant) { p.OwnerGen++ },
		func(p *Participant) { p.Version++ },
		func(p *Participant) { p.SpotVersion++ },
		func(p *Participant) { p.Policy++ },
	} {
		at := slices.IndexFunc(ps, func(p Participant) bool { return p.Kind == Actor })
		before := ps[at]
		if edit(&ps[at]); ps[at] == before {
			t.Fatal("nothing is edited")
		}
		if _, got := build(t, ps); got.Root == want.Root {
			t.Errorf("%+v and %+v have the same root", before, ps[at])
		}
		ps[at] = before
	}
}

func TestSetsThatAreNoInventoryAreRefused(t *testing.T) {
	with := func(edit func(p *Participant)) []Participant {
		ps := aggregate(3)
		slices.SortFunc(ps, compareParticipants)
		edit(&ps[0]) // an Actor
		return ps
	}
	for what, ps := range map[string][]Participant{
		"nobody":            nil,
		"twice the same":    append(aggregate(3), aggregate(3)[0]),
		"an empty id":       with(func(p *Participant) { p.ID = "" }),
		"a long id":         with(func(p *Participant) { p.ID = strings.Repeat("x", IDBytesMax+1) }),
		"no UTF-8":          with(func(p *Participant) { p.Type = "\xff" }),
		"no generation":     with(func(p *Participant) { p.ObjectGen = 0 }),
		"no owner":          with(func(p *Participant) { p.OwnerGen = 0 }),
		"a large version":   with(func(p *Participant) { p.Version = GenMax + 1 }),
		"no Spot":           with(func(p *Participant) { p.SpotVersion = 0 }),
		"a Spot in a Spot":  with(func(p *Participant) { p.Kind = UserSpot }),
		"an Instance Spot":  with(func(p *Participant) { p.Kind, p.SpotVersion = InstanceSpot, 0 }),
		"a kind of no name": with(func(p *Participant) { p.Kind = 0 }),
	} {
		if chunks, inv, err := BuildInventory(ps); !errors.Is(err, ErrInvalid) || chunks != nil || inv != (Inventory{}) {
			t.Errorf("%s: %d chunks, %+v, %v; want ErrInvalid", what, len(chunks), inv, err)
		}
	}
	for _, count := range []int{-1, 0, SlotsMax + 1} {
		if _, err := collect(Inventory{Count: count}, shelf{}.fetch); !errors.Is(err, ErrInvalid) {
			t.Errorf("an inventory of %d is read with %v; want ErrInvalid", count, err)
		}
	}
}

// tree is an inventory of two leaves taken apart.
type tree struct {
	leaves [2]chunk
	root   chunk
	count  int
}

// takeApart decodes the inventory of EntriesMax+2 participants.
func takeApart(t *testing.T) tree {
	t.Helper()
	chunks, inv := build(t, aggregate(EntriesMax+2))
	var parts [3]chunk
	for i, b := range chunks {
		var err error
		if parts[i], err = decodeChunk(b); err != nil {
			t.Fatal(err)
		}
	}
	return tree{[2]chunk(parts[:2]), parts[2], inv.Count}
}

// join puts the tree together with digests that fit, so that only its form is wrong.
func (r *tree) join() (shelf, Inventory) {
	s := shelf{}
	for i, l := range r.leaves {
		b := l.encode()
		s[sha256.Sum256(b)] = b
		r.root.index[i].digest = sha256.Sum256(b)
	}
	b := r.root.encode()
	s[sha256.Sum256(b)] = b
	return s, Inventory{sha256.Sum256(b), r.count}
}

func TestTreesThatAreNotTheOneOfTheirSetAreCorrupt(t *testing.T) {
	for what, edit := range map[string]func(r *tree){
		"leaves that overlap": func(r *tree) {
			a, b := r.leaves[0].leaf, r.leaves[1].leaf
			a[EntriesMax-1], b[0] = b[0], a[EntriesMax-1]
		},
		"entries in another order":   func(r *tree) { l := r.leaves[0].leaf; l[3], l[4] = l[4], l[3] },
		"a participant twice":        func(r *tree) { r.leaves[1].leaf[0] = r.leaves[0].leaf[EntriesMax-1] },
		"a leaf that is not full":    func(r *tree) { r.leaves[0].leaf = r.leaves[0].leaf[1:]; r.root.index[0].count--; r.count-- },
		"one more than is counted":   func(r *tree) { r.count-- },
		"one less than is counted":   func(r *tree) { r.leaves[1].leaf = r.leaves[1].leaf[:1] },
		"counts that do not add up":  func(r *tree) { r.root.index[1].count++ },
		"counts of a leaf exchanged": func(r *tree) { r.root.index[0].count--; r.root.index[1].count++ },
		"an index for a leaf":        func(r *tree) { r.leaves[1].level = 1 },
		"an index too high":          func(r *tree) { r.root.level = 2 },
		"more than fit one leaf":     func(r *tree) { r.count = EntriesMax },
		"more than fit two levels":   func(r *tree) { r.count = EntriesMax*EntriesMax + 1 },
	} {
		r := takeApart(t)
		s, inv := r.join()
		if _, err := collect(inv, s.fetch); err != nil {
			t.Fatalf("an inventory put together as it was gives %v", err)
		}
		edit(&r)
		s, inv = r.join()
		if ps, err := collect(inv, s.fetch); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %d participants are read, and %v; want ErrCorrupt", what, len(ps), err)
		}
	}
}

func TestChunksThatAreNotThoseOfTheirDigestsAreCorrupt(t *testing.T) {
	chunks, inv := build(t, aggregate(EntriesMax+1))
	for i := range chunks {
		d := Digest(sha256.Sum256(chunks[i]))
		for what, found := range map[string][]byte{
			"missing":     nil,
			"empty":       {},
			"cut":         chunks[i][:len(chunks[i])-1],
			"another's":   chunks[(i+1)%len(chunks)],
			"changed":     append(slices.Clone(chunks[i][:len(chunks[i])-1]), chunks[i][len(chunks[i])-1]^1),
			"a long tail": append(slices.Clone(chunks[i]), make([]byte, PayloadBytesMax)...),
		} {
			s := shelve(chunks)
			s[d] = found
			if _, err := collect(inv, s.fetch); !errors.Is(err, ErrCorrupt) {
				t.Errorf("chunk %d of %d is %s: %v; want ErrCorrupt", i, len(chunks), what, err)
			}
		}
	}
}

func TestReadingAnInventoryEndsWithTheErrorOfItsSource(t *testing.T) {
	chunks, inv := build(t, aggregate(EntriesMax+1))
	s, lost := shelve(chunks), errors.New("lost")
	fetched := 0
	ps, err := collect(inv, func(d Digest) ([]byte, error) {
		if fetched++; fetched == 3 {
			return nil, lost
		}
		return s[d], nil
	})
	if !errors.Is(err, lost) || len(ps) != EntriesMax || fetched != 3 {
		t.Errorf("%d participants, %d chunks fetched and %v; want those of the first leaf and the error", len(ps), fetched, err)
	}
}

func TestReadingAnInventoryStopsWithItsReader(t *testing.T) {
	chunks, inv := build(t, aggregate(EntriesMax*3))
	s, fetched, read := shelve(chunks), 0, 0
	for _, err := range inv.Participants(func(d Digest) ([]byte, error) { fetched++; return s[d], nil }) {
		if err != nil {
			t.Fatal(err)
		}
		if read++; read == EntriesMax+1 {
			break
		}
	}
	if fetched != 3 { // the root and two leaves
		t.Errorf("%d chunks are fetched for %d participants; want 3", fetched, read)
	}
}

// The bytes are fixed: an inventory is read by processes of other versions.
func TestInventoriesKeepTheirBytes(t *testing.T) {
	golden, err := os.ReadFile("testdata/inventory.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	chunks, _ := build(t, aggregate(3))
	fmt.Fprintf(&got, "chunk of 3: %s\n", hex.EncodeToString(chunks[0]))
	for _, n := range []int{1, 3, EntriesMax, EntriesMax + 1, 10_000} {
		chunks, inv := build(t, aggregate(n))
		fmt.Fprintf(&got, "root of %d in %d chunks: %x\n", n, len(chunks), inv.Root)
	}
	if got.String() != string(golden) {
		t.Errorf("the bytes are\n%swant\n%s", got.String(), golden)
	}
}

// FuzzInventoryChunk decodes bytes as a chunk. What is taken encodes to the same bytes.
func FuzzInventoryChunk(f *testing.F) {
	chunks, _ := build(f, aggregate(EntriesMax+1))
	few, _ := build(f, longest(3))
	for _, b := range append(chunks, few...) {
		f.Add(b)
	}
	f.Add([]byte{inventoryVersion, 0, 4, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeChunk(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("the error is %v; want ErrCorrupt", err)
			}
			return
		}
		if got := c.encode(); !bytes.Equal(got, b) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, c, got)
		}
	})
}

// FuzzInventory reads a tree that fits its digests but may have any form: data has its
// chunks, each behind its length, and the entries of an index name the chunks before it
// by their numbers. A tree that is read is the one of its set.
func FuzzInventory(f *testing.F) {
	for _, n := range []int{1, 2, 40} {
		chunks, inv := build(f, aggregate(n))
		f.Add(inv.Count, pack(chunks))
	}
	chunks, inv := build(f, aggregate(EntriesMax+1))
	f.Add(inv.Count, pack(chunks))
	f.Fuzz(func(t *testing.T, count int, data []byte) {
		chunks := unpack(data)
		if len(chunks) == 0 {
			return
		}
		inv := Inventory{sha256.Sum256(chunks[len(chunks)-1]), count}
		ps, err := collect(inv, shelve(chunks).fetch)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrInvalid) {
				t.Errorf("the error is %v", err)
			}
			return
		}
		if _, again := build(t, ps); again != inv {
			t.Errorf("read %d participants from %+v; they build %+v", len(ps), inv, again)
		}
	})
}

// pack is the inverse of unpack, for chunks of which each index names those just before.
func pack(chunks [][]byte) (data []byte) {
	numbers := map[Digest]int{}
	for i, b := range chunks {
		numbers[sha256.Sum256(b)] = i
		if b[1] > 0 {
			b = slices.Clone(b)
			for at := chunkHeaderBytes; at < len(b); at += indexEntryBytes {
				n := numbers[Digest(b[at:])]
				clear(b[at : at+len(Digest{})])
				b[at] = byte(n)
			}
		}
		data = append(binary.BigEndian.AppendUint32(data, uint32(len(b))), b...)
	}
	return data
}

func unpack(data []byte) (chunks [][]byte) {
	for len(data) >= 4 {
		size := min(int(binary.BigEndian.Uint32(data)), len(data)-4)
		b := slices.Clone(data[4 : 4+size])
		data = data[4+size:]
		if len(b) > 1 && b[1] > 0 {
			for at := chunkHeaderBytes; at+indexEntryBytes <= len(b); at += indexEntryBytes {
				if n := int(b[at]); n < len(chunks) {
					d := sha256.Sum256(chunks[n])
					copy(b[at:], d[:])
				}
			}
		}
		chunks = append(chunks, b)
	}
	return chunks
}
