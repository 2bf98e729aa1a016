package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Bounds of the flags of `zlnode bench create`.
const (
	benchNodesMax   = 32
	benchClientsMax = 256
	benchIDsMax     = 1_000_000
	benchForMin     = 100 * time.Millisecond
	benchForMax     = time.Hour
	benchKillMin    = 100 * time.Millisecond
	benchNodes      = 1 // without --race
)

// benchOptions are the flags of `zlnode bench create`.
type benchOptions struct {
	race     bool
	nodes    int
	clients  int
	ids      int
	duration time.Duration
	kill     time.Duration
	store    string
	json     bool
	verbose  bool
}

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure and check the engine on node processes of its own",
	}
	cmd.AddCommand(benchCreateCommand(), benchDrainCommand())
	return cmd
}

func benchCreateCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Measure how fast Actors are created, or with --race check that each is created once",
		Long: `Without --race: one client creates Actors on an object node, from 1, 16 and 64
goroutines for the given time each, and prints how many were created a second and
how long it took.

With --race: clients call GetOrCreate, Create, Find and Destroy on the same ids,
while object nodes are killed (kill -9) at random moments and started again. Each
node notes every run of a factory in a file, and each client every end of a call.
Ids of dead nodes stay Unavailable until a client frees them, which they do. In the
end it is checked, and the exit status is 1 if it is not so, that

  - a factory ran at most once for an incarnation, and only for a reservation;
  - one call was told Created of it, and nobody saw one whose factory had not ended;
  - nobody saw an incarnation after its end, or another call's reply;
  - every call returned by its deadline (and 10 s more, for a busy machine);
  - every id is Ready at a living node and answers, or of a dead node and
    Unavailable, or free; nothing is left half created or reserved.

Leases are short here (3 s), so that nodes are soon back.`,
		Example: `  zlnode bench create
  zlnode bench create --race --for 60s --kill 3s
  zlnode bench create --race --store redis://127.0.0.1:6379`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("nodes") && !o.race {
				o.nodes = benchNodes
			}
			if err := o.check(); err != nil {
				return err
			}
			return runBenchCreate(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.race, "race", false, "race and check")
	f.IntVar(&o.nodes, "nodes", 4, "`number` of object nodes; without --race 1 by default")
	f.DurationVar(&o.duration, "for", 10*time.Second, "how long the race is, or each measurement, a `duration`")
	f.StringVar(&o.store, "store", "", "`URL` of the Redis that is the Location Store; by default the command brings its own")
	f.BoolVar(&o.json, "json", false, "print one JSON object at the end, and nothing else")
	f.BoolVar(&o.verbose, "verbose", false, "write the nodes' logs to standard error, and with --json the progress too")
	f.IntVar(&o.clients, "clients", 16, "`number` of clients that race")
	f.IntVar(&o.ids, "ids", 1000, "`number` of ids that are raced for")
	f.DurationVar(&o.kill, "kill", 3*time.Second, "time from one kill to the next in a race, on average, a `duration`; 0: none is killed")
	return cmd
}

func (o *benchOptions) check() error {
	for _, f := range []struct {
		name       string
		value, max int
	}{{"nodes", o.nodes, benchNodesMax}, {"clients", o.clients, benchClientsMax}, {"ids", o.ids, benchIDsMax}} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("--%s %d is not in 1 to %d", f.name, f.value, f.max)
		}
	}
	switch {
	case o.duration < benchForMin || o.duration > benchForMax:
		return fmt.Errorf("--for %v is not in %v to %v", o.duration, benchForMin, benchForMax)
	case o.kill != 0 && (o.kill < benchKillMin || o.kill > benchForMax):
		return fmt.Errorf("--kill %v is not 0 and not in %v to %v", o.kill, benchKillMin, benchForMax)
	}
	return nil
}

// result is what a benchmark found.
type result interface {
	writeJSON(w io.Writer) error
	writeText(w io.Writer) error
}

// runBenchCreate runs the benchmark and writes its result. It returns errNotOK if the
// result is not good, another error if there is none.
func runBenchCreate(ctx context.Context, o benchOptions, stdout, stderr io.Writer) error {
	// The first signal ends the benchmark early, a second one the process.
	ctx, release := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer release()
	defer context.AfterFunc(ctx, release)()

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
	var found result
	ok := true
	if o.race {
		v, err := runRace(ctx, o, progress, nodeLogs)
		if err != nil {
			return err
		}
		found, ok = &v, v.OK
	} else {
		m, err := measureCreate(ctx, o, progress, nodeLogs)
		if err != nil {
			return err
		}
		found = &m
	}
	write := found.writeText
	if o.json {
		write = found.writeJSON
	}
	if err := write(stdout); err != nil {
		return err
	}
	if !ok {
		return errNotOK
	}
	return nil
}
