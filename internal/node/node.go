// Package node binds engine, mailboxes, links, sessions and the Location Store
// into one node. It is the shell around the protocol cores: it does what they
// decide. The public package zlnode gives it its API.
package node

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/balance"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/cmap"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/internal/host"
	"github.com/zlnode/zlnode/internal/lease"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/timer"
	"github.com/zlnode/zlnode/mailbox"
	"github.com/zlnode/zlnode/session"
	"github.com/zlnode/zlnode/store"
	"github.com/zlnode/zlnode/store/redislua"
)

// Node is one process lifecycle of one RID.
type Node struct {
	cfg     Config
	app     *App
	log     zerolog.Logger
	outer   any // the public package's view of this value
	id      Identity
	entryID string      // of the Entry Spot, of an object server
	entry   *objectCell // it; nil if the application has no type for it

	life context.Context // ends when the node has stopped
	kill context.CancelFunc

	store      store.Store // nil: none
	lease      store.Lease
	keeper     *lease.Keeper      // owned by keepLease
	admitUntil atomic.Int64       // clock.Mono; 0: not now
	leased     atomic.Int64       // clock.Mono; as admitUntil, but for rows that a new epoch may have lost
	swept      atomic.Int64       // clock.Mono; when the sweeper last came by
	leaseOver  atomic.Bool        // this node has given its lease back
	epoch      store.Epoch        // as the last answer about the lease told it; owned by keepLease
	known      atomic.Uint64      // the epoch for which a re-assertion has begun; an answer of one before it opens nothing
	reasserted chan uint64        // epochs in which all rows are written again; for keepLease
	endRound   context.CancelFunc // of the re-assertion for the epoch before; owned by keepLease
	freed      uint64             // the lease's count of rows freed by hand, all of them dropped here; owned by keepLease
	unread     bool               // rows were freed, and it is not known which: nothing may run; owned by keepLease
	serves     atomic.Bool        // the start is over

	engine     *engine.Engine
	pool       *mailbox.Pool
	timers     *timer.Scheduler[*objectCell]
	workers    [2]*limiter        // by Work
	ports      []*engine.Listener // for clients
	liveConfig link.LivenessConfig

	actors     *cmap.Map[*objectCell]  // and Spots, but for the Entry Spot
	spots      atomic.Int64            // of those
	sessions   *cmap.Map[*sessionConn] // by sessionKey
	routes     *routes
	meshes     []*mesh          // the main one is the first; never changes
	sides      []*mesh          // of channels that have connections of their own, servers first; never changes
	sidesOf    map[string]sides // by channel
	home       *mesh            // of the objects that live here
	discovery  *discovery
	news       *news
	services   services
	local      *pendingTable
	creations  *limiter
	movesOut   *limiter
	movesIn    *limiter
	moves      moves
	moveLimits moveLimits
	streams    streams
	running    runningOps
	changes    chan struct{} // one place for each Store call that removes an Actor or changes its Spot
	destroys   *limiter      // asked for by peers; most of their time they wait for a turn
	rows       rowLocks
	tasks      tasks
	choosers   choosers
	admitted   atomic.Uint64 // choices of a target by a pass
	counters   counters
	said       said
	sessionIDs atomic.Uint64
	bindings   atomic.Uint64 // generations of this lifecycle
	moving     movingWays
	behind     behindSessions
	keeps      keeps
	waiting    atomic.Int64  // bytes in outboxes, but for the first of each
	operations atomic.Uint64 // numbers of this lifecycle

	host        hosting
	cordon      atomic.Pointer[cordon] // nil: none
	leaving     atomic.Bool            // the program is about to end it
	stopping    atomic.Bool
	joins       atomic.Int64 // that are under way
	disconnects atomic.Int64 // notices of lost clients that wait for their Spot's turn
	shells      atomic.Int64 // what is left of Spots that have gone to other nodes, until it has ended
	late        late         // those whose turn came while the node may not act
	ending      atomic.Int64 // Sessions that are closed and whose last turn is not over
	stopOnce    sync.Once
	stopErr     error
	// closingFailed: an OnClosing has failed as the node was stopped.
	closingFailed atomic.Bool
	stopped       atomic.Pointer[ShutdownResult] // nil: it has not
	done          chan struct{}                  // closed when the node has stopped or lost its lease
	doneOnce      sync.Once
	doneErr       *Error
}

