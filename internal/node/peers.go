package node

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// peers is what a mesh knows of other nodes: those that the Store's list has in the mesh, and
// those of the configuration. It decides whom this node dials, and when.
//
// No two connections to one RID are being opened by this node at a time, as the second link
// would take the first one's place. One to whoever is at an endpoint learns by the other's
// hello whom it has reached, and gives up if that node is linked or about to be.
type peers struct {
	mesh *mesh

	mu      sync.Mutex
	known   map[string]*peer // by their RID
	unnamed []*peer          // of the configuration, which does not say who they are
}

// peer is one of them. peers.mu guards all of it but the first two fields, which never change.
type peer struct {
	manual bool
	expect string // the RID that must be there; "": whoever is

	endpoint  string         // that is dialled
	rid       string         // who it is; "": not known
	listed    bool           // it is in the list, and what follows is from there
	lifecycle store.LeaseGen // 0: any
	serves    bool
	required  bool // a link is needed
	dials     bool // this node has to open it

	busy     bool // this node is opening a connection, or has one that has not ended
	attempts int  // dials since the last link
	failures int
	next     clock.Mono
	lost     bool   // a link or a dial was
	failure  string // why, the last time

	state PeerState
	since clock.Mono
}

func newPeers(m *mesh) *peers {
	p := &peers{mesh: m, known: map[string]*peer{}}
	for _, c := range m.cfg.Peers {
		q := &peer{manual: true, expect: c.RID, rid: c.RID, endpoint: c.Endpoint, required: true, dials: link.ShouldDial(m.node.cfg.RID, c.RID, true)}
		if p.look(q, clock.Now()); c.RID == "" {
			p.unnamed = append(p.unnamed, q)
		} else {
			p.known[c.RID] = q
		}
	}
	return p
}

// dialNear has a channel's client dial its own node's server, of which no list need tell.
func (p *peers) dialNear(server *mesh) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rid := p.mesh.node.cfg.RID
	q := &peer{manual: true, expect: rid, rid: rid, endpoint: server.bound.String(), required: true, dials: true}
	p.look(q, clock.Now())
	p.known[rid] = q
}

// each calls f with every peer. mu is held.
func (p *peers) each(f func(*peer)) {
	for _, q := range p.known {
		f(q)
	}
	for _, q := range p.unnamed {
		f(q)
	}
}

// named calls f with those of which it is known that they are that node. mu is held.
func (p *peers) named(rid string, f func(*peer)) {
	if q := p.known[rid]; q != nil {
		f(q)
	}
	for _, q := range p.unnamed {
		if q.rid == rid {
			f(q)
		}
	}
}

// dialling is a dial that is to begin.
type dialling struct {
	*peer
	endpoint string
}

// due returns whom to dial now, and when the next one is due.
func (p *peers) due(nodes []store.Descriptor, now clock.Mono) (due []dialling, next clock.Mono) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read(nodes, now)
	busy := map[string]bool{}
	p.each(func(q *peer) {
		if p.opens(q) {
			busy[q.rid] = true
		}
	})
	delete(busy, "") // who they are is not known
	next = clock.Never
	p.each(func(q *peer) {
		switch {
		case len(p.mesh.link.Keys) == 0, !q.dials, q.busy, busy[q.rid], p.link(q) != nil:
		case !now.Reached(q.next):
			next = min(next, q.next)
		default:
			q.next, q.busy = now.Add(backoff(q.failures)), true
			q.failures++
			q.attempts++
			if q.rid != "" {
				busy[q.rid] = true
			}
			due = append(due, dialling{q, q.endpoint})
		}
		p.look(q, now)
	})
	return due, next
}

// read takes over what the list says. mu is held.
func (p *peers) read(nodes []store.Descriptor, now clock.Mono) {
	for _, q := range p.known {
		q.listed = false
	}
	for i := range nodes {
		d := &nodes[i]
		at, ok := p.mesh.in(d)
		if !ok || d.RID == p.mesh.node.cfg.RID {
			continue
		}
		q := p.known[d.RID]
		switch {
		case q == nil:
			q = &peer{expect: d.RID, rid: d.RID, lifecycle: d.Lifecycle, since: now}
		case q.lifecycle == 0 && p.opens(q): // to this process, as likely as not
			q.lifecycle = d.Lifecycle
		case q.lifecycle != d.Lifecycle: // another process, which nobody has dialled; what is being opened was to the former
			q = &peer{manual: q.manual, expect: q.expect, rid: q.rid, lifecycle: d.Lifecycle, endpoint: q.endpoint, lost: q.lost, failure: q.failure, state: q.state, since: q.since}
		}
		p.known[d.RID] = q
		q.listed, q.serves = true, d.State == store.Serving
		q.required = q.manual || p.mesh.required(d, &at)
		q.dials = q.manual || q.required && p.mesh.dials(d, &at)
		if !q.manual {
			q.endpoint = at.Endpoint
		}
	}
	for rid, q := range p.known {
		switch {
		case q.listed:
		case q.manual:
			q.lifecycle = 0
		case q.busy: // no second one is opened if it comes back meanwhile
			q.required, q.dials = false, false
		default:
			delete(p.known, rid)
		}
	}
}

