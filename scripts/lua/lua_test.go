package lua

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zlnode/zlnode/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryFunctionIsInAScriptThatNamesIt(t *testing.T) {
	var all strings.Builder
	for _, s := range All() {
		all.WriteString(s.Source)
		for _, m := range function.FindAllStringSubmatch(s.Source, -1) {
			if strings.Count(s.Source, m[1]+"(") < 2 {
				t.Errorf("%s has the function %s and does not name it", s.Name, m[1])
			}
		}
	}
	parts, err := fs.Glob(files, "part/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range parts {
		for _, m := range function.FindAllStringSubmatch(string(read(path)), -1) {
			if !strings.Contains(all.String(), m[0]) {
				t.Errorf("%s of %s is in no script", m[1], path)
			}
		}
	}
}

func TestScriptsDifferInNameAndSHA(t *testing.T) {
	seen := map[string]string{}
	for _, s := range All() {
		for _, word := range []string{s.Name, s.SHA} {
			if other := seen[word]; other != "" {
				t.Errorf("%s and %s share %s", s.Name, other, word)
			}
			seen[word] = s.Name
		}
	}
}

// TestFilesKeepTheirForm: what a reader may rely on in every operation's file.
func TestFilesKeepTheirForm(t *testing.T) {
	writers := writersOf(t)
	answered := regexp.MustCompile(`(?:answer|answer_row|outcome)\('(\w+)'|'(\w+)' (?:or|and) '(\w+)'|return '([A-Z]\w+)'`)
	for _, s := range All() {
		file := string(read(s.Name + ".lua"))
		for _, word := range []string{"-- KEYS:", "-- ARGV:", "-- Returns:", "-- Invariant:", "-- Idempotency key:"} {
			if !strings.Contains(file, word) {
				t.Errorf("%s does not say its %s", s.Name, word)
			}
		}
		for _, word := range []string{"error_reply", "error(", "pcall", "tostring"} {
			if strings.Contains(file, word) {
				t.Errorf("%s has %s", s.Name, word)
			}
		}
		// The last answer of a check stands above the first write.
		wrote := ""
		for _, line := range strings.Split(file, "\n") {
			if what := writes(line, writers); what != "" && wrote == "" {
				wrote = what
			}
			if wrote != "" && strings.Contains(line, "return ") && !strings.Contains(line, "('Applied'") && line != "return applied" {
				t.Errorf("%s answers %q behind its first %s", s.Name, strings.TrimSpace(line), wrote)
			}
		}
		for _, m := range answered.FindAllStringSubmatch(s.Source, -1) {
			for _, word := range m[1:] {
				if word == "" || word == "EpochUnnoted" || word[0] < 'A' || word[0] > 'Z' {
					continue // not an answer's reason, or the one that only the caller sees
				}
				if _, known := store.ParseReason(word); !known {
					t.Errorf("%s answers %q, which is no reason", s.Name, word)
				}
			}
		}
	}
}

var (
	readers  = regexp.MustCompile(`^(GET|HGET|HMGET|HGETALL|HEXISTS|EXISTS|ZCARD|ZRANGEBYLEX|ZRANGEBYSCORE|TIME|INFO)$`)
	commands = regexp.MustCompile(`redis\.call\('([A-Z]+)'`)
	calls    = regexp.MustCompile(`(\w+)\(`)
	function = regexp.MustCompile(`(?m)^local function (\w+)\(.*\n((?:  .*\n|\n)*)end`)
)

// writes returns what in the line writes: a command, or one of the functions.
func writes(line string, writers map[string]bool) string {
	for _, m := range commands.FindAllStringSubmatch(line, -1) {
		if !readers.MatchString(m[1]) {
			return m[1]
		}
	}
	for _, m := range calls.FindAllStringSubmatch(line, -1) {
		if writers[m[1]] {
			return m[1]
		}
	}
	return ""
}

// writersOf returns the shared functions that write.
func writersOf(t *testing.T) map[string]bool {
	t.Helper()
	parts, err := fs.Glob(files, "part/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{}
	for _, path := range parts {
		for _, m := range function.FindAllStringSubmatch(string(read(path)), -1) {
			bodies[m[1]] = m[2]
		}
	}
	writers := map[string]bool{}
	for known := -1; known < len(writers); { // until no more call one of them
		known = len(writers)
		for name, body := range bodies {
			for _, line := range strings.Split(body, "\n") {
				if writes(line, writers) != "" {
					writers[name] = true
				}
			}
		}
	}
	for _, name := range []string{"issue", "save", "rebase", "tell_change", "drop_node"} {
		if !writers[name] {
			t.Fatalf("%s writes, and is not among the functions that do: %v", name, writers)
		}
	}
	return writers
}

func TestMissingFilePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("load of a file that is not there did not panic")
		}
	}()
	load("nowhere")
}
