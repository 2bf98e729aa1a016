package link

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

func await(t *testing.T, g *CreditGate, n int, log *[]string, name string) *Waiter {
	t.Helper()
	w, err := g.Await(n, func(err error) {
		if err != nil {
			name += " " + err.Error()
		}
		*log = append(*log, name)
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestGateServesTheLineInOrder(t *testing.T) {
	g := NewCreditGate(100, 10)
	if !g.TryTake(100) || g.TryTake(1) {
		t.Fatal("window")
	}
	var log []string
	await(t, g, 60, &log, "large")
	await(t, g, 10, &log, "small")
	give(t, g, 50) // enough for the small one, but it is not its turn
	if len(log) != 0 || g.TryTake(1) {
		t.Fatalf("somebody passed the line: %v", log)
	}
	give(t, g, 15)
	if len(log) != 1 || log[0] != "large" {
		t.Fatalf("served %v", log)
	}
	give(t, g, 5)
	if len(log) != 2 || g.Left() != 0 {
		t.Fatalf("served %v, %d left", log, g.Left())
	}
	give(t, g, 1)
	if !g.TryTake(1) {
		t.Error("nobody waits and credit is refused")
	}
}

func TestAwaitServesAtOnceWhatCanBePaid(t *testing.T) {
	g := NewCreditGate(100, 10)
	var log []string
	w := await(t, g, 100, &log, "a")
	if len(log) != 1 || g.Left() != 0 || g.Cancel(w) {
		t.Errorf("served %v, %d left", log, g.Left())
	}
}

func TestCancelledWaiterGetsNothingAndHoldsNobodyUp(t *testing.T) {
	g := NewCreditGate(100, 10)
	g.TryTake(90)
	var log []string
	large := await(t, g, 50, &log, "large")
	middle := await(t, g, 5, &log, "middle")
	await(t, g, 10, &log, "small")
	if !g.Cancel(middle) || len(log) != 0 {
		t.Fatalf("served %v", log)
	}
	if !g.Cancel(large) || g.Cancel(large) {
		t.Fatal("cancel did not say what it did")
	}
	if len(log) != 1 || log[0] != "small" || g.Left() != 0 {
		t.Fatalf("served %v, %d left", log, g.Left())
	}
	g.PutBack(10)
	if g.Left() != 10 || !g.TryTake(10) {
		t.Errorf("%d left after putting 10 back", g.Left())
	}
}

func TestLineIsBounded(t *testing.T) {
	g := NewCreditGate(100, 2)
	g.TryTake(100)
	var log []string
	first := await(t, g, 1, &log, "1")
	await(t, g, 1, &log, "2")
	if _, err := g.Await(1, nil); !errors.Is(err, ErrGateFull) {
		t.Fatalf("third waiter: %v", err)
	}
	g.Cancel(first)
	await(t, g, 1, &log, "3")
	give(t, g, 100)
	if len(log) != 2 || !g.TryTake(98) || g.TryTake(1) {
		t.Errorf("served %v, %d left", log, g.Left())
	}
}

func TestCloseEndsTheLine(t *testing.T) {
	g := NewCreditGate(100, 10)
	g.TryTake(100)
	var log []string
	await(t, g, 1, &log, "1")
	gone := await(t, g, 1, &log, "2")
	g.Cancel(gone)
	await(t, g, 1, &log, "3")
	g.Close()
	g.Close()
	if len(log) != 2 || log[0] != "1 "+ErrGateClosed.Error() {
		t.Fatalf("told %v", log)
	}
	give(t, g, 100)
	if g.TryTake(1) {
		t.Error("credit taken from a closed gate")
	}
	if _, err := g.Await(1, nil); !errors.Is(err, ErrGateClosed) {
		t.Errorf("Await on a closed gate: %v", err)
	}
}

func TestReadyMayUseTheGate(t *testing.T) {
	g := NewCreditGate(100, 10)
	g.TryTake(100)
	var log []string
	_, err := g.Await(10, func(error) {
		log = append(log, "first")
		await(t, g, 20, &log, "second")
		g.PutBack(10)
	})
	if err != nil {
		t.Fatal(err)
	}
	give(t, g, 20)
	if len(log) != 2 || g.Left() != 0 {
		t.Errorf("served %v, %d left", log, g.Left())
	}
}

func give(t *testing.T, g *CreditGate, n uint64) {
	t.Helper()
	if err := g.Give(n); err != nil {
		t.Fatal(err)
	}
}

// The gate against an obvious model: a list of waiters and a number.
func TestGateIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = 100
		type place struct {
			w *Waiter
			n int
		}
		g, model := NewCreditGate(window, 1000), NewCreditSender(window)
		var line []place
		served := map[int]bool{}
		id, inUse := 0, 0
		var ids []int
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.IntRange(1, window).Draw(t, "n")
				want := len(line) == 0 && model.Take(n)
				if got := g.TryTake(n); got != want {
					t.Fatalf("TryTake(%d) = %v, want %v", n, got, want)
				}
				if want {
					inUse += n
				}
			},
			"await": func(t *rapid.T) {
				n := rapid.IntRange(1, window).Draw(t, "n")
				id++
				me := id
				w, err := g.Await(n, func(error) { served[me] = true })
				if err != nil {
					t.Fatal(err)
				}
				line, ids = append(line, place{w, n}), append(ids, me)
			},
			"cancel": func(t *rapid.T) {
				if len(line) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(line)-1).Draw(t, "i")
				if !g.Cancel(line[i].w) {
					t.Fatal("waiter in line cannot be cancelled")
				}
				line = append(line[:i:i], line[i+1:]...)
				ids = append(ids[:i:i], ids[i+1:]...)
			},
			"give": func(t *rapid.T) {
				if inUse == 0 {
					t.Skip()
				}
				n := rapid.IntRange(1, inUse).Draw(t, "n")
				inUse -= n
				if err := errors.Join(g.Give(uint64(n)), model.Grant(uint64(n))); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				for len(line) > 0 && model.Take(line[0].n) {
					if !served[ids[0]] {
						t.Fatalf("first in line is not served")
					}
					inUse += line[0].n
					line, ids = line[1:], ids[1:]
				}
				for _, i := range ids {
					if served[i] {
						t.Fatalf("waiter %d served too early", i)
					}
				}
				if g.Left() != model.Left() {
					t.Fatalf("%d left, want %d", g.Left(), model.Left())
				}
			},
		})
	})
}