// knows reports whether a node of that RID is a peer, linked or not, and whether it is listed as
// one to which no link is needed.
func (p *peers) knows(rid string) (known, unneeded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.named(rid, func(q *peer) { known, unneeded = true, q.listed && !q.required })
	return known, unneeded
}

// link returns the link to the peer, or to a later process of it. mu is held.
func (p *peers) link(q *peer) *linkConn {
	if q.rid == "" {
		return nil
	}
	if l := p.mesh.links.to(q.rid, 0); l != nil && l.peer.Lifecycle >= uint64(q.lifecycle) {
		return l
	}
	return nil
}

// opens reports whether this node is opening a connection to the peer that is no link yet. mu
// is held.
func (p *peers) opens(q *peer) bool {
	l := p.mesh.links.to(q.rid, 0)
	return q.busy && (l == nil || l.dial != q)
}

// start dials in the background.
func (p *peers) start(d dialling) {
	n := p.mesh.node
	n.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(n.life, dialTimeout)
		defer cancel()
		if err := p.mesh.dialLink(ctx, d.endpoint, &linkHandler{mesh: p.mesh, dial: d.peer}); err != nil {
			p.mesh.sayDialFailed(d.expect, d.endpoint, err)
			p.ended(d.peer, 0, "Unavailable: "+err.Error())
		}
	})
}

// greeted is told whom a connection to whoever is there has reached, as that one says. It
// reports whether to go on: nobody else is linked or being linked as that node.
func (p *peers) greeted(q *peer, is link.Peer) (on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.mesh.links.to(is.RID, 0)
	on = l == nil || l.peer.Lifecycle < is.Lifecycle
	p.named(is.RID, func(other *peer) { on = on && (other == q || !p.opens(other)) })
	q.rid = is.RID
	return on
}

// ended is told that a dial, or a connection that was no link, has ended, and of which refusal.
// One that gave way to the pair's other one has not failed.
func (p *peers) ended(q *peer, refused wire.RejectReason, why string) {
	now := clock.Now()
	p.mu.Lock()
	q.busy = false
	if gaveWay := refused == wire.RejectDuplicate && (why == "" || p.link(q) != nil); !gaveWay {
		q.lost, q.failure = true, bounded(why)
		if q.expect == "" { // somebody else may come to be there
			q.rid = ""
		}
	}
	if refused == wire.RejectSelfDial && q.expect == "" { // nothing but another configuration, here or of the network, changes that
		q.next = now.Add(dialBackoffSelf)
	}
	p.look(q, now)
	p.mu.Unlock()
	p.mesh.node.discovery.poke()
}

// linked is told that a link is open.
func (p *peers) linked(l *linkConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.named(l.peer.RID, func(q *peer) { p.look(q, l.opened) })
}

// unlinked is told that it is so no more.
func (p *peers) unlinked(l *linkConn, why string) {
	now := clock.Now()
	p.mu.Lock()
	if l.dial != nil {
		l.dial.busy = false
	}
	if p.mesh.links.to(l.peer.RID, 0) == nil { // else another one has taken its place
		p.named(l.peer.RID, func(q *peer) {
			q.lost, q.failure = true, bounded(why)
			p.look(q, now)
		})
	}
	p.mu.Unlock()
	p.mesh.node.discovery.poke()
}

// look notes the state of the peer. mu is held.
func (p *peers) look(q *peer, now clock.Mono) {
	is, l := PeerConfigured, p.link(q)
	if l != nil {
		q.failures, q.attempts, q.lost = 0, 0, false
	}
	switch {
	case l != nil && q.listed && !q.serves:
		is = PeerAdmitted
	case l != nil:
		is = PeerReady
	case !q.required:
		is = PeerNotRequired
	case q.lost:
		is = PeerReconnecting
	case q.busy:
		is = PeerConnecting
	}
	if is != q.state || q.since == 0 {
		q.state, q.since = is, now
	}
}

// bounded is a text of which a part may be a peer's.
func bounded(text string) string { return clip(strings.ToValidUTF8(text, "?")) }

// backoff is the pause after a number of failed dials.
func backoff(failures int) time.Duration {
	return min(dialBackoffMin<<min(failures, 10), dialBackoffMax)
}

// required reports whether a link is needed to a node that is in the mesh as at says: one of
// the two hosts objects which the other may use, or serves channels. Two object clients have
// nothing to say to each other else, and who uses no objects has nothing to say to a node that
// only hosts them. The client of a channel needs each server that serves.
func (m *mesh) required(d *store.Descriptor, at *store.MeshEntry) bool {
	if m.side != inMesh {
		return d.State == store.Serving
	}
	return m.channels.any || at.Channels || min(m.cfg.Role, at.Role) != store.RoleNone && max(m.cfg.Role, at.Role) == store.RoleServer
}

// dials reports whether of a pair that needs a link this node has to open it.
func (m *mesh) dials(d *store.Descriptor, at *store.MeshEntry) bool {
	switch {
	case at.Endpoint == "", d.LeaseLeft <= 0:
		return false
	case m.endpoint == "":
		return true // nobody can dial this node
	}
	return link.ShouldDial(m.node.cfg.RID, d.RID, false)
}
