package session_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/zlnode/zlnode/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reasonOf returns the reason of a *DecodeError, 0 for any other result.
func reasonOf(err error) session.Reason {
	if e, ok := errors.AsType[*session.DecodeError](err); ok {
		return e.Reason
	}
	return 0
}
