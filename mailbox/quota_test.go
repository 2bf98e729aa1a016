package mailbox

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// Several budgets of one quota, beside plain sums: what is counted is what the grants say,
// it covers all that is queued above the floors, and a refusal means that there was no
// room for the message.
func TestGrantsCoverWhatIsQueued(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := quota{max: rapid.Int64Range(0, 6*grant).Draw(t, "max")}
		boxes := make([]struct {
			b        budget
			finished atomic.Uint64
			in       []int
		}, rapid.IntRange(1, 4).Draw(t, "boxes"))
		for i := range boxes {
			boxes[i].b.init(Limits{Messages: 1000})
		}
		queued := func(in []int) (n int64) {
			for _, bytes := range in {
				n += int64(bytes) + messageOverhead
			}
			return n
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			box := &boxes[rapid.IntRange(0, len(boxes)-1).Draw(t, "box")]
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				bytes := rapid.IntRange(0, grant).Draw(t, "size")
				need := queued(box.in) + int64(bytes) + messageOverhead
				more := need - int64(box.b.open.Load())
				want := more <= 0 || q.used.Load()+more <= q.max
				if got := box.b.reserve(costOf(bytes), &box.finished, &q); got != want {
					t.Fatalf("%d bytes: %v, want %v", bytes, got, want)
				}
				if want {
					box.in = append(box.in, bytes)
				}
			case 2:
				if len(box.in) > 0 {
					box.finished.Store(box.finished.Load() + costOf(box.in[0]))
					box.in = box.in[1:]
				}
			case 3:
				box.b.shrink(&box.finished, &q)
				if open := int64(box.b.open.Load()); open != max(floor, queued(box.in)) {
					t.Fatalf("%d bytes are granted for %d", open-floor, queued(box.in))
				}
			}
			var granted int64
			for i := range boxes {
				open := int64(boxes[i].b.open.Load())
				granted += open - floor
				if n := queued(boxes[i].in); n > open {
					t.Fatalf("%d bytes queued, %d granted", n, open)
				}
			}
			if granted != q.used.Load() || granted > q.max {
				t.Fatalf("%d bytes counted, %d granted, %d allowed", q.used.Load(), granted, q.max)
			}
		}
	})
}

func TestMailboxesTogetherAreBounded(t *testing.T) {
	p := startPool(t, Config{Bytes: 4 * grant})
	hold := make(chan struct{})
	blocked := &funcs[int]{consume: func(*Claim[int], int) { <-hold }}
	var boxes []*Mailbox[int]
	full := 0
	for range 8 {
		m := New(p, blocked, Limits{})
		boxes = append(boxes, m)
		for {
			if err := m.Push(1, grant/4); errors.Is(err, ErrFull) {
				break
			}
		}
		full += m.Len()
	}
	if bytes := full * grant / 4; bytes > 4*grant+8*(floor+grant) {
		t.Errorf("%d bytes were admitted", bytes)
	}
	if boxes[7].Len() != 0 {
		t.Errorf("the last mailbox took %d messages", boxes[7].Len())
	}
	if boxes[7].Push(1, 100) != nil {
		t.Error("a small message of an idle mailbox was refused")
	}
	close(hold)
	eventually(t, "all grants are back", func() bool { return p.quota.used.Load() == 0 })
	if boxes[7].Push(1, grant) != nil {
		t.Error("there is room again, and a message was refused")
	}
}

func TestGrantsComeBackFromManyProducers(t *testing.T) {
	p := startPool(t, Config{})
	m := New(p, &funcs[int]{}, Limits{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5000 {
				_ = m.Push(1, 1000) // a refusal is as good here
			}
		})
	}
	wg.Wait()
	eventually(t, "all grants are back", func() bool { return p.quota.used.Load() == 0 })
}

// A claim that ends though nothing is left gives the grants back too.
func TestGrantsComeBackHoweverTheClaimEnds(t *testing.T) {
	ends := map[string]func(*Claim[int]){
		"after a blocking": func(c *Claim[int]) { c.Blocking(func() {}) },
		"after a goexit":   func(*Claim[int]) { runtime.Goexit() },
		"after a panic":    func(*Claim[int]) { panic("boom") },
		"in a group":       func(c *Claim[int]) { c.Join(NewGroup(c.m.pool)) },
		"after its time":   func(c *Claim[int]) { c.w.over = true },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			p := startPool(t, Config{Workers: 1, OnPanic: func(any, []byte) {}})
			other := New(p, &funcs[int]{}, Limits{})
			m := New(p, &funcs[int]{consume: func(c *Claim[int], _ int) {
				mustPush(t, other, 1) // which takes the place, or has one wait for it
				end(c)
			}}, Limits{})
			if m.Push(1, 3*grant) != nil {
				t.Fatal("refused")
			}
			eventually(t, "the grants are back", func() bool { return p.quota.used.Load() == 0 && m.Len() == 0 })
		})
	}
}

// Many mailboxes with somewhat more than the floor each use no more than twice of what
// they have.
func TestManySmallQueuesFit(t *testing.T) {
	p := startPool(t, Config{Bytes: 1 << 20})
	hold := make(chan struct{})
	defer close(hold)
	for i := range 400 { // of 2,256 bytes each
		m := New(p, &funcs[int]{consume: func(*Claim[int], int) { <-hold }}, Limits{})
		if err := m.Push(1, 2000); err != nil {
			t.Fatalf("mailbox %d with %d of 1 MiB in use: %v", i, p.quota.used.Load(), err)
		}
	}
}

func TestGrantsComeBackAfterAYieldOfAll(t *testing.T) {
	p := startPool(t, Config{})
	m := NewIn(NewGroup(p), &funcs[int]{consume: func(c *Claim[int], _ int) { c.YieldAll(func() {}) }}, Limits{})
	if m.Push(1, 3*grant) != nil {
		t.Fatal("refused")
	}
	eventually(t, "the grants are back", func() bool { return p.quota.used.Load() == 0 && m.Len() == 0 })
}

// A shrink takes nothing from who asks for room meanwhile.
func TestShrinkingMakesNobodyAskTwice(t *testing.T) {
	q := quota{max: 20 * grant}
	var b budget
	var finished atomic.Uint64
	b.init(Limits{Messages: 1000})
	if !b.reserve(costOf(14*grant), &finished, &q) {
		t.Fatal("refused")
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				b.shrink(&finished, &q)
			}
		}
	})
	for range 20_000 {
		if !b.reserve(costOf(1000), &finished, &q) {
			t.Error("refused with room")
			break
		}
		finished.Add(costOf(1000))
	}
	close(stop)
	wg.Wait()
}

// What is queued outside of the mailboxes leaves them the less room.
func TestWhatIsTakenOfAPoolIsNotForItsMailboxes(t *testing.T) {
	const most = 1 << 20
	p := startPool(t, Config{Bytes: most})
	if !p.Take(most) || p.Take(1) {
		t.Fatal("more or less than all could be taken")
	}
	m := New[int](p, &funcs[int]{consume: func(*Claim[int], int) {}}, Limits{})
	if err := m.Push(1, floor); !errors.Is(err, ErrFull) {
		t.Errorf("pushed over what is free: %v", err)
	}
	p.Give(most)
	if err := m.Push(1, floor); err != nil {
		t.Error(err)
	}
}
