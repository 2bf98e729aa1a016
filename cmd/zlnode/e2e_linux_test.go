package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { builtTests["all nodes end with a demo that is killed"] = nodesEndWithTheDemo }

func nodesEndWithTheDemo(t *testing.T, exe string) {
	p := start(t, exe, "demo", "--for", "60s", "--bots", "5", "--json", "--verbose")
	var nodes []int
	for range 1 + objectNodes {
		pid, err := strconv.Atoi(p.awaitLine(`^node .* pid (\d+) .*up$`)[1])
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		nodes = append(nodes, fd)
	}
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // that it was killed
	for _, fd := range nodes {
		awaitExit(t, fd)
	}
}

// awaitExit waits for the end of the process that fd refers to.
func awaitExit(t *testing.T, fd int) {
	t.Helper()
	for {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			t.Fatal(err)
		case ready == 0:
			t.Fatal("a node outlives the demo")
		default:
			return
		}
	}
}

// processesOf returns what /proc says of each process of a session.
func processesOf(t *testing.T, session int) (all []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d processes: %v", len(files), err)
	}
	for _, name := range files {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ") // state, parent, group, session
		if f := strings.Fields(rest); len(f) > 3 && f[3] == strconv.Itoa(session) {
			all = append(all, string(stat))
		}
	}
	return all
}
