package mailbox

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

func TestAGroupRunsOneTurnAtATime(t *testing.T) {
	const members, producers, each = 20, 4, 300
	p := startPool(t, Config{Workers: 4})
	g := NewGroup(p)
	var inside atomic.Bool
	var left sync.WaitGroup
	left.Add(members * producers * each)
	type item struct{ from, seq int }
	ms := make([]*Mailbox[item], members)
	for i := range ms {
		var next [producers]int
		ms[i] = NewIn(g, &funcs[item]{consume: func(_ *Claim[item], v item) {
			if !inside.CompareAndSwap(false, true) {
				t.Error("two turns of one group at once")
			}
			if v.seq != next[v.from] {
				t.Errorf("producer %d: got %d, want %d", v.from, v.seq, next[v.from])
			}
			next[v.from]++
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
	eventually(t, "the pool is at rest", func() bool { return p.Stats().Running == 0 })
}

func TestABusyMemberLetsTheOthersOfItsGroupRun(t *testing.T) {
	p := startPool(t, Config{})
	g := NewGroup(p)
	turns, done := 0, make(chan int)
	var busy *Mailbox[int]
	busy = NewIn(g, &funcs[int]{consume: func(_ *Claim[int], v int) {
		if turns++; v > 0 {
			mustPush(t, busy, v-1)
		}
	}}, Limits{})
	other := NewIn(g, &funcs[int]{consume: func(*Claim[int], int) { done <- turns }}, Limits{})
	started, leave := make(chan struct{}), make(chan struct{})
	first := NewIn(g, &funcs[int]{consume: func(*Claim[int], int) { close(started); <-leave }}, Limits{})
	mustPush(t, first, 0)
	wait(t, started, "the group's claim")
	mustPush(t, busy, 10*share)
	mustPush(t, other, 0)
	close(leave)
	if n := wait(t, done, "the other member's turn"); n > share {
		t.Errorf("it waited for %d turns of the busy one, want at most %d", n, share)
	}
	eventually(t, "the busy one is done", func() bool { return busy.Len() == 0 })
}

// Picking out one member leaves the others of the group as they are.
func TestAMemberIsSealedAlone(t *testing.T) {
	p := startPool(t, Config{})
	g := NewGroup(p)
	started, leave := make(chan struct{}), make(chan struct{})
	gate := NewIn(g, &funcs[int]{consume: func(*Claim[int], int) { close(started); <-leave }}, Limits{})
	ran, taken := make(chan int, 10), make(chan int, 10)
	stays := NewIn(g, &funcs[int]{consume: func(_ *Claim[int], v int) { ran <- v }}, Limits{})
	goes := NewIn(g, &funcs[int]{consume: func(_ *Claim[int], v int) { ran <- -v }}, Limits{})
	mustPush(t, gate, 0)
	wait(t, started, "the group's claim")
	mustPush(t, goes, 1)
	mustPush(t, stays, 2)
	mustPush(t, goes, 3)
	goes.Seal(&funcs[int]{consume: func(_ *Claim[int], v int) { taken <- v }})
	close(leave)
	if v := wait(t, ran, "the other member's turn"); v != 2 {
		t.Errorf("%d ran, want 2", v)
	}
	for _, want := range []int{1, 3} {
		if v := wait(t, taken, "the mover"); v != want {
			t.Errorf("the mover got %d, want %d", v, want)
		}
	}
}

// A mailbox that joins and leaves while messages come loses none and keeps order; its
// turns and the group's exclude each other while it is a member.
func TestAMailboxJoinsAndLeavesUnderLoad(t *testing.T) {
	const each = 20_000
	p := startPool(t, Config{Workers: 4})
	g := NewGroup(p)
	var inside atomic.Bool
	var left sync.WaitGroup
	left.Add(2 * each)
	stays := NewIn(g, &funcs[int]{consume: func(*Claim[int], int) {
		if !inside.CompareAndSwap(false, true) {
			t.Error("a turn of the group and one of its member at once")
		}
		inside.Store(false)
		left.Done()
	}}, Limits{Messages: each, Bytes: 1 << 30})
	next, member := 0, false
	moves := New(p, &funcs[int]{consume: func(c *Claim[int], v int) {
		if v != next {
			t.Errorf("got %d, want %d", v, next)
		}
		if next++; member {
			if !inside.CompareAndSwap(false, true) {
				t.Error("a member's turn and one of its group at once")
			}
			defer inside.Store(false)
		}
		if v%7 == 0 {
			if member = !member; member {
				c.Join(g)
			} else {
				c.Join(nil)
			}
		}
		left.Done()
	}}, Limits{Messages: each, Bytes: 1 << 30})
	var producers sync.WaitGroup
	producers.Go(func() {
		for v := range each {
			mustPush(t, moves, v)
		}
	})
	producers.Go(func() {
		for v := range each {
			mustPush(t, stays, v)
		}
	})
	producers.Wait()
	left.Wait()
	eventually(t, "the pool is at rest", func() bool { return p.Stats().Running == 0 })
}

// req: MB-06
func TestYieldLetsOthersRunAndKeepsTheMembersClaim(t *testing.T) {
	p := startPool(t, Config{Workers: 2})
	g := NewGroup(p)
	var mu sync.Mutex
	var order []string
	note := func(s string) { mu.Lock(); order = append(order, s); mu.Unlock() }
	yielded, answer, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a := NewIn(g, &funcs[int]{consume: func(c *Claim[int], v int) {
		if v == 2 {
			note("a2")
			close(done)
			return
		}
		note("a1 begins")
		if !c.Yield(func() { close(yielded); <-answer }) {
			t.Error("Yield refused")
		}
		note("a1 ends")
	}}, Limits{})
	b := NewIn(g, &funcs[int]{consume: func(_ *Claim[int], v int) {
		if note("b"); v == 2 {
			close(answer)
		}
	}}, Limits{})
	mustPush(t, a, 1)
	wait(t, yielded, "the Yield")
	mustPush(t, a, 2)
	mustPush(t, b, 1)
	mustPush(t, b, 2)
	wait(t, done, "the member's next turn")
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"a1 begins", "b", "b", "a1 ends", "a2"}; !slices.Equal(order, want) {
		t.Errorf("turns ran in order %v, want %v", order, want)
	}
}

// After its Yield a turn runs alone again, whoever had the gate when it ended.
func TestYieldWaitsForTheGate(t *testing.T) {
	p := startPool(t, Config{Workers: 2})
	g := NewGroup(p)
	var inside atomic.Bool
	enter := func() {
		if !inside.CompareAndSwap(false, true) {
			t.Error("two turns of one group at once")
		}
	}
	answer, busy, leave, done := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var answered atomic.Bool
	a := NewIn(g, &funcs[int]{consume: func(c *Claim[int], _ int) {
		enter()
		inside.Store(false)
		c.Yield(func() { <-answer; answered.Store(true) })
		enter()
		inside.Store(false)
		close(done)
	}}, Limits{})
	b := NewIn(g, &funcs[int]{consume: func(*Claim[int], int) {
		enter()
		close(busy)
		<-leave
		inside.Store(false)
	}}, Limits{})
	mustPush(t, a, 0)
	eventually(t, "it yields", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.mu.yields == 1 })
	mustPush(t, b, 0)
	wait(t, busy, "the other's turn")
	close(answer)
	eventually(t, "the wait is over", answered.Load)
	close(leave)
	wait(t, done, "the rest of the turn")
}

func TestYieldAllLetsTheSameMailboxRun(t *testing.T) {
	p := startPool(t, Config{Workers: 2})
	g := NewGroup(p)
	var order []int
	answers := []chan struct{}{make(chan struct{}), make(chan struct{})}
	in, done := make(chan struct{}), make(chan struct{})
	m := NewIn(g, &funcs[int]{consume: func(c *Claim[int], v int) {
		order = append(order, v)
		if v < len(answers) {
			c.YieldAll(func() { in <- struct{}{}; <-answers[v] })
			order = append(order, -v)
		}
		if v == 3 {
			close(done)
		}
	}}, Limits{})
	mustPush(t, m, 0)
	wait(t, in, "the first")
	mustPush(t, m, 1)
	wait(t, in, "the second")
	mustPush(t, m, 2)
	eventually(t, "the third has run", func() bool { return m.Len() == 2 })
	close(answers[1])
	eventually(t, "the second has run", func() bool { return m.Len() == 1 })
	close(answers[0])
	eventually(t, "the first has run", func() bool { return m.Len() == 0 })
	mustPush(t, m, 3)
	wait(t, done, "the last")
	if want := []int{0, 1, 2, -1, 0, 3}; !slices.Equal(order, want) {
		t.Errorf("turns ran in order %v, want %v", order, want)
	}
}

// A Yield whose wait panics or ends the goroutine ends its turn under the gate, and the
// group goes on.
func TestAYieldThatBreaksLeavesTheGroupIntact(t *testing.T) {
	for name, brk := range map[string]func(){"panic": func() { panic("broken") }, "goexit": runtime.Goexit} {
		for kind, yield := range map[string]func(*Claim[int], func()) bool{"Yield": (*Claim[int]).Yield, "YieldAll": (*Claim[int]).YieldAll} {
			t.Run(name+kind, func(t *testing.T) {
				p := startPool(t, Config{OnPanic: func(any, []byte) {}})
				g := NewGroup(p)
				got := make(chan int, 10)
				consume := func(c *Claim[int], v int) {
					if v == 0 {
						yield(c, brk)
					}
					got <- v
				}
				a, b := NewIn(g, &funcs[int]{consume: consume}, Limits{}), NewIn(g, &funcs[int]{consume: consume}, Limits{})
				for range 3 {
					mustPush(t, a, 0)
					mustPush(t, b, 1)
					mustPush(t, a, 2)
				}
				sum := 0
				for range 6 {
					sum += wait(t, got, "a turn")
				}
				if sum != 9 {
					t.Errorf("the sum of what ran is %d, want 9", sum)
				}
				eventually(t, "all turns have ended", func() bool { return a.Len()+b.Len() == 0 })
			})
		}
	}
}

func TestAPoolBoundsItsYields(t *testing.T) {
	p := startPool(t, Config{Workers: 1, MaxWorkers: 4})
	g := NewGroup(p)
	in, out, refused := make(chan struct{}), make(chan struct{}), make(chan struct{})
	for range 3 {
		m := NewIn(g, &funcs[int]{consume: func(c *Claim[int], _ int) {
			if !c.Yield(func() { in <- struct{}{}; <-out }) {
				close(refused)
			}
		}}, Limits{})
		mustPush(t, m, 0)
	}
	wait(t, in, "a Yield")
	wait(t, in, "a Yield")
	wait(t, refused, "the refusal of the third")
	close(out)
	eventually(t, "all have ended", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.mu.yields == 0 })
}

func TestCloseWaitsForYieldsAndLetsNoneBegin(t *testing.T) {
	p := NewPool(Config{Workers: 2})
	g := NewGroup(p)
	in, out := make(chan struct{}), make(chan struct{})
	ended, second := make(chan struct{}), make(chan bool, 1)
	a := NewIn(g, &funcs[int]{consume: func(c *Claim[int], _ int) {
		c.Yield(func() { close(in); <-out })
		close(ended)
	}}, Limits{})
	b := NewIn(g, &funcs[int]{consume: func(c *Claim[int], _ int) { second <- c.Yield(func() {}) }}, Limits{})
	mustPush(t, a, 0)
	wait(t, in, "the Yield")
	closed := make(chan error, 1)
	go func() { closed <- p.Close(context.Background()) }()
	eventually(t, "Close has begun", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.mu.closing })
	mustPush(t, b, 0)
	if wait(t, second, "a turn of a pool that is being closed") {
		t.Error("a Yield began during Close")
	}
	close(out)
	wait(t, ended, "the end of the turn")
	if err := wait(t, closed, "Close"); err != nil {
		t.Error(err)
	}
}

