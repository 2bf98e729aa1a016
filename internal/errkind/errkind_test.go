package errkind_test

import (
	"testing"

	"github.com/zlnode/zlnode/internal/errkind"
)

// The numbers, names and codes are a wire contract: this list is written out by
// hand so that a change of the table shows.
func TestNumbersNamesAndCodesAreTheWireContract(t *testing.T) {
	want := []struct{ name, code string }{
		{"NotFound", "not_found"},
		{"AlreadyExists", "already_exists"},
		{"TypeMismatch", "type_mismatch"},
		{"NotConfigured", "not_configured"},
		{"Rejected", "rejected"},
		{"Unavailable", "unavailable"},
		{"CapacityExceeded", "capacity_exceeded"},
		{"DeadlineExceeded", "deadline_exceeded"},
		{"ShuttingDown", "shutting_down"},
		{"ProtocolError", "protocol_error"},
		{"InvalidOperation", "invalid_operation"},
		{"DataLost", "data_lost"},
		{"InternalFailure", "internal_failure"},
	}
	if len(want) != errkind.Count {
		t.Fatalf("Count = %d, want %d", errkind.Count, len(want))
	}
	for n, w := range want {
		k := errkind.Kind(n)
		if !k.Valid() || k.String() != w.name || k.Code() != w.code {
			t.Errorf("kind %d = %s %q valid=%v, want %s %q", n, k, k.Code(), k.Valid(), w.name, w.code)
		}
		if got, ok := errkind.ParseCode(w.code); !ok || got != k {
			t.Errorf("ParseCode(%q) = %s, %v; want %s", w.code, got, ok, k)
		}
	}
}

func TestANumberOutsideTheTableIsShownAndNeverReachesAClient(t *testing.T) {
	k := errkind.Kind(errkind.Count)
	if k.Valid() {
		t.Errorf("kind %d is valid", uint8(k))
	}
	if got := k.String(); got != "Kind(13)" {
		t.Errorf("String() = %q", got)
	}
	if got := k.Code(); got != "internal_failure" {
		t.Errorf("Code() = %q", got)
	}
}

func TestAnUnknownCodeIsRefused(t *testing.T) {
	for _, code := range []string{"", "NotFound", "not_found ", "teapot"} {
		if k, ok := errkind.ParseCode(code); ok {
			t.Errorf("ParseCode(%q) = %s", code, k)
		}
	}
}
