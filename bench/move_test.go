package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/chunker"
)

// traveller is an Actor whose state is a block of bytes.
type traveller struct {
	w     *travelWorld
	state []byte
}

// travelWorld is what two object nodes of this process share.
type travelWorld struct {
	client  *zlnode.Node
	servers []*zlnode.Node
	rooms   [2]string // one on each server
	state   []byte    // of the traveller
	hops    int
	sealed  atomic.Int64 // ns since start: when Capture began
	start   time.Time
	ended   chan zlnode.JoinDone
	stopped chan time.Duration // from Capture to OnJoinCompleted
}

func (w *travelWorld) Capture(a *traveller) ([]byte, error) {
	w.sealed.Store(int64(time.Since(w.start)))
	return a.state, nil
}

// Restore does not count what an application does with the bytes: both servers are in this
// process and have the same ones.
func (w *travelWorld) Restore(a *traveller, state []byte) error {
	if a.state = w.state; len(state) != len(w.state) {
		return fmt.Errorf("%d bytes came, not %d", len(state), len(w.state))
	}
	return nil
}

func (a *traveller) OnJoinCompleted(_ *zlnode.ActorCall, done zlnode.JoinDone) error {
	a.w.stopped <- time.Since(a.w.start) - time.Duration(a.w.sealed.Load())
	a.w.ended <- done
	return nil
}

// startTravel starts two object nodes and a client, a room on each, and a traveller.
func startTravel(b *testing.B, url string, size int, change ...func(*zlnode.Config)) *travelWorld {
	b.Helper()
	w := &travelWorld{state: make([]byte, size), start: time.Now(), ended: make(chan zlnode.JoinDone, 1), stopped: make(chan time.Duration, 1)}
	for i := range w.state {
		w.state[i] = byte(i ^ i>>8 ^ i>>16)
	}
	app := echoApp()
	t := zlnode.DefineActor(app, "traveller", func(*zlnode.ActorContext) (*traveller, error) {
		return &traveller{w, w.state}, nil
	}, zlnode.PreserveStateWith(w))
	zlnode.OnSend(t, "go", func(c *zlnode.ActorCall, _ *traveller, spot string) error {
		return c.JoinSpot(spot, nil).Timeout(time.Minute).Defer()
	})
	zlnode.DefineUserSpot(app, "room", func(*zlnode.SpotContext) (*echo, error) { return &echo{}, nil }, zlnode.SpotWide, zlnode.RecreateOnRelocation)
	w.client, w.servers = startApp(b, url, 2, app, change...)
	for k, server := range w.servers {
		for w.rooms[k] == "" {
			r, err := w.client.CreateSpot(b.Context(), zlnode.CreateSpot{Type: "room"})
			if err != nil {
				b.Fatal(err)
			}
			if r.Ref.RID == server.RID() {
				w.rooms[k] = r.Ref.ID
			}
		}
	}
	if _, err := w.client.CreateActor(b.Context(), zlnode.CreateActor{ID: "traveller", Type: "traveller"}); err != nil {
		b.Fatal(err)
	}
	w.hop(b)
	return w
}

// residents creates echo Actors at the second server.
func (w *travelWorld) residents(b *testing.B, count int) (ids []string) {
	b.Helper()
	for i := 0; len(ids) < count; i++ {
		r, err := w.client.CreateActor(b.Context(), zlnode.CreateActor{ID: fmt.Sprint("resident-", i), Type: "echo"})
		if err != nil {
			b.Fatal(err)
		}
		if r.Ref.RID == w.servers[1].RID() {
			ids = append(ids, r.Ref.ID)
		}
	}
	return ids
}

