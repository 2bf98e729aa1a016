//go:build !race && !invariants

package zlnode_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/session"
)

const (
	idleSessions    = 10_000
	idleSessionMost = 4 << 10 // bytes of heap and stacks
	idleRounds      = 7       // seconds, more than a silent client is given

	// idleClientsOf has a process of the test binary be the clients: both ends together need
	// more descriptors than many systems give a process.
	idleClientsOf = "ZLNODE_TEST_IDLE_CLIENTS_OF"
)

// Ten thousand clients that have each spoken to their Session and do nothing any more but
// heartbeats stay connected, and none costs much.
func TestTenThousandIdleSessionsAllocateLittle(t *testing.T) {
	if addr := os.Getenv(idleClientsOf); addr != "" {
		if err := beIdleClients(addr, os.Stdin, os.Stdout); err != nil {
			t.Fatal(err)
		}
		return
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Cur < idleSessions+100 {
		t.Skipf("a process may have %d files open here: %v", files.Cur, err)
	}
	app := zlnode.NewApp()
	v := zlnode.DefineSession(app, "client", func(*zlnode.SessionContext) (*recorder, error) { return &recorder{}, nil })
	zlnode.OnPacketRequestRaw(v, "hello", func(_ *zlnode.SessionCall, _ *recorder, b []byte) ([]byte, error) { return b, nil })
	n, err := zlnode.Start(t.Context(), zlnode.Config{
		Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "client", IdleTimeout: -1}},
	}, app)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Shutdown(context.Background()) })

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // that of the test ends before its cleanups
	t.Cleanup(cancel)
	before := liveBytes()
	clients := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	clients.Env = append(os.Environ(), idleClientsOf+"="+n.SessionAddrs()[0].String())
	clients.Stderr = os.Stderr
	in, err := clients.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := clients.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := clients.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := clients.Wait(); err != nil {
			t.Errorf("the clients: %v", err)
		}
	})
	said := bufio.NewScanner(out)
	for _, word := range []string{"connected", "kept"} {
		for said.Scan() && said.Text() != word {
		}
		if said.Text() != word {
			t.Fatalf("the clients are not %s", word)
		}
		each := (liveBytes() - before) / idleSessions
		t.Logf("%s: %d bytes for each session", word, each)
		if got := n.Stats().Sessions; got != idleSessions || each > idleSessionMost {
			t.Errorf("%s: %d sessions of %d bytes each, want %d of at most %d", word, got, each, idleSessions, idleSessionMost)
		}
	}
}

// liveBytes returns what lives on the heap and on stacks.
func liveBytes() int64 {
	for range 3 { // pools give up what they hold in two collections
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// beIdleClients connects, says when all have spoken, and when they have been kept, and ends
// with its input.
func beIdleClients(addr string, in io.Reader, out io.Writer) error {
	ended := make(chan struct{})
	go func() { // ends with its input, at the latest with the process
		_, _ = io.Copy(io.Discard, in)
		close(ended)
	}()
	var socks []int
	defer func() {
		for _, s := range socks {
			_ = unix.Close(s)
		}
	}()
	at := netip.MustParseAddrPort(addr)
	hello, err := session.Append(nil, &session.Packet{Kind: session.KindRequest, Seq: 1, Name: []byte("hello"), Payload: []byte("I")})
	if err != nil {
		return err
	}
	answer := make([]byte, 4<<10)
	for range idleSessions {
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		socks = append(socks, s)
		if err := unix.Connect(s, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
			return err
		}
		if _, err := unix.Write(s, hello); err != nil {
			return err
		}
		if n, err := unix.Read(s, answer); n <= 0 {
			return fmt.Errorf("no answer: %w", err)
		}
		if len(socks)%500 == 0 {
			if err := beat(socks, answer); err != nil {
				return err
			}
		}
	}
	if _, err := fmt.Fprintln(out, "connected"); err != nil {
		return err
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for round := 1; ; round++ {
		if err := beat(socks, answer); err != nil {
			return err
		}
		if round == idleRounds {
			if _, err := fmt.Fprintln(out, "kept"); err != nil {
				return err
			}
		}
		select {
		case <-second.C:
		case <-ended:
			return nil
		}
	}
}

// beat has each client send a heartbeat and read what there is.
func beat(socks []int, in []byte) error {
	for i, s := range socks {
		if _, err := unix.Write(s, session.PingFrame()); err != nil {
			return fmt.Errorf("client %d: %w", i, err)
		}
		if n, _, err := unix.Recvfrom(s, in, unix.MSG_DONTWAIT); err == nil && n == 0 {
			return fmt.Errorf("client %d was closed", i)
		}
	}
	return nil
}
