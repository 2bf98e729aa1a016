//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zlnode/zlnode"
)

func init() { builtTests["nodes are operated by their admin ports"] = nodesAreOperated }

// operated is node processes that host objects, and a node here that uses them.
type operated struct {
	t     *testing.T
	exe   string
	set   nodeSettings
	token string // the file
	here  *zlnode.Node
	nodes map[string]*nodeProc
	made  int
}

func startOperated(t *testing.T, exe string) *operated {
	redis, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	o := &operated{t: t, exe: exe, token: filepath.Join(t.TempDir(), "token"), nodes: map[string]*nodeProc{}}
	o.set = nodeSettings{Role: roleRace, Store: redis.URL(), MeshKey: make([]byte, meshKeyBytes), AdminToken: []byte(randomHex(32))}
	if err := os.WriteFile(o.token, append(o.set.AdminToken, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	o.here, err = zlnode.Start(within(t), zlnode.Config{
		Role: zlnode.RoleClient, StoreURL: o.set.Store, MeshKey: o.set.MeshKey, RecoveryHold: -1,
	}, zlnode.NewApp())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), nodeStopTime)
		defer cancel()
		if err := o.here.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return o
}

// start starts a process and waits until it and others are linked.
func (o *operated) start(rid string, others int) {
	o.t.Helper()
	set := o.set
	set.RID, set.Peers = rid, others
	p, err := startNode(o.exe, set, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p.stop(ctx)
	})
	o.nodes[rid] = p
	if err := p.awaitReady(within(o.t)); err != nil {
		o.t.Fatal(err)
	}
	if err := o.here.WaitPeers(within(o.t), 1+others); err != nil {
		o.t.Fatal(err)
	}
}

// create makes Actors that may move, all of them at the node.
func (o *operated) create(n int, rid string) {
	o.t.Helper()
	for range n {
		o.made++
		made, err := o.here.CreateActor(within(o.t), zlnode.CreateActor{ID: fmt.Sprint(plainType, "-", o.made), Type: plainType})
		if err != nil || made.Ref.RID != rid {
			o.t.Fatalf("%+v, %v; want it at %s", made, err, rid)
		}
	}
}

// areAt fails the test unless all of them are at the node.
func (o *operated) areAt(rid string) {
	o.t.Helper()
	for i := range o.made {
		id := fmt.Sprint(plainType, "-", i+1)
		if ref, found, err := o.here.FindActor(within(o.t), id); err != nil || !found || ref.RID != rid {
			o.t.Errorf("%s is at %q, %v; want %s", id, ref.RID, err, rid)
		}
	}
}

// zlnode runs a command for a node, which is to end with that status and to say these words.
func (o *operated) zlnode(status int, words []string, rid string, args ...string) {
	o.t.Helper()
	args = append(args, "--token-file", o.token, o.nodes[rid].hello.Admin)
	cmd := exec.CommandContext(within(o.t), o.exe, args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		o.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != status {
		o.t.Fatalf("zlnode %s ended with %d, want %d:\n%s", strings.Join(args, " "), got, status, out)
	}
	for _, w := range words {
		if !strings.Contains(string(out), w) {
			o.t.Errorf("zlnode %s did not say %q, but\n%s", strings.Join(args, " "), w, out)
		}
	}
}

func (o *operated) terminates(rid string) {
	o.t.Helper()
	p := o.nodes[rid]
	if err := syscall.Kill(p.pid(), syscall.SIGTERM); err != nil {
		o.t.Fatal(err)
	}
	awaitEnd(o.t, p)
	if fate, text := p.fate(); fate != fateKilled || text != "down (stopped in order by SIGTERM)" {
		o.t.Errorf("fate %d, %s", fate, text)
	}
}

// SIGTERM has a node's objects go to another process. There an operator has them go back to the
// first one's successor, and ends the other; and what may not move blocks that one.
func nodesAreOperated(t *testing.T, exe string) {
	o := startOperated(t, exe)
	o.start("a", 0)
	o.zlnode(0, []string{"a, lifecycle", "Serving, ready\n", "0 actors"}, "a", "status")
	o.create(5, "a")
	o.start("b", 1)
	o.zlnode(0, []string{"cordoned with 0 passes"}, "b", "cordon")
	o.create(1, "a")
	o.zlnode(0, []string{"Serving, ready\n"}, "b", "uncordon")
	o.terminates("a")
	o.areAt("b")

	o.start("a", 1)
	o.zlnode(0, []string{"2 leave and 64 are restored at once"}, "b", "limits", "--max-moves", "2")
	o.zlnode(0, []string{"Relocated"}, "b", "relocate", "--watch")
	o.zlnode(0, []string{"Relocated, not ready", "0 actors", "6 have left", "6 of 6 moved"}, "b", "status")
	o.areAt("a")
	o.zlnode(0, []string{"Stopped, None"}, "b", "shutdown")
	awaitEnd(t, o.nodes["b"])
	if err := o.nodes["b"].exit; err != nil {
		t.Errorf("a process that was ended so has failed: %v", err)
	}
	o.zlnode(1, []string{"does not answer"}, "b", "status")

	if _, err := createRaced(within(t), o.here, "fixed", false, raceOrder{}); err != nil {
		t.Fatal(err)
	}
	o.zlnode(statusBlocked, []string{"RelocationDisabled", "fixed"}, "a", "relocate", "--watch")
	o.zlnode(0, []string{"Serving, ready\n", "7 actors"}, "a", "status")
	o.terminates("a")
}
