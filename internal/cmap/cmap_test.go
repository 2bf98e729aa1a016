package cmap

import (
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestBehavesLikeABuiltinMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, want := New[int](), map[string]int{}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			key := strconv.Itoa(rapid.IntRange(0, 60).Draw(t, "key"))
			switch rapid.IntRange(0, 2).Draw(t, "op") {
			case 0:
				v := rapid.Int().Draw(t, "value")
				m.Store(key, v)
				want[key] = v
			case 1:
				m.Delete(key)
				delete(want, key)
			case 2:
				kept := m.Update(key, func(v int, ok bool) (int, bool) {
					if old, has := want[key]; has != ok || old != v {
						t.Fatalf("update of %s sees %d %v, want %d %v", key, v, ok, old, has)
					}
					return v + 1, ok
				})
				if _, has := want[key]; has != kept {
					t.Fatalf("update of %s: kept %v", key, kept)
				}
				if kept {
					want[key]++
				}
			}
		}
		if m.Len() != len(want) {
			t.Fatalf("len %d, want %d", m.Len(), len(want))
		}
		seen := 0
		m.Range(func(k string, v int) bool {
			seen++
			if w, ok := want[k]; !ok || w != v {
				t.Fatalf("%s = %d, want %d %v", k, v, w, ok)
			}
			if got, ok := m.LoadBytes([]byte(k)); !ok || got != v {
				t.Fatalf("load of %s: %d %v", k, got, ok)
			}
			return true
		})
		if seen != len(want) {
			t.Fatalf("ranged over %d keys, want %d", seen, len(want))
		}
	})
}

func TestReadersSeeEveryKeyThatStays(t *testing.T) {
	m := New[int]()
	const stay = 500
	for i := range stay {
		m.Store("stay"+strconv.Itoa(i), i)
	}
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range 20_000 {
				k := "come" + strconv.Itoa(w) + "-" + strconv.Itoa(i)
				m.Store(k, i)
				if i%3 != 0 {
					m.Delete(k)
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			for i := range stay {
				if v, ok := m.Load("stay" + strconv.Itoa(i)); !ok || v != i {
					t.Errorf("stay%d = %d %v", i, v, ok)
					return
				}
			}
		}
	})
	wg.Wait()
}

func TestLookUpsAllocateNothing(t *testing.T) {
	m := New[int]()
	key := []byte("player-42")
	m.Store(string(key), 1)
	if n := testing.AllocsPerRun(100, func() { m.LoadBytes(key); m.Load("player-42") }); n != 0 {
		t.Errorf("%v allocations per look-up", n)
	}
}

func BenchmarkLoadBytes(b *testing.B) {
	m := New[int]()
	for i := range 100_000 {
		m.Store("player-"+strconv.Itoa(i), i)
	}
	key := []byte("player-4242")
	b.ReportAllocs()
	for b.Loop() {
		m.LoadBytes(key)
	}
}
