package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestArgumentsAreFlagsUpToTheDashes(t *testing.T) {
	for _, c := range []struct{ args, flags, packages string }{
		{"", "", "./..."},
		{"-race", "-race", "./..."},
		{"-- ./a ./b", "", "./a ./b"},
		{"-run X --", "-run X", "./..."},
		{"-race -- ./a", "-race", "./a"},
	} {
		flags, packages := split(strings.Fields(c.args))
		if strings.Join(flags, " ") != c.flags || strings.Join(packages, " ") != c.packages {
			t.Errorf("split(%q) = %q, %q", c.args, flags, packages)
		}
	}
}

func TestBooleanFlagsAreReadAsGoReadsThem(t *testing.T) {
	for args, want := range map[string]bool{
		"":                      false,
		"-race":                 true,
		"--race":                true,
		"-race=true":            true,
		"-race=false":           false,
		"-race -race=false":     false,
		"-racedetector -x=race": false,
	} {
		if got := race(strings.Fields(args)); got != want {
			t.Errorf("race(%q) = %v", args, got)
		}
	}
	if !verbose([]string{"-v"}) || verbose([]string{"-vet=off"}) {
		t.Error("verbose is not the flag -v")
	}
}

// module writes a module with one test file and makes it the working folder.
func module(t *testing.T, test string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module sample\n\ngo 1.26\n", "a_test.go": "package sample\n\n" + test} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	t.Setenv(variable, "127.0.0.1:1") // named from outside, so none is started
}

func TestAPassingModulePasses(t *testing.T) {
	module(t, `import ("os"; "testing")

func TestA(t *testing.T) {
	if os.Getenv("`+variable+`") != "127.0.0.1:1" { t.Fatal("no server named") }
}`)
	var out, errs bytes.Buffer
	if code := run(t.Context(), nil, &out, &errs); code != 0 {
		t.Errorf("exit code %d", code)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "ok  \tsample\t") || lines[1] != "tests: 1 passed, 0 failed, 0 skipped" {
		t.Errorf("printed:\n%s%s", &out, &errs)
	}
}

func TestAFailingTestFailsTheRun(t *testing.T) {
	module(t, `import "testing"

func TestA(t *testing.T) { t.Error("seven") }`)
	var out, errs bytes.Buffer
	if code := run(t.Context(), nil, &out, &errs); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"--- FAIL: TestA", "seven", "FAIL\tsample\t", "tests: 0 passed, 1 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s%s", want, &out, &errs)
		}
	}
}

func TestCodeThatDoesNotCompileFailsTheRunAndIsShown(t *testing.T) {
	module(t, `func TestA(t *testing.T) {}`)
	var out, errs bytes.Buffer
	if code := run(t.Context(), nil, &out, &errs); code == 0 {
		t.Error("exit code 0")
	}
	for _, want := range []string{"undefined: testing", "FAIL\tsample [build failed]"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s%s", want, &out, &errs)
		}
	}
}

func TestASkipForWantOfRedisFailsTheRun(t *testing.T) {
	module(t, `import "testing"

func TestA(t *testing.T) { t.Skip("`+variable+` is not set") }

func TestB(t *testing.T) { t.Skip("too short of processors") }`)
	var out, errs bytes.Buffer
	if code := run(t.Context(), nil, &out, &errs); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(out.String(), "FAIL: sample TestA was skipped for want of "+variable) {
		t.Errorf("printed:\n%s%s", &out, &errs)
	}
	if strings.Contains(out.String(), "FAIL: sample TestB") {
		t.Errorf("another skip failed the run:\n%s", &out)
	}
}

func TestAnInterruptEndsTestsThatHang(t *testing.T) {
	module(t, `import ("fmt"; "os"; "os/signal"; "testing")

func TestA(t *testing.T) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	fmt.Println("test hangs now")
	<-c
	os.Exit(0)
}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watch{text: "test hangs now", seen: cancel}
	var errs bytes.Buffer
	if code := run(ctx, []string{"-v"}, out, &errs); code != exitInterrupted {
		t.Errorf("exit code %d:\n%s%s", code, &out.all, &errs)
	}
}

// watch is a writer that calls seen once text was written.
type watch struct {
	text string
	seen func()
	once sync.Once
	all  bytes.Buffer
}

func (w *watch) Write(p []byte) (int, error) {
	n, err := w.all.Write(p)
	if strings.Contains(w.all.String(), w.text) {
		w.once.Do(w.seen)
	}
	return n, err
}

func TestInstallingAsksForTheListOfPackagesFirst(t *testing.T) {
	all := func(string) bool { return true }
	got, err := aptCommands(true, all, []string{"redis-server"})
	if err != nil || len(got) != 2 || !slices.Equal(got[0], []string{"apt-get", "update"}) ||
		!slices.Equal(got[1], []string{"apt-get", "install", "--yes", "--no-install-recommends", "redis-server"}) {
		t.Errorf("as root: %q, %v", got, err)
	}
	got, err = aptCommands(false, all, []string{"gcc", "libc6-dev"})
	if err != nil || len(got) != 2 || got[0][0] != "sudo" || !slices.Contains(got[1], "libc6-dev") {
		t.Errorf("as another user: %q, %v", got, err)
	}
}

func TestWhatCannotBeInstalledIsSaid(t *testing.T) {
	without := func(missing string) func(string) bool { return func(p string) bool { return p != missing } }
	for _, c := range []struct {
		root    bool
		missing string
	}{{true, "apt-get"}, {false, "apt-get"}, {false, "sudo"}} {
		got, err := aptCommands(c.root, without(c.missing), []string{"redis-server"})
		if err == nil {
			t.Fatalf("without %s: %q", c.missing, got)
		}
		for _, word := range []string{c.missing, "redis-server", "by hand"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("without %s: %q does not say %s", c.missing, err, word)
			}
		}
	}
}
