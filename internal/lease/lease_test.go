package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

const s = clock.Mono(time.Second)

func defaults() Config { return Config{}.WithDefaults() }

func TestConfigNeedsRoomForOneLostRenewal(t *testing.T) {
	if err := defaults().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	c := defaults()
	c.Renew = 7 * time.Second // 7 + 3 = 15 - 5
	err := c.Validate()
	if err == nil {
		t.Fatal("no room for a renewal, and no error")
	}
	for _, figure := range []string{"7s", "3s", "15s", "5s"} {
		if !strings.Contains(err.Error(), figure) {
			t.Errorf("%q does not name %s", err, figure)
		}
	}
	c = defaults()
	c.Timeout = -1
	if c.Validate() == nil {
		t.Error("negative timeout accepted")
	}
}

func TestAdmissionCountsFromBeforeTheCall(t *testing.T) {
	k := New(defaults(), Answered{SentAt: 100 * s, Remaining: 15 * time.Second})
	if got := k.AdmitUntil(); got != 110*s {
		t.Fatalf("admit until %v", got)
	}
	k.Step(105*s, Tick{})
	// The answer takes 2 s; what it says counts from when it was asked for.
	k.Step(107*s, Answered{SentAt: 105 * s, Remaining: 15 * time.Second})
	if got := k.AdmitUntil(); got != 115*s {
		t.Errorf("admit until %v", got)
	}
}

func TestRenewsOnceWhenDue(t *testing.T) {
	k := New(defaults(), Answered{Remaining: 15 * time.Second})
	k.Step(5*s-1, Tick{})
	if e := k.Effects(nil); len(e) != 0 {
		t.Fatalf("renewed early: %v", e)
	}
	k.Step(5*s, Tick{})
	k.Step(6*s, Tick{})
	if e := k.Effects(nil); len(e) != 1 || e[0] != Renew {
		t.Fatalf("effects %v, want one Renew", e)
	}
	if _, armed := k.NextDeadline(); armed {
		t.Error("a deadline while the renewal runs")
	}
	k.Step(6*s, Answered{SentAt: 5 * s, Remaining: 15 * time.Second})
	if at, armed := k.NextDeadline(); !armed || at != 10*s {
		t.Errorf("next renewal at %v %v", at, armed)
	}
}

func TestFailuresAreRetriedAndExtendNothing(t *testing.T) {
	k := New(defaults(), Answered{Remaining: 15 * time.Second})
	k.Step(5*s, Tick{})
	k.Effects(nil)
	k.Step(8*s, Failed{})
	if k.AdmitUntil() != 10*s {
		t.Errorf("a failure moved the admission deadline to %v", k.AdmitUntil())
	}
	if at, armed := k.NextDeadline(); !armed || at != 8*s+s/2 {
		t.Fatalf("retry at %v %v", at, armed)
	}
	k.Step(20*s, Tick{})
	if e := k.Effects(nil); len(e) != 1 || e[0] != Renew {
		t.Fatalf("an expired lease is still renewed; effects %v", e)
	}
	k.Step(21*s, Answered{SentAt: 20 * s, Remaining: 15 * time.Second})
	if k.AdmitUntil() != 30*s {
		t.Errorf("admit until %v after recovery", k.AdmitUntil())
	}
}

func TestALateAnswerNeverShortensAdmission(t *testing.T) {
	k := New(defaults(), Answered{Remaining: 15 * time.Second})
	k.Step(6*s, Answered{SentAt: 5 * s, Remaining: 15 * time.Second})
	k.Step(7*s, Answered{SentAt: 2 * s, Remaining: 15 * time.Second})
	if k.AdmitUntil() != 15*s {
		t.Errorf("admit until %v", k.AdmitUntil())
	}
}

func TestASupersededLeaseIsOverForGood(t *testing.T) {
	k := New(defaults(), Answered{Remaining: 15 * time.Second})
	k.Step(5*s, Tick{})
	k.Effects(nil)
	k.Step(6*s, Superseded{})
	if e := k.Effects(nil); len(e) != 1 || e[0] != Lost {
		t.Fatalf("effects %v, want Lost", e)
	}
	k.Step(7*s, Answered{SentAt: 6 * s, Remaining: 15 * time.Second})
	k.Step(60*s, Tick{})
	if e := k.Effects(nil); len(e) != 0 || k.AdmitUntil() != 0 {
		t.Errorf("acts on: effects %v, admit until %v", e, k.AdmitUntil())
	}
	if _, armed := k.NextDeadline(); armed {
		t.Error("a lost lease still has a deadline")
	}
}

