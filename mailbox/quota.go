package mailbox

import "sync/atomic"

// quota bounds what all mailboxes of a pool have queued together. A mailbox takes of it in
// grants, when what it has queued goes over floor, and gives them back when it is empty:
// so mailboxes that have little queued never meet here, and their producers share no
// memory. floor is about what an idle object costs, so what it leaves uncounted is bounded
// like the objects.
type quota struct {
	max  int64
	used atomic.Int64
}

const (
	floor = 2 << 10
	grant = 64 << 10
)

// take takes n bytes if they are there.
func (q *quota) take(n int64) bool {
	if q.used.Add(n) > q.max {
		q.used.Add(-n)
		return false
	}
	return true
}

func (q *quota) give(n int64) { q.used.Add(-n) }

// Hold counts n bytes of messages that a consumer keeps among what is queued in the pool's
// mailboxes (Config.Bytes). It returns false, and counts nothing, if they do not fit.
// What was counted is taken off by Release.
func (p *Pool) Hold(n int) bool { return p.quota.take(int64(n) + messageOverhead) }

// Release takes off what a Hold of n bytes counted.
func (p *Pool) Release(n int) { p.quota.give(int64(n) + messageOverhead) }

// grow makes room for need bytes beside the pool's other mailboxes.
func (b *budget) grow(need uint64, q *quota) bool {
	for {
		open := b.open.Load()
		if need <= open {
			return true
		}
		more := (need - open + grant - 1) / grant * grant
		if !q.take(int64(more)) {
			return false
		}
		if b.open.CompareAndSwap(open, open+more) {
			return true
		}
		q.give(int64(more))
	}
}

// force takes cost from the budget and the quota whether they have room or not.
func (b *budget) force(cost uint64, q *quota) {
	n := cost & costBytes
	q.give(-int64(n))
	b.open.Add(n)
	b.admitted.Add(cost)
}

// shrink gives back the grants that are not needed any more. Only the claim's holder calls
// it. Each goroutine that is in reserve meanwhile may bring one message that no grant
// covers.
func (b *budget) shrink(finished *atomic.Uint64, q *quota) {
	if b.open.Load() <= floor {
		return
	}
	spare := int64(b.open.Swap(floor)) - floor
	if used := (b.admitted.Load() - finished.Load()) & costBytes; used > floor {
		keep := (used - floor + grant - 1) / grant * grant
		b.open.Add(keep)
		spare -= int64(keep)
	}
	q.give(spare)
}