// Producers that take, wait and give up, against a consumer that returns what
// they used: everybody gets through, and no byte is lost or made.
func TestGateLosesNoWakeUp(t *testing.T) {
	const window, producers, each = 64, 4, 3000
	g := NewCreditGate(window, producers*each) // a cancelled waiter keeps its place for a while
	r := NewCreditReturn(window)
	used := make(chan int, producers*each)
	var sent, gaveUp atomic.Int64
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			ready := make(chan error, 1)
			for i := range each {
				n := 1 + (i*7+p*13)%(window-window/8)
				if !g.TryTake(n) {
					w, err := g.Await(n, func(err error) { ready <- err })
					if err != nil {
						t.Error(err)
						return
					}
					if i%5 == 0 && g.Cancel(w) {
						gaveUp.Add(1)
						continue
					}
					if err := <-ready; err != nil {
						t.Error(err)
						return
					}
				}
				sent.Add(int64(n))
				used <- n
			}
		})
	}
	var got int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range used {
			got += int64(n)
			if err := r.Received(n); err != nil {
				t.Error(err)
			}
			if grant := r.Consumed(n); grant > 0 {
				if err := g.Give(uint64(grant)); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	wg.Wait()
	close(used)
	<-done
	if got != sent.Load() || g.Left()+r.Held() != window {
		t.Errorf("sent %d, got %d; %d left and %d held of %d", sent.Load(), got, g.Left(), r.Held(), window)
	}
	if gaveUp.Load() == 0 {
		t.Log("no producer gave up: cancellation was not tried in this run")
	}
}

// A gate that closes while producers come tells every one of them.
func TestNobodyWaitsAtAClosedGate(t *testing.T) {
	for range 200 {
		g := NewCreditGate(10, 100)
		g.TryTake(10)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				ready := make(chan error, 1)
				if _, err := g.Await(1, func(err error) { ready <- err }); err != nil {
					return
				}
				if err := <-ready; !errors.Is(err, ErrGateClosed) {
					t.Errorf("told %v", err)
				}
			})
		}
		wg.Go(g.Close)
		wg.Wait()
	}
}

// Cancel and Give at the same moment: the waiter either has its credit or it is
// left for others, never both and never neither.
func TestCancelAgainstGive(t *testing.T) {
	for range 20_000 {
		g := NewCreditGate(10, 1)
		g.TryTake(10)
		var told atomic.Int32
		w, err := g.Await(10, func(error) { told.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		var ready sync.WaitGroup
		ready.Add(1)
		var both sync.WaitGroup
		var cancelled bool
		both.Go(func() {
			ready.Done()
			cancelled = g.Cancel(w)
		})
		ready.Wait()
		if err := g.Give(10); err != nil {
			t.Fatal(err)
		}
		both.Wait()
		if cancelled == (told.Load() == 1) || cancelled != g.TryTake(10) {
			t.Fatalf("cancelled %v, told %d times, %d left", cancelled, told.Load(), g.Left())
		}
	}
}

// Consumers on many goroutines return every byte exactly once, but for what may
// be kept back.
func TestConcurrentConsumersLoseNoCredit(t *testing.T) {
	const window, consumers, each = 80, 4, 20_000
	r := NewCreditReturn(window)
	var returned atomic.Int64
	var wg sync.WaitGroup
	for range consumers {
		wg.Go(func() {
			for range each {
				returned.Add(int64(r.Consumed(1)))
			}
		})
	}
	wg.Wait()
	if kept := consumers*each - returned.Load(); kept < 0 || kept >= window/8 || int64(-r.Held()) != returned.Load() {
		t.Errorf("returned %d of %d, %d left held", returned.Load(), consumers*each, r.Held())
	}
}

func BenchmarkGate(b *testing.B) {
	b.Run("takeAndGive/goroutines=1", func(b *testing.B) {
		g := NewCreditGate(8<<20, 1)
		b.ReportAllocs()
		for b.Loop() {
			if !g.TryTake(100) || g.Give(100) != nil {
				b.Fatal("credit lost")
			}
		}
	})
	b.Run("takeAndGive/goroutines=P", func(b *testing.B) {
		g := NewCreditGate(8<<20, 1)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if !g.TryTake(100) || g.Give(100) != nil {
					b.Error("credit lost")
					return
				}
			}
		})
	})
}

func BenchmarkHandshake(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		d, a := newDialler(b, testConfig("node-a"), "node-b", 1), newAcceptor(b, testConfig("node-b"), 2)
		run(b, d, a, nil)
		if d.admitted == nil {
			b.Fatal("not admitted")
		}
	}
}
