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
		return serve(in, nil)
	}
	w, err := witness.Create(o.Witness, recordsMax)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	o.Config.Logger = zerolog.New(os.Stderr).With().Timestamp().Str("rid", o.Config.RID).Logger().Level(zerolog.WarnLevel)
	started, err := hook.Start(ctx, o.Config, newApp(w), func(c *node.Config) {
		c.Observe, c.MoveValidity = observe(w), validity
	})
	if err != nil {
		return err
	}
	n := started.(*zlnode.Node)
	told := hello{Lifecycle: n.Lifecycle()}
	if all := n.SessionAddrs(); len(all) > 0 {
		told.Sessions = all[0].String()
	}
	say("ready", told)
	failed := serve(in, n)
	stop, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := n.Shutdown(stop); failed == nil && n.Err() == nil {
		failed = err // a node that has lost its lease ends as it can
	}
	return failed
}

// say writes a line for the parent: a word and a value.
func say(word string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Println(word, string(b))
}

// serve does what the parent says, until it says no more:
//
//	arm <specification>  arms failpoints
//	stuck                answers with the ids of the stuck objects
//	peers                answers with the states of the node's peers
func serve(in *bufio.Scanner, n *zlnode.Node) error {
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "arm":
			if err := failpoint.Arm(rest); err != nil {
				return err
			}
			say("armed", rest)
		case "stuck":
			ids := []string{}
			for _, s := range n.StuckObjects() {
				ids = append(ids, s.Ref.ID)
			}
			say("stuck", ids)
		case "peers":
			states := map[string]string{}
			for _, p := range n.Peers() {
				if p.Channel == "" {
					states[p.RID] = p.State.String()
				}
			}
			say("peers", states)
		default:
			return fmt.Errorf("command %q is not known", word)
		}
	}
	return in.Err()
}
