package mailbox

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"
	"weak"
)

// letter is a message of the size that real ones have.
type letter struct {
	from, seq uint64
	payload   []byte
}

func TestPushAndTurnAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool forgets at random under the race detector")
	}
	p := startPool(t, Config{})
	done := make(chan struct{}, 1)
	m := New(p, &funcs[letter]{consume: func(_ *Claim[letter], v letter) {
		if v.seq == 99 {
			done <- struct{}{}
		}
	}}, Limits{})
	payload := make([]byte, 64)
	allocs := testing.AllocsPerRun(200, func() {
		for seq := range uint64(100) {
			if err := m.Push(letter{seq: seq, payload: payload}, len(payload)); err != nil {
				t.Error(err)
			}
		}
		<-done
	})
	if allocs != 0 {
		t.Errorf("%v allocations for 100 messages", allocs)
	}
}

func TestAFreeNodeKeepsNothingAlive(t *testing.T) {
	p := startPool(t, Config{})
	done := make(chan struct{})
	m := New(p, &funcs[letter]{consume: func(*Claim[letter], letter) { close(done) }}, Limits{})
	payload := weak.Make(func() *byte {
		b := make([]byte, 1<<16)
		if err := m.Push(letter{payload: b}, len(b)); err != nil {
			t.Fatal(err)
		}
		return &b[0]
	}())
	wait(t, done, "the turn")
	eventually(t, "the pool is at rest", func() bool { return p.Stats().Running == 0 })
	runtime.GC() // one round: the node stays in the sync.Pool
	if payload.Value() != nil {
		t.Error("the payload of a consumed message is kept alive")
	}
}

func TestMailboxFillsThreeCacheLines(t *testing.T) {
	var m Mailbox[letter]
	if n := unsafe.Sizeof(m); n != 192 {
		t.Errorf("a mailbox is %d bytes, want 192", n)
	}
	if n := unsafe.Offsetof(m.finished); n != 64 {
		t.Errorf("the consumer's part begins at %d, want 64: it shares a line with the producers'", n)
	}
	var s shard
	if n := unsafe.Sizeof(s); n%64 != 0 {
		t.Errorf("a shard is %d bytes: it shares a line with the next", n)
	}
}

// idleBytes returns the heap that a mailbox needs which has been used and is idle.
func idleBytes(p *Pool, mailboxes int) float64 {
	ms := make([]*Mailbox[letter], mailboxes)
	before := heap()
	var left sync.WaitGroup
	left.Add(mailboxes)
	c := &funcs[letter]{consume: func(*Claim[letter], letter) { left.Done() }}
	for i := range ms {
		ms[i] = New(p, c, Limits{})
		_ = ms[i].Push(letter{}, 0)
	}
	left.Wait()
	n := heap() - before
	runtime.KeepAlive(ms)
	return float64(n) / float64(mailboxes)
}

func heap() uint64 {
	for range 3 { // sync.Pool keeps what it has for two rounds
		runtime.GC()
	}
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func TestIdleMailboxNeedsLittleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	if n := idleBytes(startPool(t, Config{}), 10_000); n > 400 {
		t.Errorf("%.0f bytes for an idle mailbox, want at most 400", n)
	}
}
