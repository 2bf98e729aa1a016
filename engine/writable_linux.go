package engine

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/zlnode/zlnode/internal/invariant"
)

// writable tells blocked connections when their socket takes bytes again. It has
// an epoll instance and a goroutine of its own, because gnet reports writability
// only for its own out buffer, which has no bound and is never used here.
//
// An event names the connection's id, never its descriptor: descriptors are
// reused at once, ids never, so that a late event finds nobody.
type writable struct {
	epoll int
	stop  int // eventfd that ends run; its event has id 0
	done  chan struct{}

	mu struct { // a leaf: nothing is called while it is held
		sync.Mutex
		conns map[uint64]*Conn // those that were blocked at least once and are open
	}
}

func newWritable() (*writable, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", os.NewSyscallError("epoll_create1", err))
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(ep)
		return nil, fmt.Errorf("engine: %w", os.NewSyscallError("eventfd", err))
	}
	w := &writable{epoll: ep, stop: stop, done: make(chan struct{})}
	w.mu.conns = make(map[uint64]*Conn)
	if err := w.ctl(unix.EPOLL_CTL_ADD, stop, unix.EPOLLIN, 0); err != nil {
		_ = unix.Close(stop)
		_ = unix.Close(ep)
		return nil, err
	}
	go w.run()
	return w, nil
}

// arm asks for one event for c. Only c's loop may call it, and only while c's
// descriptor is open.
func (w *writable) arm(c *Conn) error {
	op := unix.EPOLL_CTL_MOD
	if !c.watched {
		op = unix.EPOLL_CTL_ADD
		c.watched = true
		w.mu.Lock()
		w.mu.conns[c.id] = c
		w.mu.Unlock()
	}
	return w.ctl(op, c.fd, unix.EPOLLOUT|unix.EPOLLONESHOT, c.id)
}

// forget ends all events for c. Only c's loop may call it, before c's descriptor
// is closed.
func (w *writable) forget(c *Conn) {
	if !c.watched {
		return
	}
	c.watched = false
	w.mu.Lock()
	delete(w.mu.conns, c.id)
	w.mu.Unlock()
	_ = w.ctl(unix.EPOLL_CTL_DEL, c.fd, 0, c.id) // fails only if arm failed
}

func (w *writable) ctl(op, fd int, events uint32, id uint64) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
	if err := unix.EpollCtl(w.epoll, op, fd, &ev); err != nil {
		return fmt.Errorf("engine: watching a socket for writability: %w", os.NewSyscallError("epoll_ctl", err))
	}
	return nil
}

func (w *writable) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 128)
	for {
		n, err := unix.EpollWait(w.epoll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		invariant.Check(err == nil, "engine: epoll_wait: %v", err)
		for _, ev := range events[:n] {
			id := uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32
			if id == 0 {
				return
			}
			w.mu.Lock()
			c := w.mu.conns[id]
			w.mu.Unlock()
			if c != nil {
				c.writable.Store(true)
				c.wantService()
			}
		}
	}
}

// close ends the goroutine. No connection may be left.
func (w *writable) close() {
	_, _ = unix.Write(w.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-w.done
	_ = unix.Close(w.stop)
	_ = unix.Close(w.epoll)
}
