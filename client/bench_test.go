package client_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

// batchEcho answers like echo, with one write for all requests that have come
// and without allocating, so that what a benchmark counts is the client's.
func batchEcho(p *peer) {
	var frame, out []byte
	for {
		prefix, err := p.in.Peek(session.PrefixSize)
		if err != nil {
			return
		}
		size, err := session.FrameSize(prefix, 0)
		if err != nil {
			return
		}
		frame = slices.Grow(frame[:0], size)[:size]
		if _, err := io.ReadFull(p.in, frame); err != nil {
			return
		}
		if req, err := session.Decode(frame); err == nil && req.Kind == session.KindRequest {
			reply := session.ResponseTo(&req)
			reply.Payload = req.Payload
			if out, err = session.Append(out, &reply); err != nil {
				return
			}
		}
		if p.in.Buffered() > 0 {
			continue
		}
		if p.write(out) != nil {
			return
		}
		out = out[:0]
	}
}

// BenchmarkRequest is the round trip through a client and the test's own server
// on the loopback; callers share one client.
func BenchmarkRequest(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("64B/callers-%d", callers), func(b *testing.B) {
			c := newServer(b, batchEcho).dial(b, client.Options{})
			payload := make([]byte, 64)
			b.ReportAllocs()
			b.SetParallelism((callers + 1) / 2)
			if callers == 1 {
				for b.Loop() {
					if _, err := c.Request(b.Context(), "echo", payload); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.Request(b.Context(), "echo", payload); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkRequestFunc keeps 256 requests under way without a goroutine for any.
func BenchmarkRequestFunc(b *testing.B) {
	c := newServer(b, batchEcho).dial(b, client.Options{})
	payload := make([]byte, 64)
	slots := make(chan struct{}, 256)
	done := func(_ *client.Message, err error) {
		if err != nil {
			b.Error(err)
		}
		<-slots
	}
	b.ReportAllocs()
	for b.Loop() {
		slots <- struct{}{}
		if err := c.RequestFunc(client.Call{Name: "echo", Payload: payload}, done); err != nil {
			b.Fatal(err)
		}
	}
	for range cap(slots) {
		slots <- struct{}{}
	}
}

// BenchmarkSend is the cost of a one-way message to the caller and the writer.
func BenchmarkSend(b *testing.B) {
	c := newServer(b, func(p *peer) { _, _ = io.Copy(io.Discard, p.conn) }).dial(b, client.Options{SilenceTimeout: -1})
	payload := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Send(b.Context(), "move", payload); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSendOverWebSocket is BenchmarkSend with a message to be masked for each.
func BenchmarkSendOverWebSocket(b *testing.B) {
	s := newWebServer(b, nil, func(p *peer) { _, _ = io.Copy(io.Discard, p.conn.(*messages).Conn) })
	c := dial(b, client.Options{Addr: "ws://" + s.addr + "/game", SilenceTimeout: -1})
	payload := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Send(b.Context(), "move", payload); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPush is the cost of one received message.
func BenchmarkPush(b *testing.B) {
	frame := push("state", string(make([]byte, 64)))
	burst := make([]byte, 0, 500*len(frame))
	for range 500 {
		burst = append(burst, frame...)
	}
	s := newServer(b, func(p *peer) {
		for p.write(burst) == nil {
		}
	})
	var left atomic.Int64
	reached := make(chan struct{}, 1)
	left.Store(1 << 62)
	s.dial(b, client.Options{OnPush: func(*client.Message) {
		if left.Add(-1) == 0 {
			reached <- struct{}{}
		}
	}})
	b.ReportAllocs()
	b.ResetTimer()
	left.Store(int64(b.N))
	<-reached
}

// BenchmarkManyClients is a process full of bots: each of 1,000 clients has one
// request under way all the time.
func BenchmarkManyClients(b *testing.B) {
	const clients = 1000
	s := newServer(b, batchEcho)
	all := make([]*client.Client, clients)
	for i := range all {
		all[i] = s.dial(b, client.Options{})
	}
	payload := make([]byte, 64)
	var left atomic.Int64
	left.Store(int64(b.N))
	var bots sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for _, c := range all {
		bots.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := c.Request(b.Context(), "echo", payload); err != nil && !errors.Is(err, client.ErrClosed) {
					b.Error(err)
					return
				}
			}
		})
	}
	bots.Wait()
}

// BenchmarkIdleClient is the memory that one connected client holds, stacks
// included.
func BenchmarkIdleClient(b *testing.B) {
	const clients = 1000
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	var perClient float64
	for b.Loop() {
		before := memory()
		all := make([]*client.Client, clients)
		ends := make([]net.Conn, clients)
		for i := range all {
			if all[i], err = client.Dial(b.Context(), client.Options{Addr: listener.Addr().String()}); err != nil {
				b.Fatal(err)
			}
			if ends[i], err = listener.Accept(); err != nil {
				b.Fatal(err)
			}
		}
		perClient = (float64(memory()) - float64(before)) / clients
		for i := range all {
			_ = ends[i].Close()
			closeAndWait(all[i])
		}
	}
	b.ReportMetric(perClient, "B/client")
}
