package zlnode

import (
	"context"

	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/session"
)

// Channel is a channel that a node serves: Config.Channels. The node's Role may be any; whoever is
// in the mesh's list links to it for its channels. It should have Listen: nobody else can
// dial it, and gateways as a rule have none either.
type Channel struct {
	// Name is 1–255 bytes of UTF-8, case-sensitive. The application has defined it with
	// DefineChannel.
	Name string
	// Mesh is the one in which the node serves it. Default: the one in which it hosts objects,
	// or else Config.Mesh.
	Mesh string
	// Weight is the node's share of what is sent to the channel, 1–10,000; default 100. A
	// negative weight takes nothing, until SetChannelWeight.
	Weight int
}

// ChannelServer is a channel that a node serves by connections of its own, in place of the links
// of a mesh: Config.ChannelServers. Only its clients connect, and nothing goes there but messages
// to the channel and their replies, so that neither what flows in the meshes delays these, nor
// need who sends them be in a mesh.
type ChannelServer struct {
	// Name is as Channel's; the application has defined it with DefineChannel.
	Name string
	// Listen is the "host:port" for the channel's clients, and Advertise what they dial, as those
	// of Config. Listen is needed.
	Listen, Advertise string
	// Keys are those of the channel, as Config.MeshKeys, alike at its servers and clients. Whoever
	// holds one may send to the channel. Default: those of the main mesh.
	Keys [][]byte
	// TLSFiles are as Config.MeshTLS, for the channel's connections, at all its servers and clients
	// or at none. Default: MeshTLS.
	TLSFiles TLSFiles
	// Weight is as Channel's.
	Weight int
}

// ChannelClient is a channel that a node sends to by connections of the channel's own:
// Config.ChannelClients. The node connects to all servers of the channel that the Store's list
// has, and to the Peers. If it serves the channel too, it is its own client, as of any other
// server: what it sends may come to itself.
type ChannelClient struct {
	// Name is the channel's.
	Name string
	// Keys and TLSFiles are as ChannelServer's.
	Keys     [][]byte
	TLSFiles TLSFiles
	// Peers are servers of the channel, by what they listen on for its clients. They are all
	// that a node without a Store knows, but for itself. Up to 1,024.
	Peers []Peer
}

// HandlerOptions bound what the handlers of a channel, or of a node, do at once.
type HandlerOptions struct {
	// Concurrency is how many handlers run at once, up to 4,096; default GOMAXPROCS. With 1
	// they run one after the other, in the order in which the messages came. A handler that
	// waits lends its worker's place to others, but goes on to count here.
	Concurrency int
	// QueueMessages and QueueBytes bound what waits for a handler, each message with its
	// bytes and 256 more. It is part of Config.QueueBytes. A message that finds no room is
	// refused with Unavailable, from the node itself with CapacityExceeded. Messages: up to
	// 1,048,576, default 65,536. Bytes: from the largest message (1 MiB and a little) on,
	// default 32 MiB. Of one node no more than 8 MiB of records are under way: one that is
	// faster than the handlers waits.
	QueueMessages int
	QueueBytes    int64
}

// ChannelType is what an application does with the messages of a channel.
type ChannelType struct {
	app *node.App
	t   *node.ServiceType
}

// Name returns the channel's name.
func (t *ChannelType) Name() string { return t.t.Channel }

// DefineChannel registers a channel, once for each name. Nodes serve it that name it in
// Config.Channels or Config.ChannelServers; the others only send to it, for which they need not
// define it.
//
// Any node of the mesh may send to a channel, and to a node, and any that has a ChannelServer's
// key to that channel; a Filter can refuse some.
func DefineChannel(app *App, name string, o HandlerOptions) *ChannelType {
	return &ChannelType{app.app, app.app.AddChannel(name, node.ServiceOptions(o))}
}

// NodeHandlers sets the bounds of the handlers of OnNodeSend and OnNodeRequest.
func NodeHandlers(app *App, o HandlerOptions) {
	app.app.SetServiceOptions(app.app.Node, node.ServiceOptions(o))
}

// Service is what node and channel handlers are registered with: an App or a ChannelType.
type Service interface {
	service() (*node.App, *node.ServiceType)
}

func (a *App) service() (*node.App, *node.ServiceType)         { return a.app, a.app.Node }
func (t *ChannelType) service() (*node.App, *node.ServiceType) { return t.app, t.t }

// NodeCall is a message to a channel or a node, in its handler, and the context of that
// handler: it has the message's deadline, which what the handler asks of others has too. It
// must not be kept after the handler nor used by another goroutine.
type NodeCall struct {
	context.Context
	inner *node.NodeCall
}

