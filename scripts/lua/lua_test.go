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

func TestEveryFileIsUsed(t *testing.T) {
	used := map[string]bool{}
	var all strings.Builder
	for _, s := range All() {
		used[s.Name+".lua"] = true
		all.WriteString(s.Source)
	}
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !used[path] && !strings.Contains(all.String(), string(read(path))) {
			t.Errorf("%s is in no script", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
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
	reads := regexp.MustCompile(`^(GET|HGET|HMGET|HGETALL|HEXISTS|EXISTS|ZCARD|ZRANGEBYLEX|ZRANGEBYSCORE|TIME|INFO)$`)
	call := regexp.MustCompile(`redis\.call\('([A-Z]+)'`)
	answered := regexp.MustCompile(`(?:answer|answer_row|outcome)\('(\w+)'|'(\w+)' (?:or|and) '(\w+)'|return '([A-Z]\w+)'`)
	for _, s := range All() {
		file := string(read(s.Name + ".lua"))
		lines := strings.Count(file, "\n")
		if lines > 80 {
			t.Errorf("%s has %d lines; want at most 80", s.Name, lines)
		}
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
			for _, m := range call.FindAllStringSubmatch(line, -1) {
				if !reads.MatchString(m[1]) && wrote == "" {
					wrote = m[1]
				}
			}
			if wrote != "" && strings.Contains(line, "return ") && !strings.Contains(line, "('Applied'") {
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

func TestMissingFilePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("load of a file that is not there did not panic")
		}
	}()
	load("nowhere")
}
