package zlnode

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/zlnode/zlnode/internal/admin"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/session"
	"github.com/zlnode/zlnode/store"
)

// Node is one running node. Its methods are safe for concurrent use.
type Node struct {
	inner   *node.Node
	version string                       // of the application
	admin   atomic.Pointer[admin.Server] // nil: no port for operators
}

// Start starts a node: it checks the configuration, takes the RID's lease in the
// Store, opens the link port, publishes the node and opens the session ports.
// When it returns the node serves. ctx bounds the start alone. On error nothing
// is left behind. Kinds: NotConfigured and InvalidOperation for what is wrong in
// cfg or app, Unavailable if the Store does not answer or a port cannot be opened,
// AlreadyExists if another process runs with the RID.
func Start(ctx context.Context, cfg Config, app *App) (*Node, error) {
	return start(ctx, cfg, app, func(*node.Config) {})
}

func start(ctx context.Context, cfg Config, app *App, last func(*node.Config)) (*Node, error) {
	port, err := cfg.Admin.open()
	if err != nil {
		return nil, err
	}
	c := cfg.internal()
	c.Attach = func(n *node.Node) any { return &Node{inner: n, version: cfg.AppVersion} }
	last(&c)
	var inner *node.App
	if app != nil {
		inner = app.app
	}
	started, err := node.Start(ctx, c, inner)
	if err != nil {
		if port != nil {
			_ = port.Close() // it has no use for its error
		}
		return nil, err
	}
	n := started.Outer().(*Node)
	if port != nil {
		n.admin.Store(admin.NewServer(port, cfg.Admin.Token, operated{n}, cfg.Logger.With().Str("node", n.RID()).Logger()))
	}
	return n, nil
}

// Shutdown stops the node: nothing new is taken, clients are told, accepted work
// finishes, the node's Actors and Spots, its lease and its descriptor leave the Store,
// links and ports close, that for operators last. When ctx ends, what is left is cut short and the error
// says so. A second call waits for the first and returns its result.
func (n *Node) Shutdown(ctx context.Context) error {
	err := n.inner.Shutdown(ctx)
	if port := n.admin.Load(); port != nil {
		port.Close()
	}
	return err
}

// Done is closed when the node has stopped, or has lost its owner lease to
// another process and can do nothing more. Err then says which.
func (n *Node) Done() <-chan struct{} { return n.inner.Done() }

// Err returns why Done was closed; nil after a Shutdown of a node that had its
// lease to the end.
func (n *Node) Err() error { return n.inner.Err() }

// RID returns the node's name.
func (n *Node) RID() string { return n.inner.Identity().RID }

// Lifecycle returns the generation of this process: larger than that of every
// earlier process with the same Store.
func (n *Node) Lifecycle() uint64 { return n.inner.Identity().Lifecycle }

// Endpoint returns the address that other nodes of the main mesh dial, or "".
func (n *Node) Endpoint() string { return n.inner.Endpoint() }

// EndpointIn returns the address that other nodes of that mesh dial, or "".
func (n *Node) EndpointIn(mesh string) string { return n.inner.EndpointIn(mesh) }

// SessionAddrs returns the addresses of the session ports, in the order of the
// configuration.
func (n *Node) SessionAddrs() []net.Addr { return n.inner.SessionAddrs() }

// WaitPeers waits until that many other object servers serve and are linked, for as long as
// ctx lets it: DeadlineExceeded then says how many there are.
func (n *Node) WaitPeers(ctx context.Context, servers int) error {
	return n.inner.WaitPeers(ctx, servers)
}

// PeerStatus is what a node knows of another one in one of its meshes: Mesh, RID and Endpoint,
// which may be "" where they are not known, and the Lifecycle of its process, or 0; or about a
// channel with connections of its own: then Mesh is "" and Channel its name, and it may be the
// node itself. Manual, if it is one of the configuration's Peers, or the node itself; its State,
// and Since when; Attempts, the dials since there was a link; LastFailure, of up to about 260
// bytes, why the last dial or link ended, beginning with the kind of reason, such as "Rejected:
// badKey".
type PeerStatus = node.PeerStatus

// PeerState says how far the link to a peer is.
type PeerState = node.PeerState

