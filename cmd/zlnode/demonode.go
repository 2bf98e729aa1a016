package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/zlnode/zlnode"
)

const (
	// nodeStartTime bounds the start of a node, from its settings to serving with
	// all its peers linked.
	nodeStartTime = 20 * time.Second
	// nodeStopTime bounds its shutdown; what is left then is cut short.
	nodeStopTime = 10 * time.Second
	// nodeFollowTime is how long a node that SIGTERM ends has messages follow what has left it.
	nodeFollowTime = time.Second
)

// nodeSettings is what the demo tells a node process, as one line of JSON on its
// standard input: the mesh key must not be in a command line or an environment,
// where others can read it.
type nodeSettings struct {
	RID       string `json:"rid"`
	Role      string `json:"role"` // roleGateway or roleObjects
	Store     string `json:"store"`
	Namespace string `json:"namespace"`
	MeshKey   []byte `json:"mesh_key"`
	// Peers is how many object nodes it must be linked to before it is ready.
	Peers   int  `json:"peers"`
	Verbose bool `json:"verbose"`
	// Rooms has a gateway open rooms that players may hop to.
	Rooms bool `json:"rooms,omitempty"`
	// Transport is what a gateway's clients connect by. Identity is for the encrypted ones.
	Transport zlnode.Transport `json:"transport,omitempty"`
	Identity  *identity        `json:"identity,omitempty"`
	// Rolls is for a world whose nodes are relocated. Version is the node's, Follow how long it
	// relays to what has left it.
	Rolls   bool          `json:"rolls,omitempty"`
	Version string        `json:"version,omitempty"`
	Follow  time.Duration `json:"follow,omitempty"`
	// Drain is for the nodes of `zlnode bench drain`.
	Drain *drainSettings `json:"drain,omitempty"`
	// AdminToken has the node open an admin port with that token.
	AdminToken []byte `json:"admin_token,omitempty"`
	// Runs is the file in which a node of roleRace notes what its factories do; "": none.
	Runs string `json:"runs,omitempty"`
}

// drainSettings are the limits of a node, and the bytes of an Actor's state in the beginning.
type drainSettings struct {
	Limits     drainLimits `json:"limits"`
	StateBytes int         `json:"state_bytes"`
}

const (
	roleGateway = "gateway"
	roleObjects = "objects"
	roleRace    = "race" // object nodes of `zlnode bench`
)

// nodeReady is the one line that a node process writes on its standard output:
// that it serves, or why it does not.
type nodeReady struct {
	RID      string `json:"rid"`
	Role     string `json:"role"`
	PID      int    `json:"pid"`
	Sessions string `json:"sessions,omitempty"` // the address for clients
	Admin    string `json:"admin,omitempty"`    // the address for operators
	// Lifecycle is the generation of the process.
	Lifecycle uint64 `json:"lifecycle,omitempty"`
	Error     string `json:"error,omitempty"`
}

func demoNodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "demo-node",
		Short:  "One node process, started by the demo or a benchmark",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemoNode(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

// runDemoNode is the life of a node process. It ends, in order, at SIGTERM or at
// the end of its standard input: whoever started it holds the other end, and so a
// node never outlives it, whatever that died of.
func runDemoNode(stdin io.Reader, stdout, stderr io.Writer) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	var set nodeSettings
	if err == nil {
		err = json.Unmarshal(line, &set)
	}
	if err != nil {
		return fmt.Errorf("demo-node is started by `zlnode demo` and `zlnode bench`, which write its settings to standard input: %w", err)
	}

	terminate, signals := make(chan os.Signal, 1), make(chan os.Signal)
	signal.Notify(terminate, syscall.SIGTERM)
	starting, giveUp := context.WithCancel(context.Background())
	wanted, end := context.WithCancel(context.Background())
	orders := make(chan nodeOrder)
	go func() { // ends with its input, at the latest with the process
		readOrders(in, orders, wanted.Done())
		giveUp()
		end()
	}()
	go func() { // ends with the process
		for s := range terminate {
			giveUp()
			signals <- s
		}
	}()

	served, err := startDemoNode(starting, set, stderr)
	ready := nodeReady{RID: set.RID, Role: set.Role, PID: os.Getpid()}
	switch {
	case err != nil:
		ready.Error = err.Error()
	default:
		ready.Lifecycle = served.node.Lifecycle()
		if ports := served.node.SessionAddrs(); len(ports) > 0 {
			ready.Sessions = ports[0].String()
		}
		if port := served.node.AdminAddr(); port != nil {
			ready.Admin = port.String()
		}
	}
	told := json.NewEncoder(stdout).Encode(ready)
	if err != nil {
		return err
	}
	node, serving := served.node, make(chan error, 1)
	go func() {
		if told == nil {
			told = served.serve(wanted, orders, stdout)
		}
		if told != nil {
			end()
		}
		serving <- told
	}()
	context.AfterFunc(wanted, func() { _ = stopDemoNode(node) }) // which returns what the node's own end does
	ended := node.RunUntilSignal(context.Background(), zlnode.RunOptions{
		Signals: signals, Budget: nodeStopTime, Follow: nodeFollowTime,
		// Without an operator the demo shows what the end of a node means to what lives there.
		StayAndEnd: set.AdminToken == nil,
	})
	end()
	if err := errors.Join(<-serving, ended.Lost); err != nil {
		return errors.Join(err, ended.Shutdown)
	}
	switch {
	case ended.Abandoned != nil, ended.Shutdown != nil:
		return fmt.Errorf("%w: %w", errDisorder, cmp.Or(ended.Shutdown, errors.New("a third signal")))
	case ended.Signal != nil:
		return errTerminated
	}
	return nil
}

