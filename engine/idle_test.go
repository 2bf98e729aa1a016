package engine

import (
	"net/netip"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Conn's part of the budget of an idle connection: the build fails above it.
const _ = uint(512 - unsafe.Sizeof(Conn{}))

// heap returns the live bytes of the heap.
func heap() uint64 {
	var m runtime.MemStats
	for range 3 { // pools give up what they hold in two collections
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// bareSocket connects without anything on the heap.
func bareSocket(t testing.TB, addr string) int {
	t.Helper()
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ap := netip.MustParseAddrPort(addr)
	if err := unix.Connect(s, &unix.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
	return s
}

// idleBytes opens n connections, each of which has received and sent, and returns
// what one costs the heap afterwards.
func idleBytes(t testing.TB, n int) float64 {
	e := start(t, 1)
	p := testProtocol(&hooks{frame: echo})
	addr := listen(t, e, p)
	before := heap()
	var socks []int
	msg := frame("hello")
	in := make([]byte, len(msg))
	for range n {
		s := bareSocket(t, addr)
		socks = append(socks, s)
		if _, err := unix.Write(s, msg); err != nil {
			t.Fatal(err)
		}
		if k, err := unix.Read(s, in); err != nil || k != len(msg) {
			t.Fatalf("echo: %d bytes, %v", k, err)
		}
	}
	used := float64(heap()-before) / float64(n)
	for _, s := range socks {
		_ = unix.Close(s)
	}
	return used
}

func TestAnIdleConnectionIsSmall(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector adds to every object")
	}
	if n := idleBytes(t, 1000); n > 2<<10 {
		t.Errorf("%.0f bytes of heap per idle connection, over 2 KiB", n)
	}
}

// BenchmarkIdleConn reports what an idle connection costs: "heap-B/conn".
func BenchmarkIdleConn(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(idleBytes(b, 4000), "heap-B/conn")
	}
}
