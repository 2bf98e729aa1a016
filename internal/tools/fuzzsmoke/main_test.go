package main

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTargetsAreFoundByTheirForm(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "a_test.go", `package a

import (
	"testing"
	tst "testing"
)

func FuzzOne(f *testing.F) {}
func FuzzTwo(f *tst.F) {}
func FuzzNothing(t *testing.T) {}
func FuzzMore(f *testing.F, n int) {}
func FuzzPair(f, g *testing.F) {}
func FuzzNone() {}
func helperFuzz(f *testing.F) {}
func (s) FuzzMethod(f *testing.F) {}
func FuzzValue(f testing.F) {}

type s struct{}
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(targetsOf(file), " "); got != "FuzzOne FuzzTwo" {
		t.Errorf("found %s", got)
	}
}

func TestTimeIsSharedWithinBothBounds(t *testing.T) {
	for _, c := range []struct {
		each, total time.Duration
		n           int
		want        time.Duration
	}{
		{5 * time.Second, 150 * time.Second, 1, 5 * time.Second},
		{5 * time.Second, 150 * time.Second, 50, 3 * time.Second},
		{5 * time.Second, 150 * time.Second, 1000, time.Second},
	} {
		if got := share(c.each, c.total, c.n); got != c.want {
			t.Errorf("share(%v, %v, %d) = %v, want %v", c.each, c.total, c.n, got, c.want)
		}
	}
}

func TestTheFuzzersOwnDeadlineIsToldFromAFailure(t *testing.T) {
	const deadline = "--- FAIL: FuzzA (3.00s)\n    context deadline exceeded\nFAIL\n"
	if !onlyDeadline([]byte(deadline)) {
		t.Error("the deadline alone is taken for a failure")
	}
	for _, failure := range []string{
		"--- FAIL: FuzzA (3.00s)\n    a_test.go:3: wrong\nFAIL\n",
		"--- FAIL: FuzzA (3.00s)\n    a_test.go:3: context deadline exceeded\nFAIL\n",
		deadline + "    Failing input written to testdata/fuzz/FuzzA/1\n",
	} {
		if onlyDeadline([]byte(failure)) {
			t.Errorf("a failure is taken for the deadline:\n%s", failure)
		}
	}
}

// module writes a module with one test file, makes it the working folder and
// keeps the fuzzer's cache in a folder of its own.
func module(t *testing.T, test string) config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module sample\n\ngo 1.26\n", "a_test.go": test} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	return config{each: leastTime, total: leastTime, packages: []string{"./..."}}
}

func TestEveryTargetIsRunAndAFailingInputFailsTheRun(t *testing.T) {
	c := module(t, `package sample

import "testing"

func FuzzGood(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {})
}

func FuzzBad(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, b []byte) { if len(b) > 0 { t.Error("seven") } })
}
`)
	var out strings.Builder
	err := run(t.Context(), c, &out)
	if err == nil || !strings.Contains(err.Error(), "FuzzBad") || strings.Contains(err.Error(), "FuzzGood") {
		t.Errorf("error: %v", err)
	}
	for _, want := range []string{"2 targets, 1s each", "ok  \tsample\tFuzzGood\t", "FAIL\tsample\tFuzzBad\t", "seven", "fuzz-smoke: 1 passed, 1 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
}

func TestAModuleWithoutTargetsPasses(t *testing.T) {
	c := module(t, "package sample\n")
	var out strings.Builder
	if err := run(t.Context(), c, &out); err != nil || !strings.Contains(out.String(), "no fuzz targets") {
		t.Errorf("error %v, printed %q", err, &out)
	}
}

func TestCodeThatDoesNotCompileIsAnError(t *testing.T) {
	c := module(t, "package sample\n\nimport \"testing\"\n\nfunc FuzzA(f *testing.F) { undefined() }\n")
	if err := run(t.Context(), c, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "undefined") {
		t.Errorf("error: %v", err)
	}
}

func TestAnInterruptedRunIsAnError(t *testing.T) {
	c := module(t, "package sample\n\nimport \"testing\"\n\nfunc FuzzA(f *testing.F) { f.Fuzz(func(t *testing.T, n int) {}) }\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt"))
	if err := run(ctx, c, &strings.Builder{}); err == nil {
		t.Error("no error")
	}
}
