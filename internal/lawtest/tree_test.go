package lawtest

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

// root is the repository's root, seen from this package.
const root = "../.."

func TestTheTreeKeepsEveryLaw(t *testing.T) {
	tree, err := Load(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(tree, func(f File) bool { return f.Path == "internal/lawtest/tree_test.go" }) {
		t.Fatalf("%s is not the root of the repository", root)
	}
	laws := map[string]func(Tree) []Violation{
		"CoreListsAgree":      CoreListsAgree,
		"CoresArePure":        CoresArePure,
		"FilesAreShort":       FilesAreShort,
		"MapOrderStaysInside": func(tree Tree) []Violation { return MapOrderStaysInside(tree, compiled(t)) },
		"NothingIsLeftOpen":   NothingIsLeftOpen,
		"ScriptsAreExplained": ScriptsAreExplained,
		"ScriptsAreUsed":      ScriptsAreUsed,
		"TestsDoNotSleep":     TestsDoNotSleep,
		"TestsFindLeaks":      TestsFindLeaks,
	}
	for name, law := range laws {
		t.Run(name, func(t *testing.T) {
			for _, v := range law(tree) {
				t.Error(v)
			}
		})
	}
}

// compileOnce asks the go command once for all tests: it takes a while.
var compileOnce = sync.OnceValues(func() (func(string) (io.ReadCloser, error), error) {
	dir, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	return CompiledImports(dir)
})

// compiled returns where the packages are that cores import.
func compiled(t *testing.T) func(pkg string) (io.ReadCloser, error) {
	t.Helper()
	exports, err := compileOnce()
	if err != nil {
		t.Fatal(err)
	}
	return exports
}

func TestLoadTakesSourcesAndLeavesOutFixtures(t *testing.T) {
	tree, err := Load(fstest.MapFS{
		"a.go":                    {},
		"docs/b.md":               {},
		"scripts/lua/c.lua":       {},
		".golangci.yml":           {},
		"relay/testdata/d.go":     {},
		"bin/e.go":                {},
		".git/f.md":               {},
		"_old/g.go":               {},
		"store/data.txt":          {},
		"internal/node/vendor.go": {},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range tree {
		got = append(got, f.Path)
	}
	want := ".golangci.yml a.go docs/b.md internal/node/vendor.go scripts/lua/c.lua"
	if strings.Join(got, " ") != want {
		t.Errorf("loaded %q, want %q", got, want)
	}
}

func TestAFileThatIsNoGoIsReported(t *testing.T) {
	caught(t, CoresArePure(Tree{{Path: "relay/a.go", Text: "pack age"}}), "relay/a.go: is no Go file")
}

// caught checks that got is one violation per want, in order, each beginning
// with it.
func caught(t *testing.T, got []Violation, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d violations, want %d:", len(got), len(want))
		for _, v := range got {
			t.Errorf("\t%s", v)
		}
		return
	}
	for i, v := range got {
		if !strings.HasPrefix(v.String(), want[i]) {
			t.Errorf("violation %d is %q, want %q…", i, v, want[i])
		}
	}
}
