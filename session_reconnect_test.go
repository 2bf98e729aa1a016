package zlnode_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
	"github.com/zlnode/zlnode/session"
)

// watched returns options of a client that comes back at once, and what it is told.
func watched(addr string) (client.Options, chan error, chan error) {
	connected, ended := make(chan error, 100), make(chan error, 1)
	return client.Options{
		Addr: addr, Reconnect: true, BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond,
		OnState: func(s client.State, err error) {
			switch s {
			case client.StateConnected:
				connected <- err
			case client.StateEnded:
				ended <- err
			case client.StateDisconnected:
			}
		},
	}, connected, ended
}

func shutdown(t *testing.T, n *zlnode.Node) {
	t.Helper()
	if err := n.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func dialWatched(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		<-c.Done()
	})
	return c
}

// Two clients of one player would else take its place from each other for ever.
func TestAClientWhosePlaceIsTakenDoesNotComeBack(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage) {
		o, connected, ended := watched(s.gateway.SessionAddrs()[0].String())
		first := dialWatched(t, o)
		if err := first.RequestJSON(s.ctx, "login", login{ID: "a"}, nil); err != nil {
			t.Fatal(err)
		}
		s.dial(t).login("a")
		told, ok := errors.AsType[*client.ClosedError](<-ended)
		if !ok || told.Reason != session.ServerDrain || session.ClosingWord(told.Diag) != session.WordReplaced || len(connected) != 0 {
			t.Errorf("ended with %+v after %d connections more", told, len(connected))
		}
		<-first.Done()
	})
}

func TestAClientThatDoesNotAuthenticateDoesNotComeBackAndOneOfAStoppedNodeDoes(t *testing.T) {
	start := func(addr string) *zlnode.Node {
		app := zlnode.NewApp()
		v := zlnode.DefineSession(app, "player", func(*zlnode.SessionContext) (*visitor, error) { return &visitor{}, nil })
		zlnode.Authenticate(v, "login", func(_ *zlnode.SessionCall, _ *visitor, in login) (string, error) {
			if in.ID != "ada" {
				return "", zlnode.Errorf(zlnode.Rejected, "you are not known here")
			}
			return in.ID, nil
		})
		n, err := zlnode.Start(t.Context(), zlnode.Config{Sessions: []zlnode.SessionListener{{Addr: addr, Type: "player"}}}, app)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := start("127.0.0.1:0")
	addr := n.SessionAddrs()[0].String()
	for name, ask := range map[string]func(c *client.Client) error{
		"a packet before": func(c *client.Client) error { return c.RequestJSON(t.Context(), "other", 1, nil) },
		"a wrong name":    func(c *client.Client) error { return c.RequestJSON(t.Context(), "login", login{ID: "eve"}, nil) },
	} {
		o, connected, ended := watched(addr)
		c := dialWatched(t, o)
		if err := ask(c); !errors.Is(err, client.Rejected) {
			t.Errorf("%s: %v", name, err)
		}
		if told, ok := errors.AsType[*client.ClosedError](<-ended); !ok || told.Reason != session.ProtocolError || len(connected) != 0 {
			t.Errorf("%s: ended with %+v after %d connections more", name, told, len(connected))
		}
	}

	o, connected, _ := watched(addr)
	c := dialWatched(t, o)
	if err := c.RequestJSON(t.Context(), "login", login{ID: "ada"}, nil); err != nil {
		t.Fatal(err)
	}
	shutdown(t, n)
	n = start(addr)
	defer shutdown(t, n)
	if err := <-connected; err != nil {
		t.Error(err)
	}
	// The new Session knows nothing of the old one's log-in.
	if err := c.RequestJSON(t.Context(), "other", 1, nil); !errors.Is(err, client.Rejected) || !strings.Contains(err.Error(), "other") {
		t.Errorf("error %v", err)
	}
}
