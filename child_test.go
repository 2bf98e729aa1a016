package zlnode_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// A child is a node in a process of its own, so that a test can kill it. The
// test binary runs itself; what the child is told comes on standard input, and
// it stops when that ends.

const childVariable = "ZLNODE_TEST_CHILD"

type childOrder struct {
	Config  zlnode.Config
	Quests  bool // host quests, not counters
	Walkers bool // host walkers and their Spots
	// Closing is a file that the Entry Spot's OnClosing makes.
	Closing string
}

// runChild runs this process as a child node if it was started as one.
func runChild() bool {
	if os.Getenv(childVariable) == "" {
		return false
	}
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	var order childOrder
	if err == nil {
		err = json.Unmarshal(line, &order)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	app := parlours(counterApp())
	switch {
	case order.Quests:
		app = childQuests()
	case order.Walkers:
		app = (&walkWorld{}).preserving()
	case order.Closing != "":
		app = lodgeApp(&lodge{closing: func(*zlnode.SpotCall) error { return os.WriteFile(order.Closing, nil, 0o600) }})
	}
	n, err := zlnode.Start(ctx, order.Config, app)
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return true
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, in)
	_ = n.Shutdown(ctx)
	return true
}

// child is the parent's side.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Closer
	done chan struct{}
}

// child starts a node in a process of its own and waits until it serves.
func (w *world) child(c zlnode.Config) *child {
	w.t.Helper()
	return w.childOf(childOrder{Config: w.config(c)})
}

func (w *world) childOf(order childOrder) *child {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	p := &child{t: w.t, cmd: cmd, in: in, done: make(chan struct{})}
	w.t.Cleanup(p.kill)
	if err := json.NewEncoder(in).Encode(order); err != nil {
		w.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		w.t.Fatalf("child %s did not start: %q %v", order.Config.RID, line, err)
	}
	return p
}

// kill ends the child as kill -9 does; the node gets no chance to say anything.
func (p *child) kill() {
	select {
	case <-p.done:
		return
	default:
	}
	close(p.done)
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // "signal: killed"
	_ = p.in.Close()
}

// stop has the child shut its node down.
func (p *child) stop() {
	close(p.done)
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// parlour is a User Spot of nodes in processes of their own.
type parlour struct{ total int }

func (*parlour) OnCreate(c *zlnode.CreateSpotCall) (zlnode.Admission, error) {
	if string(c.Request) == "hang" {
		select {}
	}
	return zlnode.Accept(nil), nil
}

func parlours(app *zlnode.App) *zlnode.App {
	s := zlnode.DefineUserSpot(app, "parlour", func(*zlnode.SpotContext) (*parlour, error) { return &parlour{}, nil },
		zlnode.PerActor, zlnode.RecreateOnRelocation)
	zlnode.OnSpotRequest(s, "add", func(_ *zlnode.SpotCall, p *parlour, n int) (int, error) {
		p.total += n
		return p.total, nil
	})
	return app
}

// counter is the Actor of most tests: it counts and tells where it is.
type counter struct{ total int }

func counterApp() *zlnode.App {
	app := zlnode.NewApp()
	c := zlnode.DefineActor(app, "counter", func(*zlnode.ActorContext) (*counter, error) { return &counter{}, nil }, zlnode.DisableRelocation)
	zlnode.OnRequest(c, "add", func(_ *zlnode.ActorCall, a *counter, n int) (int, error) {
		a.total += n
		return a.total, nil
	})
	zlnode.OnSend(c, "add", func(_ *zlnode.ActorCall, a *counter, n int) error {
		a.total += n
		return nil
	})
	zlnode.OnRequest(c, "where", func(c *zlnode.ActorCall, _ *counter, _ struct{}) (string, error) {
		return c.Node().RID(), nil
	})
	// hang tells a witness that it runs, then waits for the end of its process.
	zlnode.OnRequest(c, "hang", func(c *zlnode.ActorCall, _ *counter, witness string) (int, error) {
		if err := zlnode.Send(c, c.Node().Actor(witness), "add", 1); err != nil {
			return 0, err
		}
		<-c.Done()
		return 0, c.Err()
	})
	return app
}
