package sparse

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

func TestOneLineASecondIsWrittenAndTheOthersAreCounted(t *testing.T) {
	var l Line
	now := clock.Mono(5)
	if left, ok := l.Take(now); !ok || left != 0 {
		t.Fatalf("the first line: %d, %v", left, ok)
	}
	for range 3 {
		if _, ok := l.Take(now.Add(every - 1)); ok {
			t.Fatal("a second line within the second")
		}
	}
	if left, ok := l.Take(now.Add(every)); !ok || left != 3 {
		t.Errorf("after a second: %d left out, %v; want 3, true", left, ok)
	}
	if left, ok := l.Take(now.Add(time.Hour)); !ok || left != 0 {
		t.Errorf("an hour later: %d left out, %v", left, ok)
	}
}

func TestNoLineIsLostFromTheCount(t *testing.T) {
	var l Line
	var written atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				if left, ok := l.Take(clock.Mono(1 + i*int(every)/100)); ok {
					written.Add(1 + left)
				}
			}
		})
	}
	wg.Wait()
	if n := written.Load() + l.left.Load(); n != 4000 {
		t.Errorf("%d lines written or counted, want 4000", n)
	}
}
