package main

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// asNode asks the kernel to end a node process when the demo dies. It is the second of two
// ways: the end of its standard input says the same. The kernel watches the thread that
// started the process; Go keeps its threads. Ctrl-C on a terminal goes to the demo's process
// group and is for the demo alone, so a node has a group of its own from its first moment.
func asNode() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}

// sharedClock returns the time since the machine's start, by a clock that all processes
// share and nobody sets.
func sharedClock() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // every Linux has that clock
	return time.Duration(t.Nano())
}