// startDemoNode starts the node and waits for its peers.
func startDemoNode(ctx context.Context, set nodeSettings, stderr io.Writer) (*servedNode, error) {
	level := zerolog.WarnLevel
	if set.Verbose {
		level = zerolog.DebugLevel
	}
	cfg := zlnode.Config{
		RID:       set.RID,
		MeshKey:   set.MeshKey,
		StoreURL:  set.Store,
		Namespace: set.Namespace,
		// Its namespace is a random one, or a store that began with the demo.
		RecoveryHold: -1,
		AppVersion:   set.Version,
		Logger:       zerolog.New(stderr).Level(level).With().Timestamp().Logger(),
	}
	if set.Follow != 0 {
		followFor(&cfg, set.Follow)
	}
	if set.AdminToken != nil {
		cfg.Admin = zlnode.AdminPort{Addr: "127.0.0.1:0", Token: set.AdminToken}
	}
	world := newWorld(set.Rolls)
	app := world.app
	if set.Drain != nil {
		l := set.Drain.Limits
		cfg.MaxMoves, cfg.RelocationLinkBytes, cfg.RelocationChunkBytes = l.Moves, l.LinkBytes, l.ChunkBytes
		app = func() *zlnode.App { return drainWorld(world.stood, set.Drain.StateBytes) }
	}
	switch set.Role {
	case roleRace:
		raceLease(&cfg)
		cfg.Role, cfg.Listen = zlnode.RoleServer, "127.0.0.1:0"
		runs, err := openRunLog(set.Runs)
		if err != nil {
			return nil, err
		}
		app = func() *zlnode.App { return raceWorld(runs) } // the file is open as long as the process
	case roleObjects:
		cfg.Role, cfg.Listen = zlnode.RoleServer, "127.0.0.1:0"
	case roleGateway:
		cfg.Role = zlnode.RoleClient
		// Bots that wait for the others to log in are idle and welcome.
		port := zlnode.SessionListener{Addr: "127.0.0.1:0", Type: sessionType, IdleTimeout: -1, Transport: set.Transport}
		if set.Identity != nil {
			var err error
			if port.TLS, err = set.Identity.server(); err != nil {
				return nil, err
			}
		}
		cfg.Sessions = []zlnode.SessionListener{port}
	default:
		return nil, fmt.Errorf("demo-node: unknown role %q", set.Role)
	}
	starting, cancel := context.WithTimeout(ctx, nodeStartTime)
	defer cancel()
	node, err := zlnode.Start(starting, cfg, app())
	if err != nil {
		return nil, err
	}
	if err := node.WaitPeers(starting, set.Peers); err != nil {
		return nil, errors.Join(err, stopDemoNode(node))
	}
	if set.Rooms {
		rooms, err := openRooms(starting, node, set.Peers)
		if err != nil {
			return nil, errors.Join(err, stopDemoNode(node))
		}
		world.open.Store(&rooms)
	}
	return &servedNode{node: node, stood: world.stood, set: set}, nil
}

// followFor has a node relay to what has left it for that time. Others must not know the way to
// it for longer; where the time is short, they ask each time.
func followFor(cfg *zlnode.Config, follow time.Duration) {
	const slack = 5 * time.Second // that zlnode wants between the two
	cfg.MessageFollowDuration, cfg.RouteCacheMaxAge = follow, follow-slack
	if cfg.RouteCacheMaxAge <= 0 {
		cfg.RouteCacheMaxAge = -1
	}
}

func stopDemoNode(node *zlnode.Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), nodeStopTime)
	defer cancel()
	return node.Shutdown(ctx)
}