// Identity is who a node is.
type Identity struct {
	RID       string
	Mesh      string
	Lifecycle uint64
}

// Start starts a node. It returns when the node serves: lease held, listeners
// open, descriptor published. On error nothing is left behind.
func Start(ctx context.Context, cfg Config, app *App) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(app); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, app: app, log: cfg.Logger.With().Str("node", cfg.RID).Logger(),
		actors: cmap.New[*objectCell](), sessions: cmap.New[*sessionConn](), news: newNews(),
		local: newPendingTable(), creations: newLimiter(creationsMax, creationsWaitingMax),
		movesOut: newLimiter(0, movesWaitingMax), movesIn: newLimiter(0, movesWaitingMax), moves: newMoves(),
		destroys: newLimiter(destroysMax, 0), running: runningOps{ops: map[store.OpID]*runningOp{}},
		changes: make(chan struct{}, changesMax), reasserted: make(chan uint64, 1), endRound: func() {},
		workers:  newWorkers(),
		choosers: choosers{by: map[chooserKey]*balance.Chooser{}}, done: make(chan struct{}),
	}
	n.newMeshes()
	n.routes, n.discovery = newRoutes(n), newDiscovery(n)
	if err := n.SetMoveLimits(cfg.Moves); err != nil {
		return nil, err
	}
	n.entryID = cfg.RIDPrefix + "-entry-" + uuid.NewString()
	n.life, n.kill = context.WithCancel(context.Background())
	n.openHosting()
	if cfg.Attach != nil {
		n.outer = cfg.Attach(n)
	}
	if err := n.start(ctx); err != nil {
		if left := n.halt(ctx); left != nil {
			n.log.Warn().Err(left).Msg("after the failed start, not all could be ended in order")
		}
		return nil, err
	}
	event := n.log.Info().Uint64("lifecycle", n.id.Lifecycle).Str("mesh", cfg.Mesh).Str("endpoint", n.Endpoint())
	for _, addr := range n.SessionAddrs() {
		event = event.Stringer("sessions", addr)
	}
	event.Msg("node serves")
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	n.id = Identity{RID: n.cfg.RID, Mesh: n.cfg.Mesh, Lifecycle: uint64(time.Now().UnixNano())}
	if n.cfg.StoreURL != "" {
		st, err := redislua.Open(ctx, redislua.Options{
			URL: n.cfg.StoreURL, Namespace: n.cfg.Namespace, RecoveryHold: n.cfg.RecoveryHold,
			WaitReplicas: n.cfg.WaitReplicas,
		})
		if err != nil {
			return fromStore(err, "start", n.cfg.RID)
		}
		n.store = st
		if err := n.acquireLease(ctx); err != nil {
			return err
		}
		n.id.Lifecycle = uint64(n.lease.Gen)
		n.tasks.Go(n.keepLease)
	}
	n.pool = mailbox.NewPool(mailbox.Config{Workers: n.cfg.Workers, Bytes: n.cfg.QueueBytes, OnPanic: n.enginePanic})
	n.openServices()
	n.timers = timer.New(timer.Config[*objectCell]{Fire: n.fireTimers, Clock: n.cfg.TimerClock})
	eng, err := engine.New(engine.Config{Loops: n.cfg.Loops, Logger: n.log})
	if err != nil {
		return &Error{Kind: errkind.InternalFailure, Op: "start", Object: n.cfg.RID, Err: err}
	}
	n.engine = eng
	for m := range n.eachNet() {
		if err := m.open(); err != nil {
			return err
		}
	}
	n.tasks.Go(n.sweep)
	if err := n.openEntry(ctx); err != nil {
		return err
	}
	n.host.step(host.Event{Is: host.Started})
	if n.store != nil {
		if err := n.publish(ctx, opServe); err != nil {
			return err
		}
		n.discovery.refresh() // so that the node knows itself at least
		n.tasks.Go(n.discovery.watch)
		if n.hosts() {
			n.tasks.Go(n.mindReservations)
			if idle := n.cfg.InstanceIdle; idle > 0 {
				n.tasks.Go(func() { n.evictIdle(idle) })
			}
		}
	}
	n.tasks.Go(n.discovery.run)
	if err := n.openSessions(); err != nil {
		return err
	}
	n.serves.Store(true)
	for m := range n.eachNet() {
		m.channels.serve()
	}
	return nil
}

