//go:build failpoints

package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const childVariable = "ZLNODE_TEST_FAILPOINT"

// TestMain is the process that a test has killed, if it was started as one.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		Hit("x")
		Hit("x")
		os.Exit(3)
	}
	goleak.VerifyTestMain(m)
}

func TestAFailpointActsAtItsNthHitAndOnlyThere(t *testing.T) {
	if err := Arm("a@2=drop;b=sleep:1ms"); err != nil {
		t.Fatal(err)
	}
	if err := Arm("c=panic"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, false} {
		if got := Hit("a"); got != want {
			t.Errorf("hit %d: drop is %v", i+1, got)
		}
	}
	from := time.Now()
	if Hit("b") || time.Since(from) < time.Millisecond {
		t.Error("b did not sleep, or dropped")
	}
	if Hit("d") {
		t.Error("a place that nobody armed acts")
	}
	defer func() {
		if v := recover(); v != "failpoint c" {
			t.Errorf("recovered %v", v)
		}
	}()
	Hit("c")
	t.Error("c did not panic")
}

func TestAProcessEndsAtItsFailpoint(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVariable+"=1", variable+"=x@2=exit")
	out, err := cmd.Output()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", err)
	}
	if string(out) != "failpoint x\n" {
		t.Errorf("it said %q", out)
	}
}

func TestSpecificationsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, spec := range []string{"", "a", "a=", "=exit", "a=leave", "a@0=exit", "a@x=exit", "a=sleep", "a=sleep:x", "a=exit:1s", "a=exit;"} {
		if err := Arm(spec); err == nil || !strings.Contains(err.Error(), "name[@nth]") {
			t.Errorf("%q: %v", spec, err)
		}
	}
}
