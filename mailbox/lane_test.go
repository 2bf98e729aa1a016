package mailbox

import (
	"slices"
	"sync"
	"testing"
)

func TestLifecycleGoesFirstButNotForEver(t *testing.T) {
	p := startPool(t, Config{})
	var got []int
	done := make(chan struct{})
	const last = 3
	m := New(p, &funcs[int]{}, Limits{})
	started, leave := make(chan struct{}), make(chan struct{})
	m.Seal(&funcs[int]{
		begin: func(*Claim[int]) { close(started); <-leave },
		consume: func(_ *Claim[int], v int) {
			if got = append(got, v); v == last {
				close(done)
			}
		},
	})
	wait(t, started, "the claim")
	for v := range last {
		mustPush(t, m, v+1)
	}
	for v := range 2*laneRun + 3 {
		m.PushLifecycle(100 + v)
	}
	close(leave)
	wait(t, done, "the last message")
	var want []int
	for v := range 2*laneRun + 3 {
		if want = append(want, 100+v); (v+1)%laneRun == 0 {
			want = append(want, (v+1)/laneRun)
		}
	}
	if want = append(want, last); !slices.Equal(got, want) {
		t.Errorf("the order of turns is\n%v, want\n%v", got, want)
	}
}

func TestLifecycleNeedsNoOtherMessageAndNoRoom(t *testing.T) {
	p := startPool(t, Config{})
	got := make(chan int, 1)
	m := New(p, &funcs[int]{consume: func(_ *Claim[int], v int) { got <- v }}, Limits{Bytes: 1})
	for v := range 3 * laneRun { // more than a run, with nothing else to do in between
		m.PushLifecycle(v)
		if g := wait(t, got, "the turn"); g != v {
			t.Errorf("got %d, want %d", g, v)
		}
	}
	if n := m.Len(); n != 0 {
		t.Errorf("Len counts %d of the lane", n)
	}
}

// Lifecycle messages that come while a long list is worked off do not wait for its end.
func TestLifecyclePassesWhatIsTakenAlready(t *testing.T) {
	p := startPool(t, Config{})
	var got []int
	done := make(chan struct{})
	var m *Mailbox[int]
	m = New(p, &funcs[int]{consume: func(_ *Claim[int], v int) {
		switch got = append(got, v); v {
		case 0:
			m.PushLifecycle(100) // the rest of the list is the claim's already
		case 2:
			close(done)
		}
	}}, Limits{})
	together(t, m, 0, 1, 2)
	wait(t, done, "the last message")
	if want := []int{0, 100, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("the order of turns is %v, want %v", got, want)
	}
}

// together pushes the values so that one claim takes them at once.
func together(t *testing.T, m *Mailbox[int], values ...int) {
	t.Helper()
	before, leave := m.consumer, make(chan struct{})
	m.Seal(&funcs[int]{begin: func(c *Claim[int]) { <-leave; c.Become(before) }})
	for _, v := range values {
		mustPush(t, m, v)
	}
	close(leave)
}

func TestBothLanesKeepTheirOrderAndLoseNothing(t *testing.T) {
	const producers, each = 4, 2000
	type item struct {
		from, seq int
		life      bool
	}
	p := startPool(t, Config{Workers: 4})
	var left sync.WaitGroup
	left.Add(2 * producers * each)
	var next [producers][2]int
	m := New(p, &funcs[item]{consume: func(_ *Claim[item], v item) {
		lane := 0
		if v.life {
			lane = 1
		}
		if want := next[v.from][lane]; v.seq != want {
			t.Errorf("producer %d, lifecycle %v: got %d, want %d", v.from, v.life, v.seq, want)
		}
		next[v.from][lane]++
		left.Done()
	}}, Limits{Messages: producers * each})
	for from := range producers {
		go func() {
			for seq := range each {
				m.PushLifecycle(item{from, seq, true})
				mustPush(t, m, item{from, seq, false})
			}
		}()
	}
	left.Wait()
	eventually(t, "the pool is at rest", func() bool { return p.Stats().Running == 0 })
}
