package node

import (
	"errors"
	"fmt"
	"net"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/store"
)

// Mesh says what a node is in one mesh.
type Mesh struct {
	Name      string
	Keys      [][]byte // the first proves this node, each is accepted
	Role      store.Role
	Listen    string
	Advertise string
	Peers     []Peer
	TLSFiles  TLSFiles // of its links; zero: they are not encrypted
}

// Peer is a node that this one dials because its configuration says so.
type Peer struct {
	RID      string // "": whoever is there
	Endpoint string
}

const (
	// meshesMax bounds the meshes of a node: each has a port.
	meshesMax = 16
	// manualPeersMax bounds the peers of one mesh that the configuration names.
	manualPeersMax = 1024
)

// meshes returns all meshes of the node, the main one first.
func (c *Config) meshes() []Mesh {
	main := Mesh{Name: c.Mesh, Keys: c.MeshKeys, Role: c.Role, Listen: c.Listen, Advertise: c.Advertise, Peers: c.Peers, TLSFiles: c.MeshTLS}
	if len(c.MeshKey) > 0 {
		main.Keys = [][]byte{c.MeshKey}
	}
	return append([]Mesh{main}, c.Meshes...)
}

// home returns the mesh in which the node hosts objects, or else the main one.
func (c *Config) home() Mesh {
	all := c.meshes()
	for _, m := range all {
		if m.Role == store.RoleServer {
			return m
		}
	}
	return all[0]
}

// mesh returns the mesh of that name; "" is home.
func (c *Config) mesh(name string) (m Mesh, in bool) {
	if name == "" {
		return c.home(), true
	}
	for _, m := range c.meshes() {
		if m.Name == name {
			return m, true
		}
	}
	return Mesh{}, false
}

// objects reports whether the node uses or hosts objects.
func (c *Config) objects() bool {
	for _, m := range c.meshes() {
		if m.Role != store.RoleNone {
			return true
		}
	}
	return false
}

// meshFault is what is wrong with a mesh, and what kind of error that is.
type meshFault struct {
	kind errkind.Kind
	error
}

func wrong(format string, args ...any) *meshFault {
	return &meshFault{errkind.InvalidOperation, fmt.Errorf(format, args...)}
}

func lacking(format string, args ...any) *meshFault {
	return &meshFault{errkind.NotConfigured, fmt.Errorf(format, args...)}
}

// checkMeshes says what of the meshes cannot be.
func (c *Config) checkMeshes(types int) *meshFault {
	all := c.meshes()
	if len(all) > meshesMax {
		return wrong("%d meshes are more than %d", len(all), meshesMax)
	}
	if len(c.MeshKey) > 0 && len(c.MeshKeys) > 0 {
		return wrong("both MeshKey and MeshKeys are set")
	}
	server, names := "", map[string]bool{}
	for i := range all {
		m := &all[i]
		if names[m.Name] {
			return wrong("mesh %q is named twice", m.Name)
		}
		names[m.Name] = true
		if fault := m.check(i == 0, c); fault != nil {
			if i > 0 {
				fault.error = fmt.Errorf("mesh %q: %w", m.Name, fault.error)
			}
			return fault
		}
		if m.Role != store.RoleServer {
			continue
		}
		if server != "" {
			return wrong("Role is RoleServer in meshes %q and %q; the objects of a process live in one mesh only", server, m.Name)
		}
		if server = m.Name; types == 0 {
			return lacking("an object server needs at least one type of actors or spots; define one, or set Role to RoleClient if it only serves channels")
		}
	}
	return nil
}

func (m *Mesh) check(main bool, c *Config) *meshFault {
	keyed := m.Role != store.RoleNone || m.Listen != "" || len(m.Peers) > 0 || m.TLSFiles != (TLSFiles{}) || !main
	key, files := "Keys", "TLSFiles"
	if main {
		key, files = "MeshKey", "MeshTLS"
	}
	switch {
	case !meshForm.MatchString(m.Name):
		return wrong("mesh name %q must be 1 to 64 of A-Z a-z 0-9 . _ -", m.Name)
	case m.Role > store.RoleServer:
		return wrong("unknown object role %d", m.Role)
	case m.Role != store.RoleNone && c.StoreURL == "":
		return lacking("a node with an object role needs a Location Store; set StoreURL, or Role to RoleNone")
	case len(m.Keys) == 0 && keyed:
		return lacking("%s of at least %d bytes is needed; it has 0", key, link.KeyMin)
	case m.Role == store.RoleServer && m.Listen == "":
		return lacking("an object server needs a link address; set Listen")
	}
	if fault := m.checkKeys(key); fault != nil {
		return fault
	}
	if fault := m.checkPeers(c.RID); fault != nil {
		return fault
	}
	if fault := m.checkPort(); fault != nil {
		return fault
	}
	return m.checkTLS(files, c.RID)
}

// checkKeys says what of the keys cannot be; key is what the configuration calls them.
func (m *Mesh) checkKeys(key string) *meshFault {
	if len(m.Keys) > link.KeysMax {
		return wrong("%d mesh keys are more than %d", len(m.Keys), link.KeysMax)
	}
	for _, k := range m.Keys {
		if len(k) < link.KeyMin {
			return lacking("%s of at least %d bytes is needed; it has %d", key, link.KeyMin, len(k))
		}
	}
	return nil
}

func (m *Mesh) checkPort() *meshFault {
	if m.Listen == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(m.Listen)
	if err != nil {
		return wrong("link address %q: %w", m.Listen, err)
	}
	if ip := net.ParseIP(host); (host == "" || ip != nil && ip.IsUnspecified()) && m.Advertise == "" {
		return lacking("link address %q is a wildcard; set Advertise to the address that other nodes dial", m.Listen)
	}
	return nil
}

func (m *Mesh) checkPeers(self string) *meshFault {
	if len(m.Peers) > manualPeersMax {
		return wrong("%d Peers are more than %d", len(m.Peers), manualPeersMax)
	}
	rids, endpoints := map[string]bool{}, map[string]bool{}
	for _, p := range m.Peers {
		host, port, err := net.SplitHostPort(p.Endpoint)
		if err == nil && (host == "" || port == "") {
			err = errors.New("host and port are needed")
		}
		switch {
		case err != nil:
			return wrong("peer %q: %w", p.Endpoint, err)
		case p.RID != "" && !ridForm.MatchString(p.RID):
			return wrong("peer %q: RID %q must be 1 to 64 of A-Z a-z 0-9 . _ -, or empty", p.Endpoint, p.RID)
		case p.RID == self:
			return wrong("peer %q: %q is this node's own RID", p.Endpoint, p.RID)
		case endpoints[p.Endpoint] || p.RID != "" && rids[p.RID]:
			return wrong("peer %q is named twice", p.Endpoint)
		}
		endpoints[p.Endpoint], rids[p.RID] = true, true
	}
	return nil
}
