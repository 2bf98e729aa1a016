package zlnode_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/zlnode/zlnode"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	// Tests that are parallel mostly wait, for leases and timeouts: there are two for each
	// processor, if -parallel does not say another number. More take the time from each other
	// that those with short leases need.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // a dependency starts goroutines when it is loaded
}

var meshKey = []byte("a mesh key for tests")

// onEachStore runs f as a subtest on the embedded store, and on the Redis that
// ZLNODE_TEST_REDIS names: beside each other, as most tests mostly wait. They begin when
// the test's function has returned, so it must do nothing behind this.
func onEachStore(t *testing.T, f func(t *testing.T, w *world)) {
	onStores(t, func(t *testing.T, w func(t *testing.T) *world) {
		t.Parallel()
		f(t, w(t))
	})
}

// onEachStoreInTurn is onEachStore for a test that computes all the time. It is not
// parallel, so that what it waits for comes in time.
func onEachStoreInTurn(t *testing.T, f func(t *testing.T, w *world)) {
	onStores(t, func(t *testing.T, w func(t *testing.T) *world) { f(t, w(t)) })
}

func onStores(t *testing.T, run func(t *testing.T, w func(t *testing.T) *world)) {
	t.Run("embedded", func(t *testing.T) { run(t, onEmbedded) })
	t.Run("redis", func(t *testing.T) {
		run(t, func(t *testing.T) *world {
			url := realURL()
			if url == "" {
				t.Skip("ZLNODE_TEST_REDIS names no redis-server")
			}
			return newWorld(t, url)
		})
	})
}

func onEmbedded(t *testing.T) *world {
	e, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return newWorld(t, e.URL())
}

// realURL is that of the Redis that ZLNODE_TEST_REDIS names, or empty.
func realURL() string {
	url := os.Getenv("ZLNODE_TEST_REDIS")
	if url != "" && !strings.Contains(url, "://") {
		url = "redis://" + url
	}
	return url
}

// world is a namespace with the nodes that a test starts in it.
type world struct {
	t         *testing.T
	url       string
	namespace string
	ctx       context.Context
	made      int          // counters that createAt has created
	cut       *zlnode.Node // whose shutdown was cut short: its test has looked at the result
}

func newWorld(t *testing.T, url string) *world {
	var b [8]byte
	rand.Read(b[:])
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	w := &world{t: t, url: url, namespace: "test-" + hex.EncodeToString(b[:]), ctx: ctx}
	if url != "" && url == realURL() {
		t.Cleanup(w.wipe)
	}
	return w
}

// wipe removes the namespace: whoever looks through another one on that server would look
// at these keys too.
func (w *world) wipe() {
	o, err := redis.ParseURL(realURL())
	if err != nil {
		w.t.Error(err)
		return
	}
	o.Protocol, o.DisableIdentity = 2, true
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	found := c.Scan(ctx, 0, `\{zl:`+w.namespace+"}*", 1000).Iterator()
	for found.Next(ctx) {
		if err := c.Del(ctx, found.Val()).Err(); err != nil {
			w.t.Error(err)
			return
		}
	}
	if err := found.Err(); err != nil {
		w.t.Error(err)
	}
}

// config fills in what all nodes of the world share.
func (w *world) config(c zlnode.Config) zlnode.Config {
	c.StoreURL, c.Namespace, c.MeshKey = w.url, w.namespace, meshKey
	if c.RecoveryHold == 0 {
		c.RecoveryHold = -1 // nobody has used the namespace before
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	c.Logger = zerolog.New(zerolog.NewTestWriter(w.t)).Level(zerolog.WarnLevel)
	return c
}

// start starts a node; the test's end shuts it down.
func (w *world) start(c zlnode.Config, app *zlnode.App) *zlnode.Node {
	w.t.Helper()
	n, err := zlnode.Start(w.ctx, w.config(c), app)
	if err != nil {
		w.t.Fatalf("start %s: %v", c.RID, err)
	}
	w.t.Cleanup(func() { w.stop(n) })
	return n
}

func (w *world) stop(n *zlnode.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil && n != w.cut {
		w.t.Errorf("shutdown of %s: %v", n.RID(), err)
	}
}

// server and client start nodes of that role.
func (w *world) server(rid string, app *zlnode.App) *zlnode.Node {
	w.t.Helper()
	return w.start(zlnode.Config{RID: rid, Role: zlnode.RoleServer}, app)
}

func (w *world) client(rid string, servers int, app *zlnode.App) *zlnode.Node {
	w.t.Helper()
	n := w.start(zlnode.Config{RID: rid, Role: zlnode.RoleClient}, app)
	w.linked(n, servers)
	return n
}

// linked waits until n has links to that many object servers.
func (w *world) linked(n *zlnode.Node, servers int) {
	w.t.Helper()
	if err := n.WaitPeers(w.ctx, servers); err != nil {
		w.t.Fatal(err)
	}
}

// eventually waits until ok.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for !ok() {
		if w.ctx.Err() != nil {
			w.t.Fatalf("in vain: %s", what)
		}
		w.idle()
	}
}

// wantKind fails the test unless err is of that kind.
func wantKind(t *testing.T, err error, kind zlnode.Kind) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %v", kind)
	}
	if zlnode.KindOf(err) != kind {
		t.Fatalf("kind %v, want %v: %v", zlnode.KindOf(err), kind, err)
	}
}

// receive waits for a value that a handler sends.
func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came within 20 s")
		panic("unreachable")
	}
}