func nodeCall(c *node.NodeCall) *NodeCall {
	o, ok := c.Outer.(*NodeCall)
	if !ok {
		o = &NodeCall{c, c}
		c.Outer = o
	}
	return o
}

// Node returns the node that handles the message.
func (c *NodeCall) Node() *Node { return c.inner.Node().Outer().(*Node) }

// From returns the RID of the node that sent the message: the one that the link's handshake has
// proved, whatever the message says. By the mesh key alone a node proves that it is of the mesh
// and may choose any RID; with Config.MeshTLS it proves its own.
func (c *NodeCall) From() string { return c.inner.From() }

// Mesh returns the mesh by which the message came; "" if by a connection of the channel's own.
func (c *NodeCall) Mesh() string { return c.inner.Mesh() }

// Channel returns the channel's name; "" of a message to the node itself.
func (c *NodeCall) Channel() string { return c.inner.Channel() }

// Packet returns the packet's name.
func (c *NodeCall) Packet() string { return c.inner.Name() }

// IsRequest reports whether the sender waits for a reply.
func (c *NodeCall) IsRequest() bool { return c.inner.Asks() }

// Codec returns how the payload is encoded.
func (c *NodeCall) Codec() Codec { return Codec(c.inner.Codec()) }

// Metadata returns the message's metadata, valid during the call.
func (c *NodeCall) Metadata() session.Metadata { return c.inner.Metadata() }

// Filter has f run around every handler of a channel, or of the node itself if on is the App:
// for who may ask, metrics, tracing. next runs the filters that were registered later and
// then the handler, and returns its error; f calls it once, or not at all and returns the
// error with which the message ends. A one-way message that f neither lets through nor
// refuses is over; a request ends with InternalFailure then. Messages without a handler come
// to no filter.
func Filter(on Service, f func(c *NodeCall, next func() error) error) {
	_, t := on.service()
	t.AddFilter(func(c *node.NodeCall, next func() error) error { return f(nodeCall(c), next) })
}

// OnNodeSend registers the handler of a one-way packet to this node itself, decoded as its
// codec says. Up to HandlerOptions.Concurrency of them run at once. An error is logged and
// counted; the sender does not learn of it.
func OnNodeSend[M any](app *App, packet string, h func(c *NodeCall, m M) error) {
	onSend(app, packet, h)
}

// OnNodeRequest registers the handler of a request to this node itself. Its reply has the
// request's codec. An error that it returns is the caller's result.
func OnNodeRequest[Q, R any](app *App, packet string, h func(c *NodeCall, q Q) (R, error)) {
	onRequest(app, packet, h)
}

// OnNodeSendRaw registers the handler of a one-way packet to this node itself with any
// payload, which is valid during the call and must not be modified.
func OnNodeSendRaw(app *App, packet string, h func(c *NodeCall, payload []byte) error) {
	onSendRaw(app, packet, h)
}

// OnNodeRequestRaw registers the handler of a request to this node itself with any payload,
// which is valid during the call and must not be modified. The reply has codec Raw and is
// copied when the handler has ended; it may be the payload.
func OnNodeRequestRaw(app *App, packet string, h func(c *NodeCall, payload []byte) ([]byte, error)) {
	onRequestRaw(app, packet, h)
}

// OnChannelSend is OnNodeSend for messages to the channel.
func OnChannelSend[M any](t *ChannelType, packet string, h func(c *NodeCall, m M) error) {
	onSend(t, packet, h)
}

// OnChannelRequest is OnNodeRequest for messages to the channel.
func OnChannelRequest[Q, R any](t *ChannelType, packet string, h func(c *NodeCall, q Q) (R, error)) {
	onRequest(t, packet, h)
}

// OnChannelSendRaw is OnNodeSendRaw for messages to the channel.
func OnChannelSendRaw(t *ChannelType, packet string, h func(c *NodeCall, payload []byte) error) {
	onSendRaw(t, packet, h)
}

// OnChannelRequestRaw is OnNodeRequestRaw for messages to the channel.
func OnChannelRequestRaw(t *ChannelType, packet string, h func(c *NodeCall, payload []byte) ([]byte, error)) {
	onRequestRaw(t, packet, h)
}

func onSend[M any](on Service, packet string, h func(c *NodeCall, m M) error) {
	onSendRaw(on, packet, func(c *NodeCall, payload []byte) error {
		var m M
		if err := decode(c.Codec(), payload, &m); err != nil {
			return err
		}
		return h(c, m)
	})
}

