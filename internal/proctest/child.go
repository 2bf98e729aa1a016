package proctest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/failpoint"
	"github.com/zlnode/zlnode/internal/hook"
	"github.com/zlnode/zlnode/internal/node"
	"github.com/zlnode/zlnode/internal/witness"
)

// childVariable is set for a process of the cluster.
const childVariable = "ZLNODE_PROCTEST_CHILD"

// recordsMax is the room of a witness file, of which only what is used takes space.
const recordsMax = 1 << 20

// validity is how long a source waits for a target that has died; it is short, so that tests
// are.
const validity = 8 * time.Second

// order is the first line of a child's standard input. Each further one is a command: see
// serve. Its end has the child stop.
type order struct {
	Config  zlnode.Config // of a node
	Witness string        // its file
	Store   string        // the address of an embedded Store: the child is that, and no node
	Build   int           // of the application: see newApp
	Speaks  [2]uint16     // protocol versions; zero: the program's
	Budget  time.Duration // for its end by a signal: see zlnode.RunOptions
}

// hello is what a child announces itself with.
type hello struct {
	Lifecycle uint64
	Sessions  string // the address of the Sessions' port
}

// RunChild runs this process as one of a cluster, if it was started as one.
func RunChild() bool {
	if os.Getenv(childVariable) == "" {
		return false
	}
	if err := runChild(); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	return true
}

func runChild() error {
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		return in.Err()
	}
	var o order
	if err := json.Unmarshal(in.Bytes(), &o); err != nil {
		return err
	}
	if o.Store != "" {
		s, err := zlnode.StartEmbeddedStore(o.Store)
		if err != nil {
			return err
		}
		defer s.Close()
		say("ready", hello{})
		return serve(in, nil, nil)
	}
	w, err := witness.Create(o.Witness, recordsMax)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	o.Config.Logger = zerolog.New(os.Stderr).With().Timestamp().Str("rid", o.Config.RID).Logger().Level(zerolog.WarnLevel)
	started, err := hook.Start(ctx, o.Config, newApp(w, max(o.Build, program)), func(c *node.Config) {
		c.Observe, c.MoveValidity, c.Speaks = observe(w), validity, o.Speaks
	})
	if err != nil {
		return err
	}
	n := started.(*zlnode.Node)
	told := hello{Lifecycle: n.Lifecycle()}
	if all := n.SessionAddrs(); len(all) > 0 {
		told.Sessions = all[0].String()
	}
	served := make(chan error, 1)
	go func() { // signals end the node while this waits for a line
		failed := serve(in, n, w)
		stop, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if err := n.Shutdown(stop); failed == nil && n.Err() == nil {
			failed = err // a node that has lost its lease ends as it can
		}
		served <- failed
	}()
	say("ready", told)
	r := n.RunUntilSignal(context.Background(), zlnode.RunOptions{Budget: o.Budget})
	if r.Signal == nil {
		return <-served
	}
	say("ended", fmt.Sprintf("%+v", r))
	if code := r.ExitCode(); code != 0 {
		os.Exit(code)
	}
	return nil
}

// say writes a line for the parent: a word and a value.
func say(word string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Println(word, string(b))
}

// view is what a child says of its node.
type view struct {
	State string
	Ready bool
	Peers map[string]string // their states
	Stuck []string          // the ids of objects
}

func viewOf(n *zlnode.Node) view {
	v := view{State: n.State().String(), Ready: n.Ready(), Peers: map[string]string{}}
	for _, s := range n.StuckObjects() {
		v.Stuck = append(v.Stuck, s.Ref.ID)
	}
	for _, p := range n.Peers() {
		if p.Channel == "" {
			v.Peers[p.RID] = p.State.String()
		}
	}
	return v
}

// serve does what the parent says, until it says no more:
//
//	arm <specification>   arms failpoints
//	view                  answers with a view
//	relocate <Relocate>   begins a relocation, and answers with its RelocateResult
//	relocation            answers with the Relocation
func serve(in *bufio.Scanner, n *zlnode.Node, w *witness.Writer) error {
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "arm":
			if err := failpoint.Arm(rest); err != nil {
				return err
			}
			say("armed", rest)
		case "view":
			say("view", viewOf(n))
		case "relocate":
			var r zlnode.Relocate
			if err := json.Unmarshal([]byte(rest), &r); err != nil {
				return err
			}
			go func() {
				result, err := n.Relocate(context.Background(), r)
				if err != nil {
					result = zlnode.RelocateResult{Outcome: zlnode.RelocateBlocked, Text: err.Error()}
				}
				if result.Outcome == zlnode.RelocateRelocated {
					w.Note(witness.Record{Kind: witness.Vacated})
				}
				say("relocated", result)
			}()
		case "relocation":
			r, _ := n.Relocation()
			say("relocation", r)
		default:
			return fmt.Errorf("command %q is not known", word)
		}
	}
	return in.Err()
}
