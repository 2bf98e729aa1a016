//go:build !race

package session_test

import (
	"bytes"
	"testing"

	"github.com/zlnode/zlnode/session"
)

func TestCompressingAPayloadAllocatesNothing(t *testing.T) {
	plain := bytes.Repeat([]byte("position 12, 17; "), 200)
	dst := make([]byte, len(plain))
	if n := testing.AllocsPerRun(100, func() {
		if _, pays := session.CompressPayload(dst, plain); !pays {
			t.Error("it does not pay")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
