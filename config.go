package zlnode

import (
	"crypto/tls"
	"net/netip"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"github.com/zlnode/zlnode/internal/lease"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/store"
)

// Role says what a node does with Actors.
type Role uint8

// The roles.
const (
	// RoleNone: no Actors at all; needs no Store. It sends to nodes, channels and topics, serves
	// channels, and may have Sessions, whose handlers bind nothing. Without a Store it links to
	// its Peers and to who dials it, and to nobody else.
	RoleNone Role = iota
	// RoleClient: uses Actors of other nodes, hosts none. Gateways have it, and nodes that only
	// serve channels in a mesh with a Store.
	RoleClient
	// RoleServer: hosts Actors and uses those of others.
	RoleServer
)

// Config says how a node runs. The zero value of a field is its default; Start
// checks everything before it opens a socket.
type Config struct {
	// RID names the node: 1–64 of A-Z a-z 0-9 . _ -. Default: RIDPrefix, a dash
	// and eight random hex digits. Two processes with one RID cannot run at once:
	// the second waits at Start for the first one's lease to end.
	RID string
	// RIDPrefix begins generated names. Default "node".
	RIDPrefix string
	// Mesh is the mesh that the node is part of; nodes of different meshes do not
	// link. Default "main". Meshes are further ones.
	Mesh string
	// MeshKey is the secret that all nodes of the mesh share, 16 bytes or more of
	// random data. Needed for the roles Client and Server.
	MeshKey []byte
	// MeshKeys, in place of MeshKey, are up to four keys, so that a mesh gets another key
	// while it runs: the first proves this node to others, and whoever holds any of them is
	// let in. Restart the nodes one by one in three rounds, each behind the end of the one
	// before: with {old, new}, with {new, old}, with {new}. Nodes of neighbouring rounds
	// link; of others they do not.
	MeshKeys [][]byte
	// MeshTLS, if set, has the mesh's links encrypted, by TLS 1.3, and its nodes prove to each
	// other who they are: CertFile is this node's certificate, KeyFile its key, ClientCAFile
	// the roots that vouch for the other nodes' certificates; all three are needed. A mesh has
	// it at all its nodes or at none: others do not link. The mesh key is needed as without.
	//
	// One of the certificate's DNS names is the node's RID, letter by letter, so RID must be
	// set; or it is *.zone for RIDs of one label and .zone. It must be good as a server's and
	// as a client's. The files are followed: the next link uses what is in them then, links
	// that are open stay. SECURITY.md tells how to make the files and how to change them.
	MeshTLS TLSFiles
	// Role says what the node does with Actors. Default RoleNone.
	Role Role

	// Listen is the "host:port" for links of other nodes; port 0 takes a free
	// one. Needed for RoleServer. A node without it dials only.
	Listen string
	// Advertise is the address that other nodes dial, "host" or "host:port".
	// Default: the address that Listen was bound to. It must be set if that is a
	// wildcard, and should be if other machines cannot reach it.
	Advertise string
	// Peers are nodes that this one dials because they are named here, besides those that it
	// finds by the Store. They are all that a node without Store links to, and who dials it.
	// Up to 1,024.
	Peers []Peer

	// Meshes are the meshes that the node is part of besides the main one, of which the
	// fields above speak; up to 15. Role may be RoleServer in one mesh at most, in which the
	// node's Actors live: they never leave it. A node that is no server, such as a gateway,
	// may be RoleClient in several, whose Actors it reaches and binds alike.
	Meshes []Mesh
	// Sessions are the ports for clients. They are opened last.
	Sessions []SessionListener

	// StoreURL is the Location Store: redis://user:password@host:port/db,
	// rediss:// for TLS, or with the parameters cluster=true&addr=host:port or
	// master_name=name&addr=host:port for Cluster and Sentinel. Needed for
	// RoleClient and RoleServer: without it such a node refuses to start.
	StoreURL string
	// Namespace separates worlds that share a Redis. Default "default".
	Namespace string
	// WaitReplicas is how many replicas of the Redis must have confirmed a change before
	// it counts, so that a failover to one of them loses nothing that was answered. With
	// fewer of them nothing is created or renewed: without its replicas nobody stays
	// owner. Default 0: none. Not with a Cluster nor the embedded store.
	WaitReplicas int
	// RecoveryHold is how long nothing new is created in a namespace that was found
	// empty, or after Redis failed over or restarted: until then, nodes may act whose
	// leases and rows the Store has lost. A node that could not write its rows again by
	// then, less the lease margin, acts no longer until it has. Set it alike on all nodes
	// of a namespace. Default: lease TTL and margin (20 s). At least the lease TTL, as a
	// node acts for nearly that long before it hears of the loss; a shorter one is an
	// error at start.
	// Negative: no hold and no such end of acting, for a namespace that nobody can have
	// used before and whose data cannot be lost, as in tests. The embedded store needs
	// none.
	RecoveryHold time.Duration
	// StoreFailureGrace is how long the last complete node list stays in use while the
	// Store does not answer. After it no node is dialled or chosen for a new Actor until
	// the list is read again; open links stay. It extends no lease. Default 30 s.
	StoreFailureGrace time.Duration

	// RouteCacheMaxAge is how long messages to an id go where the Store said its object is,
	// without asking again; never past the end of its owner's lease less the margin. A route
	// that turns out to be wrong is forgotten at once. Default 15 s. Negative: the Store is
	// asked for each message to another node.
	RouteCacheMaxAge time.Duration

	// Weight is the node's share of new Actors, 1–10,000; default 100. A negative
	// weight takes none.
	Weight int
	// MaxActors bounds the Actors that the node hosts, at most 2,147,483,647. 0: no
	// bound.
	MaxActors int
	// MaxSpots bounds the User and Instance Spots that the node hosts, as MaxActors; see
	// MaxPerNode for those of one type.
	MaxSpots int
	// InstanceSpotIdleTimeout is how long an Instance Spot is kept that has nothing to do:
	// after that time since its last turn, with nothing queued and no timer, it is closed,
	// and its id is free for the next one. 0, the default: never.
	InstanceSpotIdleTimeout time.Duration
	// AppVersion is published with the node: text of at most 255 bytes. Relocate moves objects to
	// nodes of the same one, or of a higher one: for that it is a semantic version, "1.4.0".
	AppVersion string
	// MaintenanceWave names the nodes that are relocated one after the other, such as those of one
	// rack: none of them is a target of another's Relocate. Text of at most 255 bytes. Default: "",
	// in which no node is; it is a target of all.
	MaintenanceWave string

	// Channels are the channels that the node serves: App has their handlers, and other nodes
	// learn of them as soon as they are linked. Up to 1,024.
	Channels []Channel
	// ChannelServers and ChannelClients are channels that have connections of their own: those
	// that the node serves, each by a port, and those that it sends to. A channel may be in
	// both, but not in Channels too: a name has one way. Up to 64 each.
	ChannelServers []ChannelServer
	ChannelClients []ChannelClient

	// Workers is how many handlers run at once, blocked ones not counted.
	// Default GOMAXPROCS.
	Workers int
	// Loops is the number of event loops. Default half of GOMAXPROCS, 1 at least. A
	// loop that waits for its sockets may keep its processor from other goroutines
	// for up to 10 ms; with as many loops as processors the slowest percent of all
	// messages takes that long. Give a process two processors or more.
	Loops int

	// QueueBytes bounds what all objects and Sessions of the node have queued, each
	// message with its bytes and 256 more; the first 2 KiB of each object are free. At
	// least 1 MiB; default 256 MiB. With all of it in use messages are refused as those
	// for a full queue are.
	QueueBytes int64
	// ObjectQueueMessages and ObjectQueueBytes bound what one object has queued, counted as
	// above; a message that finds no room is refused with CapacityExceeded, from another
	// node with Unavailable. More takes bursts, less tells senders of a slow object earlier.
	// Messages: up to 1,048,576, default 4,096. Bytes: from the largest message (1 MiB and a
	// little) on, default 1 KiB for each of the messages, at least 4 MiB.
	ObjectQueueMessages int
	ObjectQueueBytes    int64

	// LeaseRenew, LeaseTimeout, LeaseTTL and LeaseMargin keep the owner lease:
	// the time between renewals (5 s), of one renewal (3 s), of the lease (15 s),
	// and by which the node stops to act before the lease ends (5 s). Renew plus
	// timeout must be less than TTL minus margin.
	LeaseRenew, LeaseTimeout, LeaseTTL, LeaseMargin time.Duration
	// SendTimeout is how long a send waits for a node that takes messages slowly.
	// Default 1 s; then it ends DeadlineExceeded and nothing was sent.
	SendTimeout time.Duration
	// RequestTimeout bounds requests whose context has no earlier deadline, and
	// clients' requests to Actors. Default 30 s.
	RequestTimeout time.Duration
	// CreateTimeout bounds Create, GetOrCreate, Find, Destroy and Close calls whose
	// context has no earlier deadline. Default 5 s.
	CreateTimeout time.Duration
	// SessionRelocationSealTimeout is how long a Session waits for the end of a bound
	// Actor's move to another node. Its packets for the Actor wait meanwhile; when the time
	// is over the client's connection is closed. The Actor's state has this time less 1.5 s
	// to reach the other node, else it stays; raise it for large states, at all nodes.
	// Default 3 s; more than 1.5 s.
	SessionRelocationSealTimeout time.Duration

	// MessageFollowDuration is how long a node relays what still comes for an object that
	// has moved from it to another node. Default 30 s, at least RouteCacheMaxAge and 5 s;
	// negative: not at all.
	MessageFollowDuration time.Duration
	// RelocationCutoverWaitTimeout is how long the node that an object comes to waits, in
	// silence, for the last word of the one that it leaves, before it takes the object over
	// without it. Default 1 s.
	RelocationCutoverWaitTimeout time.Duration
	// RelocationChunkBytes is the largest piece, encoded, of the state of objects that
	// come here: a message behind one waits for it. 1 KiB to 1 MiB, default 256 KiB.
	RelocationChunkBytes int
	// RelocationLinkBytes bounds the bytes of moving state that are sent to one node and
	// not yet acknowledged, RelocationNodeBytes those to all nodes; larger states flow
	// through them. A link has no more under way than its road and the other node work off
	// as it comes, so only a road of more than 16 MiB, such as 1.3 Gbit/s at 100 ms, is
	// slower for the default. Default 16 MiB, and no bound; negative: no bound.
	RelocationLinkBytes, RelocationNodeBytes int64
	// RelocationCompression compresses the state of objects that leave, where that pays.
	// Default: none.
	RelocationCompression Compression
	// MaxMoves bounds the objects that leave the node at once: the state of each is in
	// memory. More wait for their turn, and work on, until the deadline of their Join or of the
	// relocation. MaxRestores bounds those that come and whose factory and adapter run at once; more wait as long. 1 to 65,536,
	// default 64. A node that is relocated has no more objects leave at once than make it go
	// faster, which it finds out: more would only stand still for longer.
	//
	// All of these but RelocationCompression can be changed while the node runs: see
	// SetRelocationLimits.
	MaxMoves, MaxRestores int

	// Admin is a port for operators. Default: none.
	Admin AdminPort

	// Logger gets the node's log, each line with the RID as "node". The zero value logs
	// nothing; then causes that callers are not told, such as a handler's panic, are lost.
	// Level Debug tells each step of Joins and moves, with the OperationID. The Redis client
	// under StoreURL writes failed dials to standard error beside it: it has one logger for
	// the process, which SetLogger of github.com/redis/go-redis/v9 replaces.
	Logger zerolog.Logger

	// Tracer makes spans of what the node does: one of each client's packet (server), of each
	// message and request that is sent (producer, client), of each turn for one (consumer,
	// server), of each CreateActor and the like, of the creation at the node that is chosen for it
	// (internal, with the same "zlnode.operation"), of what a Join asks at its node, and of a move
	// at both of its nodes (internal, with the same "zlnode.relocation"). A turn is the context of its span. Spans of several
	// nodes are of one trace, as messages carry what W3C Trace Context names a span by, which
	// takes 25 bytes beside those of a Flow; a node without a Tracer passes it on. Clients
	// bring no trace. Names and attributes of spans are types, packets that have a handler or
	// that the program sends, and kinds of errors; with TraceIDs ids of objects, Sessions and
	// flows, too. Default: nil, which costs nothing.
	Tracer   trace.Tracer
	TraceIDs bool
}

