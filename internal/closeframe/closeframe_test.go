package closeframe

import (
	"testing"

	"github.com/gobwas/ws"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// RFC 6455, section 7.4, and the registry of statuses that it began.
func TestAStatusIsTakenIfAPeerMaySayIt(t *testing.T) {
	for code := range 1 << 16 {
		may := code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006 || code >= 3000 && code <= 4999
		status, text, err := Read(ws.NewCloseFrameBody(ws.StatusCode(code), "why"))
		if (err == nil) != may || err == nil && (int(status) != code || text != "why") {
			t.Errorf("status %d: %d %q, %v", code, status, text, err)
		}
	}
}

func TestAStatusMayBeMissingAndMustNotBeCut(t *testing.T) {
	if status, text, err := Read(nil); status != ws.StatusNoStatusRcvd || text != "" || err != nil {
		t.Errorf("nothing: %d %q, %v", status, text, err)
	}
	if status, _, err := Read([]byte{3}); err == nil {
		t.Errorf("one byte: %d", status)
	}
}

func TestATextMustBeOne(t *testing.T) {
	for _, status := range []ws.StatusCode{ws.StatusNormalClosure, tryAgainLater, 4000} {
		if _, text, err := Read(ws.NewCloseFrameBody(status, "\xff")); err == nil {
			t.Errorf("status %d: %q", status, text)
		}
	}
}
