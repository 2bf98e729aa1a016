package node

import (
	"context"
	"errors"
	"time"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/store"
)

// side says what a mesh value is: a mesh, or this node's side of a channel that has connections
// of its own, a ClientServer channel. Only clients dial, and only servers; who is both has two
// sides, and a connection from the one to the other. Nothing goes by these connections but
// messages to the channel, one way, and what answers them.
type side uint8

const (
	inMesh side = iota
	serverSide
	clientSide
)

// sideName begins the name of a channel's side where meshes have theirs, of which none has a
// colon.
const sideName = "channel:"

// other is the other end of a connection.
func (s side) other() string {
	if s == serverSide {
		return "client"
	}
	return "server"
}

// takes reports whether the other end may send such records.
func (s side) takes(cmd wire.Command) bool {
	switch cmd {
	case wire.CmdProbe, wire.CmdAck, wire.CmdCredit, wire.CmdGoodbye, wire.CmdReject:
		return true
	case wire.CmdNodeMessage:
		return s != clientSide
	case wire.CmdOffer, wire.CmdReply, wire.CmdError:
		return s != serverSide
	default:
		return s == inMesh
	}
}

// errOtherChannel closes a connection of a channel on which another one is named.
var errOtherChannel = &engine.CloseError{Reason: engine.CloseReason{Code: engine.ProtocolError, Text: "a record about something else on a connection of a channel"}}

// sides are a node's sides of one channel, nil where it is not.
type sides struct{ server, client *mesh }

// openSides makes the sides of the channels that have connections of their own.
func (n *Node) openSides() {
	n.sidesOf = map[string]sides{}
	for i := range n.cfg.ChannelServers {
		c := &n.cfg.ChannelServers[i]
		m := newSide(n, c.mesh(&n.cfg), serverSide)
		n.sides, n.sidesOf[c.Name] = append(n.sides, m), sides{server: m}
	}
	for i := range n.cfg.ChannelClients {
		c := &n.cfg.ChannelClients[i]
		m, both := newSide(n, c.mesh(&n.cfg), clientSide), n.sidesOf[c.Name]
		m.near, both.client = both.server, m
		n.sides, n.sidesOf[c.Name] = append(n.sides, m), both
	}
}

// named is the name that the hello has: the mesh's or the channel's.
func (m *mesh) named() string {
	if m.side == inMesh {
		return m.cfg.Name
	}
	return m.cfg.Name[len(sideName):]
}

// role is what the hello says that this node is.
func (m *mesh) role() wire.Role {
	switch m.side {
	case serverSide:
		return wire.RoleChannelServer
	case clientSide:
		return wire.RoleChannelClient
	default:
		return wire.Role(m.cfg.Role)
	}
}

// meshName is "" for a channel's side, channelName for a mesh.
func (m *mesh) meshName() string {
	if m.side == inMesh {
		return m.cfg.Name
	}
	return ""
}

func (m *mesh) channelName() string {
	if m.side == inMesh {
		return ""
	}
	return m.named()
}

// carries reports whether the links are for messages to that channel.
func (m *mesh) carries(channel []byte) bool {
	return m.side == inMesh || string(channel) == m.named()
}

// in returns what a node of the list is to this mesh, or to the client of a channel.
func (m *mesh) in(d *store.Descriptor) (store.MeshEntry, bool) {
	switch m.side {
	case serverSide: // which waits for its clients
		return store.MeshEntry{}, false
	case clientSide:
		endpoint, serves := d.Port(m.named())
		return store.MeshEntry{Endpoint: endpoint}, serves
	default:
		return d.In(m.cfg.Name)
	}
}

// channelPorts is what the node's descriptor says of its channels' ports.
func (n *Node) channelPorts() (ports []store.ChannelPort) {
	for _, m := range n.sides {
		if m.side == serverSide {
			ports = append(ports, store.ChannelPort{Channel: m.named(), Endpoint: m.endpoint})
		}
	}
	return ports
}

// ChannelEndpoint returns the address that clients of a channel dial, or "".
func (n *Node) ChannelEndpoint(name string) string {
	if m := n.sidesOf[name].server; m != nil {
		return m.endpoint
	}
	return ""
}

// channelMesh returns the mesh by which a channel is reached, or this node's client of it. A
// name has one way at a node, so that one with connections of its own is never looked for in a
// mesh.
func (n *Node) channelMesh(to *Target) (*mesh, *Error) {
	own, ok := n.sidesOf[to.ID]
	switch {
	case !ok:
		return n.meshOf(to)
	case own.client == nil:
		return nil, fail(errkind.NotConfigured, "", "", "this node serves the channel by connections of its own and is no client of it; name it in ChannelClients")
	case to.mesh != "":
		return nil, fail(errkind.InvalidOperation, "", "", "the channel has connections of its own and is in no mesh; name none")
	}
	return own.client, nil
}

// awaitServers is firstServers for whoever may be in a turn.
func (m *mesh) awaitServers(ctx context.Context, channel string, deadline clock.Mono) (s *servers, err *Error) {
	blocking(ctx, func() { s, err = m.firstServers(ctx, channel, deadline) })
	return s, err
}

// firstServers returns the servers of a channel. In a mesh there are some now or there are
// none; the client of a channel waits for the first, as it may be about to be linked.
func (m *mesh) firstServers(ctx context.Context, channel string, deadline clock.Mono) (*servers, *Error) {
	if s := m.channels.of(channel); s != nil {
		return s, nil
	}
	if m.side == inMesh {
		return nil, errNoServer
	}
	defer m.channels.waiting.Add(-1)
	if m.channels.waiting.Add(1) > waitersMax {
		return nil, errWaitersFull
	}
	n := m.node
	timer := time.NewTimer(min(firstServerWait, n.cfg.RequestTimeout, deadline.Sub(clock.Now())))
	defer timer.Stop()
	for {
		changed := n.news.watch()
		if s := m.channels.of(channel); s != nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, errNoServerYet
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, errNoServerYet
			}
			return nil, notSubmitted(ctx)
		case <-n.life.Done():
			return nil, errStopping
		}
	}
}
