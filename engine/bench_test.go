package engine

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"golang.org/x/sys/unix"

	"github.com/zlnode/zlnode/internal/buf"
)

// bareEcho is the floor to be near to: gnet with nothing but length-prefixed
// frames.
type bareEcho struct {
	gnet.BuiltinEventEngine
}

func (*bareEcho) OnTraffic(c gnet.Conn) gnet.Action {
	for {
		head, err := c.Peek(4)
		if err != nil {
			return gnet.None
		}
		n, _ := testFrameSize(head, true)
		if c.InboundBuffered() < n {
			return gnet.None
		}
		b, _ := c.Next(n)
		if _, err := c.Write(b); err != nil {
			return gnet.Close
		}
	}
}

// startBare runs bare gnet as a client over accepted sockets, as the engine does.
func startBare(b *testing.B, loops int, h gnet.EventHandler) string {
	b.Helper()
	starting.Lock()
	cli, err := gnet.NewClient(h, gnet.WithNumEventLoop(loops), gnet.WithLogLevel(logging.FatalLevel),
		gnet.WithLogger(reactorLog{}))
	if err != nil {
		b.Fatal(err)
	}
	err = cli.Start()
	starting.Unlock()
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := cli.Enroll(c); err != nil {
				return
			}
		}
	})
	b.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
		_ = cli.Stop()
	})
	return ln.Addr().String()
}

func dialMany(b *testing.B, addr string, n int) (cs []*net.TCPConn) {
	for range n {
		c := dial(b, addr)
		_ = c.SetDeadline(time.Time{})
		cs = append(cs, c)
	}
	return cs
}

// roundTrips makes n calls over the connections, each of which has one caller.
func roundTrips[C net.Conn](b *testing.B, conns []C, msg []byte, n int) time.Duration {
	return calls(b, conns, msg, len(msg), n)
}

// calls is roundTrips for answers of another size than the question's.
func calls[C net.Conn](b *testing.B, conns []C, msg []byte, answer, n int) time.Duration {
	began := time.Now()
	var wg sync.WaitGroup
	for i, c := range conns {
		mine := n / len(conns)
		if i < n%len(conns) {
			mine++
		}
		wg.Go(func() {
			in := make([]byte, answer)
			for range mine {
				if _, err := c.Write(msg); err != nil {
					b.Error(err)
					return
				}
				if _, err := io.ReadFull(c, in); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

// BenchmarkEcho compares a round trip through the engine with one through bare
// gnet: both in slices of the same run, so that the machine's mood hits both. The
// metric "ratio" is engine ÷ gnet.
func BenchmarkEcho(b *testing.B) {
	for _, conns := range []int{1, 64} {
		for _, size := range []int{64, 1024} {
			b.Run(fmt.Sprintf("conns=%d/size=%d", conns, size), func(b *testing.B) {
				e := start(b, 1)
				ours := listen(b, e, testProtocol(&hooks{frame: echo}))
				bare := startBare(b, 1, &bareEcho{})
				a, g := dialMany(b, ours, conns), dialMany(b, bare, conns)
				msg := frame(string(make([]byte, size-4)))
				var engineTime, bareTime time.Duration
				calls := 0
				b.ReportAllocs()
				for b.Loop() {
					n := 20 * conns
					engineTime += roundTrips(b, a, msg, n)
					bareTime += roundTrips(b, g, msg, n)
					calls += n
				}
				b.ReportMetric(float64(engineTime.Nanoseconds())/float64(calls), "ns-engine/call")
				b.ReportMetric(float64(bareTime.Nanoseconds())/float64(calls), "ns-gnet/call")
				b.ReportMetric(float64(engineTime)/float64(bareTime), "ratio")
			})
		}
	}
}

// BenchmarkTransportEcho compares a round trip over each transport with one over TCP, as
// BenchmarkEcho does: "ratio" is that transport's time ÷ TCP's, client's part included,
// which for TLS is crypto/tls too. "alloc-B/call" is of both ends.
func BenchmarkTransportEcho(b *testing.B) {
	for _, transport := range []Transport{WS, TLS, WSS} {
		for _, conns := range []int{1, 64} {
			for _, size := range []int{64, 1024} {
				b.Run(fmt.Sprintf("%v/conns=%d/size=%d", transport, conns, size), func(b *testing.B) {
					tcp, other := newEdge(b, TCP, testProtocol(&hooks{frame: echo})), newEdge(b, transport, testProtocol(&hooks{frame: echo}))
					plain := dialMany(b, tcp.addr, conns)
					var carried []net.Conn
					for range conns {
						c := other.connect()
						_ = c.SetDeadline(time.Time{})
						carried = append(carried, c)
					}
					msg := frame(string(make([]byte, size-4)))
					wire, answer := other.wire(msg), len(msg)
					if transport.Messages() {
						_, head := messageHead(len(msg))
						answer += head
					}
					var plainTime, carriedTime time.Duration
					n := 0
					b.ReportAllocs()
					for b.Loop() {
						plainTime += roundTrips(b, plain, msg, 20*conns)
						carriedTime += calls(b, carried, wire, answer, 20*conns)
						n += 20 * conns
					}
					b.ReportMetric(float64(plainTime.Nanoseconds())/float64(n), "ns-tcp/call")
					b.ReportMetric(float64(carriedTime.Nanoseconds())/float64(n), "ns/call")
					b.ReportMetric(float64(carriedTime)/float64(plainTime), "ratio")
				})
			}
		}
	}
}

// discard reads and drops everything that comes to a plain socket.
func discard(b testing.TB) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				block := make([]byte, 256<<10)
				for {
					if _, err := c.Read(block); err != nil {
						return
					}
				}
			})
		}
	})
	b.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

// cpuTime is what this process has used so far. It tells more than the clock on a
// machine that others use too.
func cpuTime() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkSend is the one-way out queue: producers send 64-byte messages to a
// peer that drops them; a full queue is waited for. One op is sendBatch messages.
func BenchmarkSend(b *testing.B) {
	const sendBatch = 50_000
	for _, producers := range []int{1, 4} {
		b.Run(fmt.Sprintf("producers=%d/size=64", producers), func(b *testing.B) {
			addr := discard(b)
			e := start(b, 1)
			p := testProtocol(&hooks{})
			p.OutMax = 8 << 20
			c, err := e.Dial(b.Context(), addr, p)
			if err != nil {
				b.Fatal(err)
			}
			msg := frame(string(make([]byte, 60)))
			b.SetBytes(64 * sendBatch)
			b.ReportAllocs()
			before := e.Stats()
			began, cpu := time.Now(), cpuTime()
			sent := 0
			for b.Loop() {
				var wg sync.WaitGroup
				for range producers {
					wg.Go(func() {
						for range sendBatch / producers {
							for c.Send(buf.Copy(msg)) != nil {
								runtime.Gosched()
							}
						}
					})
				}
				wg.Wait()
				sent += sendBatch
			}
			for c.Pending() > 0 {
				runtime.Gosched()
			}
			n := float64(sent)
			b.ReportMetric(n/time.Since(began).Seconds()/1e6, "Mmsg/s")
			b.ReportMetric(float64(cpuTime()-cpu)/n, "cpu-ns/msg")
			s := e.Stats()
			b.ReportMetric(n/float64(s.Writes-before.Writes), "msg/write")
			b.ReportMetric(float64(s.Wakes-before.Wakes)/n, "wakes/msg")
		})
	}
}
