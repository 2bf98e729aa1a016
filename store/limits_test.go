package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReasonsReadBackAsWritten(t *testing.T) {
	for r := Applied; r <= Exhausted; r++ {
		if got, known := ParseReason(r.String()); !known || got != r || strings.Contains(r.String(), "(") {
			t.Errorf("reason %d is %q, which reads as %d, %v", r, r.String(), got, known)
		}
	}
	for _, word := range []string{"", "applied", "Reason(0)", "Reason(16)"} {
		if got, known := ParseReason(word); known {
			t.Errorf("%q reads as %v", word, got)
		}
	}
	if got := Reason(0).String(); got != "Reason(0)" {
		t.Errorf("the zero reason is %q", got)
	}
	if got := Reason(200).String(); got != "Reason(200)" {
		t.Errorf("an unknown reason is %q", got)
	}
}

func TestStatesAndResultsHaveNames(t *testing.T) {
	for got, want := range map[string]string{
		Creating.String(): "Creating", Ready.String(): "Ready", State(0).String(): "State(0)",
		Created.String(): "Created", Rejected.String(): "Rejected", Failed.String(): "Failed", Result(9).String(): "Result(9)",
	} {
		if got != want {
			t.Errorf("named %q; want %q", got, want)
		}
	}
}

func TestIDsAre255BytesOfUTF8(t *testing.T) {
	for id, ok := range map[string]bool{
		"": false, "a": true, "\x00": true, "é\n{}": true, "\xff": false,
		strings.Repeat("x", 255): true, strings.Repeat("x", 256): false, strings.Repeat("é", 127): true, strings.Repeat("é", 128): false,
	} {
		if err := CheckID("id", id); (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("CheckID(%.20q of %d bytes) = %v", id, len(id), err)
		}
	}
}

func TestNamesAre64HarmlessBytes(t *testing.T) {
	for name, ok := range map[string]bool{
		"": false, "node-a.B_9": true, "a:b": false, "a b": false, "a/b": false, "é": false, "a\x00": false, "{a}": false,
		strings.Repeat("x", 64): true, strings.Repeat("x", 65): false,
	} {
		if err := CheckName("RID", name); (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("CheckName(%.20q of %d bytes) = %v", name, len(name), err)
		}
	}
}

func TestGenerationsAreOneTo63Bits(t *testing.T) {
	for gen, ok := range map[uint64]bool{0: false, 1: true, GenMax: true, GenMax + 1: false, 1<<64 - 1: false} {
		if err := CheckGen("version", Version(gen)); (err == nil) != ok {
			t.Errorf("CheckGen(%d) = %v", gen, err)
		}
	}
}

func TestTTLsAreOneMillisecondToOneDay(t *testing.T) {
	for ttl, ok := range map[time.Duration]bool{
		0: false, -time.Second: false, time.Millisecond - 1: false, time.Millisecond: true, LeaseTTLMax: true, LeaseTTLMax + 1: false,
	} {
		if err := CheckTTL(ttl); (err == nil) != ok {
			t.Errorf("CheckTTL(%v) = %v", ttl, err)
		}
	}
}
