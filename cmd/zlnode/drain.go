package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Bounds of the flags of `zlnode bench drain`, and of the steps of it.
const (
	drainActorsMax  = 1_000_000
	drainRoomsMax   = 100_000
	drainStateMax   = 64 << 20
	drainBytesMax   = 8 << 30 // of all states together
	drainTargets    = 2
	drainCallers    = 64
	drainTime       = 5 * time.Minute
	drainJoinTime   = time.Minute
	drainSetUpTime  = 10 * time.Minute
	drainFollow     = 100 * time.Millisecond
	drainVariations = 64
)

// drainOptions are the flags of `zlnode bench drain`.
type drainOptions struct {
	actors, rooms, members int
	state                  string
	moves, links, chunks   []string
	store                  string
	profile                string
	json, verbose          bool

	stateBytes int
	variations []drainLimits
}

// drainLimits are the limits of one drain; 0 is the default of zlnode.
type drainLimits struct {
	Moves      int   `json:"moves,omitempty"`
	LinkBytes  int64 `json:"link_bytes,omitempty"`
	ChunkBytes int   `json:"chunk_bytes,omitempty"`
}

func benchDrainCommand() *cobra.Command {
	var o drainOptions
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Measure how fast a node's objects move to others when it is relocated",
		Long: `Fills an object node with Actors, alone and in SpotWide rooms, starts two more nodes and
relocates the first one. It prints how many units and objects moved a second, how long
they stood still, by kind, and how much memory source and targets took beside what they
hold, next to the payloads of as many units as move at once and what links may have in
flight.

--moves, --links and --chunks take lists: each value is a drain of its own, with the other
limits as they are by default.`,
		Example: `  zlnode bench drain
  zlnode bench drain --store redis://127.0.0.1:6379 --moves 1,4,16,64,256
  zlnode bench drain --actors 200 --rooms 0 --state 1MiB --links 512KiB,16MiB --chunks 32KiB,1MiB`,
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return runBenchDrain(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.actors, "actors", 10_000, "`number` of Actors that are in no room")
	f.IntVar(&o.rooms, "rooms", 100, "`number` of rooms")
	f.IntVar(&o.members, "members", 50, "`number` of Actors in each room")
	f.StringVar(&o.state, "state", "4KiB", "`size` of the state of each Actor")
	f.StringSliceVar(&o.moves, "moves", nil, "`numbers` of units that leave at once (MaxMoves)")
	f.StringSliceVar(&o.links, "links", nil, "`sizes` of what a link may have in flight (RelocationLinkBytes)")
	f.StringSliceVar(&o.chunks, "chunks", nil, "`sizes` of a chunk (RelocationChunkBytes)")
	f.StringVar(&o.store, "store", "", "`URL` of the Redis that is the Location Store; by default the command brings its own")
	f.StringVar(&o.profile, "profile", "", "`directory` for CPU profiles of all nodes, of the last drain")
	f.BoolVar(&o.json, "json", false, "print one JSON object at the end, and nothing else")
	f.BoolVar(&o.verbose, "verbose", false, "write the nodes' logs to standard error, and with --json the progress too")
	return cmd
}

func (o *drainOptions) check() error {
	for _, f := range []struct {
		name            string
		value, min, max int
	}{{"actors", o.actors, 0, drainActorsMax}, {"rooms", o.rooms, 0, drainRoomsMax}, {"members", o.members, 1, drainActorsMax}} {
		if f.value < f.min || f.value > f.max {
			return fmt.Errorf("--%s %d is not in %d to %d", f.name, f.value, f.min, f.max)
		}
	}
	state, err := parseSize(o.state)
	if err != nil || state > drainStateMax {
		return fmt.Errorf("--state %q is no size of up to %d MiB, such as 4KiB", o.state, drainStateMax>>20)
	}
	o.stateBytes = int(state)
	objects := o.actors + o.rooms*o.members
	if objects < 1 || int64(objects)*state > drainBytesMax {
		return fmt.Errorf("%d Actors with %s each are not 1 Actor to %d GiB", objects, o.state, drainBytesMax>>30)
	}
	o.variations = nil
	vary := func(name string, values []string, set func(*drainLimits, int64)) {
		for _, text := range values {
			value, sizeErr := parseSize(text)
			if sizeErr != nil || value < 1 {
				err = fmt.Errorf("--%s %q is not more than 0", name, text)
			}
			var l drainLimits
			set(&l, value)
			o.variations = append(o.variations, l)
		}
	}
	vary("moves", o.moves, func(l *drainLimits, n int64) { l.Moves = int(n) })
	vary("links", o.links, func(l *drainLimits, n int64) { l.LinkBytes = n })
	vary("chunks", o.chunks, func(l *drainLimits, n int64) { l.ChunkBytes = int(n) })
	switch {
	case err != nil:
		return err
	case len(o.variations) > drainVariations:
		return fmt.Errorf("%d drains are more than %d", len(o.variations), drainVariations)
	case len(o.variations) == 0:
		o.variations = []drainLimits{{}}
	}
	return nil
}

// parseSize reads a number of bytes, which may end in KiB or MiB.
func parseSize(text string) (int64, error) {
	shift := 0
	for unit, s := range map[string]int{"KiB": 10, "MiB": 20} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			text, shift = number, s
		}
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err == nil && n < 0 {
		err = errors.New("it is negative")
	}
	return n << shift, err
}

// sizeText writes a number of bytes for people.
func sizeText(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return strconv.FormatInt(n, 10)
}

// runBenchDrain runs the drains and writes what they gave. It returns errNotOK if one did not
// end as it is to.
func runBenchDrain(ctx context.Context, o drainOptions, stdout, stderr io.Writer) error {
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
	report, err := measureDrains(ctx, &o, progress, nodeLogs)
	if err != nil {
		return err
	}
	write := report.writeText
	if o.json {
		write = report.writeJSON
	}
	if err := write(stdout); err != nil {
		return err
	}
	if !report.ok() {
		return errNotOK
	}
	return nil
}
