package zlnode

import "github.com/zlnode/zlnode/internal/node"

// RelocationLimits bound what moves of objects take of a node. 0 is the default of each, as in
// Config.
type RelocationLimits struct {
	// LinkBytes bounds the bytes of moving state that are sent to one node and not yet
	// acknowledged, NodeBytes those to all nodes. Defaults 16 MiB and no bound; negative: no
	// bound. One piece may be under way in any case.
	LinkBytes, NodeBytes int64
	// ChunkBytes is the largest piece, encoded, of the state of objects that come here. 1 KiB
	// to 1 MiB, default 256 KiB.
	ChunkBytes int
	// MaxMoves bounds the objects that leave at once, MaxRestores those that come and are
	// restored at once. 1 to 65,536, default 64.
	MaxMoves, MaxRestores int
}

// RelocationLimits returns the limits in use: -1 stands for no bound, nothing is 0.
func (n *Node) RelocationLimits() RelocationLimits {
	l := n.inner.MoveLimits()
	return RelocationLimits{
		LinkBytes: l.LinkBytes, NodeBytes: l.NodeBytes, ChunkBytes: l.ChunkBytes, MaxMoves: l.Moves, MaxRestores: l.Restores,
	}
}

// SetRelocationLimits puts all of these limits in use at once, in place of those of Config or
// of the call before; moves that wait or are under way find them too. Lower limits fail nothing
// that has begun: what comes next waits until enough has ended. Of a move that was told the
// size of chunks before, chunks have that size to its end. To change one limit, change it in
// what RelocationLimits returns. InvalidOperation if one is out of its bounds; then none
// changes.
func (n *Node) SetRelocationLimits(l RelocationLimits) error {
	return n.inner.SetMoveLimits(l.internal())
}

func (l RelocationLimits) internal() node.MoveLimits {
	return node.MoveLimits{
		LinkBytes: l.LinkBytes, NodeBytes: l.NodeBytes, ChunkBytes: l.ChunkBytes, Moves: l.MaxMoves, Restores: l.MaxRestores,
	}
}

// moveLimits are those of the configuration.
func (c *Config) moveLimits() node.MoveLimits {
	return RelocationLimits{
		LinkBytes: c.RelocationLinkBytes, NodeBytes: c.RelocationNodeBytes, ChunkBytes: c.RelocationChunkBytes,
		MaxMoves: c.MaxMoves, MaxRestores: c.MaxRestores,
	}.internal()
}
