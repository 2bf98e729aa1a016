package engine

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// gather is a loop's scratch for one gathered write: the kernel's list of byte
// ranges, and a block into which small messages are copied one after the other,
// so that a run of them takes one range. Nothing in it outlives the write.
type gather struct {
	iov     [iovMax]unix.Iovec
	n       int    // ranges in iov
	scratch []byte // readBytes long
	used    int    // bytes of scratch
	open    bool   // the last range ends at scratch[used]
	total   int    // bytes in all ranges
}

func (g *gather) reset() {
	clear(g.iov[:g.n]) // so that it holds no message's memory
	g.n, g.used, g.total, g.open = 0, 0, 0, false
}

// add appends p and reports whether there was room; nothing is added otherwise.
func (g *gather) add(p []byte) bool {
	if len(p) <= copyMax {
		return g.addCopy(p)
	}
	if g.n == len(g.iov) {
		return false
	}
	g.append(p)
	g.open = false
	return true
}

// addUpTo appends p, or as much of it as keeps the total within budget, and
// reports whether there may be room for more.
func (g *gather) addUpTo(budget int, p []byte) bool {
	if room := budget - g.total; len(p) > room {
		p = p[:room]
	}
	return g.add(p) && g.total < budget
}

func (g *gather) addCopy(p []byte) bool {
	if len(g.scratch)-g.used < len(p) {
		return false
	}
	if !g.open {
		if g.n == len(g.iov) {
			return false
		}
		copy(g.scratch[g.used:], p)
		g.append(g.scratch[g.used : g.used+len(p)])
		g.open = true
	} else {
		copy(g.scratch[g.used:], p)
		last := &g.iov[g.n-1]
		last.SetLen(int(last.Len) + len(p))
		g.total += len(p)
	}
	g.used += len(p)
	return true
}

func (g *gather) append(p []byte) {
	g.iov[g.n].Base = unsafe.SliceData(p)
	g.iov[g.n].SetLen(len(p))
	g.n++
	g.total += len(p)
}

// write hands the ranges to the socket and returns how many bytes it took.
func (g *gather) write(fd int) (int, error) {
	for {
		var n uintptr
		var errno unix.Errno
		if g.n == 1 {
			n, _, errno = unix.Syscall(unix.SYS_WRITE, uintptr(fd),
				uintptr(unsafe.Pointer(g.iov[0].Base)), uintptr(g.iov[0].Len))
		} else {
			n, _, errno = unix.Syscall(unix.SYS_WRITEV, uintptr(fd),
				uintptr(unsafe.Pointer(&g.iov[0])), uintptr(g.n))
		}
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
