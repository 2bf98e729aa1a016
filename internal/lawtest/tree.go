package lawtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// A Violation is one place that breaks a law.
type Violation struct {
	Path string // relative to the root, with slashes
	Line int    // from 1; 0 = the file or folder as a whole
	Text string // what is wrong and what to do
}

// String gives the form that editors jump to.
func (v Violation) String() string {
	if v.Line == 0 {
		return v.Path + ": " + v.Text
	}
	return fmt.Sprintf("%s:%d: %s", v.Path, v.Line, v.Text)
}

// A File is one source file of the repository.
type File struct {
	Path string // relative to the root, with slashes
	Text string
}

// Dir returns the folder of f relative to the root; "." is the root.
func (f File) Dir() string { return path.Dir(f.Path) }

// IsTest reports whether f is a Go test file.
func (f File) IsTest() bool { return strings.HasSuffix(f.Path, "_test.go") }

// A Tree is the repository's own text: Go, Lua, Markdown and the lint rules.
type Tree []File

// Load reads the tree under root. It leaves out what the go command leaves out
// (testdata, vendor, names that start with . or _) and what make builds.
func Load(root fs.FS) (Tree, error) {
	var t Tree
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && leftOut(d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		switch path.Ext(name) {
		case ".go", ".lua", ".md":
		default:
			if name != lintRules {
				return nil
			}
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		t = append(t, File{Path: name, Text: string(text)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("lawtest: reading the tree: %w", err)
	}
	return t, nil
}

func leftOut(dir string) bool {
	switch dir {
	case "bin", "node_modules", "testdata", "vendor":
		return true
	}
	return dir[0] == '.' || dir[0] == '_'
}

// with returns the files whose name ends in suffix.
func (t Tree) with(suffix string) Tree {
	var out Tree
	for _, f := range t {
		if strings.HasSuffix(f.Path, suffix) {
			out = append(out, f)
		}
	}
	return out
}

// parsed is a Go file with its syntax.
type parsed struct {
	File
	fset *token.FileSet
	ast  *ast.File
}

// parse reads f as Go. A file that does not parse is a violation of its own,
// and ok is false.
func parse(fset *token.FileSet, f File) (p parsed, bad Violation, ok bool) {
	syntax, err := parser.ParseFile(fset, f.Path, f.Text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return parsed{}, Violation{Path: f.Path, Text: "is no Go file: " + err.Error()}, false
	}
	return parsed{File: f, fset: fset, ast: syntax}, Violation{}, true
}

// eachGo calls law on every Go file that keep selects and collects what it
// reports.
func (t Tree) eachGo(keep func(File) bool, law func(parsed) []Violation) []Violation {
	var out []Violation
	for _, f := range t.with(".go") {
		if !keep(f) {
			continue
		}
		p, bad, ok := parse(token.NewFileSet(), f)
		if !ok {
			out = append(out, bad)
			continue
		}
		out = append(out, law(p)...)
	}
	return out
}

// at makes a violation for the place pos of p.
func (p parsed) at(pos token.Pos, format string, args ...any) Violation {
	return Violation{Path: p.Path, Line: p.line(pos), Text: fmt.Sprintf(format, args...)}
}

func (p parsed) line(pos token.Pos) int { return p.fset.Position(pos).Line }

// imports maps the names that p uses for its imports to their paths.
func (p parsed) imports() map[string]string {
	names := make(map[string]string)
	for _, spec := range p.ast.Imports {
		names[importName(spec)] = importPath(spec)
	}
	return names
}

func importPath(spec *ast.ImportSpec) string { return strings.Trim(spec.Path.Value, "`\"") }

// importName is the name in the file, or what the package is called by custom:
// the last element of its path that is no version.
func importName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	name := importPath(spec)
	if base := path.Base(name); len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		name = path.Dir(name)
	}
	return path.Base(name)
}

// selected returns the import path and name of a selector such as time.Now, or
// "" if the selector is not one on an import.
func selected(imports map[string]string, n ast.Node) (pkg, name string) {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return imports[id.Name], sel.Sel.Name
}
