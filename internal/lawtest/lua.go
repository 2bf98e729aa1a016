package lawtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// luaDir holds the Location Store's scripts, one atomic operation each, and
// luaParts below it the functions that several of them share.
const (
	luaDir   = "scripts/lua/"
	luaParts = luaDir + "part/"
)

// luaUsers are the folders whose Go code loads scripts.
var luaUsers = []string{"scripts/lua", "store/redislua"}

// luaLinesMax is the longest script, in lines that are neither blank nor
// comment. A script stops the whole store while it runs, and a reader must see
// at once that all checks come before the first write.
const luaLinesMax = 80

// ScriptsAreExplained finds Lua scripts without a comment at their head that
// names KEYS, ARGV and Returns, shared parts without any, and files that are too
// long.
func ScriptsAreExplained(t Tree) []Violation {
	var out []Violation
	for _, f := range scripts(t) {
		header, code := splitLua(f.Text)
		if strings.HasPrefix(f.Path, luaParts) {
			if header == "" {
				out = append(out, Violation{Path: f.Path, Line: 1, Text: "no comment at its head says what it is about"})
			}
		} else {
			out = append(out, missingWords(f, header)...)
		}
		if code > luaLinesMax {
			out = append(out, Violation{Path: f.Path, Text: fmt.Sprintf("has %d lines of code, %d are allowed: part it by operation", code, luaLinesMax)})
		}
	}
	return out
}

func missingWords(f File, header string) []Violation {
	var out []Violation
	for _, word := range []string{"KEYS", "ARGV", "Returns"} {
		if !strings.Contains(header, word) {
			out = append(out, Violation{Path: f.Path, Line: 1, Text: "the comment at its head does not say " + word})
		}
	}
	return out
}

// ScriptsAreUsed finds Lua scripts whose name no Go code of luaUsers outside of
// tests mentions.
func ScriptsAreUsed(t Tree) []Violation {
	var code strings.Builder
	for _, f := range t.with(".go") {
		if !f.IsTest() && slices.Contains(luaUsers, f.Dir()) {
			code.WriteString(f.Text)
		}
	}
	var out []Violation
	for _, f := range scripts(t) {
		name := path.Base(f.Path)
		bare := strings.TrimSuffix(name, ".lua")
		if !strings.Contains(code.String(), `"`+bare+`"`) && !strings.Contains(code.String(), name+`"`) {
			out = append(out, Violation{Path: f.Path, Text: "is used by no Go code: delete it"})
		}
	}
	return out
}

func scripts(t Tree) Tree {
	var out Tree
	for _, f := range t.with(".lua") {
		if strings.HasPrefix(f.Path, luaDir) {
			out = append(out, f)
		}
	}
	return out
}

// splitLua returns the comment at the head of a script, and how many lines of
// the script are code.
func splitLua(text string) (header string, code int) {
	var head strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case !strings.HasPrefix(line, "--"):
			code++
		case code == 0:
			head.WriteString(line + "\n")
		}
	}
	return head.String(), code
}