// The states of peers.
const (
	// PeerConfigured: it is known; its first dial is yet to come, or it is the peer that dials.
	PeerConfigured = node.PeerConfigured
	// PeerConnecting: it is being dialled, or the handshake goes on.
	PeerConnecting = node.PeerConnecting
	// PeerAdmitted: the link is open, and the peer does not serve: it is about to stop.
	PeerAdmitted = node.PeerAdmitted
	// PeerReady: the link is open and carries messages.
	PeerReady = node.PeerReady
	// PeerReconnecting: the last dial failed or the link was lost; the next dial is under way or
	// to come, or it is the peer that dials.
	PeerReconnecting = node.PeerReconnecting
	// PeerNotRequired: neither hosts what the other may use, so nobody dials. A link that is
	// there all the same is kept, and is shown as such.
	PeerNotRequired = node.PeerNotRequired
)

// Peers returns what the node knows of the others in all its meshes, and about channels that
// have connections of their own: those that the Store's list has, those of the configuration,
// and who else has linked to it; sorted by mesh, channel, RID and endpoint.
func (n *Node) Peers() []PeerStatus { return n.inner.Peers() }

// Stats is a node's state at a glance: Actors, Spots, Sessions, Peers (links, of all meshes and channels),
// ManualPeers (of the configuration) and Routes as they are now, and counted from the start Dropped (one-way messages that were not
// executed), FailedSends, FailedRequests, FailedCallbacks, PushesRefused, LateReplies,
// SlowSessions (closed because the client took its messages too slowly), PushesDropped and
// PushesReplaced (pushes that did not go out to such a client, as their class allows),
// SessionsCutOff (closed because nothing was heard of a moving Actor, or too
// much), SessionsTaken (another Session was bound to an Actor of theirs), UpdatesIgnored
// (about a bound Actor, too late or for nothing), LinksRefused, Reselected (messages to channels
// that another server has taken than the first choice, or that had to wait for one) and Panics.
// ServiceMessages are those to channels and to the node itself that wait or have a handler now.
// SessionsReserved of the Sessions are those whose client is away and may come back, and
// KeptBytes what is kept of pushes for that; SessionsResumed have gone on where another one
// was, and ReservesRefused ended because the node had no room to reserve them.
// ClientsBehind is how many Sessions have messages waiting that their client has not taken yet,
// and OutboxBytes how much that is, but for the first 64 KiB of each.
// Topics are those with subscribers at the node, TopicsElsewhere those with subscribers at
// nodes that are linked; PublishesSent counts the messages to topics that went to another
// node, each node for itself, PublishesMissed those for which the link to one had no room,
// and CopiesMissed those that a subscriber at this node did not get: its queue was full, its
// type has no OnTopic for the packet, or the node's lease was in doubt.
// Moves is about objects that have changed their node: how many, and how long each side of
// a move took.
type Stats = node.Stats

// MoveStats is about the objects that have changed their node since this one started: Out
// of them another node has taken over from this one, In have been opened at this one.
// SourceStop is a Spread of how long each that left stood still here, from the end of its
// turns until all that was held for it was relayed. TargetResume is one of how long each that
// came took from the moment that the Store named this node its owner to its first turn, with
// the callbacks in between. What lies between the two parts no one node's clock can tell.
// Kinds are MoveTimes of each kind: 0 are Joins, the others relocated units, by UnitKind.
type MoveStats = node.MoveStats

// MoveTimes are SourceStop and TargetResume of one kind of unit, as in MoveStats, and
// RouteConvergence: how long behind its cutover the last message for a unit that had left came
// here by an old route, or, if none came, the Store's word that it is another's was heard. It is
// counted when the unit is followed no more (Config.MessageFollowDuration). A unit that stands still at
// one node for more than a second is a warning in the log.
type MoveTimes = node.MoveTimes

// Spread is how long something took: Count is how many times it was measured, P50, P99 and
// Max are time.Durations, the median, the 99th percentile and the longest. P50 and P99 are
// up to 1/16 too long. All are 0 as long as Count is.
type Spread = node.Spread

// Stats returns the present state.
func (n *Node) Stats() Stats { return n.inner.Stats() }

// CreateActor asks for a new Actor.
type CreateActor struct {
	// ID is its global key: 1–255 bytes of UTF-8, case-sensitive.
	ID string
	// Type is its stable type. The creating node need not know it.
	Type string
	// Request goes to OnCreateActor: []byte as it is, anything else as JSON; at
	// most 1 MiB.
	Request any
	// Pass names a pass of a Cordon, of up to 255 bytes: the Actor is placed at a cordoned node
	// that has it, if there is one with room; else as without it.
	Pass string
	// Mesh is where it is placed; it stays there. Default: the mesh in which the node is
	// RoleClient or RoleServer. If it is so in several, one of them must be named: see
	// CreateActor of Node.
	Mesh string
}

// Outcome says how a creation ended.
type Outcome uint8

