//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/zlnode/zlnode"
)

// builtTests use the program as its users do.
var builtTests = map[string]func(t *testing.T, exe string){
	"the demo verifies every message on its own store":  verifiesOnTheEmbeddedStore,
	"the demo verifies every message on a redis-server": verifiesOnRedis,
	"the demo survives the death of an object node":     survivesAnObjectNode,
	"the demo survives an object node that stops":       survivesAStop,
	"the demo tells that the gateway is dead":           tellsThatTheGatewayIsDead,
	"hopping players are verified on their own store":   verifiesHops,
	"hopping players are verified on a redis-server":    verifiesHopsOnRedis,
	"hopping players survive the death of a node":       hopsSurviveAnObjectNode,
	"clients of a killed gateway go on at another":      goOnAtAnotherGateway,
	"the demo verifies every message over ws":           verifiesOver("ws"),
	"the demo verifies every message over tls":          verifiesOver("tls"),
	"the demo verifies every message over wss":          verifiesOver("wss"),
	"players that do not hop are no result":             refusesARunWithoutHops,
	"the demo names a store that does not answer":       namesADeadStore,
	"the demo ends early at Ctrl-C with its result":     endsEarlyWithItsResult,
	"the demo writes lines where there is no terminal":  writesLines,
	"nodes are relocated and replaced":                  replacesNodes,
	"a race has no fault on its own store":              racesOnTheEmbeddedStore,
	"a race has no fault on a redis-server":             racesOnRedis,
	"a race ends early at Ctrl-C with its result":       raceEndsEarly,
	"creations are measured":                            measuresCreations,
	"a node process ends with its input":                nodeEndsWithItsInput,
	"a node process ends in order at SIGTERM":           nodeEndsAtSIGTERM,
}

// TestTheBuiltProgram builds the program once, with the race detector and the
// tags of this test.
func TestTheBuiltProgram(t *testing.T) {
	exe := build(t)
	for name, test := range builtTests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, exe)
		})
	}
}

func build(t *testing.T) (exe string) {
	t.Helper()
	exe = filepath.Join(t.TempDir(), "zlnode")
	args := []string{"build", "-buildvcs=false", "-o", exe}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" || s.Key == "-tags" {
				args = append(args, s.Key+"="+s.Value)
			}
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", append(args, ".")...).CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	return exe
}

// program is a running zlnode, alone in a process group with what it starts.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr *bufio.Scanner
	said   []string // on stderr
}

func start(t *testing.T, exe string, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.CommandContext(within(t), exe, args...)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.cmd.Stdout = &p.stdout
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stderr = bufio.NewScanner(stderr)
	p.stderr.Buffer(nil, 1<<20)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// awaitLine reads stderr up to a line that matches and returns its groups.
func (p *program) awaitLine(pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	for p.stderr.Scan() {
		p.said = append(p.said, p.stderr.Text())
		if m := re.FindStringSubmatch(p.stderr.Text()); m != nil {
			return m
		}
	}
	p.t.Fatalf("it did not write %q to standard error, but\n%s", pattern, strings.Join(p.said, "\n"))
	return nil
}

// end waits for the end, checks that no process is left, and returns the exit
// status.
func (p *program) end() int {
	p.t.Helper()
	for p.stderr.Scan() {
		p.said = append(p.said, p.stderr.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			p.t.Fatal(err)
		}
	}
	if left := processesOf(p.t, p.cmd.Process.Pid); len(left) != 0 {
		p.t.Errorf("processes of the demo are left: %q", left)
	}
	return p.cmd.ProcessState.ExitCode()
}

// verdict ends the program and returns the one object that it printed.
func (p *program) verdict() (v verdict) {
	p.t.Helper()
	status := p.decode(&v)
	if v.OK != (status == 0) {
		p.t.Errorf("ok is %v and the exit status %d", v.OK, status)
	}
	if !v.OK || v.Errors+v.Lost+v.Duplicated+v.Reordered != 0 {
		p.t.Errorf("%+v\n%s", v, strings.Join(p.said, "\n"))
	}
	return v
}

// decode ends the program, reads the one object that it printed, and returns the exit
// status.
func (p *program) decode(v any) (status int) {
	p.t.Helper()
	status = p.end()
	d := json.NewDecoder(&p.stdout)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		p.t.Fatalf("status %d, output is not the JSON that is wanted: %v\n%s", status, err, strings.Join(p.said, "\n"))
	}
	if _, err := d.Token(); err != io.EOF {
		p.t.Error("more than one object on standard output")
	}
	return status
}

func verifiesOnTheEmbeddedStore(t *testing.T, exe string) {
	verifies(t, start(t, exe, "demo", "--for", "3s", "--bots", "20", "--json"))
}

func verifiesOnRedis(t *testing.T, exe string) {
	verifies(t, start(t, exe, "demo", "--for", "3s", "--bots", "20", "--json", "--store", redisURL(t)))
}

func verifiesOver(transport string) func(t *testing.T, exe string) {
	return func(t *testing.T, exe string) {
		verifies(t, start(t, exe, "demo", "--transport", transport, "--for", "1s", "--bots", "10", "--json"))
	}
}