// Mesh is one of the meshes that a node is part of besides its main one. Its nodes share
// keys, and have links of their own: who holds the key of one mesh reaches the Actors of no
// other.
type Mesh struct {
	// Name names the mesh, as Config.Mesh does; no two of a node's meshes have one name.
	Name string
	// Keys are the mesh's, as Config.MeshKeys. Needed.
	Keys [][]byte
	// Role says what the node does with Actors of the mesh. RoleNone, the default: nothing.
	Role Role
	// Listen, Advertise and Peers are as those of Config. A mesh has a port of its own.
	Listen, Advertise string
	Peers             []Peer
	// TLSFiles are as Config.MeshTLS, for the links of this mesh.
	TLSFiles TLSFiles
}

// Peer is a node that is dialled because the configuration names it. The other one need not
// know of this one. If both are in the Store's list, too, or name each other, there is one link
// all the same.
type Peer struct {
	// RID is the node's name: another one that answers is refused. "": whoever is there. A
	// node with such a peer that turns out to be itself dials it once a minute only.
	RID string
	// Endpoint is its "host:port". A name is looked up at each dial.
	Endpoint string
}

// SessionListener is a port for clients.
type SessionListener struct {
	// Addr is "host:port"; port 0 takes a free one (see Node.SessionAddrs).
	Addr string
	// Type is the session type of its clients.
	Type string
	// FrameMax bounds a client's frame, header and payload, in bytes. A larger
	// one closes the connection before anything is allocated. Default 64 KiB;
	// negative: no bound but that of the protocol.
	FrameMax int
	// IdleTimeout closes a session without application input; heartbeats do not
	// count. Default 30 s; negative: never.
	IdleTimeout time.Duration
	// MaxConns bounds the port's connections, MaxPerIP those of one network, which is one
	// IPv4 address or what NetworkBits4 and NetworkBits6 say; more are closed when they
	// arrive. Default 65,536 and no bound.
	MaxConns, MaxPerIP int

	// AuthTimeout is what a client has until it has authenticated, if its session type has
	// Authenticate, from when the handshake of its Transport is over; the handshake and this
	// together may take 1 s more. Default 5 s.
	AuthTimeout time.Duration
	// CompressMin is the size, in bytes, from which on payloads to clients are
	// compressed (LZ4), if that saves an eighth at least. It takes about a microsecond
	// for each KiB, of a reply to another node's Actor on the event loop. What clients
	// compress is taken in any case. Default 0: never.
	CompressMin int
	// StartFlows begins a flow with each packet of a client that has none, so that all that
	// comes of it has one; the reply tells it the client. Default: no.
	StartFlows bool

	// Transport is what carries the clients' frames: TCP, the default, WS, TLS or WSS. A
	// frame is a binary message of a WebSocket; any path will do, there are no subprotocols
	// and no extensions.
	Transport Transport
	// TLSFiles are the PEM files of TLS and WSS. They are read at Start and followed: a new
	// certificate is used by the next handshake, without a restart; one that cannot be used
	// is logged, and the one before stays in use.
	TLSFiles TLSFiles
	// TLS is a configuration in place of TLSFiles. It is copied; the oldest version is TLS 1.2.
	TLS *tls.Config `json:"-"`
	// Origins are those of the web pages that may connect by WS and WSS, each as a browser
	// says it: "https://example.org". Default: any. Clients that are no browsers say none
	// and may connect: who a client is, its first packet says, not where its page is from
	// nor a cookie, which the node does not look at.
	Origins []string
	// TrustedProxies are the networks of load balancers, whose connections must begin with a
	// header of the PROXY protocol, version 1 or 2: the client's address is the one that
	// it names, for limits too. Default: none, and such a header is a bad frame. Only
	// balancers must be able to connect from these networks.
	TrustedProxies []netip.Prefix

	// MaxUnadmitted bounds the connections of clients that have not authenticated, if their
	// session type has Authenticate, or are not through the handshake of TLS or WebSocket,
	// which must be over 2 s after the connection was made (AuthTimeout and 1 s if the type
	// has Authenticate). Default 4,096. MaxHandshakes bounds those of them in a handshake of
	// TLS or before a proxy's header, default 1,024. Negative: no bound.
	MaxUnadmitted, MaxHandshakes int
	// ConnRate bounds how often connections come to the port, NetworkRate how often from
	// one network; more are closed when they arrive. Default: no bounds.
	ConnRate, NetworkRate ConnRate
	// NetworkBits4 and NetworkBits6 say which IPv4 and IPv6 addresses are one network, for
	// MaxPerIP and NetworkRate: those with the same first bits. Default 32 and 64.
	NetworkBits4, NetworkBits6 int
	// InputRate bounds what one client sends, in bytes and in frames; one that sends more
	// is closed. The bytes that it allows at once must not be less than FrameMax; what comes
	// within one turn of an event loop counts as at once. Default: no bound.
	InputRate InputRate
	// FrameTimeout is how long a frame may take from its first byte to its last, default
	// 5 s. StallTimeout closes a client that takes no byte while some wait for it, default
	// 10 s.
	FrameTimeout, StallTimeout time.Duration

	// OutBytes, OutBurstBytes and OutTime bound what waits for a client that takes less than
	// it is sent. Messages that must be delivered (replies, and pushes but for those of
	// other classes) may be OutBurstBytes together, and OutBytes for longer than OutTime;
	// and while they wait, the client must take something within OutTime. Else the session
	// is closed as slow. So the burst of one tick may be as large as OutBurstBytes. Pushes of
	// NewestPerKey, and those of DropOldest, have OutBytes besides; beyond it the oldest of
	// them go. Each message counts 32 bytes more than its frame, and may take four times that
	// in memory. Times are looked at four times a second.
	//
	// OutBytes from 1 KiB on, default 1 MiB; OutBurstBytes up to 1 GiB, not less than
	// OutBytes, default 4 MiB; OutTime at least 250 ms, default 5 s.
	OutBytes, OutBurstBytes int
	OutTime                 time.Duration

	// ReconnectGrace is for how long a Session that has a ResumeToken is reserved when its
	// connection is lost: its Actors stay bound and know it (ActorCall.Reconnecting,
	// ReconnectingObserver), what is pushed to it is kept, and a new Session can Resume it.
	// Then it ends as any other. Up to 1 h; default 0: never.
	//
	// A connection is lost if it is reset, or ends without a closing frame of the protocol or
	// of WebSocket; and if the node gives it up as nothing was heard of the client for 5 s, or
	// as the client took nothing for StallTimeout or OutTime while something waited. It is not
	// if either side closed it by will, nor if the client was at fault, over a limit, idle, or
	// slow although it took something.
	ReconnectGrace time.Duration
	// ReconnectBytes bounds the newest pushes of such a Session that are kept, also while it
	// is connected, as nobody says what a client has read: let it hold what may be pushed in
	// the seconds until a lost connection is noticed, and in ReconnectGrace. Each push counts
	// 32 bytes more than its frame; the newest is always kept. When one must go that must be
	// delivered and has not been sent, the reserved Session ends. A node keeps 256 MiB for all
	// clients, beyond which each push drives out the oldest of its Session, and 65,536
	// reserved Sessions, beyond which a lost connection is the end of its Session. From 1 KiB
	// to 1 GiB, default 256 KiB.
	ReconnectBytes int
}

