package mailbox

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zlnode/zlnode/internal/buf"
)

// held is a consumer whose turns wait until the test lets them go on.
type held struct {
	funcs[int]
	entered chan int
	leave   chan struct{}
}

func newHeld() *held {
	h := &held{entered: make(chan int), leave: make(chan struct{})}
	h.consume = func(c *Claim[int], v int) {
		c.Blocking(func() {
			h.entered <- v
			<-h.leave
		})
	}
	return h
}

func TestEachProducersMessagesComeOnceAndInOrder(t *testing.T) {
	const producers, mailboxes, each = 6, 40, 150
	type item struct{ from, seq int }
	p := startPool(t, Config{Workers: 4})
	var left sync.WaitGroup
	left.Add(producers * mailboxes * each)
	ms := make([]*Mailbox[item], mailboxes)
	for i := range ms {
		var inside atomic.Bool
		var next [producers]int
		ms[i] = New(p, &funcs[item]{consume: func(_ *Claim[item], v item) {
			if !inside.CompareAndSwap(false, true) {
				t.Error("two turns of one mailbox at once")
			}
			if v.seq != next[v.from] {
				t.Errorf("producer %d: got message %d, want %d", v.from, v.seq, next[v.from])
			}
			next[v.from] = v.seq + 1
			inside.Store(false)
			left.Done()
		}}, Limits{})
	}
	for from := range producers {
		go func() {
			for seq := range each {
				for _, m := range ms {
					mustPush(t, m, item{from, seq})
				}
			}
		}()
	}
	left.Wait()
	for _, m := range ms {
		eventually(t, "the last turn has ended", func() bool { return m.Len() == 0 })
	}
}

func TestFullMailboxTakesNothing(t *testing.T) {
	p := startPool(t, Config{})
	h := newHeld()
	m := New(p, h, Limits{Messages: 3})
	for v := range 3 {
		mustPush(t, m, v)
	}
	wait(t, h.entered, "the first turn")
	// The message whose turn runs counts.
	if n := m.Len(); n != 3 {
		t.Errorf("Len is %d during the first turn, want 3", n)
	}
	if err := m.Push(90, 0); !errors.Is(err, ErrFull) {
		t.Errorf("push into the full mailbox: %v", err)
	}
	h.leave <- struct{}{}
	wait(t, h.entered, "the second turn") // so the first has ended
	if n := m.Len(); n != 2 {
		t.Errorf("Len is %d after one turn, want 2", n)
	}
	mustPush(t, m, 3)
	if err := m.Push(91, 0); !errors.Is(err, ErrFull) {
		t.Errorf("second push after one turn: %v", err)
	}
	h.leave <- struct{}{}
	for want := 2; want < 4; want++ {
		if v := wait(t, h.entered, "the next turn"); v != want {
			t.Errorf("turn of %d, want %d", v, want)
		}
		h.leave <- struct{}{}
	}
	eventually(t, "the mailbox is empty", func() bool { return m.Len() == 0 })
}

func TestBytesAreCountedWithTheMessagesFixedCost(t *testing.T) {
	p := startPool(t, Config{})
	h := newHeld()
	m := New(p, h, Limits{Bytes: 2*256 + 100})
	for i, want := range []error{nil, ErrFull, nil, ErrFull} {
		if err := m.Push(i, []int{60, 41, 40, 0}[i]); !errors.Is(err, want) {
			t.Errorf("push %d: %v, want %v", i, err, want)
		}
	}
	for range 2 {
		wait(t, h.entered, "a turn")
		h.leave <- struct{}{}
	}
	eventually(t, "the mailbox is empty", func() bool { return m.Len() == 0 })
	if err := m.Push(0, 2*256+100); !errors.Is(err, ErrFull) {
		t.Errorf("a message above the limit: %v", err)
	}
}

