package redislua

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/zlnode/zlnode/store"
	"github.com/zlnode/zlnode/store/storetest"
)

// documented is the command of docs/STORE.md that makes the Store's user.
func documented(t *testing.T) []any {
	t.Helper()
	page, err := os.ReadFile("../../docs/STORE.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if words := strings.Fields(line); len(words) > 3 && words[0] == "ACL" && words[1] == "SETUSER" {
			args := make([]any, len(words))
			for i, word := range words {
				args[i] = word
			}
			return args
		}
	}
	t.Fatal("docs/STORE.md makes no user")
	return nil
}

// aclServer is a server whose user zlnode is the documented one, changed by rules.
func aclServer(t *testing.T, rules ...any) (p *redisProcess, url string) {
	t.Helper()
	p = startRedis(t)
	p.do(documented(t)...)
	p.do(append([]any{"ACL", "SETUSER", "zlnode"}, rules...)...)
	return p, "redis://zlnode:secret@" + p.addr + "/3"
}

func TestDocumentedUserMayDoEverythingAndNothingMore(t *testing.T) {
	p, url := aclServer(t)
	p.do("CONFIG", "RESETSTAT")
	t.Run("Conformance", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store {
			t.Cleanup(func() { p.do("FLUSHALL") })
			return openStore(t, url)
		})
	})
	waits := openStore(t, url, func(o *Options) { o.WaitReplicas = 1 })
	waits.options.WaitReplicas = 0 // Open has tried WAIT; there is no replica
	s := newStage(t, waits)
	s.everything()
	heard := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error)
	go func() { ended <- s.WatchNodes(ctx, func() { heard <- struct{}{} }) }()
	<-heard // it listens
	if reason, err := s.RemoveNode(within(t), s.a); err != nil || reason != store.Applied {
		t.Fatalf("RemoveNode = %v, %v", reason, err)
	}
	<-heard
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	used := map[string]bool{}
	for line := range strings.Lines(p.raw.Info(within(t), "commandstats").Val()) {
		if name, is := strings.CutPrefix(line, "cmdstat_"); is {
			used[name[:strings.IndexByte(name, ':')]] = true
		}
	}
	for _, word := range documented(t) {
		if command, is := strings.CutPrefix(word.(string), "+"); is && !used[command] {
			t.Errorf("the documented user may use %s, which nothing needs", command)
		}
	}
	if denied := p.do("ACL", "LOG").([]any); len(denied) > 0 {
		t.Errorf("the documented user was denied %v", denied)
	}
}

func TestOpenRefusesAUserWhoseFailoversNobodyWouldSee(t *testing.T) {
	for command, names := range map[string]func(*Options){
		"info": func(*Options) {},
		"wait": func(o *Options) { o.WaitReplicas = 1 },
	} {
		p, url := aclServer(t, "-"+command)
		o := Options{URL: url, Namespace: namespaces + randomHex()}
		names(&o)
		s, err := Open(within(t), o)
		if s != nil || !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), strings.ToUpper(command)) ||
			!strings.Contains(err.Error(), p.addr) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open without %s = %v, %v; want ErrUnavailable that names it and the address", command, s, err)
		}
	}
}

// TestUserThatLosesInfoIsRefused: no script goes on as if the server had no history.
func TestUserThatLosesInfoIsRefused(t *testing.T) {
	p, url := aclServer(t)
	s := newScene(t, openStore(t, url))
	p.do("ACL", "SETUSER", "zlnode", "-info")
	if c, err := s.Reserve(within(t), s.request("player-1")); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "replication id") {
		t.Errorf("Reserve = %+v, %v; want ErrUnavailable that names INFO", c, err)
	}
	p.do("ACL", "SETUSER", "zlnode", "+info")
	s.reserve(s.request("player-1"), store.Applied)
}
