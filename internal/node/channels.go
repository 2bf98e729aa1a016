package node

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/balance"
	"github.com/zlnode/zlnode/internal/cmap"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
)

// Channel is one that a node serves.
type Channel struct {
	Name   string
	Mesh   string // "": that of this node's objects
	Weight int    // its share of what is sent to the channel; 0: it takes nothing new
}

// channels is which node of a mesh serves which channel: what this node tells its peers, and what they
// have told it. That a peer serves a channel is known from its link alone, and is forgotten
// with it.
//
// Invariant: a name's servers are the published links whose latest offer has a weight for it.
// Who asks for them looks at all links, under mu, if one of these has changed since the last
// look; so whichever of two changes comes last is seen. What a peer's offer costs is in
// proportion to its length, however many links there are and however often it changes.
type channels struct {
	mesh *mesh
	any  bool // this node serves some
	// waiting are the senders that wait for a first server.
	waiting atomic.Int64
	// servers has a name as long as somebody offers it, so peers bound it.
	servers *cmap.Map[*serving]

	mu     sync.Mutex
	rests  bool      // peers were told that nothing is taken, as the node is Relocating or Relocated
	own    []Channel // by name
	open   bool      // the start is over, and peers are told
	offers map[*linkConn]map[string]uint16
}

// serving is who serves one channel.
type serving struct {
	now atomic.Pointer[servers] // nil: something has changed since the last look

	// Guarded by channels.mu.
	offers int      // with a weight for it
	last   *servers // that a look has found
}

// servers are the candidates for one channel. The set does not change; another one is another
// value, so that who waits for one of them finds out.
type servers struct {
	links []*linkConn // by RID

	mu     sync.Mutex
	choice *balance.Chooser // by index in links
}

func newChannels(m *mesh) *channels {
	c := &channels{mesh: m, servers: cmap.New[*serving](), offers: map[*linkConn]map[string]uint16{}}
	c.own = m.serves()
	c.any = len(c.own) > 0
	slices.SortFunc(c.own, func(a, b Channel) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// serves are the channels that this node serves here.
func (m *mesh) serves() (own []Channel) {
	cfg := &m.node.cfg
	if m.side == serverSide {
		for _, s := range cfg.ChannelServers {
			if s.Name == m.named() {
				own = append(own, Channel{Name: s.Name, Weight: s.Weight})
			}
		}
		return own
	}
	for _, c := range cfg.Channels {
		if in, _ := cfg.mesh(c.Mesh); in.Name == m.cfg.Name {
			own = append(own, c)
		}
	}
	return own
}

// serve begins to tell peers what this node serves.
func (c *channels) serve() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = true
	c.tellAll()
}

// drain tells peers to send nothing new here.
func (c *channels) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.own {
		c.own[i].Weight = 0
	}
	if c.open {
		c.tellAll()
	}
}

// follow tells peers if the node's state has changed what it takes: it is a server of its channels
// only while it serves.
func (c *channels) follow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	rests := c.mesh.node.relocates()
	if c.rests == rests {
		return
	}
	if c.rests = rests; c.open {
		c.tellAll()
	}
}

// SetChannelWeight changes the weight of a channel that this node serves.
func (n *Node) SetChannelWeight(name string, weight int) error {
	const op = "set channel weight"
	if weight < 0 || weight > weightMax {
		return fail(errkind.InvalidOperation, op, name, "weight %d is not in 0 to %d", weight, weightMax)
	}
	for m := range n.eachNet() {
		if served, running := m.channels.weigh(name, weight); served && running {
			return nil
		} else if served {
			return errStopping.of(op, name)
		}
	}
	return fail(errkind.NotConfigured, op, name, "this node does not serve the channel; name it in its configuration")
}

// weigh changes the weight of a channel if this node serves it here, and does not stop.
func (c *channels) weigh(name string, weight int) (served, running bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.own, func(o Channel) bool { return o.Name == name })
	switch {
	case i < 0:
		return false, false
	case c.mesh.node.stopping.Load(): // which comes before drain
		return true, false
	case c.own[i].Weight != weight:
		c.own[i].Weight = weight
		c.tellAll()
	}
	return true, true
}

// greet tells the peer of a new link. What changes later is told behind it, as both are told
// under mu, and the link is published before.
func (c *channels) greet(l *linkConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open && c.any {
		l.sendControl(c.offer())
	}
}

// tellAll tells every peer; the caller holds mu.
func (c *channels) tellAll() {
	if !c.any {
		return
	}
	o := c.offer()
	for _, l := range c.mesh.links.all() {
		l.sendControl(o)
	}
}

