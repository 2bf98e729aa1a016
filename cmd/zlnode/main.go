// Command zlnode is the engine's tool: `zlnode demo` runs a small world on three
// node processes and checks every message of it; `zlnode relocate` and others operate a node
// by its admin port.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/zlnode/zlnode"
)

func main() {
	redis.SetLogger(silence{})
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// silence keeps the Redis client's own lines off standard error: every failure
// that it notes there is reported by the engine, to whom it concerns.
type silence struct{}

// Printf implements the Redis client's logger.
func (silence) Printf(context.Context, string, ...any) {}

// errorPrefix begins what this program says of a failure, and the errors of the
// engine, which must not say it twice.
const errorPrefix = "zlnode: "

// errNotOK ends a command whose output has said already what is wrong.
var errNotOK = errors.New("the result is not ok")

// errTerminated ends a node process that SIGTERM has stopped in order. Its exit
// status is what shells make of that signal.
var errTerminated = errors.New("stopped by SIGTERM")

// errDisorder ends a node process that has served and stopped as it was told to, or the command
// that had one stopped, if not all of its objects could be ended in order.
var errDisorder = errors.New("not all ended in order")

// errBlocked ends a command whose output has said that a node's relocation is blocked.
var errBlocked = errors.New("the relocation is blocked")

const (
	statusTerminated = 128 + int(syscall.SIGTERM)
	statusDisorder   = zlnode.ExitDisorder
	statusBlocked    = zlnode.ExitObjectsLeft
)

// run executes the command line and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errTerminated):
		return statusTerminated
	case errors.Is(err, errBlocked):
		return statusBlocked
	case !errors.Is(err, errNotOK):
		fmt.Fprintln(stderr, errorPrefix+strings.TrimPrefix(err.Error(), errorPrefix))
	}
	if errors.Is(err, errDisorder) {
		return statusDisorder
	}
	return 1
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "zlnode",
		Short: "An engine for stateful, latency-critical servers",
		Long: `zlnode is an engine for stateful, latency-critical servers: game shards, live
rooms, order books. Programs embed it as a Go library; this tool shows it at work, and
operates nodes by their admin ports (Config.Admin).`,
		Example: "  zlnode demo\n  zlnode demo --bots 200 --for 30s\n" +
			"  zlnode relocate 127.0.0.1:7800 --watch --token-file admin.token",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(demoCommand(), benchCommand(), demoNodeCommand(), versionCommand(),
		statusCommand(), cordonCommand(), uncordonCommand(), relocateCommand(), shutdownCommand(), limitsCommand())
	return root
}
