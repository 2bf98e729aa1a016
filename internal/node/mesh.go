package node

import (
	"context"
	"errors"
	"iter"
	"net"
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// mesh is one of the meshes that this node is part of. Its links, and what it dials, are its
// own: two nodes that share two meshes have a link in each.
type mesh struct {
	node     *Node
	cfg      Mesh
	link     link.Config // without Keys there are no links
	tls      *linkTLS    // nil: links are not encrypted
	endpoint string      // that peers dial; empty: none
	links    *links

	dial map[string]*dialState // owned by discovery's goroutine
}

// dialState is what is known of dialling one peer. At most one connection to a
// peer is being opened at a time: busy holds from the dial until the connection
// has ended.
type dialState struct {
	busy atomic.Bool
	up   atomic.Bool // the connection became a link

	// Owned by discovery's goroutine.
	lifecycle store.LeaseGen
	failures  int
	next      clock.Mono
}

func newMesh(n *Node, cfg Mesh) *mesh {
	return &mesh{node: n, cfg: cfg, links: newLinks(n.cfg.RID, n.news), dial: map[string]*dialState{}}
}

// newMeshes makes the meshes of the configuration; the main one is the first. Objects live in
// the one in which this node hosts them: else nothing of theirs ever asks.
func (n *Node) newMeshes() {
	for _, cfg := range n.cfg.meshes() {
		n.meshes = append(n.meshes, newMesh(n, cfg))
	}
	n.home = n.meshes[0]
	for _, m := range n.meshes {
		if m.cfg.Role == store.RoleServer {
			n.home = m
		}
	}
}

// hosts reports whether objects can live at this node.
func (n *Node) hosts() bool { return n.home.cfg.Role == store.RoleServer }

// objectMesh returns the mesh of that name, if this node uses or hosts objects in it; else nil.
func (n *Node) objectMesh(name string) *mesh {
	for _, m := range n.meshes {
		if m.cfg.Name == name && m.cfg.Role != store.RoleNone {
			return m
		}
	}
	return nil
}

// chooseMesh returns the mesh for a new object: the one that is named, or the only one in
// which this node uses objects.
func (n *Node) chooseMesh(op, id, name string) (*mesh, *Error) {
	if name != "" {
		if m := n.objectMesh(name); m != nil {
			return m, nil
		}
		return nil, fail(errkind.NotFound, op, id, "this node uses no objects of mesh %q", name)
	}
	var only *mesh
	for _, m := range n.meshes {
		switch {
		case m.cfg.Role == store.RoleNone:
		case only != nil:
			return nil, fail(errkind.InvalidOperation, op, id, "this node uses objects of meshes %q and %q; name the one that is meant", only.cfg.Name, m.cfg.Name)
		default:
			only = m
		}
	}
	if only == nil {
		return nil, fail(errkind.NotConfigured, op, id, "this node uses no objects; it is of RoleNone")
	}
	return only, nil
}

// linkTo returns the link to a process by which objects of a mesh are reached, or says why
// there is none.
func (n *Node) linkTo(mesh, rid string, lifecycle uint64) (*linkConn, *Error) {
	m := n.objectMesh(mesh)
	if m == nil {
		return nil, errNoMesh("", "", mesh)
	}
	if l := m.links.to(rid, lifecycle); l != nil {
		return l, nil
	}
	return nil, errNoLink("", "", rid)
}

// eachLink are the present links of all meshes.
func (n *Node) eachLink() iter.Seq[*linkConn] {
	return func(yield func(*linkConn) bool) {
		for _, m := range n.meshes {
			for _, l := range m.links.all() {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// peers returns how many links there are.
func (n *Node) peers() (count int) {
	for _, m := range n.meshes {
		count += len(m.links.all())
	}
	return count
}

// open prepares the link protocol and opens the mesh's port.
func (m *mesh) open() error {
	n := m.node
	if len(m.cfg.Keys) == 0 {
		return nil
	}
	m.link = link.Config{
		Mesh: m.cfg.Name, RID: n.cfg.RID, Lifecycle: n.id.Lifecycle, Role: wire.Role(m.cfg.Role),
		Keys: m.cfg.Keys, Window: linkCreditBytes,
	}
	if err := errors.Join(m.link.Validate(), n.liveConfig.Validate()); err != nil {
		return &Error{Kind: errkind.InvalidOperation, Op: "start", Object: n.cfg.RID, Err: err}
	}
	if err := m.openTLS(); err != nil {
		return &Error{Kind: errkind.InvalidOperation, Op: "start", Object: n.cfg.RID, Err: err}
	}
	if m.cfg.Listen == "" {
		return nil
	}
	l, err := n.engine.Listen(m.listen())
	if err != nil {
		return &Error{Kind: errkind.Unavailable, Op: "start", Object: n.cfg.RID, Text: "the link address " + m.cfg.Listen + " cannot be opened", Err: err}
	}
	m.endpoint = advertised(m.cfg.Advertise, l.Addr())
	return nil
}

// advertised is the address that peers dial: what the configuration says, with
// the listener's port where it names none.
func advertised(configured string, bound net.Addr) string {
	if configured == "" {
		return bound.String()
	}
	if _, _, err := net.SplitHostPort(configured); err == nil {
		return configured
	}
	_, port, _ := net.SplitHostPort(bound.String())
	return net.JoinHostPort(configured, port)
}

// connect starts the dials that are due and returns when the next one will be.
func (m *mesh) connect(nodes []store.Descriptor, now clock.Mono) clock.Mono {
	next := clock.Never
	wanted := map[string]bool{}
	for i := range nodes {
		d := &nodes[i]
		at, ok := d.In(m.cfg.Name)
		if !ok || !m.wants(d, &at) {
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
		if s.busy.Load() || m.links.to(d.RID, uint64(d.Lifecycle)) != nil {
			continue
		}
		if !now.Reached(s.next) {
			next = min(next, s.next)
			continue
		}
		s.next = now.Add(backoff(s.failures))
		s.failures++
		m.start(s, d.RID, at.Endpoint)
	}
	for rid, s := range m.dial {
		if !wanted[rid] && !s.busy.Load() {
			delete(m.dial, rid)
		}
	}
	return next
}

// wants reports whether this node has to dial d, which is in the mesh as at says.
func (m *mesh) wants(d *store.Descriptor, at *store.MeshEntry) bool {
	switch {
	case len(m.link.Keys) == 0, d.RID == m.node.cfg.RID, at.Endpoint == "", d.LeaseLeft <= 0:
		return false
	case m.cfg.Role != store.RoleServer && at.Role != store.RoleServer:
		return false // two object clients have nothing to say to each other
	case m.endpoint == "":
		return true // nobody can dial this node
	}
	return link.ShouldDial(m.node.cfg.RID, d.RID, false)
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
		if err := m.dialLink(ctx, endpoint, &linkHandler{mesh: m, expect: rid, dial: s}); err != nil {
			m.sayDialFailed(rid, endpoint, err)
			s.busy.Store(false)
			m.node.discovery.poke()
		}
	})
}

// protocol describes a link's connection to the engine.
func (m *mesh) protocol(h *linkHandler) *engine.Protocol {
	return &engine.Protocol{
		Name: "link", FrameSize: linkFrameSize, Handler: h, Placer: h,
		HelloTimeout: m.link.Timeout, OutMax: linkOutBytesMax, TrustLength: true,
		UnsentMax: linkUnsentMax,
	}
}
