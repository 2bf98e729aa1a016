package main

import (
	"fmt"
	"strings"
	"testing"
)

// printed feeds events to a report and returns what it printed, and the report.
func printed(t *testing.T, verbose bool, events ...string) (string, *report) {
	t.Helper()
	var out strings.Builder
	r := newReport(&out, verbose)
	if err := r.read(strings.NewReader(strings.Join(events, "\n") + "\n")); err != nil {
		t.Fatal(err)
	}
	return out.String(), r
}

func test(action, name, output string) string {
	return fmt.Sprintf(`{"Time":"2025-01-02T03:04:05Z","Action":%q,"Package":"p","Test":%q,"Output":%q}`, action, name, output)
}

func pkg(action, output string) string {
	return fmt.Sprintf(`{"Action":%q,"Package":"p","Output":%q}`, action, output)
}

func TestOutputOfPassingTestsIsNotPrinted(t *testing.T) {
	got, r := printed(t, false,
		`{"Action":"start","Package":"p"}`,
		test("run", "TestA", ""),
		test("output", "TestA", "=== RUN   TestA\n"),
		test("output", "TestA", "    a_test.go:7: chatter\n"),
		test("output", "TestA", "--- PASS: TestA (0.00s)\n"),
		test("pass", "TestA", ""),
		pkg("output", "PASS\n"),
		pkg("output", "ok  \tp\t0.01s\n"),
		pkg("pass", ""))
	if got != "ok  \tp\t0.01s\n" {
		t.Errorf("printed %q", got)
	}
	if r.passed != 1 || r.failed != 0 || len(r.tests) != 0 || len(r.packages) != 0 {
		t.Errorf("counted %d passed, %d failed; kept %d, %d", r.passed, r.failed, len(r.tests), len(r.packages))
	}
}

func TestOfAFailedTestTheVerdictComesFirst(t *testing.T) {
	got, r := printed(t, false,
		test("output", "TestA", "=== RUN   TestA\n"),
		test("output", "TestA", "=== PAUSE TestA\n"),
		test("output", "TestA", "    a_test.go:7: want 1\n"),
		test("output", "TestA", "--- FAIL: TestA (0.00s)\n"),
		test("fail", "TestA", ""),
		pkg("output", "-test.shuffle 99\n"),
		pkg("output", "FAIL\n"),
		pkg("output", "FAIL\tp\t0.01s\n"),
		pkg("fail", ""))
	want := "--- FAIL: TestA (0.00s)\n    a_test.go:7: want 1\n-test.shuffle 99\nFAIL\nFAIL\tp\t0.01s\n"
	if got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if r.failed != 1 {
		t.Errorf("counted %d failed", r.failed)
	}
}

func TestOfACrashEveryRunningTestIsShown(t *testing.T) {
	got, r := printed(t, false,
		test("output", "TestDone", "quiet\n"), test("pass", "TestDone", ""),
		test("output", "TestA", "before\n"),
		test("output", "TestB", "panic: boom\n"),
		pkg("output", "FAIL\tp\t0.01s\n"),
		pkg("fail", ""))
	if got != "before\npanic: boom\nFAIL\tp\t0.01s\n" {
		t.Errorf("printed %q", got)
	}
	if r.passed != 1 || r.failed != 2 {
		t.Errorf("counted %d passed, %d failed", r.passed, r.failed)
	}
}

func TestWithVEverythingIsPrintedOnceAsItComes(t *testing.T) {
	got, _ := printed(t, true,
		test("output", "TestA", "=== RUN   TestA\n"),
		test("output", "TestA", "--- FAIL: TestA (0.00s)\n"),
		test("fail", "TestA", ""),
		pkg("output", "FAIL\n"),
		pkg("fail", ""))
	if got != "=== RUN   TestA\n--- FAIL: TestA (0.00s)\nFAIL\n" {
		t.Errorf("printed %q", got)
	}
}

