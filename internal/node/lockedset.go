package node

import (
	"maps"
	"slices"
	"sync"
)

// lockedSet is a set. Safe for concurrent use; its mutex is a leaf. The zero value is empty.
type lockedSet[T comparable] struct {
	mu  sync.Mutex
	set map[T]struct{}
}

func (s *lockedSet[T]) add(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = map[T]struct{}{}
	}
	s.set[v] = struct{}{}
}

func (s *lockedSet[T]) remove(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, v)
}

// all returns what is in it now, in no order.
func (s *lockedSet[T]) all() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.set))
}

func (s *lockedSet[T]) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.set)
}
