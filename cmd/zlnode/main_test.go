package main

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also serves as a node process of the tests of nodeProc: that starts
// its own program with the argument demo-node.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "demo-node" {
		os.Exit(fakeNode(os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // a dependency starts goroutines when it is loaded
}

// runHere executes a command line in this process.
func runHere(args ...string) (status int, stdout, stderr string) {
	var out, errs strings.Builder
	status = run(args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

func TestHelpTellsWhatThereIs(t *testing.T) {
	status, out, _ := runHere("--help")
	for _, want := range []string{"zlnode demo", "demo ", "bench ", "version ", "status ", "cordon ", "uncordon ", "relocate ", "shutdown ", "limits "} {
		if !strings.Contains(out, want) {
			t.Errorf("the help does not tell of %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "demo-node") {
		t.Errorf("the help shows the hidden command:\n%s", out)
	}
	if status != 0 {
		t.Errorf("status %d", status)
	}
	_, out, _ = runHere("demo", "--help")
	for _, flag := range []string{"--bots", "--for", "--tick", "--moves", "--store", "--json", "--verbose", "--join", "--hop", "--transport", "--rolling", "--maintenance", "--nodes", "--follow"} {
		if !strings.Contains(out, flag) {
			t.Errorf("the help of demo does not tell of %s:\n%s", flag, out)
		}
	}
	if strings.Contains(out, "admin-token-file") {
		t.Errorf("the help of demo shows the hidden flag:\n%s", out)
	}
	_, out, _ = runHere("relocate", "--help")
	for _, flag := range []string{"--watch", "--mode", "--target-version", "--timeout", "--token-file", "ZLNODE_ADMIN_TOKEN", "Exit status"} {
		if !strings.Contains(out, flag) {
			t.Errorf("the help of relocate does not tell of %s:\n%s", flag, out)
		}
	}
	_, out, _ = runHere("bench", "create", "--help")
	for _, flag := range []string{"--race", "--nodes", "--clients", "--ids", "--for", "--kill", "--store", "--json", "--verbose"} {
		if !strings.Contains(out, flag) {
			t.Errorf("the help of bench create does not tell of %s:\n%s", flag, out)
		}
	}
}

func TestWrongCommandLinesAreRefusedWithTheReason(t *testing.T) {
	for line, want := range map[string]string{
		"dmeo":                  `unknown command "dmeo"`,
		"demo now":              `unknown command "now"`,
		"demo --bots 0":         "--bots 0 is not in 1 to 10000",
		"demo --bots many":      "invalid argument",
		"demo --tick 1us":       "--tick 1µs is not in 1ms to 10s",
		"demo --for 48h":        "--for 48h0m0s is not in 100ms to 24h0m0s",
		"demo --moves -1":       "--moves -1 is not in 0 to 100",
		"demo --hop 1s":         "--join",
		"demo --transport udp":  `--transport "udp" is none of tcp, ws, tls and wss`,
		"demo join":             `demo takes no argument "join"; did you mean --join?`,
		"demo hop --join":       "did you mean --hop?",
		"demo --join --hop 1ms": "--hop 1ms is not in 10ms to 1h0m0s",
		"demo --nodes 3":        "--rolling",
		"demo-node":             "demo-node is started by `zlnode demo`",

		"demo --rolling --nodes 1":         "--nodes 1 is not in 2 to 16",
		"demo --rolling --follow 2m":       "--follow 2m0s is not in 100ms to 1m0s",
		"demo --rolling --join":            "--rolling goes without --join and --kill-gateway",
		"demo --maintenance":               "--maintenance is of nodes that are relocated",
		"bench create --race --nodes 0":    "--nodes 0 is not in 1 to 32",
		"bench create --race --clients -1": "--clients -1 is not in 1 to 256",
		"bench create --race --ids 0":      "--ids 0 is not in 1 to 1000000",
		"bench create --for 1ms":           "--for 1ms is not in 100ms to 1h0m0s",
		"bench create --race --kill 1ms":   "--kill 1ms is not 0 and not in 100ms to 1h0m0s",
	} {
		status, out, errs := runHere(strings.Fields(line)...)
		if status != 1 || out != "" || !strings.HasPrefix(errs, "zlnode: ") || !strings.Contains(errs, want) {
			t.Errorf("zlnode %s: status %d, output %q, error %q, want %q", line, status, out, errs, want)
		}
	}
}

func TestVersionTellsWhatTheBuildKnows(t *testing.T) {
	info := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}},
	}
	if got, want := versionText(info), "zlnode v1.2.3 commit 0123456789ab (modified) go"; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q…", got, want)
	}
	if got := versionText(nil); !strings.HasPrefix(got, "zlnode unknown go") {
		t.Errorf("without build information: %q", got)
	}
	if status, out, _ := runHere("version"); status != 0 || !strings.HasPrefix(out, "zlnode ") {
		t.Errorf("status %d, output %q", status, out)
	}
}