func (c *channels) offer() *wire.Offer {
	o := new(wire.Offer)
	for _, own := range c.own {
		if c.rests {
			own.Weight = 0
		}
		o.Channels = wire.AppendOffered(o.Channels, []byte(own.Name), uint16(own.Weight))
	}
	return o
}

// offered takes what a peer says that it serves. It is false, and nothing has changed, if that
// has no place on the link.
func (c *channels) offered(l *linkConn, o *wire.Offer) bool {
	now, fit := map[string]uint16{}, true
	o.Each(func(name []byte, weight uint16) {
		now[string(name)] = weight
		fit = fit && c.mesh.carries(name)
	})
	if fit {
		c.replace(l, now)
	}
	return fit
}

// gone forgets what a link's peer served; the link is in use no more.
func (c *channels) gone(l *linkConn) { c.replace(l, nil) }

func (c *channels) replace(l *linkConn, now map[string]uint16) {
	c.mu.Lock()
	before := c.offers[l]
	if c.offers[l] = now; now == nil {
		delete(c.offers, l)
	}
	changed := false
	compare := func(name string, was, is uint16) {
		if was != is {
			changed = true
			c.changed(name, was, is)
		}
	}
	for name, weight := range before {
		compare(name, weight, now[name])
	}
	for name, weight := range now {
		if _, both := before[name]; !both {
			compare(name, 0, weight)
		}
	}
	c.mu.Unlock()
	if changed {
		c.mesh.node.news.tell()
	}
}

// changed notes that a link's weight for a name has changed; the caller holds mu.
func (c *channels) changed(name string, was, is uint16) {
	s, ok := c.servers.Load(name)
	if !ok {
		s = new(serving)
		c.servers.Store(name, s)
	}
	switch {
	case was == 0:
		s.offers++
	case is == 0:
		s.offers--
	}
	s.now.Store(nil)
	if s.offers == 0 {
		c.servers.Delete(name)
	}
}

// of returns the present servers of a channel, or nil.
func (c *channels) of(name string) *servers {
	s, ok := c.servers.Load(name)
	if !ok {
		return nil
	}
	now := s.now.Load()
	if now == nil {
		now = c.look(name)
	}
	if now == nil || len(now.links) == 0 {
		return nil
	}
	return now
}

// look finds a name's servers. If they are those that they were, only their weights change, and
// who waits for one of them need not know.
func (c *channels) look(name string) *servers {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.servers.Load(name)
	if !ok {
		return nil
	}
	if now := s.now.Load(); now != nil {
		return now
	}
	next := new(servers)
	for _, l := range c.mesh.links.all() {
		if c.offers[l][name] > 0 {
			next.links = append(next.links, l)
		}
	}
	slices.SortFunc(next.links, func(a, b *linkConn) int { return strings.Compare(a.peer.RID, b.peer.RID) })
	candidates := make([]balance.Candidate, len(next.links))
	for i, l := range next.links {
		candidates[i] = balance.Candidate{Name: l.peer.RID, Weight: int(c.offers[l][name])}
	}
	var before *balance.Chooser
	if last := s.last; last != nil {
		last.mu.Lock()
		defer last.mu.Unlock()
		if before = last.choice; slices.Equal(last.links, next.links) {
			next = last
		}
	}
	next.choice = balance.New(candidates, before)
	s.last = next
	s.now.Store(next)
	return next
}

// next chooses a server and returns its index.
func (s *servers) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.choice.Next()
}

// instead chooses another one, or returns -1.
func (s *servers) instead(chosen int, tried []bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.choice.Instead(chosen, func(i int) bool { return tried[i] })
}

// WaitServers waits until that many nodes serve a channel and take messages; others than this
// one, if the channel has no connections of its own.
func (n *Node) WaitServers(ctx context.Context, to *Target, servers int) error {
	const op = "wait for servers"
	if to.to != toChannel {
		return fail(errkind.InvalidOperation, op, to.ID, "the address is not that of a channel")
	}
	m, err := n.channelMesh(to)
	if err != nil {
		return err.of(op, to.ID)
	}
	for {
		changed := n.news.watch()
		ready := 0
		if s := m.channels.of(to.ID); s != nil {
			ready = len(s.links)
		}
		if ready >= servers {
			return nil
		}
		select {
		case <-changed:
		case <-n.life.Done():
			return errStopping.of(op, to.ID)
		case <-ctx.Done():
			err := fail(errkind.DeadlineExceeded, op, to.ID, "%d of %d servers are ready", ready, servers)
			err.Err = ctx.Err()
			return err
		}
	}
}