// Transport is what carries the frames of a SessionListener's clients.
type Transport = node.Transport

// The transports.
const (
	// TCP: the frames, one behind the other.
	TCP = node.TCP
	// WS: each frame is a binary message of a WebSocket.
	WS = node.WS
	// TLS: as TCP, encrypted.
	TLS = node.TLS
	// WSS: as WS, encrypted.
	WSS = node.WSS
)

// TLSFiles names the PEM files of an encryption: CertFile has the server's certificate and
// those between it and the root, KeyFile its private key, not encrypted. For a SessionListener
// ClientCAFile, which may be empty, has the roots of clients' certificates: a client need not
// show one, and is refused with one that is not valid. For a mesh see Config.MeshTLS.
type TLSFiles = node.TLSFiles

// ConnRate bounds how often connections come to a SessionListener: PerSecond in the long run,
// and Burst at once. The zero value is no bound; a Burst of 0 is one second's worth.
type ConnRate = node.ConnRate

// InputRate bounds what one client of a SessionListener sends: BytesPerSecond and
// FramesPerSecond in the long run, BurstBytes and BurstFrames at once. A rate of 0 is no bound,
// a burst of 0 one second's worth.
type InputRate = node.InputRate

// weightOf is the weight that a field of Config means.
func weightOf(configured int) int {
	switch {
	case configured == 0:
		return 100
	case configured < 0:
		return 0
	}
	return configured
}

