package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zlnode/zlnode"
)

// Bounds of the demo's flags.
const (
	botsMax  = 10_000 // each has a connection, and two goroutines here
	tickMin  = time.Millisecond
	tickMax  = 10 * time.Second
	movesMax = 100
	hopMin   = 10 * time.Millisecond
	hopMax   = time.Hour
	forMin   = 100 * time.Millisecond
	forMax   = 24 * time.Hour
	// loginsAtOnce bounds the log-ins under way: each creates Actors.
	loginsAtOnce = 64
	// loginsTime bounds all log-ins together.
	loginsTime = time.Minute
	// nodesMax and followMin bound flags of --rolling.
	nodesMax  = 16
	followMin = 100 * time.Millisecond
	followMax = time.Minute
)

// demoOptions are the demo's flags.
type demoOptions struct {
	bots     int
	moves    int
	tick     time.Duration
	duration time.Duration
	store    string
	json     bool
	verbose  bool
	join     bool
	hop      time.Duration
	// rolling relocates each object node and replaces it, by one of the same version with
	// maintenance. nodes is how many there are, follow how long each relays to what has left it.
	rolling, maintenance bool
	nodes                int
	follow               time.Duration
	// adminTokenFile has the token of the nodes' admin ports; "": they have none.
	adminTokenFile string
	// killGateway kills one of two gateways halfway through.
	killGateway bool
	// transport is what the clients connect by; check parses its name.
	transport     zlnode.Transport
	transportName string
}

// gateways is how many there are.
func (o *demoOptions) gateways() int {
	switch {
	case o.killGateway:
		return gatewaysToKill
	case o.rolling:
		return rollGateways
	}
	return 1
}

// mode is how nodes are relocated.
func (o *demoOptions) mode() zlnode.RelocateMode {
	if o.maintenance {
		return zlnode.PlannedMaintenance
	}
	return zlnode.RollingUpdate
}

// version is that of the nodes that there are in the beginning; "": it is told nobody.
func (o *demoOptions) version() string {
	if o.rolling {
		return versionNow
	}
	return ""
}

func demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a small world on three node processes and check every message",
		Long: `Starts three node processes on this machine, a gateway and two nodes that host
Actors, which find each other through a Location Store. Then bots connect to the
gateway (--transport), log in and play: each tick a bot sends its Actor a request and
some one-way messages, and the Actor pushes an answer to each of those. Players
also report to arena Actors, which may live on the other node.

Every message carries a number, and each Actor keeps the chain of what it has
executed, so the end of the run shows what was lost, duplicated or reordered. The
exit status is 0 if nothing was and nothing failed, else 1.

With --join the players hop between rooms of both nodes, each with its state, its
queue and its client's binding, while bots, arenas and visitors go on writing to
them. The exit status is 1, too, if fewer players than there are bots have changed
their node. The result tells how long a move takes, and what clients see of it.

With --kill-gateway there are two gateways, and the first is killed halfway through.
Its clients connect to the other, log in there, bind their players anew and ask them
what they have executed; so they know what to send again, and the count at the end is
as strict as ever. The clients of the other gateway must notice nothing.

With --rolling there are two gateways and four object nodes (--nodes), and players, arenas
and rooms of every kind: in Entry Spots, in rooms of both modes, and Instance Spots. While
the bots play, each object node in turn is relocated, which moves all that lives there to
the others; its process ends, and one of the next version takes its name. One more node of
that version, started first and relocated last, takes what the first one had. With
--maintenance the nodes keep their version, and none is added. The play goes on until all
are replaced. No message may be lost, doubled or out of order, no request may fail, and no
client may lose its connection. The result tells how long each kind of object stood still,
and how long each node took.

Kill a node while it runs: its Actors are gone, their bots are told once that
they are unavailable, and everything else plays on.

Without --store the demo brings its own small Redis, and needs nothing installed.
On a Redis of yours it uses a new namespace, demo-<8 hex digits>, of which a few
small keys stay.`,
		Example: `  zlnode demo
  zlnode demo --bots 200 --for 30s --tick 20ms
  zlnode demo --store redis://127.0.0.1:6379
  zlnode demo --json
  zlnode demo --join --hop 500ms
  zlnode demo --join --kill-gateway
  zlnode demo --rolling
  zlnode demo --rolling --maintenance --nodes 3 --for 20s
  zlnode demo --transport wss`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("hop") && !o.join {
				return errors.New("--hop is of players that hop, which they do with --join: add that, or leave --hop out")
			}
			for _, flag := range []string{"maintenance", "nodes", "follow"} {
				if cmd.Flags().Changed(flag) && !o.rolling {
					return fmt.Errorf("--%s is of nodes that are relocated, which they are with --rolling: add that, or leave --%[1]s out", flag)
				}
			}
			o.choose(cmd.Flags().Changed)
			if err := o.check(); err != nil {
				return err
			}
			return runDemo(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.join, "join", false, "have the players hop between rooms of both nodes; then --bots is 200, --for 60s and --tick 200ms if not set")
	f.BoolVar(&o.rolling, "rolling", false, "relocate and replace each object node; then --bots, --for and --tick are as with --join")
	f.BoolVar(&o.maintenance, "maintenance", false, "have the nodes keep their version with --rolling")
	f.IntVar(&o.nodes, "nodes", rollNodes, "`number` of object nodes with --rolling")
	f.DurationVar(&o.follow, "follow", 6*time.Second, "how long a node relays to what has left it with --rolling, a `duration`; nodes forget where objects are 5s before, and up to 5s they never know")
	f.DurationVar(&o.hop, "hop", time.Second, "time between two hops of a player with --join, a `duration`; each is half to one and a half of it")
	f.BoolVar(&o.killGateway, "kill-gateway", false, "have two gateways, and kill one halfway through")
	f.StringVar(&o.transportName, "transport", "tcp", "what clients connect by: tcp, ws, tls or wss; the last two with a certificate made for the run")
	f.IntVar(&o.bots, "bots", 50, "`number` of clients")
	f.DurationVar(&o.duration, "for", 10*time.Second, "how long the bots play, a `duration`")
	f.DurationVar(&o.tick, "tick", 50*time.Millisecond, "time between two requests of a bot, a `duration`")
	f.IntVar(&o.moves, "moves", 2, "`number` of one-way messages of a bot per tick")
	f.StringVar(&o.store, "store", "", "`URL` of the Redis that is the Location Store, such as redis://127.0.0.1:6379")
	f.StringVar(&o.adminTokenFile, "admin-token-file", "", "`file` with a token by which `zlnode status` and others operate the nodes")
	_ = f.MarkHidden("admin-token-file") // it is there
	f.BoolVar(&o.json, "json", false, "print one JSON object at the end, and nothing else")
	f.BoolVar(&o.verbose, "verbose", false, "write the nodes' logs to standard error, and with --json the progress too")
	return cmd
}

