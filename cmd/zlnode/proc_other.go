//go:build !linux

package main

import "syscall"

// dieWithParent has no special way here: the end of a node process's standard
// input tells it that the demo is gone.
func dieWithParent() *syscall.SysProcAttr { return nil }
