package lawtest

import (
	"strings"
	"testing"
)

// core makes a file of the relay core out of imports and the body of a function.
func core(imports, body string) Tree {
	return Tree{{Path: "relay/source.go", Text: "package relay\n\n" + imports + "\n\nfunc f() {\n" + body + "\n}\n"}}
}

func TestPureCodeIsNoViolation(t *testing.T) {
	got := CoresArePure(core(
		`import ("time"; "errors"; "crypto/sha256"; "github.com/zlnode/zlnode/internal/clock")`,
		`var d time.Duration = 3*time.Second; var m clock.Mono; _ = m.Add(d); _ = sha256.New; _ = errors.New`))
	caught(t, got)
}

func TestGoroutinesAndChannelsInCoresAreCaught(t *testing.T) {
	for what, body := range map[string]string{
		"starts no goroutine": `go f()`,
		"waits for nothing":   `select {}`,
		"has no channels":     `var c chan int; _ = c`,
		"sends on no":         `c <- 1`,
		"receives from no":    `<-c`,
	} {
		caught(t, CoresArePure(core("", body)), "relay/source.go:6: a core "+what)
	}
}

func TestForbiddenImportsOfCoresAreCaught(t *testing.T) {
	for _, pkg := range []string{
		"context", "crypto/rand", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http",
		"os", "os/exec", "runtime", "runtime/debug", "sync", "sync/atomic", "syscall",
	} {
		caught(t, CoresArePure(core(`import _ "`+pkg+`"`, "")), "relay/source.go:3: import of "+pkg+" in a core: ")
	}
	caught(t, CoresArePure(core(`import . "errors"`, "")), "relay/source.go:3: a core imports errors by dot")
}

func TestPackagesThatOnlyLookForbiddenAreAllowed(t *testing.T) {
	caught(t, CoresArePure(core(`import ("example.org/net"; "iter"; "logic"; "osm")`, "")))
}

func TestReadingTheClockInACoreIsCaughtUnderAnyName(t *testing.T) {
	for _, c := range []struct{ imports, body, want string }{
		{`import "time"`, `_ = time.Now()`, "time.Now"},
		{`import "time"`, `wait := time.After; _ = wait`, "time.After"},
		{`import t "time"`, `t.Sleep(1)`, "time.Sleep"},
		{`import "github.com/zlnode/zlnode/internal/clock"`, `_ = clock.Now()`, module + "/internal/clock.Now"},
	} {
		caught(t, CoresArePure(core(c.imports, c.body)), "relay/source.go:6: "+c.want+" in a core")
	}
}

func TestOnlyTheCreditGateMayUseAtomics(t *testing.T) {
	const text = "package link\n\nimport \"sync/atomic\"\n"
	caught(t, CoresArePure(Tree{{Path: "internal/link/credit_gate.go", Text: text}}))
	caught(t, CoresArePure(Tree{{Path: "internal/link/slot.go", Text: text}}), "internal/link/slot.go:3: import of sync/atomic")
	caught(t, CoresArePure(Tree{{Path: "relay/credit.go", Text: text}}), "relay/credit.go:3: import of sync/atomic")
	caught(t, CoresArePure(Tree{{Path: "internal/link/credit.go", Text: "package link\n\nimport \"sync\"\n"}}),
		"internal/link/credit.go:3: import of sync in a core")
}

func TestOnlyCodeOfCoresIsHeldPure(t *testing.T) {
	const text = "package x\n\nimport \"sync\"\n\nfunc f() { go f() }\n"
	for _, name := range []string{"engine/conn.go", "relay/source_test.go", "sessions/a.go", "store/relay.go"} {
		caught(t, CoresArePure(Tree{{Path: name, Text: text}}))
	}
	if got := CoresArePure(Tree{{Path: "session/route/seal.go", Text: text}}); len(got) != 2 {
		t.Errorf("a package below a core: %v", got)
	}
}

func TestListsOfCoresThatDifferAreCaught(t *testing.T) {
	var rules strings.Builder
	for range 2 {
		for _, c := range cores {
			rules.WriteString(`- "${base-path}/` + c + `/**.go"` + "\n")
		}
	}
	filter := "path-except: ^(" + strings.Join(cores, "|") + ")/\n"
	file := func(text string) Tree { return Tree{{Path: ".golangci.yml", Text: text}} }

	caught(t, CoreListsAgree(file(rules.String()+filter)))
	caught(t, CoreListsAgree(file(strings.Replace(rules.String(), "/relay/", "/relais/", 1)+filter)),
		".golangci.yml: relay is a core")
	caught(t, CoreListsAgree(file(rules.String()+strings.Replace(filter, "|relay", "", 1))),
		".golangci.yml: forbidigo must be limited")
	caught(t, CoreListsAgree(nil), ".golangci.yml: is missing")
}