// noWords refuses arguments, and has a hint for a flag without its dashes.
func noWords(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.Flags().Lookup(args[0]) != nil {
		return fmt.Errorf("%s takes no argument %q; did you mean --%[2]s?", cmd.Name(), args[0])
	}
	return cobra.NoArgs(cmd, args)
}

// choose sets what depends on other flags, if it was not set.
func (o *demoOptions) choose(set func(flag string) bool) {
	if !o.rolling {
		o.nodes = objectNodes
	}
	if !o.join && !o.rolling {
		return
	}
	if !set("bots") {
		o.bots = 200
	}
	if !set("for") {
		o.duration = time.Minute
	}
	if !set("tick") {
		o.tick = 200 * time.Millisecond
	}
}

func (o *demoOptions) check() (err error) {
	if o.transport, err = parseTransport(o.transportName); err != nil {
		return err
	}
	for _, f := range []struct {
		name            string
		value, min, max time.Duration
	}{{"for", o.duration, forMin, forMax}, {"tick", o.tick, tickMin, tickMax}, {"hop", o.hop, hopMin, hopMax}, {"follow", o.follow, followMin, followMax}} {
		if f.value < f.min || f.value > f.max {
			return fmt.Errorf("--%s %v is not in %v to %v", f.name, f.value, f.min, f.max)
		}
	}
	switch {
	case o.bots < 1 || o.bots > botsMax:
		return fmt.Errorf("--bots %d is not in 1 to %d", o.bots, botsMax)
	case o.rolling && (o.join || o.killGateway):
		return errors.New("--rolling goes without --join and --kill-gateway")
	case o.rolling && (o.nodes < 2 || o.nodes > nodesMax):
		return fmt.Errorf("--nodes %d is not in 2 to %d", o.nodes, nodesMax)
	case o.moves < 0 || o.moves > movesMax:
		return fmt.Errorf("--moves %d is not in 0 to %d", o.moves, movesMax)
	}
	return nil
}

var errInterrupted = errors.New("interrupted before the bots played")

// runDemo runs the demo and writes its result. It returns errNotOK if the result
// is not good, another error if there is none.
func runDemo(ctx context.Context, o demoOptions, stdout, stderr io.Writer) error {
	// The first signal ends the play, a second one the process.
	ctx, release := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer release()
	defer context.AfterFunc(ctx, release)()

	d := &demo{options: o, meter: newMeter()}
	hop := o.hop
	if !o.join {
		hop = 0
	}
	for n := range o.bots {
		b := newBot(n+1, d.meter, hop)
		if o.rolling {
			b = newRoamer(n+1, d.meter)
		}
		d.bots = append(d.bots, b)
	}
	if o.join || o.rolling {
		d.visitors = visitors(d.bots)
	}
	var progress, nodeLogs io.Writer = stdout, nil
	if o.verbose {
		stderr = &lockedWriter{w: stderr}
		nodeLogs = stderr
	}
	switch {
	case o.json && o.verbose:
		progress = stderr
	case o.json:
		progress = io.Discard
	}
	v, err := d.run(ctx, progress, nodeLogs)
	switch {
	case err != nil:
		return err
	case o.json:
		err = v.writeJSON(stdout)
		for _, text := range v.failures {
			fmt.Fprintln(stderr, errorPrefix+text)
		}
	default:
		err = v.writeText(stdout)
	}
	if err == nil && !v.OK {
		err = errNotOK
	}
	return err
}
