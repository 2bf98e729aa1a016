package lawtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// module is the import path of the repository's root.
const module = "github.com/zlnode/zlnode"

// lintRules is the file that repeats the list of cores for depguard.
const lintRules = ".golangci.yml"

// cores are the packages, each with all below it, that decide what the protocol
// does. A core is a value: events and the present time go in, effects come out.
// It runs the same under the real shell and under the simulator, so nothing in
// it may depend on the scheduler, the machine or the moment.
var cores = []string{
	"chunker",
	"internal/balance",
	"internal/creation",
	"internal/host",
	"internal/lease",
	"internal/link",
	"internal/timer/wheel",
	"internal/wire",
	"relay",
	"session",
}

// isCore reports whether f is code of a core. Tests of cores may do what they
// like.
func isCore(f File) bool {
	return !f.IsTest() && slices.ContainsFunc(cores, func(core string) bool {
		return strings.HasPrefix(f.Path, core+"/")
	})
}

// bannedImports are the packages of the standard library, each with all below
// it, that a core must not import.
var bannedImports = map[string]string{
	"context":     "a core takes deadlines as values",
	"crypto/rand": "a core gets randomness as input",
	"log":         "a core tells what happened through its effects",
	"math/rand":   "a core gets randomness as input",
	"net":         "a core does no I/O",
	"os":          "a core does no I/O and reads no environment",
	"runtime":     "a core does not know the scheduler",
	"sync":        "a core has one owner and takes no lock",
	"syscall":     "a core does no I/O",
}

// bannedNames are functions that a core must not use although it may import
// their package.
var bannedNames = map[string][]string{
	"time":                     {"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
	module + "/internal/clock": {"At", "Now"},
}

// mayUseAtomics reports whether f is the one exception to the ban on sync: the
// credit gate of a link, whose producers run on other goroutines.
func mayUseAtomics(f File) bool {
	name, ok := strings.CutPrefix(f.Path, "internal/link/")
	return ok && strings.HasPrefix(name, "credit")
}

// CoresArePure finds goroutines, channels, locks, I/O, clocks and random
// sources in cores.
func CoresArePure(t Tree) []Violation {
	return t.eachGo(isCore, func(p parsed) []Violation {
		out := badImports(p)
		imports := p.imports()
		ast.Inspect(p.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				out = append(out, p.at(n.Pos(), "a core starts no goroutine: make it an effect that the shell carries out"))
			case *ast.SelectStmt:
				out = append(out, p.at(n.Pos(), "a core waits for nothing: take an event in Step"))
			case *ast.ChanType:
				out = append(out, p.at(n.Pos(), "a core has no channels: take events in Step, hand out effects"))
			case *ast.SendStmt:
				out = append(out, p.at(n.Pos(), "a core sends on no channel: hand out an effect"))
			case *ast.UnaryExpr:
				if n.Op == token.ARROW {
					out = append(out, p.at(n.Pos(), "a core receives from no channel: take an event in Step"))
				}
			case *ast.SelectorExpr:
				if pkg, name := selected(imports, n); slices.Contains(bannedNames[pkg], name) {
					out = append(out, p.at(n.Pos(), "%s.%s in a core: time is an argument of Step", pkg, name))
				}
			}
			return true
		})
		return out
	})
}

func badImports(p parsed) []Violation {
	var out []Violation
	for _, spec := range p.ast.Imports {
		imported := importPath(spec)
		if imported == "sync/atomic" && mayUseAtomics(p.File) {
			continue
		}
		if importName(spec) == "." {
			out = append(out, p.at(spec.Pos(), "a core imports %s by dot, which hides what it uses", imported))
		}
		for banned, why := range bannedImports {
			if imported == banned || strings.HasPrefix(imported, banned+"/") {
				out = append(out, p.at(spec.Pos(), "import of %s in a core: %s", imported, why))
			}
		}
	}
	return out
}

// CoreListsAgree finds cores that the lint rules do not know, and the other way
// round.
func CoreListsAgree(t Tree) []Violation {
	i := slices.IndexFunc(t, func(f File) bool { return f.Path == lintRules })
	if i < 0 {
		return []Violation{{Path: lintRules, Text: "is missing: it holds the rules on imports"}}
	}
	rules := t[i].Text
	var out []Violation
	for _, core := range cores {
		if n := strings.Count(rules, "\"${base-path}/"+core+"/**.go\"\n"); n < 2 {
			out = append(out, Violation{Path: lintRules, Text: core + " is a core and must be listed under core-modules and core-atomics"})
		}
	}
	want := "path-except: ^(" + strings.Join(cores, "|") + ")/\n"
	if !strings.Contains(rules, want) {
		out = append(out, Violation{Path: lintRules, Text: "forbidigo must be limited to the cores by the line " + strings.TrimSpace(want)})
	}
	return out
}
