package node

import (
	"slices"
	"sync"
)

// inbox brings what happens to a move to its task. put is safe for concurrent use; the rest
// is the task's.
type inbox[E any] struct {
	again   func(last, e *E) bool // e says no more than last
	arrived chan struct{}         // has room for one: there may be some

	mu   sync.Mutex
	all  []E // that nobody has looked at yet
	over bool
}

func newInbox[E any](again func(last, e *E) bool) inbox[E] {
	return inbox[E]{again: again, arrived: make(chan struct{}, 1)}
}

// put brings an event, unless nobody takes any more or it says nothing new. A peer that says
// ever more is not heard either.
func (b *inbox[E]) put(e E) {
	b.mu.Lock()
	last := len(b.all) - 1
	if !b.over && last+1 < eventsMax && (last < 0 || !b.again(&b.all[last], &e)) {
		b.all = append(b.all, e)
	}
	b.mu.Unlock()
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// next takes the first event.
func (b *inbox[E]) next() (e E, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 {
		return e, false
	}
	e = b.all[0]
	b.all = b.all[1:]
	return e, true
}

// takeAll takes those that are wanted, ahead of the others.
func (b *inbox[E]) takeAll(wanted func(e *E) bool) (taken []E) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = slices.DeleteFunc(b.all, func(e E) bool {
		is := wanted(&e)
		if is {
			taken = append(taken, e)
		}
		return is
	})
	return taken
}

// close drops what is left, and what still comes.
func (b *inbox[E]) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over, b.all = true, nil
}
