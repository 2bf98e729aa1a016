package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// target is one fuzz target.
type target struct {
	pkg  string // import path
	dir  string // absolute
	name string // of the function
}

func (t target) String() string { return t.pkg + "\t" + t.name }

// listed is what we want to know of a package, as `go list -json` says it.
type listed struct {
	ImportPath, Dir           string
	TestGoFiles, XTestGoFiles []string
}

// find returns the fuzz targets of packages in order of package and file.
func find(ctx context.Context, tags string, packages []string) ([]target, error) {
	args := []string{"list", "-tags=" + tags, "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles"}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	answer, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &stderr)
	}
	var out []target
	for dec := json.NewDecoder(bytes.NewReader(answer)); ; {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("answer of go list: %w", err)
		}
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			path := filepath.Join(p.Dir, name)
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("fuzz targets of %s: %w", p.ImportPath, err)
			}
			for _, f := range targetsOf(file) {
				out = append(out, target{pkg: p.ImportPath, dir: p.Dir, name: f})
			}
		}
	}
}

// targetsOf returns the names of the fuzz targets in file: functions
// FuzzX(f *testing.F), as go test knows them.
func targetsOf(file *ast.File) []string {
	var names []string
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") && takesF(f.Type) {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

// takesF reports whether the only parameter is a *testing.F, whatever the file
// calls that package.
func takesF(t *ast.FuncType) bool {
	if t.TypeParams != nil || len(t.Params.List) != 1 || len(t.Params.List[0].Names) > 1 {
		return false
	}
	pointer, ok := t.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := pointer.X.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "F"
}
