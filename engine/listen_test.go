package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2/pkg/logging"
	"golang.org/x/sys/unix"

	"github.com/zlnode/zlnode/internal/buf"
)

func TestListenSaysWhatIsWrong(t *testing.T) {
	e := start(t, 1)
	addr := listen(t, e, testProtocol(&hooks{}))
	if _, err := e.Listen(Listen{Addr: addr, Protocol: testProtocol(&hooks{})}); !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), addr) {
		t.Errorf("an address in use: %v", err)
	}
	if _, err := e.Listen(Listen{Addr: "127.0.0.1:0"}); err == nil {
		t.Error("no protocol was taken")
	}
	for name, spoil := range map[string]func(p *Protocol){
		"no handler":     func(p *Protocol) { p.Handler = nil },
		"no frame size":  func(p *Protocol) { p.FrameSize = nil },
		"negative time":  func(p *Protocol) { p.StallTimeout = -1 },
		"negative queue": func(p *Protocol) { p.OutMax = -1 },
		"huge queue":     func(p *Protocol) { p.OutMax = outMaxLimit + 1 },
		"negative rate":  func(p *Protocol) { p.Rate = &Rate{BytesPerSecond: -1} },
	} {
		p := testProtocol(&hooks{})
		spoil(p)
		if _, err := e.Listen(Listen{Addr: "127.0.0.1:0", Protocol: p}); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := e.Dial(t.Context(), addr, p); err == nil {
			t.Errorf("%s: no error of Dial", name)
		}
	}
	if _, err := New(Config{Loops: maxLoops + 1}); err == nil {
		t.Error("too many loops were taken")
	}
}

func TestClosingAListenerFreesThePortAndKeepsConnections(t *testing.T) {
	e := start(t, 1)
	opened := make(chan *Conn, 1)
	l, err := e.Listen(Listen{Addr: "127.0.0.1:0", Protocol: testProtocol(&hooks{frame: echo, open: func(c *Conn) { opened <- c }})})
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	client := dial(t, addr)
	receive(t, opened, "the connection")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		_ = c.Close()
		t.Error("a closed listener accepted")
	}
	write(t, client, frame("still there"))
	if got := readFrame(t, client); got != "still there" {
		t.Errorf("got %q", got)
	}
	if _, err := e.Listen(Listen{Addr: addr, Protocol: testProtocol(&hooks{})}); err != nil {
		t.Errorf("the port is not free: %v", err)
	}
}

// refused reports whether the server ends the connection without a byte.
func refused(t *testing.T, addr string) bool {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return true
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = c.Write(frame("hello"))
	_, err = io.ReadFull(c, make([]byte, 4))
	return err != nil
}

func TestALimitRefusesAndGivesPlacesBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		limit   Listen
		refused func(s Stats) uint64
	}{
		{"MaxConns", Listen{MaxConns: 3}, func(s Stats) uint64 { return s.RefusedMaxConns }},
		{"MaxPerIP", Listen{MaxPerIP: 3}, func(s Stats) uint64 { return s.RefusedPerIP }},
		{"MaxUnadmitted", Listen{MaxUnadmitted: 3}, func(s Stats) uint64 { return s.RefusedUnadmitted }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := start(t, 2)
			h := &hooks{frame: echo, closes: make(chan CloseReason, 8)}
			opened := make(chan *Conn, 8)
			h.open = func(c *Conn) { opened <- c }
			c.limit.Addr = "127.0.0.1:0"
			c.limit.Protocol = testProtocol(h)
			c.limit.Protocol.HelloTimeout = time.Hour
			l, err := e.Listen(c.limit)
			if err != nil {
				t.Fatal(err)
			}
			addr := l.Addr().String()
			var clients []*net.TCPConn
			var conns []*Conn
			for range 3 {
				clients = append(clients, dial(t, addr))
				conns = append(conns, receive(t, opened, "a connection"))
			}
			if !refused(t, addr) || c.refused(e.Stats()) != 1 {
				t.Errorf("the fourth was not refused: %+v", e.Stats())
			}
			if c.limit.MaxUnadmitted > 0 {
				admitted := make(chan struct{})
				if err := conns[0].Post(func(c *Conn) { c.Admit(); c.Admit(); close(admitted) }); err != nil {
					t.Fatal(err)
				}
				receive(t, admitted, "the admission")
			} else {
				_ = clients[0].Close()
				receive(t, h.closes, "a close")
			}
			if refused(t, addr) {
				t.Error("a place was not given back")
			}
			receive(t, opened, "the connection that fits again")
		})
	}
}

func TestAddressesAreCountedBySubscriber(t *testing.T) {
	n := networks{v4: 32, v6: 64}
	wide := networks{v4: 24, v6: 48}
	for in, want := range map[string][2]string{
		"192.0.2.7":         {"192.0.2.7", "192.0.2.0"},
		"2001:db8:1:2:3::4": {"2001:db8:1:2::", "2001:db8:1::"},
		"2001:db8:1:2:9::9": {"2001:db8:1:2::", "2001:db8:1::"},
		"fe80::1:2%eth0":    {"fe80::", "fe80::"},
		"::ffff:192.0.2.7":  {"192.0.2.7", "192.0.2.0"},
	} {
		ip := netip.MustParseAddr(in)
		if got := [2]string{n.networkOf(ip).String(), wide.networkOf(ip).String()}; got != want {
			t.Errorf("%s counts as %s, want %s", in, got, want)
		}
	}
}

