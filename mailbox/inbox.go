package mailbox

import "sync/atomic"

// inbox is the queue between producers and the claim's holder, and in the same
// word the state that decides who makes the mailbox ready:
//
//	idle         nothing queued, not in the ready set, nobody holds the claim
//	nil          nothing queued; in the ready set or claimed
//	other node   the newest of the queued nodes, each linked to the one before it;
//	             in the ready set or claimed
//
//	        push (and makes it ready)         claim takes all
//	idle ──────────────────────────▶ nodes ──────────────────▶ nil
//	  ▲                                ▲          push          │
//	  │                                └────────────────────────┤
//	  └─────────────────────────────────────────────────────────┘
//	                   rest: only if still nil
//
// Proof that no wake-up is lost and no two workers hold the claim. Every change
// is one atomic step on this one word, so the steps have one order.
//
//  1. The word leaves idle by tryPush only, and whoever did that step puts the
//     mailbox into the ready set, once. It comes back to idle by tryRest only,
//     called only by the holder of the claim, who ends the claim by it. Between
//     the two, exactly one of these is true: a producer is about to put it into
//     the ready set, the ready set has it, or a worker holds the claim and will
//     end it by tryRest or put the mailbox back. So it is at most once in the
//     ready set and has at most one holder.
//  2. Readiness is lost only by tryRest, which succeeds only if the word is nil
//     at that very step, that is if nothing is queued. This comparison is the
//     re-check: a message that came after the holder had looked makes it fail. A
//     message that comes later finds idle and makes the mailbox ready (1).
//  3. takeAll leaves nothing behind, and a push is in the queue or not: there is
//     no moment at which a finished push is hidden behind an unfinished one.
//
// A node that was used and pushed again between a producer's look and its step
// does no harm: what the step relies on is only that this node is the newest.
//
// A queue like internal/mpsc with a state word beside it was tried: with it
// BenchmarkPushConsume took 1.4 to 1.8 times as long, and each idle mailbox keeps
// a node. The price here is that a push repeats its step when another producer
// came in between, and that a batch is turned around before it is consumed.
//
// TestWakeUpHoldsInEveryInterleaving runs these functions in all orders;
// TestExplorationFindsARestWithoutTheReCheck shows that it would notice.
type inbox[T any] struct {
	head atomic.Pointer[Slot[T]]
}

func (b *inbox[T]) init(idle *Slot[T]) { b.head.Store(idle) }

// push appends n. If it returns true, the caller must put the mailbox into the
// ready set. Safe for concurrent use.
func (b *inbox[T]) push(n *Slot[T], idle *Slot[T]) (wake bool) {
	for {
		old := b.head.Load()
		if b.tryPush(old, n, idle) {
			return old == idle
		}
	}
}

// tryPush appends n if the word is still old.
func (b *inbox[T]) tryPush(old, n, idle *Slot[T]) bool {
	n.next = old
	if old == idle {
		n.next = nil
	}
	return b.head.CompareAndSwap(old, n)
}

// claim takes the mailbox for the caller if it is idle, as a push and a worker do, in
// one step. Safe for concurrent use.
func (b *inbox[T]) claim(idle *Slot[T]) bool { return b.head.CompareAndSwap(idle, nil) }

// takeAll returns the queued nodes, the newest first. Only the claim's holder may
// call it, so it never meets idle.
func (b *inbox[T]) takeAll() *Slot[T] { return b.head.Swap(nil) }

// tryRest ends the claim if nothing is queued. If it returns true, the mailbox is
// no longer the caller's in any part. Only the claim's holder may call it.
func (b *inbox[T]) tryRest(idle *Slot[T]) bool { return b.head.CompareAndSwap(nil, idle) }

// take returns the queued nodes, the oldest first, or ends the claim and returns
// nil. Only the claim's holder may call it.
func (b *inbox[T]) take(idle *Slot[T]) *Slot[T] {
	if b.tryRest(idle) { // first, since most often there is nothing: one step
		return nil
	}
	return oldestFirst(b.takeAll())
}

// oldestFirst turns the links of a list around.
func oldestFirst[T any](newest *Slot[T]) *Slot[T] {
	var first *Slot[T]
	for n := newest; n != nil; {
		next := n.next
		n.next = first
		first, n = n, next
	}
	return first
}
