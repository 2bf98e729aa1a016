package node

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/chunker"
	"github.com/zlnode/zlnode/internal/errkind"
)

const opLimits = "set relocation limits"

// MoveLimits bound what moves take of a node. 0 is the default of each; a negative number of
// bytes in flight is no bound.
type MoveLimits struct {
	LinkBytes  int64 // of state that one link may have in flight
	NodeBytes  int64 // of state that all links may have in flight
	ChunkBytes int   // of the payloads that come here, encoded
	Moves      int   // that leave at once; further ones wait and go on working
	Restores   int   // of what comes, at once; further ones wait
}

// noBound is how MoveLimits say that there is none.
const noBound = -1

// withDefaults returns the limits with every field set.
func (l MoveLimits) withDefaults() MoveLimits {
	l.LinkBytes = max(cmp.Or(l.LinkBytes, chunker.LinkBytes), noBound)
	l.NodeBytes = max(cmp.Or(l.NodeBytes, noBound), noBound)
	l.ChunkBytes = cmp.Or(l.ChunkBytes, chunker.ChunkBytes)
	l.Moves, l.Restores = cmp.Or(l.Moves, movesMax), cmp.Or(l.Restores, restoresMax)
	return l
}

// check returns what is wrong with limits that have their defaults.
func (l MoveLimits) check() *Error {
	bad := func(format string, args ...any) *Error {
		return fail(errkind.InvalidOperation, opLimits, "", format, args...)
	}
	switch {
	case l.ChunkBytes < chunker.ChunkMin || l.ChunkBytes > chunker.ChunkMax:
		return bad("RelocationChunkBytes %d is not in %d to %d", l.ChunkBytes, chunker.ChunkMin, chunker.ChunkMax)
	case l.Moves < 0 || l.Moves > movesTop:
		return bad("MaxMoves %d is not in 1 to %d, nor 0 for the default", l.Moves, movesTop)
	case l.Restores < 0 || l.Restores > movesTop:
		return bad("MaxRestores %d is not in 1 to %d, nor 0 for the default", l.Restores, movesTop)
	}
	return nil
}

// moveLimits are the limits in use.
type moveLimits struct {
	mu    sync.Mutex // held while they change, so that all of one change are in use together
	now   MoveLimits
	chunk atomic.Uint32 // ChunkBytes, for those who must not wait
}

// MoveLimits returns the limits in use.
func (n *Node) MoveLimits() MoveLimits {
	n.moveLimits.mu.Lock()
	defer n.moveLimits.mu.Unlock()
	return n.moveLimits.now
}

// SetMoveLimits puts limits in use, also for moves that are under way. What has begun goes on:
// lower limits keep back what comes next until enough has ended. An attempt that was told a
// size of chunks keeps it.
func (n *Node) SetMoveLimits(l MoveLimits) error {
	l = l.withDefaults()
	if err := l.check(); err != nil {
		return err.of(opLimits, n.cfg.RID)
	}
	m := &n.moveLimits
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = l
	m.chunk.Store(uint32(l.ChunkBytes))
	n.movesOut.setMost(l.Moves)
	n.movesIn.setMost(l.Restores)
	n.streams.setLimits(max(l.LinkBytes, 0), max(l.NodeBytes, 0))
	return nil
}
