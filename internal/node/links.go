package node

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
)

// links holds the link to each peer of one mesh. A link takes its peer's slot when the peer
// proved itself, and is published for use when both ends are open, so that
// nothing is sent before the admit record. Look-ups read an immutable map;
// changes replace it.
type links struct {
	self    string
	current atomic.Pointer[map[string]*linkConn] // by the peer's RID

	mu    sync.Mutex
	slots map[string]*linkConn
	// newest is the newest lifecycle of each RID that was admitted, kept when its
	// links are gone: an older process of that RID is refused. Past lifecyclesMax
	// those without a link are forgotten; their leases ended long ago.
	newest map[string]uint64
	closed bool
	news   *news // of changes of the set
}

func newLinks(self string, news *news) *links {
	l := &links{self: self, slots: map[string]*linkConn{}, newest: map[string]uint64{}, news: news}
	l.current.Store(&map[string]*linkConn{})
	return l
}

// to returns the link to a peer, or nil. A lifecycle of 0 means any.
func (l *links) to(rid string, lifecycle uint64) *linkConn {
	c := (*l.current.Load())[rid]
	if c == nil || lifecycle != 0 && c.peer.Lifecycle != lifecycle {
		return nil
	}
	return c
}

// all returns the present links. The map must not be changed.
func (l *links) all() map[string]*linkConn { return *l.current.Load() }

// judge decides about a peer that proved itself, and takes the slot for c if it
// may stay. It returns what to tell the handshake; replaced is the link that has
// to go.
func (l *links) judge(c *linkConn, peer link.Peer) (verdict link.Event, replaced *linkConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	verdict = link.Event{Kind: link.EventJudged, Newest: l.newest[peer.RID]}
	if l.closed {
		verdict.Refuse = wire.RejectShuttingDown
		return verdict, nil
	}
	if peer.Lifecycle < verdict.Newest {
		return verdict, nil // the core refuses it
	}
	if old := l.slots[peer.RID]; old != nil {
		existing := link.LinkID{Peer: peer.RID, Lifecycle: old.peer.Lifecycle, Dialled: old.conn.Dialled()}
		incoming := link.LinkID{Peer: peer.RID, Lifecycle: peer.Lifecycle, Dialled: c.conn.Dialled()}
		switch link.Prefer(existing, incoming, l.self) {
		case link.RefuseDuplicate:
			verdict.Refuse = wire.RejectDuplicate
			return verdict, nil
		case link.RefuseStale:
			verdict.Refuse = wire.RejectStaleLifecycle
			return verdict, nil
		case link.Replace:
			replaced = old
		}
	}
	if len(l.newest) >= lifecyclesMax {
		maps.DeleteFunc(l.newest, func(rid string, _ uint64) bool { return l.slots[rid] == nil })
	}
	l.newest[peer.RID] = peer.Lifecycle
	l.slots[peer.RID] = c
	if replaced != nil {
		l.set(peer.RID, nil)
	}
	return verdict, replaced
}

// superseded reports whether a later process of the node is known.
func (l *links) superseded(p process) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest[p.rid] > p.lifecycle
}

// publish makes c the link that messages to its peer take.
func (l *links) publish(c *linkConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slots[c.peer.RID] == c {
		l.set(c.peer.RID, c)
	}
}

// remove frees the slot if c still holds it.
func (l *links) remove(c *linkConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slots[c.peer.RID] == c {
		delete(l.slots, c.peer.RID)
		l.set(c.peer.RID, nil)
	}
}

// set replaces the map; the caller holds mu.
func (l *links) set(rid string, c *linkConn) {
	next := maps.Clone(l.all())
	if c == nil {
		delete(next, rid)
	} else {
		next[rid] = c
	}
	l.current.Store(&next)
	l.news.tell()
}

// close refuses every further link and says goodbye on those that are there.
func (l *links) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	for _, c := range l.all() {
		c.goodbye(wire.GoodbyeShutdown, engine.CloseReason{Code: engine.Draining, Text: "this node shuts down"})
	}
}
