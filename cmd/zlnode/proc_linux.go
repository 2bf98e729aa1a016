package main

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent asks the kernel to end a node process when the demo dies. It is
// the second of two ways: the end of its standard input says the same. The kernel
// watches the thread that started the process; Go keeps its threads.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

// sharedClock returns the time since the machine's start, by a clock that all processes
// share and nobody sets.
func sharedClock() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // every Linux has that clock
	return time.Duration(t.Nano())
}