// talk has the first server send messages of 40 bytes to Actors of the second one, so many
// a second, until stop is called.
func (w *travelWorld) talk(b *testing.B, perSecond int) (stop func()) {
	b.Helper()
	ids := w.residents(b, 10)
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for sent, began := 0, time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for due := int(time.Since(began).Seconds() * float64(perSecond)); sent < due; sent++ {
				if err := w.servers[0].Actor(ids[sent%len(ids)]).SendRaw(ctx, "drop", make([]byte, 40)); err != nil && ctx.Err() == nil {
					b.Error(err)
					return
				}
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// hop has the traveller go to the other room, and returns how long it stood still.
func (w *travelWorld) hop(b *testing.B) time.Duration {
	b.Helper()
	w.hops++
	if err := zlnode.Send(b.Context(), w.client.Actor("traveller"), "go", w.rooms[w.hops%2]); err != nil {
		b.Fatal(err)
	}
	stopped := <-w.stopped
	if done := <-w.ended; done.Outcome != zlnode.JoinAccepted {
		b.Fatal(done.Outcome, done.Err)
	}
	return stopped
}

// BenchmarkMoveState is the move of an Actor with a large state, from its seal to its first
// turn, beside a plain stream of as many bytes: see BenchmarkChunks. That
// stream is never encrypted, the move over a link by TLS is.
func BenchmarkMoveState(b *testing.B) {
	moveState := func(name string, size int, change ...func(*zlnode.Config)) {
		b.Run(name, func(b *testing.B) {
			w := startTravel(b, embeddedStore(b), size, change...)
			near, far := loopback(b)
			plainWay := way{
				func() error { return sendPlain(near, w.state) },
				func() error { return receivePlain(far, make([]byte, size)) },
			}
			var ratios []float64
			for b.Loop() {
				plain, _ := plainWay.measure(b)
				ratios = append(ratios, plain/w.hop(b).Seconds())
			}
			b.ReportMetric(median(ratios), "ratio")
		})
	}
	for _, size := range []int{64 << 20, moveBytes} {
		moveState(fmt.Sprintf("%dMiB", size>>20), size)
	}
	moveState("64MiB/tls", 64<<20, linksByTLS(b))
}

// BenchmarkMove is the move of an Actor with 1 KiB of state while 10,000 other messages a
// second flow: how long it stands still.
func BenchmarkMove(b *testing.B) {
	onEachStore(b, func(b *testing.B, url string) {
		w := startTravel(b, url, 1<<10)
		defer w.talk(b, 10_000)()
		var times []float64
		for b.Loop() {
			times = append(times, w.hop(b).Seconds()*1e3)
		}
		percentiles(b, times)
	})
}

func percentiles(b *testing.B, ms []float64) {
	b.Helper()
	slices.Sort(ms)
	b.ReportMetric(ms[len(ms)/2], "p50-ms")
	b.ReportMetric(ms[len(ms)*99/100], "p99-ms")
}

// BenchmarkBesideMove is a request over the link by which an Actor with 64 MiB of state
// moves, again and again, beside nothing, and beside a plain stream of as many bytes over a
// connection of its own, which shares no more than the processors with it. Requests are sent
// at their times whether or not those before have been answered: else few would be sent while
// they take long. chunk-ms is what a chunk of the move, or of the stream, takes.
func BenchmarkBesideMove(b *testing.B) {
	const size = 64 << 20
	b.Run("nothing", func(b *testing.B) {
		w := startTravel(b, embeddedStore(b), size)
		w.requestBeside(b, nil)
	})
	b.Run("stream", func(b *testing.B) {
		w := startTravel(b, embeddedStore(b), size)
		near, far := loopback(b)
		w.requestBeside(b, func() time.Duration {
			plain := way{
				func() error { return sendPlain(near, w.state) },
				func() error { return receivePlain(far, make([]byte, size)) },
			}
			took, _ := plain.measure(b)
			return time.Duration(took * float64(time.Second))
		})
	})
	b.Run("moves", func(b *testing.B) {
		w := startTravel(b, embeddedStore(b), size)
		w.requestBeside(b, func() time.Duration { return w.hop(b) })
	})
}

// requestBeside measures requests while transfer, which may be nil, brings the state to the
// other side, again and again.
func (w *travelWorld) requestBeside(b *testing.B, transfer func() time.Duration) {
	b.Helper()
	const every = 500 * time.Microsecond
	to := w.servers[0].Actor(w.residents(b, 1)[0])
	done := make(chan struct{})
	var transfers, requests sync.WaitGroup
	var took []float64
	if transfer != nil {
		transfers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					took = append(took, transfer().Seconds()*1e3)
				}
			}
		})
	}
	var mu sync.Mutex // of times
	var times []float64
	tick := time.NewTicker(every)
	defer tick.Stop()
	for b.Loop() {
		<-tick.C
		requests.Go(func() {
			began := time.Now()
			if _, err := to.RequestRaw(b.Context(), "echo", make([]byte, 40)); err != nil {
				b.Error(err)
			}
			ms := time.Since(began).Seconds() * 1e3
			mu.Lock()
			times = append(times, ms)
			mu.Unlock()
		})
	}
	requests.Wait()
	close(done)
	transfers.Wait()
	percentiles(b, times)
	if transfer != nil {
		b.ReportMetric(median(took)/float64(len(w.state)/chunker.ChunkBytes), "chunk-ms")
	}
}
