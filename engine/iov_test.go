package engine

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// bytesOf returns the bytes of a range.
func bytesOf(v *unix.Iovec) []byte { return unsafe.Slice(v.Base, v.Len) }