// openSessions opens the ports for clients, last of all: whoever can connect is
// served.
func (n *Node) openSessions() error {
	for _, l := range n.cfg.Sessions {
		port := &sessionPort{
			node: n, typ: n.app.Sessions[l.Type], frameMax: l.FrameMax, compressMin: l.CompressMin, startFlows: l.StartFlows,
			authTime: l.AuthTimeout, times: session.LivenessTimes{Idle: l.IdleTimeout},
			out:   session.OutboxLimits{Soft: l.OutBytes, Hard: l.OutBurstBytes, Time: l.OutTime},
			grace: l.ReconnectGrace, keepBytes: l.ReconnectBytes,
		}
		if port.turns.most = int64(l.MaxUnadmitted); port.turns.most == 0 {
			port.turns.most = engine.DefaultMaxUnadmitted
		}
		hello := time.Duration(-1) // who need not authenticate is admitted at once
		if port.typ.Auth != nil {
			hello = l.AuthTimeout + authSlack
		}
		port.moves = session.RouteLimits{
			Packets: sealedPackets, Bytes: int(port.queueBytes()), Shows: keptShows, ShowBytes: keptShowBytes, Seal: n.cfg.SessionRelocationSealTimeout,
		}
		opened, err := n.engine.Listen(l.listen(&engine.Protocol{
			Name: "session", Handler: port, HelloTimeout: hello,
			Drainer: port, OutMax: clientOutMax(&l), UnsentMax: clientUnsentMax,
			FrameSize: func(b []byte, admitted bool) (int, error) { return sessionFrameSize(b, port.frameMaxOf(admitted)) },
		}))
		if err != nil {
			return &Error{Kind: errkind.Unavailable, Op: "start", Object: n.cfg.RID, Text: "a session address cannot be opened", Err: err}
		}
		n.ports = append(n.ports, opened)
	}
	return nil
}

// publish writes the node's descriptor, with its present state.
func (n *Node) publish(ctx context.Context, op string) error {
	state, revision := n.host.publishes()
	d := store.Descriptor{
		RID: n.cfg.RID, Lifecycle: n.lifecycle(), Mesh: n.home.cfg.Name, Endpoint: n.home.endpoint, Role: n.home.cfg.Role, State: state,
		Weight: n.cfg.Weight, MaxActors: n.cfg.MaxActors, MaxSpots: n.cfg.MaxSpots, AppVersion: n.cfg.AppVersion, Channels: n.home.channels.any, Wave: n.cfg.MaintenanceWave,
		Revision: revision,
	}
	if c := n.cordon.Load(); c != nil { // read behind the revision, which so is of what it tells at least
		d.Weight, d.Cordoned, d.Passes = 0, true, c.passes
	}
	for _, m := range n.meshes {
		if m != n.home {
			d.Meshes = append(d.Meshes, store.MeshEntry{Name: m.cfg.Name, Endpoint: m.endpoint, Role: m.cfg.Role, Channels: m.channels.any})
		}
	}
	d.Ports = n.channelPorts()
	if n.hosts() {
		d.ActorTypes, d.SpotTypes, d.EntrySpotID = n.app.actorTypes(), n.app.spotTypes(), n.entryID
		d.ActorPolicies = n.app.actorPolicies()
	}
	reason, err := n.store.PublishNode(ctx, n.lease, d)
	if err != nil {
		return fromStore(err, op, n.cfg.RID)
	}
	if reason != store.Applied && reason != store.VersionConflict { // of a later revision
		return fail(errkind.Unavailable, op, n.cfg.RID, "the Store refused the descriptor (reason %d)", reason)
	}
	return nil
}

