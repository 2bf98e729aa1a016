package node

import (
	"cmp"
	"fmt"

	"github.com/zlnode/zlnode/internal/wire"
)

// ChannelServer says by which port a node serves a channel that has connections of its own.
type ChannelServer struct {
	Name      string
	Weight    int
	Keys      [][]byte // none: those of the main mesh
	Listen    string
	Advertise string
	TLSFiles  TLSFiles // zero: those of the main mesh, if it has some
}

// ChannelClient says that a node sends to such a channel.
type ChannelClient struct {
	Name     string
	Keys     [][]byte // none: those of the main mesh
	Peers    []Peer   // servers, besides those that the Store's list has
	TLSFiles TLSFiles // zero: those of the main mesh, if it has some
}

// sideMesh is what a channel's side has of a mesh.
func (c *Config) sideMesh(channel string, keys [][]byte, files TLSFiles) Mesh {
	m := Mesh{Name: sideName + channel, Keys: keys, TLSFiles: cmp.Or(files, c.MeshTLS)}
	if len(keys) == 0 {
		m.Keys = c.meshes()[0].Keys
	}
	return m
}

func (s *ChannelServer) mesh(c *Config) Mesh {
	m := c.sideMesh(s.Name, s.Keys, s.TLSFiles)
	m.Listen, m.Advertise = s.Listen, s.Advertise
	return m
}

func (s *ChannelClient) mesh(c *Config) Mesh {
	m := c.sideMesh(s.Name, s.Keys, s.TLSFiles)
	m.Peers = s.Peers
	return m
}

// checkChannelSides says what of the channels with connections of their own cannot be. inMeshes
// are those that the node serves in its meshes.
func (c *Config) checkChannelSides(app *App, inMeshes map[string]bool) *meshFault {
	if n := max(len(c.ChannelServers), len(c.ChannelClients)); n > sidesMax {
		return wrong("%d channels with connections of their own are more than %d", n, sidesMax)
	}
	served, used := map[string]bool{}, map[string]bool{}
	for i := range c.ChannelServers {
		s := &c.ChannelServers[i]
		switch {
		case app.Channels[s.Name] == nil:
			return lacking("the node shall serve channel %q, which is not defined", s.Name)
		case served[s.Name]:
			return wrong("channel %q is named twice in ChannelServers", s.Name)
		case s.Weight < 0 || s.Weight > weightMax:
			return wrong("weight %d of channel %q is not in 0 to %d", s.Weight, s.Name, weightMax)
		case s.Listen == "":
			return lacking("the server of channel %q needs an address for its clients; set Listen", s.Name)
		}
		served[s.Name] = true
		if fault := c.checkSide(s.Name, s.mesh(c), inMeshes); fault != nil {
			return fault
		}
	}
	for i := range c.ChannelClients {
		s := &c.ChannelClients[i]
		switch {
		case !wire.ValidID(s.Name):
			return wrong("channel %q: a channel name has 1 to %d bytes of UTF-8", s.Name, idBytesMax)
		case used[s.Name]:
			return wrong("channel %q is named twice in ChannelClients", s.Name)
		case c.StoreURL == "" && len(s.Peers) == 0 && !served[s.Name]:
			return lacking("a client of channel %q can find no server; set StoreURL, or Peers", s.Name)
		}
		used[s.Name] = true
		if fault := c.checkSide(s.Name, s.mesh(c), inMeshes); fault != nil {
			return fault
		}
	}
	return nil
}

func (c *Config) checkSide(name string, m Mesh, inMeshes map[string]bool) *meshFault {
	if inMeshes[name] {
		return wrong("channel %q is served in a mesh and has connections of its own too; a channel has one way", name)
	}
	if len(m.Keys) == 0 {
		return lacking("channel %q has no key for its connections; set Keys, or MeshKey", name)
	}
	fault := m.checkKeys("Keys")
	if fault == nil {
		fault = m.checkPeers(c.RID)
	}
	if fault == nil {
		fault = m.checkPort()
	}
	if fault == nil {
		fault = m.checkTLS("TLSFiles", c.RID)
	}
	if fault != nil {
		fault.error = fmt.Errorf("channel %q: %w", name, fault.error)
	}
	return fault
}
