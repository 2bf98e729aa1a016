package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/store"
)

// fullListEvery is how many polls may find the list unchanged before it is read
// again: leases and capacity in it age without a change number.
const fullListEvery = 5

// mesh knows the nodes of the namespace and keeps a link to each that this node
// needs and has to dial. One goroutine, run, owns it.
type mesh struct {
	node *Node
	list atomic.Pointer[store.NodeList]
	wake chan struct{} // capacity 1
	met  atomic.Bool   // a link was opened: its peer may be news
	dial map[string]*dialState

	// Owned by the mesh's goroutine.
	read      clock.Mono // when the list was last found complete
	unchanged int        // polls that found nothing new since the whole list was read; fullListEvery: read it
}

// dialState is what is known of dialling one peer. At most one connection to a
// peer is being opened at a time: busy holds from the dial until the connection
// has ended.
type dialState struct {
	busy atomic.Bool
	up   atomic.Bool // the connection became a link

	// Owned by the mesh's goroutine.
	lifecycle store.LeaseGen
	failures  int
	next      clock.Mono
}

func newMesh(n *Node) *mesh {
	m := &mesh{node: n, wake: make(chan struct{}, 1), dial: map[string]*dialState{}, unchanged: fullListEvery}
	m.list.Store(&store.NodeList{})
	return m
}

// nodes returns the last complete list. It must not be changed.
func (m *mesh) nodes() []store.Descriptor { return m.list.Load().Nodes }

// poke makes the mesh look again soon.
func (m *mesh) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// meet makes the mesh read the list soon: it has changed, or a node has linked that
// may not be in it yet.
func (m *mesh) meet() {
	m.met.Store(true)
	m.poke()
}

// run polls the node list and dials until the node's life ends.
func (m *mesh) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	poll := clock.Now()
	for {
		now := clock.Now()
		if m.met.Swap(false) || now.Reached(poll) {
			poll = now.Add(descriptorPoll)
			m.refresh()
		}
		next := min(poll, m.connect(clock.Now()))
		timer.Reset(max(next.Sub(clock.Now()), 0))
		select {
		case <-m.node.life.Done():
			return
		case <-m.wake:
		case <-timer.C:
		}
	}
}

// watch makes the mesh read the list when the Store says that it has changed. Polling
// goes on: notices may be lost.
func (m *mesh) watch() {
	if err := m.node.store.WatchNodes(m.node.life, m.meet); err != nil && m.node.life.Err() == nil {
		m.node.log.Warn().Err(err).Msg("changes of the node list are not heard of; it is polled")
	}
}

// outage goes on with the last complete list for a while (FO-18): its links and dials
// stay. Then what it says is too old to dial or place by; links that are open stay,
// as their liveness decides. The Store's next answer is the whole list.
func (m *mesh) outage(err error, now clock.Mono) {
	m.unchanged = fullListEvery
	log := m.node.log.Warn().Err(err)
	switch {
	case errors.Is(err, context.Canceled):
	case now.Sub(m.read) < m.node.cfg.StoreFailureGrace:
		log.Msg("the node list was not read; the last one stays in use")
	case len(m.nodes()) > 0:
		log.Dur("grace", m.node.cfg.StoreFailureGrace).Msg("the node list was not read for too long; no node is dialled or chosen until it is")
		m.list.Store(&store.NodeList{})
		m.node.links.listed()
	}
}

// refresh reads the list, if it has changed or is due to be read as a whole.
func (m *mesh) refresh() {
	ctx, cancel := context.WithTimeout(m.node.life, storeCallMax)
	defer cancel()
	since := m.list.Load().Change
	if m.unchanged >= fullListEvery {
		since = 0
	}
	list, err := m.node.store.ListNodes(ctx, since)
	now := clock.Now()
	if err != nil {
		m.outage(err, now)
		return
	}
	m.read = now
	if list.Nodes == nil {
		m.unchanged++
		return
	}
	m.unchanged = 0
	m.list.Store(&list)
	m.node.links.listed()
}

// connect starts the dials that are due and returns when the next one will be.
func (m *mesh) connect(now clock.Mono) clock.Mono {
	next := clock.Never
	wanted := map[string]bool{}
	for i := range m.nodes() {
		d := &m.nodes()[i]
		if !m.wants(d) {
			continue
		}
		wanted[d.RID] = true
		s := m.dial[d.RID]
		if s == nil || s.lifecycle != d.Lifecycle {
			s = &dialState{lifecycle: d.Lifecycle}
			m.dial[d.RID] = s
		}
		if s.up.Swap(false) {
			s.failures, s.next = 0, 0
		}
		if s.busy.Load() || m.node.links.to(d.RID, uint64(d.Lifecycle)) != nil {
			continue
		}
		if !now.Reached(s.next) {
			next = min(next, s.next)
			continue
		}
		s.next = now.Add(backoff(s.failures))
		s.failures++
		m.start(s, d.RID, d.Endpoint)
	}
	for rid, s := range m.dial {
		if !wanted[rid] && !s.busy.Load() {
			delete(m.dial, rid)
		}
	}
	return next
}

// wants reports whether this node has to dial d.
func (m *mesh) wants(d *store.Descriptor) bool {
	n := m.node
	switch {
	case len(n.linkConfig.Keys) == 0, d.RID == n.cfg.RID, d.Mesh != n.cfg.Mesh, d.Endpoint == "", d.LeaseLeft <= 0:
		return false
	case n.cfg.Role != store.RoleServer && d.Role != store.RoleServer && len(n.cfg.Channels) == 0 && !d.Channels:
		return false // two object clients have nothing to say to each other, unless one serves channels
	case n.endpoint == "":
		return true // nobody can dial this node
	}
	return link.ShouldDial(n.cfg.RID, d.RID, false)
}

// backoff is the pause after a number of failed dials.
func backoff(failures int) time.Duration {
	return min(dialBackoffMin<<min(failures, 10), dialBackoffMax)
}

// start dials in the background.
func (m *mesh) start(s *dialState, rid, endpoint string) {
	s.busy.Store(true)
	m.node.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(m.node.life, dialTimeout)
		defer cancel()
		_, err := m.node.engine.Dial(ctx, endpoint, m.node.linkProtocol(&linkHandler{node: m.node, expect: rid, dial: s}))
		if err != nil {
			m.node.log.Debug().Str("peer", rid).Str("address", endpoint).Err(err).Msg("dial failed")
			s.busy.Store(false)
			m.poke()
		}
	})
}

// linkProtocol describes a link's connection to the engine.
func (n *Node) linkProtocol(h *linkHandler) *engine.Protocol {
	return &engine.Protocol{
		Name: "link", FrameSize: linkFrameSize, Handler: h, Placer: h,
		HelloTimeout: n.linkConfig.Timeout, OutMax: linkOutBytesMax, TrustLength: true,
		UnsentMax: linkUnsentMax,
	}
}
