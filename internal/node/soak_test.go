package node

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/store"
)

// soaked is an Actor that gets one message a round.
type soaked struct{ rounds uint8 }

// soak is a whole node with Actors of which no Store knows.
type soak struct {
	node    *Node
	typ     *ObjectType
	placed  int
	arrived atomic.Int64
	astray  atomic.Int64 // of another round than the Actor's next
}

func startSoak(tb testing.TB) *soak {
	tb.Helper()
	s := &soak{}
	app := NewApp()
	s.typ = app.AddActor("soaked", func(*ObjectContext) (any, error) { return &soaked{}, nil })
	app.OnSend(s.typ, "round", func(_ *Call, a any, payload []byte) error {
		if a := a.(*soaked); a.rounds != payload[0] {
			s.astray.Add(1)
		} else {
			a.rounds++
		}
		s.arrived.Add(1)
		return nil
	})
	n, err := Start(tb.Context(), Config{Role: store.RoleNone, Logger: zerolog.Nop()}, app)
	if err != nil {
		tb.Fatal(err)
	}
	s.node = n
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// place makes Actors as the end of a creation does.
func (s *soak) place(tb testing.TB, actors int) (ids []string) {
	tb.Helper()
	for range actors {
		id := "actor-" + strconv.Itoa(s.placed)
		held := &hold{}
		c := s.node.newCell(s.typ, ActorRef{ID: id, ObjectGen: 1, OwnerGen: 1}, 1, held)
		var err error
		if c.instance, err = s.typ.Factory(&c.context); err != nil || !s.node.admitCell(c) {
			tb.Fatalf("%s was not placed: %v", id, err)
		}
		c.box.Seal(&release{cell: c, from: held, next: c})
		ids = append(ids, id)
		s.placed++
	}
	return ids
}

// round sends a message to each Actor, from four goroutines, and returns when all have
// had their turns.
func (s *soak) round(t *testing.T, ids []string, number int) {
	t.Helper()
	want := s.arrived.Load() + int64(len(ids))
	const senders = 4
	var wg sync.WaitGroup
	for g := range senders {
		wg.Go(func() {
			out := Outgoing{Name: "round", Payload: make([]byte, 64)}
			out.Payload[0] = byte(number)
			for i := g; i < len(ids); i += senders {
				to := s.node.Target(ids[i], false)
				if err := s.node.Send(t.Context(), &to, &out); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	quiet := time.Now()
	for before := s.arrived.Load(); before < want; <-tick.C {
		if now := s.arrived.Load(); now > before {
			before, quiet = now, time.Now()
		} else if time.Since(quiet) > 20*time.Second {
			t.Fatalf("in round %d %d messages are missing", number, want-now)
		}
	}
}

// liveHeap returns what the heap has that is in use.
func liveHeap() int64 {
	for range 3 { // pools keep what they have for two rounds
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// ZLNODE_TEST_SOAK is how many Actors it has in place of 20,000; a million take half a
// gigabyte and a minute or two.
func TestTenMessagesForEachOfManyActorsLeaveTheHeapAsItWas(t *testing.T) {
	actors := 20_000
	if text := os.Getenv("ZLNODE_TEST_SOAK"); text != "" {
		var err error
		if actors, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	s := startSoak(t)
	ids := s.place(t, actors)
	const rounds = 10
	var heaps [rounds]int64
	var goroutines [rounds]int
	for round := range rounds {
		s.round(t, ids, round)
		heaps[round], goroutines[round] = liveHeap(), runtime.NumGoroutine()
	}
	t.Logf("heap after each round: %d", heaps)
	t.Logf("goroutines after each round: %d", goroutines)

	const second, last = 1, rounds - 1 // the first makes pools and workers
	if grown := heaps[last] - heaps[second]; grown > heaps[second]/100 {
		t.Errorf("the heap grew by %d bytes to %d since the second round", grown, heaps[last])
	}
	// Workers that have stood in for stuck ones stay, one for each place at most.
	if goroutines[last] > goroutines[second]+2*runtime.GOMAXPROCS(0) {
		t.Errorf("%d goroutines, %d after the second round", goroutines[last], goroutines[second])
	}
	if got := s.arrived.Load(); got != int64(rounds*actors) || s.astray.Load() != 0 {
		t.Errorf("%d messages arrived, %d of them out of their round; want %d and 0", got, s.astray.Load(), rounds*actors)
	}
	for _, id := range ids {
		c, _ := s.node.actors.Load(id)
		if n := c.instance.(*soaked).rounds; n != rounds {
			t.Fatalf("%s has had %d messages", id, n)
		}
	}
}

// Actors that have had no message yet, their id, value and place in the object table
// included; there is no Store with rows.
func BenchmarkIdleActors(b *testing.B) {
	const actors = 1_000_000
	s := startSoak(b)
	var bytes int64
	for b.Loop() {
		before := liveHeap()
		s.place(b, actors)
		bytes = liveHeap() - before
	}
	b.ReportMetric(float64(bytes)/actors, "B/actor")
}
