package redislua

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// TestMain fails if goroutines are left. go-redis' own probe of an unreachable
// server sleeps a second before it sees that its pool is closed.
func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	code := m.Run()
	if err := wipe(); err != nil {
		fmt.Fprintln(os.Stderr, "test namespaces are left in Redis:", err)
		code = 1
	}
	if code == 0 {
		err := goleak.Find()
		for range 10 {
			if err == nil {
				break
			}
			err = goleak.Find() // waits up to half a second itself
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// silent drops what go-redis has to say about servers that tests took away.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// realRedis returns the URL of the server that ZLNODE_TEST_REDIS names, as host:port
// or URL, and skips the test without it.
func realRedis(t testing.TB) string {
	t.Helper()
	url := realURL()
	if url == "" {
		t.Skip("needs a redis-server: set ZLNODE_TEST_REDIS to its host:port or URL")
	}
	return url
}

func realURL() string {
	url := os.Getenv("ZLNODE_TEST_REDIS")
	if url != "" && !strings.Contains(url, "://") {
		url = "redis://" + url
	}
	return url
}

// namespaces begins the name of every namespace of this run.
var namespaces = "test-" + randomHex()[:8] + "-"

// wipe removes this run's namespaces from the real Redis.
func wipe() error {
	url := realURL()
	if url == "" {
		return nil
	}
	o, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	return remove(c, `\{zl:`+namespaces)
}

// remove removes the keys that begin so, as a pattern.
func remove(c *redis.Client, begin string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepMax)
	defer cancel()
	keys := c.Scan(ctx, 0, begin+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := c.Del(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

// wipeAtEnd removes the Store's namespace from the server when the test ends. Whatever
// looks through a namespace looks at every key of its server, so a suite that leaves
// its keys behind makes each test slower than the one before.
func wipeAtEnd(t testing.TB, s *Store, raw *redis.Client) {
	t.Helper()
	t.Cleanup(func() {
		if err := remove(raw, globEscape(s.keys.prefix)); err != nil {
			t.Error(err)
		}
	})
}

func embeddedRedis(t testing.TB) *Embedded {
	t.Helper()
	e, err := StartEmbedded("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// onBoth runs the test on the embedded Redis and, if there is one, on a real one, beside
// each other. They begin when the test's function has returned.
func onBoth(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("Embedded", func(t *testing.T) {
		t.Parallel()
		test(t, embeddedRedis(t).URL())
	})
	t.Run("Real", func(t *testing.T) {
		t.Parallel()
		test(t, realRedis(t))
	})
}

// openStore opens a Store on a namespace of its own.
func openStore(t testing.TB, url string, edit ...func(*Options)) *Store {
	t.Helper()
	o := Options{URL: url, Namespace: namespaces + randomHex(), PoolSize: 20, Timeout: stepMax, RecoveryHold: -1}
	for _, e := range edit {
		e(&o)
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// stepMax bounds a single call or wait of a test: far beyond what it takes.
const stepMax = 20 * time.Second

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stepMax)
	t.Cleanup(cancel)
	return ctx
}

// cancelable is within with an end before.
func cancelable(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithCancel(within(t))
}

// rawClient reaches the server beside the Store.
func rawClient(t testing.TB, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.DisableIdentity = true
	o.Protocol = 2
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// loadScripts makes the server know all scripts, so that each call is one EVALSHA.
func loadScripts(t testing.TB, raw *redis.Client) {
	t.Helper()
	for _, s := range lua.All() {
		if err := raw.ScriptLoad(within(t), s.Source).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx := within(t)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited %v for %s", stepMax, what)
		case <-tick.C:
		}
	}
}

func randomHex() string {
	op := newOp()
	return hex.EncodeToString(op[:])
}

func newOp() (op store.OpID) {
	_, _ = rand.Read(op[:])
	return op
}
