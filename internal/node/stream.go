package node

import (
	"maps"
	"slices"
	"sync"

	"github.com/zlnode/zlnode/chunker"
	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/wire"
)

// streams send the payloads of moves over the node's links: one chunk of a link at a time
// lies in its out queue, so that a message waits for one at most.
type streams struct {
	mu     sync.Mutex // of all below, of all pacers and of the payloads in them
	budget chunker.Budget
	link   int64                  // what one link may have in flight
	links  map[*linkConn]struct{} // those that have a pacer
}

// stream is a payload on its way to the target of a move.
type stream struct {
	id  moveID
	out *chunker.Outgoing
}

// open gives a new link its pacer.
func (s *streams) open(l *linkConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.pacer = chunker.NewPacer[*stream](s.link, &s.budget)
	if s.links == nil {
		s.links = map[*linkConn]struct{}{}
	}
	s.links[l] = struct{}{}
}

// setLimits changes what one link, and all together, may have in flight. What is in flight
// stays; what more there is room for is sent.
func (s *streams) setLimits(link, all int64) {
	s.mu.Lock()
	s.link = link
	s.budget.SetLimit(all)
	links := slices.Collect(maps.Keys(s.links))
	s.mu.Unlock()
	for _, l := range links {
		s.with(l, func() { l.pacer.SetLimit(s.link) })
	}
}

// lost ends what the link sends.
func (s *streams) lost(l *linkConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.paceOver = true
	delete(s.links, l)
	l.pacer.Lost()
}

// send lets a payload go over the link, from chunk received on.
func (s *streams) send(l *linkConn, t *stream, received uint32) (ok bool) {
	s.with(l, func() {
		l.pacer.Remove(t.out)
		if ok = t.out.Resume(received); ok {
			l.pacer.Add(t, t.out)
		}
	})
	return ok
}

// acked takes how many chunks the target has. It is false for more than were sent.
func (s *streams) acked(l *linkConn, t *stream, received uint32) (ok bool) {
	s.with(l, func() { ok = l.pacer.Acked(clock.Now(), t.out, received) })
	return ok
}

// stop ends a payload, of which one chunk may be in the out queue yet.
func (s *streams) stop(l *linkConn, t *stream) {
	s.with(l, func() { l.pacer.Remove(t.out) })
}

// with changes what the link sends, and queues its next chunk if it is time.
func (s *streams) with(l *linkConn, change func()) {
	s.mu.Lock()
	if l.paceOver {
		s.mu.Unlock()
		return
	}
	change()
	t, index, ok := l.pacer.Next(clock.Now())
	s.mu.Unlock()
	if !ok {
		return
	}
	views, crc := t.out.AppendChunk(nil, index)
	size := 0
	for _, v := range views {
		size += len(v)
	}
	c := wire.StateChunk{Relocation: t.id.relocation, Attempt: t.id.attempt, Index: index, CRC: crc}
	head := buf.Get(wire.StateChunkHead)
	c.AppendHead(head.Bytes()[:0], size)
	err := l.conn.SendParts(head, views, func(bool) { s.with(l, l.pacer.Written) })
	if err != nil && err != engine.ErrClosed { //nolint:errorlint // the sentinel as it is
		l.conn.Abort(engine.CloseReason{Code: engine.OutFull, Text: "there is no room for a chunk"})
	}
}
