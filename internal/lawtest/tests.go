package lawtest

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// leakFree are the packages whose tests need no search for leaked goroutines,
// each with the reason.
var leakFree = map[string]string{
	"internal/balance":   "a core; starts no goroutine",
	"internal/buf":       "starts no goroutine",
	"internal/clock":     "starts no goroutine",
	"internal/cmap":      "its tests wait for each goroutine they start",
	"internal/creation":  "a core; starts no goroutine",
	"internal/errkind":   "starts no goroutine",
	"internal/flow":      "starts no goroutine",
	"internal/invariant": "starts no goroutine",
	"internal/lawtest":   "starts no goroutine",
	"internal/lease":     "a core; starts no goroutine",
	"internal/mpsc":      "its tests wait for each goroutine they start",
	"internal/sparse":    "its tests wait for each goroutine they start",
	"internal/topic":     "its tests wait for each goroutine they start",
}

// TestsFindLeaks finds packages with tests that do not look for goroutines
// that outlive them.
func TestsFindLeaks(t Tree) []Violation {
	type findings struct{ tests, main, goleak bool }
	packages := make(map[string]*findings)
	out := t.eachGo(File.IsTest, func(p parsed) []Violation {
		found := packages[p.Dir()]
		if found == nil {
			found = new(findings)
			packages[p.Dir()] = found
		}
		imports := p.imports()
		ast.Inspect(p.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				switch name := n.Name.Name; {
				case n.Recv != nil:
				case name == "TestMain":
					found.main = true
				case strings.HasPrefix(name, "Test"):
					found.tests = true
				}
			case *ast.SelectorExpr:
				if pkg, _ := selected(imports, n); pkg == "go.uber.org/goleak" {
					found.goleak = true
				}
			}
			return true
		})
		return nil
	})
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		found := packages[dir]
		if found.tests && !(found.main && found.goleak) && leakFree[dir] == "" {
			out = append(out, Violation{Path: dir, Text: "has tests and no TestMain that looks for leaked goroutines: call goleak.VerifyTestMain in one"})
		}
	}
	return out
}

// TestsDoNotSleep finds tests that let time pass and hope.
func TestsDoNotSleep(t Tree) []Violation {
	return t.eachGo(File.IsTest, func(p parsed) []Violation {
		var out []Violation
		imports := p.imports()
		ast.Inspect(p.ast, func(n ast.Node) bool {
			if pkg, name := selected(imports, n); pkg == "time" && name == "Sleep" {
				out = append(out, p.at(n.Pos(), "a test sleeps: wait for the event that it is about"))
			}
			return true
		})
		return out
	})
}
