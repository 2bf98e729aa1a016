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
// Each change of one of these is followed by a look at all of them, under mu; so whichever of
// two changes comes last sees both.
type channels struct {
	mesh *mesh
	any  bool // this node serves some
	// waiting are the senders that wait for a first server.
	waiting atomic.Int64
	// servers has a name as long as somebody serves it, so peers bound it.
	servers *cmap.Map[*servers]

	mu     sync.Mutex
	rests  bool      // peers were told that nothing is taken, as the node is Relocating or Relocated
	own    []Channel // by name
	open   bool      // the start is over, and peers are told
	offers map[*linkConn]map[string]uint16
}

// servers are the candidates for one channel. The set does not change.
type servers struct {
	links []*linkConn

	mu     sync.Mutex
	choice *balance.Chooser // by index in links
}

func newChannels(m *mesh) *channels {
	c := &channels{mesh: m, servers: cmap.New[*servers](), offers: map[*linkConn]map[string]uint16{}}
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
	look := func(name string, was, is uint16) {
		if was != is {
			changed = true
			c.look(name)
		}
	}
	for name, weight := range before {
		look(name, weight, now[name])
	}
	for name, weight := range now {
		if _, both := before[name]; !both {
			look(name, 0, weight)
		}
	}
	c.mu.Unlock()
	if changed {
		c.mesh.node.news.tell()
	}
}

// look makes the set of a name's servers anew; the caller holds mu.
func (c *channels) look(name string) {
	next := new(servers)
	var candidates []balance.Candidate
	for rid, l := range c.mesh.links.all() {
		if weight := c.offers[l][name]; weight > 0 {
			next.links = append(next.links, l)
			candidates = append(candidates, balance.Candidate{Name: rid, Weight: int(weight)})
		}
	}
	if len(candidates) == 0 {
		c.servers.Delete(name)
		return
	}
	var before *balance.Chooser
	if s, ok := c.servers.Load(name); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		before = s.choice
	}
	next.choice = balance.New(candidates, before)
	c.servers.Store(name, next)
}

// of returns the present servers of a channel, or nil.
func (c *channels) of(name string) *servers {
	s, _ := c.servers.Load(name)
	return s
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

// WaitChannel waits until that many nodes serve a channel and take messages; others than this
// one, if the channel has no connections of its own.
func (n *Node) WaitChannel(ctx context.Context, name string, servers int) error {
	m, err := n.channelMesh(&Target{ID: name})
	if err != nil {
		return err.of("wait for channel", name)
	}
	for {
		changed := n.news.watch()
		ready := 0
		if s := m.channels.of(name); s != nil {
			ready = len(s.links)
		}
		if ready >= servers {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fail(errkind.DeadlineExceeded, "wait for channel", name, "%d of %d servers are ready", ready, servers)
		}
	}
}
