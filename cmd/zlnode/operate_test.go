package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/admin"
)

func TestCommandsOfOperatorsNameWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := file("token", "a token of some length\nand a second line")
	for line, want := range map[string]string{
		"status":                                 "name the address of its admin port",
		"status a b":                             "name the address of its admin port",
		"relocate node-1":                        `"node-1" is no address of an admin port`,
		"cordon 127.0.0.1:":                      `"127.0.0.1:" is no address`,
		"status 10.0.0.1:7800":                   `"10.0.0.1:7800" is no address of an admin port`,
		"status example.org:7800":                "or behind a tunnel",
		"status 127.0.0.1:1":                     "there is no token",
		"status 127.0.0.1:1 --token-file " + dir: "the token cannot be read",
		"status 127.0.0.1:1 --token-file " + dir + "/none":                                       "no such file",
		"status 127.0.0.1:1 --token-file " + file("short", "short\n"):                            "there is no token of 16 bytes",
		"status 127.0.0.1:1 --token-file " + file("large", strings.Repeat("x", secretFileMax+1)): "larger than 64 KiB",
		"status 127.0.0.1:1 --token-file " + token:                                               "127.0.0.1:1 does not answer",
		"cordon 127.0.0.1:1 --token-file " + token + " --pass-file " + dir + "/none":             "the passes cannot be read",
		"relocate 127.0.0.1:1 --token-file " + token + " --safe":                                 "--safe is of --watch",
		"relocate 127.0.0.1:1 --token-file " + token + " --timeout 0s":                           "--timeout 0s is less than 1ms",
		"shutdown 127.0.0.1:1 --token-file " + token + " --timeout 2h":                           "--timeout 2h0m0s is not in 1s to 1h0m0s",
	} {
		status, out, errs := runHere(strings.Fields(line)...)
		if status != 1 || out != "" || !strings.HasPrefix(errs, "zlnode: ") || !strings.Contains(errs, want) {
			t.Errorf("zlnode %s: status %d, output %q, error %q, want %q", line, status, out, errs, want)
		}
	}
	t.Setenv(tokenEnv, "another token of some length")
	if status, _, errs := runHere("status", "127.0.0.1:1"); status != 1 || !strings.Contains(errs, "does not answer") {
		t.Errorf("with the token in the environment: status %d, %q", status, errs)
	}
}

// A relocation is shown by a line for each news, with each object that is blocked once.
func TestARelocationIsShownAsItGoes(t *testing.T) {
	var out strings.Builder
	v := relocationView{out: &out}
	now := time.Now()
	soon := now.Add(90 * time.Second)
	r := admin.Relocation{Running: true, Deadline: now.Add(time.Hour), Units: []admin.Units{
		{Kind: "Actor", Total: 10, Left: 3, Moving: 2}, {Kind: "SpotWideSpot", Total: 2, Blocked: 1},
	}, Blocked: []admin.BlockedUnit{{Kind: "SpotWideSpot", ID: "room 1", Reason: "StateIncompatible", Text: "why"}}, EstimatedEnd: &soon}
	for range 2 {
		if err := v.show(&r); err != nil {
			t.Fatal(err)
		}
	}
	r.Result = &admin.Result{Outcome: "Blocked", Reason: "StateIncompatible"}
	if err := v.show(&r); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) > 3 || !strings.HasPrefix(lines[0], "3 of 12 moved, 2 moving, 6 to go, 1 blocked; ends in about 1m") ||
		strings.Count(out.String(), `blocked: SpotWideSpot "room 1": StateIncompatible: why`) != 1 {
		t.Errorf("it shows\n%s", out.String())
	}
	for want, r := range map[string]admin.Relocation{
		"not counted yet; 1m0s left of its time": {Running: true, Deadline: now.Add(time.Minute)},
		"1 of 2 moved, 0 moving, 0 to go, 0 blocked; 1 at no node that is known; Blocked: RelocationFailed": {
			Units: []admin.Units{{Total: 2, Left: 1, Lost: 1}}, Result: &admin.Result{Outcome: "Blocked", Reason: "RelocationFailed"},
		},
		"1 of 1 moved, 0 moving, 0 to go, 0 blocked; Relocated; safe to shut down": {
			Units: []admin.Units{{Total: 1, Left: 1}}, Result: &admin.Result{Outcome: "Relocated", Reason: "None"}, SafeToShutdown: true,
		},
		"1 of 2 moved, 1 moving, 0 to go, 0 blocked; Blocked: DeadlineExceeded; members of spots yet follow these": {
			Units: []admin.Units{{Total: 2, Left: 1, Moving: 1}}, RunsOn: true, Result: &admin.Result{Outcome: "Blocked", Reason: "DeadlineExceeded"},
		},
	} {
		if got := progressText(&r, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