func onRequest[Q, R any](on Service, packet string, h func(c *NodeCall, q Q) (R, error)) {
	app, t := on.service()
	app.OnNodeRequest(t, packet, func(c *node.NodeCall, payload []byte) (node.Reply, error) {
		var q Q
		if err := decode(Codec(c.Codec()), payload, &q); err != nil {
			return node.Reply{}, err
		}
		r, err := h(nodeCall(c), q)
		return reply(Codec(c.Codec()), r, err)
	})
}

func onSendRaw(on Service, packet string, h func(c *NodeCall, payload []byte) error) {
	app, t := on.service()
	app.OnNodeSend(t, packet, func(c *node.NodeCall, payload []byte) error { return h(nodeCall(c), payload) })
}

func onRequestRaw(on Service, packet string, h func(c *NodeCall, payload []byte) ([]byte, error)) {
	app, t := on.service()
	app.OnNodeRequest(t, packet, func(c *node.NodeCall, payload []byte) (node.Reply, error) {
		r, err := h(nodeCall(c), payload)
		return node.Reply{Payload: r}, err
	})
}

// Peer returns the address of a node, by its RID: messages go to that node and no other, and
// to this one itself without a link. The kinds of errors are those of Send and Request, but:
// NotFound, no such node is listed in the mesh nor was ever linked, or it has no such
// handler; Unavailable, it is known and not linked now, or is shutting down. Nobody else is
// asked. Two nodes of RoleClient, such as a gateway and a tool, have no link unless one has the
// other in its Peers or serves a channel.
func (n *Node) Peer(rid string) Addr {
	return Addr{node: n.inner, to: n.inner.PeerTarget(rid), as: JSON}
}

// Channel returns the address of a channel: each message goes to one of the other nodes that
// serve it now, with a weight above 0, in the share of their weights, spread as evenly as can
// be. If the link to that node takes nothing at once, as too much for it is under way, the
// message goes to another server; if none takes it, it waits for the first that does, up to
// the send timeout. Once a link has taken it, it is sent to nobody else: a request whose link
// is lost ends Unavailable, and its handler may have run.
//
// The kinds of errors are those of Send and Request, but: Unavailable, no other node serves
// the channel now, or the queue of the one that was chosen is full; NotFound, that one has no
// such handler. A node never sends to itself by a channel.
//
// Of a channel in Config.ChannelClients the servers are those that the node is connected to,
// which may be itself. If there is none, the message waits for the first: for 5 s, the node's
// RequestTimeout or up to its deadline, whichever is the shortest, and ends Unavailable then. It is
// InvalidOperation to name a mesh for it, and NotConfigured to send from a node that is in
// ChannelServers alone.
func (n *Node) Channel(name string) Addr {
	return Addr{node: n.inner, to: n.inner.ChannelTarget(name), as: JSON}
}

// SetChannelWeight changes the node's share of a channel of Config.Channels or ChannelServers,
// from what others send after they have heard of it. With 0 nothing new comes; what has come is
// worked off. Kinds: NotConfigured, the node does not serve the channel; InvalidOperation, the
// weight is not in 0 to 10,000; ShuttingDown, as a node that stops has weight 0 in all channels.
func (n *Node) SetChannelWeight(name string, weight int) error {
	return n.inner.SetChannelWeight(name, weight)
}

// ChannelEndpoint returns the address that clients of a channel of Config.ChannelServers dial,
// or "".
func (n *Node) ChannelEndpoint(name string) string { return n.inner.ChannelEndpoint(name) }

// WaitChannel is WaitServers for the channel's address: in the mesh of the node's objects, or
// among those that a channel's client is connected to.
func (n *Node) WaitChannel(ctx context.Context, name string, servers int) error {
	return n.Channel(name).WaitServers(ctx, servers)
}

// WaitServers waits until that many nodes serve the channel of this address, in its mesh, with a
// weight above 0:
//
//	err := node.Channel("match").InMesh("eu").WaitServers(ctx, 2)
//
// This node counts if it is a ChannelClient and ChannelServer of it. Kinds: DeadlineExceeded, ctx
// has ended, and the text says how many there are; NotFound, the node is not in that mesh;
// NotConfigured, it is in ChannelServers alone; InvalidOperation, the address is not that of a
// channel, or names a mesh for one of ChannelClients; ShuttingDown.
func (a Addr) WaitServers(ctx context.Context, servers int) error {
	return a.node.WaitServers(ctx, &a.to, servers)
}
