package link

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/wire"
)

func TestCreditIsTakenWholeOrNotAtAll(t *testing.T) {
	s := NewCreditSender(100)
	if !s.Take(60) || s.Take(41) || s.Left() != 40 || !s.Take(40) || s.Take(1) {
		t.Fatalf("%d left", s.Left())
	}
	if err := s.Grant(100); err != nil || s.Left() != 100 {
		t.Fatalf("%v, %d left", err, s.Left())
	}
}

func TestCreditThatWasNotUsedCannotComeBack(t *testing.T) {
	s, g := NewCreditSender(100), NewCreditGate(100, 1)
	s.Take(10)
	g.TryTake(10)
	for _, give := range []func(uint64) error{s.Grant, g.Give} {
		for _, n := range []uint64{101, 1 << 63, 1<<64 - 1} {
			if err := give(n); !errors.Is(err, ErrCreditOverflow) {
				t.Errorf("%d bytes came back: %v", n, err)
			}
		}
		if err := give(10); err != nil {
			t.Errorf("10 bytes refused: %v", err)
		}
		if err := give(1); !errors.Is(err, ErrCreditOverflow) {
			t.Errorf("an 11th byte came back: %v", err)
		}
	}
}

func TestCreditIsReturnedByTheEighth(t *testing.T) {
	type receiver interface {
		Received(n int) error
		Consumed(n int) int
	}
	for _, r := range []receiver{NewCreditReceiver(800), NewCreditReturn(800)} {
		if err := r.Received(800); err != nil {
			t.Fatal(err)
		}
		if err := r.Received(1); !errors.Is(err, ErrCreditExceeded) {
			t.Fatalf("%T: a byte over the window: %v", r, err)
		}
	}
	for _, r := range []receiver{NewCreditReceiver(800), NewCreditReturn(800)} {
		if err := r.Received(800); err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, n := range []int{99, 1, 50, 49, 301, 99} {
			got = append(got, r.Consumed(n))
		}
		want := []int{0, 100, 0, 0, 400, 0}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%T: returned %v, want %v", r, got, want)
				break
			}
		}
		if err := r.Received(500); err != nil {
			t.Errorf("%T: returned credit is refused: %v", r, err)
		}
		if err := r.Received(1); !errors.Is(err, ErrCreditExceeded) {
			t.Errorf("%T: a byte over the window: %v", r, err)
		}
	}
}

// Sender and receiver with records in flight and credit on its way: the receiver
// never sees a violation, no byte is lost, and once all is consumed the largest
// record passes.
func TestCreditsNeverRunDry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = 800
		const largest = window - window/8
		s, r := NewCreditSender(window), NewCreditReceiver(window)
		ret := NewCreditReturn(window) // must do just the same
		var flying, queued, credit []int
		pop := func(q *[]int) int {
			v := (*q)[0]
			*q = (*q)[1:]
			return v
		}
		arrive := func() {
			n := pop(&flying)
			if err := errors.Join(r.Received(n), ret.Received(n)); err != nil {
				t.Fatal(err)
			}
			queued = append(queued, n)
		}
		consume := func() {
			n := pop(&queued)
			grant := r.Consumed(n)
			if other := ret.Consumed(n); other != grant {
				t.Fatalf("receiver returns %d, its concurrent form %d", grant, other)
			}
			if grant > 0 {
				credit = append(credit, grant)
			}
		}
		grant := func() {
			if err := s.Grant(uint64(pop(&credit))); err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				if n := rapid.IntRange(1, largest).Draw(t, "n"); s.Take(n) {
					flying = append(flying, n)
				}
			},
			"arrive": func(t *rapid.T) {
				if len(flying) == 0 {
					t.Skip()
				}
				arrive()
			},
			"consume": func(t *rapid.T) {
				if len(queued) == 0 {
					t.Skip()
				}
				consume()
			},
			"grant": func(t *rapid.T) {
				if len(credit) == 0 {
					t.Skip()
				}
				grant()
			},
		})
		for len(flying) > 0 {
			arrive()
		}
		for len(queued) > 0 {
			consume()
		}
		for len(credit) > 0 {
			grant()
		}
		if !s.Take(largest) {
			t.Fatalf("all is consumed and a record of %d does not pass: %d left", largest, s.Left())
		}
	})
}

func TestTheSmallestWindowPassesTheLargestRecord(t *testing.T) {
	s, r := NewCreditSender(wire.MinWindow), NewCreditReceiver(wire.MinWindow)
	keptBack := wire.MinWindow/8 - 1
	if !s.Take(keptBack) || r.Received(keptBack) != nil || r.Consumed(keptBack) != 0 {
		t.Fatal("set-up")
	}
	if !s.Take(wire.MaxRecord) {
		t.Errorf("%d bytes left for a record of %d", s.Left(), wire.MaxRecord)
	}
}

func TestWhatIsReceivedIsOpenUntilItIsConsumed(t *testing.T) {
	r := NewCreditReturn(800)
	open := func(want int) {
		t.Helper()
		if got := r.Open(); got != want {
			t.Errorf("%d bytes are open, want %d", got, want)
		}
	}
	if err := r.Received(300); err != nil {
		t.Fatal(err)
	}
	open(300)
	r.Consumed(60) // too little to be given back
	open(240)
	r.Consumed(240)
	open(0)
}
