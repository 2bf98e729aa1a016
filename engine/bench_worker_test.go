package engine

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/zlnode/zlnode/internal/buf"
)

// bareWorker is bare gnet whose replies come from another goroutine, by gnet's own
// means.
type bareWorker struct {
	gnet.BuiltinEventEngine
	jobs chan func()
}

func (w *bareWorker) OnTraffic(c gnet.Conn) gnet.Action {
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
		reply := append([]byte(nil), b...)
		w.jobs <- func() { _ = c.AsyncWrite(reply, nil) }
	}
}

// BenchmarkWorkerEcho is BenchmarkEcho with replies from a worker goroutine: what a
// reply of an actor costs, besides the actor. "ratio" is engine ÷ gnet.AsyncWrite.
func BenchmarkWorkerEcho(b *testing.B) {
	for _, conns := range []int{1, 64} {
		b.Run(fmt.Sprintf("conns=%d/size=64", conns), func(b *testing.B) {
			jobs := make(chan func(), 1024)
			var worker sync.WaitGroup
			worker.Go(func() {
				for job := range jobs {
					job()
				}
			})
			b.Cleanup(func() { close(jobs); worker.Wait() })
			e := start(b, 1)
			ours := listen(b, e, testProtocol(&hooks{frame: func(c *Conn, f []byte, _ *buf.Buf) error {
				reply := buf.Copy(f)
				jobs <- func() { _ = c.Send(reply) }
				return nil
			}}))
			bare := startBare(b, 1, &bareWorker{jobs: jobs})
			a, g := dialMany(b, ours, conns), dialMany(b, bare, conns)
			msg := frame(string(make([]byte, 60)))
			var engineTime, bareTime time.Duration
			for b.Loop() {
				engineTime += roundTrips(b, a, msg, 20*conns)
				bareTime += roundTrips(b, g, msg, 20*conns)
			}
			b.ReportMetric(float64(engineTime)/float64(bareTime), "ratio")
		})
	}
}
