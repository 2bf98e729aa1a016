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
	k := New(defaults(), 100*s, 15*time.Second)
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
	k := New(defaults(), 0, 15*time.Second)
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
	k := New(defaults(), 0, 15*time.Second)
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
	k := New(defaults(), 0, 15*time.Second)
	k.Step(6*s, Answered{SentAt: 5 * s, Remaining: 15 * time.Second})
	k.Step(7*s, Answered{SentAt: 2 * s, Remaining: 15 * time.Second})
	if k.AdmitUntil() != 15*s {
		t.Errorf("admit until %v", k.AdmitUntil())
	}
}

func TestASupersededLeaseIsOverForGood(t *testing.T) {
	k := New(defaults(), 0, 15*time.Second)
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
