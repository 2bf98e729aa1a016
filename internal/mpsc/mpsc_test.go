package mpsc

import (
	"runtime"
	"sync"
	"testing"
)

func TestOneProducerIsFIFO(t *testing.T) {
	var q Queue[int]
	q.Init()
	if !q.Empty() || q.Pop() != nil {
		t.Fatal("a new queue is not empty")
	}
	for i := range 3 {
		q.Push(&Node[int]{Value: i})
	}
	if q.Empty() {
		t.Fatal("empty after three pushes")
	}
	for i := range 3 {
		if n := q.Pop(); n == nil || n.Value != i {
			t.Fatalf("pop %d: %v", i, n)
		}
	}
	if q.Pop() != nil || !q.Empty() {
		t.Fatal("not empty after the last pop")
	}
	n := &Node[int]{Value: 9}
	for range 3 { // a node may be reused at once
		q.Push(n)
		if got := q.Pop(); got != n {
			t.Fatalf("reused node: %v", got)
		}
	}
}

func TestProducersKeepTheirOrderAndLoseNothing(t *testing.T) {
	const producers, each = 4, 20_000
	type item struct{ p, i int }
	var q Queue[item]
	q.Init()
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				q.Push(&Node[item]{Value: item{p, i}})
			}
		})
	}
	var next [producers]int
	for got := 0; got < producers*each; {
		n := q.Pop()
		if n == nil {
			runtime.Gosched()
			continue
		}
		if v := n.Value; v.i != next[v.p] {
			t.Fatalf("producer %d: got %d, want %d", v.p, v.i, next[v.p])
		}
		next[n.Value.p]++
		got++
	}
	wg.Wait()
	if !q.Empty() {
		t.Fatal("items left over")
	}
}

func BenchmarkPushPop(b *testing.B) {
	var q Queue[int]
	q.Init()
	n := &Node[int]{}
	b.ReportAllocs()
	for b.Loop() {
		q.Push(n)
		n = q.Pop()
	}
}
