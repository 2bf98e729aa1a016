package engine

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestCloseCodesHaveDistinctNames(t *testing.T) {
	seen := map[string]bool{}
	for c := range CloseCode(closeCodeCount) {
		if s := c.String(); s == "" || s == "Unknown" || seen[s] {
			t.Errorf("code %d has the name %q", c, s)
		}
		seen[c.String()] = true
	}
	if CloseCode(closeCodeCount).String() != "Unknown" {
		t.Error("a number outside of the set has a name")
	}
}

func TestReasonsOfInputErrors(t *testing.T) {
	cause := errors.New("boom")
	own := &CloseError{Reason: CloseReason{Code: Idle, Text: "x", Err: cause}}
	for _, c := range []struct {
		err  error
		want CloseCode
	}{
		{ErrFrameTooLarge, FrameTooLarge},
		{fmt.Errorf("%w: 9", ErrFrameTooLarge), FrameTooLarge},
		{cause, ProtocolError},
		{own, Idle},
		{fmt.Errorf("wrapped: %w", own), Idle},
	} {
		if got := inputReason(c.err); got.Code != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
	if !errors.Is(own, cause) {
		t.Error("a CloseError hides its cause")
	}
	if got := own.Reason.String(); got != "Idle: x: boom" {
		t.Errorf("reason prints %q", got)
	}
}

func TestReasonsOfTransportErrors(t *testing.T) {
	if got := transportReason(fmt.Errorf("read: %w", io.EOF)); got.Code != PeerClosed {
		t.Errorf("end of file: %v", got)
	}
	if got := transportReason(errors.New("reset")); got.Code != TransportError || got.Err == nil {
		t.Errorf("reset: %v", got)
	}
}