// sweep ends what is too late and forgets what is too old.
func (n *Node) sweep() {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for round := 1; ; round++ {
		select {
		case <-n.life.Done():
			return
		case <-t.C:
			now := clock.Now()
			n.swept.Store(int64(now))
			n.local.sweep(now)
			n.moving.sweep(now)
			n.behind.sweep(now)
			n.keeps.sweep(now)
			if n.mayAct(now) {
				n.late.run()
			}
			for l := range n.eachLink() {
				l.pending.sweep(now)
			}
			n.sweepMoves(now)
			for _, m := range n.meshes {
				m.topics.sweep()
			}
			if round%routeSweepRounds == 0 {
				n.routes.sweep(now)
			}
		}
	}
}

// enginePanic is told of a panic in the node's own code: it must be seen.
func (n *Node) enginePanic(v any, stack []byte) {
	n.counters.panics.Add(1)
	n.log.Error().Interface("panic", v).Bytes("stack", stack).Msg("a turn panicked outside application code; this is a bug of zlnode")
}

// background runs f for a peer, in the background.
func (n *Node) background(f func()) *Error {
	if !n.tasks.Go(f) {
		return errStopping
	}
	return nil
}

// failed notes that the node cannot go on.
func (n *Node) failed(err *Error) {
	n.doneOnce.Do(func() {
		n.doneErr = err
		close(n.done)
	})
}

// Outer returns what Config.Attach gave.
func (n *Node) Outer() any { return n.outer }

// Identity returns who the node is.
func (n *Node) Identity() Identity { return n.id }

// Endpoint returns the address that peers of the main mesh dial, or "".
func (n *Node) Endpoint() string { return n.meshes[0].endpoint }

// EndpointIn returns that of the mesh of that name, or "".
func (n *Node) EndpointIn(mesh string) string {
	for _, m := range n.meshes {
		if m.cfg.Name == mesh {
			return m.endpoint
		}
	}
	return ""
}

// SessionAddrs returns the bound addresses of the session ports, in the order of
// the configuration.
func (n *Node) SessionAddrs() []net.Addr {
	addrs := make([]net.Addr, len(n.ports))
	for i, p := range n.ports {
		addrs[i] = p.Addr()
	}
	return addrs
}

// Done is closed when the node has stopped, or has lost its owner lease and can
// do nothing more; Err then says why.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns why Done was closed: nil after Shutdown.
func (n *Node) Err() error {
	select {
	case <-n.done:
		if n.doneErr != nil {
			return n.doneErr
		}
	default:
	}
	return nil
}

// WaitPeers waits until links to that many serving object servers are open.
func (n *Node) WaitPeers(ctx context.Context, servers int) error {
	for {
		changed := n.news.watch()
		ready := 0
		for _, d := range n.discovery.nodes() {
			if d.Role != store.RoleServer || d.State != store.Serving {
				continue
			}
			if l, _ := n.linkTo(d.Mesh, d.RID, uint64(d.Lifecycle)); l != nil {
				ready++
			}
		}
		if ready >= servers {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fail(errkind.DeadlineExceeded, "wait for peers", n.cfg.RID, "%d of %d object servers are linked", ready, servers)
		}
	}
}