// The outcomes.
const (
	OutcomeCreated  = Outcome(node.OutcomeCreated)
	OutcomeExisting = Outcome(node.OutcomeExisting) // GetOrCreateActor or GetOrCreateSpot found it
	OutcomeRejected = Outcome(node.OutcomeRejected) // OnCreateActor or OnCreate refused it
)

// String returns the outcome's name.
func (o Outcome) String() string {
	switch o {
	case OutcomeCreated:
		return "Created"
	case OutcomeExisting:
		return "Existing"
	case OutcomeRejected:
		return "Rejected"
	default:
		return fmt.Sprintf("Outcome(%d)", uint8(o))
	}
}

// Creation is the end of a creation without error.
type Creation struct {
	Outcome Outcome
	Ref     ActorRef // of OutcomeCreated and OutcomeExisting
	Reply   []byte   // of OnCreateActor
}

// DecodeReply decodes a JSON reply into v.
func (c *Creation) DecodeReply(v any) error { return decode(JSON, c.Reply, v) }

// CreateActor creates an Actor somewhere in the mesh. If the id exists, or is
// being created, it fails with AlreadyExists, or with TypeMismatch if the type
// is another. A rejection by OnCreateActor is an outcome, not an error.
//
// A node that uses Actors of several meshes names the one in which the Actor is to be:
// InvalidOperation if it does not, NotFound if the node uses no Actors of that mesh,
// NotConfigured if it uses none at all.
//
// DeadlineExceeded does not mean that the creation failed: ask again.
func (n *Node) CreateActor(ctx context.Context, req CreateActor) (Creation, error) {
	return n.create(ctx, req, false)
}

// GetOrCreateActor returns the Actor with that id, or creates it. Of callers who
// race one creates it, the others wait and get OutcomeExisting; if the creation was
// rejected or failed they try for themselves.
func (n *Node) GetOrCreateActor(ctx context.Context, req CreateActor) (Creation, error) {
	return n.create(ctx, req, true)
}

func (n *Node) create(ctx context.Context, req CreateActor, get bool) (Creation, error) {
	body, err := requestBytes(req.Request)
	if err != nil {
		return Creation{}, err
	}
	r, err := n.inner.Create(ctx, node.CreateRequest{Kind: store.Actor, ID: req.ID, Type: req.Type, Mesh: req.Mesh, Pass: req.Pass, Request: body, GetOrCreate: get})
	if err != nil {
		return Creation{}, err
	}
	return Creation{Outcome(r.Outcome), r.Ref, r.Reply}, nil
}

func requestBytes(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	}
	return encode(JSON, v)
}

// FindActor returns the Actor with that id if it is Ready; a Spot's id is a TypeMismatch. It
// creates nothing. An Actor whose node is dead is found until the node's lease has ended
// (Config.LeaseTTL), then Unavailable; its ref comes with that error, for DestroyActor. The
// ref of another Unavailable, as when the Store does not answer, is zero.
func (n *Node) FindActor(ctx context.Context, id string) (ref ActorRef, found bool, err error) {
	return n.inner.Find(ctx, id)
}

// DestroyActor ends the Actor that ref names, after what it had accepted before.
// It returns false if the Actor is gone, and fails with InvalidOperation if the
// id now belongs to another incarnation.
//
// An Actor whose node is dead is freed, if ref is exact, as Create and FindActor return it:
// its state is lost then, which nothing but this call decides, and its id can be created
// anew. Before the node's lease has ended nobody knows that it is dead, and the call is
// Unavailable: ask again. If the node turns out to have been only paused, it drops the Actor before it runs
// anything.
func (n *Node) DestroyActor(ctx context.Context, ref ActorRef) (bool, error) {
	return n.inner.Destroy(ctx, ref)
}

// Addr is an Actor's or Spot's id, a node (Peer) or a channel, as seen from a node. Messages
// to an id go to whatever incarnation is Ready.
type Addr struct {
	node *node.Node
	to   node.Target
	as   Codec
	meta session.Metadata
}

// Actor returns the address of an id. It asks nobody whether there is one; of an Actor
// that is at this node the address keeps hold, so it is best made once for many messages,
// and again when the Actor has ended: until then it keeps a few hundred bytes of it.
func (n *Node) Actor(id string) Addr {
	return Addr{node: n.inner, to: n.inner.Target(id, false), as: JSON}
}

// As returns the same address for typed messages in another codec.
func (a Addr) As(c Codec) Addr {
	a.as = c
	return a
}

