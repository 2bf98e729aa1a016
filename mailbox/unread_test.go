package mailbox

import (
	"errors"
	"slices"
	"testing"
)

// keeper keeps what it gets, until a giver is its successor.
type keeper struct {
	kept  []int
	costs []Kept
}

func (*keeper) Begin(*Claim[int]) {}

func (k *keeper) Consume(c *Claim[int], v *int) {
	k.kept, k.costs = append(k.kept, *v), append(k.costs, c.Keep())
}

// have waits until k, the consumer of m, has kept n messages.
func (k *keeper) have(t *testing.T, m *Mailbox[int], n int) {
	t.Helper()
	eventually(t, "all is kept", func() bool {
		kept := make(chan int, 1)
		m.Seal(&funcs[int]{begin: func(c *Claim[int]) { c.Become(k); kept <- len(k.kept) }})
		return wait(t, kept, "a turn") == n
	})
}

// giver puts back what a keeper has kept, and is followed by next.
type giver struct {
	from *keeper
	next Consumer[int]
}

func (g *giver) Begin(c *Claim[int]) {
	c.Become(g.next)
	for i := len(g.from.kept) - 1; i >= 0; i-- {
		c.Unread(&g.from.kept[i], g.from.costs[i])
	}
}

func (g *giver) Consume(*Claim[int], *int) { panic("its Begin gives the mailbox on") }

// What is kept counts as what is queued does, so nothing that was taken is refused later.
func TestWhatIsKeptCounts(t *testing.T) {
	p := startPool(t, Config{})
	k := &keeper{}
	m := New(p, k, Limits{Messages: 4})
	for v := range 4 {
		mustPush(t, m, v)
	}
	k.have(t, m, 4)
	if err := m.Push(5, 0); !errors.Is(err, ErrFull) || m.Len() != 4 {
		t.Errorf("%d count beside what is kept, another: %v", m.Len(), err)
	}
	var got []int
	end := make(chan struct{})
	m.Seal(&giver{from: k, next: &funcs[int]{consume: func(_ *Claim[int], v int) {
		if got = append(got, v); v == 7 {
			close(end)
		}
	}}})
	eventually(t, "there is room again", func() bool { return m.Push(7, 0) == nil })
	wait(t, end, "the last message")
	if want := []int{0, 1, 2, 3, 7}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	eventually(t, "all room is free", func() bool { return p.quota.used.Load() == 0 && m.Len() == 0 })
}

func TestWhatIsUnreadGoesBeforeAllThatWaits(t *testing.T) {
	p := startPool(t, Config{})
	k := &keeper{}
	m := New(p, k, Limits{Messages: 3})
	for v := range 3 {
		mustPush(t, m, v)
	}
	block, began := make(chan struct{}), make(chan struct{})
	var got []int
	end := make(chan struct{})
	k.have(t, m, 3)
	m.Seal(&giver{from: k, next: &funcs[int]{
		begin: func(*Claim[int]) { close(began); <-block },
		consume: func(_ *Claim[int], v int) {
			if got = append(got, v); len(got) == 6 {
				close(end)
			}
		},
	}})
	wait(t, began, "the seal")
	m.PushControl(7)
	close(block)
	for _, v := range []int{8, 9} {
		eventually(t, "there is room again", func() bool { return m.Push(v, 0) == nil })
	}
	wait(t, end, "the last message")
	if want := []int{0, 1, 2, 7, 8, 9}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Members of a group take turns while one works off what was put back.
func TestWhatIsUnreadSharesTheGate(t *testing.T) {
	p := startPool(t, Config{Workers: 1})
	g := NewGroup(p)
	k := &keeper{}
	var ran []int
	end := make(chan struct{})
	other := NewIn(g, &funcs[int]{consume: func(*Claim[int], int) { ran = append(ran, -1) }}, Limits{})
	m := NewIn(g, k, Limits{})
	for v := range 1000 {
		mustPush(t, m, v)
	}
	k.have(t, m, 1000)
	m.Seal(&giver{from: k, next: &funcs[int]{consume: func(_ *Claim[int], v int) {
		if v == 0 {
			mustPush(t, other, 0)
		}
		if ran = append(ran, v); v == 999 {
			close(end)
		}
	}}})
	wait(t, end, "the last message")
	if i := slices.Index(ran, -1); i < 0 || i > share {
		t.Errorf("the other member's turn came after %d of 1000", i)
	}
}

// Who keeps messages can tell which of them Len counts.
func TestWhatIsKeptTellsWhetherItCounts(t *testing.T) {
	p := startPool(t, Config{})
	k := &keeper{}
	m := New(p, k, Limits{})
	mustPush(t, m, 1)
	m.PushControl(2)
	k.have(t, m, 2)
	if !k.costs[0].Counts() || k.costs[1].Counts() || m.Len() != 1 {
		t.Errorf("%v and %v count of a message and a control one; %d do in the mailbox", k.costs[0].Counts(), k.costs[1].Counts(), m.Len())
	}
}