func redisURL(t *testing.T) string {
	t.Helper()
	url := os.Getenv("ZLNODE_TEST_REDIS")
	if url == "" {
		t.Skip("needs a redis-server: set ZLNODE_TEST_REDIS to its host:port or URL")
	}
	if !strings.Contains(url, "://") {
		url = "redis://" + url
	}
	return url
}

func verifies(t *testing.T, p *program) {
	v := p.verdict()
	if v.Unavailable != 0 || v.Requests == 0 || v.Pushes < v.Requests || v.P50US <= 0 || v.P99US < v.P50US || v.RPS <= 0 {
		t.Errorf("%+v", v)
	}
	if len(p.said) > 0 {
		t.Errorf("it wrote to standard error:\n%s", strings.Join(p.said, "\n"))
	}
}

func verifiesHops(t *testing.T, exe string) {
	hops(t, start(t, exe, "demo", "--join", "--for", "3s", "--bots", "10", "--hop", "200ms", "--json"))
}

func verifiesHopsOnRedis(t *testing.T, exe string) {
	hops(t, start(t, exe, "demo", "--join", "--for", "3s", "--bots", "10", "--hop", "200ms", "--json", "--store", redisURL(t)))
}

func hops(t *testing.T, p *program) {
	v := p.verdict()
	j := v.Joins
	if j == nil || v.Unavailable != 0 || v.Requests == 0 || len(j.Failed) > 0 || j.Rejected > 0 {
		t.Fatalf("%+v, %+v", v, j)
	}
	if len(j.Nodes) != objectNodes || j.Nodes[0].MovedIn+j.Nodes[1].MovedIn != j.CrossNode || j.Nodes[0].MovedOut == 0 {
		t.Errorf("%d hops to another node; the nodes say %+v", j.CrossNode, j.Nodes)
	}
	for name, s := range map[string]span{
		"stop": j.Nodes[0].SourceStop, "resume": j.Nodes[1].TargetResume, "sealed": j.Sealed, "took": j.Took, "seen": j.Seen,
	} {
		if s.P50US <= 0 || s.P99US < s.P50US || s.MaxUS < s.P99US {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if j.Took.MaxUS < j.Sealed.MaxUS || j.Seen.MaxUS < j.Took.MaxUS {
		t.Errorf("sealed %+v is a part of took %+v, and that of seen %+v", j.Sealed, j.Took, j.Seen)
	}
}

// No hop is due before the end but the first of each, which may stay at its node.
func refusesARunWithoutHops(t *testing.T, exe string) {
	p := start(t, exe, "demo", "--join", "--for", "500ms", "--bots", "20", "--hop", "1h", "--json")
	var v verdict
	if status := p.decode(&v); status != 1 || v.OK || v.Errors != 1 || v.Joins.CrossNode >= 20 {
		t.Errorf("status %d, %+v, %+v", status, v, v.Joins)
	}
	if said := strings.Join(p.said, "\n"); !strings.Contains(said, "players have changed their node, and there are 20 bots") {
		t.Errorf("it says %q", said)
	}
}

func hopsSurviveAnObjectNode(t *testing.T, exe string) {
	p := endWhen(t, exe, `to another node [1-9]`, "objects-1", "3s", syscall.SIGKILL, "--join", "--hop", "200ms")
	if v := p.verdict(); v.Unavailable == 0 || v.Joins == nil || v.Joins.CrossNode == 0 {
		t.Errorf("%+v, %+v", v, v.Joins)
	}
}

// The demo kills the gateway itself, and excuses nothing for it.
func goOnAtAnotherGateway(t *testing.T, exe string) {
	v := start(t, exe, "demo", "--join", "--kill-gateway", "--transport", "ws", "--for", "4s", "--bots", "20", "--hop", "200ms", "--tick", "50ms", "--json").verdict()
	g := v.Gateway
	if v.Unavailable != 0 || g == nil || g.Killed != "gateway-1" || g.Clients != 10 || g.Resumed != 10 || g.Away.P50US <= 0 || v.Joins.CrossNode < 20 {
		t.Errorf("%+v, %+v, %+v", v, g, v.Joins)
	}
}

// All nodes go to the next version, with objects of every kind.
//
// req: PO-04, SB-06, PA-02
func replacesNodes(t *testing.T, exe string) {
	v := start(t, exe, "demo", "--rolling", "--nodes", "2", "--follow", "500ms", "--for", "2s", "--bots", "8", "--tick", "100ms", "--json").verdict()
	r := v.Rolling
	if v.Unavailable != 0 || r == nil || r.Dropped != 0 || len(r.Nodes) != 3 || len(r.Interruption) != len(stoodKinds) {
		t.Fatalf("%+v, %+v", v, r)
	}
	for i, mode := range []string{"RollingUpdate", "RollingUpdate", "PlannedMaintenance"} {
		n := r.Nodes[i]
		if n.Mode != mode || n.Outcome != "Relocated" || n.Reason != "None" || n.MovedUS <= 0 || n.TotalUS < n.MovedUS+n.SafeUS {
			t.Errorf("%+v", n)
		}
	}
	for kind, s := range r.Interruption {
		if s.Count == 0 || s.P50US <= 0 || s.MaxUS < s.P99US {
			t.Errorf("%s: %+v", kind, s)
		}
	}
}

// endWhilePlaying starts a demo and sends one of its nodes a signal when messages
// flow.
func endWhilePlaying(t *testing.T, exe, node, duration string, sig syscall.Signal, more ...string) *program {
	t.Helper()
	return endWhen(t, exe, `request p50 \d`, node, duration, sig, more...)
}

// endWhen is endWhilePlaying for the time when the line of the run says that.
func endWhen(t *testing.T, exe, says, node, duration string, sig syscall.Signal, more ...string) *program {
	t.Helper()
	p := start(t, exe, append([]string{"demo", "--for", duration, "--bots", "20", "--json", "--verbose"}, more...)...)
	pid, err := strconv.Atoi(p.awaitLine(`^node ` + node + ` .* pid (\d+) .*up$`)[1])
	if err != nil {
		t.Fatal(err)
	}
	p.awaitLine(`bots 20 of 20 .*` + says)
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
	p.awaitLine(`^node ` + node + ` .*down \(`)
	return p
}

func survivesAnObjectNode(t *testing.T, exe string) {
	survives(t, endWhilePlaying(t, exe, "objects-1", "3s", syscall.SIGKILL))
}

// A node that stops in order takes its Actors out of the Store.
func survivesAStop(t *testing.T, exe string) {
	survives(t, endWhilePlaying(t, exe, "objects-2", "3s", syscall.SIGTERM))
}

func survives(t *testing.T, p *program) {
	t.Helper()
	p.awaitLine(`bots [1-9]\d* of 20 .*unavailable [1-9]`) // the others play on
	if v := p.verdict(); v.Unavailable == 0 || v.Unavailable > 20 {
		t.Errorf("%d of 20 bots are unavailable", v.Unavailable)
	}
}

// The play would last a minute: no bot is left, and so it ends at once.
func tellsThatTheGatewayIsDead(t *testing.T, exe string) {
	p := endWhilePlaying(t, exe, "gateway", "60s", syscall.SIGKILL)
	if v := p.verdict(); v.Unavailable != 20 {
		t.Errorf("%d of 20 bots are unavailable", v.Unavailable)
	}
}

func namesADeadStore(t *testing.T, exe string) {
	addr := deadAddr(t)
	p := start(t, exe, "demo", "--store", "redis://user:secret@"+addr)
	status := p.end()
	said := strings.Join(p.said, "\n")
	if status != 1 || len(p.said) != 1 || !strings.HasPrefix(said, "zlnode: ") || !strings.Contains(said, addr) || strings.Contains(said, "secret") {
		t.Errorf("status %d, standard error:\n%s", status, said)
	}
	if p.stdout.Len() > 0 {
		t.Errorf("output %q", p.stdout.String())
	}
}

func endsEarlyWithItsResult(t *testing.T, exe string) {
	p := start(t, exe, "demo", "--for", "60s", "--bots", "5", "--json", "--verbose")
	p.awaitLine(`bots 5 of 5 .*request p50 \d`)
	// As a terminal does: to all processes of its group.
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if v := p.verdict(); v.Requests == 0 || v.Unavailable != 0 {
		t.Errorf("%+v", v)
	}
}

func writesLines(t *testing.T, exe string) {
	p := start(t, exe, "demo", "--for", "1200ms", "--bots", "5", "--moves", "0")
	status := p.end()
	out := p.stdout.String()
	for _, want := range []string{"node gateway ", "node objects-2 ", "bots 5 of 5", "\nok: ", "lost 0   duplicated 0   reordered 0   errors 0   unavailable 0"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in the output:\n%s", want, out)
		}
	}
	if status != 0 || strings.Contains(out, "\x1b") {
		t.Errorf("status %d, output %q", status, out)
	}
}

// startGateway starts a node process as the demo does, and waits until it serves.
func startGateway(t *testing.T, exe string) *nodeProc {
	t.Helper()
	redis, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	p, err := startNode(exe, nodeSettings{RID: "gateway", Role: roleGateway, Store: redis.URL(), MeshKey: make([]byte, meshKeyBytes)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p.stop(ctx)
	})
	if err := p.awaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	return p
}

func nodeEndsWithItsInput(t *testing.T, exe string) {
	p := startGateway(t, exe)
	p.stop(within(t))
	if fate, text := p.fate(); fate != fateStopped {
		t.Errorf("fate %d, %s", fate, text)
	}
}

func nodeEndsAtSIGTERM(t *testing.T, exe string) {
	p := startGateway(t, exe)
	if err := syscall.Kill(p.pid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, p)
	if fate, text := p.fate(); fate != fateKilled || text != "down (stopped in order by SIGTERM)" {
		t.Errorf("fate %d, %s", fate, text)
	}
}