// With returns the same address for messages that carry metadata, which session.NewMetadata
// makes: up to 1,024 bytes encoded, that the handler reads and its reply does not have. No key
// begins with session.ReservedKeyPrefix. It
// must not change while the address is used; what is not valid metadata is refused with
// InvalidOperation when a message is sent.
func (a Addr) With(meta session.Metadata) Addr {
	a.meta = meta
	return a
}

// check refuses metadata that is none.
func (a *Addr) check() error {
	return checkMetadata("message", a.to.ID, a.meta)
}

func checkMetadata(op, object string, meta session.Metadata) error {
	switch {
	case meta == nil:
		return nil
	case !meta.Valid():
		return &Error{Kind: InvalidOperation, Op: op, Object: object, Text: "the metadata is not what session.NewMetadata makes, of up to 1,024 bytes"}
	case meta.Reserved():
		return &Error{Kind: InvalidOperation, Op: op, Object: object, Text: "a key of metadata that begins with " + session.ReservedKeyPrefix + " is not the application's"}
	}
	return nil
}

// outgoing makes the message.
func (a *Addr) outgoing(as Codec, packet string, payload []byte) node.Outgoing {
	return node.Outgoing{Name: packet, Codec: uint8(as), Metadata: a.meta, Payload: payload}
}

// ID returns the id, RID or channel's name.
func (a Addr) ID() string { return a.to.ID }

// Send sends a one-way packet, encoded in the address's codec. It is done when the Actor's
// queue, or the queue of the link to its node, took the packet; a failure after
// that is not reported. If the Actor's node takes messages slowly it waits up to
// the send timeout.
//
// Kinds: NotFound, no such object; TypeMismatch, the id is a Spot's and the address an
// Actor's, or the other way round; Unavailable, its node is dead, not linked, or the Store
// does not answer, or this node's lease is in doubt, or ctx is a turn whose object has
// ended; CapacityExceeded, its queue at this node is full, or the node's queues together,
// or too many wait to send to its node; DeadlineExceeded, the send timeout or ctx ended,
// and nothing was sent; InvalidOperation, a limit is broken; ShuttingDown.
func Send[M any](ctx context.Context, to Addr, packet string, m M) error {
	b, err := encode(to.as, m)
	if err != nil {
		return err
	}
	if err := to.check(); err != nil {
		return err
	}
	o := to.outgoing(to.as, packet, b)
	return to.node.Send(ctx, &to.to, &o)
}

// Request sends a request, encoded in the address's codec, and waits for its reply. It ends
// exactly once: with the reply, an error, the deadline of ctx (or the node's
// request timeout, whichever is earlier), or ctx's cancellation. The kinds are
// those of Send, and whatever the handler returned; DeadlineExceeded, also for a
// cancellation, leaves open whether the handler ran; so does Unavailable if the
// link was lost while the request was under way. Unavailable, too, is a full queue at
// another node; InvalidOperation, who asks itself or somebody whose gate it holds;
// CapacityExceeded, too many requests or yields wait.
func Request[R, Q any](ctx context.Context, to Addr, packet string, q Q) (R, error) {
	var r R
	b, err := encode(to.as, q)
	if err != nil {
		return r, err
	}
	if err := to.check(); err != nil {
		return r, err
	}
	o := to.outgoing(to.as, packet, b)
	in, err := to.node.Request(ctx, &to.to, &o)
	if err != nil {
		return r, err
	}
	defer in.Release()
	return r, decode(Codec(in.Codec), in.Payload, &r)
}

// SendRaw is Send with bytes, which are copied.
func (a Addr) SendRaw(ctx context.Context, packet string, payload []byte) error {
	if err := a.check(); err != nil {
		return err
	}
	o := a.outgoing(Raw, packet, payload)
	return a.node.Send(ctx, &a.to, &o)
}

// RequestRaw is Request with bytes, which are copied. The reply's payload is
// valid until Release is called on it.
func (a Addr) RequestRaw(ctx context.Context, packet string, payload []byte) (Reply, error) {
	if err := a.check(); err != nil {
		return Reply{}, err
	}
	o := a.outgoing(Raw, packet, payload)
	in, err := a.node.Request(ctx, &a.to, &o)
	if err != nil {
		return Reply{}, err
	}
	return Reply{in}, nil
}

// Reply is the reply to RequestRaw.
type Reply struct{ inner node.Incoming }

// Codec returns how the payload is encoded.
func (r *Reply) Codec() Codec { return Codec(r.inner.Codec) }

// Payload returns the bytes, valid until Release; they must not be modified.
func (r *Reply) Payload() []byte { return r.inner.Payload }

// Release gives the payload's memory back. Without it the memory is left to the
// garbage collector.
func (r *Reply) Release() { r.inner.Release() }