func TestControlMessagesPassTheBudgetAndKeepTheOrder(t *testing.T) {
	p := startPool(t, Config{})
	h := newHeld()
	m := New(p, h, Limits{Messages: 2})
	mustPush(t, m, 0)
	m.PushControl(1)
	mustPush(t, m, 2)
	m.PushControl(3)
	for want := range 4 {
		if v := wait(t, h.entered, "a turn"); v != want {
			t.Errorf("turn of %d, want %d", v, want)
		}
		if n, want := m.Len(), []int{2, 1, 1, 0}[want]; n != want {
			t.Errorf("Len is %d, want %d: control messages do not count", n, want)
		}
		h.leave <- struct{}{}
	}
}

func TestBeginComesOnceBeforeTheFirstMessage(t *testing.T) {
	p := startPool(t, Config{})
	var calls []string
	done := make(chan struct{})
	m := New(p, &funcs[int]{
		begin: func(c *Claim[int]) { calls = append(calls, "begin") },
		consume: func(_ *Claim[int], v int) {
			if calls = append(calls, "consume"); v == 2 {
				close(done)
			}
		},
	}, Limits{})
	for v := range 3 {
		mustPush(t, m, v)
	}
	wait(t, done, "the last message")
	if want := []string{"begin", "consume", "consume", "consume"}; !slices.Equal(calls, want) {
		t.Errorf("calls %v, want %v", calls, want)
	}
}

func TestBecomeTakesEffectWithTheNextMessage(t *testing.T) {
	p := startPool(t, Config{})
	var calls []string
	var numbers []uint64
	done := make(chan struct{})
	second := &funcs[int]{
		begin: func(c *Claim[int]) { calls = append(calls, "second begins") },
		consume: func(c *Claim[int], v int) {
			calls = append(calls, "second consumes")
			numbers = append(numbers, c.Number())
			if v == 2 {
				close(done)
			}
		},
	}
	var first *funcs[int]
	first = &funcs[int]{consume: func(c *Claim[int], v int) {
		c.Become(first) // overruled
		c.Become(second)
		calls = append(calls, "first consumes")
		numbers = append(numbers, c.Number())
		if v == 0 { // from inside a turn, so that the three share a claim
			mustPush(t, New(p, &funcs[int]{}, Limits{}), 0)
		}
	}}
	m := New(p, first, Limits{})
	for v := range 3 {
		mustPush(t, m, v)
	}
	wait(t, done, "the last message")
	want := []string{"first consumes", "second begins", "second consumes", "second consumes"}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %v, want %v", calls, want)
	}
	if !slices.IsSorted(numbers) || numbers[0] == 0 {
		t.Errorf("claim numbers %v", numbers)
	}
}

func TestSealOfAnIdleMailboxBeginsAClaim(t *testing.T) {
	p := startPool(t, Config{})
	began := make(chan uint64, 1)
	m := New(p, &funcs[int]{}, Limits{})
	m.Seal(&funcs[int]{begin: func(c *Claim[int]) { began <- c.Number() }})
	if n := wait(t, began, "Begin"); n == 0 {
		t.Error("claim 0")
	}
	if n := m.Len(); n != 0 {
		t.Errorf("Len is %d: a seal is no message", n)
	}
}

func TestSealGivesWhatIsQueuedAndWhatComesLaterToTheNext(t *testing.T) {
	p := startPool(t, Config{})
	h := newHeld()
	m := New(p, h, Limits{})
	for v := range 4 {
		mustPush(t, m, v)
	}
	wait(t, h.entered, "the first turn")
	got := make(chan int, 10)
	m.Seal(&funcs[int]{
		begin:   func(*Claim[int]) { got <- -1 },
		consume: func(_ *Claim[int], v int) { got <- v },
	})
	mustPush(t, m, 4)
	h.leave <- struct{}{}
	for _, want := range []int{-1, 1, 2, 3, 4} {
		if v := wait(t, got, "the sealing consumer"); v != want {
			t.Errorf("got %d, want %d", v, want)
		}
	}
	mustPush(t, m, 5)
	if v := wait(t, got, "a later message"); v != 5 {
		t.Errorf("got %d, want 5", v)
	}
}