func TestSkipsForWantOfRedisAreToldFromOthers(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		_, r := printed(t, verbose,
			test("output", "TestA", "    a_test.go:3: needs a server: set ZLNODE_TEST"),
			test("output", "TestA", "_REDIS\n"),
			test("skip", "TestA", ""),
			test("output", "TestA/sub", "    a_test.go:3: set ZLNODE_TEST_REDIS\n"),
			test("skip", "TestA/sub", ""),
			test("output", "TestB", "    a_test.go:3: needs root\n"),
			test("output", "TestB", "--- SKIP: TestB (0.00s)\n"),
			test("skip", "TestB", ""),
			test("output", "TestC", "ZLNODE_TEST_REDIS=127.0.0.1:1\n"),
			test("pass", "TestC", ""))
		if fmt.Sprint(r.wanting) != "[p TestA/sub]" && fmt.Sprint(r.wanting) != "[p TestA p TestA/sub]" {
			t.Errorf("wanting: %v", r.wanting)
		}
		if len(r.skips) != 3 || r.skips[2].reason != "a_test.go:3: needs root" {
			t.Errorf("skips: %v", r.skips)
		}
	}
}

func TestTheSummaryNamesSkipsAndCounts(t *testing.T) {
	var out strings.Builder
	r := newReport(&out, false)
	r.passed, r.failed = 5, 1
	r.skips = []skip{{testID{"p", "TestA"}, "no server"}}
	r.wanting = []testID{{"p", "TestA"}}
	r.summary()
	for _, want := range []string{"skipped: p TestA: no server\n", "FAIL: p TestA was skipped for want of " + variable, "tests: 5 passed, 1 failed, 1 skipped\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
}

func TestBuildErrorsAndForeignLinesArePrinted(t *testing.T) {
	got, _ := printed(t, false,
		`{"ImportPath":"p","Action":"build-output","Output":"a.go:1:1: undefined: x\n"}`,
		`{"ImportPath":"p","Action":"build-fail"}`,
		`go: a note`,
		`{not json`)
	if got != "a.go:1:1: undefined: x\ngo: a note\n{not json\n" {
		t.Errorf("printed %q", got)
	}
}

func TestBenchmarkFiguresArePrinted(t *testing.T) {
	got, _ := printed(t, false,
		test("output", "BenchmarkA", "=== RUN   BenchmarkA\n"),
		test("output", "BenchmarkA", "BenchmarkA-2  \t 100\t 5 ns/op\n"),
		test("pass", "BenchmarkA", ""))
	if got != "BenchmarkA-2  \t 100\t 5 ns/op\n" {
		t.Errorf("printed %q", got)
	}
}

func TestALineThatIsTooLongIsAnErrorAndTheRestIsDrained(t *testing.T) {
	in := strings.NewReader(strings.Repeat("x", eventMax+1) + "\n" + strings.Repeat("y", 1<<20))
	if err := newReport(&strings.Builder{}, false).read(in); err == nil {
		t.Error("no error")
	}
	if in.Len() != 0 {
		t.Errorf("%d bytes unread: go test would block on them", in.Len())
	}
}

func TestACaptureKeepsBeginningAndEnd(t *testing.T) {
	var c capture
	line := strings.Repeat("x", 99) + "\n"
	c.add("first\n")
	for range 3 * 2 * captureMax / len(line) {
		c.add(line)
	}
	c.add("last\n")
	parts := c.parts()
	if parts[0] != "first\n" || parts[len(parts)-1] != "last\n" {
		t.Errorf("kept %q … %q", parts[0], parts[len(parts)-1])
	}
	if n := len(strings.Join(parts, "")); n > 2*captureMax+200 {
		t.Errorf("kept %d bytes", n)
	}
	if !strings.Contains(strings.Join(parts, ""), fmt.Sprintf("%d bytes of output left out", c.cut)) {
		t.Error("the cut is not told")
	}
}
