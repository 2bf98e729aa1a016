package mailbox

import (
	"errors"
	"slices"
	"testing"
)

// keeper keeps what it gets; next gives it on.
type keeper struct{ kept []int }

func (*keeper) Begin(*Claim[int]) {}

func (k *keeper) Consume(_ *Claim[int], v *int) { k.kept = append(k.kept, *v) }

// giver puts back what a keeper has kept and is followed by next.
type giver struct {
	from *keeper
	next Consumer[int]
}

func (g *giver) Begin(c *Claim[int]) {
	c.Become(g.next)
	for i := len(g.from.kept) - 1; i >= 0; i-- {
		c.Unread(&g.from.kept[i], 0)
	}
}

func (g *giver) Consume(*Claim[int], *int) { panic("its Begin gives the mailbox on") }

func TestWhatIsUnreadGoesBeforeAllThatWaits(t *testing.T) {
	p := startPool(t, Config{})
	k := &keeper{}
	m := New(p, k, Limits{Messages: 3})
	for v := range 3 {
		mustPush(t, m, v)
	}
	eventually(t, "all is kept", func() bool { return m.Len() == 0 })
	block, began := make(chan struct{}), make(chan struct{})
	var got []int
	end := make(chan struct{})
	m.Seal(&giver{from: k, next: &funcs[int]{
		begin: func(*Claim[int]) { close(began); <-block },
		consume: func(_ *Claim[int], v int) {
			if got = append(got, v); len(got) == 7 {
				close(end)
			}
		},
	}})
	wait(t, began, "the seal")
	if m.Len() != 3 {
		t.Errorf("%d messages count, want the 3 that were put back", m.Len())
	}
	if err := m.Push(9, 0); !errors.Is(err, ErrFull) {
		t.Errorf("a message beside what was put back: %v", err)
	}
	m.PushControl(7)
	close(block)
	eventually(t, "there is room again", func() bool { return m.Push(8, 0) == nil })
	for v := range 2 {
		eventually(t, "there is room again", func() bool { return m.Push(v, 0) == nil })
	}
	wait(t, end, "the last message")
	if want := []int{0, 1, 2, 7, 8, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	eventually(t, "all grants are back", func() bool { return p.quota.used.Load() == 0 && m.Len() == 0 })
}

// Members of a group take turns while one works off what was put back.
func TestWhatIsUnreadSharesTheGate(t *testing.T) {
	p := startPool(t, Config{Workers: 1})
	g := NewGroup(p)
	k := &keeper{}
	for v := range 1000 {
		k.kept = append(k.kept, v)
	}
	var ran []int
	end := make(chan struct{})
	other := NewIn(g, &funcs[int]{consume: func(*Claim[int], int) { ran = append(ran, -1) }}, Limits{})
	m := NewIn(g, &funcs[int]{}, Limits{})
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
