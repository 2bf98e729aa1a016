package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startTries bounds how often another process may take the port between our
	// choosing it and Redis binding it.
	startTries = 5
	// startTime is how long one try waits for the first answer.
	startTime = 10 * time.Second
	// stopTime is how long Redis gets to end before it is killed.
	stopTime = 5 * time.Second
	// pollTime is the time between two looks at a server that is starting.
	pollTime = 20 * time.Millisecond
	// logTail is how much of the server's log an error quotes, in bytes.
	logTail = 2 << 10
)

// redis is a running redis-server that belongs to this process.
type redis struct {
	addr  string
	dir   string
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

// startRedis starts a server with an empty folder and waits until it answers.
// The caller must stop it. Should this process be killed, the kernel ends the
// server: for that the caller must be on a thread that lives as long as the
// process.
func startRedis(ctx context.Context) (*redis, error) {
	var errs error
	for range startTries {
		r, err := tryRedis(ctx)
		if err == nil {
			return r, nil
		}
		errs = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errs
}

func tryRedis(ctx context.Context) (*redis, error) {
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("no free loopback port for redis-server: %w", err)
	}
	dir, err := os.MkdirTemp("", "zlnode-redis-")
	if err != nil {
		return nil, fmt.Errorf("no folder for redis-server: %w", err)
	}
	r := &redis{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dir: dir, ended: make(chan struct{})}
	r.cmd = exec.Command("redis-server",
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port),
		"--save", "", "--appendonly", "no",
		"--dir", dir, "--logfile", r.logFile())
	r.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true,            // an interrupt at the terminal is for us, not for it
		Pdeathsig: syscall.SIGKILL, // nothing is left when we are killed
	}
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start of redis-server: %w", err), os.RemoveAll(dir))
	}
	go func() {
		_ = r.cmd.Wait() // how it ended is told by its log
		close(r.ended)
	}()
	if err := r.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("redis-server on %s: %w%s", r.addr, err, r.log()), r.stop())
	}
	return r, nil
}

// freePort returns a port of the loopback interface that nobody listens on now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

func (r *redis) logFile() string { return filepath.Join(r.dir, "redis.log") }

// log returns the end of the server's log, to be put behind an error's text.
func (r *redis) log() string {
	b, err := os.ReadFile(r.logFile())
	if err != nil || len(b) == 0 {
		return ""
	}
	return "\nits log ends:\n" + string(b[max(0, len(b)-logTail):])
}

// ready waits until the server answers, and that it is ours: on a port that
// somebody else took meanwhile, somebody else's answers.
func (r *redis) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	for {
		pid, err := serverPID(ctx, r.addr)
		switch {
		case err == nil && pid == r.cmd.Process.Pid:
			return nil
		case err == nil:
			return fmt.Errorf("the port was taken by process %d", pid)
		}
		select {
		case <-r.ended:
			return errors.New("ended at once")
		case <-ctx.Done():
			return fmt.Errorf("does not answer: %w", errors.Join(ctx.Err(), err))
		case <-poll.C:
		}
	}
}

// serverPID asks the Redis at addr for its process id.
func serverPID(ctx context.Context, addr string) (pid int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return 0, err
		}
	}
	if _, err := io.WriteString(conn, "INFO server\r\n"); err != nil {
		return 0, err
	}
	answer := bufio.NewScanner(io.LimitReader(conn, 64<<10))
	for answer.Scan() {
		line := answer.Text()
		if strings.HasPrefix(line, "-") {
			return 0, fmt.Errorf("answer to INFO: %s", line)
		}
		if id, ok := strings.CutPrefix(line, "process_id:"); ok {
			return strconv.Atoi(id)
		}
	}
	return 0, errors.Join(errors.New("no process_id in the answer to INFO"), answer.Err())
}

// stop ends the server and removes its folder.
func (r *redis) stop() error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop of redis-server %d: %w", r.cmd.Process.Pid, err)
	}
	kill := time.NewTimer(stopTime)
	defer kill.Stop()
	select {
	case <-r.ended:
	case <-kill.C:
		if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("kill of redis-server %d: %w", r.cmd.Process.Pid, err)
		}
		<-r.ended
	}
	if err := os.RemoveAll(r.dir); err != nil {
		return fmt.Errorf("folder of redis-server: %w", err)
	}
	return nil
}
