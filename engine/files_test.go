package engine

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// limitFiles lets no descriptor be opened from n on, until restore is called.
func limitFiles(t *testing.T, n uint64) (restore func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	restore = sync.OnceFunc(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before) })
	t.Cleanup(restore)
	return restore
}

// lowestFree returns the number that the next descriptor gets.
func lowestFree(t *testing.T) uint64 {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	return uint64(fd)
}

func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// socket returns an unconnected socket; connecting it takes no descriptor.
func socket(t *testing.T) (fd int, connect func(addr string)) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd, func(addr string) {
		t.Helper()
		ap := netip.MustParseAddrPort(addr)
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}); err != nil {
			t.Fatal(err)
		}
	}
}

// warnings is a writer of JSON log lines that keeps the warnings.
type warnings chan string

func (w warnings) Write(p []byte) (int, error) {
	var line struct{ Level string }
	if json.Unmarshal(p, &line) == nil && line.Level == "warn" {
		select {
		case w <- string(p):
		default:
		}
	}
	return len(p), nil
}

func warningEngine(t *testing.T) (*Engine, warnings) {
	t.Helper()
	w := make(warnings, 16)
	e, err := New(Config{Loops: 1, Logger: zerolog.New(w)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e, w
}

func TestNewWithoutDescriptorsFailsAndLeavesNothingOpen(t *testing.T) {
	before := openFiles(t)
	failures := 0
	for n := lowestFree(t); ; n++ {
		restore := limitFiles(t, n)
		e, err := New(Config{Loops: 2})
		restore()
		if err == nil {
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
			break
		}
		failures++
	}
	if failures < 5 {
		t.Errorf("only %d failures: the test tests little", failures)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}

func TestAcceptingGoesOnWhenDescriptorsAreFreeAgain(t *testing.T) {
	e, warned := warningEngine(t)
	addr := listen(t, e, testProtocol(&hooks{frame: echo}))
	sock, connect := socket(t)
	restore := limitFiles(t, 3)
	connect(addr)
	if line := receive(t, warned, "the log line"); !strings.Contains(line, addr) {
		t.Errorf("the log line does not name the address: %s", line)
	}
	restore()
	if _, err := unix.Write(sock, frame("patient")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(frame("patient")))
	for n := 0; n < len(got); {
		k, err := unix.Read(sock, got[n:])
		if err != nil || k == 0 {
			t.Fatalf("reading the echo: %d, %v", k, err)
		}
		n += k
	}
	if e.Stats().AcceptFailures == 0 {
		t.Error("no accept failed: the test tests nothing")
	}
}

// The reactor needs a second descriptor for a moment.
func TestAnAcceptedConnectionWithoutADescriptorIsClosedAndNotCounted(t *testing.T) {
	e, warned := warningEngine(t)
	l, err := e.Listen(Listen{Addr: "127.0.0.1:0", Protocol: testProtocol(&hooks{frame: echo}), MaxPerIP: 1})
	if err != nil {
		t.Fatal(err)
	}
	sock, connect := socket(t)
	restore := limitFiles(t, lowestFree(t)+1)
	connect(l.Addr().String())
	receive(t, warned, "the log line")
	restore()
	if n, _ := unix.Read(sock, make([]byte, 1)); n > 0 {
		t.Error("a byte came from a connection that could not be opened")
	}
	if s := e.Stats(); s.Conns != 0 || s.Unadmitted != 0 || s.Accepted != 0 || l.conns.Load() != 0 {
		t.Errorf("%+v", s)
	}
	if refused(t, l.Addr().String()) {
		t.Error("the place of the address was not given back")
	}
}
