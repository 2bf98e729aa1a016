package zlnode_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/store"
)

// A diary writes down what it executes, where its process's end does not matter.
type diary struct{}

func diaryApp() *zlnode.App {
	app := zlnode.NewApp()
	d := zlnode.DefineActor(app, "diary", func(*zlnode.ActorContext) (*diary, error) { return &diary{}, nil }, zlnode.DisableRelocation)
	write := func(path string) error {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(f, os.Getpid())
		if closing := f.Close(); err == nil {
			err = closing
		}
		return err
	}
	zlnode.OnRequest(d, "write", func(_ *zlnode.ActorCall, _ *diary, path string) (int, error) { return os.Getpid(), write(path) })
	// pass lets another diary write, by the way that this process knows.
	zlnode.OnRequest(d, "pass", func(c *zlnode.ActorCall, _ *diary, path string) (int, error) {
		return zlnode.Request[int](c, c.Node().Actor(filepath.Base(path)), "write", path)
	})
	zlnode.OnSend(d, "write", func(_ *zlnode.ActorCall, _ *diary, path string) error { return write(path) })

	// A journal is a diary that comes with its first message. Its timer writes, too.
	j := zlnode.DefineInstanceSpot(app, "journal", func(*zlnode.SpotContext) (*string, error) { return new(string), nil }, zlnode.DisableRelocation)
	zlnode.OnSpotRequest(j, "write", func(_ *zlnode.SpotCall, _ *string, path string) (int, error) { return os.Getpid(), write(path) })
	zlnode.OnSpotSend(j, "write", func(_ *zlnode.SpotCall, _ *string, path string) error { return write(path) })
	zlnode.OnSpotRequest(j, "tick", func(c *zlnode.SpotCall, s *string, path string) (int, error) {
		*s = path
		return os.Getpid(), c.StartTimer("write", zlnode.TimerOptions{Period: time.Millisecond})
	})
	zlnode.OnSpotTimer(j, "write", func(_ *zlnode.SpotCall, s *string, _ zlnode.Tick) error { return write(*s) })
	return app
}

// entries counts what was written to the file.
func entries(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

const pausedVariable = "ZLNODE_TEST_PAUSED"

// TestPausedProcess is the process that the tests here pause. It runs a node until its
// standard input ends or the node does, and proves nothing by itself.
func TestPausedProcess(t *testing.T) {
	if os.Getenv(pausedVariable) == "" {
		return
	}
	in := bufio.NewReader(os.Stdin)
	var order childOrder
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &order)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	n, err := zlnode.Start(ctx, order.Config, diaryApp())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	told := make(chan struct{})
	go func() {
		defer close(told)
		_, _ = io.Copy(io.Discard, in)
	}()
	select {
	case <-n.Done():
		fmt.Println("over")
	case <-told:
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
	defer cancel()
	_ = n.Shutdown(stop)
	fmt.Println("stopped")
	<-told // the parent has read it
}

// paused is the parent's side.
type paused struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// pausable starts a node with diaries in a process of its own.
func (w *world) pausable(rid string) *paused {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestPausedProcess$")
	cmd.Env = append(os.Environ(), pausedVariable+"=1")
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
	p := &paused{t: w.t, cmd: cmd, in: in, out: bufio.NewReader(out)}
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // "signal: killed"
		_ = in.Close()
	})
	if err := json.NewEncoder(in).Encode(childOrder{Config: w.config(shortLease(zlnode.Config{RID: rid, Role: zlnode.RoleServer}))}); err != nil {
		w.t.Fatal(err)
	}
	p.says("ready")
	return p
}

// says waits until the process says so.
func (p *paused) says(want string) {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != want {
		p.t.Fatalf("the process says %q, %v; want %q", line, err, want)
	}
}

func (p *paused) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// pause stops the process where it is, and returns when it stands.
func (p *paused) pause() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	stat := fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid)
	for {
		b, err := os.ReadFile(stat)
		if err != nil {
			p.t.Fatal(err)
		}
		if strings.Contains(string(b), ") T ") {
			return
		}
	}
}

func (p *paused) resume() { p.signal(syscall.SIGCONT) }

// pauseWithMail makes an Actor at the process, pauses it with messages on the way, waits
// for its lease's end, and frees the Actor by hand.
func (w *world) pauseWithMail(p *paused, c *zlnode.Node, st store.Store, id, path string) {
	w.t.Helper()
	w.diaryAt(c, p, id)
	actor := c.Actor(id)
	if _, err := zlnode.Request[int](w.ctx, actor, "write", path); err != nil || entries(w.t, path) != 1 {
		w.t.Fatalf("before the pause: %d entries, %v", entries(w.t, path), err)
	}
	p.pause()
	for range 50 {
		if err := zlnode.Send(w.ctx, actor, "write", path); err != nil {
			w.t.Fatal(err)
		}
	}
	row := w.wantRow(st, id, "the lease's end", func(row *store.Authority, _ bool) bool { return row.LeaseLeft <= 0 })
	f, err := st.Free(w.ctx, store.FreeOf(&row, newOp()))
	if err != nil || f.Reason != store.Applied {
		w.t.Fatalf("Free = %+v, %v", f, err)
	}
}

