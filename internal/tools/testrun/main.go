// Testrun runs the tests as `make test` does: with a Redis of its own, and with
// the output that people read.
//
//	go run ./internal/tools/testrun [go test flags] -- [packages]
//
// It starts redis-server on a free loopback port with an empty folder and no
// persistence, names it to the tests in ZLNODE_TEST_REDIS, and stops it whatever
// happens. If the variable is set already, it uses that server and starts none.
// It fails if a test fails, and if a test was skipped for want of that server:
// a skip nobody reads would pass for a test.
//
// It must run on Linux. Where redis-server (or, for -race, a C compiler) is
// missing it installs Debian's package with apt-get.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// variable names the Redis of tests: HOST:PORT.
const variable = "ZLNODE_TEST_REDIS"

// grace is how long go test may take to end after it was told to.
const grace = 10 * time.Second

// The exit codes of go test are passed on; these are ours.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	// Children that must die with this process are tied to the thread that
	// started them: see startRedis.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run does the work and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags, packages := split(args)
	say := func(format string, args ...any) { fmt.Fprintf(stderr, "testrun: "+format+"\n", args...) }

	if race(flags) {
		if err := need(ctx, stderr, "gcc", "gcc", "libc6-dev"); err != nil {
			say("%v", err)
			return exitUsage
		}
	}
	addr := os.Getenv(variable)
	if addr == "" {
		if err := need(ctx, stderr, "redis-server", "redis-server"); err != nil {
			say("%v", err)
			return exitUsage
		}
		redis, err := startRedis(ctx)
		if err != nil {
			say("%v", err)
			return exitUsage
		}
		defer func() {
			if err := redis.stop(); err != nil {
				say("%v", err)
			}
		}()
		addr = redis.addr
	}
	say("%s=%s", variable, addr)

	report := newReport(stdout, verbose(flags))
	err := goTest(ctx, flags, packages, addr, report, stderr)
	report.summary()
	switch exit := (*exec.ExitError)(nil); {
	case ctx.Err() != nil:
		say("interrupted")
		return exitInterrupted
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	case err != nil:
		say("%v", err)
		return exitFailed
	case len(report.wanting) > 0:
		return exitFailed
	}
	return 0
}

// goTest runs go test and feeds its events to report.
func goTest(ctx context.Context, flags, packages []string, addr string, report *report, stderr io.Writer) error {
	args := slices.Concat([]string{"test", "-json"}, flags, packages)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), variable+"="+addr)
	cmd.Stderr = stderr
	// A group of its own, so that an interrupt ends the test binaries too, once
	// and in our order: tests first, then Redis.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = grace

	events, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("output of go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start of go test: %w", err)
	}
	readErr := report.read(events)
	err = cmd.Wait()
	if ctx.Err() != nil || readErr != nil {
		// Whatever of the group did not listen.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	return errors.Join(err, readErr)
}

// split parts the flags for go test from the packages, which stand behind "--".
// Without packages it is the whole module.
func split(args []string) (flags, packages []string) {
	flags = args
	if i := slices.Index(args, "--"); i >= 0 {
		flags, packages = args[:i], args[i+1:]
	}
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	return flags, packages
}

func race(flags []string) bool    { return on(flags, "race") }
func verbose(flags []string) bool { return on(flags, "v") }

// on reports whether the boolean flag name is among flags and not false.
func on(flags []string, name string) bool {
	set := false
	for _, f := range flags {
		switch f {
		case "-" + name, "--" + name, "-" + name + "=true", "--" + name + "=true":
			set = true
		case "-" + name + "=false", "--" + name + "=false":
			set = false
		}
	}
	return set
}