func TestASilentConnectionIsClosedAtItsHelloDeadline(t *testing.T) {
	type end struct {
		id uint64
		r  CloseReason
	}
	ends := make(chan end, 3)
	h := &hooks{close: func(c *Conn, r CloseReason) { ends <- end{c.ID(), r} }}
	e := start(t, 1)
	p := testProtocol(h)
	p.HelloTimeout = 2 * tick
	connect := accept(t, e, p)
	silent, _ := connect()
	if got := receive(t, ends, "the close"); got.id != silent.ID() || got.r.Code != HelloTimeout {
		t.Errorf("%v closed with %v", got.id, got.r)
	}
	// Who was admitted may be silent: one that comes later is closed before it.
	admitted, client := connect()
	if err := admitted.Post(func(c *Conn) { c.Admit() }); err != nil {
		t.Fatal(err)
	}
	later, _ := connect()
	if got := receive(t, ends, "the close"); got.id != later.ID() || got.r.Code != HelloTimeout {
		t.Errorf("%v closed with %v", got.id, got.r)
	}
	_ = client.Close()
	if got := receive(t, ends, "the close"); got.id != admitted.ID() || got.r.Code != PeerClosed {
		t.Errorf("%v closed with %v", got.id, got.r)
	}
}

// A byte at a time, each when the last was read: no byte renews the deadline, and
// the frame is far longer than what fits into it.
func TestADrippedFrameIsClosedAtItsDeadline(t *testing.T) {
	for _, begin := range [][]byte{{0}, prefix(testMax)} {
		h := &hooks{closes: make(chan CloseReason, 1)}
		e := start(t, 1)
		p := testProtocol(h)
		p.FrameTimeout = 12 * tick // no pause of this machine may look like one of the peer
		_, client := accept(t, e, p)()
		write(t, client, begin)
		for n := 0; len(begin) > 1 && len(h.closes) == 0; n++ {
			if n == testMax/2 {
				t.Fatal("half of the frame has dripped in, the deadline was renewed")
			}
			before := e.Stats().BytesIn
			if _, err := client.Write([]byte{0}); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("the deadline was renewed")
			} else if err != nil {
				break
			}
			for e.Stats().BytesIn == before && len(h.closes) == 0 {
				runtime.Gosched()
			}
		}
		if r := receive(t, h.closes, "the close"); r.Code != FrameTimeout {
			t.Errorf("closed with %v", r)
		}
	}
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	e := start(t, 1)
	p := testProtocol(&hooks{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	if _, err := e.Dial(t.Context(), addr, p); !errors.Is(err, unix.ECONNREFUSED) || !strings.Contains(err.Error(), addr) {
		t.Errorf("nobody listens: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Dial(ctx, addr, p); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Dial(t.Context(), addr, p); !errors.Is(err, ErrEngineClosed) {
		t.Errorf("closed engine: %v", err)
	}
	if _, err := e.Listen(Listen{Addr: "127.0.0.1:0", Protocol: p}); !errors.Is(err, ErrEngineClosed) {
		t.Errorf("closed engine: %v", err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestCloseEndsADialUnderWay(t *testing.T) {
	e := start(t, 1)
	// A port whose backlog is full does not answer.
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(sock)
	if err := errors.Join(unix.Bind(sock, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(sock, 0)); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(sock)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(sa.(*unix.SockaddrInet4).Port)).String()
	const dials = 8
	results := make(chan error, dials)
	for range dials {
		go func() {
			_, err := e.Dial(context.Background(), addr, testProtocol(&hooks{}))
			results <- err
		}()
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for range dials {
		if err := receive(t, results, "a dial to end"); err != nil && !errors.Is(err, ErrEngineClosed) {
			t.Errorf("dial: %v", err)
		}
	}
}

func TestACancelledCloseCutsWhatIsLeft(t *testing.T) {
	h := &hooks{closes: make(chan CloseReason, 1)}
	e := start(t, 1)
	p := testProtocol(h)
	p.CloseGrace = time.Hour
	p.OutMax = 16 << 20
	c, _ := accept(t, e, p)() // never reads
	if err := c.Send(buf.Get(8 << 20)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*tick)
	defer cancel()
	if err := e.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if r := receive(t, h.closes, "the close"); r.Code != EngineClosed {
		t.Errorf("closed with %v", r)
	}
	e.closeErr = nil // the helper's second Close checks for leaks only
}

func TestAnEngineLeavesTheProcessesDefaultLoggerAlone(t *testing.T) {
	before := logging.GetDefaultLogger()
	e := start(t, 1)
	if logging.GetDefaultLogger() != before {
		t.Error("gnet's default logger is the engine's")
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if logging.GetDefaultLogger() != before {
		t.Error("gnet's default logger is the engine's after Close")
	}
}

func TestEnginesOfOneProcessDoNotDisturbEachOther(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3 {
				e, err := New(Config{Loops: 2})
				if err != nil {
					t.Error(err)
					return
				}
				l, err := e.Listen(Listen{Addr: "127.0.0.1:0", Protocol: testProtocol(&hooks{frame: echo})})
				if err != nil {
					t.Error(err)
				} else if refused(t, l.Addr().String()) {
					t.Error("no echo")
				}
				if err := e.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