// diaryAt creates a diary and makes sure that it runs in the process.
func (w *world) diaryAt(c *zlnode.Node, p *paused, id string) {
	w.t.Helper()
	if _, err := c.CreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "diary"}); err != nil {
		w.t.Fatal(err)
	}
	if pid, err := zlnode.Request[int](w.ctx, c.Actor(id), "write", os.DevNull); err != nil || pid != p.cmd.Process.Pid {
		w.t.Fatalf("%s runs in process %d, %v; want %d", id, pid, err, p.cmd.Process.Pid)
	}
}

// createAgain creates the id once a server takes it, and returns its row.
func (w *world) createAgain(c *zlnode.Node, st store.Store, id, path string) store.Authority {
	w.t.Helper()
	for {
		_, err := c.GetOrCreateActor(w.ctx, zlnode.CreateActor{ID: id, Type: "diary"})
		if err == nil {
			break
		}
		if w.ctx.Err() != nil {
			w.t.Fatal(err)
		}
	}
	if pid, err := zlnode.Request[int](w.ctx, c.Actor(id), "write", path); err != nil || pid != os.Getpid() {
		w.t.Fatalf("%s runs in process %d, %v; want this one", id, pid, err)
	}
	return w.wantRow(st, id, "its owner", func(row *store.Authority, found bool) bool { return found && row.State == store.Ready })
}

// A process that was paused past its lease, and whose RID another process has taken
// meanwhile, executes nothing of what waited for it, and leaves all that is in the Store.
// req: RL-20
func TestAPausedProcessThatWasReplacedDoesNothing(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		before, after := filepath.Join(t.TempDir(), "before"), filepath.Join(t.TempDir(), "after")
		st := w.location()
		p := w.pausable("a")
		c := w.start(shortLease(zlnode.Config{RID: "c", Role: zlnode.RoleClient}), diaryApp())
		w.linked(c, 1)
		w.pauseWithMail(p, c, st, "diary-1", before)
		next := w.start(zlnode.Config{RID: "a", Role: zlnode.RoleServer}, diaryApp())
		row := w.createAgain(c, st, "diary-1", after)

		p.resume()
		p.says("over")
		p.says("stopped")
		if n := entries(t, before); n != 1 {
			t.Errorf("%d messages were executed after the pause", n-1)
		}
		now, _, err := st.Read(w.ctx, "diary-1")
		if err != nil || now.Version != row.Version || now.OwnerID != row.OwnerID || now.LeaseLeft <= 0 {
			t.Errorf("the row is %+v, %v; it was %+v", now, err, row)
		}
		l, err := st.ListNodes(w.ctx, 0)
		if err != nil || len(l.Nodes) != 2 || uint64(l.Nodes[0].Lifecycle) != next.Lifecycle() || l.Nodes[0].LeaseLeft <= 0 {
			t.Errorf("nodes are %+v, %v; want the new process of a, and c", l.Nodes, err)
		}
		if _, err := zlnode.Request[int](w.ctx, c.Actor("diary-1"), "write", after); err != nil || entries(t, after) != 2 {
			t.Errorf("the new actor: %d entries, %v", entries(t, after), err)
		}
	})
}

// A process that was paused past its lease and that nobody replaced takes its lease again
// and goes on, but not with what was freed by hand and lives elsewhere now.
// req: RL-20
func TestAPausedProcessDoesNothingWithWhatWasFreed(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		before, after := filepath.Join(t.TempDir(), "before"), filepath.Join(t.TempDir(), "diary-1")
		st := w.location()
		p := w.pausable("a")
		c := w.start(shortLease(zlnode.Config{RID: "c", Role: zlnode.RoleClient}), diaryApp())
		w.linked(c, 1)
		w.diaryAt(c, p, "diary-2")
		w.pauseWithMail(p, c, st, "diary-1", before)
		w.start(shortLease(zlnode.Config{RID: "b", Role: zlnode.RoleServer}), diaryApp())
		row := w.createAgain(c, st, "diary-1", after)

		p.resume()
		for { // it acts again
			pid, err := zlnode.Request[int](w.ctx, c.Actor("diary-2"), "write", os.DevNull)
			if err == nil && pid == p.cmd.Process.Pid {
				break
			}
			if w.ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		for { // until it is linked to the node that it has never met
			pid, err := zlnode.Request[int](w.ctx, c.Actor("diary-2"), "pass", after)
			if err != nil && zlnode.KindOf(err) == zlnode.Unavailable && w.ctx.Err() == nil {
				continue
			}
			if err != nil || pid != os.Getpid() {
				t.Errorf("from the paused process: process %d, %v; want the new actor in this one", pid, err)
			}
			break
		}
		_ = p.in.Close()
		p.says("stopped") // and what it had begun has ended
		if n := entries(t, before); n != 1 {
			t.Errorf("%d messages were executed after the pause", n-1)
		}
		if now, _, err := st.Read(w.ctx, "diary-1"); err != nil || now.Version != row.Version || now.OwnerID != row.OwnerID {
			t.Errorf("in the end the row is %+v, %v; it was %+v", now, err, row)
		}
		if _, err := zlnode.Request[int](w.ctx, c.Actor("diary-1"), "write", after); err != nil || entries(t, after) != 3 {
			t.Errorf("the new actor: %d entries, %v", entries(t, after), err)
		}
	})
}
