package redislua

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// redisProcess is a redis-server of one test, which may do to it what it likes.
type redisProcess struct {
	t    testing.TB
	addr string
	dir  string
	args []string
	raw  *redis.Client // beside any Store

	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

// startTries bounds how often another process may take the port between our choosing
// it and the server's binding it.
const startTries = 5

// startRedis starts a server that keeps nothing, unless args say otherwise, and waits
// until it answers. An argument "PORT" stands for one more free port. Tests that start
// one run where a Redis is given to tests, and then the program must be there.
func startRedis(t testing.TB, args ...string) *redisProcess {
	t.Helper()
	realRedis(t)
	for try := 1; ; try++ {
		p := &redisProcess{t: t, dir: t.TempDir(), addr: freeAddr(t)}
		_, port, _ := net.SplitHostPort(p.addr)
		config := filepath.Join(p.dir, "redis.conf") // an empty one: a Sentinel keeps what it knows in it
		if err := os.WriteFile(config, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p.args = []string{
			config, "--bind", "127.0.0.1", "--port", port, "--dir", p.dir, "--logfile", p.logFile(),
			"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0",
		}
		for _, arg := range args {
			if arg == "PORT" {
				_, arg, _ = net.SplitHostPort(freeAddr(t))
			}
			p.args = append(p.args, arg)
		}
		p.raw = redis.NewClient(&redis.Options{
			Addr: p.addr, DisableIdentity: true, Protocol: 2, MaxRetries: -1, DialerRetries: 1,
			PoolSize: 1000, // so many dials may fail before go-redis makes a pause of a second
		})
		t.Cleanup(func() {
			p.kill()
			_ = p.raw.Close()
		})
		err := p.run()
		if err == nil {
			return p
		}
		if try == startTries {
			t.Fatal(err)
		}
	}
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// start runs the server again, on what the one before left in its folder.
func (p *redisProcess) start() {
	p.t.Helper()
	if err := p.run(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *redisProcess) run() error {
	p.cmd = exec.Command("redis-server", p.args...)
	p.ended = nil
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true,            // an interrupt at the terminal is for the tests
		Pdeathsig: syscall.SIGKILL, // nothing is left of tests that were killed
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("redis-server, which these tests need where ZLNODE_TEST_REDIS is set: %v", err)
	}
	cmd, ended := p.cmd, make(chan struct{})
	p.ended = ended
	go func() {
		_ = cmd.Wait() // how it ended is told by its log
		close(ended)
	}()
	mine := "process_id:" + strconv.Itoa(p.cmd.Process.Pid) + "\r\n"
	ready := false
	until(p.t, "redis-server at "+p.addr, func() bool {
		ctx := within(p.t)
		// On a port that somebody else took meanwhile, somebody else answers.
		ready = strings.Contains(p.raw.Info(ctx, "server").Val(), mine) && p.raw.Ping(ctx).Err() == nil
		select {
		case <-ended:
			return true
		default:
			return ready
		}
	})
	if !ready {
		return errors.New("redis-server ended at once; its log: " + p.log())
	}
	return nil
}

func (p *redisProcess) logFile() string { return filepath.Join(p.dir, "redis.log") }

func (p *redisProcess) log() string {
	b, err := os.ReadFile(p.logFile())
	return string(b[max(0, len(b)-2000):]) + errorText(err)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// kill ends the server as kill -9 does.
func (p *redisProcess) kill() {
	if p.ended == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

func (p *redisProcess) url() string { return "redis://" + p.addr }

// do runs a command that must succeed.
func (p *redisProcess) do(args ...any) any {
	p.t.Helper()
	answer, err := p.raw.Do(within(p.t), args...).Result()
	if err != nil {
		p.t.Fatalf("%v at %s: %v", args, p.addr, err)
	}
	return answer
}

// info returns a field of the server's INFO, "" while it does not answer.
func (p *redisProcess) info(field string) string {
	return fieldOf(p.raw.Info(within(p.t)).Val(), field)
}

// fieldOf returns a field of what a server says about itself.
func fieldOf(info, field string) string {
	for line := range strings.Lines(info) {
		if value, is := strings.CutPrefix(line, field+":"); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// onOwn runs the test on a server of its own, embedded and, if there is one, real.
func onOwn(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("Embedded", func(t *testing.T) { test(t, embeddedRedis(t).URL()) })
	t.Run("Real", func(t *testing.T) { test(t, startRedis(t).url()) })
}
