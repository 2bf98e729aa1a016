package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// eventMax is the longest line of `go test -json`, in bytes. Longer output of a
// test comes in several lines.
const eventMax = 1 << 20

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action     string
	Package    string
	Test       string // "" = the package itself
	Output     string
	ImportPath string // of a build event
}

// report turns the events of go test into the text that go test prints without
// -json: output of failed tests only (of all with -v), one line per package. It
// counts, and it remembers which tests were skipped.
type report struct {
	out     io.Writer
	verbose bool

	tests    map[testID]*capture // running tests
	packages map[string]*capture // what running packages printed outside of tests

	passed, failed int
	skips          []skip
	wanting        []testID // skipped for want of Redis
}

type testID struct{ pkg, test string }

func (id testID) String() string { return id.pkg + " " + id.test }

type skip struct {
	id     testID
	reason string
}

func newReport(out io.Writer, verbose bool) *report {
	return &report{
		out: out, verbose: verbose,
		tests:    make(map[testID]*capture),
		packages: make(map[string]*capture),
	}
}

// read takes all events from r. A line that is none is printed as it is.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, eventMax)
	for lines.Scan() {
		var e event
		if line := lines.Bytes(); len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil {
			r.print(string(line) + "\n")
			continue
		}
		r.take(e)
	}
	if err := lines.Err(); err != nil {
		_, drained := io.Copy(io.Discard, events) // or go test would wait for us
		return fmt.Errorf("events of go test: %w", errors.Join(err, drained))
	}
	return nil
}

func (r *report) take(e event) {
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.print(e.Output)
	case "output":
		if r.verbose {
			r.print(e.Output)
		}
		r.capture(id).add(e.Output) // also with -v: it says what a skip is for
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageEnds(e)
		} else {
			r.testEnds(id, e.Action)
		}
	}
}

// capture returns where the output of id goes.
func (r *report) capture(id testID) *capture {
	if id.test == "" {
		return captureOf(r.packages, id.pkg)
	}
	return captureOf(r.tests, id)
}

func captureOf[K comparable](m map[K]*capture, key K) *capture {
	c := m[key]
	if c == nil {
		c = new(capture)
		m[key] = c
	}
	return c
}

func (r *report) testEnds(id testID, action string) {
	output := r.tests[id].parts()
	delete(r.tests, id)
	switch action {
	case "pass":
		r.passed++
		if strings.HasPrefix(id.test, "Benchmark") {
			r.printTest(output) // a benchmark's figures are its result
		}
	case "fail":
		r.failed++
		r.printTest(output)
	case "skip":
		r.skips = append(r.skips, skip{id, reason(output)})
		if slices.ContainsFunc(output, func(s string) bool { return strings.Contains(s, variable) }) {
			r.wanting = append(r.wanting, id)
		}
	}
}

// printTest prints what a test printed as go test without -v does: the verdict
// first, then the rest without the marks of its progress.
func (r *report) printTest(output []string) {
	if r.verbose {
		return // printed as it came
	}
	var rest []string
	for _, s := range output {
		switch line := strings.TrimLeft(s, " "); {
		case strings.HasPrefix(line, "=== "):
		case strings.HasPrefix(line, "--- "):
			r.print(s)
		default:
			rest = append(rest, s)
		}
	}
	r.print(strings.Join(rest, ""))
}

// packageEnds prints the line of a package and, if it failed, what it printed.
// Tests that were running then have no end of their own: one of them crashed or
// hung.
func (r *report) packageEnds(e event) {
	if e.Action == "fail" {
		for _, id := range slices.SortedFunc(maps.Keys(r.tests), byName) {
			if id.pkg == e.Package {
				r.testEnds(id, "fail")
			}
		}
	}
	for _, s := range r.packages[e.Package].parts() {
		if !r.verbose && (e.Action == "fail" || hasVerdict(s)) {
			r.print(s)
		}
	}
	delete(r.packages, e.Package)
}

func byName(a, b testID) int { return strings.Compare(a.String(), b.String()) }

// hasVerdict reports whether s is the line about a package that go test prints
// even if all is well.
func hasVerdict(s string) bool {
	return strings.HasPrefix(s, "ok  \t") || strings.HasPrefix(s, "?   \t") || strings.HasPrefix(s, "\t")
}

// reason returns what a skipped test said, on one line.
func reason(output []string) string {
	var said []string
	for _, s := range output {
		line := strings.TrimSpace(s)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

// summary prints what was skipped and the count.
func (r *report) summary() {
	for _, s := range r.skips {
		r.print(fmt.Sprintf("skipped: %s: %s\n", s.id, s.reason))
	}
	for _, id := range r.wanting {
		r.print(fmt.Sprintf("FAIL: %s was skipped for want of %s, which is set: it must use that server\n", id, variable))
	}
	if n := r.passed + r.failed + len(r.skips); n > 0 {
		r.print(fmt.Sprintf("tests: %d passed, %d failed, %d skipped\n", r.passed, r.failed, len(r.skips)))
	}
}

func (r *report) print(s string) {
	// An error here means that nobody reads; the exit code still tells.
	_, _ = io.WriteString(r.out, s)
}
