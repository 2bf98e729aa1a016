package engine

import (
	"crypto/tls"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Conn's part of the budget of an idle connection: the build fails above it.
const _ = uint(512 - unsafe.Sizeof(Conn{}))

// heap returns the live bytes of the heap, and those of stacks.
func heap() (live, stacks uint64) {
	var m runtime.MemStats
	for range 3 { // pools give up what they hold in two collections
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.StackInuse
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
// what one costs the heap afterwards, and the stacks of goroutines.
func idleBytes(t testing.TB, transport Transport, n int) (heapEach, stackEach float64) {
	d := newEdge(t, transport, testProtocol(&hooks{frame: echo}))
	msg, in := d.wire(frame("hello")), make([]byte, 64)
	if transport.Encrypted() {
		_ = idleTLS(t, d) // what the first one costs the process
	}
	before, stacks := heap()
	var socks []int
	for range n {
		var s int
		if transport.Encrypted() {
			s = idleTLS(t, d)
		} else {
			s = bareSocket(t, d.addr)
			if transport.Messages() {
				exchangeBare(t, s, []byte(request()), in)
			}
			exchangeBare(t, s, msg, in)
		}
		socks = append(socks, s)
	}
	after, stacksAfter := heap()
	for _, s := range socks {
		_ = unix.Close(s)
	}
	return float64(after-before) / float64(n), float64(int64(stacksAfter)-int64(stacks)) / float64(n)
}

// exchangeBare writes msg and reads the one answer.
func exchangeBare(t testing.TB, s int, msg, in []byte) {
	t.Helper()
	if _, err := unix.Write(s, msg); err != nil {
		t.Fatal(err)
	}
	for range 4 { // of a long answer all
		if k, err := unix.Read(s, in); err != nil || k == 0 {
			t.Fatalf("answer: %d bytes, %v", k, err)
		} else if k < len(in) {
			return
		}
	}
}

// idleTLS connects, speaks once, and leaves nothing of the client but its socket.
func idleTLS(t testing.TB, d *edge) int {
	t.Helper()
	c := d.connect()
	write(t, c, d.wire(frame("hello")))
	if got := d.read(c); got != "hello" {
		t.Fatalf("got %q", got)
	}
	nc := c.(*tls.Conn).NetConn().(*net.TCPConn)
	raw, err := nc.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	s := -1
	if err := raw.Control(func(fd uintptr) { s, err = unix.Dup(int(fd)) }); err != nil || s < 0 {
		t.Fatal(err)
	}
	_ = nc.Close() // the socket stays open by its other descriptor
	return s
}

func TestAnIdleConnectionIsSmall(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector adds to every object")
	}
	for transport, most := range map[Transport]float64{TCP: 2 << 10, WS: 2 << 10, TLS: 16 << 10, WSS: 16 << 10} {
		t.Run(transport.String(), func(t *testing.T) {
			n := 1000
			if transport.Encrypted() {
				n = 200
			}
			used, stacks := idleBytes(t, transport, n)
			if used > most || stacks > 1<<10 {
				t.Errorf("%.0f bytes of heap and %.0f of stacks per idle connection, over %.0f and 1 KiB", used, stacks, most)
			}
		})
	}
}

// BenchmarkIdleConn reports what an idle connection costs: "heap-B/conn".
func BenchmarkIdleConn(b *testing.B) {
	for transport, n := range map[Transport]int{TCP: 4000, WS: 4000, TLS: 1000, WSS: 1000} {
		b.Run(transport.String(), func(b *testing.B) {
			for b.Loop() {
				used, stacks := idleBytes(b, transport, n)
				b.ReportMetric(used, "heap-B/conn")
				b.ReportMetric(stacks, "stack-B/conn")
			}
		})
	}
}
