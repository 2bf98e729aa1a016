package lawtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// orderComment allows a range over a map when it stands on the line of the for.
const orderComment = "// order does not matter"

// MapOrderStaysInside finds loops of cores that go over a map: the order would
// differ between two runs of one history. Sort the keys first, or, where no
// order can reach an effect, say so with orderComment.
//
// The imports of cores are taken from compiled packages, which exports finds.
func MapOrderStaysInside(t Tree, exports func(pkg string) (io.ReadCloser, error)) []Violation {
	var out []Violation
	packages := make(map[string][]parsed) // by folder and package name
	fset := token.NewFileSet()
	for _, f := range t.with(".go") {
		if !isCore(f) {
			continue
		}
		p, bad, ok := parse(fset, f)
		if !ok {
			out = append(out, bad)
			continue
		}
		key := f.Dir() + " " + p.ast.Name.Name
		packages[key] = append(packages[key], p)
	}
	imp := importer.ForCompiler(fset, "gc", exports)
	for _, files := range packages {
		out = append(out, mapLoops(fset, imp, files)...)
	}
	slices.SortFunc(out, func(a, b Violation) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// mapLoops checks the files of one package.
func mapLoops(fset *token.FileSet, imp types.Importer, files []parsed) []Violation {
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}
	conf := types.Config{
		Importer: imp,
		// What does not compile is the compiler's to report. Types that are known
		// all the same are still checked.
		Error: func(error) {},
	}
	var syntax []*ast.File
	for _, p := range files {
		syntax = append(syntax, p.ast)
	}
	_, _ = conf.Check(files[0].Dir(), fset, syntax, info)

	var out []Violation
	for _, p := range files {
		allowed := commentedLines(p, orderComment)
		imports := p.imports()
		ast.Inspect(p.ast, func(n ast.Node) bool {
			loop, ok := n.(*ast.RangeStmt)
			if !ok || allowed[p.line(loop.Pos())] {
				return true
			}
			if overMap(info.TypeOf(loop.X)) || overIterator(imports, loop.X) {
				out = append(out, p.at(loop.Pos(),
					"range over a map in a core: its order differs from run to run; sort the keys, or write %q if no order can show", orderComment))
			}
			return true
		})
	}
	return out
}

func overMap(t types.Type) bool {
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// overIterator reports whether x is maps.All, maps.Keys or maps.Values of
// something; inside slices.Sorted and its like they are no loop.
func overIterator(imports map[string]string, x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	pkg, name := selected(imports, call.Fun)
	return pkg == "maps" && slices.Contains([]string{"All", "Keys", "Values"}, name)
}

// commentedLines returns the lines of p that carry the comment text.
func commentedLines(p parsed, text string) map[int]bool {
	lines := make(map[int]bool)
	for _, group := range p.ast.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, text) {
				lines[p.line(c.Pos())] = true
			}
		}
	}
	return lines
}

// CompiledImports asks the go command to compile what the cores import and
// returns where the results are. dir is the root of the repository.
func CompiledImports(dir string) (func(pkg string) (io.ReadCloser, error), error) {
	args := []string{"list", "-e", "-export", "-deps", "-json=ImportPath,Export"}
	for _, core := range cores {
		if _, err := os.Stat(dir + "/" + core); err == nil {
			args = append(args, "./"+core+"/...")
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	answer, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("lawtest: go list of the cores: %w\n%s", err, &stderr)
	}
	files := make(map[string]string)
	for dec := json.NewDecoder(bytes.NewReader(answer)); ; {
		var pkg struct{ ImportPath, Export string }
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("lawtest: answer of go list: %w", err)
		}
		files[pkg.ImportPath] = pkg.Export
	}
	return func(pkg string) (io.ReadCloser, error) {
		file := files[pkg]
		if file == "" {
			return nil, fmt.Errorf("lawtest: %s was not compiled", pkg)
		}
		return os.Open(file)
	}, nil
}
