package bench

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
)

// bareServer is the floor: gnet, whole frames in, the same bytes out.
type bareServer struct {
	gnet.BuiltinEventEngine
	booted chan gnet.Engine
}

func (s *bareServer) OnBoot(e gnet.Engine) gnet.Action { s.booted <- e; return gnet.None }

func (s *bareServer) OnTraffic(c gnet.Conn) gnet.Action {
	for {
		head, err := c.Peek(6)
		if err != nil {
			return gnet.None
		}
		size := frameSize(head)
		if c.InboundBuffered() < size {
			return gnet.None
		}
		frame, err := c.Next(size)
		if err != nil {
			return gnet.Close
		}
		if _, err := c.Write(frame); err != nil {
			return gnet.Close
		}
	}
}

// startBare returns the address of a running bare gnet echo.
func startBare(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // only to learn a free port
	if err != nil {
		b.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	s := &bareServer{booted: make(chan gnet.Engine, 1)}
	ended := make(chan error, 1)
	go func() {
		ended <- gnet.Run(s, "tcp://"+addr, gnet.WithMulticore(true), gnet.WithTCPNoDelay(gnet.TCPNoDelay), gnet.WithLogLevel(logging.ErrorLevel))
	}()
	select {
	case e := <-s.booted:
		b.Cleanup(func() {
			_ = e.Stop(context.Background()) // the benchmark's own context has ended
			if err := <-ended; err != nil {
				b.Error(err)
			}
		})
	case err := <-ended:
		b.Fatal(err)
	}
	return addr
}

// frameSize is the length of a STREAM frame from its prefix.
func frameSize(b []byte) int {
	return 6 + int(binary.BigEndian.Uint16(b)) + int(binary.BigEndian.Uint32(b[2:]))
}

// pingPong sends frame on every connection and waits for the frame that comes
// back, b.N times in all.
func pingPong(b *testing.B, conns []net.Conn, frame []byte) {
	b.Helper()
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, c := range conns {
		n := b.N / len(conns)
		if i < b.N%len(conns) {
			n++
		}
		wg.Go(func() {
			in := make([]byte, 64<<10)
			for range n {
				if _, err := c.Write(frame); err != nil {
					b.Error(err)
					return
				}
				if _, err := io.ReadFull(c, in[:6]); err != nil {
					b.Error(err)
					return
				}
				if _, err := io.ReadFull(c, in[6:frameSize(in)]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}
