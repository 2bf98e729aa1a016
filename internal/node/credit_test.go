package node

import (
	"testing"

	"github.com/zlnode/zlnode/internal/link"
)

func TestAMessagesCreditIsGivenBackOnceWhoeverHasIt(t *testing.T) {
	const credit, step = 100, linkCreditBytes / 8
	l := &linkConn{returns: link.NewCreditReturn(linkCreditBytes)}
	s := sender{link: l, paid: credit}
	s.carried(3)
	other := s.handOn()
	for range 2 {
		s.giveBack()
		other.giveBack()
	}
	if got := l.returns.Consumed(step - credit); got != step {
		t.Errorf("%d bytes of credit went back, want %d", got-step+credit, credit)
	}
	if s.hops() != 3 || other.hops() != 3 {
		t.Errorf("the message was carried %d times, and what was handed on %d times", s.hops(), other.hops())
	}
}
