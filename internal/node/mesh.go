package node

import (
	"errors"
	"iter"
	"net"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/store"
)

// mesh is one of the meshes that this node is part of, or its side of a channel that has
// connections of its own. Its links, and what it dials, are its own: two nodes that share two
// meshes have a link in each.
type mesh struct {
	node     *Node
	cfg      Mesh
	side     side
	link     link.Config // without Keys there are no links
	tls      *linkTLS    // nil: links are not encrypted
	endpoint string      // that peers dial; empty: none
	bound    net.Addr    // the port; nil: none
	near     *mesh       // of a channel's client: its server, if that is this node too
	links    *links
	peers    *peers
	topics   topics
	channels *channels
}

func newMesh(n *Node, cfg Mesh) *mesh { return newSide(n, cfg, inMesh) }

func newSide(n *Node, cfg Mesh, s side) *mesh {
	m := &mesh{node: n, cfg: cfg, side: s, links: newLinks(n.cfg.RID, n.news), topics: newTopics()}
	m.peers, m.channels = newPeers(m), newChannels(m)
	return m
}

// newMeshes makes the meshes of the configuration; the main one is the first. Objects live in
// the one in which this node hosts them: else nothing of theirs ever asks.
func (n *Node) newMeshes() {
	for _, cfg := range n.cfg.meshes() {
		n.meshes = append(n.meshes, newMesh(n, cfg))
	}
	n.home = n.meshNamed(n.cfg.home().Name)
	n.openSides()
}

// hosts reports whether objects can live at this node.
func (n *Node) hosts() bool { return n.home.cfg.Role == store.RoleServer }

// meshNamed returns the mesh of that name, or nil.
func (n *Node) meshNamed(name string) *mesh {
	for _, m := range n.meshes {
		if m.cfg.Name == name {
			return m
		}
	}
	return nil
}

// objectMesh returns the mesh of that name, if this node uses or hosts objects in it; else nil.
func (n *Node) objectMesh(name string) *mesh {
	if m := n.meshNamed(name); m != nil && m.cfg.Role != store.RoleNone {
		return m
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

// eachNet are the meshes, and the sides of channels that have connections of their own.
func (n *Node) eachNet() iter.Seq[*mesh] {
	return func(yield func(*mesh) bool) {
		for _, nets := range [...][]*mesh{n.meshes, n.sides} {
			for _, m := range nets {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// eachLink are the present links, of meshes and channels.
func (n *Node) eachLink() iter.Seq[*linkConn] {
	return func(yield func(*linkConn) bool) {
		for m := range n.eachNet() {
			for _, l := range m.links.all() {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// linkCount returns how many links there are.
func (n *Node) linkCount() (count int) {
	for m := range n.eachNet() {
		count += len(m.links.all())
	}
	return count
}

// manualPeers returns how many peers the configuration names. What only it knows of, the Store's
// list does not tell others.
func (n *Node) manualPeers() (count int) {
	for m := range n.eachNet() {
		count += len(m.cfg.Peers)
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
		Mesh: m.named(), RID: n.cfg.RID, Lifecycle: n.id.Lifecycle, Role: m.role(),
		Keys: m.cfg.Keys, Window: linkCreditBytes, MinVersion: n.cfg.Speaks[0], MaxVersion: n.cfg.Speaks[1],
	}
	if err := errors.Join(m.link.Validate(), n.liveConfig.Validate()); err != nil {
		return &Error{Kind: errkind.InvalidOperation, Op: "start", Object: n.cfg.RID, Err: err}
	}
	if err := m.openTLS(); err != nil {
		return &Error{Kind: errkind.InvalidOperation, Op: "start", Object: n.cfg.RID, Err: err}
	}
	if m.near != nil {
		m.peers.dialNear(m.near)
	}
	if m.cfg.Listen == "" {
		return nil
	}
	l, err := n.engine.Listen(m.listen())
	if err != nil {
		return &Error{Kind: errkind.Unavailable, Op: "start", Object: n.cfg.RID, Text: "the link address " + m.cfg.Listen + " cannot be opened", Err: err}
	}
	m.bound, m.endpoint = l.Addr(), advertised(m.cfg.Advertise, l.Addr())
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
	due, next := m.peers.due(nodes, now)
	for _, d := range due {
		m.peers.start(d)
	}
	return next
}

// protocol describes a link's connection to the engine.
func (m *mesh) protocol(h *linkHandler) *engine.Protocol {
	return &engine.Protocol{
		Name: "link", FrameSize: linkFrameSize, Handler: h, Placer: h,
		HelloTimeout: m.link.Timeout, OutMax: linkOutBytesMax, TrustLength: true,
		UnsentMax: linkUnsentMax,
	}
}
