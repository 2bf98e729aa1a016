package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func started(t *testing.T) *redis {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("there is no redis-server on this machine")
	}
	r, err := startRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestTheServerAnswersWhenItIsStarted(t *testing.T) {
	r := started(t)
	pid, err := serverPID(t.Context(), r.addr)
	if err != nil || pid != r.cmd.Process.Pid {
		t.Errorf("process %d answers, %v; want %d", pid, err, r.cmd.Process.Pid)
	}
}

func TestTwoServersHaveTheirOwnPorts(t *testing.T) {
	if a, b := started(t), started(t); a.addr == b.addr {
		t.Errorf("both on %s", a.addr)
	}
}

func TestAStoppedServerLeavesNothing(t *testing.T) {
	r := started(t)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", r.addr); err == nil {
		t.Errorf("%s still listens: %v", r.addr, conn.Close())
	}
	if _, err := os.Stat(r.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", r.dir, err)
	}
	if err := r.stop(); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

func TestAServerOfSomebodyElseIsNotTakenForOurs(t *testing.T) {
	theirs := started(t)
	ours := &redis{addr: theirs.addr, cmd: &exec.Cmd{Process: &os.Process{Pid: 1}}, ended: make(chan struct{})}
	if err := ours.ready(t.Context()); err == nil || !strings.Contains(err.Error(), "taken by process") {
		t.Errorf("ready: %v", err)
	}
}

func TestAServerThatEndsAtOnceIsAnError(t *testing.T) {
	dead := &redis{addr: "127.0.0.1:1", cmd: &exec.Cmd{Process: &os.Process{Pid: 1}}, ended: make(chan struct{})}
	close(dead.ended)
	if err := dead.ready(t.Context()); err == nil || !strings.Contains(err.Error(), "ended at once") {
		t.Errorf("ready: %v", err)
	}
}