func TestTheLastOfSeveralSealsWins(t *testing.T) {
	p := startPool(t, Config{})
	h := newHeld()
	m := New(p, h, Limits{})
	mustPush(t, m, 0)
	wait(t, h.entered, "the turn")
	never := &funcs[int]{
		begin:   func(*Claim[int]) { t.Error("an overruled consumer begins") },
		consume: func(*Claim[int], int) { t.Error("an overruled consumer consumes") },
	}
	began := make(chan struct{}, 2)
	m.Seal(never)
	m.Seal(never)
	m.Seal(&funcs[int]{begin: func(*Claim[int]) { began <- struct{}{} }})
	h.leave <- struct{}{}
	wait(t, began, "Begin of the last seal")
	done := make(chan struct{})
	m.Seal(&funcs[int]{consume: func(*Claim[int], int) { close(done) }}) // a seal works again after others
	mustPush(t, m, 1)
	wait(t, done, "a message after all seals")
	if len(began) != 0 {
		t.Error("a consumer began twice")
	}
}

func TestASealWinsOverABecomeOfTheSameTurn(t *testing.T) {
	p := startPool(t, Config{})
	sealed, turn := make(chan struct{}), make(chan struct{})
	m := New(p, &funcs[int]{consume: func(c *Claim[int], v int) {
		close(turn)
		c.Blocking(func() { <-sealed })
		c.Become(&funcs[int]{
			begin:   func(*Claim[int]) { t.Error("the overruled consumer begins") },
			consume: func(*Claim[int], int) { t.Error("the overruled consumer consumes") },
		})
	}}, Limits{})
	mustPush(t, m, 0)
	mustPush(t, m, 1)
	wait(t, turn, "the turn")
	done := make(chan struct{})
	m.Seal(&funcs[int]{consume: func(*Claim[int], int) { close(done) }})
	close(sealed)
	wait(t, done, "the message after the seal")
}

// Consumers change under load, by seals from outside and from inside; each
// message carries a buffer that its consumer frees.
func TestSealsUnderLoadLoseAndDoubleNothing(t *testing.T) {
	const producers, each, seals = 4, 1500, 100
	type item struct {
		from, seq int
		b         *buf.Buf
	}
	p := startPool(t, Config{Workers: 3})
	var left sync.WaitGroup
	left.Add(producers * each)
	var owner *funcs[item] // who has begun last; only turns touch it
	var next [producers]int
	var m *Mailbox[item]
	var newConsumer func() *funcs[item]
	newConsumer = func() *funcs[item] {
		c := new(funcs[item])
		c.begin = func(*Claim[item]) { owner = c }
		c.consume = func(claim *Claim[item], v item) {
			if owner != c {
				t.Error("a consumer gets a message after the next one began")
			}
			if v.seq != next[v.from] {
				t.Errorf("producer %d: got message %d, want %d", v.from, v.seq, next[v.from])
			}
			next[v.from] = v.seq + 1
			v.b.Free()
			if v.seq%64 == 0 {
				claim.Become(newConsumer())
			}
			left.Done()
		}
		return c
	}
	m = New(p, newConsumer(), Limits{Messages: 64})
	for from := range producers {
		left.Go(func() {
			for seq := range each {
				v := item{from, seq, buf.Get(8)}
				for m.Push(v, 8) != nil {
					runtime.Gosched()
				}
			}
		})
	}
	left.Go(func() {
		for range seals {
			m.Seal(newConsumer())
			for range rand.IntN(20) {
				runtime.Gosched()
			}
		}
	})
	left.Wait()
}

func TestAClaimIsOfNoUseAfterItsEnd(t *testing.T) {
	p := startPool(t, Config{})
	kept := make(chan *Claim[int], 1)
	m := New(p, &funcs[int]{consume: func(c *Claim[int], _ int) { kept <- c }}, Limits{})
	mustPush(t, m, 0)
	c := wait(t, kept, "the turn")
	eventually(t, "the pool is at rest", func() bool { return p.Stats().Running == 0 })
	defer func() {
		if recover() == nil {
			t.Error("Become of a claim that has ended did not panic")
		}
	}()
	c.Become(&funcs[int]{})
}
