package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// pipeGrace is how long the end of a process waits for the end of its output,
	// which something that it started could hold open.
	pipeGrace = time.Second
	// tailLines is how much of a process's log is kept to explain its end.
	tailLines = 5
)

// nodeProc is one node process. Its methods are safe for concurrent use.
type nodeProc struct {
	set   nodeSettings
	cmd   *exec.Cmd
	stdin io.WriteCloser // open as long as the node is wanted
	log   *logTail

	answers  chan []byte   // lines behind the first one
	doing    atomic.Bool   // it is being relocated
	stopping atomic.Bool   // the demo wants it to end
	unready  atomic.Bool   // then it had announced nothing yet
	forced   atomic.Bool   // and had to kill it
	ready    chan struct{} // closed when the process announced itself or ended
	done     chan struct{} // closed when it ended
	hello    nodeReady     // read it after ready; zero if the process ended first
	exit     error         // of Wait; read it after done
}

// startNode starts a node process of the program exe. The caller must stop it.
// Complete lines of its log go to verbose as well, if that is not nil.
func startNode(exe string, set nodeSettings, verbose io.Writer) (*nodeProc, error) {
	p := &nodeProc{
		set: set, cmd: exec.Command(exe, "demo-node"), log: &logTail{to: verbose},
		ready: make(chan struct{}), done: make(chan struct{}), answers: make(chan []byte, 1),
	}
	p.cmd.SysProcAttr = asNode()
	p.cmd.Stderr = p.log
	p.cmd.WaitDelay = pipeGrace
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, p.startError(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, p.startError(err)
	}
	settings, err := json.Marshal(set)
	if err != nil {
		return nil, p.startError(err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, p.startError(err)
	}
	go p.watch(stdout)
	// It fits into the pipe. If the process is gone already, its end says more
	// than the failed write does.
	_, _ = p.stdin.Write(append(settings, '\n'))
	return p, nil
}

func (p *nodeProc) startError(err error) error {
	return fmt.Errorf("node %s cannot be started: %w", p.set.RID, err)
}

// watch reads what the process announces and answers, and waits for its end. It is a goroutine
// of its own, which ends with the process.
func (p *nodeProc) watch(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, answerLineMax)
	announced := lines.Scan() && json.Unmarshal(lines.Bytes(), &p.hello) == nil
	if announced {
		close(p.ready)
	}
	for lines.Scan() {
		select {
		case p.answers <- bytes.Clone(lines.Bytes()):
		default: // nobody has asked for it
		}
	}
	_, _ = io.Copy(io.Discard, stdout) // behind a line that is too long
	p.exit = p.cmd.Wait()
	if !announced {
		close(p.ready)
	}
	close(p.done)
}

// errNotInTime: the node did nothing wrong but be slow.
var errNotInTime = errors.New("is not ready in time")

// awaitReady waits until the node serves. The error says why it does not.
func (p *nodeProc) awaitReady(ctx context.Context) error {
	select {
	case <-p.ready:
	case <-ctx.Done():
		return fmt.Errorf("node %s %w%s", p.set.RID, errNotInTime, p.log.quote())
	}
	switch {
	case p.hello.Error != "":
		return fmt.Errorf("node %s does not start: %s", p.set.RID, strings.TrimPrefix(p.hello.Error, errorPrefix))
	case p.hello.RID == "":
		<-p.done
		return fmt.Errorf("node %s ended before it was ready: %v%s", p.set.RID, p.cmd.ProcessState, p.log.quote())
	}
	return nil
}

// stop lets the process end in order, and kills it when ctx ends. It returns when
// the process is gone. A second time it does nothing.
func (p *nodeProc) stop(ctx context.Context) {
	select {
	case <-p.ready:
	default:
		p.unready.Store(!p.stopping.Load())
	}
	p.stopping.Store(true)
	_ = p.stdin.Close() // fails only if it is closed already
	select {
	case <-p.done:
	case <-ctx.Done():
		p.forced.Store(true)
		_ = p.cmd.Process.Kill() // fails only if it has ended
		<-p.done
	}
}

// kill ends the process at once, as a crash would.
func (p *nodeProc) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.done
}

// serves reports whether the node has said that it is ready.
func (p *nodeProc) serves() bool {
	select {
	case <-p.ready:
		return p.hello.RID != "" && p.hello.Error == ""
	default:
		return false
	}
}

// pid returns the process's number.
func (p *nodeProc) pid() int { return p.cmd.Process.Pid }

// fate says what became of a process.
type fate uint8

const (
	fateUp       fate = iota
	fateStopped       // as the demo wanted it
	fateKilled        // by a signal, so by hand
	fateDisorder      // as the demo wanted it, but not all that it had could be ended in order
	fateFailed        // by itself, or it did not stop in time
)

// fate returns what became of the process, with a text for people.
func (p *nodeProc) fate() (fate, string) {
	select {
	case <-p.done:
	default:
		return fateUp, "up"
	}
	sig, status := endOf(p.exit)
	switch {
	case p.forced.Load():
		return fateFailed, "did not stop in time and was killed" + p.log.quote()
	case sig != 0:
		return fateKilled, fmt.Sprintf("down (%v)", sig)
	case status == statusTerminated:
		return fateKilled, "down (stopped in order by SIGTERM)"
	case p.unready.Load(): // how its start ended then says nothing
		return fateStopped, "stopped before it served"
	case status == statusDisorder && p.stopping.Load():
		return fateDisorder, "stopped, but not in order" + p.log.quote()
	case p.exit != nil:
		return fateFailed, fmt.Sprintf("failed: %v%s", p.exit, p.log.quote())
	case !p.stopping.Load():
		return fateFailed, "ended though nobody asked it to" + p.log.quote()
	}
	return fateStopped, "stopped"
}

// endOf returns the signal that ended a process, or its exit status.
func endOf(exit error) (sig syscall.Signal, status int) {
	e, ok := errors.AsType[*exec.ExitError](exit)
	if !ok {
		return 0, 0
	}
	if w, ok := e.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return w.Signal(), 0
	}
	return 0, e.ExitCode()
}

// logTail keeps the last lines of a log and passes complete lines on. It is
// written by one goroutine and read by any.
type logTail struct {
	to io.Writer // nil: nowhere

	mu    sync.Mutex
	lines []string
	part  []byte // of the line that has not ended
}

// lineMax bounds a line that is kept, in bytes; a longer one is cut into several.
const lineMax = 2 << 10

// Write implements io.Writer. It never fails.
func (t *logTail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rest := b; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			n = len(rest)
		}
		n = min(n, lineMax-len(t.part))
		t.part = append(t.part, rest[:n]...)
		rest = rest[n:]
		if len(t.part) == lineMax || t.part[len(t.part)-1] == '\n' {
			t.keep(strings.TrimRight(string(t.part), "\n"))
			t.part = t.part[:0]
		}
	}
	return len(b), nil
}

func (t *logTail) keep(line string) {
	if t.to != nil {
		_, _ = fmt.Fprintln(t.to, line) // a log that cannot be written is no reason to stop
	}
	if len(t.lines) == tailLines {
		t.lines = t.lines[1:]
	}
	t.lines = append(t.lines, line)
}

// logEnds is before the last lines of a log.
const logEnds = "; its log ends:"

// quote returns the last lines for the end of an error text, or "".
func (t *logTail) quote() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return ""
	}
	return logEnds + "\n  " + strings.Join(t.lines, "\n  ")
}

// lockedWriter lets several goroutines write to w, one call at a time.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