func (c Config) internal() node.Config {
	n := node.Config{
		RID: c.RID, RIDPrefix: c.RIDPrefix, Mesh: c.Mesh, MeshKey: c.MeshKey, MeshKeys: c.MeshKeys, Peers: peers(c.Peers), Role: store.Role(c.Role),
		Listen: c.Listen, Advertise: c.Advertise, MeshTLS: c.MeshTLS, StoreURL: c.StoreURL, Namespace: c.Namespace,
		RecoveryHold: c.RecoveryHold, WaitReplicas: c.WaitReplicas, StoreFailureGrace: c.StoreFailureGrace, RouteCacheMaxAge: c.RouteCacheMaxAge,
		Weight: weightOf(c.Weight), MaxActors: c.MaxActors, MaxSpots: c.MaxSpots, InstanceIdle: c.InstanceSpotIdleTimeout, AppVersion: c.AppVersion, MaintenanceWave: c.MaintenanceWave, Workers: c.Workers, Loops: c.Loops,
		QueueBytes: c.QueueBytes, ObjectQueueMessages: c.ObjectQueueMessages, ObjectQueueBytes: c.ObjectQueueBytes,
		Lease:       lease.Config{Renew: c.LeaseRenew, Timeout: c.LeaseTimeout, TTL: c.LeaseTTL, Margin: c.LeaseMargin},
		SendTimeout: c.SendTimeout, RequestTimeout: c.RequestTimeout, CreateTimeout: c.CreateTimeout,
		SessionRelocationSealTimeout: c.SessionRelocationSealTimeout, Logger: c.Logger, Tracer: c.Tracer, TraceIDs: c.TraceIDs,
		MessageFollowDuration: c.MessageFollowDuration, RelocationCutoverWaitTimeout: c.RelocationCutoverWaitTimeout,
		Moves:           c.moveLimits(),
		MoveCompression: node.Compression(c.RelocationCompression),
	}
	for _, m := range c.Meshes {
		n.Meshes = append(n.Meshes, node.Mesh{
			Name: m.Name, Keys: m.Keys, Role: store.Role(m.Role), Listen: m.Listen, Advertise: m.Advertise, Peers: peers(m.Peers), TLSFiles: m.TLSFiles,
		})
	}
	for _, ch := range c.Channels {
		n.Channels = append(n.Channels, node.Channel{Name: ch.Name, Mesh: ch.Mesh, Weight: weightOf(ch.Weight)})
	}
	for _, s := range c.ChannelServers {
		n.ChannelServers = append(n.ChannelServers, node.ChannelServer{
			Name: s.Name, Weight: weightOf(s.Weight), Keys: s.Keys, TLSFiles: s.TLSFiles, Listen: s.Listen, Advertise: s.Advertise,
		})
	}
	for _, s := range c.ChannelClients {
		n.ChannelClients = append(n.ChannelClients, node.ChannelClient{Name: s.Name, Keys: s.Keys, TLSFiles: s.TLSFiles, Peers: peers(s.Peers)})
	}
	for _, l := range c.Sessions {
		n.Sessions = append(n.Sessions, node.SessionListener(l))
	}
	return n
}

func peers(named []Peer) (all []node.Peer) {
	for _, p := range named {
		all = append(all, node.Peer(p))
	}
	return all
}
