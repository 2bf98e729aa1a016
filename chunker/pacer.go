package chunker

import (
	"slices"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/invariant"
)

// Pacer says which chunk of which move goes next on a link. M is what the caller knows a
// move by.
//
// It gives moves their turns one chunk at a time. The move whose turn it is waits for room,
// and those behind it with it, so a move of small chunks does not starve one of large
// ones. What is sent and not acknowledged stays within the link's limit, the node's Budget
// and what the link's road and target work off as it comes, which the Pacer learns from how
// long acknowledgements take. But one chunk may always be on its way: so a chunk, or a
// payload, of any size comes through any limit.
//
// A Pacer, its Budget, all Pacers of that Budget and the Outgoings in them are used under
// one lock, which is held for no longer than a call. Whoever holds it asks Next again
// after Add, Acked, Written and SetLimit, until it has nothing.
type Pacer[M any] struct {
	node     *Budget
	limit    int64 // 0: none
	window   window
	inFlight int64
	handed   bool // a chunk waits in the link's queue
	moves    []paced[M]
	turn     int // index into moves of the one whose turn it is
}

type paced[M any] struct {
	move M
	out  *Outgoing
}

// NewPacer returns a Pacer of a link that may have limit bytes in flight (0 = no bound of
// its own; LinkBytes is the usual one), within what node allows.
func NewPacer[M any](limit int64, node *Budget) *Pacer[M] {
	return &Pacer[M]{node: node, limit: limit}
}

// SetLimit sets the link's limit; 0 = none. What is in flight stays.
func (p *Pacer[M]) SetLimit(bytes int64) { p.limit = bytes }

// InFlight returns how many bytes are sent and not acknowledged.
func (p *Pacer[M]) InFlight() int64 { return p.inFlight }

// Full reports whether a chunk of ChunkBytes would have to wait for an acknowledgement: a
// move that has not begun had better not begin.
func (p *Pacer[M]) Full() bool { return !p.room(ChunkBytes, ChunkBytes) }

// Add lets a move begin, or go on behind what Resume said. It has its turn after those
// that are there. out must be in no other Pacer, and stays in this one until all its
// chunks are acknowledged, or Remove, or Lost.
func (p *Pacer[M]) Add(move M, out *Outgoing) {
	invariant.Check(!out.paced, "chunker: added to two pacers")
	invariant.Check(!out.lost, "chunker: added after its link was lost, and not resumed")
	if out.Done() {
		return
	}
	if len(p.moves) == 0 {
		p.node.links++
	}
	out.paced = true
	p.moves = slices.Insert(p.moves, p.turn, paced[M]{move, out})
	p.turn++
	p.flies(out.inFlight())
}

// Next returns the chunk to send now, which counts as sent; the caller puts it in the
// link's queue and calls Written when it has left that. ok is false while the chunk before
// is there, while there is no room, and when all chunks are sent. now never goes back, here
// and in Acked.
func (p *Pacer[M]) Next(now clock.Mono) (move M, index uint32, ok bool) {
	if p.handed {
		return move, 0, false
	}
	p.window.tick(now)
	for range p.moves {
		if p.turn >= len(p.moves) {
			p.turn = 0
		}
		m := p.moves[p.turn]
		if m.out.sent() {
			p.turn++
			continue
		}
		size, chunkBytes := int64(m.out.manifest.size(m.out.next)), int64(m.out.manifest.ChunkBytes)
		if !p.room(size, chunkBytes) {
			return move, 0, false
		}
		index = m.out.next
		m.out.next++
		alone := p.inFlight == 0
		p.flies(size)
		p.window.drains = false
		if alone || !p.room(chunkBytes, chunkBytes) {
			p.window.watch(now, m.out, index, p.inFlight)
		}
		p.handed = true
		p.turn++
		return m.move, index, true
	}
	return move, 0, false
}

// Written says that the chunk that Next gave last has left the link's queue. With one in
// it at a time, a message of another kind waits there for one chunk at most.
func (p *Pacer[M]) Written() { p.handed = false }

// Acked says that the target of out has its first chunks, received in number. Fewer than
// before change nothing. It reports false, and changes nothing, if so many were never
// sent. When all have come, out leaves the Pacer.
func (p *Pacer[M]) Acked(now clock.Mono, out *Outgoing, received uint32) bool {
	if received > out.next {
		return false
	}
	if !out.paced || received <= out.acked {
		return true
	}
	p.window.acked(now, out, received)
	p.flies(-out.between(out.acked, received))
	out.acked = received
	if out.Done() {
		p.Remove(out)
	}
	return true
}

// Remove takes out away; what it has in flight counts no longer. If it is not there,
// nothing happens.
func (p *Pacer[M]) Remove(out *Outgoing) {
	i := slices.IndexFunc(p.moves, func(m paced[M]) bool { return m.out == out })
	if i < 0 {
		return
	}
	p.window.forget(out)
	p.flies(-out.inFlight())
	out.paced = false
	p.moves = slices.Delete(p.moves, i, i+1)
	if p.turn > i {
		p.turn--
	}
	if len(p.moves) == 0 {
		p.node.links--
	}
}

// Lost says that the link is lost: all moves leave, and nothing is in flight nor in the
// queue. When the target has told over a new link what it has, Resume the Outgoing and Add
// it there.
func (p *Pacer[M]) Lost() {
	for len(p.moves) > 0 {
		out := p.moves[len(p.moves)-1].out
		out.lost = true
		p.Remove(out)
	}
	p.handed, p.turn = false, 0
}

// room reports whether a chunk of size bytes may be sent, of a move whose chunks have
// chunkBytes.
func (p *Pacer[M]) room(size, chunkBytes int64) bool {
	then := p.inFlight + size
	return p.inFlight == 0 ||
		p.window.room(then, chunkBytes) && (p.limit <= 0 || then <= p.limit) && p.node.room(p.inFlight, size)
}

func (p *Pacer[M]) flies(bytes int64) {
	p.inFlight += bytes
	p.node.inFlight += bytes
}