func TestTheHoldIsNoShorterThanTheLease(t *testing.T) {
	c := defaults()
	if c.Hold != 20*time.Second {
		t.Errorf("default %v", c.Hold)
	}
	for hold, good := range map[time.Duration]bool{-1: true, 15 * time.Second: true, 15*time.Second - 1: false} {
		c.Hold = hold
		err := c.Validate()
		if (err == nil) != good {
			t.Errorf("hold %v: %v", hold, err)
		}
		if err != nil && (!strings.Contains(err.Error(), hold.String()) || !strings.Contains(err.Error(), "15s")) {
			t.Errorf("%q does not name the figures", err)
		}
	}
}

// The new epoch began after the renewal before was sent, however late this one tells of
// it; 20 s after that, what it lost can be created elsewhere.
func TestANewEpochCapsAdmissionUntilAllIsWrittenAgain(t *testing.T) {
	k := New(defaults(), Answered{SentAt: 100 * s, Remaining: 15 * time.Second, Epoch: 1})
	renewed := func(at clock.Mono, epoch uint64) {
		k.Step(at, Answered{SentAt: at, Remaining: 15 * time.Second, Epoch: epoch})
	}
	renewed(105*s, 1)
	k.Effects(nil)
	renewed(114*s, 2)
	if e := k.Effects(nil); len(e) != 1 || e[0] != Reassert || k.Epoch() != 2 {
		t.Fatalf("effects %v in epoch %d, want one Reassert in 2", e, k.Epoch())
	}
	renewed(117*s, 2)
	if k.AdmitUntil() != 120*s || k.LeasedUntil() != 127*s {
		t.Errorf("admit until %v, want 105 s + hold - margin; leased until %v", k.AdmitUntil(), k.LeasedUntil())
	}
	k.Step(118*s, Reasserted{Epoch: 1})
	if k.AdmitUntil() != 120*s {
		t.Errorf("the round of another epoch moved the cap to %v", k.AdmitUntil())
	}
	k.Step(118*s, Reasserted{Epoch: 2})
	if k.AdmitUntil() != 127*s {
		t.Errorf("with all written again, admit until %v", k.AdmitUntil())
	}
}

// Rows that were not written in the epoch between are as old as in the first.
func TestALaterEpochMovesNoCapThatStands(t *testing.T) {
	k := New(defaults(), Answered{SentAt: 100 * s, Remaining: 15 * time.Second, Epoch: 1})
	for i := clock.Mono(1); i <= 2; i++ {
		k.Step((100+4*i)*s, Answered{SentAt: (100 + 4*i) * s, Remaining: 15 * time.Second, Epoch: uint64(1 + i)})
	}
	if k.AdmitUntil() != 115*s {
		t.Errorf("admit until %v; the second epoch began after 100 s", k.AdmitUntil())
	}
}

func TestWhoMightNotActInANewEpochActsOnlyWhenAllIsWrittenAgain(t *testing.T) {
	for _, hold := range []time.Duration{20 * time.Second, -1} {
		c := defaults()
		c.Hold = hold
		k := New(c, Answered{SentAt: 100 * s, Remaining: 15 * time.Second, Epoch: 1})
		// It was sent in time; the process stood still before it took the answer.
		k.Step(110*s, Answered{SentAt: 109 * s, Remaining: 15 * time.Second, Epoch: 2})
		k.Step(111*s, Answered{SentAt: 111 * s, Remaining: 15 * time.Second, Epoch: 2})
		if k.AdmitUntil() != 0 {
			t.Errorf("hold %v: admit until %v", hold, k.AdmitUntil())
		}
		k.Step(112*s, Reasserted{Epoch: 2})
		if k.AdmitUntil() != 121*s {
			t.Errorf("hold %v: with all written again, admit until %v", hold, k.AdmitUntil())
		}
	}
}

func TestWithoutAHoldNothingCapsAdmission(t *testing.T) {
	c := defaults()
	c.Hold = -1
	k := New(c, Answered{SentAt: 100 * s, Remaining: 15 * time.Second, Epoch: 1})
	k.Step(105*s, Answered{SentAt: 105 * s, Remaining: 15 * time.Second, Epoch: 2})
	if k.AdmitUntil() != 115*s {
		t.Errorf("admit until %v", k.AdmitUntil())
	}
}