// A turn whose Yield outlasts an impatient Close never gets the gate again; it ends.
func TestAYieldThatOutlastsCloseEnds(t *testing.T) {
	p := NewPool(Config{Workers: 2})
	g := NewGroup(p)
	in, out := make(chan struct{}), make(chan struct{})
	ended := make(chan string, 1)
	started, leave := make(chan struct{}), make(chan struct{})
	a := NewIn(g, &funcs[int]{consume: func(c *Claim[int], _ int) {
		how := "exit"
		defer func() { ended <- how }()
		c.Yield(func() { close(in); <-out })
		how = "return"
	}}, Limits{})
	b := NewIn(g, &funcs[int]{consume: func(*Claim[int], int) { close(started); <-leave }}, Limits{})
	mustPush(t, a, 0)
	wait(t, in, "the Yield")
	mustPush(t, b, 0) // has the gate
	wait(t, started, "the other's turn")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close returned %v", err)
	}
	close(out)
	if how := wait(t, ended, "the end of the turn"); how != "exit" {
		t.Error("the turn went on without its gate")
	}
	close(leave)
	closePool(t, p)
}

// Turns that yield while others of their group come and go lose and double nothing.
func TestYieldsUnderLoadLoseNothing(t *testing.T) {
	const members, each = 8, 5000
	p := startPool(t, Config{Workers: 2})
	g := NewGroup(p)
	var left sync.WaitGroup
	left.Add(members * each)
	ms := make([]*Mailbox[int], members)
	for i := range ms {
		next := 0
		ms[i] = NewIn(g, &funcs[int]{consume: func(c *Claim[int], v int) {
			if v != next {
				t.Errorf("got %d, want %d", v, next)
			}
			if next++; v%4 == 0 {
				c.Yield(runtime.Gosched)
			}
			left.Done()
		}}, Limits{Messages: each, Bytes: 1 << 30})
	}
	for v := range each {
		for _, m := range ms {
			mustPush(t, m, v)
		}
		if v%16 == 0 {
			runtime.Gosched()
		}
	}
	left.Wait()
}

// A turn that has joined another group cannot give up a gate that it has yet to get; and
// what follows a Join in Begin runs behind the new gate.
func TestAJoinIsOfTheNextTurn(t *testing.T) {
	p := startPool(t, Config{})
	g := NewGroup(p)
	yielded, second := make(chan bool, 1), make(chan struct{})
	m := New(p, &funcs[int]{consume: func(c *Claim[int], v int) {
		if v == 1 {
			c.Join(g)
			yielded <- c.Yield(func() {})
			return
		}
		close(second)
	}}, Limits{})
	mustPush(t, m, 1)
	if wait(t, yielded, "the first turn") {
		t.Error("it gave up the gate of a group whose turn it is not")
	}
	started, leave := make(chan struct{}), make(chan struct{})
	other := NewIn(g, &funcs[int]{consume: func(*Claim[int], int) { close(started); <-leave }}, Limits{})
	mustPush(t, other, 0)
	wait(t, started, "the group's turn")
	mustPush(t, m, 2)
	select {
	case <-second:
		t.Error("it runs while another of its group does")
	default:
	}
	close(leave)
	wait(t, second, "the second turn")
}
