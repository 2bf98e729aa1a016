package engine

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// waker wakes one loop. It is a socket pair whose far end is enrolled in the loop
// like any connection: a byte written here is one ordinary read event there.
//
// gnet's own ways to wake a loop (AsyncWrite, Wake, Execute) allocate, and go to
// a queue that the loop runs until it is empty before it polls again: under load
// other connections starve. This event instead waits its turn among the others.
type waker struct {
	fd int // the near end, non-blocking

	// fd must not be closed under a writer: the number would be another file's.
	users  atomic.Int32
	closed atomic.Bool
}

var wakeByte = []byte{1}

// newWaker returns a waker and the far end for the loop.
func newWaker() (*waker, net.Conn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("engine: socket pair to wake a loop: %w", err)
	}
	f := os.NewFile(uintptr(fds[1]), "engine-wake")
	far, err := net.FileConn(f)
	if err = joinClose(err, f); err != nil {
		_ = unix.Close(fds[0])
		return nil, nil, fmt.Errorf("engine: socket pair to wake a loop: %w", err)
	}
	return &waker{fd: fds[0]}, far, nil
}

// wake makes the loop run a turn. It returns false if the waker is closed: the
// loop is gone then. It never blocks: when the socket is full, the loop has
// wake-ups to read already. Safe for concurrent use.
func (w *waker) wake() bool {
	w.users.Add(1)
	defer w.users.Add(-1)
	if w.closed.Load() {
		return false
	}
	for {
		if _, err := unix.Write(w.fd, wakeByte); err != unix.EINTR {
			return true
		}
	}
}

// close waits for calls of wake that are under way. What they announced is for
// the caller to look after.
func (w *waker) close() {
	w.closed.Store(true)
	for w.users.Load() != 0 {
		runtime.Gosched()
	}
	_ = unix.Close(w.fd)
}
