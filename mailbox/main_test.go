package mailbox

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zlnode/zlnode/internal/buf"
)

func TestMain(m *testing.M) {
	before := buf.Live()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if n := buf.Live() - before; n != 0 {
			fmt.Fprintf(os.Stderr, "%d buffers were not freed\n", n)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long a test waits for what must happen; only a failing test
// waits that long.
const patience = 20 * time.Second

// funcs is a consumer made of functions; nil ones do nothing.
type funcs[T any] struct {
	begin   func(c *Claim[T])
	consume func(c *Claim[T], v T)
}

func (f *funcs[T]) Begin(c *Claim[T]) {
	if f.begin != nil {
		f.begin(c)
	}
}

func (f *funcs[T]) Consume(c *Claim[T], v *T) {
	taken := *v
	*v = *new(T)
	if f.consume != nil {
		f.consume(c, taken)
	}
}

// reporter is a test, or a try of a property.
type reporter interface {
	Helper()
	Error(args ...any)
}

// startPool returns a pool that is closed at the end of the test.
func startPool(t testing.TB, cfg Config) *Pool {
	t.Helper()
	p := NewPool(cfg)
	t.Cleanup(func() { closePool(t, p) })
	return p
}

func closePool(t reporter, p *Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
}

// wait receives from c.
func wait[T any](t testing.TB, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
	}
	return v
}

// eventually waits until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func mustPush[T any](t testing.TB, m *Mailbox[T], v T) {
	t.Helper()
	if err := m.Push(v, 0); err != nil {
		t.Fatalf("push of %v: %v", v, err)
	}
}
