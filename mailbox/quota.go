package mailbox

import "sync/atomic"

// quota bounds what all mailboxes of a pool have queued together. A mailbox takes of it in
// grants, when what it has queued goes over floor: as much again as it has, up to grant at
// once. What is not used goes back at the end of each claim. So mailboxes that have little
// queued never meet here, and their producers share no memory. floor is a few times what
// an idle object costs, so what it leaves uncounted is bounded like the objects.
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
	for {
		used := q.used.Load()
		if used+n > q.max {
			return false
		}
		if q.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (q *quota) give(n int64) { q.used.Add(-n) }

// Take takes n bytes of Config.Bytes, for what is queued outside of the pool's mailboxes until
// its turn in one of them, or reports false and takes nothing. Give gives them back. Both are
// safe for concurrent use.
func (p *Pool) Take(n int64) bool { return p.quota.take(n) }

// Give gives back what Take took.
func (p *Pool) Give(n int64) { p.quota.give(n) }

// grow makes room for need bytes beside the pool's other mailboxes.
func (b *budget) grow(need uint64, q *quota) bool {
	for {
		open := b.open.Load()
		if need <= open {
			return true
		}
		least := need - open
		more := max(least, min(open, grant))
		if !q.take(int64(more)) {
			if more = least; !q.take(int64(more)) {
				return false
			}
		}
		if b.open.CompareAndSwap(open, open+more) {
			return true
		}
		q.give(int64(more))
	}
}

// shrink gives back the grants that go over what is in use. Each goroutine that is in
// reserve meanwhile may bring one message that no grant covers.
func (b *budget) shrink(finished *atomic.Uint64, q *quota) {
	open := b.open.Load()
	keep := max(floor, (b.admitted.Load()-finished.Load())&costBytes)
	// If another grant came meanwhile, so does a message, and a claim that shrinks.
	if keep < open && b.open.CompareAndSwap(open, keep) {
		q.give(int64(open - keep))
	}
}
