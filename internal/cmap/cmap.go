// Package cmap is a map from strings to values that is read without locks.
//
// It serves the tables that every message looks something up in (objects,
// routes, sessions): a look-up is one hash and a walk over an immutable chain,
// takes no lock and allocates nothing, also when the key is a view of a frame.
package cmap

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const (
	shardBits   = 6
	shards      = 1 << shardBits
	bucketsMin  = 4
	loadPercent = 150 // entries per bucket × 100 at which a shard grows
)

// Map is safe for concurrent use. It must be made by New.
//
// Invariant: an entry never changes after it was published in a bucket, so a
// reader that has found a chain may walk it to its end whatever writers do.
type Map[V any] struct {
	seed   maphash.Seed
	shards [shards]shard[V]
}

type shard[V any] struct {
	table atomic.Pointer[[]bucket[V]] // length is a power of two
	mu    sync.Mutex                  // writers
	count atomic.Int64
	_     [40]byte
}

type bucket[V any] struct{ head atomic.Pointer[entry[V]] }

type entry[V any] struct {
	hash  uint64
	key   string
	value V
	next  *entry[V]
}

// New returns an empty map.
func New[V any]() *Map[V] {
	m := &Map[V]{seed: maphash.MakeSeed()}
	for i := range m.shards {
		t := make([]bucket[V], bucketsMin)
		m.shards[i].table.Store(&t)
	}
	return m
}

// Load returns the value of key.
func (m *Map[V]) Load(key string) (v V, ok bool) {
	h := maphash.String(m.seed, key)
	for e := m.chain(h); e != nil; e = e.next {
		if e.hash == h && e.key == key {
			return e.value, true
		}
	}
	return v, false
}

// LoadBytes is Load with a key that may be a view of a buffer.
func (m *Map[V]) LoadBytes(key []byte) (v V, ok bool) {
	h := maphash.Bytes(m.seed, key)
	for e := m.chain(h); e != nil; e = e.next {
		if e.hash == h && e.key == string(key) {
			return e.value, true
		}
	}
	return v, false
}

func (m *Map[V]) chain(h uint64) *entry[V] {
	t := *m.shards[h&(shards-1)].table.Load()
	return t[h>>shardBits&uint64(len(t)-1)].head.Load()
}

// Store sets the value of key.
func (m *Map[V]) Store(key string, v V) {
	m.Update(key, func(V, bool) (V, bool) { return v, true })
}

// Delete removes key.
func (m *Map[V]) Delete(key string) {
	m.Update(key, func(v V, _ bool) (V, bool) { return v, false })
}

// Update calls f with the present value of key, if any, and stores what it
// returns, or removes the key if keep is false. Updates of one key run one
// after another; f must be short and must not use the map. It returns whether
// the key is present afterwards.
func (m *Map[V]) Update(key string, f func(v V, present bool) (_ V, keep bool)) bool {
	h := maphash.String(m.seed, key)
	s := &m.shards[h&(shards-1)]
	s.mu.Lock()
	defer s.mu.Unlock()
	t := *s.table.Load()
	b := &t[h>>shardBits&uint64(len(t)-1)]
	head := b.head.Load()
	var old *entry[V]
	for e := head; e != nil; e = e.next {
		if e.hash == h && e.key == key {
			old = e
			break
		}
	}
	var v V
	if old != nil {
		v = old.value
	}
	v, keep := f(v, old != nil)
	if old == nil && !keep {
		return false
	}
	if old != nil {
		head = without(head, old)
		s.count.Add(-1)
	}
	if keep {
		head = &entry[V]{hash: h, key: key, value: v, next: head}
		s.count.Add(1)
	}
	b.head.Store(head)
	if n := s.count.Load(); n*100 > int64(len(t))*loadPercent {
		s.grow(t)
	}
	return keep
}

// without copies the chain up to gone and shares the rest.
func without[V any](head, gone *entry[V]) *entry[V] {
	if head == gone {
		return gone.next
	}
	e := *head
	e.next = without(head.next, gone)
	return &e
}

func (s *shard[V]) grow(old []bucket[V]) {
	t := make([]bucket[V], 2*len(old))
	for i := range old {
		for e := old[i].head.Load(); e != nil; e = e.next {
			b := &t[e.hash>>shardBits&uint64(len(t)-1)]
			b.head.Store(&entry[V]{hash: e.hash, key: e.key, value: e.value, next: b.head.Load()})
		}
	}
	s.table.Store(&t)
}

// Len returns the number of keys.
func (m *Map[V]) Len() int {
	var n int64
	for i := range m.shards {
		n += m.shards[i].count.Load()
	}
	return int(n)
}

// Range calls f for each key until it returns false, in no order. Keys stored
// or removed meanwhile may or may not be seen; no key is seen twice unless it
// was removed and stored again. f may use the map.
func (m *Map[V]) Range(f func(key string, v V) bool) {
	for i := range m.shards {
		t := *m.shards[i].table.Load()
		for j := range t {
			for e := t[j].head.Load(); e != nil; e = e.next {
				if !f(e.key, e.value) {
					return
				}
			}
		}
	}
}
