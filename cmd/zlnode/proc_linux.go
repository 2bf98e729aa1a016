package main

import "syscall"

// dieWithParent asks the kernel to end a node process when the demo dies. It is
// the second of two ways: the end of its standard input says the same. The kernel
// watches the thread that started the process; Go keeps its threads.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
