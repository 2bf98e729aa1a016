package node

import (
	"context"
	"sync"
)

// rowLocks say which objects' rows are being changed in the Store: a change excludes
// others of the same row until its outcome is known. Few are taken at a time, so an
// object without a change pays nothing for them.
type rowLocks struct {
	mu    sync.Mutex
	taken map[*objectCell]chan struct{} // closed when it is free again
}

// takeRow waits until no change of the object's row is under way and begins one; leaveRow
// ends it. It reports false if ctx ended first. A change may wait for the Store, so never
// on an event loop nor with a claim.
func (c *objectCell) takeRow(ctx context.Context) bool {
	r := &c.node.rows
	for {
		r.mu.Lock()
		free, taken := r.taken[c]
		if !taken {
			if r.taken == nil {
				r.taken = map[*objectCell]chan struct{}{}
			}
			r.taken[c] = make(chan struct{})
		}
		r.mu.Unlock()
		if !taken {
			return true
		}
		select {
		case <-free:
		case <-ctx.Done():
			return false
		}
	}
}

func (c *objectCell) leaveRow() {
	r := &c.node.rows
	r.mu.Lock()
	free := r.taken[c]
	delete(r.taken, c)
	r.mu.Unlock()
	close(free)
}
