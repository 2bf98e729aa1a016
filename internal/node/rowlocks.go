package node

import (
	"context"
	"sync"

	"github.com/zlnode/zlnode/store"
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

// fence names the object's row and this process, for the holder of takeRow. That of an
// Actor which shares its Spot's owner has the Spot's version, too, as it is now: a change
// of the Spot's row that is under way makes the fence fail.
func (c *objectCell) fence() store.Fence {
	n := c.node
	f := store.Fence{
		ID: c.ref.ID, ObjectGen: store.ObjectGen(c.ref.ObjectGen), Version: store.Version(c.version.Load()),
		OwnerID: n.lease.OwnerID, LeaseGen: n.lifecycle(),
	}
	shares := false
	if f.SpotID, _, shares = c.place(); shares {
		f.SpotVersion = store.Version(c.rowSpot.version.Load())
	}
	return f
}

// place returns which Spot an Actor's row names, for the holder of takeRow.
func (c *objectCell) place() (spotID string, inUserSpot, shares bool) {
	switch {
	case c.typ.Kind != store.Actor:
		return "", false, false
	case c.rowSpot == nil:
		return c.node.entryID, false, false
	}
	return c.rowSpot.ref.ID, true, c.rowSpot.typ.Wide
}

// caughtUp notes a later version of the row, for the holder of takeRow, if it is still this
// incarnation's at this process: a reservation that was given up was applied late, or a target
// has ended a move. It reports whether there was one, behind which a change may be tried again.
func (c *objectCell) caughtUp(row *store.Authority) bool {
	if !c.node.owns(row) || uint64(row.ObjectGen) != c.ref.ObjectGen || uint64(row.Version) <= c.version.Load() {
		return false
	}
	c.version.Store(uint64(row.Version))
	return true
}

// written notes what a change of the row has made of it, for the holder of takeRow.
func (c *objectCell) written(row *store.Authority) {
	c.version.Store(uint64(row.Version))
	c.epoch.Store(uint64(row.Epoch))
}
