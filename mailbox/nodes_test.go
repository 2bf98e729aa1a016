package mailbox

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

func TestNodesAreUsedAgainInOrder(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool forgets at random under the race detector")
	}
	var s nodes[letter]
	n := 2 * blockNodes[letter]()
	take := func() (all []*Slot[letter]) {
		for range n {
			all = append(all, s.get())
		}
		return all
	}
	ordered := func(all []*Slot[letter]) {
		for i, slot := range all[1:] {
			if before := all[i]; slot.home == before.home && slot.bit <= before.bit {
				t.Errorf("node %d is %b after %b of one block", i+1, slot.bit, before.bit)
			}
		}
	}
	first := take()
	ordered(first)
	homes := make(map[*block[letter]]bool)
	for _, slot := range first {
		homes[slot.home] = true
	}
	if len(homes) != 2 {
		t.Fatalf("%d nodes are of %d blocks, want 2", n, len(homes))
	}
	var used spent[letter]
	for _, slot := range first {
		used.add(slot, &s)
	}
	used.flush(&s)
	for range 20 {
		again := take()
		ordered(again)
		used := spent[letter]{}
		for _, slot := range again {
			homes[slot.home] = true
			used.add(slot, &s)
		}
		used.flush(&s)
	}
	if len(homes) > 2 {
		t.Errorf("%d blocks for %d nodes at a time, want 2", len(homes), n)
	}
}

// A node that stays in use keeps half of its block from use at most.
func TestABlockIsListedWhenHalfOfItIsFree(t *testing.T) {
	var s nodes[letter]
	b := newBlock[letter]()
	size := len(b.nodes)
	all := b.have
	b.have = 0
	if b.stays() || b.free.Load() != 0 {
		t.Fatal("a block of which all is in use stays in the list")
	}
	freed := 0
	for bit := uint64(1); all&bit != 0; bit <<= 1 {
		b.release(bit, &s)
		freed++
		if isListed := b.free.Load()&listed != 0; isListed != (2*freed >= size) {
			t.Fatalf("with %d of %d free, listed is %v", freed, size, isListed)
		}
	}
	if !b.stays() {
		t.Error("a block whose nodes have all come back leaves the list")
	}
}

func TestNoNodeIsGivenTwice(t *testing.T) {
	type place struct{ inUse atomic.Bool }
	var (
		s     nodes[place]
		queue = make(chan *Slot[place], 200)
		wg    sync.WaitGroup
	)
	for range 4 {
		wg.Go(func() {
			for range 20_000 {
				n := s.get()
				if n.V.inUse.Swap(true) {
					t.Error("a node was given that is in use")
				}
				queue <- n
			}
		})
	}
	var consumers sync.WaitGroup
	for i := range uint64(3) {
		consumers.Go(func() {
			r := rand.New(rand.NewPCG(1, i))
			var used spent[place]
			var kept []*Slot[place] // some stay in use for longer
			for n := range queue {
				if kept = append(kept, n); len(kept) < 30 {
					continue
				}
				for range 1 + r.IntN(len(kept)) {
					k := r.IntN(len(kept))
					kept[k].V.inUse.Store(false)
					used.add(kept[k], &s)
					kept = append(kept[:k], kept[k+1:]...)
				}
				if r.IntN(2) == 0 {
					used.flush(&s)
				}
			}
		})
	}
	wg.Wait()
	close(queue)
	consumers.Wait()
}
