// Fuzzsmoke runs every fuzz target of the module for a few seconds.
//
//	go run ./internal/tools/fuzzsmoke [-each 2s] [-total 2m30s] [-tags list] [packages]
//
// It finds the targets itself, so a new one is never forgotten. Each gets -each,
// or less if all of them together would go over -total; compiling is not counted.
// A failing input is written to the package's testdata/fuzz, as go test does:
// commit it with the repair.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// leastTime is the shortest time for one target: below it the start of the
	// workers is all that happens.
	leastTime = time.Second
	// spare is what a target may take beyond its time, to read its corpus and to
	// shrink a failing input, before it counts as hung.
	spare = time.Minute
	// deadlineTries bounds how often a target is run again that go test failed
	// only because its own time was over: see onlyDeadline.
	deadlineTries = 3
)

type config struct {
	each, total time.Duration
	tags        string
	packages    []string
}

func main() {
	var c config
	flag.DurationVar(&c.each, "each", 2*time.Second, "time for one target")
	flag.DurationVar(&c.total, "total", 150*time.Second, "time for all targets together")
	flag.StringVar(&c.tags, "tags", "", "build tags, separated by commas")
	flag.Parse()
	if c.packages = flag.Args(); len(c.packages) == 0 {
		c.packages = []string{"./..."}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, c, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzsmoke:", err)
		os.Exit(1)
	}
}

// run fuzzes every target and returns an error if any failed.
func run(ctx context.Context, c config, out io.Writer) (err error) {
	targets, err := find(ctx, c.tags, c.packages)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		fmt.Fprintln(out, "fuzz-smoke: no fuzz targets")
		return nil
	}
	dir, err := os.MkdirTemp("", "zlnode-fuzz-")
	if err != nil {
		return fmt.Errorf("a folder for the test binaries: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cache, err := goCache(ctx)
	if err != nil {
		return err
	}

	each := share(c.each, c.total, len(targets))
	fmt.Fprintf(out, "fuzz-smoke: %d targets, %v each\n", len(targets), each)
	var failed []error
	binaries := make(map[string]string) // by import path
	for _, t := range targets {
		binary := binaries[t.pkg]
		if binary == "" {
			binary = filepath.Join(dir, fmt.Sprintf("%d.test", len(binaries)))
			if err := compile(ctx, c.tags, t.pkg, binary); err != nil {
				return err
			}
			binaries[t.pkg] = binary
		}
		begin := time.Now()
		output, err := fuzz(ctx, t, binary, filepath.Join(cache, "fuzz"), each)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		verdict := "ok  "
		if err != nil {
			verdict = "FAIL"
			failed = append(failed, fmt.Errorf("%s: %w", t, err))
			fmt.Fprintf(out, "%s\n", output)
		}
		fmt.Fprintf(out, "%s\t%s\t%.1fs\n", verdict, t, time.Since(begin).Seconds())
	}
	fmt.Fprintf(out, "fuzz-smoke: %d passed, %d failed\n", len(targets)-len(failed), len(failed))
	return errors.Join(failed...)
}

// share returns the time of one of n targets.
func share(each, total time.Duration, n int) time.Duration {
	return max(leastTime, min(each, total/time.Duration(n)))
}

// compile builds the test binary of pkg with the instruments of the fuzzer.
func compile(ctx context.Context, tags, pkg, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-fuzz=.", "-tags="+tags, "-o", binary, pkg)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the tests of %s: %w\n%s", pkg, err, output)
	}
	return nil
}

// goCache returns the go command's cache, where the fuzzer keeps the inputs that
// it found interesting.
func goCache(ctx context.Context) (string, error) {
	answer, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOCACHE: %w", err)
	}
	return strings.TrimSpace(string(answer)), nil
}

// fuzz runs one target for about d and returns what it printed.
func fuzz(ctx context.Context, t target, binary, cache string, d time.Duration) ([]byte, error) {
	for try := 1; ; try++ {
		output, err := fuzzOnce(ctx, t, binary, cache, d)
		if err == nil || !onlyDeadline(output) || try == deadlineTries {
			return output, err
		}
	}
}

func fuzzOnce(ctx context.Context, t target, binary, cache string, d time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, d+spare)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary,
		"-test.paniconexit0",
		"-test.run=^$",
		"-test.fuzz=^"+t.name+"$",
		"-test.fuzztime="+d.String(),
		"-test.fuzzcachedir="+filepath.Join(cache, filepath.FromSlash(t.pkg)))
	cmd.Dir = t.dir
	// A group of its own: the fuzzer's workers must end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("hung: not done %v after its time: %w", spare, err)
	}
	return output, err
}

// onlyDeadline reports whether the target failed for no other reason than that
// its time was over. The go fuzzer has a race there: its deadline may reach the
// coordinator before the workers' context, and is then taken for a failure.
func onlyDeadline(output []byte) bool {
	return bytes.Contains(output, []byte("\n    context deadline exceeded\n")) &&
		!bytes.Contains(output, []byte("Failing input written to"))
}
