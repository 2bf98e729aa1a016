package node

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

// closedAs fails the test unless a client was told that it was replaced.
func closedAs(t *testing.T, lost <-chan error, word string) {
	t.Helper()
	closed, ok := errors.AsType[*client.ClosedError](await(t, "the end of the session", lost))
	if !ok || closed.Reason != session.ServerDrain || !strings.HasPrefix(closed.Diag, word) {
		t.Errorf("the client was told %+v, want %q", closed, word)
	}
}

// A Session whose application does not know of it is closed all the same, and one whose
// callback hangs when that is too late.
func TestAReplacedSessionIsClosedWhateverItsApplicationDoes(t *testing.T) {
	for _, does := range []string{"nothing", "hang", "come late"} {
		t.Run(does, func(t *testing.T) {
			let, hangs := make(chan struct{}), make(chan context.Context, 1)
			var ran, waits atomic.Int32
			c := newClusterWith(t, func(cfg *Config, typ *SessionType) {
				cfg.ReplacedTimeout = 200 * time.Millisecond
				if does == "nothing" || cfg.RID == "c-node" {
					return
				}
				typ.OnReplaced = func(c *SessionCall, _ any, actor ActorRef) {
					ran.Add(1)
					hangs <- c
					<-let
				}
				typ.Sends = map[string]SessionSendHandler{"wait": func(*SessionCall, any, []byte) error {
					waits.Add(1)
					<-let
					return nil
				}}
			})
			cell := c.place(0, 1, binding{})
			for at := range 2 { // the Session is at the Actor's node, and at another one
				p, _, lost := c.dial(at, cell.ref)
				if does == "come late" {
					if err := p.SendJSON(c.ctx, "wait", nil); err != nil {
						t.Fatal(err)
					}
					until(t, "the handler waits", func() bool { return waits.Load() == int32(at+1) })
				}
				_, _, next := c.dial(2, cell.ref)
				if does == "hang" {
					ctx := await(t, "the callback", hangs)
					<-ctx.Done()
				}
				closedAs(t, lost, "replaced")
				select {
				case err := <-next:
					t.Errorf("the present session ended with %v", err)
				default:
				}
				if b := c.bindingOf(cell); !b.stands() || b.key.link == nil {
					t.Errorf("the actor is bound to %+v", b)
				}
			}
			close(let)
			want := uint64(2)
			if does == "nothing" {
				want = 0
			}
			failed := func() uint64 {
				return c.nodes[0].Stats().FailedCallbacks + c.nodes[1].Stats().FailedCallbacks
			}
			if does == "come late" {
				until(t, "the callbacks were not begun", func() bool { return failed() == want })
				if n := ran.Load(); n != 0 {
					t.Errorf("%d of them were", n)
				}
			} else if n := ran.Load(); n != int32(want) {
				t.Errorf("the callback ran %d times, want %d", n, want)
			}
		})
	}
}
